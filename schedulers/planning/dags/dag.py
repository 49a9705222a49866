"""One DAG to plan: its stages with estimated run times, and equal machines to run on.

Tasks of a stage are alike (run time, demand, parents), so everything offline reasons over stages (Graphene,
OSDI 2016, section 4.4). Times are integer milliseconds, amounts the core's integer steps; only estimates are rounded,
on their way in. Gangs, wishes for nodes and limits on places are not planned for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from fractions import Fraction

from schedulers.core.errors import InvalidPlan
from schedulers.core.model import Job, Stage, check_job, topological_order
from schedulers.core.resources import Vector
from schedulers.core.vectors import fits
from schedulers.kit.paths import depths


class FitCounts(dict[Vector, int]):
    """How many tasks of one demand fit into a free vector at once; worked out when first asked."""

    def __init__(self, demand: Vector) -> None:
        super().__init__()
        self._wanted = [(r, amount) for r, amount in enumerate(demand) if amount]

    def __missing__(self, free: Vector) -> int:
        self[free] = count = min(free[r] // amount for r, amount in self._wanted)
        return count


class Dag:
    """Checked input of every planner.

    parents, children: per stage its neighbours' indexes. order: stages, parents first. rooms: per stage a `FitCounts`.
    """

    def __init__(
        self, stages: tuple[Stage, ...], runtimes_ms: Sequence[float | None], capacity: Vector, machines: int
    ) -> None:
        """runtimes_ms: one estimate per stage, rounded to ms, at least 1.

        Raises InvalidJob for stages without the form of a DAG, and InvalidPlan for estimates missing or not above 0,
        and for demands too large for every machine.
        """
        if machines < 1:
            raise InvalidPlan(f"{machines} machines (at least 1 is needed)")
        check_job(Job(id="to plan", stages=stages), len(capacity))
        self.stages, self.capacity, self.machines = stages, tuple(capacity), machines
        self.runtimes = _checked(stages, runtimes_ms)
        for stage in stages:
            if not fits(stage.demand, capacity):
                raise InvalidPlan(f"stage '{stage.name}' demands {stage.demand}, which fits no machine of {capacity}")
        self.parents = [tuple(sorted(set(stage.above))) for stage in stages]
        self.children: list[list[int]] = [[] for _ in stages]
        for index, parents in enumerate(self.parents):
            for parent in parents:
                self.children[parent].append(index)
        self.order = topological_order(stages)
        shared = {stage.demand: FitCounts(stage.demand) for stage in stages}
        self.rooms = [shared[stage.demand] for stage in stages]

    def __len__(self) -> int:
        return len(self.stages)

    def tasks_of(self, stages: Collection[int]) -> int:
        """Number of tasks of some stages."""
        return sum(self.stages[s].tasks for s in stages)

    def alone_ms(self, stage: int) -> int:
        """ExecTime: the time of a stage with all machines to itself, in full waves, ms.

        No schedule of the stage is shorter: at most `at_once` of its tasks run together, so the tasks share as many
        slots, each with a single task at a time.
        """
        at_once = self.machines * self.rooms[stage][self.capacity]
        return -(-self.stages[stage].tasks // at_once) * self.runtimes[stage]

    def work_ms(self, stages: Collection[int]) -> Fraction:
        """TWork: least time for the work of some stages, by the resource in shortest supply, ms."""
        most = Fraction(0)
        for r, whole in enumerate(self.capacity):
            asked = sum(self.stages[s].tasks * self.runtimes[s] * self.stages[s].demand[r] for s in stages)
            if asked:
                most = max(most, Fraction(asked, whole * self.machines))
        return most

    def depths(self) -> list[int]:
        """Per stage the number of stages before it on the longest way from a root."""
        return depths(self.stages)

    def ways_out(self) -> list[int]:
        """Per stage the longest way to the end in ms, its own run time counted."""
        ways = [0] * len(self)
        for s in reversed(self.order):
            ways[s] = self.runtimes[s] + max((ways[c] for c in self.children[s]), default=0)
        return ways

    def margins(self, part: Sequence[int]) -> tuple[dict[int, int], dict[int, int]]:
        """Per stage of a part the least time of its ancestors there before the stage, and of its descendants after, ms.

        part: parents first. The times of stages with all machines to themselves add up along a path, since nothing of
        a stage starts before all tasks of its parents have ended.
        """
        alone = {s: self.alone_ms(s) for s in part}
        before, after = dict[int, int](), dict[int, int]()
        for s in part:
            before[s] = max((before[p] + alone[p] for p in self.parents[s] if p in alone), default=0)
        for s in reversed(part):
            after[s] = max((after[c] + alone[c] for c in self.children[s] if c in alone), default=0)
        return before, after

    def parts(self) -> list[list[int]]:
        """The DAG cut wherever all stages before the cut are ancestors of all behind it (Graphene, section 4.4).

        A cut lies between two depths. Condition: every stage at the depth behind the cut has all sinks of the part
        before the cut as parents. A way from a sink to a source of the rest has no other stage to pass through.
        """
        depths = self.depths()
        levels: list[list[int]] = [[] for _ in range(max(depths) + 1)]
        for s in self.order:
            levels[depths[s]].append(s)
        nearest = [min((depths[c] for c in children), default=len(levels)) for children in self.children]
        parts, sinks = [list(levels[0])], 0
        for depth in range(1, len(levels)):
            # Sinks: stages before the depth without children before the depth; a stage without children stays a sink.
            sinks += sum(1 for s in levels[depth - 1])
            sinks -= sum(1 for s in _fed_at(depth - 1, levels, nearest, self.parents))
            if all(sum(nearest[p] == depth for p in self.parents[s]) == sinks for s in levels[depth]):
                parts.append([])
            parts[-1] += levels[depth]
        return parts


def _fed_at(depth: int, levels: list[list[int]], nearest: list[int], parents: list[tuple[int, ...]]) -> set[int]:
    """Stages with their first children at a depth."""
    return {p for s in levels[depth] for p in parents[s] if nearest[p] == depth}


def _checked(stages: tuple[Stage, ...], runtimes_ms: Sequence[float | None]) -> list[int]:
    if len(runtimes_ms) != len(stages):
        raise InvalidPlan(f"{len(runtimes_ms)} estimates for {len(stages)} stages (one per stage is needed)")
    runtimes = []
    for stage, runtime in zip(stages, runtimes_ms, strict=True):
        if runtime is None:
            raise InvalidPlan(f"stage '{stage.name}' has no estimate (a run time in ms is needed)")
        if not (math.isfinite(runtime) and runtime > 0):
            raise InvalidPlan(f"stage '{stage.name}' has an estimate of {runtime} ms (a finite number above 0)")
        runtimes.append(max(1, round(runtime)))
    return runtimes
