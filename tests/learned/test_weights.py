"""Weights as a file: what was written is read, and everything else is one clear message."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import schedulers.learned
from schedulers.core.errors import InvalidWeights
from schedulers.learned.shelf import SHIPPED
from schedulers.learned.weights import ARCHITECTURES, Weights, initial, pack, unpack

WEIGHTS = initial(ARCHITECTURES["released"], np.random.default_rng(1))
FILE = pack(WEIGHTS)


def with_header(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The file with its header changed."""
    size = int.from_bytes(FILE[:8], "little")
    header = msgspec.json.decode(FILE[8 : 8 + size])
    change(header)
    changed = msgspec.json.encode(header)
    return len(changed).to_bytes(8, "little") + changed + FILE[8 + size :]


def about(**said: str) -> bytes:
    return with_header(lambda header: header["__metadata__"].update(said))


def test_what_was_packed_is_unpacked() -> None:
    found = unpack(pack(msgspec.structs.replace(WEIGHTS, about={"seed": "7"})), "w")
    assert (found.architecture, found.about) == (WEIGHTS.architecture, {"seed": "7"})
    assert found.arrays.keys() == WEIGHTS.arrays.keys()
    assert all((found.arrays[name] == array).all() for name, array in WEIGHTS.arrays.items())


@pytest.mark.parametrize(("name", "parameters"), [("decima", 12_724), ("released", 5_186)])
def test_the_networks_are_as_large_as_their_docs_say(name: str, parameters: int) -> None:
    assert ARCHITECTURES[name].parameters == parameters


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "w: 0 bytes that are no weights, or only their beginning"),
        (FILE[:-1], "'limit.3.bias' lies beyond the file's end; it was cut off or damaged"),
        (FILE[:100], "100 bytes that are no weights, or only their beginning"),
        (pickle.dumps({"a": 1}), "this is a pickle or an archive, as torch.save writes; weights are safetensors"),
        (b"PK\x03\x04" + bytes(20), "this is a pickle or an archive"),
        ((9).to_bytes(8, "little") + b"{" + bytes(20), "no header of weights: "),
        (with_header(lambda header: header.pop("__metadata__")), "these are weights of something else"),
        (about(format="0"), "weights of format 0; this version reads 1"),
        (about(node_features="to_start work"), "node_features 'to_start work'; this version has 'to_start work dur"),
        (about(architecture='{"kind":"x"}'), "an architecture that is not known here: "),
        (about(architecture='{"embedding":0,"hidden":[1],"heads":[1]}'), "an architecture with layers of (0, 1, 1)"),
        (about(architecture='{"embedding":9,"hidden":[16,8],"heads":[32,16,8],"summaries":false}'), "is F32 "),
        (with_header(lambda header: header.pop("stage.0.bias")), "beginning with 'stage.0.bias'"),
        (with_header(lambda header: header["stage.0.bias"].update(dtype="F64")), "'stage.0.bias' is F64 "),
        (
            with_header(lambda header: header["stage.0.bias"].update(data_offsets=["a", 4])),
            "'stage.0.bias': Expected `int`",
        ),
    ],
)
def test_other_files_are_refused_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(InvalidWeights) as error:
        unpack(data, "w")
    assert str(error.value).startswith("w: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_weights_that_are_no_numbers_are_refused() -> None:
    arrays = {**WEIGHTS.arrays, "limit.0.bias": np.full_like(WEIGHTS.arrays["limit.0.bias"], np.nan)}
    with pytest.raises(InvalidWeights, match=r"'limit.0.bias' has numbers that are none"):
        unpack(pack(Weights(WEIGHTS.architecture, arrays)), "w")


@pytest.mark.parametrize("name", SHIPPED)
def test_the_file_beside_weights_that_ship_is_about_these(name: str) -> None:
    folder = Path(schedulers.learned.__file__).parent / "trained"
    about = json.loads((folder / f"{name}.json").read_text())
    assert about["sha256"] == hashlib.sha256((folder / about["weights"]).read_bytes()).hexdigest()
