"""Answers from the process of the plays: the answers of `simulate`, or the reason why there are none."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, cast

import msgspec
import pytest

from forecaster.answers import DRAWS, Answers, MemoryUnusable, NoAnswer, Plays, WentAstray
from operators.client import Client, stamp
from operators.extender.snapshots import Snapshots
from rm_emulator.forecasts.asked import Question, ask_present
from rm_emulator.forecasts.present import present_of
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, ContainerStarted, Event, HistoryPrimed, JobSubmitted, NodeAdded, Tick
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, PastJob, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.objects.dagjob import ExpectedStatus, ExpectedTimes
from schedulers.objects.memory import HISTORY, SNAPSHOT, BrainSnapshot, Piece
from tests.forecasts.memories import config_maps, of_one_node
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, run_virtual

JOB = "n/nightly-1.12345678"
READ_MS = 1_800_000_000_000


def of_a_job(*past: PastJob) -> list[dict[str, Any]]:
    """A job of 4 tasks on a node with room for 2, and jobs that have ended."""
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="cycle"))
    scheduler.handle(NodeAdded(1, Node(id="n1", capacity=(2000, 4096))))
    stage = Stage(name="s", tasks=4, demand=(1000, 1024))
    scheduler.handle(JobSubmitted(2, Job(id=JOB, name="nightly", stages=(stage,))))
    snapshot = msgspec.msgpack.encode(BrainSnapshot(scheduler.snapshot(), {}))
    return [*config_maps(SNAPSHOT, snapshot), *config_maps(HISTORY, msgspec.msgpack.encode(past))]


def answered(maps: list[dict[str, Any]], within_s: float = 60) -> Answers:
    async def main() -> Answers:
        plays = Plays()
        try:
            return (await plays(maps, READ_MS, whole=True, within_s=within_s)).answers
        finally:
            await plays.end()

    return asyncio.run(main())


@pytest.mark.slow
def test_answers_are_those_of_simulate_as_text() -> None:
    past = [PastJob(name="nightly", submitted=0, finished=9000, stages=((4, 9000.0 + 100 * i),)) for i in range(10)]
    maps = of_a_job(*past)
    question = Question(at_ms=0, draws=DRAWS, earlier=0, tries=False)
    (job,) = ask_present(present_of(maps, read_ms=READ_MS), question).jobs
    assert job.start is not None
    start, finish = ([stamp(ms) for ms in msgspec.structs.astuple(each)] for each in (job.start, job.finish))
    assert answered(maps) == {
        JOB: ExpectedStatus(True, stamp(READ_MS), ExpectedTimes(*start), ExpectedTimes(*finish)),
    }
    assert stamp(READ_MS) < finish[0] < finish[2]


@pytest.mark.slow
def test_where_no_run_time_is_known_no_time_is_told() -> None:
    assert answered(of_a_job()) == {JOB: ExpectedStatus(known=False, asOf=stamp(READ_MS))}


class Brain:
    """A brain that stores its memory: nights of a recurring job on a node with room for two of its tasks."""

    def __init__(self) -> None:
        self._store, self._now, self._cut = Store(), 0, 0
        self._lines = bytearray()
        self._log = Log(self._lines.extend)
        config = SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "gs"}, predictor={"kind": "slearn"})
        self._core = Scheduler(msgspec.structs.replace(config, offers="cycle"), log=self._log)
        self._tell(NodeAdded(1, Node(id="n1", capacity=(2000, 4096))))
        past = tuple(
            PastJob(name="nightly", submitted=0, finished=9000, stages=((4, 9000.0 + 100 * i),)) for i in range(10)
        )
        self._tell(HistoryPrimed(1, past))
        self._history = msgspec.msgpack.encode(past)

    def _tell(self, event: Event) -> None:
        self._now = event.at
        for decision in self._core.handle(event):
            if isinstance(decision, Place):
                self._core.handle(ContainerStarted(self._now, decision.container))

    def submit(self, number: int) -> None:
        stage = Stage(name="s", tasks=4, demand=(1000, 1024))
        job = Job(id=f"n/nightly-{number}.12345678", name="nightly", stages=(stage,))
        self._tell(JobSubmitted(self._now + 10, job))
        self._tell(Tick(self._now + 10))

    def finish(self) -> None:
        running = min(self._core.state.containers)
        self._tell(ContainerEnded(self._now + 9000, running, 0, 9000))
        self._tell(Tick(self._now + 10))

    def maps(self, *, stored: bool) -> list[dict[str, Any]]:
        """The memory after a store of the snapshot, or of the log alone."""
        self._log.flush()
        lines = self._lines[self._cut :]
        first = self._lines.count(b"\n", 0, self._cut)
        piece = Piece("term", first, first + lines.count(b"\n"), self._now, bytes(lines))
        self._cut = len(self._lines)
        snapshot = msgspec.msgpack.encode(BrainSnapshot(self._core.snapshot(), {}))

        async def store(_: VirtualLoop) -> None:
            writer = Snapshots(cast(Client, StoreClient(self._store)))
            await (writer.store(snapshot, piece) if stored else writer.extend(piece))

        run_virtual(store)
        return [*self._store.objects.values(), *config_maps(HISTORY, self._history)]


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_a_core_that_is_kept_answers_as_one_that_is_restored_and_says_when_it_cannot() -> None:
    brain = Brain()
    brain.submit(1)
    begin = brain.maps(stored=True)
    steps = [brain.submit, lambda _: brain.finish(), brain.submit, lambda _: brain.finish()]
    memories = []
    for number, step in enumerate(steps, start=2):
        step(number)
        memories.append((brain.maps(stored=False), brain.maps(stored=True)))

    async def main() -> None:
        kept, anew = Plays(), Plays()
        first = await kept(begin, READ_MS, whole=True, within_s=60)
        assert (len(first.answers), first.place.log) == (1, "term")
        pids = set()
        for number, (log, whole) in enumerate(memories):
            read_ms = READ_MS + 1000 * number
            followed = await kept(log, read_ms, whole=False, within_s=60)
            assert followed == await anew(whole, read_ms, whole=True, within_s=60)
            pids.add(kept.pid)
        assert len(pids) == 1
        assert len(followed.answers) == 3
        assert followed.place > first.place
        # The log behind a snapshot of long ago tells as much as a snapshot.
        assert followed == await anew(memories[-1][0], read_ms, whole=True, within_s=60)
        await anew.end()
        with pytest.raises(MemoryUnusable, match=r"the log has no line \d+ any more, or is another"):
            await kept(begin, READ_MS, whole=False, within_s=60)
        with pytest.raises(WentAstray, match="no core is kept"):
            await kept(memories[-1][0], READ_MS, whole=False, within_s=60)
        assert kept.pid is not None
        os.kill(kept.pid, signal.SIGKILL)
        with pytest.raises(NoAnswer, match=r"^the process of the plays ended with -9$"):
            await kept(memories[-1][0], READ_MS, whole=True, within_s=60)
        assert kept.pid is None

    asyncio.run(main())


def test_a_memory_of_another_version_is_told_in_one_line() -> None:
    other = msgspec.msgpack.encode(BrainSnapshot(b'{"version": 99}', {}))
    with pytest.raises(MemoryUnusable, match=r"^the memory of the brain is of another version of rm-emulator: .+$"):
        answered(config_maps(SNAPSHOT, other))


def test_half_a_memory_is_told_in_one_line() -> None:
    half = of_one_node()[:-1]
    with pytest.raises(MemoryUnusable, match=r"^the memory of the brain is not whole: chunk .+ is not there$"):
        answered(half)


def test_plays_that_take_too_long_are_ended() -> None:
    with pytest.raises(NoAnswer, match=r"^no answer within 0\.01 s$"):
        answered(of_one_node(), within_s=0.01)
