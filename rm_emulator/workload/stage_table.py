"""A workload as two tables, jobs and stages: the form in which millions of stages are described.

`of` makes the tables from jobs. Readers of large traces make the same tables straight from their columns
(`TraceFormat.table`), because a struct per stage costs a hundred times the memory of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
import polars as pl

from rm_emulator.workload.contents import Contents
from rm_emulator.workload.model import Drawn, Fixed, Workload, WorkloadJob
from rm_emulator.workload.work import Sampler, StageMoments, stage_times
from schedulers.core.model import PastJob

FEATURES: Final = ("name", "user", "app", "resources", "day", "hour")
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
#: Columns of the jobs, in order of arrival. Texts recur, and text takes four times the memory of its number.
JOBS: Final[dict[str, Any]] = {"submit": pl.Int64, **dict.fromkeys(("name", "user", "app", "queue"), pl.Categorical)}
#: Columns of the stages, in the order of their jobs; demands stand in further columns, see `ask`.
STAGES: Final[dict[str, Any]] = {
    "job": pl.UInt32,
    "stage": pl.UInt32,
    "tasks": pl.Int64,
    "mean": pl.Float64,
    "std": pl.Float64,
    "gang": pl.Boolean,
}
#: Columns of a run of a stage: the stage with the features of its job. A past run has no job.
RUNS: Final[dict[str, Any]] = {**STAGES, **dict.fromkeys(FEATURES, pl.Categorical)}


class StageTable(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs and stages of a workload as tables, with the facts of the whole."""

    name: str
    source: str
    resources: tuple[str, ...]
    contents: Contents | None
    history: int
    """Number of past jobs."""
    jobs: pl.DataFrame
    """A row per job in order of arrival, columns `JOBS`; times in ms."""
    stages: pl.DataFrame
    """A row per stage: columns `STAGES` and a column of demands in steps per resource. `job` counts the jobs from 0.

    Times in ms at node speed 1. `mean` is null where only a profile knows run times, `std` also where a single run time
    stands for several tasks.
    """
    past: pl.DataFrame
    """A row per stage of a past job, columns `RUNS`: no job, no tasks, a mean."""
    began: datetime | None = None
    """As `Workload.began`."""

    def runs(self) -> pl.DataFrame:
        """The stages with the features of their jobs, columns `RUNS`."""
        asks = [pl.col(ask(name)).cast(pl.String) for name in self.resources]
        first = self.stages.filter(pl.col("stage") == 0)
        features = self.jobs.with_columns(
            first.select(resources=pl.concat_str(asks, separator=",").cast(pl.Categorical)).to_series(),
            day=(pl.col("submit") // DAY_MS % 7).cast(pl.String).cast(pl.Categorical),
            hour=(pl.col("submit") // HOUR_MS % 24).cast(pl.String).cast(pl.Categorical),
        )
        return self.stages.select(*STAGES).hstack(features.select(pl.col(*FEATURES).gather(self.stages["job"])))


def ask(resource: str) -> str:
    """Name of the column with the demands for a resource."""
    return f"ask:{resource}"


def of(workload: Workload, sampler: Sampler | None = None) -> StageTable:
    """The tables of a workload. `sampler`: run times of models without run times; else they are null."""
    jobs = [(e.submit_ms, e.job.name, e.job.user, e.job.app, e.job.queue) for e in workload.jobs]
    stages = [
        (number, index, stage.tasks, times and times.mean, times and times.std, stage.gang, *stage.demand)
        for number, entry in enumerate(workload.jobs)
        for index, (stage, times) in enumerate(zip(entry.job.stages, measured(entry, workload, sampler), strict=True))
    ]
    past = [
        (None, stage, 0, mean, None, False, *_past_features(job))
        for job in workload.history
        for stage, (_, mean) in enumerate(job.stages)
    ]
    columns = STAGES | {ask(name): pl.Int64 for name in workload.resources}
    return StageTable(
        name=workload.name,
        source=workload.source,
        resources=tuple(workload.resources),
        contents=workload.contents,
        history=len(workload.history),
        jobs=pl.DataFrame(jobs, schema=JOBS, orient="row"),
        stages=pl.DataFrame(stages, schema=columns, orient="row"),
        past=pl.DataFrame(past, schema=RUNS, orient="row"),
        began=workload.began,
    )


def measured(entry: WorkloadJob, workload: Workload, sampler: Sampler | None) -> Iterator[StageMoments | None]:
    """Run times of each stage of a job. `std` is None where the trace has a single run time for several tasks."""
    single = workload.contents is not None and not workload.contents.task_times
    for index, (stage, times) in enumerate(zip(entry.job.stages, entry.runtimes, strict=True)):
        found = stage_times(entry, index, sampler)
        if found and single and stage.tasks > 1 and isinstance(times, Fixed | Drawn):
            found = msgspec.structs.replace(found, std=None)
        yield found


def _past_features(job: PastJob) -> tuple[str, ...]:
    day, hour = job.submitted // DAY_MS % 7, job.submitted // HOUR_MS % 24
    return job.name, job.user, job.app, ",".join(map(str, job.demand)), str(day), str(hour)
