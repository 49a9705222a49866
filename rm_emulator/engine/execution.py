"""True run times, drawn here alone. The scheduler never sees a true run time.

All draws are keyed by (seed, job, stage, task, attempt), so that two policies meet the same durations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from rm_emulator.engine.config import EngineConfig, Executors
from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, RunTimes, Waves, WorkloadJob
from rm_emulator.workload.waves import StageWaves, TaskDraws, TaskDurations, run_times_of
from schedulers.core import keyed
from schedulers.core.waves import LEVELS, WAVES, StageRunTimes, Wave

#: Longest duration of a scenario, ms: sums of longer run times would not be exact.
LONGEST_MS = 10**15
#: So often is the run time of a running task drawn, until a draw is longer than the task has run so far.
_REDRAWN = 200
WavesOf = Callable[[Waves, Executors], StageWaves]


class NoProfiles(ValueError):
    """A workload of measured waves on a cluster without executors, or without its profiles."""


class StageTimes(Protocol):
    """True run times of one stage of one job, in ms at node speed 1."""

    mean_ms: float

    def ms(self, index: int, executors: int, wave: Wave, attempt: int = 0) -> int:
        """Run time of one attempt; executors and wave matter to measured profiles only."""


class ListedTimes:
    """A known run time per task; later attempts of drawn run times are drawn anew."""

    __slots__ = ("_later_attempt", "first", "mean_ms")

    def __init__(self, first: Sequence[int], later_attempt: Callable[[int, int], int] | None = None) -> None:
        self.first, self._later_attempt = first, later_attempt
        self.mean_ms = sum(first) / len(first)

    def shorten(self, elapsed: Mapping[int, int]) -> None:
        """Take off the first attempt of each task the ms for which the task has run; at least 1 ms is left.

        A drawn run time that is not longer than the time so far is drawn again, since the task has lasted longer.
        """
        first = list(self.first)
        for index, by in elapsed.items():
            ms = first[index]
            for attempt in range(1, _REDRAWN if self._later_attempt is not None else 1):
                if ms > by:
                    break
                ms = self.ms(index, 1, "fresh", attempt)
            first[index] = max(1, ms - by)
        self.first = first

    def ms(self, index: int, executors: int, wave: Wave, attempt: int = 0) -> int:
        """Run time of an attempt, the same on every executor."""
        return self.first[index] if attempt == 0 or self._later_attempt is None else self._later_attempt(index, attempt)


class NodeTimes:
    """Known run times per task and node. `first`: of each task on its fastest node, ms."""

    __slots__ = ("_columns", "_rows", "first", "mean_ms")

    def __init__(self, times: PerNode, tasks: int) -> None:
        self._rows = times.ms if len(times.ms) > 1 else times.ms * tasks
        self._columns = {node: column for column, node in enumerate(times.nodes)}
        self.first = [min(row) for row in self._rows]
        self.mean_ms = sum(map(sum, self._rows)) / (tasks * len(times.nodes))

    def ms(self, index: int, executors: int, wave: Wave, attempt: int = 0) -> int:
        """Mean over the nodes, for callers without a node; see `ms_on`."""
        row = self._rows[index]
        return round(sum(row) / len(row))

    def ms_on(self, node: str, index: int) -> int:
        """Run time of a task on this node."""
        return self._rows[index][self._columns[node]]

    def means(self) -> dict[str, float]:
        """Mean over all tasks by node, ms."""
        return {
            node: sum(row[column] for row in self._rows) / len(self._rows) for node, column in self._columns.items()
        }


class MeasuredTimes(TaskDurations):
    """Run times from measured waves."""

    __slots__ = ("mean_ms",)

    def __init__(self, waves: StageWaves, draws: TaskDraws) -> None:
        super().__init__(waves, draws)
        self.mean_ms = waves.rough_ms


def node_means(times: Sequence[StageTimes]) -> dict[str, tuple[int, ...]]:
    """Means of a job's stages on each node, 0 for a stage with equal times on all nodes; empty without `NodeTimes`."""
    known = [each.means() if isinstance(each, NodeTimes) else {} for each in times]
    nodes = dict.fromkeys(node for means in known for node in means)
    return {node: tuple(round(means.get(node, 0)) for means in known) for node in nodes}


def wave_times(times: Sequence[StageTimes]) -> tuple[StageRunTimes, ...]:
    """Distributions of the run times of a job's stages by wave; empty where run times are given by node."""
    known = []
    for each in times:
        if isinstance(each, MeasuredTimes):
            known.append(run_times_of(each.waves))
        elif isinstance(each, ListedTimes):
            # In order of length, so that nobody learns which task is long.
            known.append(StageRunTimes((tuple(sorted(each.first)),), ((0,) * len(LEVELS),) * len(WAVES)))
    return tuple(known) if len(known) == len(times) else ()


class Execution:
    """Makes the run times of a job at its arrival. `waves_of` looks measured profiles up; None: there are none."""

    def __init__(self, config: EngineConfig, seed: int, waves_of: WavesOf | None = None) -> None:
        self._executors, self._seed, self._waves_of = config.executors, seed, waves_of
        self._nodes = config.nodes

    def stage_times(self, job: WorkloadJob) -> list[StageTimes]:
        """Run times of each stage, of running tasks the rest. Raises NoProfiles for waves that nothing measured."""
        made: list[StageTimes] = []
        for index, (stage, runtimes) in enumerate(zip(job.job.stages, job.runtimes, strict=True)):
            made.append(self._stage(job.job.id, index, stage.tasks, runtimes))
        if job.running:
            speeds = {node.id: node.speed for node in self._nodes}
            elapsed: dict[int, dict[int, int]] = {}
            for each in job.running:
                elapsed.setdefault(each.stage, {})[each.task] = round(each.elapsed_ms * speeds[each.node])
            for index, ms in elapsed.items():
                times = made[index]
                assert isinstance(times, ListedTimes)  # `settled` refuses all others
                times.shorten(ms)
        return made

    def _stage(self, job: str, stage: int, tasks: int, runtimes: RunTimes) -> StageTimes:
        if isinstance(runtimes, Fixed):
            return ListedTimes([runtimes.ms] * tasks)
        if isinstance(runtimes, PerTask):
            return ListedTimes(runtimes.ms)
        if isinstance(runtimes, PerNode):
            return NodeTimes(runtimes, tasks)
        if isinstance(runtimes, Drawn):
            # First attempts as one block, later attempts one by one: blocks are many times faster to draw.
            first = draw(runtimes, keyed.generator(self._seed, "durations", job, stage), tasks)
            return ListedTimes(first, lambda task, attempt: self._later_attempt(runtimes, job, stage, task, attempt))
        if self._executors is None or self._waves_of is None:
            raise NoProfiles(
                f"job '{job}' has run times measured on executors (waves): give the cluster `executors`, "
                "or take the workload's run times per task"
            )
        return MeasuredTimes(self._waves_of(runtimes, self._executors), TaskDraws(self._seed, job, stage, tasks))

    def _later_attempt(self, runtimes: Drawn, job: str, stage: int, task: int, attempt: int) -> int:
        return draw(runtimes, keyed.generator(self._seed, "durations", job, stage, task, attempt), 1)[0]


def draw(runtimes: Drawn, generator: np.random.Generator, tasks: int) -> list[int]:
    """Draw `tasks` run times in ms, at least 1, with the mean and coefficient of variation of `runtimes`."""
    mean, cov = runtimes.mean_ms, runtimes.cov
    # No draw at all, so that constant times cost no generator.
    if cov == 0 and runtimes.kind != "exponential":
        return [max(1, round(mean))] * tasks
    if runtimes.kind == "lognormal":
        sigma = math.sqrt(math.log1p(cov * cov))
        drawn = generator.lognormal(math.log(mean) - sigma * sigma / 2, sigma, tasks)
    elif runtimes.kind == "gamma":
        drawn = generator.gamma(1 / cov**2, mean * cov**2, tasks)
    elif runtimes.kind == "exponential":
        drawn = generator.exponential(mean, tasks)
    elif runtimes.kind == "uniform":
        half = mean * cov * math.sqrt(3)
        drawn = generator.uniform(mean - half, mean + half, tasks)
    else:
        drawn = generator.normal(mean, mean * cov, tasks)
    # Python integers: numpy scalars are slow in the sums and comparisons of the calendar.
    whole: list[int] = np.clip(np.rint(drawn), 1, LONGEST_MS).astype(np.int64).tolist()
    return whole
