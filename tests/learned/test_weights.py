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
from safetensors.numpy import save

import schedulers.learned
from schedulers.core.errors import InvalidWeights
from schedulers.learned.model_store import SHIPPED
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
    """The file with other metadata."""

    def change(header: dict[str, Any]) -> None:
        network = msgspec.json.decode(header["__metadata__"]["network"])
        header["__metadata__"]["network"] = msgspec.json.encode(network | said).decode()

    return with_header(change)


def with_arrays(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The file with other arrays, written whole."""
    arrays = dict(WEIGHTS.arrays)
    change(arrays)
    size = int.from_bytes(FILE[:8], "little")
    return save(arrays, msgspec.json.decode(FILE[8 : 8 + size])["__metadata__"])


def test_what_was_packed_is_unpacked() -> None:
    found = unpack(pack(msgspec.structs.replace(WEIGHTS, about={"seed": "7"})), "w")
    assert (found.architecture, found.about) == (WEIGHTS.architecture, {"seed": "7"})
    assert found.arrays.keys() == WEIGHTS.arrays.keys()
    assert all((found.arrays[name] == array).all() for name, array in WEIGHTS.arrays.items())


def test_equal_weights_are_equal_bytes() -> None:
    assert {pack(msgspec.structs.replace(WEIGHTS, about={"a": "1", "b": "2", "c": "3"})) for _ in range(20)} == {
        pack(msgspec.structs.replace(WEIGHTS, about={"a": "1", "b": "2", "c": "3"}))
    }


@pytest.mark.parametrize(("name", "parameters"), [("decima", 12_724), ("released", 5_186)])
def test_the_networks_are_as_large_as_their_docs_say(name: str, parameters: int) -> None:
    assert ARCHITECTURES[name].parameters == parameters


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "w: 0 bytes that are no weights, or only their beginning"),
        (FILE[:-1], "24,591 bytes that are no weights, or only their beginning"),
        (FILE[:100], "100 bytes that are no weights, or only their beginning"),
        (pickle.dumps({"a": 1}), "this is a pickle or an archive, as torch.save writes; weights are safetensors"),
        (b"PK\x03\x04" + bytes(20), "this is a pickle or an archive"),
        ((9).to_bytes(8, "little") + b"{" + bytes(20), "29 bytes that are no weights, or only their beginning"),
        (with_header(lambda header: header.pop("__metadata__")), "these are weights of something else"),
        (about(format="0"), "weights of format 0; this version reads 1 to 3"),
        (about(node_features="to_start work"), "node_features 'to_start work'; this version has 'to_start work dur"),
        (about(architecture='{"kind":"x"}'), "an architecture that is not known here: "),
        (about(architecture='{"embedding":0,"hidden":[1],"heads":[1]}'), "an architecture with layers of (0, 1, 1)"),
        (about(architecture='{"embedding":9,"hidden":[16,8],"heads":[32,16,8],"summaries":false}'), "is float32 "),
        (about(ranges="{"), "ranges of training that cannot be read: "),
        (about(ranges='{"jobs":[2,1]}'), "'jobs' has no range from low to high (known: unknown, executors, jobs, "),
        (about(ranges='{"tide":[1,2]}'), "'tide' has no range from low to high (known: "),
        (about(rule="best"), "unknown rule 'best' (known: capped_sjf, fair, priced, proportional, random)"),
        (with_arrays(lambda arrays: arrays.pop("stage.0.bias")), "beginning with 'stage.0.bias'"),
        (with_arrays(lambda arrays: arrays.update({"stage.0.bias": np.zeros(32)})), "'stage.0.bias' is float64 (32,)"),
        (
            with_header(lambda header: header["stage.0.bias"].update(data_offsets=["a", 4])),
            "24,584 bytes that are no weights, or only their beginning",
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


def test_weights_of_which_some_bytes_were_lost_are_refused() -> None:
    data = bytearray(pack(initial(ARCHITECTURES["released"], np.random.default_rng(1))))
    data[-200:-100] = bytes(100)
    with pytest.raises(InvalidWeights, match="w: damaged: its numbers are not those that were written"):
        unpack(bytes(data), "w")
