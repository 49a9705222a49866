"""Which tasks of a job should start first: a priority per stage, from an order made when the job is submitted.

The order here is by critical path. It is the fallback for jobs without estimates (every stage then counts as equally
long) and for those that a planner passes by.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core.model import Job, topological_order


def priorities(job: Job, estimates: Sequence[float | None]) -> tuple[float, ...]:
    """The tpriScore of each stage's tasks, longest path to the end of the job first.

    estimates: run time of a task of each stage, ms at node speed 1; None where there is none.
    """
    known = all(estimate is not None for estimate in estimates)
    lengths = [estimate if known and estimate is not None else 1.0 for estimate in estimates]
    paths = _paths(job, lengths)
    # Parents stand before their children even where a stage takes no time.
    place = {stage: position for position, stage in enumerate(topological_order(job.stages))}
    order = sorted(range(len(paths)), key=lambda stage: (-paths[stage], place[stage]))
    return by_start([float(order.index(stage)) for stage in range(len(paths))], [s.tasks for s in job.stages])


def by_start(starts: Sequence[float], tasks: Sequence[int]) -> tuple[float, ...]:
    """TpriScore (n - rank) / n per stage: tasks ranked by the start of their stage, a stage by its first task.

    So it is 1 for the task that starts first and 1/n for the last of n (Graphene, OSDI'16, section 5).

    >>> by_start((0, 1, 1, 5), (1, 1, 1, 1))
    (1.0, 0.75, 0.5, 0.25)
    """
    total, rank = sum(tasks), 0
    scores = [0.0] * len(starts)
    for stage in sorted(range(len(starts)), key=lambda stage: (starts[stage], stage)):
        scores[stage] = (total - rank) / total
        rank += tasks[stage]
    return tuple(scores)


def _paths(job: Job, lengths: Sequence[float]) -> list[float]:
    """The longest path from the beginning of each stage to the end of the job."""
    paths = list(lengths)
    for stage in reversed(topological_order(job.stages)):
        for parent in job.stages[stage].parents:
            paths[parent] = max(paths[parent], lengths[parent] + paths[stage])
    return paths
