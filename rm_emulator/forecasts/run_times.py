"""What a listener learns of run times from the facts that a scheduler hears.

An answer never contains a true run time of the future: the listener hears what the scheduler hears. About the mean run
time of a stage it holds a belief from history (`schedulers.kit.beliefs`), and about the variation among the tasks of a
stage another. How wide both are is told by the errors of earlier beliefs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from schedulers.core.decisions import Decision
from schedulers.core.events import ContainerEnded, Event, HistoryPrimed, JobCancelled, JobSubmitted, TaskEnded
from schedulers.core.live import GRANTED, RUNNING
from schedulers.core.model import Job, Stage
from schedulers.core.predictor import FinishedTask
from schedulers.core.state import ClusterState
from schedulers.kit.beliefs import Belief, Beliefs, Part
from schedulers.kit.history import HistoryParams, Key, log_variance

Floats = npt.NDArray[np.float64]

#: Newest judged beliefs that are kept, and how many of them are like a new one.
_KEPT, _ALIKE = 2000, 50
#: What makes beliefs alike: ln(mean) and ln(spread) of the belief, ln(tasks) and parents (up to `_PARENTS`) of the
#: stage. By each of the latter two, stages of past jobs are so far from a new one, since parents are unknown there.
#: Chosen on seeds 11 and 12 of the workloads of studies/when.py.
_WEIGHTS, _UNKNOWN_APART = np.array((1.0, 1.0, 0.25, 1.0)), 1.0
_PARENTS: Final = 2
#: In how many groups the errors of the mean are told, and the variances among tasks.
_GROUPS, _NOISES = 10, 5
#: Least spread of a group of errors: of five errors less is chance.
_LEAST_GROUP: Final = 0.1
#: About the chance, 2 / (n + 1), that one more error lies outside of n seen; the errors of all beliefs tell how far.
_OUTSIDE: Final = 2 / (_ALIKE + 2)
#: Least variance of ln run time within a stage, and tasks of a stage whose variance is judged.
LEAST_NOISE: Final = 1e-4
_JUDGED_TASKS: Final = 4


class JudgedBeliefs(Beliefs):
    """Beliefs whose width is told by the errors of the beliefs most like them.

    Where history is sometimes enormously wrong, a belief in a long run time is mostly too long and a belief in a short
    one mostly too short, so errors of all beliefs together would make the long ones longer still. `posterior` adds a
    wide tail of a fifth; here the tail is drawn, and the longest draws decide when there is room, so the tail has the
    chance of a surprise.
    """

    def __init__(self, params: HistoryParams) -> None:
        super().__init__(params)
        self._judged: deque[tuple[float, ...]] = deque(maxlen=_KEPT)
        self._table: Floats | None = None
        self._judged_noise: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    def judge(self, prior: Belief, ms: float, stage: Stage | None = None) -> None:
        """Note how wrong a belief about the mean run time of a stage was."""
        super().judge(prior, ms)
        if prior.known:
            self._judged.append((*_features(prior, stage), math.log(max(1.0, ms)) - prior.mean))
            self._table = None

    def judge_noise(self, prior: Belief, tasks: int, total: float, squares: float) -> None:
        """Note how much the run times of a stage varied. total, squares: sums over its tasks, ms."""
        if tasks >= _JUDGED_TASKS:
            noise = max(LEAST_NOISE, log_variance(tasks, total, squares)[0])
            self._judged_noise.append((math.log(prior.noise), noise))

    def parts(self, prior: Belief, stage: Stage | None = None) -> list[Part]:
        """The belief as a mixture: the errors that the beliefs most like it turned out to have, and a wide part.

        The order of errors tells nothing, so one more is the longest or the shortest of n + 1 with chance 2 / (n + 1).
        """
        if len(self._judged) < _ALIKE:
            return [(1.0, prior.mean, prior.spread)]
        if self._table is None:
            self._table = np.array(self._judged)
        features, errors = self._table[:, :-1], self._table[:, -1]
        apart = np.nan_to_num(np.abs(features - _features(prior, stage)), nan=_UNKNOWN_APART) @ _WEIGHTS
        alike = np.sort(errors[np.argpartition(apart, _ALIKE - 1)[:_ALIKE]])
        wide = _OUTSIDE, prior.mean + float(alike.mean()), max(_LEAST_GROUP, float(errors.std()))
        weight = (1 - _OUTSIDE) / _GROUPS
        groups = np.array_split(alike, _GROUPS)
        return [*((weight, prior.mean + float(g.mean()), max(_LEAST_GROUP, float(g.std()))) for g in groups), wide]

    def noises(self, prior: Belief) -> Floats:
        """Equally likely variances of ln run time among the tasks of a stage, ascending."""
        if len(self._judged_noise) < _ALIKE:
            return np.array([max(LEAST_NOISE, prior.noise)])
        judged = np.array(self._judged_noise)
        apart = np.abs(judged[:, 0] - math.log(prior.noise))
        alike = np.sort(judged[np.argpartition(apart, _ALIKE - 1)[:_ALIKE], 1])
        return np.array([float(group.mean()) for group in np.array_split(alike, _NOISES)])


def _features(prior: Belief, stage: Stage | None) -> tuple[float, ...]:
    """By what a belief is like another, see `_WEIGHTS`."""
    shape = (math.nan, math.nan) if stage is None else (math.log(stage.tasks), min(len(stage.above), _PARENTS))
    return prior.mean, math.log(prior.spread), *shape


class Listener:
    """Hears the facts of a scheduler with this state, and learns run times from them."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.beliefs = JudgedBeliefs(HistoryParams())
        self.priors: dict[str, list[Belief]] = {}
        """By live job, the belief about each stage as the job arrived."""
        self._hear: Mapping[type[Event], Callable[[Event], None]] = {
            JobSubmitted: self._hear_job,
            JobCancelled: self._hear_cancel,
            HistoryPrimed: self._hear_history,
            ContainerEnded: self._hear_end,
            TaskEnded: self._hear_end,
        }

    def around(self, handle: Callable[[Event], list[Decision]]) -> Callable[[Event], list[Decision]]:
        """The same handling of facts, heard before: the state then still holds the container that has ended."""
        hear = self._hear

        def heard(event: Event) -> list[Decision]:
            if (listen := hear.get(type(event))) is not None:
                listen(event)
            return handle(event)

        return heard

    def prior(self, job: Job, at: int) -> list[Belief]:
        """The belief about each stage of a job that arrives at `at` (ms)."""
        return self.beliefs.of(job, self._keys(job, at), at)

    def _keys(self, job: Job, at: int) -> tuple[Key, ...]:
        return self.beliefs.history.keys_of(job, at)

    def _hear_history(self, event: Event) -> None:
        assert isinstance(event, HistoryPrimed)
        self.beliefs.prime(event.jobs)

    def _hear_job(self, event: Event) -> None:
        assert isinstance(event, JobSubmitted)
        job = event.job
        if job.kind == "batch" and job.id not in self.state.jobs:
            self.priors[job.id] = self.beliefs.of(job, self.beliefs.history.opened(job, event.at), event.at)

    def _hear_cancel(self, event: Event) -> None:
        assert isinstance(event, JobCancelled)
        self.priors.pop(event.job, None)
        self.beliefs.history.gone(event.job)

    def _hear_end(self, event: Event) -> None:
        assert isinstance(event, ContainerEnded | TaskEnded)
        container = self.state.containers.get(event.container)
        if (
            container is None
            or container.copy
            or container.task < 0
            or (isinstance(event, ContainerEnded) and event.code)
        ):
            return
        job = self.state.jobs.get(container.job)
        if job is None or job.id not in self.priors or job.spec.stages[container.stage].master:
            return
        # An idle executor that goes has ended no task: its last was heard of by TaskEnded.
        if isinstance(event, ContainerEnded) and container.status not in (GRANTED, RUNNING):
            return
        ms = event.runtime_ms * self.state.nodes[container.node].spec.speed
        self._learn(job.spec, FinishedTask(job.id, container.stage, container.task, False), ms, event.at)

    def _learn(self, job: Job, task: FinishedTask, ms: float, at: int) -> None:
        history, priors = self.beliefs.history, self.priors[job.id]
        history.finished(task, ms)
        seen = history.running(job.id)
        assert seen is not None
        # A stage is judged at its end, as the job's end may be long after.
        n = seen.counts[task.stage]
        if n == job.stages[task.stage].tasks:
            self.beliefs.judge(priors[task.stage], seen.sums[task.stage] / n, job.stages[task.stage])
            self.beliefs.judge_noise(priors[task.stage], n, seen.sums[task.stage], seen.squares[task.stage])
        if sum(seen.counts) >= sum(stage.tasks for stage in job.stages if not stage.master):
            history.closed(job.id, at)
            del self.priors[job.id]
