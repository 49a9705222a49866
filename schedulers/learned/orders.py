"""Simple rules in the form of learned policies: to teach them, and to be held against them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schedulers.core import keyed
from schedulers.core.policy import ClusterView
from schedulers.learned.graph import Action, Graph, JobGraph
from schedulers.learned.limits import candidates

#: graph, view, how often was asked before -> what to do.
Rule: TypeAlias = Callable[[Graph, ClusterView, int], Action]
#: Of `capped_sjf`: executors of a job of so many task ms, and how that number grows with its work.
EXECUTORS: Final = 8.0
UNIT_MS: Final = 5e5
GROWTH: Final = 0.75


def capped_sjf(graph: Graph, view: ClusterView, asked: int) -> Action:
    """As the policy `capped_sjf`: the least work first, up to a number of executors that grows with it."""
    sizes = [view.jobs[job.name].size_ms for job in graph.jobs]
    works = [math.inf if size is None else size for size in sizes]
    return _partitioned(graph, sorted(range(len(works)), key=works.__getitem__), [most_of(size) for size in sizes])


def most_of(size_ms: float | None) -> int:
    """Up to how many executors `capped_sjf` serves a job first."""
    return max(1, round(EXECUTORS * math.pow((UNIT_MS if size_ms is None else size_ms) / UNIT_MS, GROWTH)))


def fair(graph: Graph, view: ClusterView, asked: int) -> Action:
    """Decima's dynamic partition: as many for each job that has something to choose, first come first."""
    sharing = sum([bool(job.valid.any()) for job in graph.jobs])
    return _partitioned(graph, range(len(graph.jobs)), [math.ceil(graph.executors / sharing)] * len(graph.jobs))


def proportional(graph: Graph, view: ClusterView, asked: int) -> Action:
    """As many executors for each job as it has of the work that is left; who has least of its number first.

    What ends last decides when all is over, so that this is good for the makespan.
    """
    left = np.exp([2.0 * float(job.features[5]) for job in graph.jobs])
    most = np.maximum(1, np.ceil(graph.executors * left / left.sum())).astype(int).tolist()
    order = sorted(range(len(most)), key=lambda index: float(graph.jobs[index].features[0]) / most[index])
    return _partitioned(graph, order, most)


def random(graph: Graph, view: ClusterView, asked: int) -> Action:
    """Any stage, any limit."""
    rows = [(index, int(row)) for index, job in enumerate(graph.jobs) for row in np.flatnonzero(job.valid)]
    index, row = rows[int(keyed.uniform(view.seed, "dispatch", "stage", asked) * len(rows))]
    limits = candidates(graph.jobs[index].least, graph.executors)
    return Action(index, row, limits[int(keyed.uniform(view.seed, "dispatch", "limit", asked) * len(limits))])


RULES: Final[Mapping[str, Rule]] = {
    "capped_sjf": capped_sjf,
    "fair": fair,
    "proportional": proportional,
    "random": random,
}


def _partitioned(graph: Graph, order: Iterable[int], most: list[int]) -> Action:
    """Executors stay in their job, then go to the first job below its number, then to the first at all."""
    able = [index for index in order if graph.jobs[index].valid.any()]
    for index in able:
        if graph.jobs[index].features[1] > 0:
            return Action(index, critical(graph.jobs[index]), graph.executors)
    for index in able:
        if graph.jobs[index].least <= most[index]:
            return Action(index, critical(graph.jobs[index]), nearest(graph.jobs[index], graph, most[index]))
    return Action(able[0], critical(graph.jobs[able[0]]), graph.executors)


def nearest(job: JobGraph, graph: Graph, limit: int) -> int:
    """The candidate that is least off, as a ratio."""
    return min(candidates(job.least, graph.executors), key=lambda given: abs(math.log(given / limit)))


def critical(job: JobGraph) -> int:
    """The valid row with the longest path of task times to the output; open stages before others."""
    return int(np.lexsort((job.stages, -paths(job), -job.nodes[:, 5], ~job.valid))[0])


def paths(job: JobGraph) -> NDArray[np.float64]:
    """By row the longest path of task times to an output, its own included, in the nodes' units."""
    path = job.nodes[:, 2].astype(float)
    for height in range(1, int(job.heights.max(initial=0)) + 1):
        edges = job.edges[job.heights[job.edges[:, 0]] == height]
        below = np.zeros(len(path))
        np.maximum.at(below, edges[:, 0], path[edges[:, 1]])
        path += below
    return path
