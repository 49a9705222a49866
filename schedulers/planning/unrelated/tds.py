"""Task Duplication based Scheduling. Source: Darbha and Agrawal, TPDS 9(1), 1998 (algorithm TDS).

Made for equal machines without end. There the plan is optimal where of each join's two latest parents the later takes
long enough (the paper's condition). Ours, as the paper has no unlike or too few machines:

- All figures before the choice of machines are of mean times and mean transfers.
- Clusters go to machines by their work, the most first: each to the unused machine of its least time, and once all are
  used to the machine with the least work afterwards. A task stands once on a machine.
- On the machines tasks run by `est`, each as soon as its machine is free and its data is there.
- The plan without copies, each task only in its first cluster, is kept if shorter: never on equal machines without end.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.ranks import static_levels
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines


class Times(msgspec.Struct, frozen=True):
    """Per task: earliest start and completion, favourite predecessor, latest start and completion, and level."""

    est: list[float]
    ect: list[float]
    fpred: list[int | None]
    last: list[float]
    lact: list[float]
    level: list[float]


def tds(instance: Instance, *, copies: bool = True) -> TimelinePlan:
    """Clusters of tasks with their favourite predecessors up to an entry task, copied where others have them too.

    copies: False leaves them out.
    """
    found = times(instance)
    on = hosts(instance, clusters(instance, found))
    without = plan(instance, found, [machines[:1] for machines in on])
    return min(plan(instance, found, on), without, key=lambda made: made.makespan) if copies else without


def plan(instance: Instance, found: Times, on: Sequence[Sequence[int]]) -> TimelinePlan:
    """Tasks by earliest start, each on all its machines."""
    position = {task: place for place, task in enumerate(instance.order)}
    timelines = Timelines(instance)
    for task in sorted(range(instance.tasks), key=lambda task: (found.est[task], position[task])):
        for machine in on[task]:
            timelines.append(task, machine)
    return timelines.plan()


def times(instance: Instance) -> Times:
    """The paper's steps 1 and 2."""
    mean = instance.mean_times()
    est, ect = [0.0] * instance.tasks, [0.0] * instance.tasks
    fpred: list[int | None] = [None] * instance.tasks
    for task in instance.order:
        above = [parent for parent, _ in instance.parents[task]]
        if above:
            # Sharing a machine saves most with the parent of the last message; ties go to the lowest task.
            favourite = max(above, key=lambda parent: (ect[parent] + instance.transfers[parent, task], -parent))
            rest = (ect[parent] + instance.transfers[parent, task] for parent in above if parent != favourite)
            fpred[task], est[task] = favourite, max(ect[favourite], *rest, 0.0)
        ect[task] = est[task] + mean[task]
    last, lact = list(est), list(ect)
    for task in reversed(instance.order):
        if instance.children[task]:
            lact[task] = min(
                last[child] - (0.0 if fpred[child] == task else instance.transfers[task, child])
                for child, _ in instance.children[task]
            )
        last[task] = lact[task] - mean[task]
    return Times(est, ect, fpred, last, lact, static_levels(mean, instance))


def clusters(instance: Instance, found: Times) -> list[list[int]]:
    """Step 3: per cluster its tasks from the last one up to an entry task.

    A favourite predecessor with a cluster already is copied, unless its allowed delay (`last` - `lact`) is longer than
    its transfer and another predecessor, the lowest, has no cluster yet.
    """
    assigned: set[int] = set()
    made: list[list[int]] = []
    for first in sorted(range(instance.tasks), key=lambda task: (found.level[task], task)):
        if first in assigned:
            continue
        cluster, task = [first], first
        while (above := found.fpred[task]) is not None:
            if above in assigned and found.last[task] - found.lact[above] >= instance.transfers[above, task]:
                free = [parent for parent, _ in instance.parents[task] if parent not in assigned]
                above = free[0] if free else above
            cluster.append(above)
            task = above
        assigned.update(cluster)
        made.append(cluster)
    return made


def hosts(instance: Instance, made: Sequence[Sequence[int]]) -> list[list[int]]:
    """Per task its machines, in the order of their clusters, the most work first."""
    mean = instance.mean_times()
    load = np.zeros(instance.machines)
    unused = np.ones(instance.machines, dtype=bool)
    on: list[list[int]] = [[] for _ in range(instance.tasks)]
    for cluster in sorted(made, key=lambda cluster: -sum(mean[task] for task in cluster)):
        after = load + instance.times[cluster].sum(axis=0)
        machine = int(np.where(unused, after, np.inf).argmin() if unused.any() else after.argmin())
        unused[machine] = False
        for task in cluster:
            if machine not in on[task]:
                on[task].append(machine)
                load[machine] += instance.times[task, machine]
    return on
