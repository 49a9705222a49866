"""Calls on a Dask cluster: the side of the program that wants results. What workers do is in `dask_worker`.

As many calls as there are threads are with the scheduler at any time, so nothing waits at a worker, nothing is there to
be stolen, and the memory of a run does not grow with its calls. Calls of a group follow each other at one worker. A
scheduler that goes away takes the calls at work along, and no more.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, Protocol

import distributed
import msgspec
from distributed import Client, KilledWorker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from rm_emulator.experiments import dask_worker, metadata
from rm_emulator.experiments.call import Call, CallFailed, CallLost, Needs, RemoteTraceback, unpacked
from rm_emulator.experiments.dask_connection import Beside, SchedulerAway, network
from rm_emulator.experiments.dask_worker import CallOutcome, RunOrder, digest_of, files_of
from rm_emulator.experiments.status import Status
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.program import cause

#: For a scheduler that went away to come back.
_AWAY_S: Final = 600.0
#: Between two looks at how many threads there are.
_LOOK_S: Final = 1.0
#: Processes that may die over a call. Of workers that die the scheduler counts (`allowed-failures`, 3 unless set).
ATTEMPTS: Final = 3


class RunFiles:
    """The inputs of calls, and the order that goes with each call."""

    def __init__(self, needs: Needs) -> None:
        self._paths = {digest_of(Path(path)): Path(path) for path in dict.fromkeys(needs.inputs)}
        digests = {str(path): digest for digest, path in self._paths.items()}
        program = {**metadata.program(needs.packages), "distributed": distributed.__version__}
        self.order = RunOrder(uuid.uuid4().hex, program, digests, list(needs.packages))

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
        lacking = [answer for answer in answers.values() if isinstance(answer, CallOutcome) and answer.kind == "lacks"]
        if not lacking:
            return
        digests = dict.fromkeys(digest for answer in lacking for digest in answer.lacks)
        await files.bring(client, [answer.address for answer in lacking], list(digests))


def _refused(worker: str, answer: Any) -> str:
    """Why a worker cannot compute calls; '' for a worker that can, or that has gone."""
    if isinstance(answer, CallOutcome):
        return f"worker {answer.worker} runs another program: {answer.why}" if answer.kind == "differs" else ""
    if isinstance(answer, CommClosedError | TimeoutError):
        return ""
    return f"worker {worker} cannot compute anything: {cause(answer)}"


class CallListener(Protocol):
    """Listener to calls, known by their index. Its methods are called in the thread of the connection."""

    def progress(self, index: int, status: Status) -> None:
        """Progress of the call; without totals when the call begins."""

    def silent(self, index: int, seconds: float, where: str) -> None:
        """Nothing was heard of the call for so long. where: the line of Python at work there, '' if unknown."""

    def ended(self, index: int, outcome: CallOutcome) -> None:
        """The call is over: finished, failed, died or lost."""


class _Results:
    """Keeps the outcomes of calls."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls, self._outcomes = calls, dict[int, CallOutcome]()

    def progress(self, index: int, status: Status) -> None:
        pass

    def silent(self, index: int, seconds: float, where: str) -> None:
        pass

    def ended(self, index: int, outcome: CallOutcome) -> None:
        self._outcomes[index] = outcome

    def all(self) -> list[Any]:
        """In the order of the calls. Raises CallFailed and CallLost for the first call without a result."""
        found = []
        for index, call in enumerate(self._calls):
            outcome = self._outcomes.pop(index)
            if outcome.kind == "failed":
                error = CallFailed(f"{call.name} failed on {outcome.worker}: {outcome.why}")
                raise error from RemoteTraceback(f"\n{outcome.traceback}")
            if outcome.kind != "finished":
                raise CallLost(f"{call.name}: {outcome.why}")
            found.append(unpacked(outcome.result))
        return found


class CallQueue:
    """Calls that wait, by number, in groups of consecutive calls of one name. "" is the name of a call alone."""

    def __init__(self, calls: Iterable[tuple[int, str]] = ()) -> None:
        self._untouched: deque[deque[int]] = deque()
        self._begun: list[deque[int]] = []
        self._last = ""
        for number, group in calls:
            self.add(number, group)

    def add(self, number: int, group: str) -> None:
        """One more call, which joins the group before it if that has the same name and nobody has begun it."""
        if group and group == self._last and self._untouched:
            self._untouched[-1].append(number)
        else:
            self._untouched.append(deque([number]))
        self._last = group

    def next(self) -> tuple[int, deque[int]] | None:
        """The first call of a group that nobody has begun, and the others, to be taken from the left; None without any.

        Where all groups are begun, the last call of the largest: so the calls of a group are computed one after the
        other at one place, but no place is idle at the end.
        """
        if self._untouched:
            group = self._untouched.popleft()
            self._begun.append(group)
            return group.popleft(), group
        self._begun = [group for group in self._begun if group]
        return (max(self._begun, key=len).pop(), deque()) if self._begun else None


class _Batch(NamedTuple):
    """Calls that were handed in together."""

    calls: Sequence[Call]
    listener: CallListener
    left: set[int]
    """Indices of the calls that have not ended."""
    done: Future[None]


class _Piece(NamedTuple):
    """A call of a batch."""

    batch: _Batch
    at: int
    """Index in the batch."""

    @property
    def call(self) -> Call:
        return self.batch.calls[self.at]


class Calls:
    """Computes calls on the workers of a scheduler, with as many clients as schedulers come and go.

    client: connects. note: hears of what is worth a line. away: says that a scheduler stays away.
    """

    def __init__(
        self,
        files: RunFiles,
        client: Callable[[], AbstractAsyncContextManager[Client]],
        note: Callable[[str], None],
        away: Callable[[SchedulerAway], InvalidInput],
    ) -> None:
        self._files, self._client, self._note, self._away = files, client, note, away
        self._left: dict[int, _Piece] = {}  # by number, of all batches
        self._waiting = CallQueue()
        self._busy: set[int] = set()
        self._numbers, self._tries = count(), count()
        self._more = asyncio.Event()
        self.running: Beside

    def begin(self, calls: Sequence[Call]) -> Callable[[], list[Any]]:
        """Start; the returned function waits for all results, in the order of the calls.

        The function raises CallFailed and CallLost, and as `submit`'s.
        """
        results = _Results(calls)
        ended = self.submit(calls, results)

        def wait_for_all() -> list[Any]:
            ended()
            return results.all()

        return wait_for_all

    def submit(self, calls: Sequence[Call], listener: CallListener) -> Callable[[], None]:
        """Start, and tell the listener; the returned function waits until all calls have ended.

        The function raises InvalidInput for workers of another program and for a scheduler that stays away, and
        whatever the listener raises.
        """
        batch = _Batch(calls, listener, set(range(len(calls))), Future())
        if not calls:
            batch.done.set_result(None)
        self.running.loop.call_soon_threadsafe(self._take, batch)

        def wait_for_end() -> None:
            wait([batch.done, self.running.ended], return_when=FIRST_COMPLETED)
            if not batch.done.done():
                self.running.ended.result()  # raises

        return wait_for_end

    # -- in the thread of the connection --------------------------------------------------------------

    def _take(self, batch: _Batch) -> None:
        for index in range(len(batch.calls)):
            number = next(self._numbers)
            self._left[number] = _Piece(batch, index)
            self._waiting.add(number, batch.calls[index].group)
        self._more.set()

    async def main(self) -> NoReturn:
        """Compute calls until cancelled."""
        since: float | None = None
        while True:
            try:
                async with self._client() as client:
                    since = None
                    await self._work(client)
            except SchedulerAway as error:
                if since is None:
                    since = time.monotonic()
                    self._note("the scheduler went away; what was at work begins again when it is back")
                if time.monotonic() - since > _AWAY_S:
                    raise self._away(error) from None
                await asyncio.sleep(_LOOK_S)

    async def _work(self, client: Client) -> NoReturn:
        client.subscribe_topic(dask_worker.TOPIC, self._hear)
        self._waiting = CallQueue((number, piece.call.group) for number, piece in self._left.items())
        lanes = set[asyncio.Task[object]]()
        more: asyncio.Task[object] = asyncio.create_task(self._more.wait())
        looked, threads, noted = 0.0, 0, False
        try:
            while True:
                if self._left and time.monotonic() - looked >= _LOOK_S:
                    with network():
                        threads, looked = sum((await client.nthreads()).values()), time.monotonic()
                    if not threads and not noted:
                        noted = True
                        self._note("the scheduler has no workers; the work waits for some")
                while len(lanes) < max(1, threads) and (taken := self._waiting.next()):
                    lanes.add(asyncio.create_task(self._lane(client, *taken)))
                look_s = _LOOK_S if lanes else None
                ended, _ = await asyncio.wait({*lanes, more}, timeout=look_s, return_when=asyncio.FIRST_COMPLETED)
                for lane in ended & lanes:
                    lane.result()
                lanes -= ended
                if more in ended:
                    self._more.clear()
                    more = asyncio.create_task(self._more.wait())
        finally:
            for task in (*lanes, more):
                task.cancel()
            await asyncio.gather(*lanes, more, return_exceptions=True)

    async def _lane(self, client: Client, number: int, others: deque[int]) -> None:
        """Compute a call, and the others of its group where the one before was computed."""
        worker = await self._compute(client, number, "")
        while others:
            worker = await self._compute(client, others.popleft(), worker)

    async def _compute(self, client: Client, number: int, worker: str) -> str:
        """Compute a call and tell its listener. worker: address of the wished worker, or ''. Returns the last one's."""
        piece = self._left[number]
        self._busy.add(number)
        piece.batch.listener.progress(piece.at, Status(0, 0))
        try:
            outcome = await self._outcome(client, number, piece.call, worker)
        finally:
            self._busy.discard(number)
        del self._left[number]
        batch, index = piece
        batch.listener.ended(index, outcome)
        batch.left.discard(index)
        if not batch.left:
            batch.done.set_result(None)
        return outcome.address

    async def _outcome(self, client: Client, number: int, call: Call, worker: str) -> CallOutcome:
        """The end of a call, on other workers too when a worker lacks an input or the call's process dies."""
        deaths = list[str]()
        while True:
            outcome = await self._attempt(client, number, call, worker)
            if outcome.kind == "lacks":
                await self._files.bring(client, [outcome.address], outcome.lacks)
                continue
            if refusal := _refused(outcome.address, outcome):
                raise InvalidInput(refusal)
            if outcome.kind == "died":
                deaths.append(outcome.worker)
                if len(deaths) < ATTEMPTS:
                    continue
            if deaths and outcome.why:
                why = f"{outcome.why} (attempts: {', '.join(deaths)})"
                return msgspec.structs.replace(outcome, why=why)
            return outcome

    async def _attempt(self, client: Client, number: int, call: Call, worker: str) -> CallOutcome:
        name = "-".join(call.name.split())
        try:
            future = client.submit(
                dask_worker.compute,
                self._files.order,
                number,
                call.packed(),
                key=f"{name}-{self._files.order.id}-{next(self._tries)}",
                pure=False,
                workers=[worker] if worker else None,
                allow_other_workers=bool(worker),  # the wished one may be gone
            )
        except ClosedClientError as error:  # while nothing was at work
            raise SchedulerAway(str(error)) from None
        try:
            with network():
                outcome: CallOutcome = await future
        except KilledWorker as error:
            died = f"{error.allowed_failures + 1} workers died while they computed the call"
            return CallOutcome("lost", "", why=f"{died}, the last was {error.last_worker.address}")
        except SchedulerAway:
            raise
        except Exception as error:
            raise InvalidInput(_refused("that took a call", error)) from error
        finally:
            future.release()
        return outcome

    def _hear(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """An event of `dask_worker`, of any run."""
        _, told = event
        number = told["number"]
        if told["run"] != self._files.order.id or number not in self._busy:
            return
        batch, index = self._left[number]
        if "status" in told:
            batch.listener.progress(index, Status(*told["status"]))
        else:
            batch.listener.silent(index, *told["silent"])


def _contents(path: Path) -> dict[str, bytes]:
    return {file.relative_to(path.parent).as_posix(): file.read_bytes() for file in files_of(path)}
