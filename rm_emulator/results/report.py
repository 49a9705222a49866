"""report.html: one self-contained page on a run. It needs no network, and no server.

plotly.js travels inside the page, compressed; the browser unpacks it. Every chart has the numbers behind
it as a table, which is also what a browser without JavaScript shows.
"""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
import numpy as np
import polars as pl
import yaml

from rm_emulator.files import write_file
from rm_emulator.results import charts, fairness, metrics, planned, sharing, statistics, table
from rm_emulator.results.summary import (
    cell_dir,
    listed_queues,
    read_for_figures,
    read_summary,
    read_table,
)

TASK_COLUMNS: Final = ("job", "stage", "node", "granted_ms", "started_ms", "ended_ms", "pilot", "code")


def write(out_dir: Path) -> Path:
    """Writes `report.html` into a run directory that has a summary.json, and returns its path.

    `workload.json` (the output of `traces describe`) and `scenario.yaml` are shown when they are there.
    Raises summary.MissingCell when the summary or a cell is missing.
    """
    path = out_dir / "report.html"
    write_file(path, render(out_dir))
    return path


def render(out_dir: Path) -> str:
    """The page as text. Raises summary.MissingCell when the summary or a cell is missing."""
    summary = read_summary(out_dir)
    cells = _cells(out_dir, summary)
    shown = [*_charts(summary, cells), *_queue_charts(out_dir, summary, cells), *_plan_charts(out_dir, cells)]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rm_emulator.results"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(number=table.number, times=table.times, interval=table.interval)
    return environment.get_template("report.html.jinja").render(
        summary=summary,
        headline=headline(summary),
        facts=_facts(summary, cells),
        rows=table.rows(summary),
        seeds=len(cells.seeds),
        charts={chart.id: chart for chart in shown},
        figures=_embedded({chart.id: [figure for _, figure in chart.variants] for chart in shown}),
        queues=_queues(summary, cells.labels),
        new_queue=table.new_queue(summary),
        locality=table.locality(summary),
        costs=table.cost_rows(summary),
        workload=_workload(out_dir),
        scenario=_text(out_dir / "scenario.yaml"),
        machine=[_machine(run) for run in summary["runs"]],
        plotly=plotly_compressed(),
    )


def headline(summary: Mapping[str, Any]) -> str:
    """The result in one sentence: the first label against the baseline, by the ratio of means, with its interval.

    Says so when the interval holds 1: then the run does not tell them apart.
    """
    if not summary["comparisons"]:
        label = table.labels(summary)[0]
        mean = table.mean_over_seeds(summary, label, "jct_s", "mean")
        return f"{label} finishes a job in {table.number(mean)} s on average"
    compared = summary["comparisons"][0]
    label, baseline, speedup = compared["label"], compared["baseline"], compared["speedup"]["ratio_of_means"]
    if speedup["value"] is None:
        return f"No job finished under both {label} and {baseline}"
    value, (low, high) = speedup["value"], speedup["ci95"]
    interval = f"95 % CI {low:.2f}\u2013{high:.2f}"
    if low <= 1 <= high:
        undecided = f"This run cannot tell {label} from {baseline}"
        return f"{undecided}: jobs finish {value:.2f}\u00d7 as fast on average ({interval})"
    if value > 1:
        return f"{label} finishes jobs {value:.2f}\u00d7 sooner than {baseline} on average ({interval})"
    inverse = f"95 % CI {1 / high:.2f}\u2013{1 / low:.2f}" if low > 0 else interval
    return f"{label} takes {1 / value:.2f}\u00d7 as long as {baseline} to finish a job on average ({inverse})"


@functools.cache
def plotly_compressed() -> str:
    """plotly.js, deflated, in base64: 2 MB instead of 4.8."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(zlib.compress(get_plotlyjs().encode(), 9)).decode()


def _cells(out_dir: Path, summary: Mapping[str, Any]) -> charts.Cells:
    labels = table.labels(summary)
    seeds = list(dict.fromkeys(run["seed"] for run in summary["runs"]))
    jobs = {
        (label, seed): metrics.timed(read_table(cell_dir(out_dir, label, seed), "jobs"))
        for label in labels
        for seed in seeds
    }

    @functools.cache
    def nodes(label: str) -> pl.DataFrame:
        return read_table(cell_dir(out_dir, label, seeds[0]), "nodes")

    def tasks(label: str) -> pl.DataFrame:
        return read_table(cell_dir(out_dir, label, seeds[0]), "tasks", TASK_COLUMNS)

    return charts.Cells(labels, seeds, jobs, tasks, nodes)


def _charts(summary: Mapping[str, Any], cells: charts.Cells) -> list[charts.Chart]:
    def ratios(label: str) -> charts.Floats:
        pairs = [
            statistics.pair(cells.jobs[summary["baseline"], seed], cells.jobs[label, seed]) for seed in cells.seeds
        ]
        return np.concatenate([pair.ratios for pair in pairs])

    found = (
        charts.speedups(summary, cells.labels),
        charts.jct(cells),
        charts.ratios(cells, summary, ratios),
        charts.wait(cells),
        charts.error(cells),
        charts.placement(summary, cells.labels),
        charts.variation(cells),
        charts.bins(summary, cells.labels),
        charts.utilisation(cells, summary),
        charts.gantt(cells),
    )
    return [chart for chart in found if chart is not None]


def _queue_charts(out_dir: Path, summary: Mapping[str, Any], cells: charts.Cells) -> list[charts.Chart]:
    """Charts of the queues, none for a run with a single one."""
    if all(len(run["queues"]) < 2 for run in summary["runs"]):
        return []
    queues, seed = listed_queues(_spec(out_dir)), cells.seeds[0]
    courses = {}
    for label in cells.labels:
        cell = cell_dir(out_dir, label, seed)
        found = fairness.course(cells.jobs[label, seed], *read_for_figures(cell), queues)
        if found is not None:
            courses[label] = found
    made = [make(courses, summary, seed) for make in (sharing.shares, sharing.states, sharing.jain)]
    return [chart for chart in made if chart is not None]


def _plan_charts(out_dir: Path, cells: charts.Cells) -> list[charts.Chart]:
    """The chart of a plan, none for a run in which nothing was planned."""
    where = {label: cell_dir(out_dir, label, cells.seeds[0]) for label in cells.labels}
    plans = {label: read_table(cell, "plans") for label, cell in where.items() if (cell / "plans.parquet").is_file()}
    made = planned.plan(plans, cells)
    return [] if made is None else [made]


def _spec(out_dir: Path) -> Mapping[str, Any]:
    """The scenario's spec as resolved, {} when the file is absent."""
    text = _text(out_dir / "scenario.yaml")
    found = yaml.load(text, Loader=yaml.CSafeLoader) if text else None
    return found.get("spec", {}) if isinstance(found, dict) else {}


def _facts(summary: Mapping[str, Any], cells: charts.Cells) -> list[tuple[str, str]]:
    first = summary["runs"][0]
    nodes = cells.nodes(cells.labels[0])["node"].n_unique() - 1
    load = table.mean_over_seeds(summary, cells.labels[0], "load")
    found = [
        ("jobs", f"{first['jobs']:,}"),
        ("tasks", f"{first['tasks']:,}"),
        ("nodes", f"{nodes:,}"),
        ("seeds" if len(cells.seeds) > 1 else "seed", str(len(cells.seeds))),
    ]
    return [*found, ("load", table.number(load))] if load is not None else found


def _queues(summary: Mapping[str, Any], labels: list[str]) -> list[dict[str, Any]]:
    """Rows of the table of queues, none when the run has a single queue."""
    names = sorted({name for run in summary["runs"] for name in run["queues"]})
    if len(names) < 2:
        return []
    paths = {"jct": ("jct_s", "mean"), "jct90": ("jct_s", "p90"), "wait": ("wait_s", "mean"), "share": ("share",)}
    of_fairness = ("fair_share_mean", "starved_s", "hungry_s")
    return [
        {
            "queue": name,
            "label": label,
            **{k: table.mean_over_seeds(summary, label, "queues", name, *path) for k, path in paths.items()},
            **{k: table.mean_over_seeds(summary, label, "fairness", "queues", name, k) for k in of_fairness},
        }
        for name in names
        for label in labels
        if all(name in run["queues"] for run in summary["runs"] if run["label"] == label)
    ]


def _machine(run: Mapping[str, Any]) -> dict[str, Any]:
    latency = run.get("decision_us") or {}
    keys = ("label", "seed", "policy", "predictor", "placement", "tie", "decisions", "wall_s", "sim_s", "tasks_per_s")
    found = {key: run.get(key) for key in (*keys, "peak_rss_mb", "log_sha256")}
    return {**found, "p50_us": latency.get("p50"), "p99_us": latency.get("p99")}


def _workload(out_dir: Path) -> dict[str, Any] | None:
    text = _text(out_dir / "workload.json")
    if text is None:
        return None
    found = json.loads(text)
    rows = [(name, found.get(key)) for name, key in (("over time", "cov_time"), ("over space", "cov_space"))]
    return {"verdict": found.get("verdict"), "cov": [(name, row) for name, row in rows if row]}


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def _embedded(data: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
