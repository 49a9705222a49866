"""How long tasks still take, drawn: what is known at a moment, and possible courses of all run times from there on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from rm_emulator.engine.branch import Ints
from rm_emulator.engine.containers import Master
from rm_emulator.engine.execution import LONGEST_MS, StageTimes
from rm_emulator.forecasts.run_times import LEAST_NOISE, Floats, Listener
from rm_emulator.workload.model import PerTask, WorkloadJob
from schedulers.core import keyed
from schedulers.core.live import RUNNING
from schedulers.core.model import Job, Stage, topological_order
from schedulers.core.state import ClusterState
from schedulers.core.waves import Wave
from schedulers.kit.beliefs import Belief, Part, spread
from schedulers.kit.history import OpenJob, log_variance

#: Points of the grid on which the belief about ln(mean run time) of a stage is held, over so many deviations.
_GRID: Final = 61
_REACH: Final = 4.0
#: Correlation of the surprises of a stage and of its parents: 0.32 in 800 DAGs of Alibaba 2018 (0.08 between all stages
#: of a job).
_TIE: Final = 0.32
#: Errors of more deviations are as surprising as these.
_FAR: Final = 3.0
#: Spread of ln(mean run time) of a stage about which history says nothing.
_NOTHING_KNOWN: Final = 1.5


#: Number, sum and sum of squares of finished run times, ms.
Told: TypeAlias = tuple[int, float, float]


class StageBelief(NamedTuple):
    """Belief about the run times of a stage: ln(mean) and the variance of ln run time among tasks, on a grid."""

    grid: Floats
    """ln(mean run time), ascending, [G]."""
    noises: Floats
    """Variances among tasks, [K]."""
    cumulated: Floats
    """Chance of all points up to each, by mean, then variance, [G * K]."""
    surprises: Floats
    """How surprising each ln(mean) is before any evidence, as a quantile of the standard normal distribution, [G]."""
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
    told: Told = (0, 0.0, 0.0),
    running: Sequence[float] = (),
    pull: float = 0.0,
) -> StageBelief:
    """The belief about a stage after evidence.

    running: elapsed time of each running task, ms. Of a running task no more is known than that it lasts longer;
    without these, the short tasks, which end first, would be taken for the stage. pull: mean surprise of the stage by
    the surprises of its parents, see `_pull`; 0: nothing is known of parents.
    """
    n, total, squares = told
    known = prior.known
    parts = _parts(listener, prior, stage)
    noises = np.maximum(LEAST_NOISE, listener.beliefs.noises(prior))[:, None]
    grid = _grid(parts, math.log(total / n + 1) if n else None, max(running, default=0.0), float(noises.max()))
    weights, means, sds = (np.array(column)[:, None] for column in zip(*parts, strict=True))
    logs = np.log(np.maximum((weights * np.exp(-0.5 * ((grid - means) / sds) ** 2) / sds).sum(axis=0), 1e-300))
    surprises = _surprises(parts, grid)
    if pull:
        logs += 0.5 * (surprises**2 - (surprises - pull) ** 2 / (1 - _TIE**2))
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
    return StageBelief(grid, noises[:, 0], np.cumsum(chance) / chance.sum(), surprises, known or n > 0)


def _parts(listener: Listener, prior: Belief, stage: Stage | None) -> list[Part]:
    return listener.beliefs.parts(prior, stage) if prior.known else [(1.0, prior.mean, _NOTHING_KNOWN)]


def _surprises(parts: Sequence[Part], points: Floats) -> Floats:
    """How surprising each ln(mean) is to a belief."""
    weights, means, sds = (np.array(column)[:, None] for column in zip(*parts, strict=True))
    surprises: Floats = np.clip(ndtri((weights * ndtr((points - means) / sds)).sum(axis=0)), -_FAR, _FAR)
    return surprises


def _pull(surprises: Sequence[float]) -> float:
    """Mean surprise of a stage whose parents were so surprising."""
    return _TIE * sum(surprises) / math.sqrt(len(surprises))


def _grid(parts: Sequence[Part], seen: float | None, longest: float, noise: float) -> Floats:
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
    """A stage of a job with tasks that have not ended."""

    job: str
    stage: int
    tasks: int
    belief: StageBelief
    ended: tuple[float, ...] = ()
    """Surprises of parents that have ended, where a draw tells those of the others."""
    open: tuple[int, ...] = ()
    """Parents that have not ended, by their place among the stages; () where the stage itself has evidence."""


def unknown_stages(
    listener: Listener,
    job: Job,
    priors: Sequence[Belief],
    seen: Callable[[int], tuple[Told, Sequence[float]]],
    first: int = 0,
) -> list[Unknown]:
    """The stages of a job with tasks that have not ended, each behind its parents, masters left out.

    seen: what is known of a stage, see `stage_belief`. first: the place of the first.
    """
    found: list[Unknown] = []
    rows: dict[int, int] = {}
    surprises: dict[int, float] = {}
    for index in topological_order(job.stages):
        stage = job.stages[index]
        if stage.master or index >= len(priors):
            continue
        told, running = seen(index)
        prior, (n, total, _) = priors[index], told
        if n >= stage.tasks:
            surprises[index] = float(_surprises(_parts(listener, prior, stage), np.log([max(1.0, total / n)]))[0])
            continue
        ended = tuple(surprises[parent] for parent in stage.above if parent in surprises)
        still = () if n or running else tuple(rows[parent] for parent in stage.above if parent in rows)
        pull = _pull(ended) if ended and len(ended) == len(stage.above) else 0.0
        belief = stage_belief(listener, prior, stage, told, running, pull)
        rows[index] = first + len(found)
        found.append(Unknown(job.id, index, stage.tasks, belief, ended if still else (), still))
    return found


def _laws(stages: Sequence[Unknown], normals: Sequence[float]) -> list[tuple[float, float]]:
    """Mean and standard deviation of ln run time of each stage, drawn, parents before children.

    normals: a standard normal number for each.
    """
    laws: list[tuple[float, float]] = []
    surprises: list[float] = []
    for each, normal in zip(stages, normals, strict=True):
        score = normal
        if each.open:
            pull = _pull([*each.ended, *(surprises[row] for row in each.open)])
            score = pull + math.sqrt(1 - _TIE**2) * normal
        middle, deviation = each.belief.at(0.5 * math.erfc(-score / math.sqrt(2)))
        laws.append((middle, deviation))
        mean = middle + deviation * deviation / 2
        surprises.append(float(np.interp(mean, each.belief.grid, each.belief.surprises)))
    return laws


class KnownRunTimes:
    """What is known at a moment: of each unfinished stage the belief, of each running task its elapsed time.

    Made once; `draw` then costs a few array operations. now: ms.
    """

    def __init__(self, listener: Listener, now: int, seed: int) -> None:
        self._listener, self._seed, self.now = listener, seed, now
        self.stages: list[Unknown] = []
        running = _running(listener.state, now)
        for job in listener.state.jobs.values():
            seen = listener.beliefs.history.running(job.id)
            if job.id in listener.priors and seen is not None:
                known = partial(_seen, seen, job.id, running)
                self.stages += unknown_stages(listener, job.spec, listener.priors[job.id], known, len(self.stages))
        self._row = {(each.job, each.stage): row for row, each in enumerate(self.stages)}
        since = [running.get((each.job, each.stage), []) for each in self.stages]
        tasks = [each for of_stage in since for each in of_stage]
        self._tasks = [each.task for each in tasks]
        self._rows = np.repeat(np.arange(len(since)), [len(of_stage) for of_stage in since])
        self._log_elapsed = np.log(np.maximum(1.0, np.array([each.elapsed_ms for each in tasks])))
        numbers = np.array([each.container for each in tasks], dtype=np.int64)
        self._by_number = np.argsort(numbers)
        self._numbers = numbers[self._by_number]

    @property
    def unknown(self) -> list[str]:
        """Live jobs with a stage about which nothing is known."""
        return list(dict.fromkeys(each.job for each in self.stages if not each.belief.known))

    def draw(self, number: int) -> Draw:
        """One possible course of all run times; the same number gives the same course, whatever is then changed."""
        stages = len(self.stages)
        random = keyed.generator(self._seed, "simulate", str(self.now), number)
        rows = _laws(self.stages, random.standard_normal(stages).tolist())
        laws = np.array(rows).reshape(stages, 2)
        middle, deviation = laws[self._rows, 0], laws[self._rows, 1]
        # Given that a task has run so long: its quantile lies above the quantile of the elapsed time.
        survivors = ndtr((middle - self._log_elapsed) / deviation) * (1 - random.random(len(self._rows)))
        lasting = middle - deviation * ndtri(np.maximum(survivors, 1e-300))
        # Beyond the reach of doubles, and by rounding, a task still takes no less than it has.
        return Draw(self, number, rows, _whole(np.maximum(lasting, self._log_elapsed)))

    def stage_times(self, draw: Draw, job: Master) -> list[StageTimes]:
        """See `Future.stage_times`."""
        made: list[StageTimes] = []
        for stage, times in enumerate(job.times):
            row = self._row.get((job.name, stage))
            made.append(times if row is None else DrawnTimes(self._seed, draw, row))
        return made

    def running_ms(self, draw: Draw, containers: Ints) -> Ints | None:
        """See `Future.running_ms`."""
        places = np.searchsorted(self._numbers, containers)
        if not np.isin(containers, self._numbers, assume_unique=True).all():
            return None  # a copy, or a task of a job of which nothing is drawn
        return draw.running[self._by_number[places]]

    def running_of(self, draw: Draw, row: int) -> dict[int, int]:
        """Run time of each running task of a stage, ms at node speed 1."""
        first, last = np.searchsorted(self._rows, (row, row + 1)).tolist()
        return dict(zip(self._tasks[first:last], draw.running[first:last].tolist(), strict=True))

    def beliefs(self, job: Job) -> list[StageBelief]:
        """The belief about each stage of a job that arrives now."""
        priors = self._listener.prior(job, self.now)
        return [stage_belief(self._listener, *each) for each in zip(priors, job.stages, strict=True)]

    def arriving(self, source: WorkloadJob, number: int) -> WorkloadJob:
        """A job to come with its run times in a draw, which are the same whatever its demands are."""
        job = source.job
        random = keyed.generator(self._seed, "simulate", number, job.id, "new")
        stages = unknown_stages(self._listener, job, self._listener.prior(job, self.now), lambda _: ((0, 0.0, 0.0), ()))
        laws = _laws(stages, random.standard_normal(len(stages)).tolist())
        made = {
            each.stage: PerTask(tuple(_whole(random.normal(*law, each.tasks)).tolist()))
            for each, law in zip(stages, laws, strict=True)
        }
        return msgspec.structs.replace(source, runtimes=tuple(made[index] for index in range(len(job.stages))))


class Draw(NamedTuple):
    """One possible course of run times (a `Future` of the engine)."""

    moment: KnownRunTimes
    number: int
    laws: list[tuple[float, float]]
    """Mean and standard deviation of ln run time by unfinished stage."""
    running: Ints
    """Run time of each running task, ms at node speed 1, stage after stage."""

    def stage_times(self, job: Master) -> list[StageTimes]:
        """See `Future.stage_times`."""
        return self.moment.stage_times(self, job)

    def running_ms(self, containers: Ints) -> Ints | None:
        """See `Future.running_ms`."""
        return self.moment.running_ms(self, containers)


class DrawnTimes:
    """Run times of the unfinished tasks of a stage; of tasks that have not started drawn when first asked for."""

    __slots__ = ("_draw", "_list", "_row", "_running", "_seed", "mean_ms")

    def __init__(self, seed: int, draw: Draw, row: int) -> None:
        self._seed, self._draw, self._row = seed, draw, row
        self._running: dict[int, int] | None = None
        self._list: list[int] | None = None
        middle, deviation = draw.laws[row]
        self.mean_ms = math.exp(middle + deviation * deviation / 2)

    def ms(self, index: int, executors: int, wave: Wave, attempt: int = 0) -> int:
        """Run time of a task; all attempts of a task take the same time."""
        draw = self._draw
        if self._running is None:
            self._running = draw.moment.running_of(draw, self._row)
        if (known := self._running.get(index)) is not None:
            return known
        if self._list is None:
            stage = draw.moment.stages[self._row]
            random = keyed.generator(self._seed, "simulate", draw.number, stage.job, stage.stage)
            self._list = _whole(random.normal(*draw.laws[self._row], stage.tasks)).tolist()
        return self._list[index]


def _whole(logs: Floats) -> Ints:
    """Whole ms, at least 1, from ln ms."""
    ms = np.exp(np.minimum(logs, math.log(LONGEST_MS)))
    return np.maximum(np.rint(ms), 1).astype(np.int64)


def _seen(
    seen: OpenJob, job: str, running: Mapping[tuple[str, int], Sequence[_Running]], stage: int
) -> tuple[Told, Sequence[float]]:
    """What is known of a stage of a live job, see `stage_belief`."""
    elapsed = [each.elapsed_ms for each in running.get((job, stage), ())]
    return (seen.counts[stage], seen.sums[stage], seen.squares[stage]), elapsed


class _Running(NamedTuple):
    """A running task with its elapsed time, ms at node speed 1."""

    task: int
    container: int
    elapsed_ms: float


def _running(state: ClusterState, now: int) -> dict[tuple[str, int], list[_Running]]:
    """The running tasks by (job, stage)."""
    found: dict[tuple[str, int], list[_Running]] = {}
    for number, container in state.containers.items():
        if container.status == RUNNING and container.started >= 0 and container.task >= 0 and not container.copy:
            elapsed = (now - container.started) * state.nodes[container.node].spec.speed
            found.setdefault((container.job, container.stage), []).append(_Running(container.task, number, elapsed))
    return found
