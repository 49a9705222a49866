"""Format 1 of stored workloads, for reading only: a table for each possible part of a job.

    jobs.parquet      a row per job, in order of arrival
    stages.parquet    a row per stage, with its true run times
    history.parquet   a row per earlier run, oldest first
    asks.parquet      a row per job: application master and nodes asked for by tasks, if any job has either
    usage.parquet     a row per job: use of its tasks, if different from the asks in any job
    gangs.parquet     a row per job: its stages that start whole, if any
    edges.parquet     a row per job: its edges with more than a parent's index (data), if any
    by_node.parquet   a row per job: the nodes of run times by node, per stage, if any
    due.parquet       a row per job: its deadline (ms), if any
    wishes.parquet    a row per job: its wishes for a run (value null: no wishes), if any
    apart.parquet     a row per job: factor on the run times of its gangs spread over several racks, if any

A job's service, the nodes open to its stages (`places`) and the cost of distance from input were not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import polars as pl

from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, RunTimes, Waves, WorkloadJob
from schedulers.core.model import Edge, Job, PastJob, Stage, Wishes

FORMAT: Final = "rm-emulator workload, version 1"
_INTS: Final = pl.List(pl.Int64)
_JOBS: Final[dict[str, Any]] = {
    "id": pl.String,
    "submit_ms": pl.Int64,
    "name": pl.String,
    "user": pl.String,
    "app": pl.String,
    "queue": pl.String,
    "weight": pl.Float64,
    "stages": pl.Int64,
}
_STAGES: Final[dict[str, Any]] = {
    "job": pl.Int64,
    "name": pl.String,
    "tasks": pl.Int64,
    "demand": _INTS,
    "parents": _INTS,
    "hint_ms": pl.Int64,
    "kind": pl.String,
    "ms": _INTS,
    "mean_ms": pl.Float64,
    "cov": pl.Float64,
    "distribution": pl.String,
    "profile": pl.String,
    "profile_stage": pl.Int64,
    "scale": pl.Float64,
}
_HISTORY: Final[dict[str, Any]] = {
    "name": pl.String,
    "submitted": pl.Int64,
    "finished": pl.Int64,
    "tasks": _INTS,
    "mean_ms": pl.List(pl.Float64),
    "user": pl.String,
    "app": pl.String,
    "demand": _INTS,
}
_ASK_COLUMNS: Final[dict[str, Any]] = {"am": _INTS, "hosts": pl.List(pl.List(pl.List(pl.String)))}
_USAGE_COLUMNS: Final[dict[str, Any]] = {"usage": pl.List(_INTS)}
_GANG_COLUMNS: Final[dict[str, Any]] = {"gangs": _INTS}
_EDGE_COLUMNS: Final[dict[str, Any]] = {"stage": _INTS, "parent": _INTS, "kind": pl.List(pl.String), "data": _INTS}
_EDGE_FIELDS: Final = ("parent", "kind", "data")
_BY_NODE_COLUMNS: Final[dict[str, Any]] = {"nodes": pl.List(pl.List(pl.String))}
_DUE_COLUMNS: Final[dict[str, Any]] = {"deadline_ms": pl.Int64}
_WISH: Final = pl.Struct(
    {
        "device": pl.String,
        "rack": pl.String,
        "same_rack": pl.Boolean,
        "spread": pl.Boolean,
        "worth": pl.Float64,
        "slowdown": pl.Float64,
    }
)
_WISHES_COLUMNS: Final[dict[str, Any]] = {"prefer": pl.List(_WISH), "value": pl.Float64, "budget_ms": pl.Int64}
_APART_COLUMNS: Final[dict[str, Any]] = {"apart": pl.Float64}
_EXTRAS: Final = {
    "asks.parquet": _ASK_COLUMNS,
    "usage.parquet": _USAGE_COLUMNS,
    "gangs.parquet": _GANG_COLUMNS,
    "edges.parquet": _EDGE_COLUMNS,
    "by_node.parquet": _BY_NODE_COLUMNS,
    "due.parquet": _DUE_COLUMNS,
    "wishes.parquet": _WISHES_COLUMNS,
    "apart.parquet": _APART_COLUMNS,
}
_TABLES: Final = {"jobs.parquet": _JOBS, "stages.parquet": _STAGES, "history.parquet": _HISTORY}


def columns(files: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables among the files of a folder, each with the types of its columns."""
    return _TABLES | {name: kinds for name, kinds in _EXTRAS.items() if name in files}


def jobs(tables: Mapping[str, pl.DataFrame]) -> Iterator[WorkloadJob]:
    """The jobs of the tables. Raises ValueError for tables that contradict each other."""
    stages: list[list[Stage]] = []
    runtimes: list[list[RunTimes]] = []
    rows = tables["jobs.parquet"].rows()
    for _ in rows:
        stages.append([])
        runtimes.append([])
    asks, usages, gangs, edges, by_node, due, wished, apart = (_extra(tables, name, len(rows)) for name in _EXTRAS)
    for number, name, tasks, demand, above, hint, *times in tables["stages.parquet"].iter_rows():
        parents = _with_edges(above, len(stages[number]), edges[number])
        (named,) = by_node[number]
        nodes = named[len(stages[number])] if named else ()
        stages[number].append(Stage(name=name, tasks=tasks, demand=tuple(demand), parents=parents, hint_ms=hint))
        runtimes[number].append(_times(*times, nodes=nodes))
    for number, (job_id, submit_ms, name, user, app, queue, weight, count) in enumerate(rows):
        if len(stages[number]) != count:
            raise ValueError(
                f"job '{job_id}' has {len(stages[number])} stages in stages.parquet, {count} in jobs.parquet"
            )
        am, hosts = asks[number]
        placed = tuple(_placed(stages[number], hosts, gangs[number][0]))
        owner = {"name": name, "user": user, "app": app, "queue": queue, "weight": weight}
        deadline, wishes = due[number][0] or None, _wishes(*wished[number])
        yield WorkloadJob(
            job=Job(id=job_id, stages=placed, deadline=deadline, wishes=wishes, **owner),
            submit_ms=submit_ms,
            runtimes=tuple(runtimes[number]),
            am=tuple(am),
            usage=tuple(tuple(use) for use in usages[number][0]),
            apart=apart[number][0] or 1.0,
        )


def history(tables: Mapping[str, pl.DataFrame]) -> Iterator[PastJob]:
    """The earlier runs of the tables."""
    for name, submitted, finished, tasks, means, user, app, demand in tables["history.parquet"].iter_rows():
        yield PastJob(
            name=name,
            submitted=submitted,
            finished=finished,
            stages=tuple(zip(tasks, means, strict=True)),
            user=user,
            app=app,
            demand=tuple(demand),
        )


def _wishes(prefer: Any, value: Any, budget_ms: Any) -> Wishes | None:
    if not isinstance(value, float):
        return None
    return msgspec.convert({"prefer": prefer, "value": value, "budget_ms": budget_ms}, Wishes)


def _extra(tables: Mapping[str, pl.DataFrame], name: str, jobs: int) -> list[tuple[Any, ...]]:
    """The rows of a table, a row per job; empty rows for an absent table."""
    rows = tables[name].rows() if name in tables else [((),) * len(_EXTRAS[name])] * jobs
    if len(rows) != jobs:
        raise ValueError(f"{name} has {len(rows)} rows for {jobs} jobs")
    return rows


def _with_edges(above: list[int], stage: int, columns: tuple[Any, ...]) -> tuple[int | Edge, ...]:
    """The parents of a stage: an edge where more than the index was stored."""
    rows = zip(*columns, strict=True)
    written = {
        row[1]: msgspec.convert(dict(zip(_EDGE_FIELDS, row[1:], strict=True)), Edge) for row in rows if row[0] == stage
    }
    return tuple(written.get(parent, parent) for parent in above)


def _placed(stages: list[Stage], hosts: Sequence[Sequence[Sequence[str]]], gangs: Sequence[int]) -> Iterator[Stage]:
    """Stages with the nodes asked for by their tasks, and with their gangs."""
    for number, stage in enumerate(stages):
        asked = tuple(tuple(names) for names in hosts[number]) if hosts else ()
        gang = number in gangs
        yield msgspec.structs.replace(stage, hosts=asked, gang=gang) if asked or gang else stage


def _times(
    kind: str,
    ms: list[int] | None,
    mean_ms: float,
    cov: float,
    distribution: str,
    profile: str,
    *of_profile: Any,
    nodes: Sequence[str],
) -> RunTimes:
    if kind == "fixed" and ms:
        return Fixed(ms[0])
    if kind == "per_task" and ms:
        return PerTask(tuple(ms))
    if kind == "per_node" and ms and nodes:
        width = len(nodes)
        return PerNode(tuple(nodes), tuple(tuple(ms[at : at + width]) for at in range(0, len(ms), width)))
    if kind == "drawn":
        return Drawn(mean_ms, cov, distribution)
    if kind == "waves":
        return Waves(profile, *of_profile)
    raise ValueError(f"run times of kind '{kind}' with {ms}")
