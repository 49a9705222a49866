"""From rows of a `batch_task` table (Alibaba 2017 and 2018) to jobs: the common part of the two readers.

Both tables have a row per task of a job (a *stage* here), with its number of instances (*tasks* here) and a common
start and end of all instances. Run times of single instances are not in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import polars as pl

from rm_emulator.workload.formats import Contents, TableTrace, Trace
from rm_emulator.workload.model import Drawn, Fixed, RunTimes, Workload, WorkloadJob
from rm_emulator.workload.records import INSTANT_MS, MAX_TASKS, AtLeastOne, RecordParams, machine_steps, part_of
from rm_emulator.workload.stage_table import JOBS, RUNS, StageTable, ask
from rm_emulator.workload.tables import BadRows, Column, fixed_table, one
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Vector


class _Row(NamedTuple):
    """A stage: times in s, CPU in hundredths of a core, memory as a fraction of a machine's."""

    job: str
    submit: int
    stage: str
    tasks: int
    start: int
    end: int
    cpu: float
    mem_fraction: float


#: From the names of a job's stages in order to the indexes of each stage's parents.
ParentsOf = Callable[[list[str]], list[tuple[int, ...]]]
#: From (hundredths of a core, fraction of a machine's memory) to a demand of at least 1 step each.
Demands = Callable[[float, float], Vector]

#: Facts of both tables; only that of 2018 has the order of stages.
NO_INSTANCES: Final = Contents.lacking(
    "recurrence",
    "gangs",
    "gpu",
    "queue",
    "user",
    "submission",
    "dates",
    task_times=(
        "All tasks of a stage take the stage's time from start to end, the longest that a task can have taken. "
        "`parallel` divides it by the number of waves of so many tasks; `cov` spreads the times around their mean."
    ),
)
_KEPT: Final = ("submit", "tasks", "start", "end", "cpu", "mem_fraction")
#: Facts that no job of the tables has.
_NAMELESS: Final = {"name": "", "user": "", "app": "", "queue": "default"}
_STATUSES: Final = (b"Terminated", b"Failed", b"Running", b"Waiting", b"Ready", b"Interrupted", b"Cancelled")


class BatchParams(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of both readers."""

    min_stages: Annotated[
        int, msgspec.Meta(ge=1, description="least number of stages of a job; smaller jobs are left out")
    ] = 1
    task_scale: Annotated[
        float, msgspec.Meta(gt=0, description="factor on the number of tasks of each stage (at least 1 is left)")
    ] = 1.0
    time_scale: Annotated[float, msgspec.Meta(gt=0, description="factor on arrival times; 0.5 doubles the load")] = 1.0
    parallel: Annotated[
        AtLeastOne | None, msgspec.Meta(description="number of tasks of a stage that ran at once; null: all")
    ] = None
    cov: Annotated[
        float,
        msgspec.Meta(
            ge=0, description="coefficient of variation of run times inside a stage; 0: all tasks take the same time"
        ),
    ] = 0.0
    machine_memory: Annotated[
        str, msgspec.Meta(description="memory of a machine; demands in the trace are fractions of it")
    ] = "256Gi"


def is_batch_task(head: bytes, *, columns: int, status: int) -> bool:
    """Whether the first rows have so many columns, and the last row has a status in column `status` (from 0)."""
    rows = [line.split(b",") for line in head.splitlines()[:3]]
    return bool(rows) and all(len(row) == columns for row in rows) and rows[-1][status].strip() in _STATUSES


def finished(path: Path, columns: tuple[Column, ...], options: BatchParams) -> tuple[pl.DataFrame, list[str]]:
    """The rows of finished stages with known times and demands, in the file's order, and notes on rows left out.

    columns: with our names job, stage, tasks, start, end (s), cpu (hundredths of a core), and a memory.
    Raises TraceError.
    """
    bad, notes = BadRows(skip=options.skip_bad_rows), []
    ours = [column.ours for column in columns if column.ours]
    frame = fixed_table(path, columns, bad)
    done = frame.filter(pl.col("status") == "Terminated")
    dropped = frame.filter(pl.col("status").ne_missing("Terminated"))["status"].value_counts().sort("status")
    for status, count in dropped.iter_rows():
        notes.append(f"stages left out, status {status or '(empty)'}: {count:,}")
    impossible = [pl.col(column.ours) < 0 for column in columns if column.type == "number"]
    tasks = pl.col("tasks").is_between(1, MAX_TASKS)
    known = done.filter(~pl.any_horizontal(pl.col(*ours).is_null(), ~tasks, *impossible))
    if known.height < done.height:
        notes.append(f"finished stages left out, no demands, tasks or times: {done.height - known.height:,}")
    good = known.filter(pl.col("end") >= pl.col("start"))
    if good.height < known.height:
        notes.append(f"stages left out, they end before they start: {known.height - good.height:,}")
    return good, [*notes, *bad.notes()]


def assemble(
    frame: pl.DataFrame,
    notes: Sequence[str],
    options: BatchParams,
    *,
    name: str,
    source: str,
    file: Path,
    parents_of: ParentsOf | None = None,
) -> Trace:
    """Jobs in order of arrival, the first at 0.

    frame: the rows of `finished`, with mem_fraction, a fraction of a machine's memory.
    A job arrives when its first stage starts, because the tables hold no times of submission.
    Raises TraceError for a table without a job to read.
    """
    frame, notes = _prepared(frame, notes, options, file)
    demands = _demands(options)
    rows = map(_Row._make, frame.select(_Row._fields).iter_rows())
    jobs = tuple(_job(list(stages), options, demands, parents_of) for _, stages in groupby(rows, key=attrgetter("job")))
    return Trace(workload=Workload(name=name, jobs=jobs, source=source), notes=notes)


def tabulate(
    frame: pl.DataFrame,
    notes: Sequence[str],
    options: BatchParams,
    *,
    name: str,
    source: str,
    file: Path,
    contents: Contents,
    parents_of: ParentsOf | None = None,
) -> TableTrace:
    """The tables of the workload of `assemble`, without an object per stage. Parameters and errors as there.

    `parents_of` is asked for its counts alone.
    """
    frame, notes = _prepared(frame, notes, options, file)
    if parents_of is not None:
        for _, rows in groupby(frame.select("job", "stage").iter_rows(), key=itemgetter(0)):
            parents_of([stage for _, stage in rows])
    kept = frame.select(*_KEPT, job=pl.col("job").rle_id())
    del frame
    tasks = (pl.col("tasks") * options.task_scale).round(mode="half_to_even").cast(pl.Int64).clip(1)
    waves = 1 if options.parallel is None else (pl.col("tasks") + (options.parallel - 1)) // options.parallel
    span = (pl.col("end") - pl.col("start")) * 1000
    ms = (pl.when(span == 0).then(INSTANT_MS).otherwise(span) / waves).round(mode="half_to_even").clip(1)
    jobs = kept.filter(pl.col("job").is_first_distinct()).select(
        (pl.col("submit") * 1000 * options.time_scale).round(mode="half_to_even").cast(pl.Int64),
        *(pl.lit(text, pl.Categorical).alias(column) for column, text in _NAMELESS.items()),
    )
    stages = kept.select(
        "job",
        pl.int_range(pl.len(), dtype=pl.UInt32).over("job").alias("stage"),
        tasks.alias("tasks"),
        ms.alias("mean"),
        pl.when(tasks == 1).then(ms * options.cov).alias("std"),
        pl.lit(value=False).alias("gang"),
        "cpu",
        "mem_fraction",
    ).join(_sizes(kept, options), on=["cpu", "mem_fraction"], how="left", maintain_order="left")
    table = StageTable(
        name=name,
        source=source,
        resources=("cpu", "memory"),
        contents=contents,
        history=0,
        jobs=jobs.select(*JOBS),
        stages=stages.drop("cpu", "mem_fraction"),
        past=pl.DataFrame(schema=RUNS),
    )
    return TableTrace(table=table, notes=notes)


def _sizes(frame: pl.DataFrame, options: BatchParams) -> pl.DataFrame:
    """Each pair of cpu and mem_fraction with its demand in columns."""
    demands, pairs = _demands(options), frame.select("cpu", "mem_fraction").unique()
    vectors = [demands(cpu, fraction) for cpu, fraction in pairs.iter_rows()]
    columns = zip(("cpu", "memory"), zip(*vectors, strict=True), strict=True)
    return pairs.with_columns(pl.Series(ask(name), steps, pl.Int64) for name, steps in columns)


def _prepared(
    frame: pl.DataFrame, notes: Sequence[str], options: BatchParams, file: Path
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows of the jobs wanted, and the notes with assumptions. Raises TraceError where no row is left."""
    notes = list(notes)
    frame = _chosen(frame, options)
    if frame.height == 0:
        raise one(file, "no finished job is left" + (f" ({'; '.join(notes)})" if notes else ""))
    instant = int((frame["end"] == frame["start"]).sum())
    if instant:
        notes.append(f"stages within one second, taken to last {INSTANT_MS} ms: {instant:,}")
    return frame, (*notes, _assumption(options))


def _assumption(options: BatchParams) -> str:
    if options.parallel is None:
        return "a task is taken to last as long as its whole stage did (single run times are not in the table)"
    return (
        f"a task is taken to last as long as its stage did, divided by the number of waves of {options.parallel} tasks"
    )


def _chosen(frame: pl.DataFrame, options: BatchParams) -> pl.DataFrame:
    """The rows of the jobs wanted, jobs by arrival (ties: id), stages in the file's order; `submit` in s from 0."""
    frame = frame.with_columns(submit=pl.col("start").min().over("job"))
    if options.min_stages > 1:
        frame = frame.filter(pl.len().over("job") >= options.min_stages)
    frame = frame.sort("submit", "job", maintain_order=True)
    if options.limit is not None:
        frame = frame.filter(pl.col("job").rle_id() < options.limit)
    return frame.with_columns(submit=pl.col("submit") - pl.col("submit").min())


def _demands(options: BatchParams) -> Demands:
    (machine,) = machine_steps(options, "memory")

    @cache  # millions of stages have a few thousand different demands
    def demand(cpu: float, fraction: float) -> Vector:
        return max(1, -int(-cpu * 10 // 1)), part_of(fraction, machine)

    return demand


def _job(rows: list[_Row], options: BatchParams, demands: Demands, parents_of: ParentsOf | None) -> WorkloadJob:
    parents = parents_of([row.stage for row in rows]) if parents_of else [()] * len(rows)
    stages = tuple(
        Stage(
            name=row.stage,
            tasks=max(1, round(row.tasks * options.task_scale)),
            demand=demands(row.cpu, row.mem_fraction),
            parents=above,
        )
        for row, above in zip(rows, parents, strict=True)
    )
    return WorkloadJob(
        job=Job(id=rows[0].job, stages=stages),
        submit_ms=round(rows[0].submit * 1000 * options.time_scale),
        runtimes=tuple(_runtimes(row.tasks, row.end - row.start, options) for row in rows),
    )


def _runtimes(tasks: int, span_s: int, options: BatchParams) -> RunTimes:
    waves = 1 if options.parallel is None else -(-tasks // options.parallel)
    ms = max(1, round((span_s * 1000 or INSTANT_MS) / waves))
    return Drawn(float(ms), options.cov) if options.cov else Fixed(ms)
