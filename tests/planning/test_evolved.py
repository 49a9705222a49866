"""Plans bred by a genetic algorithm: schedules, never longer than DEFT's, and beyond list schedules."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.known_answers.schedules import Problem, TaskRun, violations
from schedulers.planning.unrelated.deft import deft
from schedulers.planning.unrelated.evolved import evolved
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.timelines import TimelinePlan
from tests.planning.test_played import JOIN
from tests.planning.test_unrelated import instances


def bred(made: Instance, plans: int, *, runs: float = 2, seed: int = 1) -> TimelinePlan:
    return evolved(made, plans, np.random.default_rng(seed), runs=runs)


@given(instances(), st.integers(0, 5), st.sampled_from([1, 2]))
def test_whatever_is_bred_is_a_schedule(made: Instance, seed: int, runs: int) -> None:
    problem = Problem(
        times=made.times.tolist(), machines=made.machines, edges=made.edges, rates=made.rates.tolist(), copies=runs
    )
    plan = bred(made, 20, runs=runs, seed=seed)
    assert violations(problem, [TaskRun(p.task, p.machine, p.start, p.end, p.copy) for p in plan.placements]) == []


@given(instances(), st.integers(0, 5))
def test_more_plans_make_no_longer_plans_and_the_first_is_defts(made: Instance, seed: int) -> None:
    lengths = [bred(made, plans, seed=seed).makespan for plans in (1, 8, 24)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == deft(made, runs=2).makespan


def test_a_machine_left_idle_makes_the_join_short() -> None:
    """Both parents on one machine take 4 + 4, and the join 1: the optimum, which no list schedule is."""
    assert bred(JOIN, 1, runs=1).makespan == 105
    assert bred(JOIN, 64, runs=1).makespan == 9


def test_the_same_seed_breeds_the_same_plan() -> None:
    assert bred(JOIN, 10, runs=1, seed=3) == bred(JOIN, 10, runs=1, seed=3)
