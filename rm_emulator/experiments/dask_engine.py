"""An engine of Dask workers: the connection to a scheduler, calls on its workers, and the cells of a grid as calls.

Results come back as bytes and are written here: whether machines share a folder does not matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import dask
from distributed import Client, LocalCluster

from rm_emulator.experiments.baselines import call_of
from rm_emulator.experiments.call import Needs
from rm_emulator.experiments.cell import Cell, paths_of
from rm_emulator.experiments.dask_calls import Calls, RunFiles, greet
from rm_emulator.experiments.dask_connection import SchedulerAway, address_of, beside, in_loop, network
from rm_emulator.experiments.dask_worker import CallOutcome
from rm_emulator.experiments.pool import CellListener
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.program import cause

#: For a scheduler to answer.
_ANSWER_S: Final = 20.0
#: Of workers in this process: no samples of their stacks and no clock fifty times a second, as nobody looks at either.
_QUIET: Final = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.scheduler.work-stealing": False,
}


class DaskEngine:
    """The workers of a scheduler. where: its address, a file it wrote, or "local" for workers in this process."""

    def __init__(self, where: str, workers: int) -> None:
        self._where, self._workers = where, workers

    # -- cells ----------------------------------------------------------------------------------------

    def check(self, cells: Sequence[Cell]) -> None:
        """See `engines.CellEngine`, and `greet`."""
        self.greet(_needs(cells))

    def run_cells(self, cells: Sequence[tuple[Cell, Path]], listener: CellListener) -> None:
        """See `pool.run_cells`. Raises InvalidInput for workers of another program, and a scheduler that stays away."""
        if cells:
            with self.open(_needs([cell for cell, _ in cells]), listener.note) as calls:
                calls.submit([call_of(cell) for cell, _ in cells], _CellCalls(cells, listener))()

    # -- calls of any kind ----------------------------------------------------------------------------

    def greet(self, needs: Needs) -> None:
        """Check all workers, and bring them what calls will read.

        Raises InvalidInput for workers of another program, and for a scheduler that does not answer.
        """
        if self._where != "local":
            in_loop(self._greet(RunFiles(needs)))

    @contextmanager
    def open(self, needs: Needs, note: Callable[[str], None]) -> Iterator[Calls]:
        """A connection for many calls. note: hears of what is worth a line."""
        calls = Calls(RunFiles(needs), self.client, note, self.unreachable)
        with beside(calls.main()) as calls.running:
            yield calls

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client. Raises SchedulerAway, and InvalidInput for what is no address, or lacks certificates."""
        async with AsyncExitStack() as stack:
            where: Any = self._where
            if where == "local":
                with dask.config.set(_QUIET):
                    made = LocalCluster(
                        n_workers=self._workers,
                        threads_per_worker=1,
                        processes=False,  # the processes are those of the calls
                        dashboard_address=None,
                        memory_limit=None,
                        asynchronous=True,
                    )
                    where = await stack.enter_async_context(made)
            with network():
                if self._where.endswith(".json"):
                    where = address_of(Path(where))
                try:
                    made = Client(where, asynchronous=True, set_as_default=False, timeout=_ANSWER_S)
                    client = await stack.enter_async_context(made)
                except (TypeError, ValueError) as error:
                    raise InvalidInput([Issue(f"scheduler {self._where}", str(error))]) from None
            yield client

    async def _greet(self, files: RunFiles) -> None:
        try:
            async with self.client() as client:
                await greet(client, files)
        except SchedulerAway as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: SchedulerAway) -> InvalidInput:
        """What is said of a scheduler that does not answer."""
        return InvalidInput([Issue(f"scheduler {self._where}", f"does not answer: {error}")])


def _needs(cells: Sequence[Cell]) -> Needs:
    return Needs(list(dict.fromkeys(path for cell in cells for path in paths_of(cell.scenario, cell.plugins))))


class _CellCalls:
    """Listens to the calls of cells: writes the files of finished cells, and tells the listener of the grid."""

    def __init__(self, cells: Sequence[tuple[Cell, Path]], listener: CellListener) -> None:
        self._cells, self._listener = cells, listener
        self.progress, self.silent = listener.progress, listener.silent

    def ended(self, index: int, outcome: CallOutcome) -> None:
        why, text = outcome.why, outcome.traceback
        if outcome.status is not None:
            self._listener.progress(index, outcome.status)
        try:
            for name, content in outcome.files.items():
                (self._cells[index][1] / name).write_bytes(content)
        except OSError as error:
            why = text = cause(error)
        if why:
            self._listener.failed(index, why, text or f"{why}\n")
        else:
            self._listener.finished(index, outcome.worker)
