"""Simple rules in the form of learned policies, as teachers and for comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schedulers.core import keyed
from schedulers.core.policy import ClusterView
from schedulers.learned.graph import Action, Graph, JobGraph
from schedulers.learned.limits import candidates

#: Graph, view, number of earlier questions -> action.
Rule: TypeAlias = Callable[[Graph, ClusterView, int], Action]
#: Of `capped_sjf`: executors of a job of so many task ms, and how that number grows with its work.
EXECUTORS: Final = 8.0
UNIT_MS: Final = 5e5
GROWTH: Final = 0.75
#: Of `priced`, found on training seeds: the price of one more job behind, per part of the cluster taken; the part of
#: the longest path added to the work, where executors stay with jobs and where containers end with their tasks; the
#: multiple of its number from which a job hands executors on.
PRICE: Final = 3.0
PATH: Final = 0.7
PATH_OF_CONTAINERS: Final = 0.1
ENOUGH: Final = 1.3
#: Duration of a job's tasks on up to so many executors, compared with the mean over all measured levels: the geometric
#: mean over jobs of Decima's TPC-H profiles (decima-sim mixes the two nearest levels).
SLOWDOWNS: Final = (
    (1, 0.50), (2, 0.506), (3, 0.513), (4, 0.52), (5, 0.53), (9, 0.557), (10, 0.586), (19, 0.638), (20, 0.687),
    (39, 0.79), (40, 0.897), (49, 0.943), (math.inf, 0.99),
)  # fmt: skip


def capped_sjf(graph: Graph, view: ClusterView, asked: int) -> Action:
    """As the policy `capped_sjf`: the least work first, up to a number of executors that grows with the work."""
    sizes = [view.jobs[job.name].size_ms for job in graph.jobs]
    works = [math.inf if size is None else size for size in sizes]
    return _partitioned(graph, sorted(range(len(works)), key=works.__getitem__), [most_of(size) for size in sizes])


def most_of(size_ms: float | None) -> int:
    """Number of executors up to which `capped_sjf` serves a job first."""
    return max(1, round(EXECUTORS * math.pow((UNIT_MS if size_ms is None else size_ms) / UNIT_MS, GROWTH)))


def fair(graph: Graph, view: ClusterView, asked: int) -> Action:
    """Decima's dynamic partition: equal numbers for all jobs with a stage to choose, in order of arrival."""
    sharing = sum([bool(job.valid.any()) for job in graph.jobs])
    return _partitioned(graph, range(len(graph.jobs)), [math.ceil(graph.executors / sharing)] * len(graph.jobs))


def priced(graph: Graph, view: ClusterView, asked: int) -> Action:
    """Shortest first, and executors have a price: see `prices`."""
    return by_prices(graph, *prices(graph))


def by_prices(graph: Graph, order: Sequence[int], most: list[int]) -> Action:
    """The answer of `priced`. order, most: as `prices` returns them."""
    return _partitioned(graph, order, most, ENOUGH)


def first_by_prices(graph: Graph, order: Sequence[int], most: list[int], may: Sequence[bool]) -> int:
    """The job of the answer of `priced`. may: as `choosable` returns it."""
    return _served(graph, order, most, ENOUGH, may)[0]


def prices(graph: Graph) -> tuple[list[int], list[int]]:
    """The order in which `priced` serves jobs, and the most executors of each job: fewer, the more jobs are behind.

    On n executors a job takes about T(n): its work divided by n, slower for larger n where executors outlive tasks,
    and a part of its longest path. A job is served up to the n with the least T(n) (1 + PRICE x jobs behind x n /
    executors). First comes the job with the least such value when all jobs are behind, times the part of its work left.
    """
    works = np.array([UNIT_MS if job.work_ms is None else job.work_ms for job in graph.jobs])
    longest = np.array([job.path_ms for job in graph.jobs])
    counts = np.arange(1.0, graph.executors + 1)
    widths, part = (slowdowns(graph.executors), PATH) if graph.outlive else (np.ones(1), PATH_OF_CONTAINERS)
    spans = works[:, None] * (widths / counts) + part * longest[:, None] * (1 - 1 / counts)
    taken = PRICE * counts / graph.executors
    features = np.concatenate([job.features for job in graph.jobs]).reshape(len(works), -1)
    left = (features[:, 5] - features[:, 4]).astype(float)
    costs = (spans * (1 + taken * len(spans))).min(axis=1) * np.exp(2 * left)
    order = np.argsort(costs, kind="stable")
    behind = np.empty(len(order))
    behind[order] = np.arange(len(order))[::-1]
    most = 1 + np.argmin(spans * (1 + taken * behind[:, None]), axis=1)
    return order.tolist(), most.tolist()


@lru_cache
def slowdowns(executors: int) -> NDArray[np.float64]:
    """[executors], slowdown of tasks on 1 to so many executors."""
    levels, found = zip(*SLOWDOWNS, strict=True)
    return np.array(found)[np.searchsorted(levels, np.arange(1, executors + 1))]


def proportional(graph: Graph, view: ClusterView, asked: int) -> Action:
    """Executors in proportion to each job's work left; first comes the job with the least part of its number.

    The last job to end decides the makespan, so the rule is good for the makespan.
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
    "priced": priced,
    "proportional": proportional,
    "random": random,
}


def _partitioned(graph: Graph, order: Iterable[int], most: list[int], enough: float = math.inf) -> Action:
    """Executors stay in their job, then go to the first job below its number, then to the first job at all.

    enough: executors leave a job with more than so many times its number, unless the job is the first.
    """
    index, limit = _served(graph, order, most, enough, choosable(graph))
    return Action(index, critical(graph.jobs[index]), limit)


def _served(
    graph: Graph, order: Iterable[int], most: Sequence[int], enough: float, may: Sequence[bool]
) -> tuple[int, int]:
    able = [index for index in order if may[index]]
    for index in able:
        job = graph.jobs[index]
        if job.features[1] > 0 and (index == able[0] or job.least <= enough * most[index]):
            return index, graph.executors
    for index in able:
        if graph.jobs[index].least <= most[index]:
            return index, nearest(graph.jobs[index].least, graph.executors, most[index])
    return able[0], graph.executors


def choosable(graph: Graph) -> list[bool]:
    """By job whether any stage may be chosen."""
    sizes = np.array([len(job.valid) for job in graph.jobs])
    valid = np.concatenate([job.valid for job in graph.jobs])
    may: list[bool] = np.logical_or.reduceat(valid, np.cumsum(sizes) - sizes).tolist()
    return may


@lru_cache(maxsize=1 << 14)
def nearest(least: int, executors: int, limit: int) -> int:
    """The candidate with the ratio to the limit nearest to 1."""
    return min(candidates(least, executors), key=lambda given: abs(math.log(given / limit)))


def critical(job: JobGraph) -> int:
    """The valid row with the longest path of task times to the output; open stages before others."""
    return int(np.lexsort((job.stages, -_paths(job), -job.nodes[:, 5], ~job.valid))[0])


def _paths(job: JobGraph) -> NDArray[np.float64]:
    """By row the longest path of task times to an output, its own included, in the nodes' units."""
    path = job.nodes[:, 2].astype(float)
    for height in range(1, int(job.heights.max(initial=0)) + 1):
        edges = job.edges[job.heights[job.edges[:, 0]] == height]
        below = np.zeros(len(path))
        np.maximum.at(below, edges[:, 0], path[edges[:, 1]])
        path += below
    return path
