"""Plans bred by a genetic algorithm, for comparison with `played` at an equal number of plans.

A chromosome is an order of tasks and a machine per task, with crossover and mutation of both parts, as of Wang, Siegel,
Roychowdhury, Maciejewski, JPDC 47(1), 1997. Parents are drawn by rank, and a child takes the place of the worst
chromosome unless the child is worse (GENITOR: Whitley, ICGA 1989).

Ours: the first chromosome is DEFT's plan and the others of the first generation are mutants of DEFT's plan, because few
plans are made; DEFT may copy a parent on the task's machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from schedulers.planning.unrelated.deft import ORDERS, choose, deft, place
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines

#: Number of chromosomes.
_POPULATION: Final = 8


class Chromosome(NamedTuple):
    """order: all tasks, parents before children. machines: per task."""

    order: list[int]
    machines: list[int]


def evolved(instance: Instance, plans: int, random: np.random.Generator, *, runs: float = 2) -> TimelinePlan:
    """The shortest of so many plans; the first is DEFT's by LACHESIS's upward rank. runs: of a task at most."""
    order = list(instance.by_priority(ORDERS["rank_up"](instance)))
    best = deft(instance, runs=runs)
    where = {run.task: run.machine for run in best.placements if not run.copy}
    first = Chromosome(order, [where[task] for task in range(instance.tasks)])
    ranked = [(best.makespan, 0, first)]  # the shortest in front, then the oldest
    for number in range(1, plans):
        one, other = (first, first) if number < _POPULATION else _parents(ranked, random)
        child = _mutated(instance, _crossed(one, other, random), random)
        plan = _plan(instance, child, runs)
        ranked = sorted([*ranked, (plan.makespan, number, child)])[:_POPULATION]
        best = min(best, plan, key=lambda made: made.makespan)
    return best


def _parents(
    ranked: Sequence[tuple[float, int, Chromosome]], random: np.random.Generator
) -> tuple[Chromosome, Chromosome]:
    """Two chromosomes: the best of n is n times as likely as the worst."""
    weights = np.arange(len(ranked), 0, -1.0)
    one, other = random.choice(len(ranked), 2, p=weights / weights.sum()).tolist()
    return ranked[one][2], ranked[other][2]


def _crossed(one: Chromosome, other: Chromosome, random: np.random.Generator) -> Chromosome:
    """The beginning of one order and the rest in the other's order; first machines of one, last of the other."""
    cut, split = random.integers(0, len(one.order), 2, endpoint=True).tolist()
    begun = set(one.order[:cut])
    order = [*one.order[:cut], *(task for task in other.order if task not in begun)]
    return Chromosome(order, [*one.machines[:split], *other.machines[split:]])


def _mutated(instance: Instance, given: Chromosome, random: np.random.Generator) -> Chromosome:
    """A task moves to any place between its parents and its children, and a task to any machine."""
    moved, task = random.integers(instance.tasks, size=2).tolist()
    order = [other for other in given.order if other != moved]
    place_of = {other: at for at, other in enumerate(order)}
    low = max((place_of[parent] + 1 for parent, _ in instance.parents[moved]), default=0)
    high = min((place_of[child] for child, _ in instance.children[moved]), default=len(order))
    order.insert(int(random.integers(low, high, endpoint=True)), moved)
    machines = given.machines.copy()
    machines[task] = int(random.integers(instance.machines))
    return Chromosome(order, machines)


def _plan(instance: Instance, made: Chromosome, runs: float) -> TimelinePlan:
    timelines = Timelines(instance)
    for task in made.order:
        place(timelines, task, choose(timelines, task, runs=runs, only=made.machines[task]))
    return timelines.plan()
