"""From the records of a cluster's log to jobs: cells read or refused, times of all sorts, order of arrival.

Shared by the readers of logs with a job, task or event per row.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

from rm_emulator.workload.formats import Trace
from rm_emulator.workload.model import Fixed, PerTask, RunTimes, Workload, WorkloadJob
from rm_emulator.workload.tables import BadRow, BadRows, csv_rows, one, read_bytes
from schedulers.core.errors import InvalidParameters, InvalidQuantity
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Resources, Vector, to_steps

#: Taken for what starts and ends in the same second: the middle of what that can mean.
INSTANT_MS: Final = 500
#: Nothing in a log is longer, or further from its start (30,000 years).
MAX_MS: Final = 10**15
#: Times between these dates (1990 and 2100, ms since 1970) are dates; others count from another moment.
_DATES_MS: Final = (631_152_000_000, 4_102_444_800_000)
MAX_TASKS: Final = 10_000_000
_CLOCK: Final = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,8}):)?(\d{1,8}):(\d{1,2}(?:\.\d+)?)")
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Quantities = Mapping[str, str | int | float]
#: A row's cell by the name of its column.
Cell = Callable[[str], str]
R = TypeVar("R")
T = TypeVar("T")


class RecordParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of every reader of records."""

    limit: Annotated[
        AtLeastOne | None, msgspec.Meta(description="number of jobs to read, the first by arrival; null: all")
    ] = None
    skip_bad_rows: Annotated[
        bool,
        msgspec.Meta(description="unreadable rows are left out, counted and named; otherwise the file is refused"),
    ] = False


class LogParams(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the readers whose logs say how a job ended."""

    only_completed: Annotated[
        bool,
        msgspec.Meta(description="jobs that failed, were killed or timed out are left out; otherwise they are read"),
    ] = False


# -- cells ----------------------------------------------------------------------------------------


def number(text: str, column: str, *, low: float = 0, high: float = MAX_MS) -> float:
    """A finite number between the bounds. Raises BadRow."""
    value = plain(text)
    if value is None:
        raise BadRow(f"'{shown(text)}' is not a number", column)
    if not math.isfinite(value):
        raise BadRow(f"'{shown(text)}' is not a finite number", column)
    if value < low:
        raise BadRow(f"{shown(text)} is " + ("negative" if low == 0 else f"below {low:g}"), column)
    if value > high:
        raise BadRow(f"{shown(text)} is too large (at most {high:g})", column)
    return value


def plain(text: str) -> float | None:
    """The number in a text, None for other text, and for the numbers of Python alone (1_000, ٣)."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def whole(text: str, column: str, *, low: float = 0, high: float = MAX_MS) -> int:
    """A whole number between the bounds; '65.0' is accepted. Raises BadRow."""
    # Nearly every cell is plain digits: this path needs no float and no search for the reason of a refusal.
    if text.isascii() and text.isdecimal() and len(text) < 16:
        value = int(text)
        if low <= value <= high:
            return value
    quantity = number(text, column, low=low, high=high)
    if quantity != int(quantity):
        raise BadRow(f"'{shown(text)}' is not a whole number", column)
    return int(quantity)


def clock(text: str, column: str) -> float:
    """Seconds of a duration `D-HH:MM:SS`, `HH:MM:SS`, `MM:SS` or of a plain number. Raises BadRow."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        try:
            return number(text, column)
        except BadRow:
            raise BadRow(f"'{shown(text)}' is not a duration such as 1-02:03:04", column) from None
    days, hours, minutes, seconds = match.groups()
    return int(days or 0) * 86400 + int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)


def instant(text: str, column: str) -> float:
    """Milliseconds since 1970 of an ISO 8601 date and time (UTC without a zone), or of seconds. Raises BadRow."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        try:
            return number(text, column) * 1000
        except BadRow:
            raise BadRow(
                f"'{shown(text)}' is neither a number nor a time such as 2024-01-31T10:00:00", column
            ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000


def date_of(since_1970_ms: float) -> datetime | None:
    """The date of a time in ms since 1970, in UTC; None for a time that no cluster's log can have."""
    low, high = _DATES_MS
    return datetime.fromtimestamp(since_1970_ms / 1000, UTC) if low <= since_1970_ms < high else None


def beginning(first_ms: int, *, counts_from_first: bool) -> datetime | None:
    """The date of time 0 of arrivals that are ms since 1970, None for arrivals without a date."""
    arrived = date_of(first_ms)
    return arrived if counts_from_first or arrived is None else datetime.fromtimestamp(0, UTC)


def steps(name: str, quantity: str | int | float | Fraction, column: str) -> int:
    """A demand in the vector's steps, rounded up. Raises BadRow."""
    if isinstance(quantity, Fraction):
        quantity = str(float(quantity))
    try:
        rounded = to_steps(name, quantity, round_up=True)
    except InvalidQuantity as error:
        raise BadRow(str(error), column) from None
    if rounded > MAX_MS:
        raise BadRow(f"{shown(str(quantity))} is too large", column)
    return rounded


def machine_steps(options: RecordParams, *names: str) -> tuple[int, ...]:
    """A machine's capacity of each resource in steps, by the settings `machine_NAME`. Raises InvalidParameters."""
    sizes = []
    for name in names:
        try:
            sizes.append(to_steps(name, getattr(options, f"machine_{name}"), round_up=False))
        except InvalidQuantity as error:
            raise InvalidParameters(f"machine_{name}: {error}") from None
    return tuple(sizes)


def part_of(fraction: float, size: int) -> int:
    """A fraction of a machine's steps, rounded up, at least 1: a request of nothing counts as a step, too."""
    return max(1, -int(-Fraction(fraction) * size // 1))


def shown(text: str, limit: int = 40) -> str:
    """A cell as messages show cells: cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def table(
    path: Path, needed: Iterable[str | tuple[str, ...]], bad: BadRows, delimiter: str = ",", *, quoting: bool = True
) -> Iterator[tuple[int, Cell]]:
    """(line, cell by the column's name) of each row below a header line; letters of either case, trimmed.

    needed: names of required columns; a tuple holds alternatives. A cell of an absent column is ''. Rows of another
    width are bad. Raises TraceError.
    """
    rows = csv_rows(path, delimiter, quoting=quoting)
    _, header = next(rows, (1, []))
    at = _columns(header, needed, path)
    current: list[str] = []

    def cell(name: str) -> str:
        place = at.get(name.lower())
        return "" if place is None else current[place].strip()

    line = 1
    for line, current in rows:
        if len(current) == len(header):
            yield line, cell
        else:
            bad.row(path, line, BadRow(f"{len(current)} cells, but the header has {len(header)}"))
    if line == 1:
        raise one(path, "a header but no rows")


def _columns(header: Sequence[str], needed: Iterable[str | tuple[str, ...]], path: Path) -> dict[str, int]:
    """Where each column is, by its name in small letters."""
    positions: dict[str, int] = {}
    for position, title in enumerate(header):
        positions.setdefault(title.strip().lower(), position)
    for names in needed:
        either = (names,) if isinstance(names, str) else names
        if not any(name.lower() in positions for name in either):
            titles = ", ".join(title.strip() for title in header[:20])
            wanted = " or ".join(f"'{name}'" for name in either)
            raise one(path, f"there is no column {wanted} (the header line has: {shown(titles) or 'nothing'})", line=1)
    return positions


def items(path: Path, *keys: str) -> list[msgspec.Raw]:
    """The entries of a JSON document's list, each still to be decoded; [] for null. keys: the path of the list.

    Raises TraceError for text other than JSON, and for a path without a list.
    """
    document: msgspec.Raw | bytes = read_bytes(path)
    where = ".".join(keys)
    try:
        for key in keys:
            inside = msgspec.json.decode(document, type=dict[str, msgspec.Raw] | None)
            if inside is None:
                return []
            if key not in inside:
                raise one(path, f"there is no '{key}' in it (a list at {where} is needed)")
            document = inside[key]
        return msgspec.json.decode(document, type=list[msgspec.Raw] | None) or []
    except msgspec.ValidationError as error:
        raise one(path, f"there is no list at {where}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise one(path, f"not JSON, or cut off: {error}") from None


def item(raw: msgspec.Raw, kind: type[T]) -> T:
    """An entry, decoded. Raises BadRow with the name of the field."""
    try:
        return msgspec.json.decode(raw, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message, _, where = str(error).partition(" - at `$.")
        raise BadRow(message, where.rstrip("`")) from None


# -- jobs -----------------------------------------------------------------------------------------


class Log:
    """A log on its way to jobs: unreadable rows, and counts of rows left out or assumed, each with its sentence.

    line: the line of the current row.
    """

    def __init__(self, path: Path, options: RecordParams) -> None:
        self.path, self.bad = path, BadRows(skip=options.skip_bad_rows)
        self.line: int | None = None
        self._limit = options.limit
        self._counts: Counter[str] = Counter()
        self._first: dict[str, int | None] = {}

    def each(
        self, rows: Iterable[tuple[int | None, R]], read: Callable[[R], T | None], file: Path | None = None
    ) -> list[T]:
        """The results of `read` for each (line, row), without None; rows refused with BadRow are bad rows."""
        made = []
        for self.line, row in rows:
            try:
                one_made = read(row)
            except BadRow as error:
                self.bad.row(file or self.path, self.line, error)
            else:
                if one_made is not None:
                    made.append(one_made)
        return made

    def once(self, what: str, key: str, column: str) -> None:
        """Raises BadRow for the key of an earlier row, and names the earlier line."""
        first = self._first.setdefault(key, self.line)
        if first != self.line:
            raise BadRow(f"{what} '{shown(key)}' is there already, on line {first}", column)

    def count(self, sentence: str, count: int = 1) -> None:
        """Raise the count of a sentence."""
        self._counts[sentence] += count

    def trace(
        self,
        entries: Sequence[WorkloadJob],
        *,
        source: str,
        assumed: Sequence[str],
        resources: Resources | None = None,
        epoch_ms: float | None = None,
    ) -> Trace:
        """A reader's trace: jobs in order of arrival, and notes on rows left out (in order of mention) and assumptions.

        epoch_ms: time 0 of the log in ms since 1970, None where nobody knows.
        Raises TraceError for bad rows unless bad rows are left out, and for a trace without a job.
        """
        self.bad.check(rows=len(entries))
        counted = (f"{sentence}: {count:,}" for sentence, count in self._counts.items() if count)
        notes = [*self.bad.notes(), *counted]
        if not entries:
            raise one(self.path, "no job is left" + (f" ({'; '.join(notes)})" if notes else " (there is none in it)"))
        workload = Workload(
            name=self.path.name.partition(".")[0] or "trace",
            jobs=arranged(entries, self._limit),
            resources=(resources or Resources()).names,
            source=source,
            began=None if epoch_ms is None else date_of(epoch_ms + min(entry.submit_ms for entry in entries)),
        )
        return Trace(workload=workload, notes=(*notes, *assumed))


def runtimes(ms: Sequence[int]) -> RunTimes:
    """Run times of single tasks, in ms; a single value for all where all are equal."""
    return Fixed(ms[0]) if min(ms) == max(ms) else PerTask(tuple(ms))


def to_ms(seconds: float) -> int:
    """A run time in ms; a run time of 0, below the log's resolution, counts as INSTANT_MS."""
    return max(1, round(seconds * 1000)) if seconds > 0 else INSTANT_MS


def demand(resources: Resources, quantities: Quantities, column: str) -> Vector:
    """A vector of named quantities, rounded up; an empty demand becomes a core."""
    vector = tuple(steps(name, quantities.get(name, 0), column) for name in resources.names)
    return vector if any(vector) else (1000, *vector[1:])


def entry(job: Job, submit_ms: float, times: Sequence[RunTimes]) -> WorkloadJob:
    """A job that arrives at a time of its log; `Log.trace` moves the first arrival to 0."""
    return WorkloadJob(job=job, submit_ms=round(submit_ms), runtimes=tuple(times))


def distinct(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages of a job; stages of equal names have their number behind the name."""
    names = Counter(stage.name for stage in stages)
    return tuple(
        stage if names[stage.name] == 1 else msgspec.structs.replace(stage, name=f"{stage.name}-{number}")
        for number, stage in enumerate(stages)
    )


def single(name: str, tasks: int, demand: Vector, *, hint_ms: int | None = None, gang: bool = False) -> tuple[Stage]:
    """The stages of a job with a single stage."""
    return (Stage(name=name, tasks=tasks, demand=demand, hint_ms=hint_ms, gang=gang and tasks > 1),)


def arranged(entries: Iterable[WorkloadJob], limit: int | None, *, start: int | None = None) -> tuple[WorkloadJob, ...]:
    """Jobs by arrival (ties: id), as many as wanted, the first at 0 unless the `start` of time is given."""
    ordered = sorted(entries, key=lambda entry: (entry.submit_ms, entry.job.id))[:limit]
    if start is None:
        start = ordered[0].submit_ms if ordered else 0
    return tuple(msgspec.structs.replace(entry, submit_ms=entry.submit_ms - start) for entry in ordered)
