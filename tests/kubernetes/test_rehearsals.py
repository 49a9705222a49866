"""DagJobs with deadlines behind the extender: rehearsed beside the deciding, promised on their status, replayed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from operators.client import stamp
from operators.extender.rehearsals import rehearse_once
from operators.extender.status import StatusWriter, promise_status
from schedulers.core.policy import Promise
from schedulers.core.replay import Replay
from schedulers.objects.dagjob import DagJob, PromiseStatus
from tests.kubernetes.world import World, stage

#: Tasks are estimated at a minute: nothing is known of them.
MINUTE = 60_000


def world() -> World:
    return World((8, 8), policy="jockey", predictor="point_estimate", period_ms=1_000, dead_zone_ms=0, variation=0)


def submit(there: World, minutes: float, *, tasks: int = 16) -> DagJob:
    return there.submit(stage("a", tasks), deadline=stamp(there.now() + round(minutes * MINUTE)))


def cycle(there: World) -> None:
    there.create_pods()
    there.brain.driver.dirty = True
    there.brain.cycle()


def play(there: World) -> None:
    asyncio.run(rehearse_once(there.brain))


class Promises:
    """Takes what is reported of promises, and lets all else pass."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, PromiseStatus]] = []

    def report_promise(self, key: str, *, uid: str, promise: PromiseStatus) -> None:
        self.heard.append((key, promise))

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def promises(there: World) -> list[tuple[str, PromiseStatus]]:
    recorder: Any = Promises()
    StatusWriter(there.brain, recorder).go_round()
    return list(recorder.heard)


def held(there: World, job: DagJob) -> int:
    return there.brain.scheduler.state.jobs[f"{job.key}.{job.metadata.uid[:8]}"].executors


def test_a_dagjob_gets_the_pods_that_it_needs_and_a_promise() -> None:
    there = world()
    large = there.submit(stage("a", 100))
    due = submit(there, 5)  # 4 of them take 4 minutes, which are counted 1.2 times
    play(there)
    cycle(there)
    assert (held(there, due), held(there, large)) == (4, 12)
    ((key, promise),) = promises(there)
    assert (key, promise.containers, promise.marginSeconds) == (due.key, 4, 0.0)
    assert promises(there) == []


def test_before_it_is_rehearsed_it_is_served_as_any_other() -> None:
    there = world()
    large = there.submit(stage("a", 100))
    due = submit(there, 5)
    cycle(there)
    assert (held(there, due), held(there, large)) == (0, 16)


def test_a_deadline_in_the_past_is_one_that_cannot_be_met() -> None:
    there = world()
    there.submit(stage("a", 100))
    due = submit(there, -5)
    play(there)
    cycle(there)
    assert held(there, due) == 16


def test_of_a_job_that_is_gone_nothing_is_told() -> None:
    there = world()
    due = submit(there, 5)

    async def gone_meanwhile() -> None:
        playing = asyncio.ensure_future(rehearse_once(there.brain))
        await asyncio.sleep(0)
        there.brain.scheduler.state.jobs.pop(f"{due.key}.{due.metadata.uid[:8]}")
        await playing

    asyncio.run(gone_meanwhile())
    there.log.flush()
    assert b'"event":"Rehearsed"' not in there.logs[-1]


def test_the_log_replays_without_a_play() -> None:
    there = world()
    there.submit(stage("a", 100))
    submit(there, 5)
    play(there)
    for _ in range(3):
        there.clock += 1_000
        cycle(there)
    there.log.flush()
    lines = bytes(there.logs[-1]).splitlines(keepends=True)
    replay = Replay(lines)
    assert sum(1 for _ in replay) == replay.events > 3
    assert replay.compared == len(lines)


def test_a_new_leader_shows_the_promise_again_and_wishes_for_what_was_not_told() -> None:
    there = world()
    due = submit(there, 5)
    there.new_leader(there.snapshot())
    there.clock += 1_000
    cycle(there)
    play(there)
    assert [key for key, _ in promises(there)] == [due.key]
    there.new_leader(there.snapshot())
    assert [key for key, _ in promises(there)] == [due.key]


@pytest.mark.parametrize(
    ("finish", "margin", "message"),
    [
        (36_120_000, 180_000, "finishes 10:02 ± 3 min, deadline 10:10"),
        (36_120_000, 9_400, "finishes 10:02 ± 9 s, deadline 10:10"),
        (36_120_000 + 86_400_000, 0, "finishes 1970-01-02 10:02 ± 0 s, deadline 1970-01-01 10:10"),
    ],
)
def test_a_promise_is_a_sentence(finish: int, margin: int, message: str) -> None:
    promise = Promise(finish=finish, margin=margin, deadline=36_600_000, made=36_000_000, containers=4)
    shown = msgspec.to_builtins(promise_status(promise))
    assert shown["message"] == message
    assert shown["revisedTime"] == "1970-01-01T10:00:00Z"
