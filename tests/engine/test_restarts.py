"""Restarts of the resource manager: what waits for its return, and what does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rm_emulator.engine.config import Restart
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.events import ContainerEnded, ContainerStarted, JobSubmitted, NodeAdded, NodeLost, NodeRemoved
from tests.engine.test_faults import MINUTE, Ran, batch, fault

SECOND = 1000
#: Away from 10 min to 11 min.
LEFT, BACK = 10 * MINUTE, 11 * MINUTE
AWAY = (Restart(at_ms=LEFT, lasts_ms=MINUTE),)


def at(submit_ms: int, job: WorkloadJob) -> WorkloadJob:
    return msgspec.structs.replace(job, submit_ms=submit_ms)


def restarted(*jobs: WorkloadJob, restarts: tuple[Restart, ...] = AWAY, **more: Any) -> Ran:
    return Ran(*jobs, restarts=restarts, **more)


def granted(ran: Ran, job: str) -> list[int]:
    return [task.granted_ms for task in ran.kept.tasks if task.job == job]


def test_an_end_meanwhile_is_heard_at_the_return_and_recorded_when_it_was() -> None:
    ran = restarted(batch("a", ms=10 * MINUTE + 20 * SECOND), profile="events")
    assert ran.told(ContainerEnded) == [("ContainerEnded", BACK)]
    assert [task.ended_ms for task in ran.kept.tasks] == [10 * MINUTE + 20 * SECOND]
    assert [row.finish_ms for row in ran.kept.jobs] == [BACK]


def test_a_task_goes_on_meanwhile() -> None:
    ran = restarted(batch("a", ms=20 * MINUTE), profile="events")
    assert ran.told(ContainerEnded) == [("ContainerEnded", 20 * MINUTE)]


def test_jobs_that_come_meanwhile_are_heard_of_in_order_at_the_return_and_wait_from_their_submission() -> None:
    jobs = [at(LEFT + wait * SECOND, batch(name, ms=MINUTE)) for name, wait in (("a", 10), ("b", 10), ("c", 50))]
    ran = restarted(*jobs, profile="events", nodes=3)
    assert ran.told(JobSubmitted) == 3 * [("JobSubmitted", BACK)]
    assert [fact.job.id for fact, _ in ran.audit.history if isinstance(fact, JobSubmitted)] == ["a", "b", "c"]
    assert [(row.id, row.submit_ms, row.finish_ms) for row in ran.kept.jobs] == [
        ("a", LEFT + 10 * SECOND, BACK + MINUTE),
        ("b", LEFT + 10 * SECOND, BACK + MINUTE),
        ("c", LEFT + 50 * SECOND, BACK + MINUTE),
    ]


def test_all_that_waited_is_told_before_anything_is_granted() -> None:
    # fifo by submission: the room of a task that ended meanwhile goes to the job that was submitted first.
    ended = batch("a", ms=LEFT + 30 * SECOND)
    ran = restarted(ended, at(LEFT + 40 * SECOND, batch("b")), profile="events", nodes=1)
    assert granted(ran, "b") == [BACK]


@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_yarn_grants_nothing_for_ten_seconds_after_the_return(profile: str) -> None:
    ran = restarted(at(LEFT - SECOND // 2, batch("b", 6)), at(BACK + SECOND, batch("c")), profile=profile, nodes=9)
    late = [grant - BACK for grant in granted(ran, "b") + granted(ran, "c") if grant >= LEFT]
    assert len(late) >= 2
    assert 10 * SECOND <= min(late) <= max(late) < 12 * SECOND


def test_yarn_hears_of_ends_in_those_ten_seconds() -> None:
    ran = restarted(batch("a", ms=BACK + 5 * SECOND), profile="yarn", nodes=1)
    (ended,) = ran.told(ContainerEnded)
    assert ended[1] == ran.kept.tasks[0].ended_ms < BACK + 7 * SECOND


def test_others_grant_at_once() -> None:
    ran = restarted(at(LEFT + SECOND, batch("b")), profile="events")
    assert granted(ran, "b") == [BACK]


def test_the_next_leader_on_kubernetes_waits_for_the_lease() -> None:
    short = (Restart(at_ms=LEFT, lasts_ms=SECOND),)
    ran = restarted(at(LEFT + SECOND // 2, batch("b")), profile="kubernetes", restarts=short)
    assert ran.told(JobSubmitted) == [("JobSubmitted", LEFT + 7 * SECOND)]


def test_a_container_on_its_way_starts_meanwhile() -> None:
    # Under way from 9 min 30 s to 10 min 30 s.
    job = at(LEFT - MINUTE // 2, batch("a", ms=MINUTE))
    ran = restarted(job, profile="events", startup_ms=MINUTE)
    assert ran.told(ContainerStarted) == [("ContainerStarted", BACK)]
    assert [(task.started_ms, task.ended_ms) for task in ran.kept.tasks] == [(LEFT + 30_000, LEFT + 90_000)]
    assert ran.told(ContainerEnded) == [("ContainerEnded", LEFT + 90_000)]


def test_a_grant_that_its_master_has_not_taken_starts_after_the_return() -> None:
    # Of the six tasks some are granted within a call before 10 min, and their master calls at 10 min at the earliest.
    ran = restarted(at(LEFT - 1500, batch("a", 6, MINUTE)), profile="yarn", nodes=6)
    starts = [task.started_ms or 0 for task in ran.kept.tasks]
    assert all(start < LEFT or start >= BACK for start in starts)


def test_silence_is_counted_anew_from_the_return_on() -> None:
    # Without the restart the death would be noticed at 800 s; from 11 min on 600 s are over at the check of 1400 s.
    dead = [fault(100_000)]
    assert restarted(batch("a"), outages=dead).of_nodes == [("NodeLost", 1_400_000)]
    assert Ran(batch("a"), outages=dead).of_nodes == [("NodeLost", 800_000)]


def test_a_node_that_dies_meanwhile_is_noticed_from_the_return_on() -> None:
    ran = restarted(batch("a"), outages=[fault(LEFT + 1)])
    assert ran.of_nodes == [("NodeLost", 1_400_000)]


def test_a_node_that_dies_and_is_back_meanwhile_is_empty_at_the_return() -> None:
    dead = [fault(LEFT + 10 * SECOND, until=LEFT + 20 * SECOND)]
    ran = restarted(batch("a", ms=LEFT + 15 * SECOND), nodes=1, outages=dead, profile="events")
    assert ran.of_nodes == [("NodeLost", BACK), ("NodeAdded", BACK)]
    assert [(task.code, task.ended_ms) for task in ran.kept.tasks] == [(-100, BACK), (0, BACK + LEFT + 15 * SECOND)]


def test_the_control_plane_watches_nodes_while_no_leader_decides() -> None:
    ran = restarted(batch("a"), outages=[fault(LEFT - 10 * SECOND)], profile="kubernetes")
    assert ran.told(NodeRemoved, NodeLost) == [("NodeRemoved", BACK), ("NodeLost", LEFT - 10_000 + 340_000)]


def test_nothing_follows_a_restart_after_the_last_job() -> None:
    ran = restarted(batch("a", ms=MINUTE), profile="events")
    assert ran.simulation.end_ms == MINUTE


def test_a_second_restart_during_the_wait_after_the_first_begins_the_wait_anew() -> None:
    twice = (*AWAY, Restart(at_ms=BACK + 5 * SECOND, lasts_ms=MINUTE))
    ran = restarted(batch("a", ms=MINUTE), at(LEFT + 1, batch("b")), restarts=twice, nodes=1)
    (start,) = granted(ran, "b")
    assert 75 * SECOND <= start - BACK < 77 * SECOND
    assert not ran.told(NodeAdded)


#: The same, and the manager remembers nothing.
FORGETS = (msgspec.structs.replace(AWAY[0], recovery=False),)


def test_without_recovery_all_containers_are_killed_and_every_job_begins_anew() -> None:
    # One slot: the first task is done after 8 min, the second is killed at 11 min, and 16 min more are needed.
    ran = restarted(batch("a", 2, 8 * MINUTE), nodes=1, profile="events", restarts=FORGETS)
    ended = [(task.task, task.attempt, task.code, task.granted_ms, task.ended_ms) for task in ran.kept.tasks]
    assert ended == [
        (0, 0, 0, 0, 8 * MINUTE),
        (1, 0, -106, 8 * MINUTE, BACK),
        (0, 0, 0, BACK, BACK + 8 * MINUTE),
        (1, 0, 0, BACK + 8 * MINUTE, BACK + 16 * MINUTE),
    ]
    (row,) = ran.kept.jobs
    assert (row.submit_ms, row.first_start_ms, row.finish_ms) == (0, 0, BACK + 16 * MINUTE)
    assert (row.resubmitted_ms, row.failed_tasks, row.work_ms) == (BACK, 1, 32 * MINUTE)


def test_without_recovery_what_ended_meanwhile_is_lost() -> None:
    ran = restarted(batch("a", ms=LEFT + 30 * SECOND), nodes=1, profile="events", restarts=FORGETS)
    assert ran.told(ContainerEnded) == [("ContainerEnded", BACK), ("ContainerEnded", BACK + LEFT + 30 * SECOND)]
    assert [row.finish_ms for row in ran.kept.jobs] == [BACK + LEFT + 30 * SECOND]


def test_without_recovery_the_log_tells_of_jobs_withdrawn_and_submitted_again() -> None:
    ran = restarted(batch("a"), batch("c", ms=MINUTE), at(LEFT + 1, batch("b")), profile="events", restarts=FORGETS)
    told = [fact for fact, _ in ran.audit.history if fact.at == BACK and not isinstance(fact, ContainerStarted)]
    assert [type(fact).__name__ for fact in told[:3]] == ["JobCancelled", "ContainerEnded", "JobSubmitted"]
    submitted = [(fact.job.id, fact.again) for fact in told if isinstance(fact, JobSubmitted)]
    assert submitted == [("a", True), ("b", False)]  # "c" was done


@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_without_recovery_yarn_grants_as_soon_as_nodes_beat(profile: str) -> None:
    ran = restarted(batch("a"), nodes=1, profile=profile, restarts=FORGETS)
    assert 0 <= granted(ran, "a")[1] - BACK < 3 * SECOND


def test_without_recovery_a_silent_node_is_unknown_to_the_manager() -> None:
    silent = [fault(LEFT - 1, "silent", until=BACK + MINUTE)]
    ran = restarted(batch("a"), outages=silent, restarts=FORGETS)
    assert ran.of_nodes == [("NodeLost", BACK), ("NodeAdded", BACK + MINUTE)]


def test_without_recovery_a_job_begins_anew_with_a_master_of_its_own() -> None:
    job = msgspec.structs.replace(batch("a", 2, 12 * MINUTE), am=(100, 64))
    ran = restarted(job, profile="yarn", nodes=3, restarts=FORGETS)
    (row,) = ran.kept.jobs
    assert row.finish_ms is not None
    assert BACK + 12 * MINUTE < row.finish_ms < BACK + 13 * MINUTE


def test_without_recovery_a_second_restart_begins_anew_again() -> None:
    twice = (*FORGETS, Restart(at_ms=15 * MINUTE, lasts_ms=MINUTE, recovery=False))
    ran = restarted(batch("a", ms=8 * MINUTE), nodes=1, profile="events", restarts=twice)
    assert [row.finish_ms for row in ran.kept.jobs] == [8 * MINUTE]
    ran = restarted(batch("a", ms=12 * MINUTE), nodes=1, profile="events", restarts=twice)
    assert [row.finish_ms for row in ran.kept.jobs] == [28 * MINUTE]
