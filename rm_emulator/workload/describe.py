"""A workload in figures, and whether learning run times from a job's own first tasks would pay.

Definitions follow the SLearn paper (Jajoo et al., NSDI 2022, sections 4.1-4.3 and 5.2.7): variation
over time is the variation of the mean task run time over similar past jobs, variation over space the variation among
the tasks inside a job, after sampling 3 % of the tasks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from rm_emulator.workload.contents import Contents, plain
from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, RunTimes, Waves, Workload, WorkloadJob
from schedulers.core.model import Job, PastJob, Stage

if TYPE_CHECKING:
    from rm_emulator.workload.profiles import TpchProfiles

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Gives the run times (ms) of the tasks of a stage for models without run times, such as `Waves`.
Sampler = Callable[[Job, int, RunTimes], Sequence[float] | None]

WINDOW_MS: Final = 1_000_000
STEP_MS: Final = 100_000
SMALL_MS: Final = 1_000_000
THIN: Final = 3
SAMPLED: Final = 0.03
MIN_RUNS: Final = 3
#: With less of the work in jobs that recur, or that have enough tasks to sample, their share says nothing of the rest.
TELLING: Final = 0.1
FEATURES: Final = ("name", "user", "app", "resources", "day", "hour")
GROUPED: Final = ("name", "user", "app")
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
#: Columns of a run of a stage: its job's place in the workload, null for a past one.
_RUN: Final[dict[str, Any]] = {
    "job": pl.Int64,
    "stage": pl.Int64,
    "tasks": pl.Int64,
    "mean": pl.Float64,
    "std": pl.Float64,
    **dict.fromkeys(FEATURES, pl.String),
}
#: Variation of the mean run times of a group; equal ones have exactly none.
_COV: Final = (
    pl.when((pl.col("mean").max() > pl.col("mean").min()) & (pl.col("mean").mean() > 0))
    .then(pl.col("mean").std(ddof=0) / pl.col("mean").mean())
    .otherwise(0.0)
)


class Quantiles(msgspec.Struct, frozen=True):
    """Mean, quantiles and maximum of a quantity."""

    mean: float
    p50: float
    p90: float
    max: float


class ArrivalFigures(msgspec.Struct, frozen=True):
    """Arrivals of jobs."""

    span_s: float
    """Time from the first to the last arrival, s."""
    gap_mean_s: float | None
    """Mean gap, s."""
    gap_cov: float | None
    """Coefficient of variation of the gaps (1: Poisson)."""


class Load(msgspec.Struct, frozen=True):
    """Work that arrives per 1000 s window slid by 100 s, over slots x window; `mean`, `p50`, `p90` over windows."""

    slots: int | None
    """Number of slots; None where no number was given: the figures then are slots kept busy."""
    offered: float | None
    """All work over slots x arrival span."""
    mean: float
    p50: float
    p90: float
    empty: float
    """Share of windows without any job."""


class JobBin(msgspec.Struct, frozen=True):
    """A job bin of the SLearn paper's Table 8, as shares of all jobs and of all work (0..1)."""

    name: str
    jobs: float
    work: float


class Groups(msgspec.Struct, frozen=True):
    """Recurring jobs grouped by a feature: variation of their run times, and the better teacher.

    A group is a value of the feature (and a stage, for DAG jobs) with at least 3 runs, history included, and a job of
    the workload with at least 3 tasks: thin jobs are not sampled. Summaries are over groups.
    """

    feature: str
    groups: int
    """Number of groups."""
    jobs: float
    """Share of the workload's jobs in groups."""
    work: float
    """Share of the workload's work in groups."""
    cov_time: Quantiles | None = None
    """Variation over runs, so / mean."""
    cov_space: Quantiles | None = None
    """Variation over the tasks inside a run, s1 / mean, not reduced by sampling."""
    needed: Quantiles | None = None
    """Pilots from which on sampling has the smaller error variance, (s1 / so)^2 (paper, section 4.1), with both
    relative to their means; left out for groups without variation over runs.
    """
    pilots: Quantiles | None = None
    """Number of pilots at 3 % of the tasks."""
    better_groups: float | None = None
    """Share of the groups with more pilots than needed."""
    better_work: float | None = None
    """Share of the groups' work in groups with more pilots than needed."""


class Teachers(msgspec.Struct, frozen=True):
    """Shares of all work (0..1) by the best teacher of a job's run times, asked by name, else by app, else by user."""

    sampling: float
    """3 % pilots have the smaller error variance."""
    history: float
    """The past runs have the smaller error variance."""
    first_time: float
    """Wide work without 3 runs to compare with, known to sampling alone."""
    thin: float
    """Work below 3 tasks, without anything to sample."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A whole description, ready for JSON. Times in seconds, shares in 0..1, None without anything to measure."""

    name: str
    source: str
    jobs: int
    tasks: int
    history: int
    multi_stage_jobs: int
    arrivals: ArrivalFigures
    size_s: Quantiles | None
    width: Quantiles | None
    task_s: Quantiles | None
    bins: tuple[JobBin, ...]
    load: Load | None
    cov_time: Quantiles | None
    """Per job, over its similar past jobs by the feature with the least variation (paper, section 4.2)."""
    cov_space: Quantiles | None
    """Per job with two tasks or more, s1 / (mean x sqrt(3 % of its tasks))."""
    time_above_space: float | None
    """Share of the jobs with both variations and the larger variation over time."""
    groups: tuple[Groups, ...]
    teachers: Teachers | None
    sampling_pays: bool | None
    """None where the workload does not tell, or too little work recurs."""
    verdict: str
    notes: tuple[str, ...]
    """Jobs left out, with reasons."""
    contents: Contents | None = None
    """Facts of the trace, and the assumption for each lacking fact; None where nobody knows."""


class _StageTimes(msgspec.Struct, frozen=True):
    """Number of tasks of a stage, mean and population standard deviation (ms) of their run times."""

    tasks: int
    mean: float
    std: float


def mean_task_ms(job: WorkloadJob, stage: int = 0, sampler: Sampler | None = None) -> float | None:
    """True mean run time of a task of a stage, ms at node speed 1; None for a mean known to a profile alone."""
    times = _stage_times(job, stage, sampler)
    return times.mean if times else None


def work_ms(job: WorkloadJob, sampler: Sampler | None = None) -> float | None:
    """True run time of all tasks of a job together, ms at node speed 1; None for run times known to a profile alone."""
    return _work([_stage_times(job, stage, sampler) for stage in range(len(job.job.stages))])


def slots_for(
    workload: Workload, capacity: Mapping[str, float], sampler: Sampler | None = None
) -> tuple[float, str] | None:
    """Number of average tasks (weighted by run time) that fit at once, and the resource that allows no more.

    `capacity`: of the whole cluster by resource, in steps; a node of speed 2 counts twice. None for unknown run times,
    no asks, or asks for an absent resource.
    """
    areas, total = dict.fromkeys(workload.resources, 0.0), 0.0
    for stage, times in _all_stages(workload, sampler):
        if times is None:
            return None
        total += times.mean * times.tasks
        for name, wanted in zip(workload.resources, stage.demand, strict=True):
            areas[name] += times.mean * times.tasks * wanted
    held = [(capacity.get(name, 0.0) * total / area, name) for name, area in areas.items() if area]
    least = min(held, default=(0.0, ""))
    return least if least[0] > 0 else None


def mean_task(workload: Workload, resource: str | None, sampler: Sampler | None = None) -> float | None:
    """Mean run time of a task, ms, weighted by the asks for `resource`; None for unknown run times."""
    place = None if resource is None else list(workload.resources).index(resource)
    total = weight = 0.0
    for stage, times in _all_stages(workload, sampler):
        if times is None:
            return None
        each = times.tasks * (1 if place is None else stage.demand[place])
        total, weight = total + each * times.mean, weight + each
    return total / weight if weight else None


def offered_load(workload: Workload, slots: float, sampler: Sampler | None = None) -> float | None:
    """All work over slots x arrival span (last minus first arrival); None for a span of 0 or unknown run times."""
    works = [work_ms(job, sampler) for job in workload.jobs]
    if not works or None in works:
        return None
    span = workload.jobs[-1].submit_ms - workload.jobs[0].submit_ms
    return math.fsum(w for w in works if w is not None) / (slots * span) if span > 0 else None


def window_loads(
    submit_ms: Ints, work: Floats, slots: float, *, window_ms: int = WINDOW_MS, step_ms: int = STEP_MS
) -> Floats:
    """Load of every window [t, t + window) from the first arrival on, slid by `step_ms` (paper, Table 5).

    submit_ms: arrivals in ascending order, shape (jobs,). work: ms of run time each brings, same shape.
    The last window ends with the last arrival; a workload shorter than a window is a single window.
    """
    first, last = int(submit_ms[0]), int(submit_ms[-1])
    starts = np.arange(first, max(last - window_ms, first) + 1, step_ms, dtype=np.int64)
    sums = np.concatenate(([0.0], np.cumsum(work)))
    upto = np.searchsorted(submit_ms, starts + window_ms, side="left")
    since = np.searchsorted(submit_ms, starts, side="left")
    loads: Floats = (sums[upto] - sums[since]) / (slots * window_ms)
    return loads


def cov_over_space(workload: Workload, sampler: Sampler | None = None) -> list[float | None]:
    """Per job, s1 / (mean x sqrt(0.03 n)) with the population deviation s1; None for a single task or unknown times.

    Below 34 tasks the root is less than 1 and the figure larger than the plain coefficient of variation;
    as plotted in the paper. Of a DAG job, stages count by their number of tasks.
    """
    return [_job_cov_over_space(job, sampler) for job in workload.jobs]


def cov_over_time(
    workload: Workload, features: Sequence[str] = FEATURES, sampler: Sampler | None = None, *, min_runs: int = 2
) -> list[float | None]:
    """Per job, std / mean of the mean task run time over its similar past jobs (paper, section 4.2).

    Similar: same value of a feature; of several features the feature with the least variation counts. Past: the
    workload's history, or without history the jobs submitted before. None below `min_runs` past jobs.
    Raises ValueError for an unknown feature.
    """
    unknown = [f for f in features if f not in FEATURES]
    if unknown:
        raise ValueError(f"unknown feature '{unknown[0]}' (known: {', '.join(FEATURES)})")
    jobs, past = _runs(workload, _measured(workload, sampler))
    found = [_similar(jobs, past, feature).filter(pl.col("count") >= min_runs) for feature in features]
    tasks = pl.col("tasks")
    by_job = [
        rows.group_by("job").agg(cov=(pl.col("cov") * tasks).sum() / tasks.sum()).select("job", "cov") for rows in found
    ]
    least = dict(pl.concat(by_job).group_by("job").agg(pl.col("cov").min()).iter_rows()) if by_job else {}
    return [least.get(number) for number in range(len(workload.jobs))]


def job_bins(widths: Sequence[int], sizes_ms: Sequence[float]) -> tuple[JobBin, ...]:
    """Shares of jobs and of work by width (below 3 tasks or not) and size (below 1000 s or not): Table 8."""
    width, size = np.asarray(widths), np.asarray(sizes_ms, dtype=np.float64)
    total = float(size.sum())
    bins = []
    for large in (False, True):
        for wide in (False, True):
            inside = ((width >= THIN) == wide) & ((size >= SMALL_MS) == large)
            share = float(inside.mean()) if len(width) else 0.0
            work = float(size[inside].sum()) / total if total > 0 else 0.0
            bins.append(JobBin(f"{'wide' if wide else 'thin'}-{'large' if large else 'small'}", share, work))
    return tuple(bins)


def pilots(tasks: int, ratio: float = SAMPLED) -> int:
    """Number of pilot tasks at a sampling ratio: rounded up, at least 1."""
    return max(1, math.ceil(round(ratio * tasks, 9)))


def describe(
    workload: Workload, slots: int | None = None, *, sampler: Sampler | None = None, notes: Sequence[str] = ()
) -> Description:
    """Measure a workload.

    `slots`: tasks that run at once on the cluster; None: loads are given as slots kept busy.
    `sampler` gives run times for stages without their own (`Waves`); without a sampler such jobs are left out of all
    figures on run times, with a note. `notes`: known already, put in front.
    """
    stages = _measured(workload, sampler)
    works = [_work(entries) for entries in stages]
    known = [index for index, work in enumerate(works) if work is not None]
    sizes = [work for work in works if work is not None]
    widths = [job.job.width for job in workload.jobs]
    over_time, over_space = cov_over_time(workload, sampler=sampler), cov_over_space(workload, sampler)
    both = [(t, s) for t, s in zip(over_time, over_space, strict=True) if t is not None and s is not None]
    runs, past = _runs(workload, stages)
    groups = {feature: _grouped(pl.concat([past, runs]), feature) for feature in GROUPED}
    teachers = _teachers(runs, groups) if sizes else None
    return Description(
        name=workload.name,
        source=workload.source,
        jobs=len(workload.jobs),
        tasks=workload.tasks,
        history=len(workload.history),
        multi_stage_jobs=sum(len(job.job.stages) > 1 for job in workload.jobs),
        arrivals=_arrivals(workload),
        size_s=_summary([size / 1000 for size in sizes]),
        width=_summary(widths),
        task_s=_summary([sizes[i] / workload.jobs[at].job.tasks / 1000 for i, at in enumerate(known)]),
        bins=job_bins([widths[index] for index in known], sizes),
        load=_load(workload, known, sizes, slots),
        cov_time=_summary([cov for cov in over_time if cov is not None]),
        cov_space=_summary([cov for cov in over_space if cov is not None]),
        time_above_space=sum(t > s for t, s in both) / len(both) if both else None,
        groups=tuple(_groups(feature, alike, runs) for feature, alike in groups.items()),
        teachers=teachers,
        sampling_pays=_pays(teachers),
        verdict=_verdict(teachers, len(workload.jobs) - len(known)),
        notes=(*notes, *_notes(workload, len(workload.jobs) - len(known))),
        contents=workload.contents,
    )


def lines(description: Description) -> list[str]:
    """The description as text for a terminal, the verdict last."""
    d = description
    text = [
        f"{d.name}: {d.jobs:,} jobs, {d.tasks:,} tasks, {d.history:,} past jobs"
        + (f" ({d.source})" if d.source else ""),
        _arrival_line(d.arrivals),
        *_summary_lines((("job size, s", d.size_s), ("job width, tasks", d.width), ("task run time, s", d.task_s))),
        "jobs (share of jobs, share of work), small below 1000 s, thin below 3 tasks:",
        "  " + "   ".join(f"{b.name} {b.jobs:.1%}, {b.work:.1%}" for b in d.bins),
        *_load_lines(d.load),
        *_summary_lines((("CoV over time", d.cov_time), ("CoV over space", d.cov_space))),
    ]
    if d.time_above_space is not None:
        text.append(f"CoV over time is the larger one for {d.time_above_space:.1%} of the jobs")
    text += [line for groups in d.groups for line in _group_lines(groups)]
    text += [f"note: {note}" for note in d.notes]
    lacks = d.contents.lacks if d.contents else {}
    text += [f"not in the trace, {plain(fact)}: {assumed}" for fact, assumed in lacks.items()]
    return [*text, d.verdict]


def show(
    workload: Workload,
    slots: int | None,
    json: bool,
    *,
    profiles: TpchProfiles | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Print the description of a workload as text or as a JSON document.

    `profiles`: the measurements for its `Waves`, taken at 50 executors.
    """
    described = describe(workload, slots, sampler=from_profiles(profiles) if profiles else None, notes=notes)
    encoded = msgspec.json.format(msgspec.json.encode(described), indent=1).decode()
    sys.stdout.write((encoded if json else "\n".join(lines(described))) + "\n")


def from_profiles(profiles: TpchProfiles, executors: int = 50) -> Sampler:
    """Run times of measured stages: all durations at `executors` executors, of every wave alike."""

    def sample(job: Job, stage: int, times: RunTimes) -> list[float] | None:
        if not isinstance(times, Waves):
            return None
        pooled = profiles.pooled(times.profile, times.stage, executors)
        return [float(ms) * times.scale for ms in pooled]

    return sample


def _stage_times(job: WorkloadJob, stage: int, sampler: Sampler | None) -> _StageTimes | None:
    times, tasks = job.runtimes[stage], job.job.stages[stage].tasks
    if isinstance(times, Fixed):
        return _StageTimes(tasks, float(times.ms), 0.0)
    if isinstance(times, Drawn):
        cov = 1.0 if times.kind == "exponential" else times.cov
        return _StageTimes(tasks, times.mean_ms, times.mean_ms * cov)
    drawn: Sequence[float] | None
    if isinstance(times, PerNode):
        drawn = [sum(row) / len(row) for row in times.ms]
    else:
        drawn = times.ms if isinstance(times, PerTask) else sampler(job.job, stage, times) if sampler else None
    if not drawn:
        return None
    values = np.asarray(drawn, dtype=np.float64)
    return _StageTimes(tasks, float(values.mean()), float(values.std()))


def _job_cov_over_space(job: WorkloadJob, sampler: Sampler | None) -> float | None:
    weighted, weight = 0.0, 0
    for index, stage in enumerate(job.job.stages):
        if stage.tasks < 2:
            continue
        times = _stage_times(job, index, sampler)
        if times is None or times.mean <= 0:
            return None
        weighted += stage.tasks * times.std / (times.mean * math.sqrt(SAMPLED * stage.tasks))
        weight += stage.tasks
    return weighted / weight if weight else None


def _runs(workload: Workload, stages: Sequence[Sequence[_StageTimes | None]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The stages of the workload's jobs, and the stages of its past jobs: a row for each, with the columns `_RUN`.

    mean and std are null where run times are unknown; a past run has a mean alone. Features are text.
    """
    jobs = [
        (number, stage, part.tasks, times and times.mean, times and times.std, *_features(job, entry.submit_ms, demand))
        for number, (entry, measured) in enumerate(zip(workload.jobs, stages, strict=True))
        for job, demand in [(entry.job, entry.job.stages[0].demand)]
        for stage, (part, times) in enumerate(zip(job.stages, measured, strict=True))
    ]
    past = [
        (None, stage, 0, mean, None, *_features(job, job.submitted, job.demand))
        for job in workload.history
        for stage, (_, mean) in enumerate(job.stages)
    ]
    return pl.DataFrame(jobs, schema=_RUN, orient="row"), pl.DataFrame(past, schema=_RUN, orient="row")


def _features(job: Job | PastJob, submitted: int, demand: tuple[int, ...]) -> tuple[str, ...]:
    """The values of `FEATURES`."""
    return job.name, job.user, job.app, str(demand), str(submitted // _DAY_MS % 7), str(submitted // _HOUR_MS % 24)


def _similar(jobs: pl.DataFrame, past: pl.DataFrame, feature: str) -> pl.DataFrame:
    """Each stage of the jobs with a value of the feature, with the number of similar earlier runs and their variation.

    Without past runs, similar runs are in earlier jobs. Moments are summed around the first run, so that equal run
    times have a variation of exactly 0.
    """
    rows, key = jobs.filter(pl.col(feature) != ""), [feature, "stage"]
    if past.height:
        seen = past.group_by(key).agg(count=pl.len(), cov=_COV)
        return rows.join(seen, on=key, how="left")
    first, mean = pl.col("mean").drop_nulls().first(), pl.col("mean")
    sums = {
        "count": mean.is_not_null(),
        "sum": (mean - first).fill_null(0.0),
        "squares": ((mean - first) ** 2).fill_null(0.0),
    }
    earlier = {name: each.cum_sum().shift(1, fill_value=0).over(key) for name, each in sums.items()}
    rows = rows.with_columns(first=first.over(key), **earlier)
    off = pl.col("sum") / pl.col("count")
    deviation = (pl.col("squares") / pl.col("count") - off**2).clip(0.0).sqrt()
    average = pl.col("first") + off
    return rows.with_columns(cov=pl.when(average > 0).then(deviation / average).otherwise(0.0))


def _all_stages(workload: Workload, sampler: Sampler | None) -> Iterator[tuple[Stage, _StageTimes | None]]:
    """Every stage of the workload's jobs; None where only a profile knows its run times."""
    for job in workload.jobs:
        for index, stage in enumerate(job.job.stages):
            yield stage, _stage_times(job, index, sampler)


def _measured(workload: Workload, sampler: Sampler | None) -> list[list[_StageTimes | None]]:
    return [[_stage_times(job, stage, sampler) for stage in range(len(job.job.stages))] for job in workload.jobs]


def _work(stages: Sequence[_StageTimes | None]) -> float | None:
    works = [stage.mean * stage.tasks for stage in stages if stage is not None]
    return math.fsum(works) if len(works) == len(stages) else None


def _summary(values: Sequence[float] | pl.Series) -> Quantiles | None:
    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        return None
    p50, p90 = np.quantile(array, (0.5, 0.9))
    return Quantiles(float(array.mean()), float(p50), float(p90), float(array.max()))


def _arrivals(workload: Workload) -> ArrivalFigures:
    at = np.array([job.submit_ms for job in workload.jobs], dtype=np.float64)
    gaps = np.diff(at) / 1000
    if not len(gaps):
        return ArrivalFigures(0.0, None, None)
    mean = float(gaps.mean())
    return ArrivalFigures(float(at[-1] - at[0]) / 1000, mean, float(gaps.std()) / mean if mean > 0 else None)


def _load(workload: Workload, known: Sequence[int], sizes: Sequence[float], slots: int | None) -> Load | None:
    if not known:
        return None
    submit = np.array([workload.jobs[index].submit_ms for index in known], dtype=np.int64)
    loads = window_loads(submit, np.asarray(sizes, dtype=np.float64), slots or 1)
    span = int(submit[-1] - submit[0])
    p50, p90 = np.quantile(loads, (0.5, 0.9))
    offered = math.fsum(sizes) / ((slots or 1) * span) if span > 0 else None
    return Load(slots, offered, float(loads.mean()), float(p50), float(p90), float((loads == 0).mean()))


def _grouped(runs: pl.DataFrame, feature: str) -> pl.DataFrame:
    """Groups with enough runs and at least a wide run, in order of appearance.

    cov_space: s1 / mean inside a run, root mean square over runs: relative, because runs differ in their mean.
    needed: (s1 / so)^2, infinite when runs do not vary. pilots: 3 % of the tasks, mean over runs.
    jobs, work: of the wide runs. better: whether sampling has the smaller error variance.
    """
    wide, tasks, mean = pl.col("tasks") >= THIN, pl.col("tasks"), pl.col("mean")
    inside = pl.when(mean > 0).then((pl.col("std") / mean) ** 2).otherwise(0.0)
    return (
        runs.filter(pl.col(feature) != "", mean.is_not_null())
        .group_by(feature, "stage", maintain_order=True)
        .agg(
            runs=pl.len(),
            cov_time=_COV,
            cov_space=inside.filter(wide).mean().sqrt(),
            pilots=(SAMPLED * tasks).round(9).ceil().clip(1).filter(wide).mean(),
            jobs=pl.col("job").filter(wide),
            work=(mean * tasks).filter(wide).sum(),
        )
        .filter(pl.col("runs") >= MIN_RUNS, pl.col("jobs").list.len() > 0)
        .with_columns(
            needed=pl.when(pl.col("cov_time") > 0)
            .then((pl.col("cov_space") / pl.col("cov_time")) ** 2)
            .otherwise(math.inf)
        )
        .with_columns(better=pl.col("pilots") > pl.col("needed"))
    )


def _groups(feature: str, groups: pl.DataFrame, runs: pl.DataFrame) -> Groups:
    total = float((runs["mean"] * runs["tasks"]).sum())
    if not groups.height or total <= 0:
        return Groups(feature, 0, 0.0, 0.0)
    work, better = float(groups["work"].sum()), groups.filter("better")
    return Groups(
        feature,
        groups.height,
        groups["jobs"].explode().n_unique() / runs["job"].n_unique(),
        work / total,
        cov_time=_summary(groups["cov_time"]),
        cov_space=_summary(groups["cov_space"]),
        needed=_summary(groups.filter(pl.col("cov_time") > 0)["needed"]),
        pilots=_summary(groups["pilots"]),
        better_groups=better.height / groups.height,
        better_work=float(better["work"].sum()) / work if work > 0 else None,
    )


def _teachers(runs: pl.DataFrame, groups: Mapping[str, pl.DataFrame]) -> Teachers | None:
    """The best teacher of each stage: by the group of its name, else of its app, else of its user."""
    asked = ("name", "app", "user")
    for feature in asked:
        found = groups[feature].select(feature, "stage", pl.col("better").alias(f"better_{feature}"))
        runs = runs.join(found, on=[feature, "stage"], how="left")
    better = pl.coalesce(f"better_{feature}" for feature in asked)
    taught = (
        pl.when(better).then(pl.lit("sampling")).when(~better).then(pl.lit("history")).otherwise(pl.lit("first_time"))
    )
    teacher = pl.when(pl.col("tasks") < THIN).then(pl.lit("thin")).otherwise(taught)
    works = runs.group_by(teacher=teacher).agg((pl.col("mean") * pl.col("tasks")).sum())
    shares = dict.fromkeys(Teachers.__struct_fields__, 0.0) | dict(works.iter_rows())
    total = math.fsum(shares.values())
    return Teachers(**{name: share / total for name, share in shares.items()}) if total > 0 else None


def _pays(teachers: Teachers | None) -> bool | None:
    """Whether sampling is the better teacher for more of the work than history; None where too little work tells."""
    if teachers is None:
        return None
    if teachers.thin > 1 - TELLING:
        return False
    if teachers.sampling + teachers.history < TELLING or teachers.sampling == teachers.history:
        return None
    return teachers.sampling > teachers.history


def _verdict(teachers: Teachers | None, unknown: int) -> str:
    asked, pays = "Would sampling pay?", _pays(teachers)
    if teachers is None:
        why = "no job has run times that are known without a profile" if unknown else "there is no work in it"
        return f"{asked} This workload does not say: {why}."
    if teachers.thin > 1 - TELLING:
        return (
            f"{asked} No: {teachers.thin:.0%} of the work is in stages of fewer than {THIN} tasks, "
            "where there is nothing to sample."
        )
    first = f"{teachers.first_time:.0%} of the work has no past runs to learn from"
    if teachers.sampling + teachers.history < TELLING:
        return f"{asked} Too few recurring jobs to tell: {first}, so only sampling says anything of it before it ran."
    better, worse = (f"{share:.0%}" for share in (teachers.sampling, teachers.history))
    also = f"; {first}" if teachers.first_time >= 0.005 else ""
    if pays is None:
        return f"{asked} It makes no difference: for {better} of the work either way{also}."
    than = f"3 % of a job's tasks say more about its run times than its past runs do, for {worse} they say less"
    if pays:
        return f"{asked} Yes: for {better} of the work, {than}{also}."
    than = f"past runs say more about a job's run times than 3 % of its tasks do, for {better} they say less"
    return f"{asked} No: for {worse} of the work, {than}{also}."


def _notes(workload: Workload, unknown: int) -> list[str]:
    notes = []
    if unknown:
        jobs = "1 job is" if unknown == 1 else f"{unknown:,} jobs are"
        notes.append(f"{jobs} left out of all that needs run times: theirs are in a profile that is not here")
    if not workload.history:
        notes.append("there is no history: past jobs are those of the workload that were submitted before")
    return notes


def _arrival_line(arrivals: ArrivalFigures) -> str:
    if arrivals.gap_mean_s is None:
        return "arrivals: one job"
    cov = "" if arrivals.gap_cov is None else f", CoV of the gaps {arrivals.gap_cov:.2f} (1: Poisson)"
    return f"arrivals: over {arrivals.span_s:,.0f} s, every {arrivals.gap_mean_s:,.1f} s on average{cov}"


def _summary_lines(rows: Iterable[tuple[str, Quantiles | None]]) -> list[str]:
    return [
        f"{label}: mean {_number(row.mean)}, P50 {_number(row.p50)}, P90 {_number(row.p90)}, max {_number(row.max)}"
        for label, row in rows
        if row is not None
    ]


def _load_lines(load: Load | None) -> list[str]:
    if load is None:
        return []
    what = f"load on {load.slots:,} slots" if load.slots else "slots kept busy"
    offered = "" if load.offered is None else f"{_number(load.offered)} over the whole span; "
    return [
        f"{what}: {offered}1000 s windows: mean {_number(load.mean)}, P50 {_number(load.p50)}, "
        f"P90 {_number(load.p90)}, {load.empty:.0%} without a job"
    ]


def _group_lines(groups: Groups) -> list[str]:
    if groups.cov_time is None or groups.cov_space is None or groups.pilots is None:
        return [f"by {groups.feature}: no value with {MIN_RUNS} runs and a wide job"]
    count = "1 group" if groups.groups == 1 else f"{groups.groups:,} groups"
    needed = "" if groups.needed is None else f", pilots needed P50 {_number(groups.needed.p50)}"
    work = "" if groups.better_work is None else f" ({groups.better_work:.0%} of their work)"
    return [
        f"by {groups.feature}: {count} with {groups.work:.0%} of the work; CoV over time P50 "
        f"{_number(groups.cov_time.p50)}, inside a run P50 {_number(groups.cov_space.p50)}{needed}, 3 % are "
        f"{_number(groups.pilots.p50)}; sampling better for {groups.better_groups or 0:.0%} of the groups{work}"
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
