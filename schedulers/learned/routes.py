"""The observation of a policy that names the next stage: ways through jobs, and the work left (LACHESIS, IV-B).

Results of a job's DAG and its estimates hold until the DAG or the estimates change. Every assigned task changes only a
few numbers of the job, and the set of its stages left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from schedulers.kit.ranked import Lengths, Transfer
from schedulers.learned.graph import Bools, Floats, Ints, amounts
from schedulers.planning.unrelated.ranks import rank_down, rank_up

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView
    from schedulers.core.state import JobState, StageState

#: Features of a stage, in order; times as parts of the longest way through the job.
ROUTE_FEATURES: Final = (
    "time",  # of one of its tasks at the mean speed
    "in",  # the mean over parents of what a task of theirs hands to one of its own
    "out",  # the mean over children
    "up",  # upward rank: the longest way to the end
    "down",  # downward rank: the longest way from the beginning
    "tasks",  # ln(1 + tasks) / 5
)
#: Features of a job at the moment; the way left is the longest upward rank of an unassigned stage.
LEFT_FEATURES: Final = (
    "tasks",  # ln(1 + tasks not assigned) / 5
    "share",  # its work not assigned by that of the job with the most
    "scale",  # the longest way through it, by the longest way left of all jobs
    "way",  # the way left, by the longest of all jobs
    "bulk",  # ln(1 + its work not assigned over its way left) / 3
    "pressure",  # ln(work not assigned of all jobs, per executor, over the longest way left) / 3
    "age",  # time since it came over that and the longest way left
    "jobs",  # ln(jobs) / 5
)
#: A way is at least so long, ms.
_LEAST: Final = 1.0


class Route(msgspec.Struct, frozen=True, eq=False):
    """A job's DAG."""

    name: str
    nodes: Floats
    """[stages, len(ROUTE_FEATURES)]."""
    edges: Ints
    """[e, 2], parent and child."""
    moves: Floats
    """[e], transfer times as parts of the longest way."""


class RouteChoices(msgspec.Struct, frozen=True, eq=False):
    """The stages of all jobs with unassigned stages. Rows are the stages of all routes, one route behind the other."""

    routes: tuple[Route, ...]
    """One route per job, in order of submission."""
    features: Floats
    """[jobs, len(LEFT_FEATURES)]."""
    left: Bools
    """[rows], whether tasks of the stage are unassigned."""
    valid: Bools
    """[rows], whether the policy may choose the stage."""
    longest_ms: float
    """The longest way left."""
    executors: int
    """Number of executors in the cluster."""

    def amounts(self) -> dict[str, int]:
        """Sizes of the observation, for the comparison with those of training."""
        return amounts([len(route.nodes) for route in self.routes], self.executors)

    def place(self, row: int) -> tuple[int, int]:
        """Index of the route, and index of the stage, of a row. Raises IndexError beyond the last row."""
        for job, route in enumerate(self.routes):
            if row < len(route.nodes):
                return job, row
            row -= len(route.nodes)
        raise IndexError(row)


class _JobRoute:
    """A job as the policy sees it. lengths: source of the route. up, work: per stage, ms. counts: unassigned tasks."""

    def __init__(self, job: JobState) -> None:
        self.job, self.submitted = job, job.submitted
        self.counts: list[int] = []
        self.lengths: object = None
        self.size_ms: float | None = None

    def update(self, lengths: tuple[list[float], list[Transfer]], counts: list[int]) -> None:
        """Look at the job again."""
        times, edges = lengths
        if lengths is not self.lengths:
            self.lengths, self.size_ms = lengths, self.job.size_ms
            self.up = np.array(rank_up(times, edges))
            self.path = max(_LEAST, float(self.up.max()))
            self.work = np.array(times)
            self.route = _route(self.job, times, edges, self.up, self.path)
        self.counts = counts
        left = np.array(counts)
        self.left: Bools = left > 0
        self.tasks = int(left.sum())
        self.work_left = float((self.work * left).sum())
        self.way = max(_LEAST, float(self.up[self.left].max(initial=0.0)))


def _route(job: JobState, times: Sequence[float], edges: Sequence[Transfer], up: np.ndarray, path: float) -> Route:
    pairs: Ints = np.array([edge[:2] for edge in edges], np.intp).reshape(-1, 2)
    moves = np.array([edge[2] for edge in edges], float) / path
    nodes = np.zeros((len(times), len(ROUTE_FEATURES)), np.float32)
    nodes[:, 0] = np.array(times) / path
    for column, ends in ((1, pairs[:, 1]), (2, pairs[:, 0])):
        sums, counts = np.zeros(len(times)), np.bincount(ends, minlength=len(times))
        np.add.at(sums, ends, moves)
        nodes[:, column] = sums / np.maximum(counts, 1)
    nodes[:, 3], nodes[:, 4] = up / path, np.array(rank_down(times, edges)) / path
    nodes[:, 5] = np.log1p([stage.tasks for stage in job.stages]) / 5
    return Route(job.id, nodes, pairs, moves.astype(np.float32))


class Routes:
    """All jobs as the policy sees them. queued: see Sequencing.queued_tasks."""

    def __init__(self) -> None:
        self.lengths = Lengths()
        self._by_job: dict[str, _JobRoute] = {}

    def refresh(self, view: ClusterView, queued: Mapping[tuple[str, int], Sized]) -> None:
        """Look at all jobs."""
        for name in [name for name in self._by_job if name not in view.jobs]:
            del self._by_job[name]
            self.lengths.forget(name)
        for job in view.jobs.values():
            self.look(job, view, queued)

    def look(self, job: JobState, view: ClusterView, queued: Mapping[tuple[str, int], Sized]) -> None:
        """Look at one job."""
        if not self.lengths.measured:
            # With other nodes the ways of all jobs are others, not those of the first job looked at alone.
            self.lengths.measure(view)
            self._by_job.clear()
        observed = self._by_job.get(job.id)
        if observed is None or observed.job is not job:
            observed = self._by_job[job.id] = _JobRoute(job)
        name = job.id
        counts = [stage.waiting - len(queued.get((name, stage.index), ())) for stage in job.stages]
        stays = view.estimates_stay and observed.size_ms == job.size_ms
        if not (stays and counts == observed.counts):
            observed.update(self.lengths.of(job, view), counts)

    def choices(self, view: ClusterView, able: Mapping[str, Sequence[StageState]], executors: int) -> RouteChoices:
        """The choices at the last look. able: by job the stages to choose from."""
        seen = [observed for observed in map(self._by_job.__getitem__, view.jobs) if observed.tasks]
        works = np.array([observed.work_left for observed in seen])
        ways = np.array([observed.way for observed in seen])
        longest, total = float(ways.max()), max(_LEAST, float(works.sum()))
        features = np.empty((len(seen), len(LEFT_FEATURES)), np.float32)
        features[:, 0] = np.log1p([observed.tasks for observed in seen]) / 5
        features[:, 1] = works / max(_LEAST, float(works.max()))
        features[:, 2] = np.array([observed.path for observed in seen]) / longest
        features[:, 3] = ways / longest
        features[:, 4] = np.log1p(works / ways) / 3
        features[:, 5] = math.log(total / executors / longest) / 3
        ages = view.now - np.array([observed.submitted for observed in seen], float)
        features[:, 6] = ages / (ages + longest)
        features[:, 7] = math.log(len(seen)) / 5
        valid = np.zeros(sum([len(observed.left) for observed in seen]), bool)
        begin = 0
        for observed in seen:
            for stage in able.get(observed.job.id, ()):
                valid[begin + stage.index] = True
            begin += len(observed.left)
        left = np.concatenate([observed.left for observed in seen])
        return RouteChoices(tuple([observed.route for observed in seen]), features, left, valid, longest, executors)
