"""summary.json: the figures of every cell of a run, the comparisons between labels, the expectations.

Reads `runs/LABEL/SEED/{jobs,tasks,nodes}.parquet`, `jobs.parquet` of the scenario's baselines
(`baselines/NAME/LABEL/SEED`) and `cell.json`, with the fields of `figures.Run` known to the engine alone,
`version` and `workload`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import polars as pl

from rm_emulator.engine.recording import OPTIONAL_COLUMNS
from rm_emulator.files import load_yaml, write_file
from rm_emulator.results import contest, costs, expect, fairness, metrics, statistics, thinking
from rm_emulator.results.figures import LabelComparison, Run, Summary, WorkloadFigures
from rm_emulator.results.record import JOB_SCHEMA, NODE_SCHEMA, TASK_SCHEMA
from schedulers.core.errors import UserError

T = TypeVar("T")

_SCHEMAS: Final = {"jobs": JOB_SCHEMA, "tasks": TASK_SCHEMA, "nodes": NODE_SCHEMA}
#: What figures need of tasks.parquet, beside the demands; read for each of them, as a million attempts take 100 MB.
USE: Final = ("job", "granted_ms", "started_ms", "ended_ms", "code")
SHARES: Final = ("job", "stage", "task", "attempt", "granted_ms", "ended_ms", "code")
LAUNCHING: Final = ("job", "stage", "node", "granted_ms", "started_ms", "ended_ms", "code")


class MissingCell(UserError, ValueError):
    """A cell of the run directory has not been computed, or lacks a file."""


def build(out_dir: Path, scenario: Mapping[str, Any]) -> Summary:
    """Computes the summary of a run directory and writes `summary.json` there.

    scenario: the resolved scenario as plain data (with or without the `spec` level); its policies, seeds,
        baseline, queue weights and expectations are read.
    Raises MissingCell for a missing cell, expect.ExpectError for an expectation without a value.
    """
    spec = scenario.get("spec", scenario)
    labels, seeds = labels_of(spec, out_dir), seeds_of(spec, out_dir)
    baseline = str(spec.get("baseline") or labels[0])
    if baseline not in labels:
        raise MissingCell(f"baseline '{baseline}' is not a label of this run (it has: {', '.join(labels)})")
    cells = {(label, seed): cell_dir(out_dir, label, seed) for label in labels for seed in seeds}
    jobs = {cell: read_table(place, "jobs") for cell, place in cells.items()}
    counters = {cell: read_counters(place) for cell, place in cells.items()}
    summary = Summary(
        scenario=_name(scenario, out_dir),
        version=next(filter(None, (each.version for each in counters.values())), None),
        workload=next(filter(None, (each.workload for each in counters.values())), None),
        baseline=baseline,
        headline=str(spec.get("headline") or contest.USUAL),
        runs=[_run(out_dir, spec, cell, jobs[cell], counters[cell].run) for cell in cells],
        comparisons=[_compare(jobs, label, baseline, seeds) for label in labels if label != baseline],
    )
    plain = msgspec.to_builtins(summary)
    wanted = [expect.parse(text) for text in spec.get("expect") or ()]
    summary = msgspec.structs.replace(summary, expect=[expect.evaluate(parsed, plain) for parsed in wanted])
    _write(out_dir, summary)
    return summary


def build_sweep(out_dir: Path, scenario: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> Summary:
    """Computes the summary of every point of a sweep, each in its folder, and of all together, and writes them.

    points: the values of each by path. Raises as `build`.
    """
    made = []
    for number, values in enumerate(points, start=1):
        folder = out_dir / point_folder(number)
        made.append((dict(values), build(folder, load_yaml((folder / "scenario.yaml").read_text("utf-8")))))
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
    text = json.dumps(msgspec.to_builtins(summary), indent=1, ensure_ascii=False, allow_nan=False)
    write_file(out_dir / "summary.json", text + "\n")


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
    for name, kind in _SCHEMAS.get(table, {}).items():
        if frame.schema.get(name) != kind and not (columns and name not in columns):
            seen = f"should be {kind}, found {frame.schema.get(name, 'nothing')}"
            raise MissingCell(f"{cell / table}.parquet: column '{name}' {seen}; run the scenario again")
    return frame


def _read(cell: Path, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """A table with any columns: tables of baselines have fewer. Raises MissingCell."""
    path = cell / f"{table}.parquet"
    if not path.is_file():
        raise MissingCell(f"{path}: not there; run the scenario again to compute what is missing")
    try:
        # A folder's name may have brackets or stars in it.
        return pl.read_parquet(path, columns=list(columns) if columns else None, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise MissingCell(f"{path}: not a readable Parquet file ({error})") from None


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
    task = ("job", "stage", "task")
    needed = ("copy", *task, "ended_ms", "code")
    frame = read_table(cell, "tasks", [*columns, *(name for name in needed if name not in columns)])
    rows = frame.with_row_index("row")
    first = rows.filter(pl.col("code") == 0).unique(task, keep="first", maintain_order=True)
    done = first.select(*task, done="ended_ms", was="row")
    late = (pl.col("code") == 0) & (pl.col("row") != pl.col("was"))
    lost = (pl.col("code") != 0) & (pl.col("copy") | (pl.col("ended_ms") >= pl.col("done")).fill_null(value=False))
    kept = rows.join(done, on=task, how="left", maintain_order="left").filter(~late & ~lost)
    return kept.select(columns)


def read_for_figures(cell: Path, columns: Sequence[str], nodes: pl.DataFrame) -> pl.DataFrame:
    """Attempts of a cell with these columns and the demands; nodes: of the cell. Raises MissingCell."""
    demands = [f"demand_{name}" for name in nodes["resource"].unique().sort()]
    return read_attempts(cell, [*columns, *demands])


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


def _run(out_dir: Path, spec: Mapping[str, Any], cell: tuple[str, int], jobs: pl.DataFrame, known: Run) -> Run:
    """The figures of a cell. known: the engine's own figures."""
    label, seed = cell
    place = cell_dir(out_dir, label, seed)
    nodes = read_table(place, "nodes")
    weights, bounds_ms = queue_weights(spec), queue_bounds(spec, label)
    tasks = read_for_figures(place, USE, nodes)
    figures = metrics.figures(jobs, tasks, nodes, queue_weights=weights, bounds_ms=bounds_ms)
    tasks = read_for_figures(place, SHARES, nodes)
    course = fairness.queue_shares(jobs, tasks, nodes, listed_queues(spec))
    figures |= fairness.figures(course, sorted(figures["queues"]))
    if known.load is not None:
        figures["load"] = known.load
    tasks = read_for_figures(place, LAUNCHING, nodes)
    launching = metrics.launching(jobs, tasks, nodes, known.load_resource)
    if figures["load"] is not None and launching is not None:
        figures["held_load"] = metrics.figure(figures["load"] * launching)
    if (place / "tries.parquet").is_file():
        tries = _read(place, "tries")
        figures["schedulers"] = thinkers = thinking.thinkers(tries, jobs, known.sim_s or 0)
        figures |= thinking.together(thinkers)
    compared = costs.costs(jobs, references(spec, out_dir, label, seed))
    return msgspec.structs.replace(known, label=label, seed=seed, **figures, costs=compared)


def _compare(
    jobs: Mapping[tuple[str, int], pl.DataFrame], label: str, baseline: str, seeds: Sequence[int]
) -> LabelComparison:
    pairs = {seed: statistics.pair(jobs[baseline, seed], jobs[label, seed]) for seed in seeds}
    return statistics.compare(label, baseline, pairs)
