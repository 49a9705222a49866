"""What YARN does about faults, and when, by default; each answer with property and class of Hadoop 3.3.

The expiry of a node itself is in `tests/engine/test_faults.py`.
"""

from __future__ import annotations

import pytest

from rm_emulator.engine.config import TaskFaults
from rm_emulator.engine.exit_codes import KILLED_BY_MASTER
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.events import ContainerEnded, NodeLost
from tests.engine.test_faults import HOUR, Ran, batch, fault

pytestmark = pytest.mark.parametrize("profile", ["yarn", "sls"])
BEAT = 1000  # yarn.resourcemanager.nodemanagers.heartbeat-interval-ms


def quarters(tasks: int, ms: int) -> WorkloadJob:
    """A job of tasks of a quarter of a node."""
    return batch("a", tasks, ms, demand=(250, 256))


def test_a_node_heard_again_before_its_expiry_delivers_all_its_ends_at_once(profile: str) -> None:
    """Statuses pile up at NodeStatusUpdaterImpl, and the next beat that is answered has them all."""
    ran = Ran(quarters(4, 100_000), nodes=1, profile=profile, outages=[fault(50_000, "silent", 640_000)])
    assert ran.told(NodeLost) == []
    ends = {at for _, at in ran.told(ContainerEnded)}
    assert len(ends) == 1
    assert 640_000 <= ends.pop() <= 640_000 + BEAT


def test_a_node_heard_again_after_its_expiry_is_empty(profile: str) -> None:
    """RMNodeImpl.AddNodeTransition: a node listed as LOST rejoins without its containers, which went on meanwhile."""
    ran = Ran(quarters(4, 2 * HOUR), nodes=1, profile=profile, outages=[fault(50_000, "silent", HOUR)])
    lost, again = ran.kept.tasks[:4], ran.kept.tasks[4:]
    assert {(task.code, task.ended_ms) for task in lost} == {(-100, 800_000)}
    assert {(task.code, task.attempt) for task in again} == {(0, 1)}
    assert all((task.started_ms or 0) >= HOUR and task.ended_ms >= (task.started_ms or 0) + 2 * HOUR for task in again)


def test_an_unhealthy_node_is_lost_with_its_next_beat_and_not_after_the_expiry(profile: str) -> None:
    """RMNodeImpl.StatusUpdateWhenHealthyTransition: the node reports, and leaves like a lost one."""
    ran = Ran(batch("a"), profile=profile, outages=[fault(50_500, "unhealthy", HOUR)])
    ((_, at),) = ran.told(NodeLost)
    assert 50_500 <= at <= 50_500 + BEAT


def test_a_node_that_is_decommissioned_gracefully_is_forced_after_3600_s(profile: str) -> None:
    """yarn.resourcemanager.nodemanager-graceful-decommission-timeout-secs; DecommissioningNodesWatcher."""
    ran = Ran(batch("a", 3, 3 * HOUR), nodes=2, profile=profile, outages=[fault(50_000, "drain")])
    assert ran.told(NodeLost) == [("NodeLost", 50_000 + 3_600_000)]
    assert [task.code for task in ran.kept.tasks if task.node == "n0"] == [-100]


def test_an_attempt_without_progress_is_killed_after_600_s(profile: str) -> None:
    """mapreduce.task.timeout; TaskHeartbeatHandler. The master ends it: ContainerExitStatus.KILLED_BY_APPMASTER."""
    ran = Ran(batch("a", ms=100_000), profile=profile, tasks=TaskFaults(hangs=1.0, attempts=4))
    ran_ms = [task.ended_ms - (task.started_ms or 0) for task in ran.kept.tasks]
    assert [task.code for task in ran.kept.tasks] == [KILLED_BY_MASTER] * 4
    assert KILLED_BY_MASTER == -105
    assert all(600_000 <= each <= 600_000 + 100_000 + BEAT for each in ran_ms)


def test_attempts_lost_with_their_node_do_not_count_towards_the_four_of_a_task(profile: str) -> None:
    """mapreduce.map.maxattempts; TaskAttemptImpl: with ContainerExitStatus.ABORTED an attempt is killed, not failed."""
    lost = [fault(150_000 + 900_000 * number, "unhealthy", 160_000 + 900_000 * number) for number in range(5)]
    ran = Ran(batch("a", ms=900_000), nodes=1, profile=profile, outages=lost, tasks=TaskFaults())
    assert [task.code for task in ran.kept.tasks] == [-100] * 5 + [0]
