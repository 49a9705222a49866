"""A user's table read column by column, for descriptions of tables with millions of rows.

Only a plain table is read here: CSV without quotes, a row per stage, every cell right. At the first doubt the answer is
None, and the reader goes through the rows one by one, which names every mistake.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.workload.records import MAX_MS, MAX_TASKS
from rm_emulator.workload.stage_table import JOBS, STAGES, ask
from rm_emulator.workload.tables import read_bytes
from schedulers.core.resources import Vector

#: Bytes looked at together for lines of another width.
_BLOCK: Final = 2**24
_TEXTS: Final = {"name": "", "user": "", "app": "", "queue": "default"}
_TIMES: Final = ("tasks", "durations", "mean", "cov", "hint", "weight")
_ISO: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d$"


class PlainTable(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of a plain file, and figures of its rows."""

    jobs: pl.DataFrame
    """As `StageTable.jobs`; arrivals as in the file."""
    stages: pl.DataFrame
    """As `StageTable.stages`; `std` is null for a single run time of several tasks."""
    dates: bool
    """Whether arrivals are dates."""
    demands: Mapping[tuple[str, ...], int]
    """Number of rows by the cells with demands."""


class _Doubt(Exception):
    """The table is not plain."""


def read(
    path: Path,
    positions: Mapping[str, int],
    *,
    delimiter: str,
    decimal: str,
    unit_ms: float,
    asks: Sequence[str],
    resources: Sequence[str],
    demand: Callable[[tuple[str, ...]], Vector | None],
) -> PlainTable | None:
    """The tables of a file; None where the file is not plain.

    positions: place of each known column. unit_ms: milliseconds of a time unit. asks: the columns with demands; demand:
    from their cells to a vector in the order of `resources`, None for a wrong cell.
    """
    try:
        frame = _cells(path, positions, delimiter, recurring={*_TEXTS, *asks})
        if decimal == ",":
            frame = _with_points(frame, {*_TIMES, "submit", *asks}.intersection(frame.columns))
        # Each step takes only the columns that it reads, and drops their text: text takes most of the memory.
        frame = frame.drop(_TIMES, strict=False).hstack(_times(_with_absent(frame, _TIMES), unit_ms))
        vectors, demands = _demands(frame, asks, resources, demand)
        frame = _with_demands(frame, asks, vectors)
        frame = _numbered(frame)
        _check_parents(_with_absent(frame, ("stage", "parents")).select("job", "place", "stage", "parents"))
        jobs, dates = _jobs(_with_absent(frame, (*_TEXTS, "submit")), unit_ms)
    except (_Doubt, pl.exceptions.PolarsError):
        return None
    stages = frame.drop("stage", strict=False).rename({"place": "stage"})
    stages = stages.select(*STAGES, *(pl.col(ask(name)) for name in resources))
    return PlainTable(jobs=jobs, stages=stages, dates=dates, demands=demands)


def _cells(path: Path, positions: Mapping[str, int], delimiter: str, recurring: Set[str]) -> pl.DataFrame:
    """The cells of the known columns as trimmed text; empty cells are null. recurring: columns of few texts."""
    head, _, rest = (
        read_bytes(path).removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b"\n").partition(b"\n")
    )
    width = head.count(delimiter.encode()) + 1
    if not rest or len(delimiter.encode()) > 1 or b'"' in rest or b"\r" in rest or b'"' in head:
        raise _Doubt
    _check_width(rest, delimiter, width)
    names = {place: name for name, place in positions.items()}
    frame = pl.read_csv(
        io.BytesIO(rest),
        has_header=False,
        new_columns=[names.get(place, f"unknown {place}") for place in range(width)],
        columns=sorted(names),
        separator=delimiter,
        quote_char=None,
        infer_schema=False,
    )
    del rest
    for name in frame.columns:  # one after another: text takes most of the memory
        cells = pl.col(name).str.strip_chars().replace("", None)
        frame = frame.with_columns(cells.cast(pl.Categorical) if name in recurring else cells)
    return frame


def _with_points(frame: pl.DataFrame, columns: Set[str]) -> pl.DataFrame:
    """The frame with decimal points in place of decimal commas. Raises _Doubt for a cell with a point."""
    for name in columns:
        text = frame[name].cast(pl.String)
        if text.str.contains(".", literal=True).any():
            raise _Doubt
        frame = frame.with_columns(text.str.replace_all(",", ".", literal=True).cast(frame.schema[name]))
    return frame


def _check_width(rest: bytes, delimiter: str, width: int) -> None:
    """Raise _Doubt unless every line has as many delimiters as the header line."""
    start = 0
    while start < len(rest):
        stop = min(len(rest), rest.rfind(b"\n", start, start + _BLOCK) + 1 or len(rest))
        if start + _BLOCK >= len(rest):
            stop = len(rest)
        raw = np.frombuffer(rest, dtype=np.uint8, count=stop - start, offset=start)
        ends = np.flatnonzero(raw == ord("\n"))
        if stop == len(rest):
            ends = np.append(ends, len(raw))
        marks = np.flatnonzero(raw == ord(delimiter))
        if (np.diff(np.searchsorted(marks, ends), prepend=0) != width - 1).any():
            raise _Doubt
        start = stop


def _demands(
    frame: pl.DataFrame,
    asks: Sequence[str],
    resources: Sequence[str],
    demand: Callable[[tuple[str, ...]], Vector | None],
) -> tuple[pl.DataFrame, dict[tuple[str, ...], int]]:
    """The vector of each set of cells with demands as columns, and the number of its rows."""
    counts = frame.group_by(*asks).len() if asks else pl.DataFrame({"len": [frame.height]})
    vectors, rows = [], {}
    for *texts, count in counts.iter_rows():
        cells = tuple(text or "" for text in texts)
        if (vector := demand(cells)) is None:
            raise _Doubt
        vectors.append(vector)
        rows[cells] = count
    columns = [
        pl.Series(ask(name), each, pl.Int64) for name, each in zip(resources, zip(*vectors, strict=True), strict=True)
    ]
    return counts.drop("len").with_columns(columns) if asks else pl.DataFrame(columns), rows


def _with_demands(frame: pl.DataFrame, asks: Sequence[str], vectors: pl.DataFrame) -> pl.DataFrame:
    """The frame with vectors in place of the cells with demands."""
    if not asks:
        return frame.with_columns(pl.lit(vectors[name][0], pl.Int64).alias(name) for name in vectors.columns)
    cells = frame.select(*asks)
    joined = cells.join(vectors, on=list(asks), how="left", nulls_equal=True, maintain_order="left")
    return frame.drop(*asks).hstack(joined.drop(*asks))


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with jobs numbered by their ids, and stages by their place in the job."""
    if frame["job"].null_count():
        raise _Doubt
    frame = frame.rename({"job": "id"}).with_columns(job=pl.col("id").rank("dense").cast(pl.UInt32) - 1)
    return frame.with_columns(place=pl.int_range(pl.len(), dtype=pl.UInt32).over("job"))


def _with_absent(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The frame with columns of nulls for absent ones."""
    absent = [name for name in names if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)


def _check_parents(frame: pl.DataFrame) -> None:
    """Raise _Doubt unless stages have names of their own, and parents are earlier stages of the job."""
    title = pl.coalesce("stage", pl.col("place").cast(pl.String))
    if frame["stage"].null_count() < frame.height and frame.select("job", title=title).is_duplicated().any():
        raise _Doubt
    below = frame.filter(pl.col("parents").is_not_null())
    if not below.height:
        return
    titles = frame.join(below.select("job").unique(), on="job", how="semi").select("job", "place", title=title)
    text = pl.col("parents")
    parts = pl.when(text.str.contains(";", literal=True)).then(text.str.split(";")).otherwise(text.str.split(" "))
    edges = (
        below.select("job", below="place", title=parts)
        .explode("title")
        .with_columns(pl.col("title").str.strip_chars())
        .filter(pl.col("title") != "")
    )
    found = edges.join(titles, on=["job", "title"], how="left")
    if not found.select((pl.col("place") < pl.col("below")).fill_null(value=False).all()).item():
        raise _Doubt


def _times(frame: pl.DataFrame, unit_ms: float) -> pl.DataFrame:
    """The columns tasks, mean, std and gang by the cells `_TIMES`. Raises _Doubt for a wrong cell."""
    listed = pl.col("durations").str.strip_chars_end("; ").str.split(";")
    ms = listed.list.eval(_in_ms(pl.element().str.strip_chars(), unit_ms).round(mode="half_to_even"))
    count = listed.list.len()
    frame = frame.select(*_TIMES).with_columns(listed=ms, count=count.fill_null(0).cast(pl.Int64))
    frame = frame.drop("durations").with_columns(
        wanted=pl.when(pl.col("tasks").is_null()).then(pl.max_horizontal(1, "count")).otherwise(_number("tasks")),
        drawn=_in_ms(pl.col("mean"), unit_ms),
        spread=pl.when(pl.col("cov").is_null()).then(0.0).otherwise(_number("cov")),
    )
    tasks, single = pl.col("wanted"), pl.col("count") == 1
    right = pl.all_horizontal(
        tasks.is_between(1, MAX_TASKS),
        tasks == tasks.floor(),
        # Either a mean, or durations: one, or one for each task.
        (pl.col("count") == 0) == pl.col("mean").is_not_null(),
        (pl.col("count") <= 1) | (pl.col("count") == tasks),
        pl.col("mean").is_null() | pl.col("drawn").is_not_null(),
        pl.col("listed").list.eval(pl.element().is_null()).list.any().fill_null(value=False).not_(),
        pl.col("cov").is_null() | (pl.col("mean").is_not_null() & pl.col("spread").is_between(0, 1000)),
        pl.col("hint").is_null() | _in_ms(pl.col("hint"), unit_ms).is_not_null(),
        pl.col("weight").is_null() | (_number("weight") > 0),
    )
    if not frame.select(right.fill_null(value=False).all()).item():
        raise _Doubt
    std = (
        pl.when(pl.col("count") > 1)
        .then(pl.col("listed").list.std(ddof=0))
        .when(tasks == 1)
        .then(pl.when(single).then(0.0).otherwise(pl.col("drawn") * pl.col("spread")))
    )
    return frame.select(
        tasks.cast(pl.Int64).alias("tasks"),
        pl.coalesce("drawn", pl.col("listed").list.mean()).alias("mean"),
        std.alias("std"),
        pl.lit(value=False).alias("gang"),
    )


def _number(column: str) -> pl.Expr:
    """A cell as a finite number; null for any other text."""
    number = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _in_ms(text: pl.Expr, unit_ms: float) -> pl.Expr:
    """A duration in ms, at least 1; null for text that is none."""
    ms = text.cast(pl.Float64, strict=False) * unit_ms
    return pl.when(ms.is_between(0, MAX_MS)).then(pl.max_horizontal(ms, 1.0))


def _jobs(frame: pl.DataFrame, unit_ms: float) -> tuple[pl.DataFrame, bool]:
    """Per job in order of its number: the columns `JOBS` and its id; and whether arrivals are dates.

    Raises _Doubt for facts that differ between the rows of a job.
    """
    submit, number = pl.col("submit"), _number("submit") * unit_ms
    known = frame.select(submit.is_not_null().sum()).item()
    dates = known > 0 and frame["submit"].drop_nulls().head(1).str.contains(_ISO)[0]
    if dates:
        text = submit.str.replace(" ", "T", literal=True)
        when = text.str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False).dt.timestamp("ms").cast(pl.Float64)
        number = pl.when(submit.str.contains(_ISO)).then(when)
    number = pl.when(number.abs() <= MAX_MS).then(number.round(mode="half_to_even").cast(pl.Int64))
    frame = frame.select("job", "id", *_TEXTS, submit=number)
    if frame["submit"].drop_nulls().len() != known:
        raise _Doubt
    facts = ("submit", *_TEXTS)
    jobs = frame.group_by("job").agg(
        pl.col("id").first(),
        *(pl.col(fact).drop_nulls().first() for fact in facts),
        *(pl.col(fact).drop_nulls().n_unique().alias(f"different {fact}") for fact in facts),
    )
    if jobs.select((pl.max_horizontal(pl.col(r"^different .*$")) > 1).any()).item():
        raise _Doubt
    texts = (pl.col(name).cast(pl.Categorical).fill_null(usual) for name, usual in _TEXTS.items())
    return jobs.sort("job").select("id", pl.col("submit").fill_null(0), *texts).select("id", *JOBS), dates
