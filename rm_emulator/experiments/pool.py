"""Runs cells in processes of this machine (`process`)."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from rm_emulator.experiments.baselines import call_of, compute
from rm_emulator.experiments.cell import Cell
from rm_emulator.experiments.process import CallProcess, Watch
from rm_emulator.experiments.status import Status
from rm_emulator.program import cause


class CellListener(Protocol):
    """Listener to the progress and the end of cells, known by their index."""

    def progress(self, index: int, status: Status) -> None:
        """Progress of the cell; on a cluster without totals when the cell begins."""

    def silent(self, index: int, seconds: float, where: str) -> None:
        """Nothing was heard of the cell for so long. where: the line of Python at work there, '' if unknown."""

    def finished(self, index: int, worker: str = "") -> None:
        """The cell's directory is complete. worker: who computed the cell, on a cluster."""

    def failed(self, index: int, why: str, traceback: str) -> None:
        """The cell failed, or its process died: the cause in a sentence, and a traceback."""

    def note(self, text: str) -> None:
        """Something about the whole that is worth a line."""


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
    busy: dict[Connection, CallProcess] = {}
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
    watch, over = Watch(), threading.Event()

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


def _start(busy: dict[Connection, CallProcess], waiting: list[tuple[int, tuple[Cell, Path]]]) -> None:
    worker = CallProcess()
    busy[worker.pipe] = worker
    _assign(worker, waiting)


def _assign(worker: CallProcess, waiting: list[tuple[int, tuple[Cell, Path]]]) -> None:
    index, (cell, directory) = waiting.pop()
    worker.assign(index, call_of(cell).packed(), directory)


def _receive(
    busy: dict[Connection, CallProcess],
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
        _assign(worker, waiting)
    else:
        del busy[pipe]
        worker.stop()


def cores() -> int:
    """Number of cores of the calling process."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
