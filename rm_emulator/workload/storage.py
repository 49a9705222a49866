"""Workloads on disk: a folder of Parquet tables and a YAML file on their content.

    workload.yaml     format, name, source, resources, cost of distance from input, notes, counts, facts of
                      the trace (`Contents`), date of time 0, SHA-256 of each file
    jobs.parquet      a row per job, in order of arrival
    history.parquet   a row per earlier run, oldest first
    profiles.json.gz  measured TPC-H durations, where run times refer to them

A row holds its job whole, as JSON in the column `job` (`WorkloadJob`, `PastJob`; defaults are left out), so a field of
a job is stored without further code. The other columns are for queries; `load` does not read them.

A folder is written under another name and renamed once whole, so that a killed run never leaves a folder with the
look of a finished one. Folders of format 1 (`storage_1`) are read as well.
"""

from __future__ import annotations

import hashlib
import io
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import polars as pl
import yaml

from rm_emulator.files import load_yaml, write_file
from rm_emulator.issues import Issues
from rm_emulator.workload import storage_1
from rm_emulator.workload.contents import Contents
from rm_emulator.workload.model import Drawn, PerNode, PerTask, Remote, Waves, Workload, WorkloadJob
from rm_emulator.workload.profiles import TpchProfiles
from rm_emulator.workload.tables import one, parquet_frame
from schedulers.core.errors import SchedulerError
from schedulers.core.model import PastJob, check_job
from schedulers.core.resources import Resources

FORMAT: Final = "rm-emulator workload, version 2"
_YAML: Final = "workload.yaml"
_PROFILES: Final = "profiles.json.gz"
_JOBS: Final = "jobs.parquet"
_HISTORY: Final = "history.parquet"
_MODE: Final = 0o755
T = TypeVar("T")

_TABLES: Final[dict[str, dict[str, Any]]] = {
    _JOBS: {
        "id": pl.String,
        "submit_ms": pl.Int64,
        "name": pl.String,
        "user": pl.String,
        "queue": pl.String,
        "stages": pl.Int64,
        "tasks": pl.Int64,
        "job": pl.String,
    },
    _HISTORY: {"name": pl.String, "submitted": pl.Int64, "finished": pl.Int64, "job": pl.String},
}


class _Counts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expected sizes."""

    jobs: int
    stages: int
    tasks: int
    history: int


class _Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The content of workload.yaml."""

    format: str
    name: str
    source: str
    resources: tuple[str, ...]
    counts: _Counts
    sha256: dict[str, str]
    notes: tuple[str, ...] = ()
    remote: Remote = Remote()
    contents: Contents | None = None
    began: datetime | None = None


def save(
    workload: Workload,
    path: Path | str,
    *,
    profiles: TpchProfiles | None = None,
    notes: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Store a workload as the folder `path`, wholly or not at all.

    `profiles`: the measurements for the workload's `Waves`, stored in the same folder; without profiles, `Waves` refer
    to the built-in summary.
    Raises TraceError for anything but a stored workload at `path`, and for a stored workload unless `overwrite`;
    InvalidJob for a job other than a DAG; ValueError for run times, factors or uses without sense.
    """
    target = Path(path)
    check_target(target, overwrite=overwrite)
    for entry in workload.jobs:
        _check_entry(entry, len(workload.resources))
    for past in workload.history:
        if not all(math.isfinite(mean) for _, mean in past.stages):
            raise ValueError(f"an earlier run of '{past.name}' has mean times that are not finite: {past.stages}")
    files = {
        _JOBS: _packed(_job_rows(workload), _TABLES[_JOBS]),
        _HISTORY: _packed(_history_rows(workload), _TABLES[_HISTORY]),
    }
    if profiles is not None:
        files[_PROFILES] = profiles.to_bytes()
    header = _Header(
        format=FORMAT,
        name=workload.name,
        source=workload.source,
        resources=workload.resources,
        counts=_counts(workload),
        sha256={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        notes=tuple(notes),
        remote=workload.remote,
        contents=workload.contents,
        began=workload.began,
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
        if target.is_symlink():
            raise one(target, "is a link to nothing (choose another name)")
        return
    if not (target.is_dir() and (is_stored(target) or not any(target.iterdir()))):
        raise one(target, "something that is not a stored workload is there already (choose another name)")
    if is_stored(target) and not overwrite:
        raise one(target, "a workload is stored there already (overwrite it, or choose another name)")


def is_stored(path: Path | str) -> bool:
    """Whether `path` is a folder in the form of `save`."""
    return (Path(path) / _YAML).is_file()


def load(path: Path | str) -> Workload:
    """Read a workload written by `save`.

    Raises TraceError with a message per missing, truncated, damaged or edited file, and for wrong counts.
    """
    folder = Path(path)
    header = _header(folder)
    kept = storage_1.columns(header.sha256) if header.format == storage_1.FORMAT else _TABLES
    tables = {name: _table(folder, name, header, columns) for name, columns in kept.items()}
    try:
        workload = _rebuilt(header, tables)
    except (SchedulerError, msgspec.MsgspecError, TypeError, ValueError, IndexError) as error:
        raise one(folder, f"the tables do not make a workload: {error}") from None
    seen = _counts(workload)
    if seen != header.counts:
        raise one(folder, f"it holds {_show(seen)}, but {_YAML} says {_show(header.counts)}")
    return workload


def load_profiles(path: Path | str) -> TpchProfiles | None:
    """The measured durations stored with a workload, or None. Raises TraceError for damaged profiles."""
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
    """Notes on data left out or assumed in the making of the workload. Raises TraceError."""
    return _header(Path(path)).notes


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write in: renamed to `target` at the end of the block, removed on failure.

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
    numbers = [entry.apart]
    for times in entry.runtimes:
        numbers += (times.mean_ms, times.cov) if isinstance(times, Drawn) else ()
        numbers += (times.scale,) if isinstance(times, Waves) else ()
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"job '{entry.job.id}' has times or factors that are not finite: {numbers}")
    if entry.usage:
        _check_usage(entry, resources)


def _misfit(times: PerNode, tasks: int) -> str:
    """The mistake in the form of a matrix of run times, or ""."""
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
    encode = msgspec.json.Encoder().encode
    for entry in workload.jobs:
        job = entry.job
        shown = job.id, entry.submit_ms, job.name, job.user, job.queue, len(job.stages), job.tasks
        yield *shown, encode(entry).decode()


def _history_rows(workload: Workload) -> Iterator[tuple[Any, ...]]:
    encode = msgspec.json.Encoder().encode
    for past in workload.history:
        yield past.name, past.submitted, past.finished, encode(past).decode()


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
    if seen not in (FORMAT, storage_1.FORMAT):
        raise one(path, f"the format is {seen!r} (this version reads '{FORMAT}' and '{storage_1.FORMAT}')")
    try:
        header = msgspec.convert(document, _Header)
        Resources(header.resources)
    except (msgspec.ValidationError, SchedulerError) as error:
        raise one(path, str(error)) from None
    return header


def _checked(folder: Path, name: str, header: _Header) -> bytes:
    """A file's bytes, checked against the hash of the bytes written."""
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


def _rebuilt(header: _Header, tables: Mapping[str, pl.DataFrame]) -> Workload:
    if header.format == storage_1.FORMAT:
        jobs, history = tuple(storage_1.jobs(tables)), tuple(storage_1.history(tables))
    else:
        jobs = tuple(_decoded(tables[_JOBS], WorkloadJob))
        history = tuple(_decoded(tables[_HISTORY], PastJob))
    for entry in jobs:
        _check_entry(entry, len(header.resources))
    return Workload(
        name=header.name,
        jobs=jobs,
        history=history,
        resources=header.resources,
        source=header.source,
        remote=header.remote,
        contents=header.contents,
        began=header.began,
    )


def _decoded(table: pl.DataFrame, what: type[T]) -> Iterator[T]:
    decode = msgspec.json.Decoder(what).decode
    for number, text in enumerate(table["job"], start=1):
        try:
            yield decode(text)
        except msgspec.MsgspecError as error:
            raise ValueError(f"row {number}: {error}") from None
