"""A schedule of one DAG on equal machines: machine and time of each task, checked exactly."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from schedulers.core.errors import InvalidPlan
from schedulers.core.model import Stage
from schedulers.core.policy import Planned, Stretch
from schedulers.core.resources import Vector
from schedulers.core.vectors import fits
from schedulers.planning.dags.dag import Dag

#: Stretches of time of one stage in a plan in short: more could not be told apart on a screen either.
STRETCHES: Final = 32


class Placement(msgspec.Struct, frozen=True, order=True, gc=False):
    """A task's time on a machine, in ms from the schedule's start; the end is exclusive."""

    start: int
    end: int
    stage: int
    task: int
    machine: int


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Tasks of a stage with the same start: `each` tasks on every machine of `machines`."""

    stage: int
    start: int
    each: int
    machines: tuple[int, ...]


class Schedule(msgspec.Struct, frozen=True, dict=True):
    """Placements by start, then stage, then task. Tasks of a stage are numbered in order of their starts."""

    placements: tuple[Placement, ...]

    @classmethod
    def of_blocks(cls, blocks: Iterable[Batch], runtimes_ms: Sequence[int]) -> Schedule:
        """The schedule made of the blocks, shifted in time so that the first task starts at 0."""
        rows = sorted(
            (block.start, block.stage, machine)
            for block in blocks
            for machine in block.machines
            for _ in range(block.each)
        )
        first = rows[0][0] if rows else 0
        placed: dict[int, int] = {}
        placements = []
        for at, stage, machine in rows:
            task = placed.get(stage, 0)
            placed[stage] = task + 1
            start = at - first
            placements.append(Placement(start, start + runtimes_ms[stage], stage, task, machine))
        return cls(tuple(placements))

    @cached_property
    def makespan(self) -> int:
        """When the last task ends."""
        return max((p.end for p in self.placements), default=0)

    @property
    def order(self) -> list[tuple[int, int]]:
        """(stage, task) by start: parents first, since a child starts at its parents' ends or later."""
        return [(p.stage, p.task) for p in self.placements]

    def stretches(self) -> tuple[Stretch, ...]:
        """Stretches of time with the work of each stage, by start.

        A stage's number of running tasks is the same all through a stretch. A stage with more than STRETCHES changes
        is told in so many stretches of about equal length.
        """
        starts: dict[int, list[int]] = {}
        runtimes: dict[int, int] = {}
        for p in self.placements:
            starts.setdefault(p.stage, []).append(p.start)
            runtimes[p.stage] = p.end - p.start
        stretches = [stretch for stage, at in starts.items() for stretch in _stretches(stage, at, runtimes[stage])]
        return tuple(sorted(stretches, key=lambda stretch: (stretch.start, stretch.stage)))

    def check(
        self, stages: tuple[Stage, ...], runtimes_ms: Sequence[float | None], capacity: Vector, machines: int
    ) -> None:
        """Raise InvalidPlan, with the tasks and times concerned, unless the schedule is sound for a DAG.

        Every task once and for its stage's run time, on an existing machine, not before all tasks of parent stages
        have ended, and never more on a machine than its capacity.
        """
        dag = Dag(stages, runtimes_ms, capacity, machines)
        self._check_tasks(dag)
        self._check_parents(dag)
        by_machine: dict[int, list[Placement]] = {}
        for placement in self.placements:
            by_machine.setdefault(placement.machine, []).append(placement)
        for placings in by_machine.values():
            _check_capacity(placings, dag)

    def _check_tasks(self, dag: Dag) -> None:
        seen = set()
        for p in self.placements:
            if not (0 <= p.stage < len(dag) and 0 <= p.task < dag.stages[p.stage].tasks):
                raise InvalidPlan(f"task {p.task} of stage {p.stage} is placed, but there is no such task")
            name = _name(dag, p)
            if (p.stage, p.task) in seen:
                raise InvalidPlan(f"{name} is placed twice")
            seen.add((p.stage, p.task))
            if not 0 <= p.machine < dag.machines:
                raise InvalidPlan(f"{name} is on machine {p.machine}, but there are {dag.machines} (from 0)")
            if p.end - p.start != dag.runtimes[p.stage]:
                raise InvalidPlan(f"{name} runs {p.start}-{p.end} ms, but takes {dag.runtimes[p.stage]} ms")
            if p.start < 0:
                raise InvalidPlan(f"{name} starts at {p.start} ms (a schedule starts at 0)")
        for index, stage in enumerate(dag.stages):
            missing = next((task for task in range(stage.tasks) if (index, task) not in seen), None)
            if missing is not None:
                raise InvalidPlan(f"task {missing} of stage '{stage.name}' is not placed")

    def _check_parents(self, dag: Dag) -> None:
        ends = [0] * len(dag)
        for p in self.placements:
            ends[p.stage] = max(ends[p.stage], p.end)
        for p in self.placements:
            for parent in dag.parents[p.stage]:
                if p.start < ends[parent]:
                    raise InvalidPlan(
                        f"{_name(dag, p)} starts at {p.start} ms, "
                        f"before its parent stage '{dag.stages[parent].name}' ends at {ends[parent]} ms"
                    )


def _stretches(stage: int, starts: Sequence[int], runtime: int) -> list[Stretch]:
    """Stretches of a stage. starts: of its tasks, ascending; runtime: of each task, ms."""
    sums = list(accumulate(starts, initial=0))

    def begun(at: int) -> int:
        """Work done by a time if tasks never ended."""
        number = bisect_left(starts, at)
        return at * number - sums[number]

    changes = Counter(starts)
    changes.subtract([start + runtime for start in starts])
    edges = sorted(at for at, change in changes.items() if change)
    if len(edges) > STRETCHES + 1:
        first, length = edges[0], edges[-1] - edges[0]
        edges = sorted({first + length * i // STRETCHES for i in range(STRETCHES + 1)})
    done = [begun(edge) - begun(edge - runtime) for edge in edges]
    works = [after - before for before, after in pairwise(done)]
    return [Stretch(stage, *ends, work) for ends, work in zip(pairwise(edges), works, strict=True) if work]


def _name(dag: Dag, placement: Placement) -> str:
    return f"task {placement.task} of stage '{dag.stages[placement.stage].name}'"


def _check_capacity(placements: list[Placement], dag: Dag) -> None:
    """Ends before starts at the same instant: a machine is free again at once."""
    steps = sorted([(p.end, 0, p) for p in placements] + [(p.start, 1, p) for p in placements])
    used = [0] * len(dag.capacity)
    for at, starts, p in steps:
        for r, amount in enumerate(dag.stages[p.stage].demand):
            used[r] += amount if starts else -amount
        if starts and not fits(used, dag.capacity):
            raise InvalidPlan(
                f"machine {p.machine} is over its capacity of {dag.capacity} at {at} ms: "
                f"{_name(dag, p)} brings what is in use to {tuple(used)}"
            )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, with the way to it."""

    planner: str
    """Name of the planner."""
    schedule: Schedule
    bound: int
    """Lower bound on the makespan of any schedule, ms."""
    troublesome: tuple[int, ...] = ()
    """Stages whose tasks were placed first."""
    thresholds: tuple[tuple[float | None, float | None], ...] = ()
    """Per totally ordered part the LongScore and FragScore from which on stages were troublesome; None: not used."""
    work: int = 0
    """Stretches of machines' time looked at."""
    ended: str = "list"
    """Why the search ended: `all` sets of troublesome tasks were tried, the `bound` was met, the `budget` was used up,
    the caller said `stop`; `bypass`: the fallback met the bound without a search; `list`: no search at all.
    """
    fallback: str = ""
    """Planner of the parts for which the search found nothing shorter, or had no budget left; empty: no such part."""

    @property
    def makespan(self) -> int:
        """The schedule's length in ms."""
        return self.schedule.makespan

    @property
    def order(self) -> list[tuple[int, int]]:
        """(stage, task), the first to start in front."""
        return self.schedule.order

    def in_short(self, machines: int) -> Planned:
        """The plan in short, for people; machines: the number of machines in the plan."""
        runtimes = {p.stage: p.end - p.start for p in self.schedule.placements}
        return Planned(
            machines=machines,
            bound=self.bound,
            makespan=self.makespan,
            runtimes=tuple(runtimes[stage] for stage in range(len(runtimes))),
            stretches=self.schedule.stretches(),
            troublesome=self.troublesome,
        )

    def scores(self) -> tuple[tuple[float, ...], ...]:
        """Graphene's tpriScore of each stage's tasks, in order of their starts: (n - rank) / n (section 5).

        1 for the first task to start, 1/n for the last of n.
        """
        order = self.order
        scores: list[list[float]] = [[] for _ in range(1 + max(stage for stage, _ in order))]
        for rank, (stage, _) in enumerate(order):
            scores[stage].append((len(order) - rank) / len(order))
        return tuple(map(tuple, scores))
