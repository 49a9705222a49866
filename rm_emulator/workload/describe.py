"""A workload in figures, and whether learning run times from a job's own first tasks would pay.

Definitions follow the SLearn paper (Jajoo et al., NSDI 2022, sections 4.1-4.3 and 5.2.7): variation
over time is the variation of the mean task run time over similar past jobs, variation over space the variation among
the tasks inside a job, after sampling 3 % of the tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.workload import recurring, sizes, stage_table
from rm_emulator.workload.contents import Contents
from rm_emulator.workload.model import Workload
from rm_emulator.workload.quantiles import Quantiles, summary
from rm_emulator.workload.recurring import Recurring
from rm_emulator.workload.sizes import ClusterSizes, Wanted
from rm_emulator.workload.stage_table import FEATURES, StageTable
from rm_emulator.workload.work import Sampler, window_loads

SMALL_MS: Final = 1_000_000
THIN: Final = 3
SAMPLED: Final = 0.03
MIN_RUNS: Final = 3
#: With less of the work in jobs that recur, or that have enough tasks to sample, their share says nothing of the rest.
TELLING: Final = 0.1
GROUPED: Final = ("name", "user", "app")
#: Variation of the mean run times of a group; equal ones have exactly none.
_COV: Final = (
    pl.when((pl.col("mean").max() > pl.col("mean").min()) & (pl.col("mean").mean() > 0))
    .then(pl.col("mean").std(ddof=0) / pl.col("mean").mean())
    .otherwise(0.0)
)


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
    gang: float = 0.0
    """Work of gangs: all tasks start together, so no task can run first."""
    unknown: float = 0.0
    """Work without run times of single tasks, of which nobody can tell."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A whole description, ready for JSON. Times in seconds, shares in 0..1, None without anything to measure."""

    name: str
    source: str
    jobs: int
    tasks: int
    began: datetime | None
    """Date of time 0, the first arrival unless the trace counts from elsewhere; None for a trace without dates."""
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
    sizes: ClusterSizes | None
    """Demands and cluster sizes; None where nobody asked, and without known run times."""
    recurring: Recurring | None
    """Jobs with a history, and what an estimate from their history errs by."""
    teachers: Teachers | None
    sampling_pays: bool | None
    """None where the workload does not tell, too little work recurs, or run times of single tasks are missing."""
    verdict: str
    notes: tuple[str, ...]
    """Jobs left out, with reasons."""
    contents: Contents | None = None
    """Facts of the trace, and the assumption for each lacking fact; None where nobody knows."""


def cov_over_space(workload: Workload, sampler: Sampler | None = None) -> list[float | None]:
    """Per job, s1 / (mean x sqrt(0.03 n)) with the population deviation s1; None for a single task or unknown times.

    Below 34 tasks the root is less than 1 and the figure larger than the plain coefficient of variation;
    as plotted in the paper. Of a DAG job, stages count by their number of tasks.
    """
    return _cov_over_space(stage_table.of(workload, sampler)).to_list()


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
    table = stage_table.of(workload, sampler)
    return _cov_over_time(table, table.runs(), features, min_runs).to_list()


def _cov_over_time(
    table: StageTable, runs: pl.DataFrame, features: Sequence[str] = FEATURES, min_runs: int = 2
) -> pl.Series:
    tasks, least = pl.col("tasks"), np.full(table.jobs.height, np.nan)
    for feature in features:  # one after another: each takes a copy of all stages
        rows = _similar(runs, table.past, feature, min_runs).filter(pl.col("count") >= min_runs)
        covs = rows.group_by("job").agg(cov=(pl.col("cov") * tasks).sum() / tasks.sum())
        jobs = covs["job"].to_numpy()
        least[jobs] = np.fmin(least[jobs], covs["cov"].to_numpy())
    return pl.Series(least, nan_to_null=True)


def job_bins(widths: Sequence[int] | pl.Series, sizes_ms: Sequence[float] | pl.Series) -> tuple[JobBin, ...]:
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
    workload: Workload,
    slots: int | None = None,
    *,
    sampler: Sampler | None = None,
    notes: Sequence[str] = (),
    wanted: Wanted | None = None,
) -> Description:
    """Measure a workload.

    `slots`: tasks that run at once on the cluster; None: loads are given as slots kept busy.
    `sampler` gives run times for stages without their own (`Waves`); without a sampler such jobs are left out of all
    figures on run times, with a note. `notes`: known already, put in front. `wanted`: the cluster to be sized; None:
    no sizes. Raises InvalidParameters for a node that some task does not fit.
    """
    table = stage_table.of(workload, sampler)
    history = recurring.judge(table, workload.history)
    return describe_table(table, slots, notes=notes, history=history, wanted=wanted)


def describe_table(
    table: StageTable,
    slots: int | None = None,
    *,
    notes: Sequence[str] = (),
    history: Recurring | None = None,
    wanted: Wanted | None = None,
) -> Description:
    """Measure the tables of a workload, as `describe`. `history`: errors of history, where they are known already."""
    jobs = _per_job(table)
    known = jobs.filter("known")
    runs = table.runs()
    over_time, over_space = _cov_over_time(table, runs), _cov_over_space(table)
    above = over_time > over_space
    groups = {feature: _grouped(pl.concat([table.past, runs]), feature) for feature in GROUPED}
    teachers = _teachers(runs, groups) if known.height else None
    unknown = jobs.height - known.height
    return Description(
        name=table.name,
        source=table.source,
        jobs=jobs.height,
        tasks=int(jobs["tasks"].sum()),
        began=table.began,
        history=table.history,
        multi_stage_jobs=int((jobs["stages"] > 1).sum()),
        arrivals=_arrivals(table.jobs["submit"]),
        size_s=summary(known["work"] / 1000),
        width=summary(jobs["width"]),
        task_s=summary(known["work"] / known["tasks"] / 1000),
        bins=job_bins(known["width"], known["work"]),
        load=_load(known, slots),
        cov_time=summary(over_time),
        cov_space=summary(over_space),
        time_above_space=float(above.mean()) if above.count() else None,  # type: ignore[arg-type]
        groups=tuple(_groups(feature, alike, runs) for feature, alike in groups.items()),
        sizes=sizes.size(table, wanted) if wanted else None,
        recurring=history or recurring.judge(table),
        teachers=teachers,
        sampling_pays=_pays(teachers),
        verdict=_verdict(teachers, unknown),
        notes=(*notes, *_notes(unknown, table.history)),
        contents=table.contents,
    )


def _per_job(table: StageTable) -> pl.DataFrame:
    """Per job, in order: submit, tasks, width, number of stages, work (ms), and whether all run times are known."""
    tasks, mean = pl.col("tasks"), pl.col("mean")
    sums = table.stages.group_by("job", maintain_order=True).agg(
        tasks=tasks.sum(),
        width=tasks.max(),
        stages=pl.len(),
        work=(mean * tasks).sum(),
        known=mean.is_not_null().all(),
    )
    return table.jobs.select("submit").hstack(sums)


def _cov_over_space(table: StageTable) -> pl.Series:
    tasks, mean, std = pl.col("tasks"), pl.col("mean"), pl.col("std")
    each = pl.when(mean > 0).then(tasks * std / (mean * (SAMPLED * tasks).sqrt()))
    found = (
        table.stages.filter(tasks > 1)
        .group_by("job")
        .agg(cov=pl.when(each.is_not_null().all()).then(each.sum() / tasks.sum()))
    )
    covs = np.full(table.jobs.height, np.nan)
    covs[found["job"].to_numpy()] = found["cov"].to_numpy()
    return pl.Series(covs, nan_to_null=True)


def _similar(jobs: pl.DataFrame, past: pl.DataFrame, feature: str, min_runs: int) -> pl.DataFrame:
    """Each stage of the jobs with a value of the feature, with the number of similar earlier runs and their variation.

    Stages without `min_runs` similar runs may be left out. Without past runs, earlier jobs have the similar ones.
    Moments are summed around the first run, so that equal run times have a variation of exactly 0.
    """
    key = [feature, "stage"]
    rows = jobs.filter(pl.col(feature) != "").select("job", "tasks", "mean", *key)
    if past.height:
        seen = past.group_by(key).agg(count=pl.len(), cov=_COV)
        return rows.join(seen, on=key, how="left")
    rows = rows.filter(pl.len().over(key) > min_runs)  # most names of a large trace may be there once
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


def _arrivals(submit: pl.Series) -> ArrivalFigures:
    at = submit.to_numpy().astype(np.float64)
    gaps = np.diff(at) / 1000
    if not len(gaps):
        return ArrivalFigures(0.0, None, None)
    mean = float(gaps.mean())
    return ArrivalFigures(float(at[-1] - at[0]) / 1000, mean, float(gaps.std()) / mean if mean > 0 else None)


def _load(jobs: pl.DataFrame, slots: int | None) -> Load | None:
    """The load of jobs with known run times."""
    if not jobs.height:
        return None
    submit, work = jobs["submit"].to_numpy(), jobs["work"].to_numpy()
    loads = window_loads(submit, work, slots or 1)
    span = int(submit[-1] - submit[0])
    p50, p90 = np.quantile(loads, (0.5, 0.9))
    offered = math.fsum(work) / ((slots or 1) * span) if span > 0 else None
    return Load(slots, offered, float(loads.mean()), float(p50), float(p90), float((loads == 0).mean()))


def _grouped(runs: pl.DataFrame, feature: str) -> pl.DataFrame:
    """Groups with enough runs and at least a wide run, in order of appearance. Wide: with tasks to sample.

    cov_space: s1 / mean inside a run, root mean square over runs: relative, because runs differ in their mean.
    needed: (s1 / so)^2, infinite when runs do not vary. pilots: 3 % of the tasks, mean over runs.
    jobs, work: of the wide runs. better: whether sampling has the smaller error variance.
    """
    tasks, mean = pl.col("tasks"), pl.col("mean")
    wide = (tasks >= THIN) & pl.col("std").is_not_null() & ~pl.col("gang")
    inside = pl.when(mean > 0).then((pl.col("std") / mean) ** 2).otherwise(0.0)
    return (
        runs.filter(pl.col(feature) != "", mean.is_not_null())
        .filter(pl.len().over(feature, "stage") >= MIN_RUNS)
        .group_by(feature, "stage", maintain_order=True)
        .agg(
            cov_time=_COV,
            cov_space=inside.filter(wide).mean().sqrt(),
            pilots=(SAMPLED * tasks).round(9).ceil().clip(1).filter(wide).mean(),
            jobs=pl.col("job").filter(wide),
            work=(mean * tasks).filter(wide).sum(),
        )
        .filter(pl.col("jobs").list.len() > 0)
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
        cov_time=summary(groups["cov_time"]),
        cov_space=summary(groups["cov_space"]),
        needed=summary(groups.filter(pl.col("cov_time") > 0)["needed"]),
        pilots=summary(groups["pilots"]),
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
    teacher = (
        pl.when("gang")
        .then(pl.lit("gang"))
        .when(pl.col("tasks") < THIN)
        .then(pl.lit("thin"))
        .when(pl.col("std").is_null())
        .then(pl.lit("unknown"))
        .otherwise(taught)
    )
    works = runs.group_by(teacher=teacher).agg((pl.col("mean") * pl.col("tasks")).sum())
    shares = dict.fromkeys(Teachers.__struct_fields__, 0.0) | dict(works.iter_rows())
    total = math.fsum(shares.values())
    return Teachers(**{name: share / total for name, share in shares.items()}) if total > 0 else None


def _pays(teachers: Teachers | None) -> bool | None:
    """Whether sampling is the better teacher for more of the work than history; None where too little work tells.

    Work without run times of single tasks may lie on either side, so the lead must be larger.
    """
    if teachers is None:
        return None
    if teachers.thin + teachers.gang > 1 - TELLING:
        return False
    lead = abs(teachers.sampling - teachers.history)
    if teachers.sampling + teachers.history < TELLING or lead <= teachers.unknown:
        return None
    return teachers.sampling > teachers.history


def _verdict(teachers: Teachers | None, unknown: int) -> str:
    return f"Would sampling pay? {_answer(teachers, unknown)}."


def _answer(teachers: Teachers | None, unknown: int) -> str:
    if teachers is None:
        why = "no job has run times that are known without a profile" if unknown else "there is no work in it"
        return f"This workload does not say: {why}"
    if teachers.thin + teachers.gang > 1 - TELLING:
        return f"No: {_unsampled(teachers)}"
    pays, first = _pays(teachers), f"{teachers.first_time:.0%} of the work has no past runs to learn from"
    gangs = f"; {teachers.gang:.0%} of the work starts in gangs, which cannot be sampled" if teachers.gang else ""
    if pays is None and teachers.unknown >= TELLING:
        return f"Cannot tell: no run times of single tasks for {teachers.unknown:.0%} of the work{gangs}"
    if teachers.sampling + teachers.history < TELLING:
        only = "so only sampling says anything of it before it ran"
        return f"Too few recurring jobs to tell: {first}, {only}{gangs}"
    also = (f"; {first}" if teachers.first_time >= 0.005 else "") + gangs
    if pays is None:
        return f"It makes no difference: for {teachers.sampling:.0%} of the work either way{also}"
    more, less, than = (
        (teachers.sampling, teachers.history, "3 % of a job's tasks say more about its run times than its past runs do")
        if pays
        else (
            teachers.history,
            teachers.sampling,
            "past runs say more about a job's run times than 3 % of its tasks do",
        )
    )
    return f"{'Yes' if pays else 'No'}: for {more:.0%} of the work, {than}, for {less:.0%} they say less{also}"


def _unsampled(teachers: Teachers) -> str:
    """Why there is nothing to sample, the greater share first."""
    gang = f"{teachers.gang:.0%} of the work starts in gangs, of which no task can run first"
    thin = f"{teachers.thin:.0%} of the work is in stages of fewer than {THIN} tasks, where there is nothing to sample"
    parts = sorted([(teachers.gang, gang), (teachers.thin, thin)], reverse=True)
    return ", and ".join(words for share, words in parts if share >= 0.005)


def _notes(unknown: int, history: int) -> list[str]:
    notes = []
    if unknown:
        jobs = "1 job is" if unknown == 1 else f"{unknown:,} jobs are"
        notes.append(f"{jobs} left out of all that needs run times: theirs are in a profile that is not here")
    if not history:
        notes.append("there is no history: past jobs are those of the workload that were submitted before")
    return notes
