"""Real runs as SLS leaves them: `results/*.csv`, two rows a job, and the memory allocated over time.

Application ids are given in order of submission, and jobs of the same instant race for theirs; so rows are
matched by their start, and jobs with equal starts by their durations in order.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rm_emulator.hadoop.folder import jobs_file, nodes_file
from rm_emulator.hadoop.sls import SlsJob, read_sls, same_starts
from rm_emulator.issues import Issues, TraceError
from rm_emulator.workload.tables import decoded, one, read_bytes

ALLOCATED: Final = "-allocated.csv"
_COLUMNS: Final = ("JobID", "real_start_time", "simulate_start_time", "simulate_end_time")


class MeasuredRun(msgspec.Struct, frozen=True):
    """A run."""

    name: str
    seconds: Mapping[str, float]
    """Job completion time by label of the job."""
    memory_mb: tuple[float, ...] = ()
    """Allocated memory per second of the run."""

    @property
    def mean(self) -> float:
        """Mean job completion time, s."""
        return sum(self.seconds.values()) / len(self.seconds)


def labels(jobs: Sequence[SlsJob]) -> dict[int, list[str]]:
    """Per start in ms the labels of its jobs: the job's id, or all their ids with a rank by duration."""
    starts = {}
    for group in same_starts(jobs):
        ids = [job.id for job in group]
        ranked = [f"{'|'.join(ids)} #{rank}" for rank in range(1, len(ids) + 1)]
        starts[group[0].start_ms] = ids if len(ids) == 1 else ranked
    return starts


def by_label(starts: Mapping[int, list[str]], durations: Iterable[tuple[int, float]]) -> dict[str, float]:
    """(start in ms, duration) pairs under the labels of their jobs.

    Raises ValueError where a start has too many durations or too few.
    """
    groups: dict[int, list[float]] = {start: [] for start in starts}
    for start, seconds in durations:
        if start not in groups:
            raise ValueError(f"a job starts at {start} ms, which no job of the trace does")
        groups[start].append(seconds)
    labelled: dict[str, float] = {}
    for start, names in starts.items():
        if len(groups[start]) != len(names):
            raise ValueError(f"{len(groups[start])} of the {len(names)} jobs that start at {start} ms have ended")
        labelled |= zip(names, sorted(groups[start]), strict=True)
    return labelled


def trace_jobs(folder: Path) -> tuple[SlsJob, ...]:
    """The jobs of an SLS folder. Raises TraceError."""
    return read_sls(jobs_file(folder), nodes_file(folder)).jobs


def result_files(folder: Path) -> list[Path]:
    """The stored runs of a folder, without their curves. Raises TraceError when there is none."""
    results = folder / "results"
    if not results.is_dir():
        raise one(folder, "there is no folder results in it (make real runs with --hadoop N)")
    files = sorted(p for p in results.glob("*.csv") if not p.name.endswith(ALLOCATED))
    if not files:
        raise one(results, "there is no run in it (make real runs with --hadoop N)")
    return files


def read_runs(folder: Path, files: Sequence[Path] | None = None) -> list[MeasuredRun]:
    """The real runs of a folder. Raises TraceError with the mistakes of every file."""
    starts = labels(trace_jobs(folder))
    runs, issues = [], []
    for file in files or result_files(folder):
        try:
            runs.append(_read_run(file, starts))
        except TraceError as error:
            issues += error.issues
    if issues:
        raise TraceError(issues)
    return runs


def _read_run(file: Path, starts: Mapping[int, list[str]]) -> MeasuredRun:
    rows = _rows(file)
    try:
        seconds = by_label(starts, rows.values())
    except ValueError as error:
        raise one(file, str(error)) from None
    curve = file.with_name(file.stem + ALLOCATED)
    return MeasuredRun(file.stem, seconds, read_curve(curve) if curve.is_file() else ())


def _rows(file: Path) -> dict[str, tuple[int, float]]:
    """Per application (start in ms, seconds). The first row counts: SLS writes a second row a beat later."""
    issues, rows = Issues(str(file)), dict[str, tuple[int, float]]()
    for line, row in _table(file, _COLUMNS):
        start, begun, ended = (_whole(row[name]) for name in _COLUMNS[1:])
        if start is None or begun is None or ended is None:
            seen = ", ".join(row[name] for name in _COLUMNS)
            issues.add(f"'{seen}' is not accepted (expected a name and whole numbers of ms)", line=line)
        elif ended < begun:
            issues.add(f"the job ends at {ended}, before it starts at {begun}", line=line)
        else:
            rows.setdefault(row["JobID"], (start, (ended - begun) / 1000))
    issues.check()
    return rows


def _table(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    rows = csv.DictReader(io.StringIO(decoded(file, read_bytes(file))))
    missing = [name for name in columns if name not in (rows.fieldnames or ())]
    if missing:
        raise one(file, f"column {missing[0]} is missing (expected {', '.join(columns)})", line=1)
    for row in rows:
        yield rows.line_num, {name: (row[name] or "").strip() for name in columns}


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def read_curve(file: Path) -> tuple[float, ...]:
    """Allocated MB per second, from the run's first second on; seconds without a row keep the last value."""
    issues, curve = Issues(str(file)), list[float]()
    for line, row in _table(file, ("second", "memory_mb")):
        second, memory = _whole(row["second"]), _whole(row["memory_mb"])
        if second is None or memory is None or not len(curve) <= second < len(curve) + 10**6:
            issues.add("expected whole numbers in second and memory_mb, with rising seconds", line=line)
            continue
        curve += [curve[-1] if curve else 0.0] * (second - len(curve)) + [float(memory)]
    issues.check()
    return tuple(curve)
