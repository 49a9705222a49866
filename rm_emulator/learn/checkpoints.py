"""A training run on disk: one file, whole or not at all, without a pickle, from which it goes on bit by bit."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput, Issue

#: Goes up whenever a checkpoint of before cannot be gone on from.
FORMAT: Final = 1
NAME: Final = "checkpoint.npz"
_STATE: Final = "state"


class State(msgspec.Struct, kw_only=True):
    """Where a run is. iteration: the next one. config: digest of what it was begun with.

    weights: packed, as they are now; behind: those that play the next iteration's episodes, which are begun before the
    weights are final; average: of those of recent iterations, which are validated; best: the average of the least
    validation score, at `best_iteration`.
    references: validation JCTs by workload, s, of `capped_sjf` and of `random`. moments, steps: of the optimiser.
    area_s, time_s: live jobs integrated over time, and the time, of recent episodes. elapsed_s: of wall time so far.
    """

    config: str
    iteration: int = 0
    weights: bytes = b""
    behind: bytes = b""
    average: bytes = b""
    best: bytes = b""
    best_score: float = float("inf")
    best_iteration: int = -1
    references: tuple[tuple[float, ...], ...] = ()
    moments: dict[str, NDArray[Any]] = {}
    steps: int = 0
    area_s: float = 0.0
    time_s: float = 0.0
    elapsed_s: float = 0.0


_BYTES: Final = ("weights", "behind", "average", "best")


def save(state: State, folder: Path) -> None:
    """Write it; the one before stays until this is on the disk. Raises OSError, for a full disk too."""
    values = msgspec.structs.asdict(state)
    arrays: dict[str, NDArray[Any]] = {name: np.frombuffer(values.pop(name), np.uint8) for name in _BYTES}
    arrays |= {f"moments/{name}": array for name, array in values.pop("moments").items()}
    # JSON knows no infinity: msgspec writes null.
    arrays[_STATE] = np.frombuffer(msgspec.json.encode({"format": FORMAT, **values}), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    write_file(folder / NAME, stream.getvalue(), sync=True)


def load(folder: Path) -> State:
    """The last state. Raises InvalidInput for a file that is none, damaged, or of another version."""
    path = folder / NAME
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        said = msgspec.json.decode(arrays.pop(_STATE).tobytes())
        if said.pop("format") != FORMAT:
            raise ValueError("written by another version")
        moments = {name.removeprefix("moments/"): arrays.pop(name) for name in list(arrays) if "/" in name}
        packed = {name: arrays[name].tobytes() for name in _BYTES}
        said["best_score"] = float("inf") if said["best_score"] is None else said["best_score"]
        said["references"] = tuple(map(tuple, said["references"]))
        return State(**said, **packed, moments=moments)
    except FileNotFoundError:
        raise InvalidInput([Issue(str(folder), f"holds no training run to go on with ({NAME} is missing)")]) from None
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, msgspec.MsgspecError) as error:
        raise InvalidInput([Issue(str(path), f"no checkpoint that can be gone on with: {error}")]) from None
