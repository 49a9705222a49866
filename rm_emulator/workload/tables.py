"""Bytes and columns of trace files, with the line number of everything that is wrong.

Shared by the readers: unpacking, and comma-separated tables of fixed columns.
"""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.issues import Issue, Issues, TraceError, did_you_mean

_GZIP: Final = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """The file's content, unpacked when it is gzip (told by its first bytes, not by its name).

    Raises TraceError with one issue when it is missing, a folder, empty, unreadable or a damaged gzip file.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise one(path, "no such file") from None
    except IsADirectoryError:
        raise one(path, "is a folder; a file is needed") from None
    except OSError as error:
        raise one(path, f"cannot be read: {error.strerror}") from None
    if data[:2] == _GZIP:
        data = _unpacked(path, data)
    if not data.strip():
        raise one(path, "the file is empty")
    return data


def one(path: Path | str, message: str, *, line: int | None = None, hint: str = "") -> TraceError:
    """A TraceError of a single mistake. hint: the nearest valid name, '' when none is near."""
    return TraceError([Issue(str(path), message, line, hint=did_you_mean(hint))])


def _unpacked(path: Path, data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError:
        raise one(path, f"truncated gzip file ({len(data):,} bytes; the end is missing: fetch it again)") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise one(path, f"damaged gzip file ({error}): fetch it again") from None


def decoded(path: Path, data: bytes) -> str:
    """The text, without a byte-order mark. Raises TraceError that names the line when it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise one(
            path, f"byte 0x{data[error.start]:02x} is not UTF-8 text (save the file as UTF-8)", line=line
        ) from None


def parquet_frame(path: Path, data: bytes) -> pl.DataFrame:
    """The table of a Parquet file. Raises TraceError when it is truncated or damaged."""
    try:
        return pl.read_parquet(io.BytesIO(data))
    # The reader panics on some damage, which Python sees as an exception of its own kind.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        text = str(error).partition("\n")[0][:120]
        raise one(path, f"truncated or damaged Parquet file ({text}): write it again") from None


class Field(msgspec.Struct, frozen=True):
    """A column of a fixed table: its name and type ('text', 'whole' or 'number'). Empty cells become null."""

    name: str
    type: str = "text"


def fixed_table(path: Path, fields: tuple[Field, ...], *, header: str) -> pl.DataFrame:
    """A comma-separated file of exactly these columns, in this order, without quoting.

    header: a word found in the first line when that is a header line and not a row.
    Returns the typed columns and `line`, the 1-based line of each row. Raises TraceError for lines with
    another number of columns and for cells that are not numbers.
    """
    data = read_bytes(path).replace(b"\r\n", b"\n")
    issues = Issues(str(path))
    skip = 1 if header.encode() in data.partition(b"\n")[0] else 0
    _check_widths(data, fields, skip, issues)
    issues.check()
    frame = _text_columns(path, data, fields, skip)
    for field in fields:
        if field.type != "text":
            frame = _typed(frame, field, issues)
    issues.check()
    return frame


def _check_widths(data: bytes, fields: tuple[Field, ...], skip: int, issues: Issues) -> None:
    """Every line has as many commas as the columns need. Counted on the raw bytes: millions of lines pass."""
    raw = np.frombuffer(data.rstrip(b"\n"), dtype=np.uint8)
    ends = np.append(np.flatnonzero(raw == ord("\n")), len(raw))
    commas = np.flatnonzero(raw == ord(","))
    counts = np.diff(np.searchsorted(commas, ends), prepend=0)
    wanted = len(fields)
    if skip >= len(ends):
        issues.add("a header line but no rows")
    for row in np.flatnonzero(counts[skip:] != wanted - 1).tolist():
        seen = int(counts[skip + row]) + 1
        issues.add(
            f"{seen} column{'s' if seen > 1 else ''}, but there should be {wanted}: "
            f"{', '.join(field.name for field in fields)}",
            line=row + skip + 1,
        )


def _text_columns(path: Path, data: bytes, fields: tuple[Field, ...], skip: int) -> pl.DataFrame:
    decoded(path, data)
    frame = pl.read_csv(
        io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")),
        has_header=False,
        skip_lines=skip,
        new_columns=[field.name for field in fields],
        infer_schema=False,
        quote_char=None,
    )
    return frame.with_columns(pl.all().str.strip_chars().replace("", None)).with_row_index("line", offset=skip + 1)


def _typed(frame: pl.DataFrame, field: Field, issues: Issues) -> pl.DataFrame:
    """The frame with one column as numbers; a whole number may be written '65.0'."""
    column = pl.col(field.name)
    number = column.cast(pl.Float64, strict=False)
    good = number.is_not_null() & number.is_finite()
    if field.type == "whole":
        good &= number.round() == number
    wrong = frame.filter(column.is_not_null() & ~good.fill_null(value=False)).select("line", field.name)
    wanted = "a whole number" if field.type == "whole" else "a number"
    for line, value in wrong.iter_rows():
        issues.add(f"'{value}' is not {wanted}", line=line, column=field.name)
    return frame.with_columns(number.cast(pl.Int64, strict=False) if field.type == "whole" else number)
