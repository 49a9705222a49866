"""Files of a cell: its jobs, tasks and plans, the use of its nodes, and a trace for Perfetto.

The engine calls a `Recorder` while it runs. Rows go through a short list into typed columns and from
there into Parquet parts on disk, so memory does not grow with the number of finished tasks.
The files of `Recorder.write` (times in ms on the simulated clock):

`jobs.parquet`
    a row per job, the fields of `JobRow` (`rm_emulator.engine.recording`), in order of submission (ties: id);
    fields of services only in runs with services, `failed_ms` only where tasks fail.
`tasks.parquet`
    a row per attempt, the fields of `Attempt` and a column `demand_RESOURCE` per resource
    (milli-CPU, MiB, pieces), in order of recording. `arrived_ms` is left out
    where the cluster has no links, `copy` where there are no copies, `useful_ms` where there are no checkpoints.
`nodes.parquet`
    `node, resource, speed, capacity, start_ms, end_ms, held`: mean units held in a time bucket. Rows with
    `node` null are the whole cluster, on a finer grid; their speed is the capacity-weighted mean.
`plans.parquet`
    only where the policy plans jobs: the last plan of each job, a row per stretch of time in which `running`
    tasks of a stage run (`PLAN_SCHEMA`). Times are from the plan's own start, at node speed 1; `made_ms` is on the
    simulated clock; `tasks` counts the stage's tasks, and `task_ms` is the planned time of each.
`tries.parquet`
    only where schedulers need time to think: a row for each thought about a job, the fields of `SchedulingAttempt`.
`faults.parquet`
    only where something had a fault: `node, kind, begin_ms, end_ms`, the end null for a fault for good; the node null
    and the kind `restart` for the resource manager.
`trace.json`, `trace.json.gz` when large
    the Chrome trace format, for https://ui.perfetto.dev.

All of them are written beside their final name and then renamed, and equal calls give equal bytes.
`log_blocks` writes the event log beside them, `events.jsonl.gz`, while the cell runs; where there are several
schedulers each has its own, `events-SCHEDULER.jsonl.gz`.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from rm_emulator.engine.config import NodeFault
from rm_emulator.engine.recording import (
    FAULT_COLUMNS,
    OPTIONAL_COLUMNS,
    RESTART_COLUMNS,
    SERVICE_COLUMNS,
    Attempt,
    JobRow,
    Recording,
    SchedulingAttempt,
)
from rm_emulator.files import GZIP_LEVEL, replacing, unpack_small
from rm_emulator.results.metrics import Floats, Ints, integrals
from schedulers.core.model import Job, Node
from schedulers.core.policy import Planned
from schedulers.core.resources import Vector

#: Rows held as Python objects before they become typed columns (about 6 MB), and rows per part on disk. Smaller chunks
#: cost more time for the use of nodes; with larger parts a run of a million tasks takes 30 MB more and its tables too.
CHUNK: Final = 25_000
PART: Final = 50_000
#: Rows of nodes.parquet: per node and in total at most about this many, whatever the cluster's size.
NODE_ROWS: Final = 180_000
CLUSTER_ROWS: Final = 20_000
#: The narrowest time bucket: one heartbeat of YARN's default.
BUCKET_MS: Final = 1000


def columns_of(row: type[Any]) -> dict[str, pl.DataType]:
    """Columns of a table of such records; whole numbers have 64 bits unless their annotation says otherwise."""
    info = msgspec.inspect.type_info(row)
    assert isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType)
    return {field.name: _stored_as(field.type) for field in info.fields}


def _stored_as(kind: msgspec.inspect.Type) -> pl.DataType:
    if isinstance(kind, msgspec.inspect.UnionType):
        return _stored_as(next(each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType)))
    if isinstance(kind, msgspec.inspect.Metadata):
        return {16: pl.Int16(), 32: pl.Int32()}[(kind.extra or {})["bits"]]
    return _STORED[type(kind)]


_STORED: Final[dict[type[msgspec.inspect.Type], pl.DataType]] = {
    msgspec.inspect.StrType: pl.String(),
    msgspec.inspect.IntType: pl.Int64(),
    msgspec.inspect.FloatType: pl.Float64(),
    msgspec.inspect.BoolType: pl.Boolean(),
}
_JOB: Final = columns_of(JobRow)
_MORE_OF_JOBS: Final = (*SERVICE_COLUMNS, *FAULT_COLUMNS, *RESTART_COLUMNS)
JOB_SCHEMA: Final = {name: kind for name, kind in _JOB.items() if name not in _MORE_OF_JOBS}
TRY_SCHEMA: Final = columns_of(SchedulingAttempt)
_ATTEMPT: Final = columns_of(Attempt)
TASK_SCHEMA: Final = {name: kind for name, kind in _ATTEMPT.items() if name not in OPTIONAL_COLUMNS}
NODE_SCHEMA: Final[dict[str, pl.DataType]] = {
    "node": pl.String(),
    "resource": pl.String(),
    "speed": pl.Float64(),
    "capacity": pl.Int64(),
    "start_ms": pl.Int64(),
    "end_ms": pl.Int64(),
    "held": pl.Float64(),
}
FAULT_SCHEMA: Final[dict[str, pl.DataType]] = {
    "node": pl.String(),
    "kind": pl.String(),
    "begin_ms": pl.Int64(),
    "end_ms": pl.Int64(),
}
PLAN_SCHEMA: Final[dict[str, pl.DataType]] = {
    "job": pl.String(),
    "made_ms": pl.Int64(),
    "machines": pl.Int32(),
    "bound_ms": pl.Int64(),
    "makespan_ms": pl.Int64(),
    "stage": pl.Int32(),
    "name": pl.String(),
    "tasks": pl.Int32(),
    "task_ms": pl.Int64(),
    "troublesome": pl.Boolean(),
    "start_ms": pl.Int64(),
    "end_ms": pl.Int64(),
    "running": pl.Float64(),
}


class IncompleteRecord(ValueError):
    """The recorder heard of a task on an unknown node, or of a stage without a known demand."""


@contextmanager
def log_blocks(directory: Path, scheduler: str = "") -> Iterator[Callable[[bytes], object]]:
    """Takes blocks of an event log's lines and writes `events.jsonl.gz`, unpacked at the end if small.

    scheduler: owner of the log among several schedulers: `events-SCHEDULER.jsonl.gz`.

    Each block is a gzip member of its own: the log of a killed run is readable up to its last block.
    """
    packed = directory / f"events{scheduler and f'-{scheduler}'}.jsonl.gz"
    with packed.open("wb", buffering=0) as file:
        yield lambda lines: file.write(gzip.compress(lines, GZIP_LEVEL, mtime=0))
    unpack_small(packed)


class Recorder(Recording):
    """Recorder of a cell: collects attempts, jobs and plans, and writes the files.

    nodes: every node with reported tasks, capacities in the order of `resources`.
    resources: names of the components of all vectors.
    scratch: where parts of large tables wait for the end; a temporary directory by default.
    more: optional columns (`OPTIONAL_COLUMNS`, `SERVICE_COLUMNS`, `FAULT_COLUMNS`, `RESTART_COLUMNS`) of the tables.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        resources: Sequence[str] = ("cpu", "memory"),
        *,
        scratch: Path | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self.nodes, self.resources = tuple(nodes), tuple(resources)
        self._temporary = tempfile.TemporaryDirectory(prefix="rm-emulator-", dir=scratch)
        folder = Path(self._temporary.name)
        demands: dict[str, pl.DataType] = {f"demand_{name}": pl.Int64() for name in self.resources}
        columns = {**TASK_SCHEMA, **{name: _ATTEMPT[name] for name in more if name in OPTIONAL_COLUMNS}}
        of_jobs = {**JOB_SCHEMA, **{name: _JOB[name] for name in more if name in _MORE_OF_JOBS}}
        self._job_cells = attrgetter(*of_jobs)
        self._cells_of = attrgetter(*columns)
        self._tasks = _Spool({**columns, **demands}, folder, "tasks")
        self._jobs = _Spool(of_jobs, folder, "jobs")
        self._plans = _Spool({**PLAN_SCHEMA, "number": pl.Int64()}, folder, "plans")
        self._planned = 0
        self._tries = _Spool(TRY_SCHEMA, folder, "tries")
        self._tried = False
        self._faults: list[tuple[str | None, str, int, int | None]] = []
        self._cells: list[Any] = []
        self._width = len(columns)
        self._full = CHUNK * self._width
        self._vectors: dict[Vector, int] = {}
        self._demand: dict[tuple[str, int], int] = {}
        self._node_index = {node.id: i for i, node in enumerate(self.nodes)}
        self._tasks_of_node = np.zeros(len(self.nodes), dtype=np.int64)
        width = len(self.resources)
        tracks = max(1, len(self.nodes) * width)
        self._per_node = _Timeline(tracks, NODE_ROWS // tracks)
        self._whole = _Timeline(width, min(1000, CLUSTER_ROWS // width))
        self._end_ms = 0

    def demand(self, job: str, stage: int, vector: Vector) -> None:
        """Demand of each task of a stage; to be called before the stage's first `task`."""
        self._demand[job, stage] = self._vectors.setdefault(tuple(vector), len(self._vectors))

    def task(self, attempt: Attempt) -> None:
        """An attempt has ended."""
        # One flat list: no object per row that the garbage collector would have to visit.
        cells = self._cells
        cells += self._cells_of(attempt)
        if len(cells) >= self._full:
            self._drain_tasks()

    def job(self, row: JobRow) -> None:
        """A job has finished, or will not finish any more."""
        self._jobs.append(self._job_cells(row))

    def plan(self, job: Job, made_ms: int, planned: Planned) -> None:
        """The policy has planned a job; the last plan counts. An application master is no work, so not shown."""
        self._planned += 1
        of_job = (job.id, made_ms, planned.machines, planned.bound, planned.makespan)
        for index, start, end, work in planned.stretches:
            stage = job.stages[index]
            if not stage.master:
                of_stage = (index, stage.name, stage.tasks, planned.runtimes[index], index in planned.troublesome)
                self._plans.append((*of_job, *of_stage, start, end, work / (end - start), self._planned))

    def scheduling_attempt(self, row: SchedulingAttempt) -> None:
        """A scheduler with a time to think has thought about a job."""
        self._tried = True
        self._tries.append(msgspec.structs.astuple(row))

    def fault(self, fault: NodeFault) -> None:
        """A fault of a node begins."""
        end = None if fault.lasts_ms is None else fault.at_ms + fault.lasts_ms
        self._faults.append((fault.node, fault.kind, fault.at_ms, end))

    def restart(self, at_ms: int, back_ms: int) -> None:
        """The manager goes away."""
        self._faults.append((None, "restart", at_ms, back_ms))

    def finish(self, end_ms: int) -> None:
        """The run is over at this time (ms); no further calls but `write` and `close`."""
        self._drain_tasks()
        self._tries.drain()
        self._jobs.drain()
        self._plans.drain()
        self._end_ms = max(end_ms, self._per_node.latest, 1)

    def write(self, directory: Path) -> None:
        """Writes the files; call `finish` before, once.

        Raises OSError when the directory cannot be written; files are then either whole or absent.
        """
        from rm_emulator.results import perfetto

        directory.mkdir(parents=True, exist_ok=True)
        jobs = self._jobs.frame().collect().sort("submit_ms", "id")
        with replacing(directory / "jobs.parquet") as path:
            jobs.write_parquet(path)
        with replacing(directory / "tasks.parquet") as path:
            self._tasks.frame().sink_parquet(path, row_group_size=PART, maintain_order=True)
        with replacing(directory / "nodes.parquet") as path:
            self.node_rows().write_parquet(path)
        if self._planned:
            last = pl.col("number") == pl.col("number").max().over("job")
            with replacing(directory / "plans.parquet") as path:
                self._plans.frame().filter(last).drop("number").collect().write_parquet(path)
        if self._tried:
            with replacing(directory / "tries.parquet") as path:
                self._tries.frame().collect().write_parquet(path)
        if self._faults:
            with replacing(directory / "faults.parquet") as path:
                pl.DataFrame(self._faults, FAULT_SCHEMA, orient="row").write_parquet(path)
        ids = [node.id for node in self.nodes]
        chosen, note = perfetto.choose_nodes(ids, self._tasks_of_node.tolist())
        rows, whole = pl.scan_parquet(directory / "tasks.parquet", glob=False), self._cluster_rows()
        tasks = rows.filter(pl.col("node").is_in(chosen)).drop(pl.selectors.starts_with("demand_")).collect()
        with replacing(directory / "trace.json.gz") as path:
            perfetto.write(path, jobs=jobs, tasks=tasks, nodes=chosen, cluster=whole, note=note)
        unpack_small(directory / "trace.json.gz")

    def close(self) -> None:
        """Removes the parts on disk."""
        self._temporary.cleanup()

    def node_rows(self) -> pl.DataFrame:
        """Mean use per node, resource and bucket (the cluster first, with `node` null), as in nodes.parquet."""
        names = [node.id for node in self.nodes for _ in self.resources]
        speeds = [node.speed for node in self.nodes for _ in self.resources]
        capacity = [part for node in self.nodes for part in node.capacity]
        kinds = [name for _ in self.nodes for name in self.resources]
        return pl.concat([self._cluster_rows(), self._use(self._per_node, names, kinds, speeds, capacity)])

    def _cluster_rows(self) -> pl.DataFrame:
        totals = [sum(node.capacity[r] for node in self.nodes) for r in range(len(self.resources))]
        fast = [sum(node.capacity[r] * node.speed for node in self.nodes) for r in range(len(self.resources))]
        speeds = [f / t if t else 1.0 for f, t in zip(fast, totals, strict=True)]
        nobody: list[str | None] = [None] * len(totals)
        return self._use(self._whole, nobody, self.resources, speeds, totals)

    def _use(
        self,
        timeline: _Timeline,
        nodes: Sequence[str | None],
        kinds: Sequence[str],
        speeds: Sequence[float],
        capacity: Sequence[int],
    ) -> pl.DataFrame:
        held, starts, ends = timeline.means(self._end_ms)
        n = len(starts)
        row = np.repeat(np.arange(len(kinds)), n)
        columns = {
            "node": pl.Series(nodes, dtype=pl.String).gather(row),
            "resource": pl.Series(kinds).gather(row),
            "speed": np.repeat(np.array(speeds, dtype=np.float64), n),
            "capacity": np.repeat(np.array(capacity, dtype=np.int64), n),
            "start_ms": np.tile(starts, len(kinds)),
            "end_ms": np.tile(ends, len(kinds)),
            "held": held[: len(kinds)].ravel(),
        }
        return pl.DataFrame(columns, schema=NODE_SCHEMA)

    def _drain_tasks(self) -> None:
        cells, self._cells = self._cells, []
        if not cells:
            return
        columns: list[Any] = [cells[i :: self._width] for i in range(self._width)]
        size, width = len(columns[0]), len(self.resources)
        try:
            where = np.fromiter(map(self._node_index.__getitem__, columns[4]), np.int64, size)
        except KeyError as unknown:
            raise IncompleteRecord(f"a task was reported on node {unknown}, which is not among the nodes") from None
        try:
            kinds = np.fromiter(map(self._demand.__getitem__, zip(columns[0], columns[1], strict=True)), np.int64, size)
        except KeyError as unknown:
            raise IncompleteRecord(f"a task was reported of {unknown}, a stage whose demand was not told") from None
        demands = np.array(list(self._vectors), dtype=np.int64).reshape(-1, width)[kinds]
        self._tasks_of_node += np.bincount(where, minlength=len(self.nodes))
        starts, ends = np.array(columns[6], dtype=np.int64), np.array(columns[8], dtype=np.int64)
        columns[6], columns[8] = starts, ends
        for r in range(width):
            self._per_node.add(where * width + r, demands[:, r], starts, ends)
            self._whole.add(np.full(size, r), demands[:, r], starts, ends)
        self._tasks.take([*columns, *demands.T])


class _Spool:
    """Rows of a table on their way to Parquet: a short list, typed columns, then parts on disk."""

    def __init__(self, schema: dict[str, pl.DataType], folder: Path, name: str) -> None:
        self.schema, self._folder, self._name = schema, folder, name
        self._rows: list[tuple[Any, ...]] = []
        self._frames: list[pl.DataFrame] = []
        self._parts: list[Path] = []

    def append(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= CHUNK:
            self.drain()

    def drain(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self.take(list(zip(*rows, strict=True)))

    def take(self, columns: Sequence[Sequence[Any] | Ints]) -> None:
        named = zip(self.schema.items(), columns, strict=True)
        self._frames.append(pl.DataFrame([pl.Series(name, data, dtype=kind) for (name, kind), data in named]))
        if sum(len(frame) for frame in self._frames) >= PART:
            self._parts.append(self._folder / f"{self._name}-{len(self._parts)}.parquet")
            pl.concat(self._frames).write_parquet(self._parts[-1], compression="lz4")
            self._frames = []

    def frame(self) -> pl.LazyFrame:
        """All rows in order of arrival."""
        # Part by part: polars would read several at once.
        return register_io_source(lambda *_: self._read(), schema=self.schema)

    def _read(self) -> Iterator[pl.DataFrame]:
        yield from map(pl.read_parquet, self._parts)
        yield from self._frames


class _Timeline:
    """Holdings over time, per track, as integrals over equal buckets.

    The buckets double their width whenever time runs out of them, so their number never grows and
    between half and all of them are in use. Sums of units x ms are whole numbers below 2^53: exact.
    """

    def __init__(self, tracks: int, buckets: int) -> None:
        self._buckets = max(2, min(1000, buckets) // 2 * 2)
        self._width = BUCKET_MS
        self._sums: Floats = np.zeros((tracks, self._buckets))
        self.latest = 0

    def add(self, track: Ints, units: Ints, start: Ints, end: Ints) -> None:
        """Intervals [start, end) in ms, each holding `units` on its track."""
        self.latest = max(self.latest, int(end.max()))
        while self.latest > self._width * self._buckets:
            self._widen()
        held = units.astype(np.float64)
        self._sums += integrals(track, held, start, end, self._width, self._buckets, len(self._sums)).T

    def _widen(self) -> None:
        pairs = self._sums.reshape(len(self._sums), -1, 2).sum(axis=2)
        self._sums = np.concatenate([pairs, np.zeros_like(pairs)], axis=1)
        self._width *= 2

    def means(self, end_ms: int) -> tuple[Floats, Ints, Ints]:
        """Mean units per track and bucket up to `end_ms`, and the buckets' starts and ends."""
        while end_ms > self._width * self._buckets:
            self._widen()
        count = -(-end_ms // self._width)
        starts = np.arange(count, dtype=np.int64) * self._width
        ends = np.minimum(starts + self._width, end_ms)
        means: Floats = self._sums[:, :count] / (ends - starts)
        return means, starts, ends
