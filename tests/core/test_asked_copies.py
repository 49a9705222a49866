"""Copies that the master of a job asks for: they wait as tasks do, and the first container to succeed is the task."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, node, replay, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Copy, Decision, Place, Preempt
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    CopyAsked,
    Heartbeat,
    JobCancelled,
    JobSubmitted,
    NodeLost,
    StageWithdrawn,
)
from schedulers.core.log import Log
from schedulers.core.model import Stage
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


def begun(policy: str = "fifo", *, nodes: int = 3, tasks: int = 1, log: Log | None = None) -> Scheduler:
    """Job a has a stage, whose task i runs in container i + 1 on node i, of one core, since 10 ms."""
    made = scheduler(policy, *(node(f"n{i}") for i in range(nodes)), log=log)
    made.handle(JobSubmitted(0, job("a", stage(tasks))))
    for number in range(tasks):
        made.handle(ContainerStarted(10, number + 1))
    return made


def told(made: Scheduler, event: object) -> list[Decision]:
    decisions = made.handle(event)
    validate(made.state)
    return [decision for decision in decisions if isinstance(decision, Place | Copy | Preempt)]


def test_a_copy_is_placed_on_another_node_like_a_waiting_task() -> None:
    made = begun()
    assert told(made, CopyAsked(20, "a", 0, 0)) == [Copy(2, "n1", "a", 0, 0)]
    there = made.state.jobs["a"].stages[0]
    assert (there.waiting, there.running, there.finished, there.copies) == (0, 1, 0, {})


def test_a_copy_stays_off_the_nodes_named_by_the_master() -> None:
    assert told(begun(), CopyAsked(20, "a", 0, 0, ("n1",))) == [Copy(2, "n2", "a", 0, 0)]


def test_without_another_node_the_copy_waits_until_the_task_has_ended() -> None:
    made = begun(nodes=2)
    made.handle(JobSubmitted(15, job("b", stage())))  # on n1
    assert told(made, CopyAsked(20, "a", 0, 0)) == []
    live = made.state.jobs["a"]
    assert (live.stages[0].waiting, live.waiting, live.hold) == (1, 1, Reason.NO_ROOM)
    assert told(made, ContainerEnded(100, 1, 0, 90)) == []
    assert not made.state.jobs.keys() & {"a"}
    assert not made.state.waiting


def test_a_copy_that_waits_gives_way_to_the_task_when_its_container_fails() -> None:
    made = begun(nodes=2)
    made.handle(JobSubmitted(15, job("b", stage())))
    told(made, CopyAsked(20, "a", 0, 0))
    assert told(made, ContainerEnded(100, 1, 1)) == [Place(3, "n0", "a", 0, 0, 1)]


def test_the_copy_wins_and_the_task_is_ended() -> None:
    made = begun()
    told(made, CopyAsked(20, "a", 0, 0))
    made.handle(ContainerStarted(30, 2))
    assert told(made, ContainerEnded(60, 2, 0, 30)) == [Preempt(1, "copy", "a")]
    assert told(made, ContainerEnded(61, 1, -102)) == []
    assert not made.state.containers


def test_with_a_lost_node_the_copy_is_the_task() -> None:
    made = begun()
    told(made, CopyAsked(20, "a", 0, 0))
    assert told(made, NodeLost(40, "n0")) == []
    assert not made.state.containers[2].copy
    assert told(made, CopyAsked(50, "a", 0, 0)) == [Copy(3, "n2", "a", 0, 0)]


def test_tasks_that_wait_start_before_copies() -> None:
    made = begun(tasks=2, nodes=2)
    told(made, CopyAsked(20, "a", 0, 0))
    assert told(made, ContainerEnded(30, 2, 1)) == [Place(3, "n1", "a", 0, 1, 1)]
    assert told(made, ContainerEnded(40, 3, 0, 5)) == [Copy(4, "n1", "a", 0, 0)]


@pytest.mark.parametrize(
    "late",
    [
        CopyAsked(70, "gone", 0, 0),
        CopyAsked(70, "a", 0, 1),
        CopyAsked(70, "a", 0, 7),
    ],
)
def test_a_copy_of_what_does_not_run_is_ignored(late: CopyAsked) -> None:
    made = begun(tasks=2, nodes=2)
    made.handle(ContainerEnded(60, 2, 0, 50))
    assert told(made, late) == []
    assert not made.state.waiting


def test_a_second_copy_is_ignored() -> None:
    made = begun()
    told(made, CopyAsked(20, "a", 0, 0))
    assert told(made, CopyAsked(30, "a", 0, 0)) == []


def test_a_gang_has_no_copies() -> None:
    made = scheduler("fifo", node("n0"), node("n1"))
    made.handle(JobSubmitted(0, job("a", Stage(name="s", tasks=1, demand=(1000, 1), gang=True))))
    with pytest.raises(InvalidTransition, match="job a has no stage 0 whose tasks run twice"):
        made.handle(CopyAsked(20, "a", 0, 0))


def test_a_withdrawn_stage_and_a_cancelled_job_start_no_copy() -> None:
    made = begun(nodes=1)
    told(made, CopyAsked(20, "a", 0, 0))
    told(made, StageWithdrawn(30, "a", 0))
    assert not made.state.waiting
    told(made, JobCancelled(40, "a"))
    assert told(made, ContainerEnded(50, 1, -107)) == []
    assert not made.state.jobs


def test_the_log_with_a_copy_replays_and_a_memory_keeps_the_ask() -> None:
    chunks: list[bytes] = []
    log = Log(chunks.append)
    made = begun(nodes=2, log=log)
    made.handle(JobSubmitted(15, job("b", stage())))
    told(made, CopyAsked(20, "a", 0, 0))
    other = Scheduler.restore(made.snapshot())
    assert other.snapshot() == made.snapshot()
    last = ContainerEnded(30, 2, 0, 5)
    assert told(made, last) == told(other, last) == [Copy(3, "n1", "a", 0, 0)]
    log.flush()
    lines = b"".join(chunks).splitlines()
    assert replay(lines) == lines


def test_a_beat_of_the_node_of_the_task_starts_no_copy() -> None:
    made = scheduler("fifo", node("n0"), node("n1"), offers="heartbeat")
    made.handle(JobSubmitted(0, job("a", stage(demand=(400, 1)))))
    made.handle(Heartbeat(5, "n0"))
    told(made, CopyAsked(20, "a", 0, 0))
    assert told(made, Heartbeat(30, "n0")) == []
    assert told(made, Heartbeat(31, "n1")) == [Copy(2, "n1", "a", 0, 0)]
