"""Jobs and run times as arrays, and runs of them by the fast simulator, from the beginning or from any moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from schedulers.core.model import Job
from schedulers.planning.replan import kernel
from schedulers.planning.replan.kernel import Desk, Durations, FastState, Floats, Ints, Jobs, Rule, World
from schedulers.planning.replan.seen import Course

_NO_TRACE: Final = np.empty((0, 2), np.int64)
#: A play ends so long after its beginning, ms: times are parts of numbers of 64 bits.
_HORIZON_MS: Final = 1 << 29


class Unsuitable(ValueError):
    """A workload or a cluster that the fast simulator does not play; the message says why."""


class FastRun(NamedTuple):
    """Everything about an episode but its policy and its draws."""

    jobs: Jobs
    durations: Durations
    executors: int
    moving_ms: int
    """Time to take up an executor, new or from another job."""

    @property
    def tasks(self) -> int:
        """Number of tasks of all jobs."""
        return int(self.jobs.jobs["tasks"].sum())

    def begin(self) -> FastState:
        """The state before the first arrival."""
        jobs, stages = self.jobs.jobs, self.jobs.stages
        state = FastState(
            np.zeros(kernel.ENDS + 1, np.int64),
            np.zeros(len(jobs), kernel.JOB_NOW),
            np.zeros(len(stages), kernel.STAGE_NOW),
            np.zeros(self.executors, kernel.PLACE),
            np.full(self.executors, kernel.NEVER, np.int64),
            np.zeros(self.executors, np.int64),
        )
        state.stages["unstarted"], state.stages["parents_left"] = stages["tasks"], stages["parents"]
        state.jobs["unstarted"] = state.jobs["left"] = jobs["tasks"]
        state.jobs["end_ms"] = -1
        state.clock[[kernel.NUMBER, kernel.PLACES, kernel.LEFT]] = 1, self.executors, len(jobs)
        return state

    def go_on(
        self,
        state: FastState,
        rule: Rule,
        draws: Floats,
        *,
        until_ms: int = kernel.NEVER,
        pause_ms: int = -1,
        trace: Ints = _NO_TRACE,
    ) -> None:
        """Change a state to a later one, see `kernel.advance`. Raises Unsuitable if jobs can never finish."""
        world = World(self.jobs, self.durations, draws, trace, self.moving_ms)
        kernel.advance(world, rule, state, self._desk(), until_ms, pause_ms, kernel.NEVER)
        if state.clock[kernel.LEFT] and until_ms == kernel.NEVER and not state.clock[kernel.DUE]:
            stuck = np.flatnonzero(state.jobs["end_ms"] < 0)
            raise Unsuitable(f"{len(stuck)} jobs can never finish; the first is number {stuck[0]} of the episode")

    def total_ms(self, state: FastState, rule: Rule, draws: Floats, most_ms: int = kernel.NEVER) -> int:
        """Sum of the ends of all jobs from a state on, which stays, ms; some larger number where beyond `most_ms`."""
        there, world = copied(state), World(self.jobs, self.durations, draws, _NO_TRACE, self.moving_ms)
        until = int(state.clock[kernel.NOW]) + _HORIZON_MS
        kernel.advance(world, rule, there, self._desk(), until, -1, most_ms)
        now, left = (int(there.clock[at]) for at in (kernel.NOW, kernel.LEFT))
        # A job without any event left never ends.
        stuck = left and (there.event == kernel.NEVER).all()
        return int(there.clock[kernel.ENDS]) + left * (until if stuck else now)

    def ends(self, rule: Rule, draws: Floats, trace: Ints = _NO_TRACE) -> Ints:
        """End of each job, ms, of a whole episode."""
        state = self.begin()
        self.go_on(state, rule, draws, trace=trace)
        return state.jobs["end_ms"]

    def new_trace(self) -> Ints:
        """A trace for the start and the end of each task."""
        return np.full((self.tasks, 2), -1, np.int64)

    def mean_jct_s(self, ends: Ints) -> float:
        """Mean job completion time of ended jobs, s."""
        return float((ends - self.jobs.jobs["submit_ms"]).mean() / 1000)

    def _desk(self) -> Desk:
        many, places = len(self.jobs.jobs), self.executors
        order, held, behind, leaving = (np.empty(many, np.int64) for _ in range(4))
        there, free, runs = (np.empty(places, np.int64) for _ in range(3))
        return Desk(order, np.empty(many), held, behind, leaving, there, free, runs, np.empty(4, np.int64))


def copied(state: FastState) -> FastState:
    """The same moment, to go on from independently."""
    return FastState(*(each.copy() for each in state))


def jobs_of(jobs: Sequence[tuple[int, Job]]) -> Jobs:
    """Jobs with their arrivals (ms), in order of arrival, as arrays."""
    firsts = list(accumulate((len(job.stages) for _, job in jobs), initial=0))
    stages = [(first, stage) for first, (_, job) in zip(firsts, jobs, strict=False) for stage in job.stages]
    children: list[list[int]] = [[] for _ in stages]
    for child, (first, stage) in enumerate(stages):
        for parent in stage.above:
            children[first + parent].append(child)
    made = np.zeros(len(jobs), kernel.JOB), np.zeros(len(stages), kernel.STAGE)
    made[0]["submit_ms"] = [submit for submit, _ in jobs]
    made[0]["first"], made[0]["end"] = firsts[:-1], firsts[1:]
    made[0]["tasks"] = [job.tasks for _, job in jobs]
    made[1]["tasks"] = [stage.tasks for _, stage in stages]
    made[1]["first_task"] = np.cumsum(made[1]["tasks"]) - made[1]["tasks"]
    made[1]["parents"] = [len(stage.parents) for _, stage in stages]
    made[1]["end_child"] = np.cumsum([len(below) for below in children])
    made[1]["first_child"] = made[1]["end_child"] - [len(below) for below in children]
    return Jobs(*made, np.array([child for below in children for child in below], np.int64))


def durations_of(courses: Iterable[Course], levels: Sequence[tuple[int, int, float]]) -> Durations:
    """Run times of the jobs of a run, one after the other. levels: see `schedulers.core.waves.choices`."""
    values, lists, first = [], [], 0
    for course in courses:
        values.append(course.values)
        own = np.zeros(course.lists.shape[:-1], kernel.LIST)
        own["start"], own["count"] = course.lists[..., 0] + first, course.lists[..., 1]
        lists.append(own)
        first += len(course.values)
    return Durations(np.concatenate(values), np.concatenate(lists), np.array(list(levels), kernel.CHOICE))


def random_draws(tasks: int, generator: np.random.Generator) -> Floats:
    """Draws of their own, a hundred times faster than the engine's."""
    return generator.random((tasks, 2))
