"""Packing in shelves: tasks of a shelf start together, and the next shelf begins when the longest of them has ended.

Coffman, Garey, Johnson, Tarjan (SIAM J. Comput. 9, 1980) for strips, here with vectors of resources on machines.
"""

from __future__ import annotations

from collections.abc import Collection

from schedulers.core.resources import Vector
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.schedule import Batch


class _Shelf:
    """Tasks with a start at 0, and the room left beside them."""

    def __init__(self, dag: Dag) -> None:
        self._dag, self.height = dag, 0
        self._free = [dag.capacity] * dag.machines
        self.blocks: list[Batch] = []

    def take(self, stage: int, tasks: int) -> int:
        """Put as many of some tasks on the shelf as fit, on the first machines; returns the number of tasks left."""
        dag = self._dag
        for machine, free in enumerate(self._free):
            fitting = min(tasks, dag.rooms[stage][free])
            if fitting:
                self._free[machine] = _less(free, dag.stages[stage].demand, fitting)
                self.blocks.append(Batch(stage, 0, fitting, (machine,)))
                self.height = max(self.height, dag.runtimes[stage])
                tasks -= fitting
            if not tasks:
                break
        return tasks


def _less(free: Vector, demand: Vector, tasks: int) -> Vector:
    return tuple(left - tasks * amount for left, amount in zip(free, demand, strict=True))


def packed(dag: Dag, stages: Collection[int], *, first_fit: bool = False) -> list[_Shelf]:
    """Shelves of independent stages, longest first, ties to the lowest index.

    Next fit (NFDH): only the last shelf is open. first_fit (FFDH): all shelves are open, the first with room is used.
    """
    shelves: list[_Shelf] = []
    for stage in sorted(stages, key=lambda s: (-dag.runtimes[s], s)):
        left = dag.stages[stage].tasks
        for shelf in shelves if first_fit else shelves[-1:]:
            left = shelf.take(stage, left)
            if not left:
                break
        while left:
            shelves.append(_Shelf(dag))
            left = shelves[-1].take(stage, left)
    return shelves


def stacked(shelves: Collection[_Shelf]) -> list[Batch]:
    """The blocks of shelves, one shelf after another."""
    blocks, at = [], 0
    for shelf in shelves:
        blocks += [Batch(b.stage, b.start + at, b.each, b.machines) for b in shelf.blocks]
        at += shelf.height
    return blocks


def level_shelves(dag: Dag) -> list[Batch]:
    """Stages of equal depth in shelves, level by level."""
    depths = dag.depths()
    levels: list[list[int]] = [[] for _ in range(max(depths) + 1)]
    for s, depth in enumerate(depths):
        levels[depth].append(s)
    return stacked([shelf for level in levels for shelf in packed(dag, level)])


def strip_shelves(dag: Dag) -> list[Batch]:
    """DC: stages that an unlimited cluster would run at half of its time do not depend on each other.

    Such stages are packed in shelves; stages with an earlier end are placed before the shelves in the same way, stages
    with a later start after them.
    """
    shelves: list[_Shelf] = []
    todo: list[tuple[list[int], bool]] = [(dag.order, False)]
    while todo:
        stages, independent = todo.pop()
        if independent:
            shelves += packed(dag, stages)
        elif stages:
            bottom, middle, top = _halved(dag, stages)
            todo += [(top, False), (middle, True), (bottom, False)]
    return stacked(shelves)


def _halved(dag: Dag, stages: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Stages with their end by half time, across half time and later, if stages wait for parents alone."""
    ends: dict[int, int] = {}
    for s in stages:
        ends[s] = dag.runtimes[s] + max((ends[p] for p in dag.parents[s] if p in ends), default=0)
    height = max(ends.values())
    bottom = [s for s in stages if 2 * ends[s] <= height]
    middle = [s for s in stages if 2 * ends[s] > height and 2 * (ends[s] - dag.runtimes[s]) <= height]
    top = [s for s in stages if 2 * (ends[s] - dag.runtimes[s]) > height]
    return bottom, middle, top
