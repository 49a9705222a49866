"""A user's own jobs as a table, CSV or Parquet; docs/operate/from-your-own-table.md shows how.

Every cell is checked, and all mistakes are reported at once, each with its line, its column, the value and the
accepted values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
import polars as pl

from rm_emulator.workload import plain_table
from rm_emulator.workload.formats import Column, Contents, TableTrace, Trace, register
from rm_emulator.workload.mapping import UNITS_MS, advice_on_comma, mapped, with_points
from rm_emulator.workload.model import Drawn, Fixed, PerTask, RunTimes, Workload, WorkloadJob
from rm_emulator.workload.records import MAX_MS, MAX_TASKS, RecordParams, arranged, beginning, instant, number, plain
from rm_emulator.workload.stage_table import JOBS, RUNS, StageTable
from rm_emulator.workload.tables import BadRow, BadRows, csv_rows, head, one, parquet_rows
from schedulers.core.errors import InvalidJob, InvalidQuantity, nearest
from schedulers.core.model import Job, Stage, topological_order
from schedulers.core.resources import Resources, Vector, parse_quantity, to_steps

_COLUMNS: Final = (
    Column("job", "id of the job, the same on all rows of the job", required=True),
    Column("name", "recurring name of the job, the same in each run: predictors find earlier runs by this name"),
    Column("user", "user who submits the job"),
    Column("app", "program that the job runs"),
    Column("queue", "queue of the job; 'default' when empty"),
    Column("weight", "weight of the job among the jobs of its queue, above 0; 1 when empty"),
    Column("submit", "arrival: a number in the time unit, or a date and time (UTC without a zone); 0 when empty"),
    Column("stage", "name of the stage, unique in the job; its number from 0 when empty"),
    Column("parents", "stages that must be done before this stage: names or numbers from 0, separated by ';' or space"),
    Column("tasks", "number of tasks; the number of `durations`, or 1, when empty"),
    Column("cpu", "cores of one task: 2, 0.5, 500m; 0 when empty, 1 if the row asks for nothing else"),
    Column("memory", "memory of one task: 4Gi, 512Mi, or a plain number in the memory unit"),
    Column("res:NAME", "another resource of one task, such as res:gpu or res:nvidia.com/gpu; 0 when empty"),
    Column("durations", "one run time for all tasks, or one per task separated by ';'; or give `mean`", required=True),
    Column("mean", "mean run time of the tasks, where single run times are not known"),
    Column("cov", "coefficient of variation of the run times around mean; 0 when empty"),
    Column(
        "distribution",
        "distribution of the run times around mean: lognormal (when empty), gamma, exponential, uniform, normal",
    ),
    Column(
        "hint",
        "run time of a task as the submitter estimates it; some policies use the hint, the emulated run time does not",
    ),
)
_NAMES: Final = tuple(column.name for column in _COLUMNS if column.name != "res:NAME")
_OF_JOB: Final = ("name", "user", "app", "queue", "weight", "submit")
#: A uniform distribution from 0 up has this, an exponential one no other.
_LARGEST_COV: Final = {"uniform": 3**-0.5, "exponential": 1.0}
_DISTRIBUTIONS: Final = ("lognormal", "gamma", "exponential", "uniform", "normal")
_RESOURCE = re.compile(r"res:([A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?)")
_PARQUET: Final = (".parquet", ".pq")
_MIB: Final = 2**20
T = TypeVar("T")
D = TypeVar("D")
#: From a cell and the name of its column to its value; raises BadRow.
_Read = Callable[[str, str], T]


class _Options(RecordParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the reader."""

    time_unit: Annotated[
        Literal["ns", "us", "ms", "s", "min", "h"],
        msgspec.Meta(description="unit of `submit`, `durations`, `mean` and `hint`"),
    ] = "s"
    memory_unit: Annotated[
        Literal["B", "k", "M", "G", "Ki", "Mi", "Gi"],
        msgspec.Meta(description="unit of `memory` in cells without a unit"),
    ] = "B"
    rows: Annotated[
        Literal["stage", "task"],
        msgspec.Meta(description="content of a row: a stage, or one task of a stage with one duration"),
    ] = "stage"
    origin: Annotated[
        Literal["first", "zero"], msgspec.Meta(description="time 0: the first arrival, or the 0 of the column `submit`")
    ] = "first"
    delimiter: Annotated[
        str, msgspec.Meta(min_length=1, max_length=1, description="character between the cells of CSV")
    ] = ","
    decimal: Annotated[
        Literal[".", ","], msgspec.Meta(description="decimal mark of the numbers of CSV; thousands have no separator")
    ] = "."
    ignore: Annotated[tuple[str, ...], msgspec.Meta(description="columns to ignore; * for all unknown columns")] = ()
    map: Annotated[
        dict[str, str],
        msgspec.Meta(description="columns of a foreign table by our names, such as {submit: SubmitTime@ms}"),
    ] = msgspec.field(default_factory=dict)


class _Row(msgspec.Struct, kw_only=True):
    """A row, on a line. Wrong cells (noted) leave a placeholder that is never used."""

    line: int
    stage: str
    parents: str
    tasks: int
    demand: Vector
    runtimes: RunTimes
    hint_ms: int | None


class _Jobs(msgspec.Struct, kw_only=True):
    """The rows of a job."""

    rows: list[_Row]
    facts: dict[str, tuple[Any, int]]
    """Facts of the job as a whole by column, each with the line of the first row that has the fact."""


@register("csv", source="rm-emulator")
class CsvTable:
    """A table of your own, CSV or Parquet: one row per stage (or task) with demands and run times.

    A row is a stage: a number of tasks that ask for the same. A job of one stage needs one row. CSV has a header line;
    columns come in any order, and only `job` and one of `durations` and `mean` are required. `name`, `user`, `app`,
    `queue`, `weight` and `submit` belong to the job: one of its rows has them, or all rows have the same. A row without
    demands asks for one core. A run time below 1 ms counts as 1 ms. A `submit` column has numbers or dates, never both.

    A table carries the facts of its columns. Task times are carried only if every stage with several tasks has one
    duration per task. Arrivals that are dates, or numbers since 1970, give time 0 its date.

    In Parquet, a column may have a date type or a duration type, and `durations` may be a list; mistakes name the row
    (from 1) instead of the line.
    """

    columns = _COLUMNS
    contents = Contents.lacking("gangs")
    Params = _Options

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A header line with job, and durations or mean; or Parquet."""
        names = set(re.split(rb"[,;|\t]", head.partition(b"\n")[0].strip().lower().replace(b" ", b"")))
        return head[:4] == b"PAR1" or (b"job" in names and bool(names & {b"durations", b"mean"}))

    @staticmethod
    def read(path: Path, options: _Options) -> Trace:
        """A job per value of `job`, in order of arrival. gzip is unpacked, Parquet told by its first bytes."""
        issues = BadRows(path, skip=options.skip_bad_rows)
        header, rows = _rows(path, options, issues)
        titles, mapping, notes = {}, {}, []
        if options.map:
            table = mapped(path, header, rows, options.map, ours=_NAMES, unit=options.time_unit, bad=issues)
            header, rows, titles, mapping = table.header, table.rows, table.titles, table.mapping
            notes += [f"columns not used: {', '.join(table.unused)}"] if table.unused else []
        positions = _positions(header, options, issues)
        if issues.count and (issues.skip or "job" not in positions or not {"durations", "mean"} & positions.keys()):
            for _ in rows:  # a damaged file is told before a wrong header
                pass
            issues.check(rows=0)
        cells = _Cells(positions, options, issues, titles)
        jobs = _gathered(rows, len(header), cells, issues)
        if not jobs and not issues.count:
            issues.add("a header but no rows")
        made = list(_jobs(jobs, options, issues))
        issues.check(rows=len(made))
        first = min((entry.submit_ms for entry in made), default=0)
        began = beginning(first, counts_from_first=options.origin == "first")
        ordered = _in_time(made, options, issues)
        workload = Workload(
            name=path.name.partition(".")[0],
            jobs=ordered,
            resources=cells.resources.names,
            source=path.name,
            contents=_contents(positions, *_wide(ordered), dates=cells.dates or began is not None),
            began=began,
        )
        issues.check(rows=len(made))
        return Trace(workload=workload, notes=(*issues.notes(), *notes, *cells.notes()), mapping=mapping)

    @staticmethod
    def table(path: Path, options: _Options) -> TableTrace | None:
        """The tables of `read`, of a CSV file without quotes and mistakes."""
        return _tables(path, options)


def _tables(path: Path, options: _Options) -> TableTrace | None:
    """The tables of a plain CSV file, as of the workload that `CsvTable.read` gives; None for any other file."""
    if options.map or options.rows != "stage" or head(path, 4) == b"PAR1" or path.suffix.lower() in _PARQUET:
        return None
    line, newline, _ = head(path).partition(b"\n")
    if not newline or not line.isascii():
        return None
    titles = line.decode().split(options.delimiter)
    issues = BadRows(path, skip=False)
    positions = _positions(titles, options, issues)
    if issues.count or "distribution" in positions:
        return None
    cells = _Cells(positions, options, issues, {})
    found = plain_table.read(
        path,
        positions,
        delimiter=options.delimiter,
        decimal=options.decimal,
        unit_ms=UNITS_MS[options.time_unit],
        asks=cells.asks,
        resources=cells.resources.names,
        demand=cells.demand_of,
    )
    if found is None:
        return None
    jobs = found.jobs.with_row_index("job").sort("submit", "id").head(options.limit or found.jobs.height)
    earliest = int(jobs["submit"][0])
    if options.origin == "zero" and earliest < 0:
        return None
    first = earliest if options.origin == "first" else 0
    began = beginning(earliest, counts_from_first=options.origin == "first")
    order = jobs.select("job").with_row_index("at")
    stages = found.stages.join(order, on="job").sort("at", "stage")
    stages = stages.with_columns(job="at").drop("at")
    wide = stages.filter(pl.col("tasks") > 1)["std"]
    contents = _contents(positions, len(wide), wide.null_count(), dates=found.dates or began is not None)
    small = sum(rows for texts, rows in found.demands.items() if cells.is_small(texts))
    table = StageTable(
        name=path.name.partition(".")[0],
        source=path.name,
        resources=cells.resources.names,
        contents=contents,
        history=0,
        jobs=jobs.with_columns(pl.col("submit") - first).select(*JOBS),
        stages=stages,
        past=pl.DataFrame(schema=RUNS),
        began=began,
    )
    return TableTrace(table=table, notes=tuple(cells.notes(small)))


def _rows(path: Path, options: _Options, issues: BadRows) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The header's cells, and (line, cells) of each row with text in it."""
    if head(path, 4) == b"PAR1":
        return parquet_rows(path, second=1000 / UNITS_MS[options.time_unit])
    if path.suffix.lower() in _PARQUET:
        raise one(path, "not a Parquet file (it does not begin with PAR1)")
    header, rows = _csv(path, options.delimiter)
    return header, with_points(path, header, rows, options.map, issues) if options.decimal == "," else rows


def _jobs(jobs: dict[str, _Jobs], options: _Options, issues: BadRows) -> Iterator[WorkloadJob]:
    """The jobs; a job of rows that do not fit together is a mistake, and left out where rows may be left out."""
    for job_id, job in jobs.items():
        before = issues.count
        made = _job(job_id, job, options, issues)
        if issues.count == before or not issues.skip:
            yield made


def _csv(path: Path, delimiter: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    rows = csv_rows(path, delimiter)
    _, header = next(rows, (1, []))
    if not header:
        raise one(path, "there is no header line with column names")
    if len(header) == 1:
        marks = [mark for mark in (",", ";", "\t", "|") if mark != delimiter and mark in header[0]]
        if marks:
            seen = f"the cells seem to be separated by {marks[0]!r}, not by {delimiter!r}"
            written = f"'delimiter={marks[0]}'" if marks[0] != "\t" else r"$'delimiter=\t'"
            raise one(path, f"{seen} (set the option delimiter: --option {written})", line=1)
    return header, rows


def _positions(header: list[str], options: _Options, issues: BadRows) -> dict[str, int]:
    """Where each column is, by its name in small letters. Notes unknown, doubled and missing columns."""
    positions: dict[str, int] = {}
    passed = {name.strip().lower() for name in options.ignore}
    for position, title in enumerate(header):
        name = title.strip()
        key = name if _RESOURCE.fullmatch(name) else name.lower()
        if key in positions:
            issues.add("this column is there twice", line=1, column=name)
        elif key in _NAMES or _RESOURCE.fullmatch(key):
            positions[key] = position
        elif key not in passed and "*" not in passed:
            issues.add(
                f"not a known column (known: {', '.join(_NAMES)}, res:NAME; or name it in the option ignore)",
                line=1,
                column=name,
                hint=nearest(key, _NAMES),
            )
    if "job" not in positions:
        issues.add("there is no column 'job'", line=1)
    if "durations" not in positions and "mean" not in positions:
        issues.add("there is no column with run times (durations or mean)", line=1)
    if options.rows == "task" and "tasks" in positions:
        issues.add("with one row per task there is no number of tasks", line=1, column="tasks")
    return positions


def _gathered(rows: Iterable[tuple[int, list[str]]], width: int, cells: _Cells, issues: BadRows) -> dict[str, _Jobs]:
    """The rows of each job, jobs in the file's order, without unreadable rows."""
    jobs: dict[str, _Jobs] = {}
    for line, texts in rows:
        if len(texts) != width:
            issues.add(f"{len(texts)} cells, but the header has {width}", line=line)
            continue
        before = issues.count
        cells.at(line, texts)
        job_id = cells.text("job")
        if not job_id:
            cells.wrong("job", "empty (each row names its job)")
            continue
        job = jobs.get(job_id) or _Jobs(rows=[], facts={})
        _note_facts(job, cells)
        row = cells.row()
        if issues.count == before or not issues.skip:
            jobs[job_id] = job
            job.rows.append(row)
    return jobs


def _note_facts(job: _Jobs, cells: _Cells) -> None:
    """Notes a row's facts of its whole job; empty cells hold no fact, and facts of two rows must be equal."""
    for column, value in cells.facts():
        said, line = job.facts.setdefault(column, (value, cells.line))
        if said != value:
            cells.wrong(column, f"'{cells.text(column)}' differs from what line {line} says of the same job")


class _Cells:
    """Reads the cells of row after row, and notes every mistake."""

    def __init__(
        self, positions: dict[str, int], options: _Options, issues: BadRows, titles: Mapping[str, str]
    ) -> None:
        self._titles = titles
        self._first_submit: tuple[bool, int, str] | None = None  # whether a number, its line, its text
        self._positions = positions
        self._options = options
        self._issues = issues
        self._unit = UNITS_MS[options.time_unit]
        extra = {name[4:]: name for name in positions if name.startswith("res:")}
        self._demand_columns = [name for name in ("cpu", "memory", *extra.values()) if name in positions]
        reads: dict[str, _Read[Any]] = {"weight": _weight, "submit": self._moment}
        # Most tables have few columns of the whole job: absent columns are dropped here, not asked for on every row.
        self._facts = [(column, reads.get(column)) for column in _OF_JOB if column in positions]
        self.resources = Resources().extended(extra)
        self._demands: dict[tuple[str, ...], tuple[Vector, bool]] = {}
        self._texts: list[str] = []
        self._small_memory = 0
        self.line = 0

    @property
    def dates(self) -> bool:
        """Whether the column of submissions has dates, as far as rows were read."""
        return self._first_submit is not None and not self._first_submit[0]

    def at(self, line: int, texts: list[str]) -> None:
        """Go to a row."""
        self.line, self._texts = line, texts

    def text(self, column: str) -> str:
        """The trimmed cell; '' for an absent column."""
        position = self._positions.get(column)
        return "" if position is None else self._texts[position].strip()

    def row(self) -> _Row:
        """The row's stage."""
        listed = self._durations()
        text = self.text("tasks")
        tasks = self._read(_tasks, "tasks", text, 1) if text else max(1, len(listed))
        hint = self.text("hint")
        return _Row(
            line=self.line,
            stage=self.text("stage"),
            parents=self.text("parents"),
            tasks=tasks,
            demand=self._demand(),
            runtimes=self._runtimes(tasks, listed),
            hint_ms=self._read(self._time, "hint", hint, None) if hint else None,
        )

    def facts(self) -> Iterator[tuple[str, Any]]:
        """(column, value) of each filled cell about the whole job."""
        for column, read in self._facts:
            text = self.text(column)
            value = self._read(read, column, text, None) if text and read else text or None
            if value is not None:
                yield column, value

    @property
    def asks(self) -> list[str]:
        """The columns with demands."""
        return self._demand_columns

    def demand_of(self, texts: tuple[str, ...]) -> Vector | None:
        """The demand by its cells; None for a wrong cell."""
        before, row = self._issues.count, [""] * (max(self._positions.values()) + 1)
        for column, text in zip(self._demand_columns, texts, strict=True):
            row[self._positions[column]] = text
        self.at(0, row)
        vector = self._demand()
        return vector if self._issues.count == before else None

    def notes(self, small: int | None = None) -> list[str]:
        """Notes on odd, but valid cells. small: rows with little memory, if they were counted elsewhere."""
        count = self._small_memory if small is None else small
        if not count:
            return []
        return [
            f"rows that ask for less than 1 MiB of memory (plain numbers are in {self._options.memory_unit}, "
            f"option memory_unit): {count:,}"
        ]

    def wrong(self, column: str, message: str, hint: str | None = None) -> None:
        """Note a mistake, by the file's own name of the column."""
        self._issues.add(message, line=self.line, column=self._titles.get(column, column), hint=hint)

    def _read(self, read: _Read[T], column: str, text: str, other: D) -> T | D:
        """The value of a cell by `read`; `other`, and noted, for a BadRow."""
        try:
            return read(text, column)
        except BadRow as error:
            self.wrong(column, f"{error}{advice_on_comma(text)}")
            return other

    def _time(self, text: str, column: str) -> int:
        """A duration in ms, at least 1. Raises BadRow."""
        value = _finite(text, column)
        if value < 0:
            raise BadRow(f"{text} is negative (a duration is 0 or more)")
        return self._bounded(text, max(1.0, value * self._unit))

    def _bounded(self, text: str, ms: float) -> int:
        if abs(ms) > MAX_MS:
            raise BadRow(f"{text} {self._options.time_unit} is too large (is the option time_unit right?)")
        return round(ms)

    def _moment(self, text: str, column: str) -> int:
        """A point in time in ms: a number in the unit, or ISO 8601 (UTC without a zone). Raises BadRow for a mix."""
        is_number = plain(text) is not None
        moment = _finite(text, column) if is_number else instant(text, column)
        first = self._first_submit = self._first_submit or (is_number, self.line, text)
        if first[0] != is_number:
            kinds = ("number", "date") if is_number else ("date", "number")
            raise BadRow(
                f"'{text}' is a {kinds[0]}, line {first[1]} has a {kinds[1]} ('{first[2]}'): one kind per column"
            )
        return self._bounded(text, moment * self._unit) if is_number else round(moment)

    def _durations(self) -> list[int]:
        """The run times listed, in ms; 1 for a wrong run time."""
        parts = [part.strip() for part in self.text("durations").rstrip("; ").split(";")]
        if len(parts) > 1 and "" in parts:
            self.wrong("durations", f"run time {parts.index('') + 1} of {len(parts)} is empty")
        return [self._read(self._time, "durations", part, 1) for part in parts if part]

    def _runtimes(self, tasks: int, listed: list[int]) -> RunTimes:
        mean = self.text("mean")
        if mean and listed:
            self.wrong("mean", "the row has durations too (give one of the two)")
        elif mean and self._options.rows == "task":
            self.wrong("mean", "with one row per task each row has its own duration")
        elif mean:
            return self._drawn(mean)
        elif not listed:
            self.wrong("durations", "empty (give durations, or a mean)")
        for column in ("cov", "distribution"):
            if self.text(column) and not mean:
                self.wrong(column, "only goes with mean")
        if len(listed) == 1:
            return Fixed(listed[0])
        if listed and self._options.rows == "task":
            self.wrong("durations", f"{len(listed)} run times on the row of one task")
        elif listed and len(listed) != tasks:
            self.wrong("durations", f"{len(listed)} run times for {tasks} tasks (give one, or one per task)")
        return PerTask(tuple(listed))

    def _drawn(self, mean: str) -> RunTimes:
        kind, text = self.text("distribution").lower() or "lognormal", self.text("cov") or "0"
        if kind not in _DISTRIBUTIONS:
            message = f"'{kind}' is not a distribution ({', '.join(_DISTRIBUTIONS)})"
            self.wrong("distribution", message, nearest(kind, _DISTRIBUTIONS))
        cov = self._read(_finite, "cov", text, 0.0)
        if cov < 0:
            self.wrong("cov", f"{text} is negative (0 or more)")
        if cov > (most := _LARGEST_COV.get(kind, 1000)) or (kind == "exponential" and cov not in (0, 1)):
            self.wrong("cov", f"{text} is not accepted ({kind}: at most {most:.3f}, exponential: 1)")
        good = self._read(self._time, "mean", mean, None) is not None
        return Drawn(max(1.0, float(mean) * self._unit) if good else 1.0, cov, kind)

    def _demand(self) -> Vector:
        """The demand of a task; 1 CPU for a row without demands."""
        texts = tuple(self.text(column) for column in self._demand_columns)
        # Demands recur from row to row: each set of cells is parsed only on its first row, except for wrong cells,
        # whose mistakes are noted on every row.
        if texts not in self._demands:
            before = self._issues.count
            steps = dict.fromkeys(self.resources.names, 0)
            for column, text in zip(self._demand_columns, texts, strict=True):
                steps[column.removeprefix("res:")] = self._read(self._steps, column, text, 0) if text else 0
            if not any(texts):
                steps["cpu"] = 1000
            elif not any(steps.values()) and self._issues.count == before:
                self.wrong(self._demand_columns[0], "the row asks for nothing (some demand must be above 0)")
            vector = tuple(steps.values())
            if self._issues.count > before:
                return vector
            self._demands[texts] = vector, self.is_small(texts)
        vector, small = self._demands[texts]
        self._small_memory += small
        return vector

    def _steps(self, text: str, column: str) -> int:
        """A demand in the vector's steps, rounded up. Raises BadRow."""
        name = column.removeprefix("res:")
        try:
            rounded = to_steps(name, self._quantity(name, text), round_up=True)
        except InvalidQuantity as error:
            raise BadRow(str(error)) from None
        if rounded > MAX_MS:
            raise BadRow(f"{text} is too large")
        return rounded

    def _quantity(self, name: str, text: str) -> str:
        """The quantity with its unit: a plain number of memory is in the memory unit. Raises InvalidQuantity."""
        if name != "memory" or text[-1].isalpha():
            return text
        return str(math.ceil(parse_quantity(text) * parse_quantity(f"1{self._options.memory_unit.removesuffix('B')}")))

    def is_small(self, texts: tuple[str, ...]) -> bool:
        """Whether the row asks for some memory, but for less than the smallest step."""
        named = dict(zip(self._demand_columns, texts, strict=True)).get("memory", "")
        return bool(named) and 0 < parse_quantity(self._quantity("memory", named)) < _MIB


def _finite(text: str, column: str) -> float:
    return number(text, column, low=-math.inf, high=math.inf)


def _weight(text: str, column: str) -> float:
    weight = _finite(text, column)
    if weight <= 0:
        raise BadRow(f"{text} is not a weight (above 0)")
    return weight


def _tasks(text: str, column: str) -> int:
    tasks = _finite(text, column)
    if tasks != int(tasks) or not 1 <= tasks <= MAX_TASKS:
        raise BadRow(f"{text} is not a number of tasks (a whole number from 1 to {MAX_TASKS:,})")
    return int(tasks)


def _job(job_id: str, job: _Jobs, options: _Options, issues: BadRows) -> WorkloadJob:
    """The job of some rows, its arrival not yet moved to the origin."""
    rows = _one_per_stage(job_id, job.rows, issues) if options.rows == "task" else job.rows
    names = [row.stage or str(index) for index, row in enumerate(rows)]
    if options.rows == "stage":
        _check_unique(job_id, rows, names, issues)
    stages = tuple(
        Stage(
            name=name,
            tasks=row.tasks,
            demand=row.demand,
            parents=_parents(job_id, row, names, issues) if row.parents else (),
            hint_ms=row.hint_ms,
        )
        for row, name in zip(rows, names, strict=True)
    )
    try:
        topological_order(stages)
    except InvalidJob as error:
        issues.add(f"job '{job_id}': {error}", line=_first_stuck(rows, stages).line, column="parents")
    facts = {column: value for column, (value, _) in job.facts.items()}
    submit = facts.pop("submit", 0)
    made = Job(id=job_id, stages=stages, **facts)
    return WorkloadJob(job=made, submit_ms=submit, runtimes=tuple(row.runtimes for row in rows))


def _first_stuck(rows: list[_Row], stages: tuple[Stage, ...]) -> _Row:
    """The first row of a stage in a cycle, or below a cycle."""
    done: set[int] = set()
    while ready := [i for i, stage in enumerate(stages) if i not in done and done.issuperset(stage.above)]:
        done.update(ready)
    return next(row for index, row in enumerate(rows) if index not in done)


def _check_unique(job_id: str, rows: list[_Row], names: list[str], issues: BadRows) -> None:
    """Note stages of equal names."""
    first: dict[str, int] = {}
    for row, name in zip(rows, names, strict=True):
        if name in first:
            issues.add(
                f"job '{job_id}' has a stage '{name}' already, on line {first[name]} "
                "(one row per stage; for one row per task set the option rows)",
                line=row.line,
                column="stage",
            )
        first.setdefault(name, row.line)


def _one_per_stage(job_id: str, rows: list[_Row], issues: BadRows) -> list[_Row]:
    """A row per stage out of a row per task, run times in the order of the rows.

    All tasks of a stage ask for the same; parents may stand on any of their rows.
    """
    stages: dict[str, list[_Row]] = {}
    for row in rows:
        stages.setdefault(row.stage, []).append(row)
    return [_joined(job_id, tasks, issues) for tasks in stages.values()]


def _joined(job_id: str, tasks: list[_Row], issues: BadRows) -> _Row:
    first = tasks[0]
    parents = next((task.parents for task in tasks if task.parents), "")
    for task in tasks:
        where = f"the row of line {first.line}, of the same stage of job '{job_id}'"
        if task.demand != first.demand:
            issues.add(f"asks for other resources than {where}", line=task.line)
        if task.parents not in ("", parents):
            issues.add(f"'{task.parents}' differs from {where}", line=task.line, column="parents")
    times = tuple(task.runtimes.ms for task in tasks if isinstance(task.runtimes, Fixed))
    return msgspec.structs.replace(first, parents=parents, tasks=len(tasks), runtimes=PerTask(times))


def _parents(job_id: str, row: _Row, names: list[str], issues: BadRows) -> tuple[int, ...]:
    """Indexes of the parent stages. A name counts before a number; a cell may be a single name with spaces."""
    separator = ";" if ";" in row.parents else None
    parts = [row.parents] if row.parents in names else row.parents.split(separator)
    parents: set[int] = set()
    for part in filter(None, map(str.strip, parts)):
        if part in names:
            parents.add(names.index(part))
        elif part.isdecimal() and int(part) < len(names):
            parents.add(int(part))
        else:
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            issues.add(
                f"job '{job_id}' has no stage '{part}' (it has: {known})",
                line=row.line,
                column="parents",
                hint=nearest(part, names),
            )
    return tuple(sorted(parents))


def _wide(jobs: Sequence[WorkloadJob]) -> tuple[int, int]:
    """Number of stages with several tasks, and of those with a single run time for all their tasks."""
    wide = [
        times
        for entry in jobs
        for stage, times in zip(entry.job.stages, entry.runtimes, strict=True)
        if stage.tasks > 1
    ]
    return len(wide), sum(not isinstance(times, PerTask) for times in wide)


def _contents(columns: Iterable[str], wide: int, single: int, *, dates: bool) -> Contents:
    """Facts of a table, by its columns and the numbers of `_wide`."""
    found = set(columns)
    lacks = [fact for fact, column in (("user", "user"), ("queue", "queue"), ("dag", "parents")) if column not in found]
    lacks += [] if {"name", "app"} & found else ["recurrence"]
    lacks += [] if any("gpu" in column for column in found) else ["gpu"]
    lacks += [] if dates else ["dates"]
    assumed = {}
    if "cpu" not in found:
        assumed["cpu"] = "A task asks for no core, or for one core if its row asks for nothing else."
    if "memory" not in found:
        assumed["memory"] = "A task asks for no memory."
    if "submit" not in found:
        assumed["submission"] = "All jobs arrive at time 0."
    if single:
        assumed["task_times"] = (
            f"All tasks of a stage take the stage's one duration, or vary around its mean by `cov` "
            f"({single:,} of {wide:,} stages with several tasks)."
        )
    return Contents.lacking("gangs", *lacks, **assumed)


def _in_time(jobs: list[WorkloadJob], options: _Options, issues: BadRows) -> tuple[WorkloadJob, ...]:
    """Jobs by arrival (ties: id), counted from the origin, and only as many as wanted."""
    ordered = arranged(jobs, options.limit, start=None if options.origin == "first" else 0)
    for entry in ordered:
        if entry.submit_ms < 0:
            issues.add(f"job '{entry.job.id}' arrives before time 0 (with the option origin=first it would not)")
    return ordered
