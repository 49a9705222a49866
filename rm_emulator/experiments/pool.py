"""Runs cells in worker processes, each a fresh interpreter that computes a cell at a time.

Workers are plain subprocesses with a pipe rather than a `multiprocessing` pool: a script calling `rm_emulator.run`
needs no `__main__` guard, Ctrl-C reaches the parent alone (workers lead their own session), and a killed worker takes
only its own cell with it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Protocol

from rm_emulator.experiments.baselines import compute
from rm_emulator.experiments.cell import Cell, Status
from rm_emulator.program import cause

_GRACE_S: Final = 2.0


class CellListener(Protocol):
    """Listener to the progress and the end of cells, known by their index."""

    def progress(self, index: int, status: Status) -> None:
        """Progress of the cell."""

    def finished(self, index: int) -> None:
        """The cell's directory is complete."""

    def failed(self, index: int, why: str, traceback: str) -> None:
        """The cell failed, or its process died: the cause in a sentence, and a traceback."""


def run_cells(cells: Sequence[tuple[Cell, Path]], jobs: int, listener: CellListener) -> None:
    """Compute each cell into its directory, `jobs` at a time; with a single job in the calling process.

    A failing cell is reported and all other cells go on. KeyboardInterrupt is raised again after the end of all
    workers.
    """
    if jobs <= 1 or len(cells) <= 1:
        for index, (cell, directory) in enumerate(cells):
            _run_here(index, cell, directory, listener)
        return
    waiting = list(enumerate(cells))[::-1]  # taken from the end
    busy: dict[Connection, _Worker] = {}
    try:
        for _ in range(min(jobs, len(cells))):
            _start(busy, waiting)
        while busy:
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                _receive(busy, pipe, waiting, listener)
    finally:
        for worker in busy.values():
            worker.stop()


def _run_here(index: int, cell: Cell, directory: Path, listener: CellListener) -> None:
    try:
        compute(cell, directory, lambda status: listener.progress(index, status))
    except (Exception, SystemExit) as error:
        listener.failed(index, cause(error), traceback.format_exc())
    else:
        listener.finished(index)


def _start(busy: dict[Connection, _Worker], waiting: list[tuple[int, tuple[Cell, Path]]]) -> None:
    worker = _Worker()
    busy[worker.pipe] = worker
    worker.assign(waiting.pop())


def _receive(
    busy: dict[Connection, _Worker],
    pipe: Connection,
    waiting: list[tuple[int, tuple[Cell, Path]]],
    listener: CellListener,
) -> None:
    worker = busy[pipe]
    try:
        kind, *data = pipe.recv()
    except (EOFError, OSError):
        del busy[pipe]
        why = worker.exit_cause()
        listener.failed(worker.index, why, f"{why}\n")
        if waiting:
            _start(busy, waiting)
        return
    if kind == "progress":
        listener.progress(worker.index, *data)
        return
    if kind == "finished":
        listener.finished(worker.index)
    else:
        listener.failed(worker.index, *data)
    if waiting:
        worker.assign(waiting.pop())
    else:
        del busy[pipe]
        worker.stop()


class _Worker:
    """A subprocess and its current cell."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        # Workers fill the cores themselves; threads inside each would only get in each other's way.
        environment = {**os.environ, "PYTHONPATH": path, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
            [sys.executable, "-m", "rm_emulator.experiments.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()  # else the pipe would stay open here, and a worker's death would go unheard
        self.index = -1

    def assign(self, work: tuple[int, tuple[Cell, Path]]) -> None:
        self.index, (cell, directory) = work
        with contextlib.suppress(OSError):  # it died before it began: the pipe's end says so
            self.pipe.send((cell, directory))

    def exit_cause(self) -> str:
        """Cause of a process's end, as far as known."""
        try:
            code = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.stop()
            code = self._process.returncode
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        memory = " (signal 9 is often the kernel running out of memory)" if code == -9 else ""
        return f"the worker process ended with {end} before the cell was done{memory}"

    def stop(self) -> None:
        """End the process, with force after a grace period."""
        self.pipe.close()
        self._process.terminate()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def cores() -> int:
    """Number of cores of the calling process."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
