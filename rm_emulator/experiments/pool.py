"""Runs cells in worker processes, each a fresh interpreter that computes a cell at a time.

Workers are plain subprocesses with a pipe rather than a `multiprocessing` pool: a script calling `rm_emulator.run`
needs no `__main__` guard, Ctrl-C reaches the parent alone (workers lead their own session), and a killed worker takes
only its own cell with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
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
#: Code of a policy that never returns looks like this; reported again after twice the time, and so on.
SILENCE_S: Final = 60.0
#: For a worker to write down where it is.
_WRITING_S: Final = 0.5


#: The innermost frame of a stack as `faulthandler` writes it.
_FRAME: Final = re.compile(r'File "(.*)", line (\d+) in (\S+)\n')


class CellListener(Protocol):
    """Listener to the progress and the end of cells, known by their index."""

    def progress(self, index: int, status: Status) -> None:
        """Progress of the cell."""

    def silent(self, index: int, seconds: float, where: str) -> None:
        """Nothing was heard of the cell for so long. where: the line of Python at work there, '' if unknown."""

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
            for pipe in wait(list(busy), timeout=min(worker.watch.left_s for worker in busy.values())):
                assert isinstance(pipe, Connection)
                _receive(busy, pipe, waiting, listener)
            for worker in busy.values():
                if worker.watch.is_due:
                    listener.silent(worker.index, worker.watch.reported(), worker.where())
    finally:
        for worker in busy.values():
            worker.stop()


def _run_here(index: int, cell: Cell, directory: Path, listener: CellListener) -> None:
    here = threading.get_ident()
    watch, over = _Watch(), threading.Event()

    def look() -> None:
        while not over.wait(watch.left_s):
            if watch.is_due:
                frame = sys._current_frames().get(here)
                where = f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}" if frame else ""
                listener.silent(index, watch.reported(), where)

    def report(status: Status) -> None:
        watch.heard()
        listener.progress(index, status)

    threading.Thread(target=look, daemon=True).start()
    try:
        compute(cell, directory, report)
    except (Exception, SystemExit) as error:
        listener.failed(index, cause(error), traceback.format_exc())
    else:
        listener.finished(index)
    finally:
        over.set()


class _Watch:
    """How long nothing was heard of a cell."""

    def __init__(self) -> None:
        self.heard()

    def heard(self) -> None:
        self._heard, self._wait_s = time.monotonic(), SILENCE_S

    @property
    def left_s(self) -> float:
        """Until a report is due."""
        return max(0.0, self._heard + self._wait_s - time.monotonic())

    @property
    def is_due(self) -> bool:
        return self.left_s == 0.0

    def reported(self) -> float:
        """Seconds of silence so far; the next report is due after twice the time."""
        passed = time.monotonic() - self._heard
        self._wait_s = 2 * passed
        return passed


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
    worker.watch.heard()
    if kind == "ready":
        worker.is_ready = True
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
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `stop`, or with the worker)
        self.watch, self.is_ready = _Watch(), False
        root = str(Path(__file__).parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        # Workers fill the cores themselves; threads inside each would only get in each other's way.
        environment = {**os.environ, "PYTHONPATH": path, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        passed = [theirs.fileno(), self._stack.fileno()]
        self._process = subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
            [sys.executable, "-m", "rm_emulator.experiments.worker", *map(str, passed)],
            pass_fds=passed,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()  # else the pipe would stay open here, and a worker's death would go unheard
        self.index = -1

    def assign(self, work: tuple[int, tuple[Cell, Path]]) -> None:
        self.index, (cell, directory) = work
        self.watch.heard()
        with contextlib.suppress(OSError):  # it died before it began: the pipe's end says so
            self.pipe.send((cell, directory))

    def where(self) -> str:
        """The line at which the process is at work, '' if unknown; it writes the stack down even while C code runs."""
        if not self.is_ready:  # the signal would end it
            return ""
        self._stack.truncate(0)
        self._process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + _WRITING_S
        while time.monotonic() < until:
            time.sleep(_WRITING_S / 20)
            self._stack.seek(0)
            found = _FRAME.search(self._stack.read().decode(errors="replace"))
            if found is not None:
                return "{}:{}, {}".format(*found.groups())
        return ""

    def exit_cause(self) -> str:
        """Cause of a process's end, as far as known."""
        self._stack.close()
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
        self._stack.close()
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
