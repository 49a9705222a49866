"""The resource-time space for Graphene's packing of a DAG (OSDI 2016, sections 4.2 and 4.3).

Time is unbounded on both sides. A machine's profile gives the free amounts in each stretch of time; neighbouring
stretches with equal free amounts are merged. Machines with the same history share a profile, and the tasks of a stage
are placed by the group: as many as fit on a machine at once, on as many machines of a profile as are needed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from operator import sub
from typing import Final

from schedulers.core.resources import Vector
from schedulers.planning.dags.dag import Dag, FitCounts
from schedulers.planning.dags.schedule import Batch

#: Beginnings of stretches, and the free amounts in each. The first begins before all times, the last never ends.
Profile = tuple[tuple[int, ...], tuple[Vector, ...]]

_EVER: Final = -(1 << 80)
_LAST: Final = 1 << 80


class OutOfBudget(Exception):
    """The work allowed for a search is used up."""


class SearchEffort:
    """Count of the stretches of machines' time looked at, the unit of all budgets here: never seconds."""

    __slots__ = ("allowed", "done")

    def __init__(self, allowed: int) -> None:
        self.allowed, self.done = allowed, 0

    def spend(self, stretches: int) -> None:
        """Raises OutOfBudget when more is done than allowed."""
        self.done += stretches
        if self.done > self.allowed:
            raise OutOfBudget


class Space:
    """Placed stages of a totally ordered part. ends, starts: per placed stage its tasks' last end and first start.

    span: from the first start to the last end, with the least time of unplaced stages before and behind placed stages:
    no completion is shorter. The smaller, the more compact.
    Placing a stage changes the space; whole sets of stages go through `forward` and `backward`, on a copy.
    """

    __slots__ = ("_after", "_before", "_dag", "_from", "_rows", "_to", "blocks", "ends", "starts", "work")

    def __init__(self, dag: Dag, part: Sequence[int], work: SearchEffort) -> None:
        """part: parents first."""
        self._dag, self.work = dag, work
        self._before, self._after = dag.margins(part)
        self._rows: list[tuple[Profile, tuple[int, ...]]] = [
            (((_EVER,), (dag.capacity,)), tuple(range(dag.machines))),
        ]
        self.blocks: list[Batch] = []
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        #: Where any completion begins at the latest and ends at the earliest.
        self._from, self._to = _LAST, -_LAST

    @property
    def first(self) -> int:
        """The first start of all, 0 in an empty space."""
        return min(self.starts.values(), default=0)

    @property
    def span(self) -> int:
        """See the class."""
        return max(0, self._to - self._from)

    def forward(self, stages: Collection[int], limit: int | None = None) -> Space | None:
        """PlaceTasksF: a copy with more stages placed, each as early as its placed parents allow.

        None as soon as the span reaches `limit` ms: the result would be thrown away.
        """
        return _place(self._copy(mirrored=False), stages, self._dag.parents, self._dag.children, limit)

    def backward(self, stages: Collection[int], limit: int | None = None) -> Space | None:
        """PlaceTasksB: the mirror image, each as late as its placed children allow."""
        mirror = _place(self._copy(mirrored=True), stages, self._dag.children, self._dag.parents, limit)
        return None if mirror is None else mirror._copy(mirrored=True)

    def _copy(self, *, mirrored: bool) -> Space:
        """The same placements; mirrored: with time running the other way."""
        made = Space.__new__(Space)
        made._dag, made.work = self._dag, self.work
        if mirrored:
            runtimes = self._dag.runtimes
            self.work.spend(sum(len(starts) for (starts, _), _ in self._rows))
            made._rows = [(_mirror(profile), machines) for profile, machines in self._rows]
            made.blocks = [Batch(b.stage, -b.start - runtimes[b.stage], b.each, b.machines) for b in self.blocks]
            made.starts = {stage: -end for stage, end in self.ends.items()}
            made.ends = {stage: -start for stage, start in self.starts.items()}
            made._before, made._after = self._after, self._before
            made._from, made._to = -self._to, -self._from
        else:
            made._rows, made.blocks = list(self._rows), list(self.blocks)
            made.starts, made.ends = dict(self.starts), dict(self.ends)
            made._before, made._after = self._before, self._after
            made._from, made._to = self._from, self._to
        return made

    def put(self, stage: int, ready: int) -> None:
        """Place all tasks of a stage, each at the earliest time from `ready` on with room to its end.

        Of machines with the same time, the group with the lowest number goes first.
        """
        room, runtime, demand = self._dag.rooms[stage], self._dag.runtimes[stage], self._dag.stages[stage].demand
        left = self._dag.stages[stage].tasks
        self.work.spend(len(self._rows))
        # Entries with 0 tasks have not been looked at yet: their time is only a lower bound.
        rows = [(ready, machines[0], 0, profile, machines) for profile, machines in self._rows]
        heapify(rows)
        first, start = None, ready
        while left:
            start, lowest, each, profile, machines = heappop(rows)
            if not each:
                start, each = self._earliest(profile, start, runtime, room)
                heappush(rows, (start, lowest, each, profile, machines))
                continue
            full, rest = divmod(min(left, each * len(machines)), each)
            left -= full * each + rest
            first = start if first is None else first
            at = 0
            for taken, tasks in ((full, each), (1 if rest else 0, rest)):
                if taken:
                    group = machines[at : at + taken]
                    self.blocks.append(Batch(stage, start, tasks, group))
                    cut = _cut(profile, start, start + runtime, tuple(tasks * amount for amount in demand))
                    heappush(rows, (start, group[0], 0, cut, group))
                    at += taken
            if at < len(machines):
                heappush(rows, (start, machines[at], each, profile, machines[at:]))
        self._rows = [(profile, machines) for *_, profile, machines in rows]
        assert first is not None
        # The heap gives starts in order, so the last one is the latest.
        self.starts[stage], self.ends[stage] = first, start + runtime
        self._from = min(self._from, first - self._before[stage])
        self._to = max(self._to, start + runtime + self._after[stage])

    def _earliest(self, profile: Profile, ready: int, runtime: int, room: FitCounts) -> tuple[int, int]:
        """The earliest start from `ready` on with room for a task's whole run time, and how many tasks fit then."""
        starts, free = profile
        begin = at = bisect_right(starts, ready) - 1
        last, start, each = len(starts) - 1, ready, 0
        while True:
            here = room[free[at]]
            if not here:
                each = 0
                at += 1
                start = starts[at]
                continue
            if not each or here < each:
                each = here
            if at == last or starts[at + 1] - start >= runtime:
                self.work.spend(at - begin + 1)
                return start, each
            at += 1


def _place(
    space: Space,
    stages: Collection[int],
    parents: list[tuple[int, ...]] | list[list[int]],
    children: list[tuple[int, ...]] | list[list[int]],
    limit: int | None,
) -> Space | None:
    """Place stages, of the ready stages the longest run time first, ties to the lowest index.

    Ready: all parents inside the set are placed. (The paper asks for all parents, in vain when the set's parents are
    to be placed later.) A stage with no placed parent may start when the space does.
    """
    runtimes, inside = space._dag.runtimes, set(stages)
    missing = {s: sum(p in inside for p in parents[s]) for s in stages}
    ready = [(-runtimes[s], s) for s in stages if not missing[s]]
    heapify(ready)
    first = space.first
    while ready:
        _, stage = heappop(ready)
        after = max((space.ends[p] for p in parents[stage] if p in space.ends), default=None)
        space.put(stage, first if after is None else after)
        first = min(first, space.starts[stage])
        if limit is not None and space.span >= limit:
            return None
        for child in children[stage]:
            if child in inside:
                missing[child] -= 1
                if not missing[child]:
                    heappush(ready, (-runtimes[child], child))
    return space


def _mirror(profile: Profile) -> Profile:
    starts, free = profile
    return (_EVER, *(-start for start in reversed(starts[1:]))), free[::-1]


def _cut(profile: Profile, start: int, end: int, taken: Vector) -> Profile:
    """The profile with so much less free from start to end."""
    starts, free = profile
    i, j = bisect_right(starts, start) - 1, bisect_left(starts, end)
    keep = i + 1 if starts[i] < start else i
    left = free[i] if keep > i else (free[i - 1] if i else None)
    inner_starts = (start, *starts[i + 1 : j])
    inner = tuple([tuple(map(sub, amounts, taken)) for amounts in free[i:j]])
    if left == inner[0]:
        inner_starts, inner_kept = inner_starts[1:], inner[1:]
    else:
        inner_kept = inner
    right_starts, right = starts[j:], free[j:]
    if not (j < len(starts) and starts[j] == end):
        right_starts, right = (end, *right_starts), (free[j - 1], *right)
    if right[0] == inner[-1]:
        right_starts, right = right_starts[1:], right[1:]
    return (*starts[:keep], *inner_starts, *right_starts), (*free[:keep], *inner_kept, *right)
