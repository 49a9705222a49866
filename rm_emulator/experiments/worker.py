"""The program of a `process.CallProcess`: reads from a pipe, computes a call, answers with the outcome.

[package, ...]              the program's own versions are asked for, and those of more packages (`metadata.program`)
(call, directory, moved)    a packed call, and the parts of its `CallPlace`
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rm_emulator.experiments.status import Status

_EVERY_S: Final = 0.1
#: Without any message the process ends. Of a grid's processes none waits so long; a Dask worker starts another.
_IDLE_S: Final = 60.0


def main(descriptor: int, stack: int) -> None:
    """Work until the pipe is closed, by the parent's wish or its end.

    descriptor: of the pipe. stack: of a file to which SIGUSR1 has the present stack written.
    """
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    from rm_emulator.experiments import metadata
    from rm_emulator.experiments.call import CallPlace, compute
    from rm_emulator.program import cause

    sys.stdout = sys.stderr  # what a plug-in prints; what C libraries print ends in the parent's choice, nowhere
    pipe: Connection[Any, Any] = Connection(descriptor)
    pipe.send(("ready",))
    while pipe.poll(_IDLE_S):
        try:
            work = pipe.recv()
        except EOFError:
            return
        if isinstance(work, list):
            pipe.send(("program", metadata.program(work)))
            continue
        call, directory, moved = work
        try:
            result = compute(call, CallPlace(directory, moved, _Throttled(pipe)))
        except BrokenPipeError:
            return  # the parent is gone: nobody wants the result
        except (Exception, SystemExit) as error:
            pipe.send(("failed", cause(error), traceback.format_exc()))
        else:
            pipe.send(("finished", result))


class _Throttled:
    """Sends progress at most ten times a second."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe, self._next = pipe, 0.0

    def __call__(self, status: Status) -> None:
        now = time.monotonic()
        if now >= self._next or status.tasks == status.of_tasks:
            self._next = now + _EVERY_S
            self._pipe.send(("progress", status))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
