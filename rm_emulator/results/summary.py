"""summary.json: the figures of every cell of a run, the comparisons between labels, the expectations.

Reads `runs/LABEL/SEED/{jobs,tasks,nodes}.parquet`, `jobs.parquet` of the scenario's baselines
(`baselines/NAME/LABEL/SEED`) and `cell.json`, with the fields of `figures.Run` known to the engine alone,
`version` and `workload`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import polars as pl

from rm_emulator.engine.recording import OPTIONAL_COLUMNS
from rm_emulator.files import write_file
from rm_emulator.results import contest, costs, expect, fairness, faults, metrics, statistics, thinking
from rm_emulator.results.figures import ExpectationOutcome, Run, Summary, WorkloadFigures
from rm_emulator.results.record import JOB_SCHEMA, NODE_SCHEMA, TASK_SCHEMA
from schedulers.core.errors import UserError

T = TypeVar("T")

_SCHEMAS: Final = {"jobs": JOB_SCHEMA, "tasks": TASK_SCHEMA, "nodes": NODE_SCHEMA}
#: What the figures need of tasks.parquet, beside the demands.
TASK_COLUMNS: Final = ("job", "stage", "task", "attempt", "node", "granted_ms", "started_ms", "ended_ms", "code")


#: Of tables of many cells: the column with each row's file.
PATH: Final = "path"
#: Columns of tasks.parquet and rows of nodes.parquet that the figures need.
_OF_TASKS: Final = (
    pl.selectors.by_name(*TASK_COLUMNS)
    | pl.selectors.starts_with("demand_")
    | pl.selectors.by_name(PATH, "copy", "useful_ms", require_all=False)
)
_OF_NODES: Final = pl.col("node").is_null() | (pl.col("start_ms") == 0)
#: So many bytes of Parquet files, and so many cells, are read in one pass: bounds memory and open files.
_AT_ONCE_BYTES: Final = 4 * 2**20
_AT_ONCE: Final = 256


class MissingCell(UserError, ValueError):
    """A cell of the run directory has not been computed, or lacks a file."""


def build(out_dir: Path, scenario: Mapping[str, Any]) -> Summary:
    """Computes the summary of a run directory and writes `summary.json` there, seed by seed.

    Of each job its JCTs alone are kept.

    scenario: the resolved scenario as plain data (with or without the `spec` level); its policies, seeds,
        baseline, queue weights and expectations are read.
    Raises MissingCell for a missing cell, expect.ExpectError for an expectation without a value.
    """
    spec = scenario.get("spec", scenario)
    labels, seeds = labels_of(spec, out_dir), seeds_of(spec, out_dir)
    baseline = str(spec.get("baseline") or labels[0])
    if baseline not in labels:
        raise MissingCell(f"baseline '{baseline}' is not a label of this run (it has: {', '.join(labels)})")
    tables = read_cells([cell_dir(out_dir, label, seed) for seed in seeds for label in labels])
    runs, counters = dict[tuple[str, int], Run](), dict[tuple[str, int], Counters]()
    pairs: dict[str, dict[int, statistics.Pairs]] = {label: {} for label in labels if label != baseline}
    for seed in seeds:
        finished = {}
        for label, cell in zip(labels, tables, strict=False):
            known = counters[label, seed] = read_counters(cell_dir(out_dir, label, seed))
            runs[label, seed] = _run(out_dir, spec, (label, seed), cell, known.run)
            finished[label] = statistics.finished(cell.jobs)
        for label, found in pairs.items():
            found[seed] = statistics.matched(finished[baseline], finished[label])
    cells = [(label, seed) for label in labels for seed in seeds]
    summary = Summary(
        scenario=_name(scenario, out_dir),
        version=next(filter(None, (counters[cell].version for cell in cells)), None),
        workload=next(filter(None, (counters[cell].workload for cell in cells)), None),
        baseline=baseline,
        headline=str(spec.get("headline") or contest.USUAL),
        runs=[runs[cell] for cell in cells],
        comparisons=[statistics.compare(label, baseline, found) for label, found in pairs.items()],
    )
    summary = msgspec.structs.replace(summary, expect=_outcomes(summary, spec.get("expect") or ()))
    _write(out_dir, summary)
    return summary


def _outcomes(summary: Summary, texts: Iterable[str]) -> list[ExpectationOutcome]:
    wanted = [expect.parse(text) for text in texts]
    plain = msgspec.to_builtins(summary) if wanted else {}
    return [expect.evaluate(parsed, plain) for parsed in wanted]


def build_sweep(
    out_dir: Path, scenario: Mapping[str, Any], points: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Summary:
    """Computes the summary of every point of a sweep, each in its folder, and of all together, and writes them.

    points: the values of each by path, and its scenario as of `build`. Raises as `build`.
    """
    made = [
        (dict(values), build(out_dir / point_folder(number), at_point))
        for number, (values, at_point) in enumerate(points, start=1)
    ]
    replace, first = msgspec.structs.replace, made[0][1]
    summary = replace(
        first,
        sweep={axis: list(values) for axis, values in scenario["spec"]["sweep"].items()},
        runs=[replace(run, sweep=values) for values, point in made for run in point.runs],
        comparisons=[replace(each, sweep=values) for values, point in made for each in point.comparisons],
        expect=[replace(outcome, sweep=values) for values, point in made for outcome in point.expect],
    )
    _write(out_dir, summary)
    return summary


def _write(out_dir: Path, summary: Summary) -> None:
    # Python writes the numbers, msgspec the lines: many times faster than `json.dumps(..., indent=1)`, and the same.
    text = json.dumps(msgspec.to_builtins(summary), ensure_ascii=False, allow_nan=False)
    write_file(out_dir / "summary.json", msgspec.json.format(text, indent=1) + "\n")


def point_folder(number: int) -> str:
    """Where in a run directory a point of a sweep has its own; the directory itself for 0."""
    return f"points/{number}" if number else ""


def cell_dir(out_dir: Path, label: str, seed: int) -> Path:
    """Folder of a cell."""
    return out_dir / "runs" / label / str(seed)


def references(spec: Mapping[str, Any], out_dir: Path, label: str, seed: int) -> dict[str, pl.DataFrame]:
    """The jobs of each baseline of the scenario. Raises MissingCell."""
    return {name: _read(baseline_dir(out_dir, name, label, seed), "jobs") for name in spec.get("baselines") or ()}


def baseline_dir(out_dir: Path, baseline: str, label: str, seed: int) -> Path:
    """Folder of a baseline's cell; the ideal baseline belongs to all labels."""
    return out_dir / "baselines" / baseline / ("" if baseline == "ideal" else label) / str(seed)


def read_table(cell: Path, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Table `jobs`, `tasks`, `nodes` or `plans` of a cell. Raises MissingCell for an absent or unreadable table."""
    frame = _read(cell, table, columns)
    _check(cell, table, frame.schema, columns)
    return frame


def _check(cell: Path, table: str, schema: pl.Schema, columns: Sequence[str] | None) -> None:
    for name, kind in _SCHEMAS.get(table, {}).items():
        if schema.get(name) != kind and not (columns and name not in columns):
            seen = f"should be {kind}, found {schema.get(name, 'nothing')}"
            raise MissingCell(f"{cell / table}.parquet: column '{name}' {seen}; run the scenario again")


def _read(cell: Path, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A table with any columns: tables of baselines have fewer. Raises MissingCell."""
    path = cell / f"{table}.parquet"
    if not path.is_file():
        raise MissingCell(f"{path}: not there; run the scenario again to compute what is missing")
    with readable(path):
        # A folder's name may have brackets or stars in it.
        return pl.read_parquet(path, columns=list(columns) if columns else None, glob=False)


def optional_columns(cell: Path) -> list[str]:
    """The optional columns (`OPTIONAL_COLUMNS`) present in a cell's tasks.parquet."""
    try:
        there = pl.read_parquet_schema(cell / "tasks.parquet")
    except (pl.exceptions.PolarsError, OSError):
        return []  # that is said when it is read
    return [name for name in OPTIONAL_COLUMNS if name in there]


def read_attempts(cell: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a cell's attempts, without copies in vain and attempts beaten by a copy. Raises MissingCell."""
    if "copy" not in optional_columns(cell):
        return read_table(cell, "tasks", columns)
    wanted = [*columns, *(name for name in ("copy", "task") if name not in columns)]
    return _without_copies(read_table(cell, "tasks", wanted)).select(columns)


def attempts(cell: Path, columns: Sequence[str], *, copies: bool = False) -> metrics.Attempts:
    """As `read_attempts`; of a large file a query, to be read block by block (`metrics.pieces`, `metrics.blocks`).

    copies: whether copies in vain and attempts beaten by a copy stay.
    """
    path = cell / "tasks.parquet"
    if not copies and "copy" in optional_columns(cell):
        return read_attempts(cell, columns)
    if not path.is_file() or path.stat().st_size < _AT_ONCE_BYTES:
        return read_table(cell, "tasks", columns)
    with readable(path):
        rows = pl.scan_parquet(path, glob=False)
        _check(cell, "tasks", rows.collect_schema(), columns)
    return rows.select(columns)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns errors of a Parquet file into MissingCell."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise MissingCell(f"{path}: not a readable Parquet file ({error})") from None


def _counted(tasks: pl.DataFrame) -> pl.DataFrame:
    return _without_copies(tasks) if "copy" in tasks.columns else tasks


def _without_copies(tasks: pl.DataFrame) -> pl.DataFrame:
    """The attempts without copies in vain and attempts beaten by a copy."""
    task = ("job", "stage", "task")
    rows = tasks.with_row_index("row")
    first = rows.filter(pl.col("code") == 0).unique(task, keep="first", maintain_order=True)
    done = first.select(*task, done="ended_ms", was="row")
    late = (pl.col("code") == 0) & (pl.col("row") != pl.col("was"))
    lost = (pl.col("code") != 0) & (pl.col("copy") | (pl.col("ended_ms") >= pl.col("done")).fill_null(value=False))
    return rows.join(done, on=task, how="left", maintain_order="left").filter(~late & ~lost)


def read_for_figures(cell: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tasks of a cell with the columns of the figures, and its nodes. Raises MissingCell."""
    nodes = read_table(cell, "nodes")
    return read_attempts(cell, of_figures(nodes)), nodes


def of_figures(nodes: pl.DataFrame) -> list[str]:
    """Columns of the attempts that the figures need; nodes: of the cell."""
    return [*TASK_COLUMNS, *(f"demand_{name}" for name in nodes["resource"].unique().sort())]


class CellTables(NamedTuple):
    """What the figures need of the tables of a cell."""

    jobs: pl.DataFrame
    """Timed (`metrics.timed`), in order of id."""
    tasks: metrics.Attempts
    """TASK_COLUMNS, the demands, and what checkpoints kept (`attempts`)."""
    nodes: pl.DataFrame
    """All rows of the whole cluster; the first of each node and resource."""


def read_cells(cells: Iterable[Path]) -> Iterator[CellTables]:
    """The tables of each cell, of many small cells in one pass. Raises MissingCell."""
    for some in together(cells):
        tasks: Iterable[metrics.Attempts]
        jobs = _read_each(some, "jobs", lambda rows: metrics.timed(rows.sort("id").collect()))
        nodes = list(_read_each(some, "nodes", lambda rows: rows.filter(_OF_NODES).collect()))
        if len(some) == 1:
            saved = [name for name in optional_columns(some[0]) if name == "useful_ms"]
            tasks = [attempts(some[0], [*of_figures(nodes[0]), *saved])]
        else:
            tasks = map(_counted, _read_each(some, "tasks", lambda rows: rows.select(_OF_TASKS).collect()))
        yield from map(CellTables, jobs, tasks, nodes)


def read_jobs(cells: Iterable[Path], *columns: str) -> Iterator[pl.DataFrame]:
    """Columns of the timed jobs of each cell in order of id, of many small cells in one pass. Raises MissingCell."""

    def timed(rows: pl.LazyFrame) -> pl.DataFrame:
        wanted = pl.selectors.by_name(PATH, require_all=False)
        return rows.with_columns(**metrics.TIMES).sort("id").select(wanted, *columns).collect()

    for some in together(cells):
        yield from _read_each(some, "jobs", timed)


def read_finished(cells: Iterable[Path]) -> Iterator[statistics.FinishedJobs]:
    """The finished jobs of each cell, of many small cells in one pass. Raises MissingCell."""
    return map(statistics.finished, read_jobs(cells, "id", "jct_s", "bin"))


def paired(
    baseline: tuple[Path, str], label: tuple[Path, str], seeds: Sequence[int]
) -> Iterator[tuple[int, statistics.Pairs]]:
    """Each seed with the pairs of two labels, with ids. Raises MissingCell.

    baseline, label: run directory and label.
    """
    sides = (read_finished([cell_dir(out, name, seed) for seed in seeds]) for out, name in (baseline, label))
    for seed, first, second in zip(seeds, *sides, strict=True):
        yield seed, statistics.matched(first, second, with_ids=True)


def together(cells: Iterable[Path]) -> Iterator[list[Path]]:
    """The cells in groups whose files are small enough to be read in one pass."""
    some, size = list[Path](), 0
    for cell in cells:
        of_cell = sum(file.stat().st_size for file in cell.glob("*.parquet"))
        if some and (size + of_cell > _AT_ONCE_BYTES or len(some) == _AT_ONCE):
            yield some
            some, size = [], 0
        some.append(cell)
        size += of_cell
    if some:
        yield some


def scan(cells: Sequence[Path], table: str) -> pl.LazyFrame:
    """A table of several cells in their order, with PATH. Raises PolarsError or OSError, where collected at the latest.

    Callers then read the tables one by one: `read_table` says what is wrong, or columns differ.
    """
    paths = [str(cell / f"{table}.parquet") for cell in cells]
    rows = pl.scan_parquet(paths, glob=False, include_file_paths=PATH)  # a folder's name may have brackets in it
    if not _SCHEMAS[table].items() <= rows.collect_schema().items():
        raise pl.exceptions.SchemaError(table)
    return rows


def _read_each(
    cells: Sequence[Path], table: str, query: Callable[[pl.LazyFrame], pl.DataFrame]
) -> Iterable[pl.DataFrame]:
    """The result of a query of rows and columns, for the table of each cell. Raises MissingCell."""
    try:
        found = query(scan(cells, table))
    except (pl.exceptions.PolarsError, OSError):
        return [query(read_table(cell, table).lazy()) for cell in cells]
    parts = found.partition_by(PATH, as_dict=True, include_key=False)
    paths = (str(cell / f"{table}.parquet") for cell in cells)
    return [parts[path,] if (path,) in parts else found.clear().drop(PATH) for path in paths]


class Counters(msgspec.Struct, frozen=True):
    """The contents of cell.json. run: the engine's own figures."""

    run: Run
    version: str | None
    workload: WorkloadFigures | None


def read_counters(cell: Path) -> Counters:
    """The contents of cell.json. Raises MissingCell for an absent file and for unexpected contents."""
    counters = _read_json(cell / "cell.json", dict[str, Any], "run the scenario again to compute what is missing")
    try:
        workload = msgspec.convert(counters.get("workload"), WorkloadFigures | None)
        return Counters(msgspec.convert(counters, Run), str(counters.get("version") or ""), workload)
    except msgspec.ValidationError as error:
        raise MissingCell(f"{cell / 'cell.json'}: {error}") from None


def read_summary(out_dir: Path) -> Summary:
    """The summary of a finished run. Raises MissingCell when there is none."""
    return _read_json(out_dir / "summary.json", Summary, f"is {out_dir} a run directory?")


def _read_json(path: Path, kind: type[T], hint: str) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise MissingCell(f"{path}: not there; {hint}") from None
    except msgspec.ValidationError as error:
        raise MissingCell(f"{path}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MissingCell(f"{path}: not valid JSON ({error})") from None


def labels_of(spec: Mapping[str, Any], out_dir: Path) -> list[str]:
    """The labels in the scenario's order, or from disk. Raises MissingCell for a run without labels."""
    named = [str(policy.get("label") or policy.get("kind")) for policy in spec.get("policies") or ()]
    labels = named or sorted(path.name for path in (out_dir / "runs").glob("*") if path.is_dir())
    if not labels:
        raise MissingCell(f"{out_dir / 'runs'}: no cells in it")
    return labels


def seeds_of(spec: Mapping[str, Any], out_dir: Path) -> list[int]:
    """The seeds in the scenario's order, or from disk."""
    seeds = {int(path.name) for path in (out_dir / "runs").glob("*/*") if path.name.isdigit()}
    return [int(seed) for seed in spec.get("seeds") or sorted(seeds)]


def queue_weights(spec: Mapping[str, Any]) -> dict[str, float]:
    """Weights of the scenario's queues by name; an unlisted queue weighs 1."""
    return {str(queue["name"]): float(queue.get("weight", 1.0)) for queue in listed_queues(spec) if "name" in queue}


def listed_queues(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The scenario's queues as plain data, from `queues` or from `cluster.queues`."""
    return spec.get("queues") or (spec.get("cluster") or {}).get("queues") or ()


def queue_bounds(spec: Mapping[str, Any], label: str) -> Sequence[float]:
    """Upper bounds (ms of work) of the label's priority queues; the paper's for policies without such queues."""
    policy: Mapping[str, Any] = next((p for p in spec.get("policies") or () if p.get("label") == label), {})
    first, growth, queues = (policy.get(key) for key in ("first_threshold_ms", "growth", "queues"))
    if first is None or growth is None or queues is None:
        return metrics.GS_BOUNDS_MS
    return [first * growth**q for q in range(queues - 1)]


def _name(scenario: Mapping[str, Any], out_dir: Path) -> str:
    metadata = scenario.get("metadata") or {}
    return str(metadata.get("name") or scenario.get("name") or out_dir.name)


def _run(out_dir: Path, spec: Mapping[str, Any], cell: tuple[str, int], tables: CellTables, known: Run) -> Run:
    """The figures of a cell. known: the engine's own figures."""
    (label, seed), (jobs, tasks, nodes) = cell, tables
    weights, bounds_ms = queue_weights(spec), queue_bounds(spec, label)
    figures = metrics.figures(jobs, tasks, nodes, queue_weights=weights, bounds_ms=bounds_ms)
    course = fairness.queue_shares(jobs, tasks, nodes, listed_queues(spec))
    figures |= fairness.figures(course, sorted(figures["queues"]))
    if known.load is not None:
        figures["load"] = known.load
    launching = metrics.launching(jobs, tasks, nodes, known.load_resource)
    if figures["load"] is not None and launching is not None:
        figures["held_load"] = metrics.figure(figures["load"] * launching)
    if (spec.get("cluster") or {}).get("faults"):
        figures["faults"] = faults.figures(jobs, tasks, nodes)
    if (cell_dir(out_dir, label, seed) / "tries.parquet").is_file():
        tries = _read(cell_dir(out_dir, label, seed), "tries")
        figures["schedulers"] = thinkers = thinking.thinkers(tries, jobs, known.sim_s or 0)
        figures |= thinking.together(thinkers)
    compared = costs.costs(jobs, references(spec, out_dir, label, seed))
    return msgspec.structs.replace(known, label=label, seed=seed, **figures, costs=compared)
