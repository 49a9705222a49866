"""Schedules are checked to the millisecond, and what is wrong is named."""

from __future__ import annotations

import msgspec
import pytest

from schedulers.core.errors import InvalidPlan
from schedulers.core.model import Stage
from schedulers.core.policy import Stretch
from schedulers.planning.dags.schedule import STRETCHES, Batch, Placement, Plan, Schedule

STAGES = (Stage(name="map", tasks=2, demand=(2, 1)), Stage(name="reduce", tasks=1, demand=(3, 3), parents=(0,)))
RUNTIMES, CAPACITY, MACHINES = [10, 5], (4, 4), 2
GOOD = Schedule((Placement(0, 10, 0, 0, 0), Placement(0, 10, 0, 1, 0), Placement(10, 15, 1, 0, 0)))


def check(schedule: Schedule) -> None:
    schedule.check(STAGES, RUNTIMES, CAPACITY, MACHINES)


def changed(number: int, **fields: int) -> Schedule:
    rows = list(GOOD.placements)
    rows[number] = msgspec.structs.replace(rows[number], **fields)
    return Schedule(tuple(rows))


def test_a_good_schedule() -> None:
    check(GOOD)
    assert (GOOD.makespan, GOOD.order) == (15, [(0, 0), (0, 1), (1, 0)])
    assert Schedule(()).makespan == 0


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Schedule(GOOD.placements[:2]), "task 0 of stage 'reduce' is not placed"),
        (Schedule(GOOD.placements[1:]), "task 0 of stage 'map' is not placed"),
        (changed(1, task=0), "task 0 of stage 'map' is placed twice"),
        (changed(1, task=2), "task 2 of stage 0 is placed, but there is no such task"),
        (changed(1, stage=2), "task 1 of stage 2 is placed, but there is no such task"),
        (changed(2, machine=2), "on machine 2, but there are 2"),
        (changed(2, end=16), "runs 10-16 ms, but takes 5 ms"),
        (changed(0, start=-1, end=9), "starts at -1 ms"),
        (
            changed(2, start=9, end=14),
            "task 0 of stage 'reduce' starts at 9 ms, before its parent stage 'map' ends at 10",
        ),
    ],
)
def test_what_is_wrong_is_named(schedule: Schedule, message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        check(schedule)


def test_over_capacity_names_machine_time_and_amounts() -> None:
    independent = (STAGES[0], msgspec.structs.replace(STAGES[1], parents=()))
    schedule = Schedule((Placement(0, 10, 0, 0, 0), Placement(0, 10, 0, 1, 1), Placement(9, 14, 1, 0, 1)))
    with pytest.raises(InvalidPlan, match=r"machine 1 is over its capacity of \(4, 4\) at 9 ms: .* to \(5, 4\)"):
        schedule.check(independent, RUNTIMES, CAPACITY, MACHINES)


def test_a_machine_is_free_at_the_instant_of_an_end() -> None:
    wide = (Stage(name="a", tasks=2, demand=(4, 4)),)
    Schedule((Placement(0, 3, 0, 0, 0), Placement(3, 6, 0, 1, 0))).check(wide, [3], (4, 4), 1)


def test_blocks_begin_at_zero_and_tasks_are_numbered_by_start() -> None:
    schedule = Schedule.of_blocks([Batch(0, -4, 2, (1,)), Batch(0, -7, 1, (0, 2))], [10])
    assert [(p.start, p.end, p.task, p.machine) for p in schedule.placements] == [
        (0, 10, 0, 0),
        (0, 10, 1, 2),
        (3, 13, 2, 1),
        (3, 13, 3, 1),
    ]


def test_scores_fall_by_rank() -> None:
    # Starts 0, 1, 1, 5 of four tasks.
    rows = (Placement(0, 1, 0, 0, 0), Placement(1, 2, 1, 0, 0), Placement(1, 2, 1, 1, 1), Placement(5, 6, 2, 0, 0))
    plan = Plan(planner="x", schedule=Schedule(rows), bound=0)
    assert plan.scores() == ((1.0,), (0.75, 0.5), (0.25,))


def test_stretches_end_where_the_number_of_running_tasks_changes() -> None:
    blocks = [Batch(0, 0, 2, (0,)), Batch(0, 10, 2, (0,)), Batch(0, 15, 1, (1,)), Batch(1, 25, 1, (0,))]
    assert Schedule.of_blocks(blocks, [10, 7]).stretches() == (
        Stretch(0, 0, 15, 30),
        Stretch(0, 15, 20, 15),
        Stretch(0, 20, 25, 5),
        Stretch(1, 25, 32, 7),
    )


def test_many_changes_become_a_few_stretches_with_the_same_work() -> None:
    blocks = [Batch(0, start, 1, (0,)) for start in range(0, 5000, 10)]
    stretches = Schedule.of_blocks(blocks, [7]).stretches()
    assert (len(stretches), sum(stretch.work for stretch in stretches)) == (STRETCHES, 500 * 7)
    assert (stretches[0].start, stretches[-1].end) == (0, 4997)
