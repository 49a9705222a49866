"""Cells on a Dask cluster: the run's side. What workers do is in `dask_worker`.

As many cells as there are threads are with the scheduler at any time, so nothing waits at a worker, nothing is there to
be stolen, and the memory of a run does not grow with its cells. Results come back as bytes and are written here:
whether machines share a folder does not matter. A scheduler that goes away takes the cells at work along, and no more.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import distributed
import msgspec
from distributed import Client, KilledWorker, LocalCluster
from distributed.comm import CommClosedError

from rm_emulator.experiments import dask_worker, metadata
from rm_emulator.experiments.cell import PATHS, Cell
from rm_emulator.experiments.dask_connection import SchedulerAway, address_of, in_loop, network
from rm_emulator.experiments.dask_worker import CellOutcome, RunOrder, digest_of, files_of
from rm_emulator.experiments.pool import CellListener
from rm_emulator.experiments.status import Status
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.program import cause

#: For a scheduler to answer.
_ANSWER_S: Final = 20.0
#: For a scheduler that went away to come back.
_AWAY_S: Final = 600.0
#: Between two looks at how many threads there are.
_LOOK_S: Final = 1.0
#: Processes that may die over a cell. Of workers that die the scheduler counts (`allowed-failures`, 3 unless set).
ATTEMPTS: Final = 3


class DaskEngine:
    """The workers of a scheduler. where: its address, a file it wrote, or "local" for workers in this process."""

    def __init__(self, where: str, workers: int) -> None:
        self._where, self._workers = where, workers

    def check(self, cells: Sequence[Cell]) -> None:
        """Greet all workers, and bring them the inputs of the cells. Raises InvalidInput, see `CellEngine`."""
        if self._where != "local":
            in_loop(self._greet(RunFiles(cells)))

    def run_cells(self, cells: Sequence[tuple[Cell, Path]], listener: CellListener) -> None:
        """See `pool.run_cells`. Raises InvalidInput for workers of another program, and a scheduler that stays away."""
        if cells:
            in_loop(_Run(self, cells, listener).main())

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client. Raises SchedulerAway, and InvalidInput for what is no address, or lacks certificates."""
        async with AsyncExitStack() as stack:
            where: Any = self._where
            if where == "local":
                made = LocalCluster(
                    n_workers=self._workers,
                    threads_per_worker=1,
                    processes=False,  # the processes are those of the cells
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


class RunFiles:
    """The inputs of cells, and the order that goes with each cell."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        workloads = (cell.scenario["spec"]["workload"] for cell in cells)
        named = (workload.get(name) for workload in workloads for name in PATHS)
        paths = dict.fromkeys([*(file for cell in cells for file in cell.plugins), *filter(None, named)])
        self._paths = {digest_of(Path(path)): Path(path) for path in paths}
        inputs = {str(path): digest for digest, path in self._paths.items()}
        program = {**metadata.program(), "distributed": distributed.__version__}
        self.order = RunOrder(uuid.uuid4().hex, program, inputs)

    async def bring(self, client: Client, workers: Sequence[str], digests: Sequence[str]) -> None:
        """Store inputs with some workers, by their addresses. Raises InvalidInput for workers without room."""
        contents = {digest: _contents(self._paths[digest]) for digest in digests}
        with network():
            answers = await client.run(dask_worker.store, contents, workers=list(workers), on_error="return")
        wrong = [
            text for worker, answer in answers.items() if answer is not None and (text := _refused(worker, answer))
        ]
        if wrong:
            raise InvalidInput([Issue("", text) for text in wrong])


async def greet(client: Client, files: RunFiles) -> None:
    """Check all present workers, and bring them what they lack. Raises InvalidInput for workers of another program."""
    while True:
        with network():
            answers: Mapping[str, Any] = await client.run(dask_worker.greet, files.order, on_error="return")
        wrong = [text for worker, answer in answers.items() if (text := _refused(worker, answer))]
        if wrong:
            raise InvalidInput([Issue("", text) for text in wrong])
        lacking = [answer for answer in answers.values() if isinstance(answer, CellOutcome) and answer.kind == "lacks"]
        if not lacking:
            return
        digests = dict.fromkeys(digest for answer in lacking for digest in answer.lacks)
        await files.bring(client, [answer.address for answer in lacking], list(digests))


def _refused(worker: str, answer: Any) -> str:
    """Why a worker cannot compute cells; '' for a worker that can, or that has gone."""
    if isinstance(answer, CellOutcome):
        return f"worker {answer.worker} runs another program: {answer.why}" if answer.kind == "differs" else ""
    if isinstance(answer, CommClosedError | TimeoutError):
        return ""
    return f"worker {worker} cannot compute cells: {cause(answer)}"


class _Run:
    """The cells of a run that are not done yet."""

    def __init__(self, engine: DaskEngine, cells: Sequence[tuple[Cell, Path]], listener: CellListener) -> None:
        self._engine, self._cells, self._listener = engine, cells, listener
        self._files = RunFiles([cell for cell, _ in cells])
        self._left, self._busy = set(range(len(cells))), set[int]()
        self._tries = 0

    async def main(self) -> None:
        """Compute all cells, with as many clients as schedulers come and go."""
        since: float | None = None
        while self._left:
            try:
                async with self._engine.client() as client:
                    since = None
                    await self._work(client)
            except SchedulerAway as error:
                if since is None:
                    since = time.monotonic()
                    self._listener.note("the scheduler went away; the cells at work begin again when it is back")
                if time.monotonic() - since > _AWAY_S:
                    raise self._engine.unreachable(error) from None
                await asyncio.sleep(_LOOK_S)

    async def _work(self, client: Client) -> None:
        client.subscribe_topic(dask_worker.TOPIC, self._hear)
        waiting, lanes = deque(sorted(self._left)), set[asyncio.Task[None]]()
        looked, threads, noted = 0.0, 0, False
        try:
            while waiting or lanes:
                if time.monotonic() - looked >= _LOOK_S:
                    with network():
                        threads, looked = sum((await client.nthreads()).values()), time.monotonic()
                    if not threads and not noted:
                        noted = True
                        self._listener.note("the scheduler has no workers; the cells wait for some")
                while waiting and len(lanes) < max(1, threads):
                    lanes.add(asyncio.create_task(self._cell(client, waiting.popleft())))
                await asyncio.wait(lanes, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                for lane in [lane for lane in lanes if lane.done()]:
                    lane.result()
                    lanes.discard(lane)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def _cell(self, client: Client, index: int) -> None:
        """Compute a cell, on other workers too when it lacks an input or its process dies."""
        deaths, listener = list[str](), self._listener
        self._busy.add(index)
        try:
            while True:
                outcome = await self._attempt(client, index)
                if outcome.kind == "lacks":
                    await self._files.bring(client, [outcome.address], outcome.lacks)
                    continue
                if refusal := _refused(outcome.address, outcome):
                    raise InvalidInput(refusal)
                if outcome.kind == "died":
                    deaths.append(outcome.worker)
                    if len(deaths) < ATTEMPTS:
                        continue
                break
        finally:
            self._busy.discard(index)
        self._left.discard(index)
        why, text = outcome.why, outcome.traceback
        if deaths:
            why += f" (attempts: {', '.join(deaths)})"
        try:
            for name, content in outcome.files.items():
                (self._cells[index][1] / name).write_bytes(content)
        except OSError as error:
            why = text = cause(error)
        if why:
            listener.failed(index, why, text or f"{why}\n")
        else:
            listener.finished(index, outcome.worker)

    async def _attempt(self, client: Client, index: int) -> CellOutcome:
        cell, self._tries = self._cells[index][0], self._tries + 1
        future = client.submit(
            dask_worker.compute,
            self._files.order,
            index,
            msgspec.msgpack.encode(vars(cell)),
            key=f"{cell.title.replace(' ', '-')}-{cell.seed}-{self._files.order.id}-{self._tries}",
            pure=False,
        )
        try:
            with network():
                outcome: CellOutcome = await future
        except KilledWorker as error:
            died = f"{error.allowed_failures + 1} workers died while they computed the cell"
            return CellOutcome("failed", "", why=f"{died}, the last was {error.last_worker.address}")
        except SchedulerAway:
            raise
        except Exception as error:
            raise InvalidInput(_refused("that took a cell", error)) from error
        finally:
            future.release()
        return outcome

    def _hear(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """An event of `dask_worker`, of any run."""
        _, told = event
        index = told["index"]
        if told["run"] != self._files.order.id or index not in self._busy:
            return
        if "status" in told:
            self._listener.progress(index, Status(*told["status"]))
        else:
            self._listener.silent(index, *told["silent"])


def _contents(path: Path) -> dict[str, bytes]:
    return {file.relative_to(path.parent).as_posix(): file.read_bytes() for file in files_of(path)}
