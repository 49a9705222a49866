"""Plans of a single DAG by other rules than Graphene's, to compare with and to fall back on.

List schedules (`bfs`, `cp`, `random`, `coffman_graham`, `tetris`) go through time and never leave a machine idle with
room for a ready task; `strip_part` packs shelves. Sources: Graphene (OSDI 2016), section 5.4, and papers named below.
All take the same arguments as `graphene.build_schedule`, without a budget, and raise the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from schedulers.core import keyed
from schedulers.core.model import Stage
from schedulers.core.resources import Vector
from schedulers.core.vectors import fits
from schedulers.planning.dags.bounds import bound
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.schedule import Batch, Plan, Schedule
from schedulers.planning.dags.shelves import level_shelves, strip_shelves

Estimates = Sequence[float | None]
#: Tasks x stages up to which `tetris` and `coffman_graham`, whose time or memory grows with that, count as cheap.
SMALL: Final = 1_000_000


class Planner(Protocol):
    """The arguments of every planner, and its result."""

    def __call__(self, stages: tuple[Stage, ...], runtimes_ms: Estimates, capacity: Vector, machines: int) -> Plan:
        """See `graphene.build_schedule`."""


def _planner(name: str, blocks: Callable[[Dag], list[Batch]]) -> Planner:
    """A planner by its name and its way to place blocks."""

    def plan(stages: tuple[Stage, ...], runtimes_ms: Estimates, capacity: Vector, machines: int) -> Plan:
        dag = Dag(stages, runtimes_ms, capacity, machines)
        return Plan(planner=name, schedule=Schedule.of_blocks(blocks(dag), dag.runtimes), bound=bound(dag))

    return plan


def _by_rank(ranks: Callable[[Dag], Sequence[float]]) -> Callable[[Dag], list[Batch]]:
    """Ready stages with the lowest rank first, ties to the lowest index."""
    return lambda dag: _through_time(dag, range(len(dag)), _Ranked(dag, range(len(dag)), ranks(dag)))


bfs = _planner("bfs", _by_rank(Dag.depths))
"""Breadth first: ready stages nearer to a root first."""
cp = _planner("cp", _by_rank(lambda dag: _negated(dag.ways_out())))
"""Critical path: ready stages with the longest way to the end first."""
coffman_graham = _planner("coffman_graham", _by_rank(lambda dag: _negated(labels(dag))))
"""Stages by descending Coffman-Graham label (Acta Informatica 1, 1972); run times and demands play no part.

Takes memory by the square of the number of stages: 12 MB for 10,000.
"""
tetris = _planner("tetris", lambda dag: _through_time(dag, range(len(dag)), _Tetris(dag)))
"""On each machine the ready task with the largest dot product of its demand and what is free (SIGCOMM 2014).

Amounts count as parts of a machine's capacity. Takes time by tasks x ready stages.
"""
strip_part = _planner("strip_part", strip_shelves)
"""Strip packing with precedence by divide and conquer (Augustine, Banerjee, Irani, SPAA 2006)."""
levels = _planner("levels", level_shelves)
"""Levels of equal depth one after another, each packed in shelves (next fit, longest first)."""


def random(
    stages: tuple[Stage, ...], runtimes_ms: Estimates, capacity: Vector, machines: int, *, seed: int = 1
) -> Plan:
    """Ready stages in an order drawn by the seed and the stages' indexes."""
    draws = [keyed.uniform(seed, "planning", "random", index) for index in range(len(stages))]
    return _planner("random", _by_rank(lambda _: draws))(stages, runtimes_ms, capacity, machines)


def in_order(
    stages: tuple[Stage, ...],
    runtimes_ms: Estimates,
    capacity: Vector,
    machines: int,
    *,
    ranks: Sequence[float],
) -> Plan:
    """Graham's list scheduling: ready stages with the lowest rank first, ties to the lowest index."""
    return _planner("in_order", _by_rank(lambda _: ranks))(stages, runtimes_ms, capacity, machines)


PLANNERS: Final[dict[str, Planner]] = {
    "bfs": bfs,
    "cp": cp,
    "random": random,
    "tetris": tetris,
    "coffman_graham": coffman_graham,
    "strip_part": strip_part,
    "levels": levels,
}


def blocks_by_path(dag: Dag, part: Collection[int]) -> list[Batch]:
    """Critical-path list schedule of a part alone; costs about tasks x log(stages x machines), whatever the DAG."""
    return _through_time(dag, part, _Ranked(dag, part, _negated(dag.ways_out())))


def cheap(dag: Dag, part: Collection[int]) -> Iterator[tuple[str, list[Batch]]]:
    """The cheap list schedules of a part, each with its planner's name; `cp` is the first."""
    yield "cp", blocks_by_path(dag, part)
    yield "bfs", _through_time(dag, part, _Ranked(dag, part, dag.depths()))
    if dag.tasks_of(part) * len(dag) <= SMALL:
        yield "tetris", _through_time(dag, part, _Tetris(dag))
        yield "coffman_graham", _through_time(dag, part, _Ranked(dag, part, _negated(labels(dag))))


def labels(dag: Dag) -> list[int]:
    """Coffman-Graham labels 1 .. n on the transitive reduction.

    The next label goes to a stage with labels on all its children: the stage with the descending list of its
    children's labels that comes first in the order of words; ties to the lowest index.
    """
    children = _reduced(dag)
    parents: list[list[int]] = [[] for _ in children]
    for s, below in enumerate(children):
        for child in below:
            parents[child].append(s)
    missing = [len(below) for below in children]
    ready: list[tuple[list[int], int]] = [([], s) for s, n in enumerate(missing) if not n]
    heapify(ready)
    labelled = [0] * len(children)
    for label in range(1, len(children) + 1):
        _, s = heappop(ready)
        labelled[s] = label
        for parent in parents[s]:
            missing[parent] -= 1
            if not missing[parent]:
                heappush(ready, (sorted((labelled[c] for c in children[parent]), reverse=True), parent))
    return labelled


def _reduced(dag: Dag) -> list[list[int]]:
    """Children, except children reached through another child as well. Bits of an int are stages."""
    below = [0] * len(dag)
    reduced: list[list[int]] = [[] for _ in below]
    for s in reversed(dag.order):
        further = 0
        for child in dag.children[s]:
            further |= below[child]
        reduced[s] = [child for child in dag.children[s] if not further >> child & 1]
        below[s] = further
        for child in reduced[s]:
            below[s] |= 1 << child
    return reduced


def _negated(values: list[int]) -> list[int]:
    return [-value for value in values]


# -- Going through time -------------------------------------------------------------------------------------------


class _Rule(Protocol):
    """A rule for the next ready stage, and its machine."""

    def ready(self, stages: list[int]) -> None:
        """Take note of stages ready to start."""

    def freed(self, machine: int, free: Vector) -> None:
        """A machine has more free than before."""

    def choose(self) -> Iterator[tuple[int, int, int]]:
        """(stage, machine, tasks) to start now, one after another, until nothing ready fits anywhere."""


def _through_time(dag: Dag, part: Collection[int], rule: _Rule) -> list[Batch]:
    """Go from one end of tasks to the next, and start ready stages as the rule says."""
    inside, blocks = set(part), list[Batch]()
    missing = {s: sum(p in inside for p in dag.parents[s]) for s in part}
    unfinished = {s: dag.stages[s].tasks for s in part}
    free = [dag.capacity] * dag.machines
    ends: list[tuple[int, int, int, int]] = []
    now, ready = 0, sorted(s for s in part if not missing[s])
    while True:
        rule.ready(ready)
        for s, machine, tasks in rule.choose():
            free[machine] = _changed(free[machine], dag.stages[s].demand, -tasks)
            blocks.append(Batch(s, now, tasks, (machine,)))
            heappush(ends, (now + dag.runtimes[s], machine, s, tasks))
        if not ends:
            return blocks
        now, ready, changed = ends[0][0], [], set[int]()
        while ends and ends[0][0] == now:
            _, machine, s, tasks = heappop(ends)
            free[machine] = _changed(free[machine], dag.stages[s].demand, tasks)
            changed.add(machine)
            unfinished[s] -= tasks
            if not unfinished[s]:
                ready += _freed_children(dag, s, missing)
        for machine in sorted(changed):
            rule.freed(machine, free[machine])


def _freed_children(dag: Dag, stage: int, missing: dict[int, int]) -> list[int]:
    """Children without any other parent left to wait for."""
    freed = []
    for child in dag.children[stage]:
        if child in missing:
            missing[child] -= 1
            if not missing[child]:
                freed.append(child)
    return freed


def _changed(free: Vector, demand: Vector, tasks: int) -> Vector:
    return tuple(left + tasks * amount for left, amount in zip(free, demand, strict=True))


class _FirstBelow:
    """Vectors at positions, searched for the first position with all components within a bound.

    A binary tree: inner vectors are the component-wise minima of the vectors below.
    """

    def __init__(self, positions: int, width: int) -> None:
        self._size = 1 << max(0, positions - 1).bit_length()
        self._none = (1 << 80,) * width
        self._tree: list[Vector] = [self._none] * (2 * self._size)

    def set(self, position: int, vector: Vector | None) -> None:
        """Put a vector at a position; None: nothing there any more."""
        tree, at = self._tree, position + self._size
        tree[at] = self._none if vector is None else vector
        at >>= 1
        while at:
            low = tuple(map(min, tree[2 * at], tree[2 * at + 1]))
            if low == tree[at]:
                return
            tree[at] = low
            at >>= 1

    def first(self, bound: Vector) -> int | None:
        """The lowest position with a vector within the bound."""
        tree, size, open_nodes = self._tree, self._size, [1]
        while open_nodes:
            at = open_nodes.pop()
            if fits(tree[at], bound):
                if at >= size:
                    return at - size
                open_nodes += (2 * at + 1, 2 * at)
        return None


class _Ranked:
    """Always the ready stage of the lowest rank with room on some machine, on the first such machine.

    Only changed machines are asked for a stage, and only new stages for a machine: nothing else can fit.
    """

    def __init__(self, dag: Dag, part: Collection[int], ranks: Sequence[float]) -> None:
        self._dag = dag
        self._by_rank = sorted(part, key=lambda s: (ranks[s], s))
        self._position = {s: i for i, s in enumerate(self._by_rank)}
        self._left = {s: dag.stages[s].tasks for s in part}
        width = len(dag.capacity)
        self._stages, self._machines = _FirstBelow(len(self._by_rank), width), _FirstBelow(dag.machines, width)
        self._free = [dag.capacity] * dag.machines
        for machine in range(dag.machines):
            self._machines.set(machine, _negative(dag.capacity))
        #: (position, machine, whether the stage is new) of what may start now.
        self._open: list[tuple[int, int, bool]] = []

    def ready(self, stages: list[int]) -> None:
        for s in stages:
            self._stages.set(self._position[s], self._dag.stages[s].demand)
        for s in stages:
            self._look_for_machine(s)

    def freed(self, machine: int, free: Vector) -> None:
        self._set_free(machine, free)
        self._look_for_stage(machine)

    def choose(self) -> Iterator[tuple[int, int, int]]:
        while self._open:
            position, machine, new = heappop(self._open)
            s = self._by_rank[position]
            tasks = min(self._left[s], self._dag.rooms[s][self._free[machine]])
            if tasks:
                self._left[s] -= tasks
                if not self._left[s]:
                    self._stages.set(position, None)
                self._set_free(machine, _changed(self._free[machine], self._dag.stages[s].demand, -tasks))
                yield s, machine, tasks
            if new:
                self._look_for_machine(s)
            else:
                self._look_for_stage(machine)

    def _look_for_machine(self, stage: int) -> None:
        if self._left[stage]:
            machine = self._machines.first(_negative(self._dag.stages[stage].demand))
            if machine is not None:
                heappush(self._open, (self._position[stage], machine, True))

    def _look_for_stage(self, machine: int) -> None:
        position = self._stages.first(self._free[machine])
        if position is not None:
            heappush(self._open, (position, machine, False))

    def _set_free(self, machine: int, free: Vector) -> None:
        self._free[machine] = free
        self._machines.set(machine, _negative(free))


def _negative(vector: Vector) -> Vector:
    return tuple(-amount for amount in vector)


class _Tetris:
    """Machines in turn; each takes the best fitting ready task, again and again, ties to the lowest."""

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._left: dict[int, int] = {}
        self._free = [dag.capacity] * dag.machines
        self._changed: dict[int, None] = {}
        # Over a common denominator, so that products of parts are whole numbers and ties exact.
        whole = 1
        for amount in dag.capacity:
            whole *= max(1, amount)
        self._scale = [(whole // max(1, amount)) ** 2 for amount in dag.capacity]

    def ready(self, stages: list[int]) -> None:
        for s in stages:
            self._left[s] = self._dag.stages[s].tasks
        if stages:
            self._changed = dict.fromkeys(range(self._dag.machines))

    def freed(self, machine: int, free: Vector) -> None:
        self._free[machine] = free
        self._changed[machine] = None

    def choose(self) -> Iterator[tuple[int, int, int]]:
        for machine in sorted(self._changed):
            while (s := self._best(self._free[machine])) is not None:
                self._left[s] -= 1
                if not self._left[s]:
                    del self._left[s]
                self._free[machine] = _changed(self._free[machine], self._dag.stages[s].demand, -1)
                yield s, machine, 1
        self._changed = {}

    def _best(self, free: Vector) -> int | None:
        weighed = [left * scale for left, scale in zip(free, self._scale, strict=True)]
        best, most = None, -1
        for s in self._left:
            demand = self._dag.stages[s].demand
            if fits(demand, free):
                product = sum(map(int.__mul__, demand, weighed))
                if product > most or (product == most and best is not None and s < best):
                    best, most = s, product
        return best
