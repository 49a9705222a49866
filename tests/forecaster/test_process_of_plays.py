"""Answers from the process of the plays: the answers of `simulate`, or the reason why there are none."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from forecaster.answers import DRAWS, Answers, MemoryUnusable, NoAnswer, Plays
from operators.client import stamp
from rm_emulator.forecasts.asked import Question, ask_present
from rm_emulator.forecasts.present import present_of
from schedulers.core.events import JobSubmitted, NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, PastJob, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.objects.dagjob import ExpectedStatus, ExpectedTimes
from schedulers.objects.memory import HISTORY, SNAPSHOT, BrainSnapshot
from tests.forecasts.memories import config_maps, of_one_node

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
