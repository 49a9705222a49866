"""The graph of a learned policy, from the state: one block per job, made again when the job changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import compress, count
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from schedulers.core.model import Stage, topological_order
from schedulers.kit.paths import longest_path
from schedulers.learned.graph import JOB_FEATURES, Bools, Floats, Graph, Ints, JobGraph

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView
    from schedulers.core.state import JobState, NodeState, StageState
    from schedulers.learned.classes import Classes
    from schedulers.learned.promises import Promises, StageId

_WIDTH: Final = 7  # of NODE_FEATURES


class Source(NamedTuple):
    """Executors on offer."""

    job: str
    """Owner of the executors; "": room for new executors."""
    free: int
    """Number of executors."""
    sizes: Set[int]
    """Sizes of tasks for which the executors serve."""
    refused: Set[StageId] = frozenset()
    """Stages that these executors could not serve."""


class JobObservation:
    """One job as the policy sees it."""

    def __init__(self, job: JobState) -> None:
        self.job = job
        self.rows: list[int] = []
        """Unfinished stages."""
        self.unpromised: list[int] = []
        """By stage, tasks to start without a promised executor."""
        self.executors = 0
        """Executors of the job, with those promised to the job and without those promised away."""
        self.may_start: Bools = np.zeros(0, bool)
        """[rows], whether the policy may choose the stage."""
        self.sizes: dict[int, StageState] = {}
        """Sizes of the stages to choose from, each with one stage."""
        self._flat: list[float] = []
        self.nodes: Floats = np.zeros((0, _WIDTH), np.float32)
        self.stages: Ints = np.zeros(0, np.intp)
        self.version = 0
        self.amounts = (0.0, 0.0)
        """The features `size` and `left` of the job."""
        self.work_ms: float | None = -1.0  # of no job
        self.path_ms = 0.0
        specs = job.spec.stages
        self.has_gangs = any(stage.gang for stage in specs)
        self._heights = np.array(_heights(specs), np.intp)
        self._above = [stage.above for stage in specs]
        pairs = [(parent, child) for child, above in enumerate(self._above) for parent in above]
        self._edges: Ints = np.array(pairs, np.intp).reshape(-1, 2)
        self.heights, self.edges = self._heights, self._edges

    def may_choose(self) -> Iterator[StageState]:
        """The stages that may be chosen."""
        return map(self.job.stages.__getitem__, compress(self.rows, self.may_start))

    def update(self, view: ClusterView, promised: Mapping[int, int], net: int, versions: count[int]) -> None:
        """Look at the job. promised: executors by stage. net: executors promised by other jobs."""
        job = self.job
        states, name = job.stages, job.spec.id
        if job.size_ms != self.work_ms:
            self.work_ms, self.path_ms = job.size_ms, longest_path(job, view)
        left = [state.waiting for state in states]
        if promised:
            for index, executors in promised.items():
                left[index] = max(0, left[index] - executors)
        self.unpromised = left
        self.executors = held = job.executors + net
        rows: list[int] = []
        flat: list[float] = []
        may_start: list[bool] = []
        ahead = view.has_executors
        for index, state in enumerate(states):
            if state.finished == state.tasks:
                continue
            rows.append(index)
            is_open = not state.parents_left
            tasks = left[index]
            estimate = view.estimate(name, index)
            task_ms = 0.0 if estimate is None else estimate.task_ms
            flat += (
                tasks / 200,
                tasks * task_ms / 1e5,
                task_ms / 1e4,
                (state.running + promised.get(index, 0)) / 20,
                held / 20,
                float(is_open),
                float(estimate is not None),
            )
            reached = is_open or (ahead and not any(left[parent] for parent in self._above[index]))
            may_start.append(bool(tasks and reached and state.asked))
        self.may_start = np.array(may_start, bool)
        self.sizes = {states[row].size: states[row] for row, may in zip(rows, may_start, strict=True) if may}
        if rows != self.rows:
            self._drop_finished(rows)
        elif flat == self._flat:
            self.amounts = _amount(job.size_ms), self.amounts[1]
            return
        self._flat, self.version = flat, next(versions)
        self.nodes = np.array(flat, np.float32).reshape(-1, _WIDTH)
        self.amounts = _amount(job.size_ms), _amount(1e5 * float(self.nodes[:, 1].sum()))

    def _drop_finished(self, rows: list[int]) -> None:
        """Cut stages, heights and edges to the unfinished stages."""
        self.rows, self.stages = rows, np.array(rows, np.intp)
        self.heights = self._heights[self.stages]
        row = np.full(len(self._heights), -1, np.intp)
        row[self.stages] = np.arange(len(rows))
        edges = row[self._edges]
        self.edges = edges[(edges >= 0).all(axis=1)]


def _amount(work_ms: float | None) -> float:
    """Work as a job's feature."""
    return 0.0 if work_ms is None else math.log(max(1.0, work_ms / 1000) / 500) / 2


def _heights(stages: tuple[Stage, ...]) -> list[int]:
    heights = [0] * len(stages)
    for index in reversed(topological_order(stages)):
        for parent in stages[index].above:
            heights[parent] = max(heights[parent], heights[index] + 1)
    return heights


class Observation:
    """All jobs as the policy sees them. Every change of a job has to be told to `note`."""

    def __init__(self, promises: Promises) -> None:
        self._promises = promises
        self._jobs: dict[str, JobObservation] = {}
        self._stale: dict[str, None] = {}
        self._versions = count(1)
        self.choices: dict[str, JobObservation] = {}
        """Jobs with stages that may be chosen, as far as only the jobs are concerned."""

    def mark_changed(self, *jobs: str) -> None:
        """These jobs have changed; some may be gone."""
        self._stale.update(dict.fromkeys(jobs))

    def job(self, job: str) -> JobObservation:
        """A live job at the last `refresh`."""
        return self._jobs[job]

    def refresh(self, view: ClusterView) -> None:
        """Look at all changed jobs; at all jobs where estimates may change without the job."""
        self._stale |= self._promises.changed
        self._promises.changed.clear()
        for name in self._stale if view.estimates_stay else (*self._stale, *view.jobs):
            job = view.jobs.get(name)
            self.choices.pop(name, None)
            if job is None or job.cancelled or not job.admitted:
                self._jobs.pop(name, None)
                continue
            observed = self._jobs.get(name)
            if observed is None or observed.job is not job:
                observed = self._jobs[name] = JobObservation(job)
            observed.update(view, self._promises.promised_to(name), self._promises.net_change(name), self._versions)
            if observed.sizes:
                self.choices[name] = observed
        self._stale.clear()

    def sizes(self, view: ClusterView) -> dict[int, StageState]:
        """The sizes of stages to choose from, each with one stage. Executors of other sizes would be released."""
        active = list(view.active_sizes)
        found = {size: stage for observed in self.choices.values() for size, stage in observed.sizes.items()}
        return {size: stage for size, stage in found.items() if not active or size in active}

    def graph(self, view: ClusterView, source: Source, executors: int, offered: OfferedClasses | None = None) -> Graph:
        """The graph to choose from for these executors.

        executors: number in the whole cluster. offered: the classes of nodes for new executors.
        """
        concerned = {job for job, _ in source.refused}
        seen = {name: self._jobs[name] for name in view.jobs if name in self._jobs}
        features = np.empty((len(seen), len(JOB_FEATURES)), np.float32)
        features[:, 0] = [observed.executors / 20 for observed in seen.values()]
        features[:, 1] = [2.0 if name == source.job else -2.0 for name in seen]
        features[:, 2], features[:, 3] = source.free / 20, executors / 50
        features[:, 4:] = [observed.amounts for observed in seen.values()]
        blocks = []
        for (name, observed), own in zip(seen.items(), features, strict=True):
            # Its own executors count as given away.
            least = max(1, observed.executors + 1 - (source.free if name == source.job else 0))
            valid = observed.may_start
            if observed.sizes:
                if least > executors:
                    valid = np.zeros(len(valid), bool)
                elif name in concerned or observed.has_gangs or not observed.sizes.keys() <= source.sizes:
                    valid = valid & np.array([_serves(source, observed.job, row) for row in observed.rows])
            rooms = None if offered is None else offered.rooms(view, observed, valid)
            shown = (
                name,
                observed.version,
                observed.nodes,
                observed.stages,
                observed.heights,
                observed.edges,
                valid,
                own,
                least,
            )
            blocks.append(JobGraph(*shown, rooms, observed.work_ms, observed.path_ms))
        classes = () if offered is None else offered.classes.parts
        return Graph(tuple(blocks), executors, classes, view.has_executors)


class OfferedClasses:
    """The executor classes of the nodes on offer. nodes: None for all nodes."""

    def __init__(self, classes: Classes, nodes: Sequence[NodeState] | None) -> None:
        self.classes, self._nodes = classes, nodes
        self._known: dict[int, list[int]] = {}

    def rooms(self, view: ClusterView, observed: JobObservation, valid: Bools) -> Ints:
        """See JobGraph.rooms."""
        rooms = np.zeros((len(valid), len(self.classes.parts)), np.intp)
        for row in np.flatnonzero(valid):
            rooms[row] = self.room_by_class(view, observed.job.stages[observed.rows[row]])
        return rooms

    def room_by_class(self, view: ClusterView, stage: StageState) -> list[int]:
        """By class, number of containers of a stage for which there is room now."""
        found = self._known.get(stage.size)
        if found is None:
            found = self._known[stage.size] = [0] * len(self.classes.parts)
            for node in self._fitting(view, stage):
                found[self.classes.of[node.id]] += node.fit_count(stage)
        return found

    def nodes(self, view: ClusterView, stage: StageState, wanted: int) -> frozenset[str]:
        """The nodes of a class with room for a stage."""
        return frozenset(
            node.id
            for node in self._fitting(view, stage)
            if self.classes.of[node.id] == wanted and node.fit_count(stage)
        )

    def _fitting(self, view: ClusterView, stage: StageState) -> Sequence[NodeState]:
        return view.nodes_fitting(stage) if self._nodes is None else self._nodes


def _serves(source: Source, job: JobState, index: int) -> bool:
    """Whether the executors can be used for a stage."""
    stage = job.stages[index]
    if source.job and job.is_waiting_gang(stage):
        return False  # a gang is never put on executors that are there
    return stage.size in source.sizes and (job.id, index) not in source.refused
