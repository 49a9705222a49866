"""Speed-up curves from ended jobs: how long a job takes alone on so many executors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from schedulers.core.model import Job
from schedulers.core.predictor import FinishedTask, SamplePlan, predictors
from schedulers.kit.histogram import Histogram
from schedulers.kit.history import WHOLE_JOB, History, HistoryPredictor, Key
from schedulers.kit.speedups import FITS, InvertedLevels, Shape, alone_s, nearest, shape_of

#: History counts whole ms from 1 on: ratios are kept in thousandths.
_UNIT: Final = 1000.0


class Learned(NamedTuple):
    """What is known of a job at its submission."""

    shape: Shape
    """By the estimates."""
    ratios: tuple[float, ...]
    """By row of FITS: the expected time over the time by the fit."""


@predictors.register("speedups", source="rm-emulator; experts of 3Sigma (EuroSys'18) and SLearn (NSDI'22)")
class Speedups(HistoryPredictor):
    """History: mean run times by stage, and the time T(n) that a job takes alone on n executors.

    The policy `curves` asks for T(n); other policies use the run times alone, which are means over similar jobs.

    **T(n)** is the fit of `curves` times a ratio. An ended job took some multiple of the time by the fit, made from its
    measured run times: the ratio, 1 where the fit holds. A job with a number of executors that changed went through
    part dt / T(n) of its work in each moment dt. As numbers of executors count the tasks that ran at once, between
    two moments at least the smaller number of both, since executors wait for their jobs. A ratio is learned for the
    mean number (geometric, by time), and for any number.

    **Shrinkage.** Similar jobs and experts are those of `three_sigma`. From 1 the ratio goes to the expert's ratio for
    any number, then to that of the nearest width, each time by the part k / (k + `shrinkage`) of k similar jobs (on a
    logarithmic scale): without similar jobs T(n) is the fit, with many T(n) is what they took. Both are fixed at
    submission. T(n) means clusters with executors; where containers end with their tasks, `curves` asks for run times
    alone.
    """

    class Params(HistoryPredictor.Params, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings: history, and the trust in the fit."""

        shrinkage: Annotated[
            float,
            msgspec.Meta(gt=0, description="number of similar jobs that count as much as the fit; larger: slower"),
        ] = 2.0
        inverted_levels: InvertedLevels = True

    params: Params
    per_stage = True

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._ratios = History(params, per_stage=True)
        self._learned: dict[str, Learned] = {}
        self._changes: dict[str, dict[int, int]] = {}

    def point(self, histogram: Histogram) -> float:
        """The mean: work is a sum of run times."""
        return histogram.mean()

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Makes the estimates and T(n)."""
        plan = super().submitted(job, at)
        seconds = [estimate.task_ms / 1000 for estimate in self._estimates[job.id]]
        self._learned[job.id] = Learned(
            shape_of(job.stages, seconds), self._expected(self.history.keys_of(job, at), at)
        )
        return plan

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Adds up run times, and tasks at once."""
        super().finished(task, runtime_ms, node_speed, at)
        if task.job in self._learned:
            changes = self._changes.setdefault(task.job, {})
            for moment, change in ((at - runtime_ms, 1), (at, -1)):
                changes[moment] = changes.get(moment, 0) + change

    def job_done(self, job: Job, at: int) -> None:
        """Learns the job's run times and its ratio."""
        ended, parts = self.history.running(job.id), held(self._changes.get(job.id, {}))
        took = sum(ms for ms, _ in parts)
        inverted = self.params.inverted_levels
        if ended is not None and took:
            seconds = [total / max(1, n) / 1000 for n, total in zip(ended.counts, ended.sums, strict=True)]
            shape = shape_of(job.stages, seconds)
            if shape.work > 0:
                ratio = sum(ms / 1000 / alone_s(shape, n, inverted=inverted) for ms, n in parts)
                width = math.exp(sum(ms * math.log(n) for ms, n in parts) / took)
                for row in (WHOLE_JOB, nearest(width, inverted=inverted)):
                    self._ratios.learn(ended.keys, row, _UNIT * ratio, at)
        super().job_done(job, at)
        self._forget(job.id)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        super().job_gone(job, at)
        self._forget(job.id)

    def alone_ms(self, job: str, executors: int) -> float | None:
        """T(n) as known at submission."""
        known = self._learned.get(job)
        if known is None or known.shape.work <= 0:
            return None
        inverted = self.params.inverted_levels
        ratio = known.ratios[nearest(executors, inverted=inverted)]
        return 1000 * ratio * alone_s(known.shape, executors, inverted=inverted)

    def dump(self) -> Any:
        """History, ratios, and what is known of running jobs."""
        return {
            "runtimes": super().dump(),
            "ratios": self._ratios.dump(),
            "learned": [[job, list(known.shape), list(known.ratios)] for job, known in self._learned.items()],
            "changes": [[job, list(map(list, changes.items()))] for job, changes in self._changes.items()],
        }

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        super().load(data["runtimes"])
        self._ratios.load(data["ratios"])
        self._learned = {job: Learned(Shape(*shape), tuple(ratios)) for job, shape, ratios in data["learned"]}
        self._changes = {job: dict(changes) for job, changes in data["changes"]}

    def _expected(self, keys: Sequence[Key], at: int) -> tuple[float, ...]:
        """The ratio by row of FITS."""
        base = self._shrunk(1.0, keys, WHOLE_JOB, at)
        return tuple(self._shrunk(base, keys, row, at) for row in range(len(FITS[self.params.inverted_levels])))

    def _shrunk(self, ratio: float, keys: Sequence[Key], row: int, at: int) -> float:
        choice = self._ratios.choose(keys, row, at)
        if choice is None:
            return ratio
        count = choice.pane.hist.total
        return ratio * math.pow(choice.point_ms / _UNIT / ratio, count / (count + self.params.shrinkage))

    def _forget(self, job: str) -> None:
        self._learned.pop(job, None)
        self._changes.pop(job, None)


def held(changes: Mapping[int, int]) -> list[tuple[int, int]]:
    """(ms, executors) one after the other. changes: of the number of tasks at once, by time in ms; their sum is 0.

    Between two moments with so many tasks at once a job holds at least the smaller number of executors.

    >>> held({0: 2, 10: -2, 15: 1, 25: -1})
    [(10, 2), (5, 1), (10, 1)]
    """
    times = sorted(changes)
    running = list(accumulate(changes[time] for time in times))[:-1]
    before = accumulate(running, max)
    after = reversed(list(accumulate(reversed(running), max)))
    lasting = (end - start for start, end in pairwise(times))
    return [(ms, max(1, min(pair))) for ms, *pair in zip(lasting, before, after, strict=True)]
