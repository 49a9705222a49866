"""Tasks that save their work, gangs that work in step, and the share of time that is effective."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.engine.assemble import settled
from rm_emulator.engine.config import CheckpointRules, EngineConfig, Executors, Faults, NodeFault, TaskFaults
from rm_emulator.engine.exit_codes import KILLED_BY_MASTER
from rm_emulator.workload.model import Drawn, Fixed, PerTask, Workload
from schedulers.core.model import Node
from tests.engine.test_faults import DAY, HOUR, MINUTE, Ran, batch, fault

EVERY_10_MIN = CheckpointRules(every_ms=10 * MINUTE)


def attempts(ran: Ran) -> list[tuple[int, int, int | None]]:
    """Exit code, length in minutes and useful minutes of each attempt, in order of their ends."""
    return [
        (task.code, (task.ended_ms - task.granted_ms) // MINUTE, task.useful_ms and task.useful_ms // MINUTE)
        for task in ran.kept.tasks
    ]


def ran(*jobs: Any, rules: CheckpointRules = EVERY_10_MIN, profile: str = "events", **fields: Any) -> Ran:
    return Ran(*jobs, profile=profile, checkpoints=rules, **fields)


def test_a_further_attempt_goes_on_from_the_last_checkpoint() -> None:
    # Lost after 25 of 60 minutes: 20 are saved, 40 are left.
    assert attempts(ran(batch("a", ms=HOUR), outages=[fault(25 * MINUTE)])) == [(-100, 25, 20), (0, 40, 40)]


def test_nothing_is_saved_before_the_first_checkpoint() -> None:
    assert attempts(ran(batch("a", ms=HOUR), outages=[fault(9 * MINUTE)])) == [(-100, 9, 0), (0, 60, 60)]


def test_a_checkpoint_takes_time_and_none_comes_at_the_end() -> None:
    # 60 minutes are 5 checkpoints of 2 minutes: the sixth would come with the end.
    rules = CheckpointRules(every_ms=10 * MINUTE, cost_ms=2 * MINUTE)
    assert attempts(ran(batch("a", ms=HOUR), rules=rules)) == [(0, 70, 60)]
    # Lost in the second checkpoint, after 23 minutes: the first alone is kept.
    lost = ran(batch("a", ms=HOUR), rules=rules, outages=[fault(23 * MINUTE)])
    assert attempts(lost) == [(-100, 23, 10), (0, 50 + 4 * 2, 50)]


def test_a_further_attempt_is_restarted_first_and_a_first_one_is_not() -> None:
    rules = CheckpointRules(every_ms=10 * MINUTE, restart=Fixed(7 * MINUTE))
    done = ran(batch("a", ms=HOUR), rules=rules, outages=[fault(25 * MINUTE)])
    assert attempts(done) == [(-100, 25, 20), (0, 47, 40)]


def test_an_attempt_that_ends_in_its_restart_has_saved_nothing() -> None:
    rules = CheckpointRules(every_ms=10 * MINUTE, restart=Fixed(30 * MINUTE))
    outages = [fault(25 * MINUTE, node="n0", until=26 * MINUTE), fault(40 * MINUTE, node="n1")]
    done = ran(batch("a", ms=HOUR), rules=rules, outages=outages)
    assert attempts(done) == [(-100, 25, 20), (-100, 15, 0), (0, 70, 40)]


def test_with_a_lost_member_a_gang_starts_anew_from_its_common_checkpoint() -> None:
    # Two members, a spare node: lost at 25 min, started again at once, both from 20.
    gang = batch("a", 2, HOUR, gang=True)
    done = ran(gang, nodes=3, outages=[fault(25 * MINUTE)])
    assert attempts(done) == [(143, 25, 20), (-100, 25, 20), (0, 40, 40), (0, 40, 40)]


def test_a_gang_that_has_lost_a_member_holds_no_room() -> None:
    gang, other = batch("a", 2, HOUR, gang=True), batch("b", ms=30 * MINUTE)
    done = ran(gang, other, nodes=2, outages=[fault(25 * MINUTE, until=90 * MINUTE)])
    ends = {row.id: (row.finish_ms or 0) // MINUTE for row in done.kept.jobs}
    assert ends == {"b": 55, "a": 130}


def test_a_gang_stands_still_from_the_death_of_a_node_and_not_from_its_notice() -> None:
    # Dead at 25 min, noticed at 45: the member that is started again meanwhile waits for the other in vain.
    gang = batch("a", 2, HOUR, gang=True)
    done = ran(gang, nodes=3, outages=[fault(25 * MINUTE)], noticed_after_ms=20 * MINUTE)
    assert attempts(done) == [(143, 25, 20), (143, 19, 0), (-100, 45, 20), (0, 40, 40), (0, 40, 40)]


def test_a_node_that_is_unhealthy_works_until_its_containers_are_lost() -> None:
    done = ran(batch("a", ms=HOUR), outages=[fault(25 * MINUTE, "unhealthy")], evicted_after_ms=10 * MINUTE)
    assert attempts(done) == [(-100, 35, 30), (0, 30, 30)]


def test_members_that_have_ended_stay_ended() -> None:
    job = batch("a", 2, gang=True)
    job = type(job)(job=job.job, submit_ms=0, runtimes=(PerTask((20 * MINUTE, 60 * MINUTE)),))
    done = ran(job, nodes=3, outages=[fault(45 * MINUTE, node="n1")])
    assert attempts(done) == [(0, 20, 20), (-100, 45, 40), (0, 20, 20)]


def test_a_failed_attempt_goes_on_from_its_checkpoint_too() -> None:
    # Ten failures an hour: without checkpoints next to no hour would end.
    done = ran(batch("a", ms=HOUR), tasks=TaskFaults(per_hour=10, attempts=1000))
    failed = [task for task in done.kept.tasks if task.code]
    assert len(failed) > 2
    assert sum(task.useful_ms or 0 for task in done.kept.tasks) == HOUR


def test_what_a_gang_keeps_is_its_work_whatever_fails() -> None:
    rules = CheckpointRules(every_ms=10 * MINUTE, cost_ms=MINUTE, restart=Drawn(4 * MINUTE, 1.0))
    gang = batch("a", 3, 5 * HOUR, gang=True)
    done = ran(gang, rules=rules, nodes=3, tasks=TaskFaults(per_hour=1, attempts=1000))
    kept = [sum(task.useful_ms or 0 for task in done.kept.tasks if task.task == index) for index in range(3)]
    assert kept == [5 * HOUR] * 3


def test_an_attempt_that_hangs_holds_its_room_until_the_watchdog_ends_it() -> None:
    hangs = TaskFaults(hangs=1, watchdog_ms=20 * MINUTE, attempts=1)
    done = Ran(batch("a", ms=HOUR), profile="events", tasks=hangs)
    (task,) = done.kept.tasks
    assert task.code == KILLED_BY_MASTER
    assert 20 * MINUTE <= task.ended_ms < 80 * MINUTE
    assert done.kept.jobs[0].failed_ms is not None


def test_what_was_saved_before_a_gang_hung_is_kept_and_no_more() -> None:
    hangs = TaskFaults(hangs=0.5, watchdog_ms=20 * MINUTE, attempts=100)
    done = ran(batch("a", 2, 5 * HOUR, gang=True), tasks=hangs, nodes=2)
    assert [task.code for task in done.kept.tasks if not task.code] == [0, 0]
    hung = [task for task in done.kept.tasks if task.code]
    assert hung
    # The last 20 minutes and more of each were in vain.
    assert all(task.ended_ms - task.granted_ms - (task.useful_ms or 0) >= 20 * MINUTE for task in hung)
    kept = [sum(task.useful_ms or 0 for task in done.kept.tasks if task.task == index) for index in range(2)]
    assert kept == [5 * HOUR] * 2


def test_an_end_that_nobody_heard_is_worked_again() -> None:
    # Silent from 50 min on, lost at 70; the end at 60 was not heard, and what a single task had saved went with it.
    outages = [fault(50 * MINUTE, "silent")]
    done = ran(batch("a", ms=HOUR), outages=outages, noticed_after_ms=20 * MINUTE)
    assert [code for code, _, _ in attempts(done)][-1] == 0
    assert len(done.kept.tasks) == 2


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"executors": Executors()}, "checkpoints do not go with executors that outlive tasks")],
)
def test_clusters_without_checkpoints(fields: dict[str, Any], why: str) -> None:
    nodes = (Node(id="n0", capacity=(1000, 1024)),)
    faults = Faults(outages=(NodeFault(at_ms=1, node="n0"),), checkpoints=EVERY_10_MIN)
    config = EngineConfig(nodes=nodes, profile="events", faults=faults, **fields)
    with pytest.raises(ValueError, match=why):
        settled(config, Workload(name="w", jobs=(batch("a"),), resources=config.resources))


# With heartbeats a gang starts on one node or not at all.
@pytest.mark.parametrize(("profile", "gang"), [("events", True), ("kubernetes", True), ("yarn", False), ("sls", False)])
def test_a_day_of_work_is_a_day_on_every_profile(profile: str, gang: bool) -> None:
    done = ran(batch("a", 2, DAY, gang=gang), profile=profile, nodes=3, outages=[fault(5 * HOUR, node="n1")])
    kept = [sum(task.useful_ms or 0 for task in done.kept.tasks if task.task == index) for index in range(2)]
    # Kubernetes shows whole seconds.
    assert kept == pytest.approx([DAY, DAY], abs=1000)
    assert {task.code for task in done.kept.tasks} >= {0, -100}
