"""How long tasks still take, drawn: what is known at a moment, and possible courses of all run times from there on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from rm_emulator.engine.containers import Master
from rm_emulator.engine.execution import LONGEST_MS, StageTimes
from rm_emulator.forecasts.run_times import LEAST_NOISE, Floats, Listener
from rm_emulator.workload.model import PerTask, WorkloadJob
from rm_emulator.workload.waves import Wave
from schedulers.core import keyed
from schedulers.core.live import RUNNING
from schedulers.core.model import Job, Stage
from schedulers.core.state import ClusterState
from schedulers.kit.beliefs import Belief, spread
from schedulers.kit.history import log_variance

#: Points of the grid on which the belief about ln(mean run time) of a stage is held, over so many deviations.
_GRID: Final = 61
_REACH: Final = 4.0
#: Correlation of the surprises of a job's stages: an input twice as large makes most of its stages slower.
_SHARED: Final = 0.6
#: Spread of ln(mean run time) of a stage about which history says nothing.
_NOTHING_KNOWN: Final = 1.5


class StageBelief(NamedTuple):
    """Belief about the run times of a stage: ln(mean) and the variance of ln run time among tasks, on a grid."""

    grid: Floats
    """ln(mean run time), ascending, [G]."""
    noises: Floats
    """Variances among tasks, [K]."""
    cumulated: Floats
    """Chance of all points up to each, by mean, then variance, [G * K]."""
    known: bool
    """False where neither history nor the job itself tells anything."""

    def at(self, chance: float) -> tuple[float, float]:
        """(mean of ln run time, its standard deviation) at this quantile."""
        point, noise = divmod(int(np.searchsorted(self.cumulated, chance)), len(self.noises))
        variance = float(self.noises[noise])
        return float(self.grid[min(point, len(self.grid) - 1)]) - variance / 2, math.sqrt(variance)


def stage_belief(
    listener: Listener,
    prior: Belief,
    stage: Stage | None = None,
    told: tuple[int, float, float] = (0, 0.0, 0.0),
    running: Sequence[float] = (),
) -> StageBelief:
    """The belief about a stage after evidence.

    told: number, sum and sum of squares of finished run times, ms. running: elapsed time of each running task, ms. Of a
    running task no more is known than that it lasts longer; without these, the short tasks, which end first, would be
    taken for the stage.
    """
    n, total, squares = told
    known = prior.known
    parts = listener.beliefs.parts(prior, stage) if known else [(1.0, prior.mean, _NOTHING_KNOWN)]
    noises = np.maximum(LEAST_NOISE, listener.beliefs.noises(prior))[:, None]
    grid = _grid(parts, math.log(total / n + 1) if n else None, max(running, default=0.0), float(noises.max()))
    weights, means, sds = (np.array(column)[:, None] for column in zip(*parts, strict=True))
    logs = np.log(np.maximum((weights * np.exp(-0.5 * ((grid - means) / sds) ** 2) / sds).sum(axis=0), 1e-300))
    logs = np.repeat(logs[None, :], len(noises), axis=0)  # [K, G]
    if n:
        variance, weight = log_variance(n, total, squares)
        # The variance of n draws from a normal distribution (chi-square), and the mean of n log-normal run times.
        logs += -weight / 2 * (np.log(noises) + variance / noises)
        doubt = np.log1p(np.expm1(noises) / n)
        logs += -0.5 * (np.log(doubt) + (math.log(max(1.0, total / n)) + doubt / 2 - grid) ** 2 / doubt)
    if running:
        elapsed = np.log(np.maximum(1.0, np.array(running)))[:, None, None]
        # ln run time of a task is N(ln mean - variance / 2, variance).
        logs += log_ndtr((grid - noises / 2 - elapsed) / np.sqrt(noises)).sum(axis=0)
    chance = np.exp(logs - logs.max()).T.ravel()
    return StageBelief(grid, noises[:, 0], np.cumsum(chance) / chance.sum(), known or n > 0)


def _grid(parts: Sequence[tuple[float, float, float]], seen: float | None, longest: float, noise: float) -> Floats:
    """Points of ln(mean run time), wide enough for the belief and for the evidence."""
    centre = sum(weight * mean for weight, mean, _ in parts)
    reach = _REACH * max(0.05, spread(parts))
    low, high = centre - reach, centre + reach
    if seen is not None:
        # Close to the mean of finished tasks where these say more than history, so that the grid stays fine.
        low, high = max(low, seen - _REACH), min(high, seen + _REACH)
        low, high = min(low, seen - 0.5), max(high, seen + 0.5)
    return np.linspace(low, max(high, math.log(longest + 1) + 2 * math.sqrt(noise) + 0.5), _GRID)


class Unknown(NamedTuple):
    """A stage of a live job with tasks that have not ended."""

    job: str
    stage: int
    tasks: int
    belief: StageBelief


class KnownRunTimes:
    """What is known at a moment: of each unfinished stage the belief, of each running task its elapsed time.

    Made once; `draw` then costs a few array operations. now: ms.
    """

    def __init__(self, listener: Listener, now: int, seed: int) -> None:
        self._listener, self._seed, self.now = listener, seed, now
        self._tasks: list[tuple[int, int]] = []
        elapsed: list[float] = []
        self.stages: list[Unknown] = []
        running = _running(listener.state, now)
        for job, index, stage in _unfinished(listener):
            since = running.get((job, index), [])
            self._tasks += [(len(self.stages), task) for task, _ in since]
            elapsed += (ms for _, ms in since)
            seen = listener.beliefs.history.running(job)
            assert seen is not None
            told = seen.counts[index], seen.sums[index], seen.squares[index]
            belief = stage_belief(listener, listener.priors[job][index], stage, told, [ms for _, ms in since])
            self.stages.append(Unknown(job, index, stage.tasks, belief))
        self._row = {(each.job, each.stage): row for row, each in enumerate(self.stages)}
        self._jobs, self._job_of = _numbered(each.job for each in self.stages)
        self._rows = np.array([row for row, _ in self._tasks], dtype=np.intp)
        self._log_elapsed = np.log(np.maximum(1.0, np.array(elapsed)))

    @property
    def unknown(self) -> list[str]:
        """Live jobs with a stage about which nothing is known."""
        return list(dict.fromkeys(each.job for each in self.stages if not each.belief.known))

    def draw(self, number: int) -> Draw:
        """One possible course of all run times; the same number gives the same course, whatever is then changed."""
        stages = len(self.stages)
        random = keyed.generator(self._seed, "simulate", str(self.now), number)
        shared = random.standard_normal(len(self._jobs))[self._job_of]
        chances = ndtr(math.sqrt(_SHARED) * shared + math.sqrt(1 - _SHARED) * random.standard_normal(stages))
        rows = [each.belief.at(chance) for each, chance in zip(self.stages, chances.tolist(), strict=True)]
        laws = np.array(rows).reshape(stages, 2)
        middle, deviation = laws[self._rows, 0], laws[self._rows, 1]
        # Given that a task has run so long: its quantile lies above the quantile of the elapsed time.
        survivors = ndtr((middle - self._log_elapsed) / deviation) * (1 - random.random(len(self._rows)))
        lasting = middle - deviation * ndtri(np.maximum(survivors, 1e-300))
        # Beyond the reach of doubles, and by rounding, a task still takes no less than it has.
        running: dict[int, dict[int, int]] = {}
        for (row, task), ms in zip(self._tasks, _whole(np.maximum(lasting, self._log_elapsed)), strict=True):
            running.setdefault(row, {})[task] = ms
        return Draw(self, number, rows, running)

    def stage_times(self, draw: Draw, job: Master) -> list[StageTimes]:
        """See `Future.stage_times`."""
        made: list[StageTimes] = []
        for stage, times in enumerate(job.times):
            row = self._row.get((job.name, stage))
            if row is None:
                made.append(times)
            else:
                seeds = self._seed, draw.number
                made.append(DrawnTimes(seeds, self.stages[row], draw.laws[row], draw.running.get(row, {})))
        return made

    def beliefs(self, job: Job) -> list[StageBelief]:
        """The belief about each stage of a job that arrives now."""
        priors = self._listener.prior(job, self.now)
        return [stage_belief(self._listener, *each) for each in zip(priors, job.stages, strict=True)]

    def arriving(self, source: WorkloadJob, number: int) -> WorkloadJob:
        """A job to come with its run times in a draw, which are the same whatever its demands are."""
        job = source.job
        random = keyed.generator(self._seed, "simulate", number, job.id, "new")
        shared, made = random.standard_normal(), list[PerTask]()
        for stage, belief in zip(job.stages, self.beliefs(job), strict=True):
            chance = ndtr(math.sqrt(_SHARED) * shared + math.sqrt(1 - _SHARED) * random.standard_normal())
            middle, deviation = belief.at(float(chance))
            made.append(PerTask(tuple(_whole(random.normal(middle, deviation, stage.tasks)))))
        return msgspec.structs.replace(source, runtimes=tuple(made))


class Draw(NamedTuple):
    """One possible course of run times (a `Future` of the engine)."""

    moment: KnownRunTimes
    number: int
    laws: list[tuple[float, float]]
    """Mean and standard deviation of ln run time by unfinished stage."""
    running: dict[int, dict[int, int]]
    """Run time of each running task, ms at node speed 1, by stage's row and task."""

    def stage_times(self, job: Master) -> list[StageTimes]:
        """See `Future.stage_times`."""
        return self.moment.stage_times(self, job)


class DrawnTimes:
    """Run times of the unfinished tasks of a stage; of tasks that have not started drawn when first asked for."""

    __slots__ = ("_law", "_list", "_running", "_seeds", "_unknown", "mean_ms")

    def __init__(
        self, seeds: tuple[int, int], unknown: Unknown, law: tuple[float, float], running: Mapping[int, int]
    ) -> None:
        self._seeds, self._unknown, self._law, self._running = seeds, unknown, law, running
        self._list: list[int] | None = None
        middle, deviation = law
        self.mean_ms = math.exp(middle + deviation * deviation / 2)

    def ms(self, index: int, executors: int, wave: Wave, attempt: int = 0) -> int:
        """Run time of a task; all attempts of a task take the same time."""
        if (known := self._running.get(index)) is not None:
            return known
        if self._list is None:
            seed, number = self._seeds
            random = keyed.generator(seed, "simulate", number, self._unknown.job, self._unknown.stage)
            self._list = _whole(random.normal(*self._law, self._unknown.tasks))
        return self._list[index]


def _whole(logs: Floats) -> list[int]:
    """Whole ms, at least 1, from ln ms."""
    ms = np.exp(np.minimum(logs, math.log(LONGEST_MS)))
    whole: list[int] = np.maximum(np.rint(ms), 1).astype(np.int64).tolist()
    return whole


def _numbered(names: Iterable[str]) -> tuple[dict[str, int], npt.NDArray[np.intp]]:
    """Names by number of first appearance, and the number of each."""
    numbers: dict[str, int] = {}
    return numbers, np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)


def _unfinished(listener: Listener) -> Iterable[tuple[str, int, Stage]]:
    """(job, index, stage) of each stage of a live batch job with tasks that have not ended, masters left out."""
    for job in listener.state.jobs.values():
        seen = listener.beliefs.history.running(job.id)
        if job.id not in listener.priors or seen is None:
            continue
        for index, stage in enumerate(job.spec.stages[: len(listener.priors[job.id])]):
            if not stage.master and seen.counts[index] < stage.tasks:
                yield job.id, index, stage


def _running(state: ClusterState, now: int) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """By (job, stage): each running task with its elapsed time, ms at node speed 1."""
    found: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for container in state.containers.values():
        if container.status == RUNNING and container.started >= 0 and container.task >= 0 and not container.copy:
            speed = state.nodes[container.node].spec.speed
            found.setdefault((container.job, container.stage), []).append(
                (container.task, (now - container.started) * speed)
            )
    return found
