"""A call: a pure function with its argument, for a process of this machine or of a Dask cluster.

Functions and arguments travel as bytes, and a Dask worker passes the bytes on to a process of its own. Imports are
light, see `process`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rm_emulator.experiments.status import Progress
from schedulers.core.errors import UserError


class CallPlace(NamedTuple):
    """Where a call is computed."""

    directory: Path
    """An empty folder, whose files are part of the result."""
    moved: Mapping[str, str]
    """Where inputs lie on this machine, by their paths on the machine of the run; without inputs at their own paths."""
    progress: Progress


class Call(NamedTuple):
    """A function of a module of the program, called with the argument and a place."""

    name: str
    """For people, and for keys of Dask."""
    function: Callable[[Any, CallPlace], Any]
    argument: Any
    group: str = ""
    """Consecutive calls of a group build the same things, which a process keeps for the next call; "" for none."""

    def packed(self) -> bytes:
        """The call for another process."""
        return pickle.dumps((self.function, self.argument), pickle.HIGHEST_PROTOCOL)


class Needs(NamedTuple):
    """What calls need of a machine besides the program itself."""

    inputs: Sequence[str]
    """Paths of the files and folders that calls read."""
    packages: Sequence[str] = ()
    """Names of packages beyond the program's requirements."""


def compute(packed: bytes, place: CallPlace) -> bytes:
    """Compute a packed call; returns the packed result. Raises whatever the function raises."""
    function, argument = pickle.loads(packed)  # noqa: S301 (of the process that started this one)
    return pickle.dumps(function(argument, place), pickle.HIGHEST_PROTOCOL)


def unpacked(result: bytes) -> Any:
    """A result."""
    return pickle.loads(result)  # noqa: S301 (of a worker, which could run any code of the call's anyway)


class CallFailed(RuntimeError):
    """A function that raised an error; the cause has the traceback of the other process."""


class CallLost(UserError, RuntimeError):
    """A call over which processes or workers died until nobody tried again."""


class RemoteTraceback(Exception):
    """The traceback of another process, as text."""
