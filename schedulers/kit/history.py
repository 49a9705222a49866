"""Learning in time: what similar jobs took, by feature, in a sliding window, and which feature to trust.

Features and window: A. Jajoo et al., SLearn, NSDI 2022, sections 2.3, 4.2 and 4.3. Experts, their score and
the histograms: J. W. Park et al., "3Sigma: distribution-based cluster scheduling for runtime uncertainty",
EuroSys 2018, and A. Tumanov et al., "JamaisVu: Robust Scheduling with Auto-Estimated Job Runtimes", 2016.
All run times are mean task run times in ms, normalised to node speed 1 and at least 1 ms: one run time
near 0 would swallow the expectation of any utility t^-2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from schedulers.core.model import Job, PastJob
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan
from schedulers.core.resources import Vector
from schedulers.kit.histogram import Histogram

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
WHOLE_JOB: Final = -1
EVERYTHING: Final = ("all", "")
ESTIMATORS: Final = ("average", "median", "decayed", "recent")
_EACH: Final = range(len(ESTIMATORS))

Feature = Literal["app", "job_name", "user", "submit_day", "submit_hour", "request"]
FEATURES: Final[tuple[Feature, ...]] = ("app", "job_name", "user", "submit_day", "submit_hour", "request")
Key = tuple[str, str]
Features = Annotated[
    tuple[Feature, ...],
    msgspec.Meta(description="features of a job: a past job with a common value is similar (SLearn 4.2)"),
]
WindowDays = Annotated[
    int,
    msgspec.Meta(
        ge=1,
        description="number of whole days before today that count; larger: more history, slower to forget "
        "(SLearn 4.2 tries 3, 7, 14: 14 is best for 2Sigma, 3 for Google)",
    ),
]


class HistoryParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How history is kept and asked."""

    features: Features = FEATURES
    window_days: WindowDays = 14
    bins: Annotated[
        int, msgspec.Meta(ge=2, description="number of bins of a histogram; larger: a finer distribution (3Sigma)")
    ] = 80
    min_observations: Annotated[
        int,
        msgspec.Meta(
            ge=2,
            description="number of run times before a feature value gives estimates; a single run time has no "
            "error to judge by (ours)",
        ),
    ] = 2
    decay_alpha: Annotated[
        float,
        msgspec.Meta(
            gt=0,
            le=1,
            description="weight of the newest run time in the decayed average; larger: faster to forget (3Sigma)",
        ),
    ] = 0.6
    recent: Annotated[
        int, msgspec.Meta(ge=1, description="number of run times in the average of the most recent run times (3Sigma)")
    ] = 20
    default_task_ms: Annotated[int, msgspec.Meta(ge=1, description="estimate without any history, in ms (ours)")] = (
        60_000
    )
    max_values: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            description="limit on feature values, which bounds memory; beyond, the value unseen for the longest "
            "time is forgotten (ours)",
        ),
    ] = 100_000


class Pane:
    """Knowledge of a day, or of the whole window, about a feature value."""

    __slots__ = ("actual", "day", "errors", "hist", "noise", "noise_weight", "off", "off_square", "scored", "total")

    def __init__(self, day: int, bins: int) -> None:
        self.day, self.hist = day, Histogram(bins)
        self.total = self.actual = self.noise = self.noise_weight = 0.0
        self.scored = 0
        self.errors, self.off, self.off_square = ([0.0] * len(ESTIMATORS) for _ in range(3))

    def score(self, off_by: Sequence[float], logs: Sequence[float], ms: float) -> None:
        """Judge each estimator: off by `off_by` ms, and by `logs` in logs, on a run time of `ms`."""
        errors, off, square = self.errors, self.off, self.off_square
        self.scored += 1
        self.actual += ms
        for k in _EACH:
            log = logs[k]
            errors[k] += off_by[k]
            off[k] += log
            square[k] += log * log

    def insert(self, ms: float, noise: tuple[float, float]) -> None:
        """Take in a run time with the variance of log run times inside its job."""
        variance, weight = noise
        self.hist.add(ms)
        self.total += ms
        self.noise += weight * variance
        self.noise_weight += weight

    def absorb(self, other: Pane) -> None:
        """Add all the knowledge of `other`."""
        self.hist.merge(other.hist)
        self.total += other.total
        self.actual += other.actual
        self.noise += other.noise
        self.noise_weight += other.noise_weight
        self.scored += other.scored
        for mine, theirs in ((self.errors, other.errors), (self.off, other.off), (self.off_square, other.off_square)):
            mine[:] = [a + b for a, b in zip(mine, theirs, strict=True)]

    def nmae(self, estimator: int) -> float:
        """Normalised mean absolute error of an estimator on this feature value; +inf before its first try."""
        return self.errors[estimator] / self.actual if self.scored else math.inf

    def dump(self) -> Any:
        """Plain data for `load`."""
        sums = [self.total, self.actual, self.noise, self.noise_weight, self.scored]
        return [self.day, self.hist.dump(), sums, self.errors.copy(), self.off.copy(), self.off_square.copy()]

    @classmethod
    def load(cls, data: Any) -> Pane:
        """The pane described by `dump`."""
        made = cls(data[0], 1)
        made.hist = Histogram.load(data[1])
        made.total, made.actual, made.noise, made.noise_weight, made.scored = data[2]
        made.errors, made.off, made.off_square = list(data[3]), list(data[4]), list(data[5])
        return made


class Series:
    """A feature value (of a stage) through time: a pane a day, and their sum over the window."""

    __slots__ = ("_sum", "days", "decayed", "recent", "recent_days")

    def __init__(self, recent: int) -> None:
        self.days: deque[Pane] = deque()
        self.decayed = 0.0
        self.recent: deque[float] = deque(maxlen=recent)
        self.recent_days: deque[int] = deque(maxlen=recent)
        self._sum: Pane | None = None  # None while one day is all there is: that day is the sum

    def window(self, first_day: int) -> Pane | None:
        """The sum of all days since `first_day`; older ones are forgotten. None when nothing is left."""
        days = self.days
        if days and days[0].day < first_day:
            while days and days[0].day < first_day:
                days.popleft()
            while self.recent and self.recent_days[0] < first_day:
                self.recent.popleft()
                self.recent_days.popleft()
            self._sum = None
            for pane in days if len(days) > 1 else ():
                self._sum = self._add_up(self._sum, pane)
        if not days:
            return None
        return self._sum or days[0]

    def estimates(self, pane: Pane) -> tuple[float, float, float, float]:
        """The estimate of each of ESTIMATORS; `pane` is the window."""
        recent = sum(self.recent) / len(self.recent)
        return pane.total / pane.hist.total, pane.hist.median(), self.decayed, recent

    def learn(self, ms: float, noise: tuple[float, float], today: int, params: HistoryParams) -> None:
        """Score every estimator on `ms`, then insert `ms`: never the other way round."""
        window = self.window(today - params.window_days)
        said = self.estimates(window) if window else None
        if not self.days or self.days[-1].day < today:
            if len(self.days) == 1:
                self._sum = self._add_up(None, self.days[0])
            self.days.append(Pane(today, params.bins))
        off_by = [abs(value - ms) for value in said or ()]
        logs = [math.log(ms / value) for value in said or ()]
        for pane in (self.days[-1],) if self._sum is None else (self.days[-1], self._sum):
            if said:
                pane.score(off_by, logs, ms)
            pane.insert(ms, noise)
        alpha = params.decay_alpha
        self.decayed = ms if said is None else alpha * ms + (1 - alpha) * self.decayed
        self.recent.append(ms)
        self.recent_days.append(today)

    def dump(self) -> Any:
        """Plain data for `load`."""
        whole = None if self._sum is None else self._sum.dump()
        return [[pane.dump() for pane in self.days], whole, self.decayed, list(self.recent), list(self.recent_days)]

    @classmethod
    def load(cls, data: Any, recent: int) -> Series:
        """The series described by `dump`."""
        made = cls(recent)
        made.days.extend(Pane.load(pane) for pane in data[0])
        made._sum = None if data[1] is None else Pane.load(data[1])
        made.decayed = data[2]
        made.recent.extend(data[3])
        made.recent_days.extend(data[4])
        return made

    @staticmethod
    def _add_up(whole: Pane | None, pane: Pane) -> Pane:
        if whole is None:
            whole = Pane(pane.day, pane.hist.bins)
        whole.absorb(pane)
        return whole


class ExpertChoice(NamedTuple):
    """The expert to listen to: an estimator on the window of a feature value."""

    feature: str
    series: Series
    pane: Pane
    estimator: int
    score: float

    @property
    def point_ms(self) -> float:
        """The expert's own estimate."""
        return self.series.estimates(self.pane)[self.estimator]


class OpenJob:
    """A running job: its feature values, and by stage the number, sum and sum of squares of finished run times."""

    __slots__ = ("counts", "keys", "squares", "sums")

    def __init__(self, keys: tuple[Key, ...], stages: int) -> None:
        self.keys = keys
        self.counts = [0] * stages
        self.sums = [0.0] * stages
        self.squares = [0.0] * stages

    def whole(self) -> tuple[int, float, float]:
        """Number, sum and sum of squares over all stages."""
        return sum(self.counts), sum(self.sums), sum(self.squares)


class History:
    """Run times of finished jobs by feature value, within the window; and of the running ones so far.

    per_stage: keep stages (by index) apart, as 3Sigma-DAG does; otherwise a job is one mean over its tasks.
    """

    def __init__(self, params: HistoryParams, *, per_stage: bool = False) -> None:
        self.params, self.per_stage = params, per_stage
        self._series: dict[tuple[str, str, int], Series] = {}
        self._open: dict[str, OpenJob] = {}

    def keys(self, *, app: str, name: str, user: str, request: Vector, submitted: int) -> tuple[Key, ...]:
        """The (feature, value) pairs shared with similar jobs; unknown features are left out."""
        values: dict[str, str] = {
            "app": app,
            "job_name": name,
            "user": user,
            "submit_day": str(submitted // DAY_MS % 7),
            "submit_hour": str(submitted // HOUR_MS % 24),
            "request": ",".join(map(str, request)),
        }
        return tuple((feature, values[feature]) for feature in self.params.features if values[feature])

    def keys_of(self, job: Job, at: int) -> tuple[Key, ...]:
        """As `keys`, of a job submitted at `at`. Its request is the largest of its stages', resource by resource."""
        request = tuple(map(max, zip(*(stage.demand for stage in job.stages), strict=True)))
        return self.keys(app=job.app, name=job.name, user=job.user, request=request, submitted=at)

    def keys_of_past(self, job: PastJob) -> tuple[Key, ...]:
        """As `keys`, of a past job."""
        return self.keys(app=job.app, name=job.name, user=job.user, request=job.demand, submitted=job.submitted)

    def prime(self, past: Iterable[PastJob]) -> None:
        """Learn from jobs of the past, oldest first (they are put in order of their end)."""
        for job in sorted(past, key=lambda j: j.finished):
            for stage, ms in self.means(job.stages):
                self.learn(self.keys_of_past(job), stage, ms, job.finished)

    def means(self, stages: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
        """(stage, mean run time) to learn from tasks and mean run time by stage; stages without tasks are left out."""
        if self.per_stage:
            return [(index, ms) for index, (tasks, ms) in enumerate(stages) if tasks]
        tasks = sum(n for n, _ in stages)
        return [(WHOLE_JOB, sum(n * ms for n, ms in stages) / tasks)] if tasks else []

    def opened(self, job: Job, at: int) -> tuple[Key, ...]:
        """Hear of a new job; returns its keys."""
        keys = self.keys_of(job, at)
        self._open[job.id] = OpenJob(keys, len(job.stages))
        return keys

    def finished(self, task: FinishedTask, ms: float) -> None:
        """Hear of a task's run time at speed 1."""
        job = self._open.get(task.job)
        if job is not None:
            stage = task.stage
            job.counts[stage] += 1
            job.sums[stage] += ms
            job.squares[stage] += ms * ms

    def running(self, job: str) -> OpenJob | None:
        """Run times so far of a running job, None for any other."""
        return self._open.get(job)

    def closed(self, job: str, at: int) -> None:
        """The job succeeded: learn its run times and forget the rest."""
        ended = self._open.pop(job, None)
        if ended is None:
            return
        rows = enumerate(zip(ended.counts, ended.sums, ended.squares, strict=True))
        for stage, (n, total, squares) in rows if self.per_stage else [(WHOLE_JOB, ended.whole())]:
            if n:
                self.learn(ended.keys, stage, total / n, at, log_variance(n, total, squares))

    def gone(self, job: str) -> None:
        """The job was cancelled: forget it."""
        self._open.pop(job, None)

    def learn(
        self, keys: Sequence[Key], stage: int, ms: float, at: int, noise: tuple[float, float] = (0.0, 0.0)
    ) -> None:
        """Score and insert a mean run time under every feature value, and under 'all'.

        noise: see `log_variance`.
        """
        today, series = at // DAY_MS, self._series
        ms = max(1.0, ms)
        for feature, value in (*keys, EVERYTHING):
            key = (feature, value, stage)
            known = series.pop(key, None) or Series(self.params.recent)
            known.learn(ms, noise, today, self.params)
            series[key] = known  # at the end of the dict: what stays in front was not heard of for longest
        self._forget(today - self.params.window_days)

    def choose(
        self, keys: Sequence[Key], stage: int, at: int, score: Callable[[Pane, int], float] = Pane.nmae
    ) -> ExpertChoice | None:
        """The expert with the lowest score; equal scores: the first feature, then the first estimator.

        None when no feature value has enough observations.
        """
        first_day = at // DAY_MS - self.params.window_days
        best: ExpertChoice | None = None
        for feature, value in keys:
            series = self._series.get((feature, value, stage))
            pane = series.window(first_day) if series else None
            if series is None or pane is None or pane.hist.total < self.params.min_observations or not pane.scored:
                continue
            for k in _EACH:
                scored = score(pane, k)
                if best is None or scored < best.score:
                    best = ExpertChoice(feature, series, pane, k, scored)
        return best

    def overall(self, stage: int, at: int) -> tuple[Series, Pane] | None:
        """All jobs of the window, whatever their features. None when there are none."""
        series = self._series.get((*EVERYTHING, stage))
        pane = series.window(at // DAY_MS - self.params.window_days) if series else None
        return (series, pane) if series and pane else None

    def distribution(self, keys: Sequence[Key], stage: int, at: int) -> tuple[Histogram, str] | None:
        """Run times of the best expert's feature value, else of all jobs; with the name of the source.

        A never seen stage falls back to the job's first stage.
        """
        choice = self.choose(keys, stage, at)
        if choice is not None:
            return choice.pane.hist, f"history:{choice.feature}"
        everything = self.overall(stage, at)
        if everything is not None:
            return everything[1].hist, "history:all"
        return self.distribution(keys, 0, at) if stage > 0 else None

    def dump(self) -> Any:
        """Plain data for `load`."""
        return {
            "series": [[*key, series.dump()] for key, series in self._series.items()],
            "open": [
                [job, [list(key) for key in o.keys], o.counts.copy(), o.sums.copy(), o.squares.copy()]
                for job, o in self._open.items()
            ],
        }

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        recent = self.params.recent
        self._series = {(f, v, s): Series.load(series, recent) for f, v, s, series in data["series"]}
        self._open = {}
        for job, keys, counts, sums, squares in data["open"]:
            made = self._open[job] = OpenJob(tuple((f, v) for f, v in keys), len(counts))
            made.counts, made.sums, made.squares = list(counts), list(sums), list(squares)

    def _forget(self, first_day: int) -> None:
        series = self._series
        while series:
            key = next(iter(series))
            days = series[key].days
            if len(series) <= self.params.max_values and days and days[-1].day >= first_day:
                return
            del series[key]


def log_variance(n: int, total: float, squares: float) -> tuple[float, float]:
    """Variance of log run times in a job that matches its coefficient of variation, and its weight (n - 1).

    ln(1 + CoV^2) with the sample deviation: exact for log-normal run times.
    """
    if n < 2 or total <= 0:
        return 0.0, 0.0
    mean = total / n
    variance = max(0.0, squares - n * mean * mean) / (n - 1)
    return math.log1p(variance / (mean * mean)), float(n - 1)


class HistoryPredictor(Predictor, ABC):
    """Base of the predictors that look at history alone: an estimate at submission, once and for all.

    Override `point`. per_stage: estimate each stage from the same stage of similar jobs.
    """

    class Params(HistoryParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings: history, and the bypass of thin jobs (3SigmaTL)."""

        thin_bypass: Annotated[
            bool, msgspec.Meta(description="thin jobs skip estimation and go first: 3SigmaTL (SLearn 5.1.3)")
        ] = False
        thin_limit: Annotated[
            int, msgspec.Meta(ge=0, description="number of tasks below which a job is thin, for `thin_bypass`")
        ] = 3

    params: Params
    per_stage = False

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.history = History(params, per_stage=self.per_stage)
        self._estimates: dict[str, list[Estimate]] = {}

    @abstractmethod
    def point(self, histogram: Histogram) -> float:
        """One run time in ms for a distribution of them."""

    def prime(self, history: Sequence[PastJob]) -> None:
        """Learns from past jobs."""
        self.history.prime(history)

    def submitted(self, job: Job, at: int) -> SamplePlan | None:
        """Makes the estimate; only a thin job, with bypass, gets a plan."""
        keys = self.history.opened(job, at)
        stages = range(len(job.stages)) if self.per_stage else [WHOLE_JOB]
        self._estimates[job.id] = [self._from_history(keys, stage, at) for stage in stages]
        thin = self.params.thin_bypass and job.width < self.params.thin_limit
        return SamplePlan(thin=True) if thin else None

    def finished(self, task: FinishedTask, runtime_ms: int, node_speed: float, at: int) -> None:
        """Adds up the run times of the job."""
        self.history.finished(task, runtime_ms * node_speed)

    def job_done(self, job: Job, at: int) -> None:
        """Learns the job's mean run times."""
        self._estimates.pop(job.id, None)
        self.history.closed(job.id, at)

    def job_gone(self, job: Job, at: int) -> None:
        """Forgets the job."""
        self._estimates.pop(job.id, None)
        self.history.gone(job.id)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """The estimate made at submission."""
        made = self._estimates.get(job)
        return None if made is None else made[stage if self.per_stage else 0]

    def dump(self) -> Any:
        """History, running jobs and their estimates."""
        rows = [[job, [[e.task_ms, e.source] for e in made]] for job, made in self._estimates.items()]
        return {"history": self.history.dump(), "estimates": rows}

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        self.history.load(data["history"])
        self._estimates = {job: [Estimate(ms, source=source) for ms, source in made] for job, made in data["estimates"]}

    def _from_history(self, keys: Sequence[Key], stage: int, at: int) -> Estimate:
        found = self.history.distribution(keys, stage, at)
        if found is None:
            return Estimate(float(self.params.default_task_ms), source="default")
        histogram, source = found
        return Estimate(self.point(histogram), source=source)
