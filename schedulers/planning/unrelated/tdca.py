"""Task Duplication based Clustering Algorithm. Source: He, Meng, Pan, Yuan, Zhou, TPDS 30(1), 2019.

Written from public reading notes, as the paper's pseudo code was not at hand: the four phases and their equations are
the paper's, and the following is ours where the notes are silent.

- A cluster's machine is the best machine without a cluster for its last task.
- Phase 2 takes the beginning of the trail with the earliest start for the task. Copies stay if the task starts sooner
  and the plan gets no longer.
- Phase 3 tries the machines with fewest tasks first, and moves all tasks of a machine to the first other machine
  without a longer plan.
- Phase 4: tasks go into idle stretches all along, in order of descending level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from schedulers.planning.unrelated.instance import Floats, Instance
from schedulers.planning.unrelated.ranks import rank_up
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines

#: Per task the machines it runs on, the first not a copy.
Hosts = list[list[int]]


class Guides(msgspec.Struct, frozen=True):
    """Guides to the place of tasks: ects [tasks, machines], best machine and critical parent per task, levels."""

    ects: Floats
    best: list[int]
    cpred: list[int | None]
    level: list[float]


def tdca(instance: Instance, *, copies: bool = True) -> TimelinePlan:
    """Clusters along critical parents, copies of their trails, fewer machines where free of cost.

    copies: False leaves phase 2 out.
    """
    guides = guide(instance)
    order = list(instance.by_priority(guides.level))
    timelines = laid(instance, order, clustered(instance, guides))
    if copies:
        timelines = _copied(timelines, order, guides)
    return _merged(timelines, order).plan()


def guide(instance: Instance) -> Guides:
    """Earliest completion per task and machine with every parent on its best machine, and the other guides."""
    ects = np.zeros_like(instance.times)
    for task in instance.order:
        starts = np.zeros(instance.machines)
        for parent, data in instance.parents[task]:
            starts = np.maximum(starts, (ects[parent][:, None] + data * instance.delays).min(axis=0))
        ects[task] = starts + instance.times[task]
    best = [int(x) for x in ects.argmin(axis=1)]
    cpred: list[int | None] = []
    for task in range(instance.tasks):
        arrivals = [
            (ects[parent, best[parent]] + data * instance.delays[best[parent], best[task]], -parent)
            for parent, data in instance.parents[task]
        ]
        cpred.append(-max(arrivals)[1] if arrivals else None)
    level = rank_up([float(x) for x in instance.times.max(axis=1)], instance.mean_edges)
    return Guides(ects, best, cpred, level)


def clustered(instance: Instance, guides: Guides) -> Hosts:
    """Phase 1: from the lowest level upward; tasks without a machine are left over."""
    transfer = instance.transfers
    hosts: Hosts = [[] for _ in range(instance.tasks)]
    unused = set(range(instance.machines))
    for first in sorted(range(instance.tasks), key=lambda task: (guides.level[task], task)):
        if hosts[first] or not unused:
            continue
        machine = min(unused, key=lambda m: (guides.ects[first, m], m))
        unused.remove(machine)
        task: int | None = first
        while task is not None:
            hosts[task].append(machine)
            near = [
                parent
                for parent, _ in instance.parents[task]
                if not hosts[parent]
                and guides.ects[parent, machine] <= guides.ects[parent, guides.best[parent]] + transfer[parent, task]
            ]
            critical = guides.cpred[task]
            if critical not in near:
                critical = min(near, key=lambda p: (guides.ects[p, machine], p), default=None)
            task = critical
    return hosts


def laid(instance: Instance, order: Sequence[int], hosts: Hosts) -> Timelines:
    """All tasks on their machines, in idle stretches too; a task without a machine goes where it could start first."""
    timelines = Timelines(instance)
    for task in order:
        for machine in hosts[task] or [int(np.maximum(timelines.ready(task), timelines.free).argmin())]:
            time = float(instance.times[task, machine])
            timelines.place(task, machine, timelines.earliest(machine, timelines.ready_on(task, machine), time))
    return timelines


def _hosts(timelines: Timelines) -> Hosts:
    return [[machine for machine, _ in runs] for runs in timelines.runs]


def _copied(timelines: Timelines, order: Sequence[int], guides: Guides) -> Timelines:
    """Phase 2: copies of the trail to a task, where the trail is not on its machine."""
    instance = timelines.instance
    for task in order:
        for machine in _hosts(timelines)[task]:
            trail = _shortest_wait(timelines, task, machine, guides)
            if trail:
                hosts = _hosts(timelines)
                for copied in trail:
                    hosts[copied].append(machine)
                other = laid(instance, order, hosts)
                sooner = dict(other.runs[task])[machine] < dict(timelines.runs[task])[machine]
                if sooner and other.plan().makespan <= timelines.plan().makespan:
                    timelines = other
    return timelines


def _shortest_wait(timelines: Timelines, task: int, machine: int, guides: Guides) -> list[int]:
    """The beginning of the trail of critical parents with the earliest data for a task; [] if none helps."""
    soonest, best = timelines.ready_on(task, machine), list[int]()
    trail: list[int] = []
    for above in _trail(timelines, task, machine, guides):
        trail.append(above)
        ends: dict[int, float] = {}
        for copied in [*reversed(trail), task]:
            arrivals = (
                min(timelines.arrival_on(parent, data, machine), ends.get(parent, np.inf))
                for parent, data in timelines.instance.parents[copied]
            )
            ready, time = max(arrivals, default=0.0), float(timelines.instance.times[copied, machine])
            ends[copied] = ready if copied == task else timelines.earliest(machine, ready, time) + time
        if ends[task] < soonest:
            soonest, best = ends[task], list(trail)
    return best


def _trail(timelines: Timelines, task: int, machine: int, guides: Guides) -> Iterator[int]:
    """Critical parents upward until a parent is on the machine."""
    above = guides.cpred[task]
    while above is not None and not timelines.runs_on(above, machine):
        yield above
        above = guides.cpred[above]


def _merged(timelines: Timelines, order: Sequence[int]) -> Timelines:
    """Phase 3: the tasks of a machine move to another where the plan gets no longer."""
    instance = timelines.instance
    hosts = _hosts(timelines)
    used = sorted({machine for machines in hosts for machine in machines})
    for one in sorted(used, key=lambda machine: (sum(machine in machines for machines in hosts), machine)):
        makespan = timelines.plan().makespan
        for other in used:
            joined = [list(dict.fromkeys(other if m == one else m for m in machines)) for machines in _hosts(timelines)]
            work = sum(instance.times[task, other] for task, machines in enumerate(joined) if other in machines)
            if other != one and work <= makespan:
                merged = laid(instance, order, joined)
                if merged.plan().makespan <= makespan:
                    timelines = merged
                    used.remove(one)
                    break
    return timelines
