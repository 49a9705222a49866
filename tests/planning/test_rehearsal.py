"""Jockey's arithmetic: how far a job is, how long it still takes, how many containers it is given."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import MemoryRecording, job, node
from rm_emulator.testing import stage as made_stage
from rm_emulator.workload.model import PerTask, Workload, WorkloadJob
from schedulers.core.log import SchedulerConfig
from schedulers.core.rehearsal import Act, Indicator, Script
from schedulers.core.scheduler import Scheduler
from schedulers.planning.jockey.allocation import Utility, stepped, wanted
from schedulers.planning.jockey.progress import INDICATORS, meter
from schedulers.planning.jockey.rehearsal import amdahl, play, rehearse

DEADLINE = Utility(((0, 1), (60, 1), (70, -1), (1060, -1000)))


@st.composite
def acts(draw: st.DrawFn, spread: float = 0.0) -> tuple[Act, ...]:
    return tuple(
        Act(
            tasks=draw(st.integers(1, 9)),
            parents=tuple(sorted(draw(st.sets(st.integers(0, stage - 1), max_size=2)))) if stage else (),
            task_ms=draw(st.integers(1, 500)),
            spread=spread,
        )
        for stage in range(draw(st.integers(1, 6)))
    )


def script(
    made: tuple[Act, ...],
    *,
    indicator: Indicator = "totalworkWithQ",
    draws: int = 1,
    variation: float = 0.0,
    seed: int = 0,
) -> Script:
    allocations = (1, 2, 4, 8)
    return Script(acts=made, allocations=allocations, indicator=indicator, draws=draws, variation=variation, seed=seed)


@given(acts(spread=0.5), st.sampled_from(list(INDICATORS)))
def test_the_table_never_grows_with_progress_or_with_the_allocation(
    made: tuple[Act, ...], indicator: Indicator
) -> None:
    _, table = rehearse(script(made, indicator=indicator, draws=4, variation=0.3))
    rows = [row.remaining_ms for row in table.rows]
    assert all(list(row) == sorted(row, reverse=True) for row in rows)
    assert all(list(column) == sorted(column, reverse=True) for column in zip(*rows, strict=True))


@given(acts(), st.sampled_from(list(INDICATORS)))
def test_no_indicator_ever_falls_and_all_end_at_one(made: tuple[Act, ...], indicator: Indicator) -> None:
    courses, ends = play(made, [[round(act.task_ms)] * act.tasks for act in made], 3)
    done, how_far = [0] * len(made), meter(indicator, courses)
    told = [how_far(done)]
    for _, stage in ends:
        done[stage] += 1
        told.append(how_far(done))
    assert told == sorted(told)
    assert (told[0] >= 0, told[-1]) == (True, 1.0)


@given(acts(), st.integers(1, 12))
def test_a_play_keeps_to_the_dag_and_to_its_containers(made: tuple[Act, ...], slots: int) -> None:
    courses, ends = play(made, [[round(act.task_ms)] * act.tasks for act in made], slots)
    assert len(ends) == sum(act.tasks for act in made)
    assert all(course.begin >= courses[parent].end for course in courses for parent in course.parents)
    assert ends[-1][0] * slots >= sum(course.run for course in courses)
    running = sorted((at, change) for end, stage in ends for at, change in ((end, -1), (end - made[stage].task_ms, 1)))
    busy = most = 0
    for _, change in running:
        busy += change
        most = max(most, busy)
    assert most <= slots


@given(acts(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_a_play_is_the_engines_run_of_a_job_alone(made: tuple[Act, ...], slots: int, random: Random) -> None:
    """Under `fifo` with profile `events`. Run times differ, so that no two tasks end at once."""
    distinct = iter(random.sample(range(1, 100_000), sum(act.tasks for act in made)))
    times = [[next(distinct) * 97 for _ in range(act.tasks)] for act in made]
    _, ends = play(made, times, slots)
    whole = job("alone", *(made_stage(act.tasks, parents=act.parents, name=f"s{n}") for n, act in enumerate(made)))
    source = WorkloadJob(job=whole, submit_ms=0, runtimes=tuple(PerTask(tuple(row)) for row in times))
    config, kept = EngineConfig(nodes=(node("n", slots),), profile="events"), MemoryRecording()
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy={"kind": "fifo"}, offers="cycle"))
    Simulation(config, Workload(name="w", jobs=(source,)), scheduler, kept).run()
    assert [(row.ended_ms, row.stage) for row in kept.tasks] == ends


def test_one_container_takes_the_sum_and_enough_take_the_longest_path() -> None:
    made = (Act(4, (), 100), Act(2, (0,), 50), Act(1, (0,), 300), Act(1, (1, 2), 10))
    _, table = rehearse(Script(acts=made, allocations=(1, 8)))
    assert table.at(0).remaining_ms == (4 * 100 + 2 * 50 + 300 + 10, 100 + 300 + 10)


def test_the_same_script_gives_the_same_table() -> None:
    made = (Act(20, (), 100, 0.4), Act(10, (0,), 70, 0.2))
    assert rehearse(script(made, draws=5, seed=3)) == rehearse(script(made, draws=5, seed=3))
    assert rehearse(script(made, draws=5, seed=3)) != rehearse(script(made, draws=5, seed=4))


def test_estimates_that_are_less_sure_make_the_table_more_careful() -> None:
    sure, unsure = ((Act(20, (), 100, spread),) for spread in (0.0, 0.5))
    assert (
        rehearse(script(unsure, draws=20))[1].at(0).remaining_ms[0]
        > rehearse(script(sure, draws=20))[1].at(0).remaining_ms[0]
    )


@given(acts(), st.floats(1, 3))
def test_a_perfect_rehearsal_with_slack_1_meets_every_deadline_that_the_most_can_meet(
    made: tuple[Act, ...], loose: float
) -> None:
    _, table = rehearse(script(made))
    deadline = table.at(0).remaining_ms[-1] * loose
    utility = Utility(((0.0, 1.0), (deadline, 1.0), (deadline + 100, -1.0)))
    given_ = wanted(utility, 0, table.at(0).remaining_ms, table.allocations, slack=1, dead_zone=0)
    _, ends = play(made, [[round(act.task_ms)] * act.tasks for act in made], given_)
    assert ends[-1][0] <= deadline


@given(st.integers(0, 60), st.integers(0, 60))
def test_less_time_never_wants_fewer_containers_while_the_deadline_can_be_met(one: int, other: int) -> None:
    sooner, later = sorted((one, other))
    remaining, allocations = (50.0, 40.0, 32.0, 30.0), (10, 20, 30, 40)

    def want(elapsed: int) -> int:
        return wanted(DEADLINE, elapsed, remaining, allocations, slack=1.0, dead_zone=0)

    if later + remaining[-1] <= 60:
        assert want(sooner) <= want(later)


@given(st.integers(1, 100), st.integers(1, 100), st.fractions(0, 1))
def test_a_step_stays_between_where_it_was_and_what_is_wanted(now: int, to: int, alpha: Fraction) -> None:
    new = stepped(now, to, float(alpha), (1, 100))
    assert min(now, to) <= new <= max(now, to)


def test_rounding_up_takes_what_is_written_and_no_more() -> None:
    assert stepped(50, 100, 0.1, (1, 100)) == 55
    assert stepped(40, 65, 0.2, (1, 100)) == 45


def test_nothing_outside_the_limits_is_given() -> None:
    assert stepped(40, 200, 1.0, (1, 60)) == 60
    assert stepped(40, 1, 1.0, (5, 60)) == 5


def test_amdahl_counts_what_is_left_of_the_path_and_of_the_work() -> None:
    courses, _ = play((Act(30, (), 20),), [[20] * 30], 5)
    assert amdahl(courses, [0], [10]) == pytest.approx((20 + 600 / 10,))
    assert amdahl(courses, [15], [10]) == pytest.approx((10 + 300 / 10,))


@given(acts(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_no_run_alone_takes_longer_than_amdahl_says_of_its_own_times(
    made: tuple[Act, ...], slots: int, random: Random
) -> None:
    # Graham's bound (1966) of list schedules, in which the path is not counted a second time.
    courses, ends = play(made, [[random.randint(1, 500) for _ in range(act.tasks)] for act in made], slots)
    (said,) = amdahl(courses, [0] * len(made), [slots])
    assert ends[-1][0] <= said


def test_amdahl_counts_the_longest_task_of_a_stage_whose_tasks_vary() -> None:
    courses, _ = play((Act(30, (), 20_000),), [[20_000] * 30], 5)
    drawn = np.random.default_rng(1).lognormal(-np.log(2) / 2, np.sqrt(np.log(2)), (20_000, 30)).max(axis=1)
    (varied,), (alike,) = (amdahl(courses, [0], [10], variation) for variation in (1.0, 0.0))
    assert (varied - alike) / 20_000 == pytest.approx(float(np.median(drawn)) - 1, rel=0.1)


def test_a_single_task_is_its_own_longest() -> None:
    courses, _ = play((Act(1, (), 20_000),), [[20_000]], 1)
    assert amdahl(courses, [0], [1], 1.0) == amdahl(courses, [0], [1])


def test_a_table_is_read_from_the_last_row_that_was_reached() -> None:
    _, table = rehearse(Script(acts=(Act(4, (), 10),), allocations=(1,)))
    assert [table.at(progress).remaining_ms for progress in (0, 0.04, 0.25, 0.5, 0.75)] == [
        (40,),
        (40,),
        (30,),
        (20,),
        (10,),
    ]
