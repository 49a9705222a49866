"""Plans played forward: schedules, never longer than the first play's, and beyond what lists can say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.known_answers.schedules import Problem, TaskRun, violations
from schedulers.planning.unrelated.deft import ORDERS, deft
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.played import played
from schedulers.planning.unrelated.timelines import TimelinePlan
from tests.planning.test_unrelated import instances

#: Two equal machines, and what two tasks hand to a third one takes far longer to travel than to make.
JOIN = Instance([[4, 4], [4, 4], [1, 1]], [(0, 2, 100), (1, 2, 100)], 1.0)


def plans(made: Instance, plays: int, *, runs: float = 2, pins: bool = True, seed: int = 1) -> TimelinePlan:
    worth = np.log(np.maximum(ORDERS["rank_up"](made), 1e-9)).tolist()
    return played(made, worth, plays, np.random.default_rng(seed), runs=runs, pins=pins)


@given(instances(), st.integers(0, 5), st.booleans(), st.sampled_from([1, 2]))
def test_whatever_is_played_is_a_schedule(made: Instance, seed: int, pins: bool, runs: int) -> None:
    plan = plans(made, 12, runs=runs, pins=pins, seed=seed)
    problem = Problem(
        times=made.times.tolist(),
        machines=made.machines,
        edges=made.edges,
        rates=made.rates.tolist(),
        copies=runs,
    )
    assert violations(problem, [TaskRun(p.task, p.machine, p.start, p.end, p.copy) for p in plan.placements]) == []


@given(instances(), st.integers(0, 5))
def test_more_plays_make_no_longer_plans(made: Instance, seed: int) -> None:
    lengths = [plans(made, plays, seed=seed).makespan for plays in (1, 4, 16)]
    assert lengths == sorted(lengths, reverse=True)


@given(instances())
def test_the_first_play_is_deft(made: Instance) -> None:
    assert plans(made, 1, runs=np.inf).placements == deft(made).placements


def test_tasks_that_wait_for_no_other_are_played_once() -> None:
    made = Instance([[number + 1, 7 - number] for number in range(6)])
    assert plans(made, 50).placements == plans(made, 1).placements


@given(instances(), st.integers(0, 5))
def test_no_task_runs_more_often_than_it_may(made: Instance, seed: int) -> None:
    assert max(Counter(p.task for p in plans(made, 8, seed=seed).placements).values()) <= 2


@pytest.mark.parametrize(("pins", "makespan"), [(False, 105), (True, 9)])
def test_a_task_that_is_pinned_makes_what_no_list_schedule_is(pins: bool, makespan: float) -> None:
    assert plans(JOIN, 30, runs=1, pins=pins).makespan == makespan
