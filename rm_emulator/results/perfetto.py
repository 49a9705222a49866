"""A run as a Chrome trace, the JSON that https://ui.perfetto.dev opens without conversion.

Process 1 holds the cluster's counters, process 2 the jobs (waiting, then running), and every node is a
process whose lanes are threads: a slice is a task from grant to end, named after its job, so that one job
has one colour everywhere. An arrow leads from the moment a job starts to its first task.
"""

from __future__ import annotations

import gzip
import heapq
import io
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.files import GZIP_LEVEL

#: Slices of tasks, and of jobs, in one trace; Perfetto stays fluent up to a few hundred thousand.
SLICES: Final = 150_000
JOBS: Final = 20_000
#: Tasks that are sorted at once.
_AT_ONCE: Final = 10_000
CLUSTER_PID: Final = 1
JOBS_PID: Final = 2
FIRST_NODE_PID: Final = 10

Event = dict[str, Any]


def choose_nodes(nodes: Sequence[str], tasks: Sequence[int], limit: int = SLICES) -> tuple[list[str], str | None]:
    """Which nodes a trace of at most `limit` task slices shows, evenly spaced, and a note when not all.

    tasks: number of slices per node, in the order of `nodes`. Whole nodes, because a node with holes misleads.
    """
    total = sum(tasks)
    if total <= limit:
        return list(nodes), None
    step = -(-total // limit)
    chosen: list[str] = []
    held = 0
    for node, count in list(zip(nodes, tasks, strict=True))[::step]:
        if chosen and held + count > limit:
            break
        chosen.append(node)
        held += count
    return chosen, f"{len(chosen)} of {len(nodes)} nodes, {min(held, limit)} of {total} task attempts"


def lanes(starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """The lowest free lane for each interval [start, end), intervals in order of start.

    >>> lanes([0, 1, 4, 5], [4, 5, 6, 7])
    [0, 1, 0, 1]
    """
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    used = 0
    given: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        heapq.heappush(busy, (max(end, start + 1), lane))
        given.append(lane)
    return given


def write(
    path: Path,
    *,
    jobs: pl.DataFrame,
    tasks: pl.DataFrame,
    nodes: Sequence[str],
    cluster: pl.DataFrame,
    note: str | None = None,
) -> None:
    """Writes the trace, gzip of one event per line; equal traces give equal files.

    jobs, tasks, cluster: as in jobs.parquet, tasks.parquet and the cluster rows of nodes.parquet.
    nodes: the nodes to show, in this order, of each at most `SLICES` tasks; note: what was left out, kept in the
    trace's metadata.
    """
    notes = [note] if note else []
    if len(jobs) > JOBS:
        notes.append(f"the first {JOBS} of {len(jobs)} jobs")
    metadata = {"format": "rm-emulator trace", "shown": "; ".join(notes) or "everything"}
    encode = msgspec.json.Encoder().encode
    with (
        path.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=GZIP_LEVEL, mtime=0) as packed,
        io.BufferedWriter(packed, 1 << 20) as out,
    ):
        out.write(b'{"displayTimeUnit":"ms","metadata":%s,"traceEvents":[\n' % encode(metadata))
        separator = b""
        for event in _events(jobs.head(JOBS), tasks, nodes, cluster):
            out.write(separator + encode(event))
            separator = b",\n"
        out.write(b"\n]}\n")


def _events(jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: Sequence[str], cluster: pl.DataFrame) -> Iterator[Event]:
    yield _named("process_name", CLUSTER_PID, 0, "cluster")
    yield from _counters(cluster)
    yield _named("process_name", JOBS_PID, 0, "jobs")
    yield from _job_slices(jobs)
    # Lanes of the arrows' ends alone: the lanes of all tasks would take more memory than the tasks.
    firsts, lanes_of = list[pl.DataFrame](), dict[tuple[int, int], int]()
    pids = {node: FIRST_NODE_PID + index for index, node in enumerate(nodes)}
    for some, shown in _by_nodes(tasks, nodes):
        firsts.append(_first_of_each_job(shown.select("job", "node", "container", "granted_ms", "started_ms")))
        lanes_of |= dict.fromkeys(_keys(firsts[-1]), 0)
        frames = shown.partition_by("node", as_dict=True, maintain_order=True)
        for node in some:
            yield _named("process_name", pids[node], 0, node)
            yield {
                "ph": "M",
                "name": "process_sort_index",
                "pid": pids[node],
                "tid": 0,
                "args": {"sort_index": pids[node]},
            }
            if (node,) in frames:
                frame = frames[node,]
                threads = _thread_ids(frame)
                lanes_of.update((key, tid) for key, tid in zip(_keys(frame), threads, strict=True) if key in lanes_of)
                yield from _task_slices(frame, pids[node], threads)
    if firsts:
        yield from _arrows(jobs, _first_of_each_job(pl.concat(firsts)), pids, lanes_of)


def _by_nodes(tasks: pl.DataFrame, nodes: Sequence[str]) -> Iterator[tuple[Sequence[str], pl.DataFrame]]:
    """Some nodes and their tasks in order of the grants, so many that few tasks are there twice."""
    if not nodes:
        return
    sizes = dict(tasks.group_by("node").len().iter_rows())
    number = np.cumsum([sizes.get(node, 0) for node in nodes]) // _AT_ONCE
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(nodes)]):
        some = nodes[first:last]
        shown = tasks.filter(pl.col("node").is_in(some))
        yield some, shown.sort("granted_ms", "container").head(SLICES)


def _first_of_each_job(tasks: pl.DataFrame) -> pl.DataFrame:
    ran = tasks.drop_nulls("started_ms").sort("started_ms", "container")
    return ran.unique("job", keep="first", maintain_order=True)


def _arrows(
    jobs: pl.DataFrame, first: pl.DataFrame, pids: dict[str, int], lanes_of: dict[tuple[int, int], int]
) -> Iterator[Event]:
    """An arrow to the first task of each job. lanes_of: by container and grant."""
    threads = {job: number + 1 for number, job in enumerate(jobs["id"])}
    for row, key in zip(first.iter_rows(named=True), _keys(first), strict=True):
        if row["job"] in threads:
            tid = threads[row["job"]]
            arrow = {"cat": "start", "name": "first task", "id": tid, "ts": row["started_ms"] * 1000}
            yield {"ph": "s", "pid": JOBS_PID, "tid": tid, **arrow}
            yield {"ph": "f", "bp": "e", "pid": pids[row["node"]], "tid": lanes_of[key], **arrow}


def _keys(frame: pl.DataFrame) -> list[tuple[int, int]]:
    return list(zip(frame["container"].to_list(), frame["granted_ms"].to_list(), strict=True))


def _thread_ids(frame: pl.DataFrame) -> list[int]:
    return [lane + 1 for lane in lanes(frame["granted_ms"].to_list(), frame["ended_ms"].to_list())]


def _named(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _counters(cluster: pl.DataFrame) -> Iterator[Event]:
    for row in cluster.iter_rows(named=True):
        share = round(100 * row["held"] / row["capacity"], 3) if row["capacity"] else 0
        yield {
            "ph": "C",
            "name": f"{row['resource']} held (%)",
            "pid": CLUSTER_PID,
            "tid": 0,
            "ts": row["start_ms"] * 1000,
            "args": {"held": share},
        }


def _job_slices(jobs: pl.DataFrame) -> Iterator[Event]:
    for number, row in enumerate(jobs.iter_rows(named=True)):
        tid = number + 1
        submit, start, finish = row["submit_ms"], row["first_start_ms"], row["finish_ms"]
        yield _named("thread_name", JOBS_PID, tid, row["id"])
        args = {key: row[key] for key in ("name", "user", "queue", "tasks", "work_ms", "size_ms", "size_source")}
        if start is not None and start > submit:
            yield _slice("waiting", (JOBS_PID, tid), (submit, start), {"job": row["id"]})
        if start is not None and finish is not None:
            yield _slice(row["id"], (JOBS_PID, tid), (start, finish), args)


def _task_slices(frame: pl.DataFrame, pid: int, threads: list[int]) -> Iterator[Event]:
    for tid in sorted(set(threads)):
        yield _named("thread_name", pid, tid, f"lane {tid}")
    for tid, row in zip(threads, frame.iter_rows(named=True), strict=True):
        keys = ("stage", "task", "attempt", "container", "pilot", "code", *(("copy",) if "copy" in row else ()))
        granted, started = row["granted_ms"], row["started_ms"]
        yield _slice(row["job"], (pid, tid), (granted, row["ended_ms"]), {key: row[key] for key in keys})
        there = min(row.get("arrived_ms") or granted, row["ended_ms"])
        if started is not None and started > max(granted, there):
            yield _slice("start-up", (pid, tid), (granted, started), {})
        if there > granted:
            yield _slice("waits for data", (pid, tid), (granted, there), {})


def _slice(name: str, thread: tuple[int, int], ms: tuple[int, int], args: Event) -> Event:
    times = {"ts": ms[0] * 1000, "dur": (ms[1] - ms[0]) * 1000}
    return {"ph": "X", "name": name, "pid": thread[0], "tid": thread[1], **times, "args": args}
