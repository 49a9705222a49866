"""DEFT: the earliest finish with at most one copied parent. Source: LACHESIS (arXiv 2103.06980), equations 9 to 11.

As printed, the start of a task in equation 2 and the end of a task with a copy in equation 10 leave out the wait for a
free machine, and the copy's own time; the text needs both, and both are in here. A copy is made only if the task then
ends sooner. Of equal ends the paper says nothing: no copy goes first, then the lowest parent, then the lowest machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from schedulers.planning.unrelated.instance import Floats, Instance
from schedulers.planning.unrelated.ranks import ranks_down, ranks_up
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines

#: Priorities of tasks, the highest first among those that are ready. `rank_down` takes the task that is furthest from
#: the beginning; `fifo` the one of the lowest number.
ORDERS: Final[Mapping[str, Callable[[Instance], Sequence[float]]]] = MappingProxyType(
    {
        "rank_up": partial(ranks_up, mean="speeds"),
        "rank_down": partial(ranks_down, mean="speeds"),
        "fifo": lambda instance: [0.0] * instance.tasks,
    }
)


class DeftChoice(msgspec.Struct, frozen=True, gc=False):
    """A task's machine and times. parent: the parent copied there first, at `copy_start`; None: no copy."""

    end: float
    machine: int
    start: float
    parent: int | None = None
    copy_start: float = 0.0


def deft(
    instance: Instance, priorities: Sequence[float] | None = None, *, insertion: bool = False, runs: float = math.inf
) -> TimelinePlan:
    """Ready tasks by priority, each on the machine of its earliest end, with or without a copy of a parent.

    priorities: per task, the highest first; LACHESIS's upward rank if None (HighRankUp-DEFT). insertion: idle
    stretches between tasks are used; the paper's `avail` appends. runs: of a task at most; 1: no copies (EFT).
    """
    timelines = Timelines(instance)
    for task in instance.by_priority(ORDERS["rank_up"](instance) if priorities is None else priorities):
        place(timelines, task, choose(timelines, task, insertion=insertion, runs=runs))
    return timelines.plan()


def deft_insertion(instance: Instance, *, runs: float = math.inf) -> TimelinePlan:
    """HighRankUp-DEFT with idle stretches."""
    return deft(instance, insertion=True, runs=runs)


def heft_copies(instance: Instance, *, runs: float = math.inf) -> TimelinePlan:
    """HEFT with DEFT's copies: HEFT's ranks and idle stretches, and a copied parent where the task ends sooner."""
    return deft(instance, ranks_up(instance), insertion=True, runs=runs)


def place(timelines: Timelines, task: int, choice: DeftChoice) -> None:
    """Place a task as chosen, and before the task its copied parent."""
    if choice.parent is not None:
        timelines.place(choice.parent, choice.machine, choice.copy_start)
    timelines.place(task, choice.machine, choice.start)


def choose(
    timelines: Timelines, task: int, *, insertion: bool = False, runs: float = math.inf, only: int | None = None
) -> DeftChoice:
    """The choice for a task behind its placed parents (equation 11). O(parents x machines) array steps.

    runs: how often a task may run, copies included. only: the single machine allowed; without insertion.
    """
    times = timelines.instance.times[task]
    if only is not None:
        times = np.where(np.arange(len(times)) == only, times, np.inf)
    best = DeftChoice(*timelines.soonest(timelines.ready(task), times, insertion=insertion))
    parents = timelines.instance.parents[task] if runs > 1 else []
    arrivals = [timelines.arrival(parent, data) for parent, data in parents]
    for (parent, _), others in zip(parents, _without_each(arrivals, timelines.instance.machines), strict=True):
        if best.end > float((others + times).min()) and len(timelines.runs[parent]) < runs:
            if insertion:
                best = _copied(timelines, task, parent, others, best)
            else:
                best = _copied_behind(timelines, times, parent, others, best)
    return best


def _copied_behind(timelines: Timelines, times: Floats, parent: int, others: Floats, best: DeftChoice) -> DeftChoice:
    """The better of the best so far and of a parent copied first, both behind all placed runs (equation 10)."""
    copies = np.maximum(timelines.free, timelines.ready(parent))
    starts = np.maximum(copies + timelines.instance.times[parent], others)
    ends = starts + times
    ends[[machine for machine, _ in timelines.runs[parent]]] = np.inf
    machine = int(ends.argmin())
    if ends[machine] < best.end:
        return DeftChoice(float(ends[machine]), machine, float(starts[machine]), parent, float(copies[machine]))
    return best


def _copied(timelines: Timelines, task: int, parent: int, others: Floats, best: DeftChoice) -> DeftChoice:
    """The same with idle stretches. The task behind the copy needs no other room than without a copy."""
    ready, times = timelines.ready(parent), timelines.instance.times
    least = np.maximum(ready + times[parent], others) + times[task]
    for machine in np.flatnonzero(least < best.end).tolist():
        if least[machine] < best.end and not timelines.runs_on(parent, machine):
            copy = timelines.earliest(machine, float(ready[machine]), float(times[parent, machine]))
            there = max(copy + float(times[parent, machine]), float(others[machine]))
            start = timelines.earliest(machine, there, float(times[task, machine]))
            end = start + float(times[task, machine])
            if end < best.end:
                best = DeftChoice(end, machine, start, parent, copy)
    return best


def _without_each(arrivals: Sequence[Floats], machines: int) -> list[Floats]:
    """For each parent when the data of all others is there."""
    before = [np.zeros(machines)]
    for arrival in arrivals:
        before.append(np.maximum(before[-1], arrival))
    after, others = before[0], []
    for position in reversed(range(len(arrivals))):
        others.append(np.maximum(before[position], after))
        after = np.maximum(after, arrivals[position])
    return others[::-1]
