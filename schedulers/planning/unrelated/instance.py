"""A DAG to plan on unlike machines: times of each task on each machine, and the data on its edges.

A machine runs a single task at a time, whole. A task starts when its machine is free and the data of all its parents is
there. Data on its own machine takes no time; a transfer takes the size over the rate of the link, whatever else is
under way. Times, sizes and rates are floats in any consistent units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from schedulers.core.errors import InvalidPlan

Floats: TypeAlias = npt.NDArray[np.float64]
#: (parent, child, data)
Edge: TypeAlias = tuple[int, int, float]
#: Mean of a task's time over unlike machines: of its times (HEFT), or its size over their mean speed (LACHESIS).
Mean = Literal["times", "speeds"]


class Instance:
    """Checked input of every planner of this package.

    times: [tasks, machines]. delays: [machines, machines], time per unit of data, 0 on the diagonal. parents and
    children: per task (neighbour, data). order: tasks, parents first, lowest number first. busy: [machines], until when
    each runs something else.
    """

    def __init__(
        self,
        times: npt.ArrayLike,
        edges: Iterable[Sequence[float]] = (),
        rates: npt.ArrayLike = math.inf,
        busy: npt.ArrayLike = 0.0,
    ) -> None:
        """edges: (parent, child, data). rates: data per unit of time, a number for all pairs of machines or [from, to].

        A rate of infinity moves data in no time; the diagonal does not count. busy: a time for all machines or for
        each. Raises InvalidPlan for a cycle, for times missing or below 0, data below 0, and rates not above 0.
        """
        self.times = _times(times)
        self.tasks, self.machines = self.times.shape
        self.busy: Floats = np.array(np.broadcast_to(np.asarray(busy, dtype=np.float64), (self.machines,)))
        if not (np.isfinite(self.busy) & (self.busy >= 0)).all():
            raise InvalidPlan(f"machines are busy until {self.busy.tolist()} (finite numbers, 0 or more)")
        self.rates = _rates(rates, self.machines)
        self.delays = 1.0 / self.rates
        np.fill_diagonal(self.delays, 0.0)
        self.edges: tuple[Edge, ...] = tuple(_edges(edges, self.tasks))
        self.parents: list[list[tuple[int, float]]] = [[] for _ in range(self.tasks)]
        self.children: list[list[tuple[int, float]]] = [[] for _ in range(self.tasks)]
        for parent, child, data in sorted(self.edges):
            self.parents[child].append((parent, data))
            self.children[parent].append((child, data))
        self.order = list(self.by_priority([0.0] * self.tasks))
        if len(self.order) < self.tasks:
            stuck = min(set(range(self.tasks)) - set(self.order))
            raise InvalidPlan(f"task {stuck} waits for itself: the edges form a cycle (they must form a DAG)")

    def by_priority(self, priorities: Sequence[float]) -> Iterator[int]:
        """Tasks, always the ready task of highest priority next; ready: all parents have been given.

        Priorities equal to 12 digits of the largest count as equal, as means of floats are no closer; then the lowest
        number goes first.
        """
        most = max(map(abs, priorities), default=0.0) or 1.0
        missing = [len(parents) for parents in self.parents]
        ready: list[tuple[float, int]] = []

        def unlock(task: int) -> None:
            heappush(ready, (-round(priorities[task] / most, 12), task))

        for task, parents in enumerate(missing):
            if not parents:
                unlock(task)
        while ready:
            _, task = heappop(ready)
            yield task
            for child, _ in self.children[task]:
                missing[child] -= 1
                if not missing[child]:
                    unlock(child)

    def mean_times(self, mean: Mean = "times") -> list[float]:
        """Per task a mean time over all machines.

        `times`: the mean of its times (HEFT). `speeds`: its size over the mean speed (LACHESIS): the harmonic mean of
        its times, defined for machines without speeds as well.
        """
        if mean == "times":
            return [float(x) for x in self.times.mean(axis=1)]
        with np.errstate(divide="ignore"):
            return [float(x) for x in 1.0 / (1.0 / self.times).mean(axis=1)]

    @cached_property
    def mean_edges(self) -> list[Edge]:
        """Edges with the time of their transfer at the mean rate of different machines (HEFT, equation 2)."""
        rate = self.mean_rate
        return [(parent, child, data / rate) for parent, child, data in self.edges]

    @cached_property
    def transfers(self) -> dict[tuple[int, int], float]:
        """Times of `mean_edges` by (parent, child)."""
        return {(parent, child): time for parent, child, time in self.mean_edges}

    @cached_property
    def mean_rate(self) -> float:
        """Mean over pairs of different machines; pairs without transfer times are left out if others have them."""
        rates = self.rates[~np.eye(self.machines, dtype=bool)]
        finite = rates[np.isfinite(rates)]
        return float(finite.mean()) if len(finite) else math.inf


def _times(given: npt.ArrayLike) -> Floats:
    try:
        times = np.array(given, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidPlan(f"times are no matrix of numbers, one row per task of one per machine ({error})") from None
    if times.ndim != 2 or not times.size:
        raise InvalidPlan(f"times of shape {times.shape} (one row per task of one number per machine is needed)")
    for task, machine in np.argwhere(~(np.isfinite(times) & (times >= 0))).tolist():
        raise InvalidPlan(
            f"the time of task {task} on machine {machine} is {times[task, machine]} (a finite number, 0 or more)"
        )
    return times


def _rates(given: npt.ArrayLike, machines: int) -> Floats:
    try:
        rates = np.array(given, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidPlan(f"rates are neither a number nor a matrix of numbers ({error})") from None
    if rates.shape not in ((), (machines, machines)):
        raise InvalidPlan(
            f"rates of shape {rates.shape} for {machines} machines (one number, or a row and a column each)"
        )
    matrix = np.full((machines, machines), rates) if not rates.shape else rates
    np.fill_diagonal(matrix, math.inf)
    for one, other in np.argwhere(~(matrix > 0)).tolist():
        raise InvalidPlan(f"the rate from machine {one} to machine {other} is {matrix[one, other]} (a number above 0)")
    return matrix


def _edges(given: Iterable[Sequence[float]], tasks: int) -> Iterator[Edge]:
    seen = set()
    for parent, child, data in given:
        ends = (int(parent), int(child))
        for end in ends:
            if not 0 <= end < tasks:
                raise InvalidPlan(f"an edge {ends[0]} -> {ends[1]} leads to task {end} (there are 0 to {tasks - 1})")
        if ends in seen:
            raise InvalidPlan(f"the edge {ends[0]} -> {ends[1]} is given twice (one per pair of tasks)")
        seen.add(ends)
        if not (math.isfinite(data) and data >= 0):
            raise InvalidPlan(f"the edge {ends[0]} -> {ends[1]} moves {data} (a finite number, 0 or more)")
        yield *ends, float(data)
