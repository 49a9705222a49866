"""Order of a job's tasks: Graphene's tpriScore of each task, from a plan made when the job comes.

The plan is BuildSchedule's. Jobs without a plan (no estimate of some stage, a demand too large for every machine) fall
back to the critical path; without estimates every stage then counts as equally long.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from schedulers.core.errors import InvalidPlan
from schedulers.core.model import Job, topological_order
from schedulers.core.resources import Vector
from schedulers.kit.paths import to_output
from schedulers.planning.dags.lists import PLANNERS
from schedulers.planning.dags.schedule import Plan
from schedulers.planning.graphene.construction import build_schedule

#: Graphene's own planner, and others to compare it with.
PlannerName = Literal["schedule", "coffman_graham", "strip_part"]
#: Labels of Coffman and Graham take 12 MB for so many stages, and four times that for twice as many.
MOST_STAGES: Final = 10_000

#: Per stage the tpriScore of each of its tasks, in order of their starts.
Priorities = tuple[tuple[float, ...], ...]


def plan_of(
    job: Job,
    estimates: Sequence[float | None],
    capacity: Vector,
    machines: int,
    budget: int,
    planner: PlannerName = "schedule",
) -> Plan | None:
    """The job's own schedule on so many machines of equal capacity; None for a job without one.

    estimates: run time of a task of each stage, ms at node speed 1; None where unknown, 0 for an application master.
    budget: how long to search, see `build_schedule`; the other planners do not search, and plan MOST_STAGES at most.
    """
    if None in estimates or (planner != "schedule" and len(job.stages) > MOST_STAGES):
        return None
    plan = partial(build_schedule, budget=budget) if planner == "schedule" else PLANNERS[planner]
    try:
        return plan(job.stages, [e or 1.0 for e in estimates], capacity, machines)
    except InvalidPlan:
        return None


def by_path(job: Job, estimates: Sequence[float | None]) -> Priorities:
    """Stages by their longest path to the end of the job, the longest first; equally long ones unless all are known."""
    known = None not in estimates
    lengths = [estimate if known and estimate is not None else 1.0 for estimate in estimates]
    paths = to_output(job.stages, lengths.__getitem__)
    # Parents stand before their children even where a stage takes no time.
    place = {stage: position for position, stage in enumerate(topological_order(job.stages))}
    order = sorted(range(len(paths)), key=lambda stage: (-paths[stage], place[stage]))
    return by_start([float(order.index(stage)) for stage in range(len(paths))], [s.tasks for s in job.stages])


def by_start(starts: Sequence[float], tasks: Sequence[int]) -> Priorities:
    """(n - rank) / n where all tasks of a stage start together, equal starts by the stages' numbers.

    So the score is 1 for the first task to start and 1/n for the last of n (Graphene, OSDI'16, section 5).

    >>> by_start((0, 1, 1, 5), (1, 1, 1, 1))
    ((1.0,), (0.75,), (0.5,), (0.25,))
    """
    total, ranks = sum(tasks), itertools.count()
    scores: list[tuple[float, ...]] = [()] * len(starts)
    for stage in sorted(range(len(starts)), key=lambda stage: (starts[stage], stage)):
        scores[stage] = tuple((total - next(ranks)) / total for _ in range(tasks[stage]))
    return tuple(scores)
