"""The comparison of a run's labels, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

NOTHING = "-"
#: So many labels are named one by one in a line of text.
_NAMED = 4
#: So many rows of the table of costs are printed.
_COST_ROWS = 24


_COSTS = ("sharing", "fragmentation", "unfairness")


class LabelFigures(msgspec.Struct, frozen=True):
    """One row of a comparison: figures of one label as means over its seeds, None where they do not apply.

    correct_pct: wide jobs in the GS queue of their true size; speedups: name -> {value, ci95}, None for the baseline.
    """

    label: str
    policy: str
    predictor: str | None
    tie: str | None
    jct_mean: float | None
    jct_p50: float | None
    jct_p90: float | None
    wait_mean: float | None
    makespan: float | None
    error_p50: float | None
    error_p90: float | None
    correct_pct: float | None
    failed_tasks: float | None
    jain: float | None
    speedups: Mapping[str, Any] | None


class CostFigures(msgspec.Struct, frozen=True):
    """What sharing costs one queue under one label (`results.costs`), means over seeds; None: no such baseline."""

    queue: str
    label: str
    sharing: float | None
    fragmentation: float | None
    unfairness: float | None


def mean_over_seeds(summary: Mapping[str, Any], label: str, *path: str) -> float | None:
    """The mean of one figure over the runs of a label; None when it does not apply to one of them."""
    values = []
    for run in summary["runs"]:
        if run["label"] == label:
            value: Any = run
            for key in path:
                value = None if value is None else value.get(key)
            values.append(value)
    if not values or None in values:
        return None
    return math.fsum(values) / len(values)


def labels(summary: Mapping[str, Any]) -> list[str]:
    """The labels in the order of the summary."""
    return list(dict.fromkeys(run["label"] for run in summary["runs"]))


def rows(summary: Mapping[str, Any]) -> list[LabelFigures]:
    """One row per label, in the order of the scenario."""
    compared = {c["label"]: c["speedup"] for c in summary["comparisons"]}
    return [_row(summary, label, compared.get(label)) for label in labels(summary)]


def cost_rows(summary: Mapping[str, Any]) -> list[CostFigures]:
    """One row per queue and label with a cost that is known; none for a run without baselines."""
    found = [
        CostFigures(queue, label, *(mean_over_seeds(summary, label, "costs", queue, cost) for cost in _COSTS))
        for queue in sorted({queue for run in summary["runs"] for queue in run.get("costs") or ()})
        for label in labels(summary)
    ]
    return [row for row in found if any(getattr(row, cost) is not None for cost in _COSTS)]


def _row(summary: Mapping[str, Any], label: str, speedups: Mapping[str, Any] | None) -> LabelFigures:
    run = next(r for r in summary["runs"] if r["label"] == label)

    def figure(*path: str) -> float | None:
        return mean_over_seeds(summary, label, *path)

    correct = figure("queue_placement_correct")
    return LabelFigures(
        label=label,
        policy=run["policy"] or "",
        predictor=run["predictor"],
        tie=run.get("tie"),
        jct_mean=figure("jct_s", "mean"),
        jct_p50=figure("jct_s", "p50"),
        jct_p90=figure("jct_s", "p90"),
        wait_mean=figure("wait_s", "mean"),
        makespan=figure("makespan_s"),
        error_p50=figure("prediction_error_pct", "p50"),
        error_p90=figure("prediction_error_pct", "p90"),
        correct_pct=None if correct is None else 100 * correct,
        failed_tasks=figure("failed_tasks"),
        jain=figure("jain"),
        speedups=speedups,
    )


def number(value: float | None, digits: int = 3) -> str:
    """A figure to read: three significant digits, thousands separated.

    >>> number(1234.5), number(0.01234), number(12.0), number(4e-5), number(None)
    ('1,234', '0.0123', '12.0', '<0.001', '-')
    """
    if value is None:
        return NOTHING
    if 0 < abs(value) < 0.001:
        return "<0.001" if value > 0 else ">-0.001"
    value = float(f"{value:.{digits}g}") if abs(value) < 10**digits else value
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if value == 0:
        return "0"
    return f"{value:.{max(0, digits - 1 - _exponent(value))}f}"


def _exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def times(value: float | None) -> str:
    """A ratio to read, `1.28x`."""
    return NOTHING if value is None else f"{value:.2f}x"


def interval(speedup: Mapping[str, Any]) -> str:
    """The 95 % interval of a speedup, `[1.20, 1.36]`."""
    return "" if speedup["ci95"] is None else "[{:.2f}, {:.2f}]".format(*speedup["ci95"])


def comparison(summary: Mapping[str, Any], width: int | None = None) -> Table:
    """The table that `run` prints. The best of each column is bold; times are in seconds.

    width: of the terminal in characters; the least important columns are left out until the table fits.
    """
    columns = _columns(summary)
    console = Console(width=10_000)
    while True:
        table = _table(summary, columns)
        least = max(columns, key=lambda column: column.rank)
        if width is None or least.rank == 0 or console.measure(table).maximum <= width:
            return table
        columns.remove(least)


class _Column(msgspec.Struct):
    """rank: 0 always stays, the highest goes first when there is no room."""

    heading: str
    rank: int
    cells: list[Text]
    justify: Literal["left", "right"] = "right"


def _table(summary: Mapping[str, Any], columns: Sequence[_Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=_title(summary), title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.heading, justify=column.justify, no_wrap=True)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


def _columns(summary: Mapping[str, Any]) -> list[_Column]:
    found = rows(summary)
    names = [Text(row.label, style="bold" if row.label == summary["baseline"] else "") for row in found]
    columns = [_Column("label", 0, names, "left")]
    if any(row.predictor not in (None, row.label) for row in found):
        columns.append(_Column("predictor", 5, [Text(row.predictor or NOTHING) for row in found], "left"))
    for rank, heading, read, sign in _FIGURES:
        values = [read(row) for row in found]
        if any(value is not None for value in values):
            columns.append(_Column(heading, rank, _cells(values, sign, " %" if heading in _PERCENT else "")))
    if summary["comparisons"]:
        columns.append(_Column("speedup", 0, [_speedup(row, "ratio_of_means") for row in found]))
        columns.append(_Column("95 % interval", 1, [_interval(row, "ratio_of_means") for row in found], "left"))
        columns.append(_Column("median job", 6, [_speedup(row, "p50_of_ratios") for row in found]))
    return columns


Read = Callable[[LabelFigures], float | None]
#: Rank, heading, figure, and which way is better: -1 lower, 1 higher.
_FIGURES: Sequence[tuple[int, str, Read, int]] = (
    (0, "mean JCT", lambda row: row.jct_mean, -1),
    (3, "p50", lambda row: row.jct_p50, -1),
    (4, "p90", lambda row: row.jct_p90, -1),
    (2, "mean wait", lambda row: row.wait_mean, -1),
    (9, "makespan", lambda row: row.makespan, -1),
    (7, "error p50", lambda row: row.error_p50, -1),
    (8, "right queue", lambda row: row.correct_pct, 1),
)
_PERCENT = ("error p50", "right queue")


def _cells(values: Sequence[float | None], sign: int, unit: str) -> list[Text]:
    there = [sign * value for value in values if value is not None]
    best = max(there) if len(set(there)) > 1 else None
    return [
        Text(
            number(value) + (unit if value is not None else ""),
            style="bold green" if value is not None and sign * value == best else "",
        )
        for value in values
    ]


def _speedup(row: LabelFigures, key: str) -> Text:
    if row.speedups is None:
        return Text("baseline" if key == "ratio_of_means" else "", style="dim")
    value, ci95 = row.speedups[key]["value"], row.speedups[key]["ci95"]
    sure = ci95 is not None and (ci95[0] > 1 or ci95[1] < 1)
    return Text(times(value), style=("green" if value > 1 else "red") if sure else "")


def _interval(row: LabelFigures, key: str) -> Text:
    return Text(interval(row.speedups[key]) if row.speedups else "", style="dim")


def _title(summary: Mapping[str, Any]) -> str:
    first = summary["runs"][0]
    seeds = len({run["seed"] for run in summary["runs"]})
    load = mean_over_seeds(summary, first["label"], "load")
    parts = [f"{first['jobs']:,} jobs", f"{first['tasks']:,} tasks", f"{seeds} seed{'s' if seeds > 1 else ''}"]
    return f"{summary['scenario']}: " + ", ".join(parts + ([f"load {load:.2f}"] if load is not None else []))


def expectations(summary: Mapping[str, Any]) -> Text:
    """One line per expectation with the figures of both sides."""
    text = Text()
    for outcome in summary["expect"]:
        mark, style = ("holds", "green") if outcome["holds"] else ("FAILS", "bold red")
        text.append(f"{mark}  ", style=style).append(outcome["text"])
        text.append(f"   ({number(outcome['left'], 4)} against {number(outcome['right'], 4)})\n", style="dim")
    return text


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Prints the comparison, what the speedups mean, and the expectations."""
    console.print(comparison(summary, console.width))
    if summary["comparisons"]:
        how = summary["comparisons"][0]["interval"]
        note = f"seconds; speedup = mean JCT of {summary['baseline']} / mean JCT of the label; interval: {how}"
        console.print(note, style="dim", highlight=False)
    line = new_queue(summary)
    if line:
        console.print(line, style="dim", highlight=False)
    near = locality(summary)
    if near:
        console.print(near, style="dim", highlight=False)
    rows_of_costs = cost_rows(summary)
    if rows_of_costs:
        console.print(Text("what sharing costs: mean JCT / mean JCT under the baseline", style="bold"))
        console.print(_cost_table(rows_of_costs))
    if summary["expect"]:
        console.print(expectations(summary))


def _cost_table(found: Sequence[CostFigures]) -> Table:
    left = len(found) - _COST_ROWS
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    table.caption = f"and {left} more in report.html" if left > 0 else None
    known = [cost for cost in _COSTS if any(getattr(row, cost) is not None for row in found)]
    table.add_column("queue", overflow="ellipsis", no_wrap=True)
    table.add_column("label", overflow="ellipsis", no_wrap=True)
    for cost in known:
        table.add_column(cost, justify="right", no_wrap=True)
    for row in found[:_COST_ROWS]:
        table.add_row(row.queue, row.label, *(times(getattr(row, cost)) for cost in known))
    return table


def locality(summary: Mapping[str, Any]) -> str:
    """How near to their input tasks ran under each label, in one line; nothing when no task has input on a node."""
    found = [(label, mean_over_seeds(summary, label, "locality", "node")) for label in labels(summary)]
    known = [f"{100 * share:.1f} % ({label})" for label, share in found if share is not None]
    return f"tasks that ran on a node with their input: {', '.join(known)}" if known else ""


def new_queue(summary: Mapping[str, Any]) -> str:
    """What one more queue would get, in one line; nothing when the run has a single queue."""
    if all(len(run["queues"]) < 2 for run in summary["runs"]):
        return ""
    shares = {label: mean_over_seeds(summary, label, "new_queue", "share") for label in labels(summary)}
    known = {label: share for label, share in shares.items() if share is not None}
    if not known:
        return ""
    weight = next(run["new_queue"]["weight"] for run in summary["runs"])
    low, high = (f"{100 * share:.1f}" for share in (min(known.values()), max(known.values())))
    if low == high:
        got = f"{low} %"
    elif len(known) <= _NAMED:
        got = ", ".join(f"{100 * share:.1f} % ({label})" for label, share in known.items())
    else:
        got = f"{low} to {high} %, by label"
    return f"a new queue of weight {weight:g} would get at the time of highest load: {got} of the cluster"
