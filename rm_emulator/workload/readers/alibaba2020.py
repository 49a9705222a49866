"""Alibaba's GPU cluster of 2020 (PAI, cluster-trace-gpu-v2020): a folder of tables of jobs, tasks and instances.

Source: alibaba/clusterdata, cluster-trace-gpu-v2020/README.md and data/*.header; Weng et al., "MLaaS in the Wild", NSDI
2022. A task of the trace is a stage here, an instance a task.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.model import Fixed, RunTimes, WorkloadJob
from rm_emulator.workload.records import MAX_TASKS, Log, LogParams, distinct, entry, number, runtimes, to_ms, whole
from rm_emulator.workload.tables import BadRow, csv_rows, one
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Resources

_TABLES: Final = {
    "pai_job_table": ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    "pai_task_table": (
        *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
        *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
    ),
    "pai_instance_table": (
        *("job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time", "end_time"),
        "machine",
    ),
    "pai_group_tag_table": ("inst_id", "user", "gpu_type_spec", "group", "workload"),
}
_TERMINATED: Final = "Terminated"
_FAILED: Final = "Failed"
#: A cell by its column.
_Row = dict[str, str]
_Times = dict[tuple[str, str], list[int]]
#: Start in s, stage, run times.
_Made = tuple[float, Stage, RunTimes]
T = TypeVar("T")


class _Job(msgspec.Struct):
    """A row of the table of jobs."""

    submit_s: float
    user: str
    inst_id: str


@register("alibaba2020", source="alibaba/clusterdata, cluster-trace-gpu-v2020 (PAI)")
class Alibaba2020:
    """Machine learning jobs of Alibaba's GPU cluster of 2020, a folder of pai_*_table.csv.

    `pai_task_table.csv` is required; `pai_job_table.csv` (submission, user), `pai_instance_table.csv` (run times) and
    `pai_group_tag_table.csv` (`group`, the recurring name) are read where present, with or without header lines. A
    task of the trace (`ps`, `worker`) is a stage here, an instance a task. `plan_cpu` and `plan_gpu` are in percent of
    a core and of a GPU; `plan_mem` is in GB, read as GiB. Tasks with a status other than `Terminated` and `Failed` are
    left out; with `only_completed` failed tasks, too. Types of GPUs are not read.
    """

    columns = (
        Column("job_name", "of all tables: the job", required=True),
        Column("task_name", "of tasks and instances: a role such as ps or worker, a stage here", required=True),
        Column("inst_num", "of tasks: number of instances, tasks here", required=True),
        Column("status", "Terminated or Failed; others are left out", required=True),
        Column("start_time", "s; of the table of jobs the submission", required=True),
        Column("end_time", "s", required=True),
        Column("plan_cpu", "of tasks: 100 = 1 core, of each instance", required=True),
        Column("plan_mem", "of tasks: GB", required=True),
        Column("plan_gpu", "of tasks: 100 = 1 GPU", required=True),
        Column("user", "of jobs"),
        Column("group", "of pai_group_tag_table: recurring name"),
    )

    contents = Contents.lacking(
        "queue", "dag", "dates", gangs="Instances of a task start one by one, or together with `gang=true`."
    )

    class Params(LogParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

        gang: Annotated[bool, msgspec.Meta(description="whether the instances of a task start together")] = False

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A folder with the table of tasks."""
        return path.is_dir() and any(path.glob("pai_task_table*"))

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """A folder with pai_task_table; the tables of jobs, instances and group tags are read where present."""
        if not path.is_dir():
            raise one(path, "no such folder (a folder with pai_task_table.csv and its fellows is needed)")
        log = Log(path, options)
        known = dict(_each(log, "pai_job_table", _submitted))
        groups = dict(_each(log, "pai_group_tag_table", lambda row: (row["inst_id"], row["group"])))
        times: _Times = {}
        _each(log, "pai_instance_table", lambda row: _note_instance(row, options, times))
        stages: dict[str, list[_Made]] = {}
        for name, made in _each(log, "pai_task_table", lambda row: _stage(row, options, times, log), needed=True):
            stages.setdefault(name, []).append(made)
        entries = [_entry(name, made, known.get(name), groups, log) for name, made in stages.items()]
        assumed = [
            "the tasks of a job wait for nothing: the trace does not say which needs which",
            "its types of GPU are not taken over; a GB of plan_mem is taken as a GiB",
        ]
        if not times:
            assumed.append("an instance is taken to last as long as its task did (there is no pai_instance_table)")
        trace = log.trace(
            entries,
            source="Alibaba cluster-trace-gpu-v2020",
            assumed=assumed,
            resources=Resources(("cpu", "memory", "gpu")),
        )
        absent = [] if known else ["user", "submission"]
        absent += [] if known and groups else ["recurrence"]
        without = {} if times else {"task_times": "All instances of a task take the time of their task."}
        return trace.lacking(Alibaba2020.contents, *absent, **without)


def _each(log: Log, table: str, read: Callable[[_Row], T | None], *, needed: bool = False) -> list[T]:
    """The results of `read` for a table's rows, with or without a header line.

    Raises TraceError for a needed table without a file.
    """
    names, path = _TABLES[table], log.path
    files = sorted(p for p in path.glob(f"{table}*.csv*") if p.is_file())
    if needed and not files:
        packed = f" (unpack {table}.tar.gz first)" if (path / f"{table}.tar.gz").exists() else ""
        raise one(path, f"there is no {table}.csv in it" + packed)

    def made(cells: list[str]) -> T | None:
        if len(cells) != len(names):
            raise BadRow(f"{len(cells)} columns, but there should be {len(names)}: {', '.join(names)}")
        return read(dict(zip(names, map(str.strip, cells), strict=True)))

    every: list[T] = []
    for file in files:
        rows = ((n, cells) for n, cells in csv_rows(file) if n != 1 or cells[0].strip() != names[0])
        every += log.each(rows, made, file)
    return every


def _submitted(row: _Row) -> tuple[str, _Job]:
    submit = number(row["start_time"], "start_time") if row["start_time"] else -1.0
    return row["job_name"], _Job(submit, row["user"], row["inst_id"])


def _note_instance(row: _Row, options: Alibaba2020.Params, times: _Times) -> None:
    """Adds the run time (ms) of a finished instance to the run times of its task. Raises BadRow."""
    if _ended(row, options) and row["start_time"] and row["end_time"]:
        times.setdefault((row["job_name"], row["task_name"]), []).append(_span(row))


def _ended(row: _Row, options: Alibaba2020.Params) -> bool:
    return row["status"] == _TERMINATED or (row["status"] == _FAILED and not options.only_completed)


def _span(row: _Row) -> int:
    start, end = number(row["start_time"], "start_time"), number(row["end_time"], "end_time")
    if end < start:
        raise BadRow(f"ends at {end:g}, before it starts at {start:g}", "end_time")
    return to_ms(end - start)


def _stage(row: _Row, options: Alibaba2020.Params, times: _Times, log: Log) -> tuple[str, _Made] | None:
    """The job's name and the stage of its task; None, and counted, for an unfinished task. Raises BadRow."""
    if not row["job_name"] or not row["task_name"]:
        raise BadRow("empty (each row names its job and task)", "job_name")
    if not _ended(row, options):
        log.count(f"tasks left out, status {row['status'] or '(empty)'}")
        return None
    if not row["start_time"] or not row["end_time"]:
        log.count("tasks left out, no times")
        return None
    span = _span(row)
    count = whole(row["inst_num"] or "1", "inst_num", low=1, high=MAX_TASKS)
    if not row["plan_cpu"] and not row["plan_gpu"]:
        log.count("tasks that plan neither cores nor GPUs, taken to ask for one core")
    cpu, gpu = (number(row[c] or "0", c, high=1e9) * 10 for c in ("plan_cpu", "plan_gpu"))
    demand = (-int(-cpu // 1), -int(-number(row["plan_mem"] or "0", "plan_mem", high=1e9) * 1024 // 1), -int(-gpu // 1))
    if not cpu and not gpu:
        demand = (1000, *demand[1:])
    known = times.get((row["job_name"], row["task_name"]), [])
    if known and len(known) != count:
        log.count("tasks with another number of instances that ended than planned; those that ended are taken")
    stage = Stage(
        name=row["task_name"], tasks=len(known) or count, demand=demand, gang=options.gang and (len(known) or count) > 1
    )
    times_of_stage = runtimes(known) if known else Fixed(span)
    return row["job_name"], (number(row["start_time"], "start_time"), stage, times_of_stage)


def _entry(name: str, made: list[_Made], known: _Job | None, groups: dict[str, str], log: Log) -> WorkloadJob:
    first = min(start for start, _, _ in made)
    submit = known.submit_s if known is not None and 0 <= known.submit_s <= first else first
    if known is None:
        log.count("jobs that arrive when their first task starts, they are not in pai_job_table")
    stages = distinct([stage for _, stage, _ in made])
    user, group = (known.user, groups.get(known.inst_id, "")) if known else ("", "")
    return entry(Job(id=name, stages=stages, user=user, name=group), submit * 1000, [times for _, _, times in made])
