"""Progress of a running grid on standard error: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from rm_emulator.experiments.cell import Cell
from rm_emulator.experiments.status import Status
from rm_emulator.results.story import clock

#: Seconds between two lines of a cell at work.
EVERY_S: Final = 60.0


class Display:
    """Listener to the progress of a grid's cells; the base class shows nothing."""

    def begin(self, cells: Sequence[Cell], done: Sequence[Cell]) -> None:
        """The grid's cells, and the cells among them finished by an earlier run."""

    def again(self, cell: Cell, file: str) -> None:
        """The cell was complete once and is computed again, as its file has changed since."""

    def progress(self, cell: Cell, status: Status) -> None:
        """How far the cell is."""

    def silent(self, cell: Cell, seconds: float, where: str) -> None:
        """Nothing was heard of the cell for so long; see `pool.Work`."""

    def finished(self, cell: Cell) -> None:
        """The cell is complete."""

    def failed(self, cell: Cell) -> None:
        """The cell failed; why is said at the end."""

    def note(self, text: str) -> None:
        """Something about the whole that is worth a line."""

    def end(self) -> None:
        """Nothing more will be shown."""


class Lines(Display):
    """For logs: a line per finished cell, and a line a minute of each cell at work.

    clock: seconds that pass. every_s: between two lines of a cell.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, every_s: float = EVERY_S) -> None:
        self._clock, self._every_s = clock, every_s
        self._cells = self._done = 0
        self._begun: dict[Cell, float] = {}
        self._said: dict[Cell, tuple[float, Status]] = {}  # when the last line was due, and what it was of
        self._latest: dict[Cell, Status] = {}

    def begin(self, cells: Sequence[Cell], done: Sequence[Cell]) -> None:
        """See Display."""
        self._cells, self._done = len(cells), len(done)
        if done:
            _print(f"{len(done)} of {len(cells)} runs are there already")

    def again(self, cell: Cell, file: str) -> None:
        """See Display."""
        _print(_damage(cell, file))

    def silent(self, cell: Cell, seconds: float, where: str) -> None:
        """See Display."""
        _print(_silence(cell, seconds, where))

    def progress(self, cell: Cell, status: Status) -> None:
        """See Display."""
        now = self._clock()
        self._begun.setdefault(cell, now)
        self._latest[cell] = status
        since, before = self._said.setdefault(cell, (now, status))
        if now - since >= self._every_s and status.tasks < status.of_tasks:
            self._said[cell] = now, status
            _print(f"{_name(cell)}: {_so_far(status, (status.tasks - before.tasks) / (now - since))}")

    def finished(self, cell: Cell) -> None:
        """See Display."""
        self._done += 1
        now = self._clock()
        took = now - self._begun.get(cell, now)
        tasks = self._latest[cell].of_tasks if cell in self._latest else 0
        _print(f"[{self._done}/{self._cells}] {_name(cell)}: {tasks:,} tasks in {took:.1f} s")

    def failed(self, cell: Cell) -> None:
        """See Display."""
        self._done += 1
        _print(f"[{self._done}/{self._cells}] {_name(cell)}: FAILED")

    def note(self, text: str) -> None:
        """See Display."""
        _print(text)


class Bars(Display):
    """A bar for the whole grid, by tasks rather than runs for even movement, and a bar per cell at work."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[count]}", justify="right"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._each: dict[Cell, TaskID] = {}
        self._share: dict[Cell, float] = {}
        self._cells = self._done = self._width = 0
        self._sum = 0.0  # of the shares

    def begin(self, cells: Sequence[Cell], done: Sequence[Cell]) -> None:
        """See Display."""
        self._cells, self._done = len(cells), len(done)
        self._width = max(len(_name(cell)) for cell in cells)
        todo = len(cells) - len(done)
        self._all = self._bars.add_task("all runs".ljust(self._width), total=max(1, todo), count=self._count())
        if done:
            self._bars.console.print(f"{len(done)} of {len(cells)} runs are there already", highlight=False)
        self._bars.start()

    def again(self, cell: Cell, file: str) -> None:
        """See Display."""
        self._bars.console.print(_damage(cell, file), highlight=False)

    def silent(self, cell: Cell, seconds: float, where: str) -> None:
        """See Display."""
        self._bars.console.print(_silence(cell, seconds, where), highlight=False)

    def progress(self, cell: Cell, status: Status) -> None:
        """See Display."""
        done, total = status.tasks, status.of_tasks
        bar = self._each.get(cell)
        if bar is None:
            bar = self._each[cell] = self._bars.add_task(_name(cell).ljust(self._width), total=total, count="")
        self._bars.update(bar, completed=done, total=total, count=f"{done:,}/{total:,} tasks")
        self._move(cell, done / max(1, total))

    def finished(self, cell: Cell) -> None:
        """See Display."""
        self._close(cell)

    def failed(self, cell: Cell) -> None:
        """See Display."""
        self._close(cell)
        self._bars.console.print(f"{_name(cell)}: FAILED", highlight=False)

    def note(self, text: str) -> None:
        """See Display."""
        self._bars.console.print(text, highlight=False)

    def _close(self, cell: Cell) -> None:
        bar = self._each.pop(cell, None)
        if bar is not None:
            self._bars.remove_task(bar)
        self._done += 1
        self._move(cell, 1.0)
        self._bars.update(self._all, count=self._count())

    def _move(self, cell: Cell, share: float) -> None:
        self._sum += share - self._share.get(cell, 0.0)
        self._share[cell] = share
        self._bars.update(self._all, completed=self._sum)

    def _count(self) -> str:
        return f"{self._done}/{self._cells} runs"

    def end(self) -> None:
        """See Display."""
        self._bars.stop()


def _name(cell: Cell) -> str:
    return f"{cell.title} seed {cell.seed}"


def _silence(cell: Cell, seconds: float, where: str) -> str:
    at = f", at work in {where}" if where else ""
    return f"{_name(cell)}: nothing heard for {seconds:.0f} s{at}; does a plug-in's code come to an end?"


def _damage(cell: Cell, file: str) -> str:
    return f"{_name(cell)} runs again: {file} is not as its run left it"


def _so_far(status: Status, per_s: float) -> str:
    """Finished tasks and jobs, tasks per second, and waiting tasks and jobs."""
    tasks = f"{status.tasks:,} of {status.of_tasks:,} tasks, {per_s:,.0f} tasks/s"
    if not status.of_jobs:
        return tasks
    waits = f"{status.waiting_tasks:,} tasks of {status.waiting_jobs:,} jobs wait"
    return f"{clock(status.now_ms)} simulated, {status.jobs:,} of {status.of_jobs:,} jobs and {tasks}, {waits}"


def display() -> Display:
    """Bars where standard error is a terminal, else lines."""
    return Bars() if sys.stderr.isatty() else Lines()


def _print(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
