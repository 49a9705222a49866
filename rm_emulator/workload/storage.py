"""Workloads on disk: a folder of Parquet tables and one YAML file that says what they hold.

    workload.yaml     format, name, source, resources, notes, counts, SHA-256 of each other file
    jobs.parquet      one row per job, in order of arrival
    stages.parquet    one row per stage, with its true run times
    history.parquet   one row per earlier run, oldest first
    profiles.json.gz  measured TPC-H durations, where run times refer to them
    asks.parquet      one row per job: its application master and the nodes its tasks ask for, where any has them
    usage.parquet     one row per job: what its tasks use, where it differs for any from what they ask for
    gangs.parquet     one row per job: its stages that start whole, where any do
    edges.parquet     one row per job: its edges that are more than a parent's index (data), where any are
    by_node.parquet   one row per job: the nodes of run times by node, per stage, where any are
    due.parquet       one row per job: its deadline (ms), where any has one
    wishes.parquet    one row per job: how it would like to run (value null: no wishes), where any says so
    apart.parquet     one row per job: how many times as long its gangs take that are not in one rack, where any do

A folder is written under another name and renamed when it is whole, so a killed run leaves none behind
that looks finished.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import yaml

from rm_emulator.files import load_yaml, write_file
from rm_emulator.issues import Issues
from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, RunTimes, Waves, Workload, WorkloadJob
from rm_emulator.workload.profiles import TpchProfiles
from rm_emulator.workload.tables import one, parquet_frame
from schedulers.core.errors import SchedulerError
from schedulers.core.model import Edge, Job, PastJob, Stage, Wishes, check_job
from schedulers.core.resources import Resources

FORMAT: Final = "rm-emulator workload, version 1"
_YAML: Final = "workload.yaml"
_PROFILES: Final = "profiles.json.gz"
_ASKS: Final = "asks.parquet"
_USAGE: Final = "usage.parquet"
_GANGS: Final = "gangs.parquet"
_EDGES: Final = "edges.parquet"
_BY_NODE: Final = "by_node.parquet"
_DUE: Final = "due.parquet"
_WISHES: Final = "wishes.parquet"
_APART: Final = "apart.parquet"
_MODE: Final = 0o755

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
    _ASKS: _ASK_COLUMNS,
    _USAGE: _USAGE_COLUMNS,
    _GANGS: _GANG_COLUMNS,
    _EDGES: _EDGE_COLUMNS,
    _BY_NODE: _BY_NODE_COLUMNS,
    _DUE: _DUE_COLUMNS,
    _WISHES: _WISHES_COLUMNS,
    _APART: _APART_COLUMNS,
}
_TABLES: Final = {"jobs.parquet": _JOBS, "stages.parquet": _STAGES, "history.parquet": _HISTORY}


class _Counts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much there should be."""

    jobs: int
    stages: int
    tasks: int
    history: int


class _Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What workload.yaml says."""

    format: str
    name: str
    source: str
    resources: tuple[str, ...]
    counts: _Counts
    sha256: dict[str, str]
    notes: tuple[str, ...] = ()


def save(
    workload: Workload,
    path: Path | str,
    *,
    profiles: TpchProfiles | None = None,
    notes: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Store a workload as the folder `path`, wholly or not at all.

    profiles: what the workload's `Waves` refer to, to be stored beside it; without them, `Waves` refer to
        the built-in summary.
    Raises TraceError when something that is not a stored workload is there already, or when a stored one is
    and `overwrite` is False; InvalidJob for a job that is not a DAG.
    """
    target = Path(path)
    check_target(target, overwrite=overwrite)
    for entry in workload.jobs:
        _check_entry(entry, len(workload.resources))
    files = {name: _packed(rows(workload), _TABLES[name]) for name, rows in _ROWS.items()}
    if profiles is not None:
        files[_PROFILES] = profiles.to_bytes()
    if any(entry.am or any(stage.hosts for stage in entry.job.stages) for entry in workload.jobs):
        files[_ASKS] = _packed(_ask_rows(workload), _ASK_COLUMNS)
    if any(entry.usage for entry in workload.jobs):
        files[_USAGE] = _packed(_usage_rows(workload), _USAGE_COLUMNS)
    if any(stage.gang for entry in workload.jobs for stage in entry.job.stages):
        files[_GANGS] = _packed(_gang_rows(workload), _GANG_COLUMNS)
    if any(any(_written(stage)) for entry in workload.jobs for stage in entry.job.stages):
        files[_EDGES] = _packed(_edge_rows(workload), _EDGE_COLUMNS)
    if any(isinstance(times, PerNode) for entry in workload.jobs for times in entry.runtimes):
        files[_BY_NODE] = _packed(_by_node_rows(workload), _BY_NODE_COLUMNS)
    if any(entry.job.deadline is not msgspec.UNSET for entry in workload.jobs):
        files[_DUE] = _packed(_due_rows(workload), _DUE_COLUMNS)
    if any(entry.job.wishes is not msgspec.UNSET for entry in workload.jobs):
        files[_WISHES] = _packed(_wishes_rows(workload), _WISHES_COLUMNS)
    if any(entry.apart != 1.0 for entry in workload.jobs):
        files[_APART] = _packed(((entry.apart,) for entry in workload.jobs), _APART_COLUMNS)
    header = _Header(
        format=FORMAT,
        name=workload.name,
        source=workload.source,
        resources=workload.resources,
        counts=_counts(workload),
        sha256={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        notes=tuple(notes),
    )
    text = yaml.dump(
        msgspec.to_builtins(header), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120
    )
    with whole_folder(target) as fresh:
        for file, data in {**files, _YAML: text.encode()}.items():
            write_file(fresh / file, data, sync=True)


def check_target(path: Path | str, *, overwrite: bool) -> None:
    """Raise TraceError unless `save` may write the folder `path`."""
    target = Path(path)
    if not target.parent.is_dir():
        raise one(target, f"there is no folder {target.parent} to write it in")
    if not target.exists():
        return
    if not (target.is_dir() and (is_stored(target) or not any(target.iterdir()))):
        raise one(target, "something that is not a stored workload is there already (choose another name)")
    if is_stored(target) and not overwrite:
        raise one(target, "a workload is stored there already (overwrite it, or choose another name)")


def is_stored(path: Path | str) -> bool:
    """Whether `path` is a folder as `save` writes it."""
    return (Path(path) / _YAML).is_file()


def load(path: Path | str) -> Workload:
    """Read a workload that `save` wrote.

    Raises TraceError with one message per file that is missing, truncated, damaged or edited, and when the
    counts do not match.
    """
    folder = Path(path)
    header = _header(folder)
    extras = {name: columns for name, columns in _EXTRAS.items() if name in header.sha256}
    tables = {name: _table(folder, name, header, columns) for name, columns in {**_TABLES, **extras}.items()}
    try:
        workload = _rebuilt(header, tables)
    except (SchedulerError, msgspec.MsgspecError, TypeError, ValueError, IndexError) as error:
        raise one(folder, f"the tables do not make a workload: {error}") from None
    seen = _counts(workload)
    if seen != header.counts:
        raise one(folder, f"it holds {_show(seen)}, but {_YAML} says {_show(header.counts)}")
    return workload


def load_profiles(path: Path | str) -> TpchProfiles | None:
    """The measured durations stored with a workload, or None. Raises TraceError when they are damaged."""
    folder = Path(path)
    header = _header(folder)
    if _PROFILES not in header.sha256:
        return None
    data = _checked(folder, _PROFILES, header)
    try:
        return TpchProfiles.from_bytes(data)
    except ValueError as error:
        raise one(folder / _PROFILES, str(error)) from None


def notes(path: Path | str) -> tuple[str, ...]:
    """What was left out or assumed when the workload was made. Raises TraceError."""
    return _header(Path(path)).notes


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write in that becomes `target` when the block ends, and is gone when it fails.

    An older folder is moved aside first and removed last.
    """
    try:
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise one(target, f"cannot be written: {error.strerror}") from None
    old = fresh.with_name(f"{fresh.name}.old")
    try:
        fresh.chmod(_MODE)
        yield fresh
        if target.exists():
            target.rename(old)
        fresh.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _packed(rows: Iterator[tuple[Any, ...]], schema: dict[str, Any]) -> bytes:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    frame = pl.DataFrame(
        [pl.Series(name, cells, dtype=kind) for (name, kind), cells in zip(schema.items(), columns, strict=True)]
    )
    stream = io.BytesIO()
    frame.write_parquet(stream, compression="zstd")
    return stream.getvalue()


def _counts(workload: Workload) -> _Counts:
    return _Counts(
        jobs=len(workload.jobs),
        stages=sum(len(entry.job.stages) for entry in workload.jobs),
        tasks=workload.tasks,
        history=len(workload.history),
    )


def _show(counts: _Counts) -> str:
    return ", ".join(f"{value:,} {name}" for name, value in msgspec.to_builtins(counts).items())


def _check_entry(entry: WorkloadJob, resources: int) -> None:
    check_job(entry.job, resources)
    if len(entry.runtimes) != len(entry.job.stages):
        raise ValueError(f"job '{entry.job.id}' has {len(entry.job.stages)} stages, {len(entry.runtimes)} run times")
    for stage, times in zip(entry.job.stages, entry.runtimes, strict=True):
        if isinstance(times, PerTask) and len(times.ms) != stage.tasks:
            raise ValueError(
                f"job '{entry.job.id}' stage '{stage.name}' has {stage.tasks} tasks, {len(times.ms)} run times"
            )
        if isinstance(times, PerNode) and (why := _misfit(times, stage.tasks)):
            raise ValueError(f"job '{entry.job.id}' stage '{stage.name}' has {why}")
    if entry.am and len(entry.am) != resources:
        raise ValueError(f"job '{entry.job.id}' has an application master of {entry.am} ({resources} components)")
    if entry.usage:
        _check_usage(entry, resources)


def _misfit(times: PerNode, tasks: int) -> str:
    """What is wrong with the form of a matrix of run times, "" for nothing."""
    if not times.nodes or len(set(times.nodes)) < len(times.nodes):
        return "run times by node without nodes, or for one node twice"
    if len(times.ms) not in (1, tasks):
        return f"{tasks} tasks, run times by node for {len(times.ms)} (one row for all, or one per task)"
    if any(len(row) != len(times.nodes) for row in times.ms):
        return f"a row of run times without one for each of its {len(times.nodes)} nodes"
    return ""


def _check_usage(entry: WorkloadJob, resources: int) -> None:
    if len(entry.usage) != len(entry.job.stages):
        raise ValueError(
            f"job '{entry.job.id}' has {len(entry.job.stages)} stages, but what {len(entry.usage)} of them use"
        )
    for stage, use in zip(entry.job.stages, entry.usage, strict=True):
        if len(use) != resources or min(use) < 0 or max(use) <= 0:
            raise ValueError(
                f"job '{entry.job.id}' stage '{stage.name}' uses {use} "
                f"({resources} components, none below 0, at least one above)"
            )


def _job_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        job = entry.job
        yield job.id, entry.submit_ms, job.name, job.user, job.app, job.queue, job.weight, len(job.stages)


def _stage_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for number, entry in enumerate(workload.jobs):
        for stage, times in zip(entry.job.stages, entry.runtimes, strict=True):
            shape = (number, stage.name, stage.tasks, list(stage.demand), list(stage.above), stage.hint_ms)
            yield (*shape, *_time_cells(times))


def _time_cells(times: RunTimes) -> tuple[Any, ...]:
    """kind, ms, mean_ms, cov, distribution, profile, profile_stage, scale."""
    if isinstance(times, Fixed):
        return "fixed", [times.ms], None, None, None, None, None, None
    if isinstance(times, PerTask):
        return "per_task", list(times.ms), None, None, None, None, None, None
    if isinstance(times, PerNode):
        return "per_node", [ms for row in times.ms for ms in row], None, None, None, None, None, None
    if isinstance(times, Drawn):
        return "drawn", None, times.mean_ms, times.cov, times.kind, None, None, None
    return "waves", None, None, None, None, times.profile, times.stage, times.scale


def _history_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for past in workload.history:
        tasks, means = [n for n, _ in past.stages], [float(mean) for _, mean in past.stages]
        yield past.name, past.submitted, past.finished, tasks, means, past.user, past.app, list(past.demand)


def _ask_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        yield list(entry.am), [[list(hosts) for hosts in stage.hosts] for stage in entry.job.stages]


def _usage_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        yield ([list(use) for use in entry.usage],)


def _gang_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        yield ([number for number, stage in enumerate(entry.job.stages) if stage.gang],)


def _written(stage: Stage) -> Iterator[Edge]:
    """Edges that are more than the index of a parent."""
    return (parent for parent in stage.parents if isinstance(parent, Edge))


def _edge_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        edges = [(number, edge) for number, stage in enumerate(entry.job.stages) for edge in _written(stage)]
        yield (
            [number for number, _ in edges],
            [edge.parent for _, edge in edges],
            [edge.kind for _, edge in edges],
            [edge.data for _, edge in edges],
        )


def _by_node_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        yield ([list(times.nodes) if isinstance(times, PerNode) else [] for times in entry.runtimes],)


def _due_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        yield (entry.job.deadline or None,)


def _wishes_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    for entry in workload.jobs:
        wishes = entry.job.wishes
        if isinstance(wishes, msgspec.UnsetType):
            yield None, None, None
        else:
            yield [msgspec.structs.asdict(wish) for wish in wishes.prefer], wishes.value, wishes.budget_ms


_ROWS: Final[dict[str, Callable[[Workload], Iterator[tuple[Any, ...]]]]] = {
    "jobs.parquet": _job_rows,
    "stages.parquet": _stage_rows,
    "history.parquet": _history_rows,
}


def _header(folder: Path) -> _Header:
    path = folder / _YAML
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise one(folder, f"not a stored workload: there is no {_YAML} in it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise one(path, f"cannot be read: {error}") from None
    try:
        document = load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise one(path, f"not YAML: {getattr(error, 'problem', error)}", line=line) from None
    seen = document.get("format") if isinstance(document, dict) else None
    if seen != FORMAT:
        raise one(path, f"the format is {seen!r} (this version reads '{FORMAT}')")
    try:
        header = msgspec.convert(document, _Header)
        Resources(header.resources)
    except (msgspec.ValidationError, SchedulerError) as error:
        raise one(path, str(error)) from None
    return header


def _checked(folder: Path, name: str, header: _Header) -> bytes:
    """A file's bytes if they are those that were written."""
    path = folder / name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise one(path, f"missing, though {_YAML} lists it") from None
    except OSError as error:
        raise one(path, f"cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != header.sha256.get(name):
        raise one(path, f"damaged, truncated or edited: its SHA-256 is not the one in {_YAML} (convert it again)")
    return data


def _table(folder: Path, name: str, header: _Header, wanted: dict[str, Any]) -> pl.DataFrame:
    frame = parquet_frame(folder / name, _checked(folder, name, header))
    if dict(frame.schema) != wanted:
        issues = Issues(str(folder / name))
        for column, kind in wanted.items():
            seen = frame.schema.get(column)
            if seen != kind:
                issues.add("missing" if seen is None else f"of type {seen} (should be {kind})", column=column)
        for column in frame.columns:
            if column not in wanted:
                issues.add("not a column of this table", column=column)
        issues.check()
    return frame.select(list(wanted))


def _rebuilt(header: _Header, tables: dict[str, pl.DataFrame]) -> Workload:
    stages: list[list[Stage]] = []
    runtimes: list[list[RunTimes]] = []
    jobs = tables["jobs.parquet"].rows()
    for _ in jobs:
        stages.append([])
        runtimes.append([])
    asks, usages, gangs, edges, by_node, due, wished, apart = (_extra(tables, name, len(jobs)) for name in _EXTRAS)
    for number, name, tasks, demand, above, hint, *times in tables["stages.parquet"].iter_rows():
        parents = _with_edges(above, len(stages[number]), edges[number])
        (columns,) = by_node[number]
        nodes = columns[len(stages[number])] if columns else ()
        stages[number].append(Stage(name=name, tasks=tasks, demand=tuple(demand), parents=parents, hint_ms=hint))
        runtimes[number].append(_times(*times, nodes=nodes))
    entries = []
    for number, (job_id, submit_ms, name, user, app, queue, weight, count) in enumerate(jobs):
        if len(stages[number]) != count:
            raise ValueError(
                f"job '{job_id}' has {len(stages[number])} stages in stages.parquet, {count} in jobs.parquet"
            )
        am, hosts = asks[number]
        placed = tuple(_placed(stages[number], hosts, gangs[number][0]))
        owner = {"name": name, "user": user, "app": app, "queue": queue, "weight": weight}
        deadline, wishes = _deadline(due[number][0]), _wishes(*wished[number])
        job = Job(id=job_id, stages=placed, deadline=deadline, wishes=wishes, **owner)
        entry = WorkloadJob(
            job=job,
            submit_ms=submit_ms,
            runtimes=tuple(runtimes[number]),
            am=tuple(am),
            usage=tuple(tuple(use) for use in usages[number][0]),
            apart=apart[number][0] or 1.0,
        )
        _check_entry(entry, len(header.resources))
        entries.append(entry)
    return Workload(
        name=header.name,
        jobs=tuple(entries),
        history=tuple(
            PastJob(
                name=name,
                submitted=submitted,
                finished=finished,
                stages=tuple(zip(tasks, means, strict=True)),
                user=user,
                app=app,
                demand=tuple(demand),
            )
            for name, submitted, finished, tasks, means, user, app, demand in tables["history.parquet"].iter_rows()
        ),
        resources=header.resources,
        source=header.source,
    )


def _deadline(stored: Any) -> int | msgspec.UnsetType:
    return stored if isinstance(stored, int) else msgspec.UNSET


def _wishes(prefer: Any, value: Any, budget_ms: Any) -> Wishes | msgspec.UnsetType:
    if not isinstance(value, float):
        return msgspec.UNSET
    return msgspec.convert({"prefer": prefer, "value": value, "budget_ms": budget_ms}, Wishes)


def _extra(tables: dict[str, pl.DataFrame], name: str, jobs: int) -> list[tuple[Any, ...]]:
    """The rows of a table that may be left out, one per job."""
    rows = tables[name].rows() if name in tables else [((),) * len(_EXTRAS[name])] * jobs
    if len(rows) != jobs:
        raise ValueError(f"{name} has {len(rows)} rows for {jobs} jobs")
    return rows


def _with_edges(above: list[int], stage: int, columns: tuple[Any, ...]) -> tuple[int | Edge, ...]:
    """The parents of a stage, with the edges to those of which more than the index was stored."""
    rows = zip(*columns, strict=True)
    written = {
        row[1]: msgspec.convert(dict(zip(_EDGE_FIELDS, row[1:], strict=True)), Edge) for row in rows if row[0] == stage
    }
    return tuple(written.get(parent, parent) for parent in above)


def _placed(stages: list[Stage], hosts: Sequence[Sequence[Sequence[str]]], gangs: Sequence[int]) -> Iterator[Stage]:
    """Stages with the nodes that their tasks ask for, where anything is said of them, and which start together."""
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
