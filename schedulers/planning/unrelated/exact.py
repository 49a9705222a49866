"""The shortest plan of a tiny DAG on unlike machines, with or without copies, by trying everything.

Planners and known answers are held against this optimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from schedulers.core.errors import InvalidPlan
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.planners import PLANNERS

MOST_TASKS: Final = 12
#: States looked at: two seconds.
BUDGET: Final = 20_000
_WITHOUT_COPIES: Final = ("heft", "cpop", "dls", "peft", "etf")


def shortest_makespan(
    instance: Instance, *, copies: bool = False, known: float = math.inf, budget: int = BUDGET
) -> float | None:
    """The optimum, or None if the budget did not suffice to find it.

    Some optimal plan starts everything as soon as its machine and its data allow, so all orders of starts are tried,
    and given up once a bound is no better than the best so far. copies: tasks may run on several machines. known: the
    makespan of a known plan; only shorter plans are looked for. Raises InvalidPlan for more than MOST_TASKS tasks.
    """
    if instance.tasks > MOST_TASKS:
        raise InvalidPlan(f"{instance.tasks} tasks are too many to try all (at most {MOST_TASKS})")
    names = PLANNERS if copies else _WITHOUT_COPIES
    best = min(known, *(PLANNERS[name](instance).makespan for name in names))
    search = _Search(instance, best, budget, copies=copies)
    search.go_on(0.0)
    return search.best if search.budget > 0 else None


class _Search:
    """Depth first, runs in order of their starts."""

    def __init__(self, instance: Instance, best: float, budget: int, *, copies: bool) -> None:
        self._instance, self.best, self.budget, self._copies = instance, best, budget, copies
        self._times: list[list[float]] = instance.times.tolist()
        self._delays: list[list[float]] = instance.delays.tolist()
        self._least = [min(row) for row in self._times]
        #: From the end of a task to the end of all at least.
        self._tails = [0.0] * instance.tasks
        for task in reversed(instance.order):
            self._tails[task] = max((self._least[c] + self._tails[c] for c, _ in instance.children[task]), default=0.0)
        #: Per task its end on each of its machines.
        self._ends: list[dict[int, float]] = [{} for _ in range(instance.tasks)]
        self._free = [0.0] * instance.machines
        self._seen: set[tuple[object, ...]] = set()

    def go_on(self, now: float) -> None:
        """now: the last start; nothing starts before `now` any more."""
        self.budget -= 1
        if self.budget <= 0 or not self._may_help(now) or not self._is_new(now):
            return
        if all(self._ends):
            self.best = self._makespan()
            return
        for bound, start, task, machine in sorted(self._options(now)):
            if bound < self.best:
                free = self._free[machine]
                self._ends[task][machine] = self._free[machine] = start + self._times[task][machine]
                self.go_on(start)
                del self._ends[task][machine]
                self._free[machine] = free

    def _makespan(self) -> float:
        return max(min(ends.values(), default=0.0) for ends in self._ends)

    def _may_help(self, now: float) -> bool:
        """Whether bounds allow something shorter: by when each task could end and the way from there, and by work."""
        instance, machines = self._instance, range(self._instance.machines)
        could: list[list[float]] = [[]] * instance.tasks
        for task in instance.order:
            ends = self._ends[task]
            could[task] = [ends.get(machine, math.inf) for machine in machines]
            if not ends or (self._copies and self._is_open(task)):
                for machine in machines:
                    if machine not in ends:
                        start = max(now, self._free[machine])
                        for parent, data in instance.parents[task]:
                            arrivals = zip(could[parent], (row[machine] for row in self._delays), strict=True)
                            start = max(start, min(end + data * delay for end, delay in arrivals))
                        could[task][machine] = start + self._times[task][machine]
            if min(could[task]) + self._tails[task] >= self.best:
                return False
        todo = sum(least for least, ends in zip(self._least, self._ends, strict=True) if not ends)
        busy = sum(max(now, free) for free in self._free)
        return bool(busy + todo < self.best * len(self._free))

    def _options(self, now: float) -> Iterator[tuple[float, float, int, int]]:
        """(bound, start, task, machine) of possible next runs: tasks, and copies with an effect on arrivals of data."""
        for task, ends in enumerate(self._ends):
            if all(self._ends[parent] for parent, _ in self._instance.parents[task]):
                for machine in range(len(self._free)):
                    start = max(now, self._free[machine], self._ready(task, machine))
                    end = start + self._times[task][machine]
                    if not ends:
                        yield end + self._tails[task], start, task, machine
                    elif self._copies and machine not in ends and self._helps(task, machine, end):
                        yield end, start, task, machine

    def _ready(self, task: int, machine: int) -> float:
        return max((self._arrival(parent, data, machine) for parent, data in self._instance.parents[task]), default=0.0)

    def _arrival(self, task: int, data: float, machine: int) -> float:
        return min(end + data * self._delays[there][machine] for there, end in self._ends[task].items())

    def _helps(self, task: int, machine: int, end: float) -> bool:
        """Whether data of a copy with such an end would be anywhere sooner for a child to come."""
        return any(
            end + data * self._delays[machine][there] < self._arrival(task, data, there)
            for child, data in self._instance.children[task]
            if not self._ends[child] or self._is_open(child)
            for there in range(len(self._free))
        )

    def _is_open(self, task: int) -> bool:
        """Whether a child may still take the task's data."""
        return any(not self._ends[c] or self._is_open(c) for c, _ in self._instance.children[task])

    def _is_new(self, now: float) -> bool:
        """Whether the state is new: placed runs, as far as they still count, not reached in another order."""
        placed = tuple(
            tuple(sorted(ends.items())) if self._is_open(task) else bool(ends) for task, ends in enumerate(self._ends)
        )
        state = (placed, tuple(max(now, free) for free in self._free), now, self._makespan())
        if state in self._seen:
            return False
        self._seen.add(state)
        return True
