"""A training run on disk: one file, whole or not at all, without a pickle. A resumed run goes on bit by bit."""

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

#: Goes up whenever older checkpoints cannot be resumed.
FORMAT: Final = 1
NAME: Final = "checkpoint.npz"
_STATE: Final = "state"


class State(msgspec.Struct, kw_only=True):
    """State of a run. Weights are packed."""

    config: str
    """Digest of the configuration at the start."""
    iteration: int = 0
    """Number of the next iteration."""
    weights: bytes = b""
    """Weights at present."""
    behind: bytes = b""
    """Weights for the next iteration's episodes, which begin before the weights are final."""
    average: bytes = b""
    """Average over recent iterations, played in validation."""
    best: bytes = b""
    """The average with the least validation score, of `best_iteration`."""
    best_score: float = float("inf")
    best_iteration: int = -1
    references: tuple[tuple[float, ...], ...] = ()
    """Validation costs of the agent's two reference rules by workload, s."""
    moments: dict[str, NDArray[Any]] = {}
    """Moments of the optimiser."""
    steps: int = 0
    """Steps of the optimiser."""
    area_s: float = 0.0
    """Live jobs of recent episodes, integrated over time."""
    time_s: float = 0.0
    """Time of recent episodes."""
    elapsed_s: float = 0.0
    """Wall time so far."""


_BYTES: Final = ("weights", "behind", "average", "best")


def save(state: State, folder: Path) -> None:
    """Write a checkpoint; the old file stays until the new file is on the disk. Raises OSError, as for a full disk."""
    values = msgspec.structs.asdict(state)
    arrays: dict[str, NDArray[Any]] = {name: np.frombuffer(values.pop(name), np.uint8) for name in _BYTES}
    arrays |= {f"moments/{name}": array for name, array in values.pop("moments").items()}
    # JSON knows no infinity: msgspec writes null.
    arrays[_STATE] = np.frombuffer(msgspec.json.encode({"format": FORMAT, **values}), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    write_file(folder / NAME, stream.getvalue(), sync=True)


def load(folder: Path) -> State:
    """The last state. Raises InvalidInput for a missing, damaged or foreign file, and for one of another version."""
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
