"""What holds for every plan on unlike machines by every planner, by a validator that shares no code with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from rm_emulator.known_answers.schedules import Problem, TaskRun, violations
from schedulers.core import keyed
from schedulers.planning.unrelated import tdca, tds
from schedulers.planning.unrelated.deft import ORDERS, deft
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.planners import PLANNERS
from schedulers.planning.unrelated.timelines import TimelinePlacement, TimelinePlan
from tests.examples import examples

EVERY: dict[str, Callable[[Instance], TimelinePlan]] = {
    **PLANNERS,
    **{f"deft {name}": (lambda made, order=order: deft(made, order(made))) for name, order in ORDERS.items()},
    "deft insertion": partial(deft, insertion=True),
}
WITHOUT_COPIES = ("heft", "cpop", "dls", "peft", "etf")


def drawn(seed: int) -> Instance:
    """Up to 14 tasks on up to 6 machines; fractions, tasks and edges of nothing, unlike links, no order of numbers."""
    draw = keyed.generator(seed, "unrelated")
    tasks, machines = int(draw.integers(1, 15)), int(draw.integers(1, 7))
    times = draw.uniform(0.5, 20, (tasks, machines)) if seed % 2 else draw.integers(0, 12, (tasks, machines))
    above, density = draw.permutation(tasks).tolist(), draw.random() * 0.5
    edges = [
        (parent, child, round(float(draw.uniform(0, 60) * (draw.random() < 0.9)), 1))
        for child in range(tasks)
        for parent in range(tasks)
        if above[parent] < above[child] and draw.random() < density
    ]
    rates = draw.choice([0.3, 1, 4, np.inf], (machines, machines)) if seed % 3 else np.float64(draw.uniform(0.5, 5))
    return Instance(times, edges, rates)


def problem(made: Instance, copies: int) -> Problem:
    return Problem(
        times=made.times.tolist(),
        machines=made.machines,
        edges=[(parent, child, data) for parent, child, data in made.edges],
        rates=made.rates.tolist(),
        copies=copies,
    )


def check(made: Instance, name: str) -> TimelinePlan:
    plan = EVERY[name](made)
    runs = [TaskRun(p.task, p.machine, p.start, p.end, p.copy) for p in plan.placements]
    copies = 1 if name in WITHOUT_COPIES else made.machines
    assert violations(problem(made, copies), runs) == [], name
    return plan


@pytest.mark.parametrize("name", EVERY)
def test_plans_of_random_dags_are_valid(name: str) -> None:
    for seed in range(40):
        check(drawn(seed), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_plans_of_many_random_dags_are_valid(name: str) -> None:
    for seed in range(examples(1000)):
        check(drawn(seed), name)


def soonest(made: Instance, before: Sequence[TimelinePlacement], task: int) -> float:
    """When a task could end at the earliest without any copy, behind all that is there."""
    ends = []
    for machine in range(made.machines):
        arrivals = [
            min(p.end + data * float(made.delays[p.machine, machine]) for p in before if p.task == parent)
            for parent, data in made.parents[task]
        ]
        free = max((p.end for p in before if p.machine == machine), default=0.0)
        ends.append(max([free, *arrivals]) + float(made.times[task, machine]))
    return min(ends)


@pytest.mark.parametrize("name", [name for name in EVERY if name.startswith(("deft", "dfrn"))])
def test_a_copy_never_lengthens_the_plan_it_was_made_for(name: str) -> None:
    """Copies stand before the task that they were made for."""
    for seed in range(100):
        made = drawn(seed)
        placements, begun = EVERY[name](made).placements, 0
        for number, placed in enumerate(placements):
            if not placed.copy:
                assert placed.end <= soonest(made, placements[:begun], placed.task) + 1e-9, seed
                begun = number + 1


def test_copies_never_lengthen_the_plan_of_tdca() -> None:
    for seed in range(100):
        made = drawn(seed)
        guides = tdca.guide(made)
        clusters = tdca.laid(made, list(made.by_priority(guides.level)), tdca.clustered(made, guides))
        assert PLANNERS["tdca"](made).makespan <= clusters.plan().makespan


def test_on_equal_machines_one_for_each_task_no_copy_of_tds_is_dropped() -> None:
    for seed in range(100):
        drawn_one = drawn(seed)
        made = Instance(np.repeat(drawn_one.times[:, :1], drawn_one.tasks, axis=1), drawn_one.edges, 1.0)
        found = tds.times(made)
        plan = PLANNERS["tds"](made)
        assert plan == tds.plan(made, found, tds.hosts(made, tds.clusters(made, found))), seed
