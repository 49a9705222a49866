"""Duplication First, Reduction Next. Source: Park, Shirazi, Marquis, IPPS 1997 (algorithm DFRN, section 4).

Made for equal machines without end; optimal there where the DAG is a tree. The paper is silent on ties; here the lowest
task and the lowest machine win. Ours, as the paper has no unlike or too few machines:

- Heavy is meant by mean times. Of unused machines the copied prefix and the task take the machine of their first end.
- When no machine is unused, the task goes to the machine of its first end, behind all placed runs, and parents are
  copied there and dropped again as for a join.
- A task with a sooner end elsewhere without any copy goes there, so copies never lengthen a plan. On equal machines
  without end this happens as well, though rarely (9 tasks of 1,500 random DAGs).
"""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines


def dfrn(instance: Instance, *, copies: bool = True) -> TimelinePlan:
    """Tasks level by level, heavier first: behind their critical parent, with copies of late ancestors.

    copies: False leaves copies out; then each task goes to the machine of its first end.
    """
    timelines = Timelines(instance)
    for task in by_level(instance):
        end, machine, _ = timelines.soonest(timelines.ready(task), instance.times[task], insertion=False)
        copied = _copied(timelines, task, machine) if copies else timelines
        if copies and copied.runs[task][0][1] <= end:
            timelines = copied
        else:
            timelines.append(task, machine)
    return timelines.plan()


def _copied(before: Timelines, task: int, soonest: int) -> Timelines:
    """The plan with a task more and its copies. soonest: the machine of the task's first end without copies."""
    timelines = before.branch()
    parents = [parent for parent, _ in timelines.instance.parents[task]]
    machine = (
        _behind(timelines, _by_arrival(timelines, task, parents)[0], task) if parents else _unused(timelines, [], task)
    )
    if len(parents) > 1 or machine is None:
        _duplicate(timelines, task, soonest if machine is None else machine)
    timelines.append(task, soonest if machine is None else machine)
    return timelines


def by_level(instance: Instance) -> list[int]:
    """Heavy Node First: by level (edges from the beginning), then the heaviest, then the lowest."""
    levels, mean = [0] * instance.tasks, instance.mean_times()
    for task in instance.order:
        levels[task] = max((levels[parent] + 1 for parent, _ in instance.parents[task]), default=0)
    return sorted(range(instance.tasks), key=lambda task: (levels[task], -mean[task], task))


def _by_arrival(timelines: Timelines, task: int, parents: Sequence[int]) -> list[int]:
    """Parents by the arrival of a travelling message, from their earliest end, the latest first."""
    rate = timelines.instance.mean_rate
    data = dict(timelines.instance.parents[task])
    arrival = {parent: min(end for _, end in timelines.runs[parent]) + data[parent] / rate for parent in parents}
    return sorted(parents, key=lambda parent: (-arrival[parent], parent))


def _behind(timelines: Timelines, parent: int, task: int) -> int | None:
    """The machine with the parent at its end, or an unused machine with a copy of all up to it; None: neither."""
    there, end = min(timelines.runs[parent], key=lambda run: (run[1], run[1] < timelines.free[run[0]], run[0]))
    if end == timelines.free[there]:
        return there
    prefix = sorted((p for p in timelines.placements if p.machine == there and p.end <= end), key=lambda p: p.start)
    fresh = _unused(timelines, [p.task for p in prefix], task)
    if fresh is not None:
        for placed in prefix:
            timelines.append(placed.task, fresh)
    return fresh


def _unused(timelines: Timelines, prefix: Sequence[int], task: int) -> int | None:
    """The unused machine of the first end for a prefix of tasks and then a task."""
    used = {p.machine for p in timelines.placements}
    ends = [
        (_laid(timelines, [*prefix, task], machine)[-1][1], machine)
        for machine in range(timelines.instance.machines)
        if machine not in used
    ]
    return min(ends)[1] if ends else None


def _duplicate(timelines: Timelines, task: int, machine: int) -> None:
    """Copy the task's late ancestors to its machine, and drop copies without effect.

    A copy has to end before its data can come from elsewhere, and before the data of the decisive parent: of the
    parents elsewhere the parent with the last data. So the task never starts later than without copies.
    """
    instance = timelines.instance
    tasks = _missing(timelines, task, machine, set())
    decisive = timelines.ready_on(task, machine)
    for copied in list(tasks):
        end = dict(_laid(timelines, tasks, machine))[copied]
        here = {task, *tasks}
        elsewhere = (
            timelines.arrival_on(copied, data, machine) for child, data in instance.children[copied] if child in here
        )
        if end > min(decisive, max(elsewhere)):
            tasks.remove(copied)
    for copied in reversed(list(tasks)):
        if not any(child == task or child in tasks for child, _ in instance.children[copied]):
            tasks.remove(copied)
    for copied in tasks:
        timelines.append(copied, machine)


def _missing(timelines: Timelines, task: int, machine: int, seen: set[int]) -> list[int]:
    """Duplication first: ancestors without a run there, parents before children, the latest message first."""
    made = []
    for parent in _by_arrival(timelines, task, [parent for parent, _ in timelines.instance.parents[task]]):
        if parent not in seen and not timelines.runs_on(parent, machine):
            seen.add(parent)
            made += [*_missing(timelines, parent, machine, seen), parent]
    return made


def _laid(timelines: Timelines, tasks: Sequence[int], machine: int) -> list[tuple[int, float]]:
    """The end of each task if all were appended to a machine in sequence."""
    instance, at = timelines.instance, float(timelines.free[machine])
    ends: dict[int, float] = {}
    for task in tasks:
        for parent, data in instance.parents[task]:
            there = timelines.arrival_on(parent, data, machine)
            at = max(at, min(there, ends.get(parent, there)))
        at += float(instance.times[task, machine])
        ends[task] = at
    return list(ends.items())
