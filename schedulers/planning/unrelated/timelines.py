"""A plan in the making: runs of tasks on machines over time, and arrivals of their data."""

from __future__ import annotations

from bisect import bisect_left, insort

import msgspec
import numpy as np

from schedulers.core.errors import InvalidPlan
from schedulers.planning.unrelated.instance import Floats, Instance


class TimelinePlacement(msgspec.Struct, frozen=True, gc=False):
    """A run of a task on a machine. copy: the task has been placed elsewhere before."""

    task: int
    machine: int
    start: float
    end: float
    copy: bool = False


class TimelinePlan(msgspec.Struct, frozen=True):
    """Placements in the order of decisions: parents before children, a copy before the child served."""

    placements: tuple[TimelinePlacement, ...]

    @property
    def makespan(self) -> float:
        """First time with every task ended once; nobody waits for copies still running then."""
        ends: dict[int, float] = {}
        for p in self.placements:
            ends[p.task] = min(p.end, ends.get(p.task, p.end))
        return max(ends.values(), default=0.0)

    @property
    def copies(self) -> int:
        """Number of copies."""
        return sum(p.copy for p in self.placements)


class Timelines:
    """Machines over time. `free`: [machines], when the last task on each ends."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.placements: list[TimelinePlacement] = []
        self.free: Floats = instance.busy.copy()
        #: Per machine its idle stretches before `free` as (end, start), in order.
        self._gaps: list[list[tuple[float, float]]] = [[] for _ in range(instance.machines)]
        #: Per task its runs as (machine, end), the first not a copy.
        self.runs: list[list[tuple[int, float]]] = [[] for _ in range(instance.tasks)]
        self._ready: dict[int, Floats] = {}

    def branch(self) -> Timelines:
        """An independent copy."""
        other = Timelines.__new__(Timelines)
        other.instance, other.placements, other.free = self.instance, self.placements.copy(), self.free.copy()
        other._gaps = [gaps.copy() for gaps in self._gaps]
        other.runs = [runs.copy() for runs in self.runs]
        other._ready = self._ready.copy()
        return other

    def plan(self) -> TimelinePlan:
        """The plan of all placed runs. Raises InvalidPlan while a task is missing."""
        for task, runs in enumerate(self.runs):
            if not runs:
                raise InvalidPlan(f"task {task} has not been placed")
        return TimelinePlan(tuple(self.placements))

    # -- When data is there --------------------------------------------------------------------------------------

    def arrival(self, parent: int, data: float) -> Floats:
        """[machines]: when so much of a placed task's data can be there, from whichever run (LACHESIS, equation 9)."""
        delays, runs = self.instance.delays, self.runs[parent]
        machine, end = runs[0]
        soonest: Floats = end + data * delays[machine]
        for machine, end in runs[1:]:
            soonest = np.minimum(soonest, end + data * delays[machine])
        return soonest

    def arrival_on(self, parent: int, data: float, machine: int) -> float:
        """The same on one machine."""
        delays = self.instance.delays
        return min(end + data * float(delays[there, machine]) for there, end in self.runs[parent])

    def ready(self, task: int) -> Floats:
        """[machines]: when the data of all parents can be there; kept until a parent is placed again."""
        found = self._ready.get(task)
        if found is None:
            found = np.zeros(self.instance.machines)
            for parent, data in self.instance.parents[task]:
                found = np.maximum(found, self.arrival(parent, data))
            self._ready[task] = found
        return found

    def ready_on(self, task: int, machine: int) -> float:
        """The same on one machine."""
        return max((self.arrival_on(p, data, machine) for p, data in self.instance.parents[task]), default=0.0)

    def runs_on(self, task: int, machine: int) -> bool:
        """Whether a run of the task is there."""
        return any(there == machine for there, _ in self.runs[task])

    # -- When a machine is free ----------------------------------------------------------------------------------

    def earliest(self, machine: int, ready: float, time: float) -> float:
        """The first start from `ready` on, in an idle stretch or behind all placed runs."""
        free = float(self.free[machine])
        if ready < free:
            gaps = self._gaps[machine]
            # A gap with an earlier end is too early for the task.
            for at in range(bisect_left(gaps, (ready + time, 0.0)), len(gaps)):
                end, start = gaps[at]
                begin = max(start, ready)
                if begin + time <= end:
                    return begin
        return max(ready, free)

    def soonest(
        self, ready: Floats, times: Floats, *, insertion: bool, beyond: Floats | None = None
    ) -> tuple[float, int, float]:
        """(end, machine, start) of the earliest end; ties go to the lowest machine.

        ready: [machines], when the data is there. insertion: idle stretches count. beyond: [machines], is added to
        the compared and returned end.
        """
        after = times if beyond is None else times + beyond
        ends = np.maximum(ready, self.free) + after
        machine = int(ends.argmin())
        best, start = float(ends[machine]), max(float(ready[machine]), float(self.free[machine]))
        if insertion:
            # Fast path: look for gaps only on machines early enough if they were idle.
            for other in np.flatnonzero((ready < self.free) & (ready + after <= best)).tolist():
                begin = self.earliest(other, float(ready[other]), float(times[other]))
                end = begin + float(after[other])
                if end < best or (end == best and other < machine):
                    best, machine, start = end, other, begin
        return best, machine, start

    # -- Placing -------------------------------------------------------------------------------------------------

    def place(self, task: int, machine: int, start: float) -> None:
        """Place a task, or a copy of a placed task. The machine must be idle then: `start` comes from this object."""
        end = start + float(self.instance.times[task, machine])
        self._take(machine, start, end)
        self.placements.append(TimelinePlacement(task, machine, start, end, bool(self.runs[task])))
        self.runs[task].append((machine, end))
        for child, _ in self.instance.children[task]:
            self._ready.pop(child, None)

    def append(self, task: int, machine: int) -> None:
        """Place a task behind all runs on a machine, as soon as its data is there."""
        self.place(task, machine, max(float(self.free[machine]), self.ready_on(task, machine)))

    def _take(self, machine: int, start: float, end: float) -> None:
        gaps, free = self._gaps[machine], float(self.free[machine])
        if start >= free:
            if start > free:
                gaps.append((start, free))
            self.free[machine] = end
            return
        if end == start:
            return  # what takes no time takes no room
        found = bisect_left(gaps, (end, 0.0))
        gap_end, gap_start = gaps.pop(found)
        if gap_start < start:
            insort(gaps, (start, gap_start))
        if end < gap_end:
            insort(gaps, (gap_end, end))
