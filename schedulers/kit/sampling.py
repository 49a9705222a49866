"""Learning in space: the tasks of a job to run first, their number, and their results.

A. Jajoo, Y. C. Hu, X. Lin, N. Deng, "The Case for Task Sampling based Learning for Cluster Job Scheduling" (SLearn),
NSDI 2022, sections 5.1.2 and 6.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from statistics import fmean, median
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from schedulers.core import keyed
from schedulers.core.model import Job
from schedulers.core.predictor import Estimate, FinishedTask, SamplePlan
from schedulers.kit.history import HistoryParams

Rounding = Literal["ceil", "floor", "nearest"]
_ROUND: Final = {"ceil": math.ceil, "floor": math.floor, "nearest": lambda x: math.floor(x + 0.5)}


ThinLimit = Annotated[
    int,
    msgspec.Meta(
        ge=0, description="number of tasks below which a job is thin and not sampled; 0: no job is thin (SLearn 5.1.2)"
    ),
]
Percent = Annotated[float, msgspec.Meta(gt=0, le=100)]
FixedPercent = Annotated[
    Percent | None,
    msgspec.Meta(
        description="fixed part of pilots among the tasks, in %; larger: better estimates, later; none: "
        "adapted (SLearn, table 6)"
    ),
]
BootstrapPercent = Annotated[
    tuple[int, int, int],
    msgspec.Meta(
        description="middle, lower and higher part of pilots, in %, each tried for `score_window` jobs in "
        "this order (SLearn, figure 4; its text says 2, 3, 4)"
    ),
]
ExplorePercent = Annotated[
    tuple[int, int],
    msgspec.Meta(
        description="parts of pilots, in %, tried when the lower or the higher part clearly beats the middle "
        "(SLearn, figure 4)"
    ),
]
GainMargin = Annotated[
    float, msgspec.Meta(ge=1, description="ratio by which a part has to beat the middle (SLearn, figure 4)")
]
ScoreWindow = Annotated[
    int,
    msgspec.Meta(
        ge=1,
        description="number of newest finished jobs by which a part is judged; larger: slower to adapt (T of "
        "SLearn 5.1.2)",
    ),
]
RoundPilots = Annotated[
    Rounding,
    msgspec.Meta(
        description="rounding to a whole number of pilots, at least 1 (ours: the paper gives max(1, 0.03 S) only)"
    ),
]
JctNorm = Annotated[
    Literal["longest_task", "total_work"],
    msgspec.Meta(
        description="divisor of completion times in the comparison of parts: the longest task or the total "
        "work (ours: two readings of the paper's job runtime)"
    ),
]
Estimator = Annotated[
    Literal["mean", "median"],
    msgspec.Meta(
        description="estimate from the pilots' run times: mean (SLearn 5.1.2), or median, the paper's alternative"
    ),
]


class SamplingParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How jobs are sampled; the defaults are the paper's."""

    thin_limit: ThinLimit = 3
    fixed_percent: FixedPercent = None
    bootstrap_percent: BootstrapPercent = (3, 2, 4)
    explore_percent: ExplorePercent = (1, 5)
    gain_margin: GainMargin = 1.1
    score_window: ScoreWindow = 100
    rounding: RoundPilots = "ceil"
    jct_norm: JctNorm = "longest_task"
    estimator: Estimator = "mean"

    def __post_init__(self) -> None:
        _check_percents(self.bootstrap_percent, self.explore_percent)


class SampledHistoryParams(HistoryParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of predictors with sampling and history: the settings of HistoryParams and of SamplingParams."""

    thin_limit: ThinLimit = 3
    fixed_percent: FixedPercent = None
    bootstrap_percent: BootstrapPercent = (3, 2, 4)
    explore_percent: ExplorePercent = (1, 5)
    gain_margin: GainMargin = 1.1
    score_window: ScoreWindow = 100
    rounding: RoundPilots = "ceil"
    jct_norm: JctNorm = "longest_task"
    estimator: Estimator = "mean"

    def __post_init__(self) -> None:
        _check_percents(self.bootstrap_percent, self.explore_percent)


#: Both have the settings of sampling: structs of msgspec cannot inherit from two structs with fields.
Sampling: TypeAlias = SamplingParams | SampledHistoryParams


def _check_percents(bootstrap: tuple[int, int, int], explore: tuple[int, int]) -> None:
    """Raise ValueError unless explore[0] < lower < middle < higher < explore[1], all of them percents."""
    middle, lower, higher = bootstrap
    if not 0 < explore[0] < lower < middle < higher < explore[1] <= 100:
        raise ValueError(
            f"bootstrap_percent (middle, lower, higher) {list(bootstrap)} and explore_percent {list(explore)} have to "
            "be in the order 0 < explored below < lower < middle < higher < explored above <= 100"
        )


def pilot_count(tasks: int, percent: float, rounding: Rounding = "ceil") -> int:
    """Pilots among `tasks` tasks: at least 1, at most all."""
    return max(1, min(tasks, int(_ROUND[rounding](percent * tasks / 100))))


def draw_pilots(seed: int, job: str, stage: int, tasks: int, count: int) -> list[int]:
    """`count` of `tasks` task indexes, each set as likely as any other (R. Floyd's sampling), ascending."""
    chosen: set[int] = set()
    for last in range(tasks - count, tasks):
        pick = int(keyed.uniform(seed, "pilots", job, stage, last) * (last + 1))
        chosen.add(last if pick in chosen else pick)
    return sorted(chosen)


def roots(job: Job) -> list[int]:
    """Indexes of the stages whose tasks can be sampled at once: no parents, no gang (it starts whole), no master."""
    return [i for i, stage in enumerate(job.stages) if not (stage.parents or stage.gang or stage.master)]


#: Tasks besides the pilots whose run times are waited for; of more, the mean says hardly more than of these.
_FOLLOWED: Final = 64


class FirstTasks(msgspec.Struct):
    """The run times of the first tasks of a stage, in an order fixed beforehand: drawn pilots, then by index.

    Of all tasks that have finished so far the short ones are too many; of tasks named beforehand, once all have
    finished, they are not. Counted are all pilots (or a single task), then twice as many, and so on.
    """

    tasks: int
    """Number of tasks of the stage."""
    pilots: list[int] = []
    """Indexes of the pilots, ascending."""
    run_times: list[float] = []
    """Run times of the tasks that count, ms at speed 1."""
    ahead: dict[int, float] = {}
    """Run times of tasks that do not count yet, by place in the order."""

    @property
    def mean(self) -> float:
        """Mean run time of the counted tasks (at least one), ms."""
        return fmean(self.run_times)

    def add(self, task: int, ms: float) -> bool:
        """Hear of a task's run time; returns whether more tasks count now."""
        pilots, before = len(self.pilots), len(self.run_times)
        earlier = bisect_left(self.pilots, task)
        is_pilot = earlier < pilots and self.pilots[earlier] == task
        place = earlier if is_pilot else pilots + task - earlier
        end = min(self.tasks, pilots + _FOLLOWED)
        if before <= place < end:
            self.ahead[place] = ms
        while (count := len(self.run_times)) < end:
            goal = min(end, 2 * count or pilots or 1)
            if any(place not in self.ahead for place in range(count, goal)):
                break
            self.run_times += [self.ahead.pop(place) for place in range(count, goal)]
        return len(self.run_times) > before


class AdaptiveRatio:
    """Percent of tasks to sample, from the completion times seen with each percent (paper, figure 4).

    A percent without finished jobs scores +inf, and nothing is explored against the percent. Equal scores: the lower
    percent. With no score at all: the middle percent.
    """

    def __init__(self, params: Sampling) -> None:
        self._params = params
        self._sampled = 0
        known = sorted({*params.bootstrap_percent, *params.explore_percent})
        self._windows: dict[int, deque[float]] = {p: deque(maxlen=params.score_window) for p in known}
        self._scores: dict[int, float] = dict.fromkeys(known, math.inf)

    @property
    def scores(self) -> Mapping[int, float]:
        """Mean normalised completion time by percent."""
        return self._scores

    def choose(self) -> int:
        """The percent for the next sampled job."""
        phase = self._sampled // self._params.score_window
        self._sampled += 1
        if phase < len(self._params.bootstrap_percent):
            return self._params.bootstrap_percent[phase]
        return self.best()

    def best(self) -> int:
        """The percent recommended by the scores."""
        scores, margin = self._scores, self._params.gain_margin
        middle, lower, higher = self._params.bootstrap_percent
        best = min(scores, key=lambda percent: (scores[percent], percent))
        if math.isinf(scores[best]):
            return middle
        if math.isfinite(scores[middle]):
            if best == lower and margin * scores[lower] < scores[middle]:
                return self._params.explore_percent[0]
            if best == higher and scores[middle] > margin * scores[higher]:
                return self._params.explore_percent[1]
        return best

    def score(self, percent: int, normalised_jct: float) -> None:
        """Hear of the completion time of a job sampled at `percent`."""
        window = self._windows[percent]
        window.append(normalised_jct)
        self._scores[percent] = fmean(window)

    def dump(self) -> Any:
        """Plain data for `load`."""
        return {"sampled": self._sampled, "windows": [[p, list(w)] for p, w in self._windows.items()]}

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        self._sampled = data["sampled"]
        for percent, values in data["windows"]:
            self._windows[percent].clear()
            self._windows[percent].extend(values)
            self._scores[percent] = fmean(values) if values else math.inf


class Sampled:
    """A running job with pilots. values: run times of the finished pilots by stage, ms at speed 1.

    percent: the percent sampled, or 0 for a number of pilots not from the adaptive ratio.
    """

    __slots__ = ("left", "longest", "percent", "submitted", "tasks", "values", "work")

    def __init__(self, submitted: int, percent: int, left: int, tasks: dict[int, int]) -> None:
        self.submitted, self.percent, self.left, self.tasks = submitted, percent, left, tasks
        self.values: dict[int, list[float]] = {stage: [] for stage in tasks}
        self.longest = self.work = 0.0

    def pooled(self) -> list[float]:
        """Run times of all finished pilots, stage by stage."""
        return [ms for values in self.values.values() for ms in values]

    def dump(self) -> Any:
        """Plain data for `load`."""
        values = [[stage, self.tasks[stage], list(ms)] for stage, ms in self.values.items()]
        return [self.submitted, self.percent, self.left, self.longest, self.work, values]

    @classmethod
    def load(cls, data: Any) -> Sampled:
        """The job described by `dump`."""
        made = cls(data[0], data[1], data[2], {stage: tasks for stage, tasks, _ in data[5]})
        made.longest, made.work = data[3], data[4]
        made.values = {stage: list(ms) for stage, _, ms in data[5]}
        return made


class Sampler:
    """Draws pilots, collects their run times and adapts the percent; forgets a job at its end."""

    def __init__(self, params: Sampling, seed: int) -> None:
        self.params, self._seed = params, seed
        self.ratio = AdaptiveRatio(params)
        self._jobs: dict[str, Sampled] = {}

    def get(self, job: str) -> Sampled | None:
        """The job's sample, None for an unsampled or ended job."""
        return self._jobs.get(job)

    def plan(self, job: Job, at: int, thin_limit: int | None = None) -> SamplePlan:
        """Pilots of every root stage by the fixed or adaptive percent; a thin job has none.

        thin_limit: instead of the setting.
        """
        limit = self.params.thin_limit if thin_limit is None else thin_limit
        if job.width < limit or not roots(job):
            return SamplePlan(thin=True)
        fixed = self.params.fixed_percent
        adapted = self.ratio.choose() if fixed is None else 0
        percent = float(adapted) if fixed is None else fixed
        counts = {s: pilot_count(job.stages[s].tasks, percent, self.params.rounding) for s in roots(job)}
        tasks = {stage: job.stages[stage].tasks for stage in counts}
        self._jobs[job.id] = Sampled(at, adapted, sum(counts.values()), tasks)
        pilots = tuple(
            (stage, task)
            for stage, count in counts.items()
            for task in draw_pilots(self._seed, job.id, stage, tasks[stage], count)
        )
        return SamplePlan(pilots=pilots)

    def finished(self, task: FinishedTask, ms: float) -> bool:
        """Hear of a task's run time at speed 1. True for the last pilot of its job."""
        sampled = self._jobs.get(task.job)
        if sampled is None:
            return False
        sampled.work += ms
        sampled.longest = max(sampled.longest, ms)
        if not task.pilot or not sampled.left or task.stage not in sampled.values:
            return False
        sampled.values[task.stage].append(ms)
        sampled.left -= 1
        return not sampled.left

    def done(self, job: str, at: int) -> None:
        """The job succeeded: judge its percent and forget it."""
        sampled = self._jobs.pop(job, None)
        if sampled is None or not sampled.percent or not sampled.work:
            return
        by = sampled.longest if self.params.jct_norm == "longest_task" else sampled.work
        self.ratio.score(sampled.percent, (at - sampled.submitted) / by)

    def gone(self, job: str) -> None:
        """The job was cancelled: forget it."""
        self._jobs.pop(job, None)

    def dump(self) -> Any:
        """Plain data for `load`."""
        return {"ratio": self.ratio.dump(), "jobs": [[job, s.dump()] for job, s in self._jobs.items()]}

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        self.ratio.load(data["ratio"])
        self._jobs = {job: Sampled.load(s) for job, s in data["jobs"]}


def sample_estimate(values: list[float], estimator: Literal["mean", "median"] = "mean") -> Estimate:
    """The estimate from pilots with the given run times (ms at speed 1, at least one)."""
    mean = fmean(values)
    spread = None
    if len(values) > 1:
        variance = sum((ms - mean) ** 2 for ms in values) / (len(values) - 1)
        spread = math.sqrt(variance / len(values))
    return Estimate(mean if estimator == "mean" else median(values), spread, f"pilots:{len(values)}")
