"""Bytes, lines and columns of trace files, with the line number of every mistake.

Shared by the readers: unpacking within limits, text line by line, comma-separated tables, and the fate of
unreadable rows. A file is never held whole unless its format needs the whole (`read_bytes`).
"""

from __future__ import annotations

import csv
import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from rm_emulator.issues import Issue, Issues, TraceError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

#: The most that is read of one file, unpacked. A packed file may also hold a table that no memory can.
MAX_BYTES: Final = 4 * 2**30
#: No real table packs better than this (zeros do, by 1,000); small files may.
MAX_RATIO: Final = 200
_ANY_RATIO: Final = 16 * 2**20
#: The most rows of one table, and characters of one line (a cell may list the run times of many tasks).
MAX_ROWS: Final = 10_000_000
MAX_LINE: Final = 64 * 2**20
_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 2**20
_SHOWN: Final = 3
_SKIP: Final = "--skip-bad-rows leaves out rows that cannot be read (in a scenario: `options: {skip_bad_rows: true}`)"
#: First bytes of what is packed in other ways than by gzip, once.
_PACKED: Final = {
    b"PK\x03\x04": "a zip archive, or a spreadsheet: take the file out of it, or save the table as CSV",
    b"\x1f\x8b": "gzip inside gzip: unpack it once (gunzip)",
    b"BZh": "packed by bzip2: unpack it (bunzip2), or pack it with gzip",
    b"\xfd7zXZ": "packed by xz: unpack it (unxz), or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "packed by zstd: unpack it (unzstd), or pack it with gzip",
}


def one(path: Path | str, message: str, *, line: int | None = None, hint: str = "") -> TraceError:
    """A TraceError of a single mistake. hint: the nearest valid name, '' when none is near."""
    return TraceError([Issue(str(path), message, line, hint=did_you_mean(hint))])


#: Told after each piece of a file: the file, the bytes read of it as it lies there, its size. None: nobody listens.
listener: ContextVar[Callable[[Path, int, int], None] | None] = ContextVar("listener", default=None)


class _Unpacked(io.RawIOBase):
    """A file's bytes, gzip unpacked (told by its first bytes, not by its name), counted on the way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = opened(path)
        self._size = path.stat().st_size
        packed = self._raw.read(2) == _GZIP
        self._raw.seek(0)
        self._stream: io.BufferedReader | gzip.GzipFile = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        self._packed = packed
        self._total = 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed names a private type
        try:
            data = self._stream.read1(min(len(buffer), _CHUNK))
        except EOFError:
            raise one(
                self._path, f"truncated gzip file ({self._size:,} bytes; the end is missing: fetch it again)"
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise one(self._path, f"damaged gzip file ({error}): fetch it again") from None
        except OSError as error:
            raise one(self._path, f"cannot be read: {error.strerror}") from None
        if not self._total:
            self._refuse_packed(data)
        self._total += len(data)
        self._check()
        if (told := listener.get()) is not None:
            told(self._path, self._raw.tell(), self._size)
        buffer[: len(data)] = data
        return len(data)

    def _refuse_packed(self, begins: bytes) -> None:
        for mark, what in _PACKED.items():
            if begins.startswith(mark):
                raise one(self._path, f"is {what}")

    def _check(self) -> None:
        if self._total > MAX_BYTES:
            raise one(
                self._path, f"holds more than {MAX_BYTES // 2**30} GiB (the most that is read: take a part of it)"
            )
        if self._packed and self._total > _ANY_RATIO and self._total > MAX_RATIO * self._raw.tell():
            raise one(
                self._path,
                f"{self._raw.tell():,} bytes of gzip that hold more than {self._total:,}: no table packs like that "
                f"(unpack it yourself, if you know what it is)",
            )


def opened(path: Path) -> io.BufferedReader:
    """A file's raw bytes. Raises TraceError with a single issue for a missing, irregular or unreadable file."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise one(path, "is a folder; a file is needed")
        if not stat.S_ISREG(mode):
            raise one(path, "is not a regular file (a pipe or device: save what it gives to a file first)")
        return path.open("rb")
    except FileNotFoundError:
        raise one(path, "no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise one(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_bytes(path: Path) -> bytes:
    """The file's content, gzip unpacked.

    Raises TraceError with a single issue for a file that is missing, a folder, empty, unreadable, too large or damaged
    gzip.
    """
    with io.BufferedReader(_Unpacked(path), _CHUNK) as stream:
        data = stream.read()
    if not data.strip():
        raise one(path, "the file is empty")
    return data


def head(path: Path, size: int = 65536) -> bytes:
    """The first bytes, unpacked, up to any damage. Raises TraceError for a file that cannot be opened."""
    with io.BufferedReader(_Unpacked(path), size) as stream:
        return stream.read(size)


def lines(path: Path) -> Iterator[str]:
    """The lines with their ends, line by line, without a byte-order mark.

    Raises TraceError as `read_bytes` does, for a line above MAX_LINE, and for bytes outside UTF-8 (named with their
    line).
    """
    empty = True
    head(path, _ANY_RATIO + _CHUNK)  # damage and what no table packs are told before millions of rows are read
    with io.TextIOWrapper(io.BufferedReader(_Unpacked(path), _CHUNK), encoding="utf-8-sig", newline="") as text:
        try:
            while line := text.readline(MAX_LINE):
                if empty and line.strip():
                    empty = False
                if len(line) >= MAX_LINE:
                    raise one(path, f"a line of more than {MAX_LINE:,} characters (this is no table)")
                yield line
        except UnicodeDecodeError:
            raise _not_text(path) from None
    if empty:
        raise one(path, "the file is empty")


def _not_text(path: Path) -> TraceError:
    """The error that names the line of the first bytes outside UTF-8; reads the file a second time to find the line."""
    with io.BufferedReader(_Unpacked(path), _CHUNK) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return _not_utf8(path, line, error, number)
    return one(path, "not UTF-8 text (save the file as UTF-8)")


def csv_rows(path: Path, delimiter: str = ",", *, quoting: bool = True) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each row with text in it, the header included. Raises TraceError."""
    csv.field_size_limit(MAX_LINE)
    reader = csv.reader(
        lines(path), delimiter=delimiter, strict=True, quoting=csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
    )
    line, rows = 1, 0
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                rows += 1
                if rows > MAX_ROWS:
                    raise one(
                        path, f"more than {MAX_ROWS:,} rows (the most that is read: take a part of it)", line=line
                    )
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise one(path, f"not CSV from here on: {error}", line=line) from None


class BadRow(ValueError):
    """An unreadable row. column: the column at fault, by the trace's own name; hint: the nearest valid value."""

    def __init__(self, message: str, column: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.column, self.hint = column, hint or ""


class BadRows(Issues):
    """The unreadable rows of a trace: raised all at once, or with `skip` left out, counted and named."""

    def __init__(self, path: Path | str = "", *, skip: bool) -> None:
        super().__init__(str(path))
        self.skip = skip
        self._rows: set[tuple[str, int | None]] = set()

    def add(
        self,
        message: str,
        *,
        file: Path | None = None,
        line: int | None = None,
        column: str = "",
        hint: str | None = None,
    ) -> None:
        """Note a mistake of a row; all mistakes of a line count as a single row."""
        super().add(message, file=file, line=line, column=column, hint=hint)
        self._rows.add((str(file or self.file), line))

    def row(self, path: Path, line: int | None, error: BadRow) -> None:
        """Note the error that a row raised."""
        self.add(str(error), file=path, line=line, column=error.column, hint=error.hint)

    def at(self, path: Path | str) -> list[int]:
        """The bad lines of a file, in order."""
        return sorted(line for file, line in self._rows if file == str(path) and line is not None)

    def check(self, *, rows: int = 1, remedy: str = _SKIP) -> None:
        """Raise TraceError for noted mistakes unless bad rows may be left out and some are left (rows: how many)."""
        if not self.skip or rows == 0:
            # A mistake of the first line is that of a header, or of every line.
            some = rows and any(line is not None and line > 1 for _, line in self._rows)
            super().check(remedy=remedy if some else "")

    def notes(self) -> list[str]:
        """The rows left out: their count, and the first three by name."""
        if not self._rows:
            return []
        named = [str(issue).removeprefix(f"{issue.file}:") for issue in self.kept[:_SHOWN]]
        more = f"; and {self.count - _SHOWN:,} more" if self.count > _SHOWN else ""
        return [f"rows left out, they cannot be read: {len(self._rows):,} (line {'; line '.join(named)}{more})"]


def decoded(path: Path, data: bytes) -> str:
    """The text, without a byte-order mark. Raises TraceError with the line of the first bytes outside UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, data, error, data.count(b"\n", 0, error.start) + 1) from None


def _not_utf8(path: Path, data: bytes, error: UnicodeDecodeError, line: int) -> TraceError:
    return one(path, f"byte 0x{data[error.start]:02x} is not UTF-8 text (save the file as UTF-8)", line=line)


def parquet_frame(path: Path, data: bytes) -> pl.DataFrame:
    """The table of a Parquet file. Raises TraceError for a truncated or damaged file."""
    import polars as pl

    try:
        rows = pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item()
        if rows > MAX_ROWS:
            raise one(path, f"{rows:,} rows (the most that is read: {MAX_ROWS:,}; take a part of it)")
        return pl.read_parquet(io.BytesIO(data))
    # The reader panics on some damage, which Python sees as an exception of its own kind.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        text = str(error).partition("\n")[0][:120]
        raise one(path, f"truncated or damaged Parquet file ({text}): write it again") from None


def parquet_rows(path: Path, second: float) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The column names of a Parquet file, and (number of the row from 1, cells as the text of CSV).

    second: time units in a second. Raises TraceError as `parquet_frame`.
    """
    frame = parquet_frame(path, read_bytes(path))
    return frame.columns, (
        (number, [_text(cell, second) for cell in row]) for number, row in enumerate(frame.iter_rows(), start=1)
    )


def _text(cell: Any, second: float) -> str:
    if cell is None:
        return ""
    if isinstance(cell, list):
        return ";".join(_text(part, second) for part in cell)
    if isinstance(cell, timedelta):
        return repr(cell.total_seconds() * second)
    return cell.isoformat() if isinstance(cell, date) else str(cell)


class Column(msgspec.Struct, frozen=True):
    """A column of a trace format: name, meaning, and whether a file needs the column."""

    name: str
    meaning: str
    required: bool = False
    type: Literal["text", "whole", "number"] = "text"
    """How `fixed_table` reads the cells; empty ones are null."""
    ours: str = ""
    """Name of the column in the frame of `fixed_table`; '' for a text that keeps its name."""


def fixed_table(path: Path, columns: tuple[Column, ...], bad: BadRows) -> pl.DataFrame:
    """A comma-separated file of exactly the given columns in order, without quoting, with or without a header line.

    Returns the typed columns and `line`, the 1-based line of each row. Lines with another number of columns and
    cells that are no numbers make bad rows. Raises TraceError for bad rows, unless bad rows are left out.
    """
    import polars as pl

    names = [column.name for column in columns]
    data = read_bytes(path).replace(b"\r\n", b"\n").rstrip(b"\n")
    skip = 1 if names[0].encode() in data.partition(b"\n")[0] else 0
    whole = _of_width(path, data, names, skip, bad)
    bad.check(rows=len(whole))
    if not len(whole):
        raise one(path, "a header line but no rows")
    frame = _text_columns(path, data, names, whole)
    for column in columns:
        if column.type != "text":
            frame = _typed(path, frame, column, bad)
    frame = frame.filter(~pl.col("line").is_in(bad.at(path))) if bad.count else frame
    bad.check(rows=frame.height)
    return frame.rename({column.name: column.ours for column in columns if column.ours})


def _of_width(path: Path, data: bytes, names: list[str], skip: int, bad: BadRows) -> NDArray[np.int64]:
    """The numbers (from 1) of the lines with as many commas as the columns need.

    The raw bytes are counted by numpy, because tables have millions of lines.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.append(np.flatnonzero(raw == ord("\n")), len(raw))
    commas = np.flatnonzero(raw == ord(","))
    counts = np.diff(np.searchsorted(commas, ends), prepend=0)[skip:]
    wanted = len(names)
    for row in np.flatnonzero(counts != wanted - 1).tolist():
        seen = int(counts[row]) + 1
        message = f"{seen} column{'s' if seen > 1 else ''}, but there should be {wanted}: {', '.join(names)}"
        bad.row(path, row + skip + 1, BadRow(message))
    whole: NDArray[np.int64] = np.flatnonzero(counts == wanted - 1) + skip + 1
    return whole


def _text_columns(path: Path, data: bytes, names: list[str], whole: NDArray[np.int64]) -> pl.DataFrame:
    """The cells of the lines `whole` as text; an empty cell is null."""
    import polars as pl

    decoded(path, data)
    data = data.removeprefix(b"\xef\xbb\xbf")
    skip = int(whole[0]) - 1
    # Without bad lines the bytes go to polars as they are; the split below needs several times the memory.
    if len(whole) != whole[-1] - skip or data.count(b"\n") + 1 != whole[-1]:
        every = data.split(b"\n")
        data, skip = b"\n".join([every[line - 1] for line in whole.tolist()]), 0
    frame = pl.read_csv(
        io.BytesIO(data), has_header=False, skip_lines=skip, new_columns=names, infer_schema=False, quote_char=None
    )
    return frame.with_columns(pl.all().str.strip_chars().replace("", None)).insert_column(0, pl.Series("line", whole))


def _typed(path: Path, frame: pl.DataFrame, field: Column, bad: BadRows) -> pl.DataFrame:
    """The frame with a single column as numbers; a whole number may be written '65.0'."""
    import polars as pl

    column = pl.col(field.name)
    number = column.cast(pl.Float64, strict=False)
    good = number.is_not_null() & number.is_finite()
    if field.type == "whole":
        good &= number.round() == number
    large = number.is_finite() & (number.abs() > 10**12)
    good &= ~large
    wrong = frame.filter(column.is_not_null() & ~good.fill_null(value=False)).select(
        "line", field.name, large.fill_null(value=False).alias("large")
    )
    wanted = "a whole number" if field.type == "whole" else "a number"
    for line, value, too_large in wrong.iter_rows():
        bad.row(path, line, BadRow(f"'{value}' is " + ("too large" if too_large else f"not {wanted}"), field.name))
    return frame.with_columns(number.cast(pl.Int64, strict=False) if field.type == "whole" else number)
