"""The comparison of a run's labels, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rm_emulator.results import expect
from rm_emulator.results.contest import USUAL, Contest, figure_name, versus
from rm_emulator.results.figures import BINS, Costs, ExpectationOutcome, Run, Speedup, Speedups, Summary, meaning

NOTHING = "-"
#: So many labels are named one by one in a line of text.
_NAMED = 4
#: So many rows of the table of costs are printed.
_COST_ROWS = 24
#: How the bins and averages of `figures` are called.
BIN_NAMES: Final = {name: name.replace("_", ", ") for name in BINS}
SPEEDUP_NAMES: Final = {
    "ratio_of_means": "ratio of means",
    "mean_of_ratios": "mean of ratios",
    "p50_of_ratios": "median of ratios",
}


class Figure(msgspec.Struct, frozen=True):
    """A column of a comparison: a figure of all labels, in their order, as means over the seeds."""

    heading: str
    rank: int
    """0 always stays; without room the highest rank goes first."""
    values: list[float | None]
    """None for a label without the figure."""
    unit: str
    good: int
    """-1 where lower is better, 1 where higher is better."""
    beside: tuple[str, list[float | None]] | None = None
    """Name and values of a second figure, in small print in the report."""
    meaning: str = ""
    """Explanation of an unclear heading."""

    @property
    def best(self) -> float | None:
        """The best value, None where all are the same."""
        known = {self.good * value for value in self.values if value is not None}
        return self.good * max(known) if len(known) > 1 else None


#: Heading, rank and path of each column.
_FIGURES: Final = (
    ("mean JCT", 0, ("jct_s", "mean")),
    ("conflicts", 1, ("conflict_fraction",)),
    ("busiest", 1, ("busyness",)),
    ("p50", 3, ("jct_s", "p50")),
    ("p90", 4, ("jct_s", "p90")),
    ("mean wait", 2, ("wait_s", "mean")),
    ("in time", 1, ("deadlines", "met")),
    ("failed jobs", 1, ("faults", "failed_jobs")),
    ("lost node s", 5, ("faults", "lost_node_s")),
    ("goodput", 2, ("faults", "goodput")),
    ("ETTR", 2, ("faults", "ettr")),
    ("makespan", 9, ("makespan_s",)),
    ("error p50", 7, ("prediction_error_pct", "p50")),
    ("right queue", 8, ("queue_placement_correct",)),
)
#: What a column's heading means, where that is not plain.
_MEANINGS: Final = {
    "mean JCT": "from submission to the job's end, mean over its jobs",
    "mean wait": "from submission to the first start of a task of the job",
    "conflicts": "attempts with a refused claim, over the jobs that the schedulers placed",
    "busiest": "time spent thinking of the simulated time, of the busiest scheduler",
    "failed jobs": "jobs that failed with a task, in no figure of times",
    "lost node s": "held by attempts that did not succeed, in seconds of a whole node",
    "goodput": "work that was not repeated, of all that was held",
    "ETTR": "effective training time ratio: run times over time from first start to end, of ended jobs of one stage",
    "in time": "jobs that ended by their deadline, of those that have one",
    "makespan": "from the first submission to the last end",
    "error p50": "half of the jobs were sized with a smaller error: |estimated - true| / true total work",
    "right queue": "wide jobs (3 tasks and more) that their estimate puts into the priority queue of their true size",
}
#: What is shown beside a column, and columns that are fractions, shown in percent.
_BESIDE: Final = {"error p50": ("p90", ("prediction_error_pct", "p90"))}
_FRACTIONS: Final = ("right queue", "in time", "busiest", "goodput", "ETTR")


def figures(summary: Summary) -> list[Figure]:
    """The columns of a comparison, without columns empty for all labels; the headline's figure comes first."""
    columns, first = [], expect.keys(summary.headline)
    headings: dict[tuple[str, ...], str] = {path: heading for heading, _, path in _FIGURES}
    listed = [(headings.get(first, figure_name(summary.headline)), 0, first)]
    listed += [(heading, max(rank, 2), path) for heading, rank, path in _FIGURES if path != first]
    for heading, rank, path in listed if summary.headline != USUAL else _FIGURES:
        unit, good = meaning(*path)
        values = _means(summary, path)
        if heading in _FRACTIONS:
            unit, values = "%", [None if value is None else 100 * value for value in values]
        name, other = _BESIDE.get(heading, ("", ()))
        beside = (name, _means(summary, other)) if other else None
        if any(value is not None for value in values):
            columns.append(
                Figure(
                    heading, rank, values, "" if unit == "s" else f" {unit}", good, beside, _MEANINGS.get(heading, "")
                )
            )
    return columns


def _means(summary: Summary, path: Sequence[str]) -> list[float | None]:
    return [summary.mean(label, *path) for label in summary.labels]


def speedups(summary: Summary) -> dict[str, Speedups]:
    """By label, the baseline left out."""
    return {compared.label: compared.speedup for compared in summary.comparisons}


def by_headline(summary: Summary, value: float | None) -> str:
    """A value of the headline's figure to read: fractions in percent, others without their unit."""
    path = expect.keys(summary.headline)
    fraction = any(path == other and heading in _FRACTIONS for heading, _, other in _FIGURES)
    return f"{number(100 * value)} %" if fraction and value is not None else number(value)


def by_difference(summary: Summary, value: float | None, bare: bool = False) -> str:
    """A difference of the headline's figure to read, with its sign: of fractions in points. bare: without the word.

    100 % against 40 % are +60.0 points.
    """
    text = by_headline(summary, value)
    sign = "+" if value is not None and value > 0 else ""
    return sign + (text.replace(" %", "" if bare else " points"))


def differences(summary: Summary) -> dict[str, Contest]:
    """By label, the baseline left out, the difference by the headline's figure; none where that is the mean JCT."""
    others = [] if summary.headline == USUAL else [label for label in summary.labels if label != summary.baseline]
    return {label: versus(summary, label, summary.baseline) for label in others}


def cost_rows(summary: Summary) -> list[tuple[str, str, Costs]]:
    """(queue, label, costs as means over seeds) where some cost is known; none for a run without baselines."""
    names = Costs.__struct_fields__
    rows = [
        (queue, label, Costs(**{name: summary.mean(label, "costs", queue, name) for name in names}))
        for queue in sorted({queue for run in summary.runs for queue in run.costs})
        for label in summary.labels
    ]
    return [row for row in rows if row[2] != Costs()]


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


def percent(value: float | None) -> str:
    """A fraction to read, `12.3 %`."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def interval(speedup: Speedup) -> str:
    """The 95 % interval of a speedup, `[1.20, 1.36]`."""
    return "" if speedup.ci95 is None else "[{:.2f}, {:.2f}]".format(*speedup.ci95)


class TableColumn(msgspec.Struct):
    """rank: as of `Figure`."""

    heading: str
    rank: int
    cells: list[Text]
    justify: Literal["left", "right"] = "right"


def compared(summary: Summary) -> tuple[str, list[TableColumn]]:
    """Title and columns of the table of `run`."""
    return _title(summary), columns(summary)


def comparison(summary: Summary, width: int | None = None) -> Table:
    """The table of `run`. The best of each column is bold; times are in seconds. width: as of `drawn`."""
    return drawn(*compared(summary), width)


def drawn(title: str, columns: Sequence[TableColumn], width: int | None, rows_each: int = 0) -> Table:
    """A table of the columns. rows_each: a line after so many rows, none for 0.

    width: of the terminal in characters; the least important columns are left out until the table fits.
    """
    shown, console = list(columns), Console(width=10_000)
    while True:
        table = _table(title, shown, rows_each)
        least = max(shown, key=lambda column: column.rank)
        if width is None or least.rank == 0 or console.measure(table).maximum <= width:
            return table
        shown.remove(least)


def _table(title: str, columns: Sequence[TableColumn], rows_each: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.heading, justify=column.justify, no_wrap=True)
    for row, cells in enumerate(zip(*(column.cells for column in columns), strict=True), start=1):
        table.add_row(*cells, end_section=rows_each > 0 and row % rows_each == 0)
    return table


def columns(summary: Summary) -> list[TableColumn]:
    """The columns of a comparison of labels."""
    labels = summary.labels
    names = [Text(label, style="bold" if label == summary.baseline else "") for label in labels]
    predictors = [next(summary.of(label)).predictor for label in labels]
    made = [TableColumn("label", 0, names, "left")]
    if any(predictor not in (None, label) for label, predictor in zip(labels, predictors, strict=True)):
        made.append(TableColumn("predictor", 5, [Text(predictor or NOTHING) for predictor in predictors], "left"))
    shown = [TableColumn(figure.heading, figure.rank, _cells(figure)) for figure in figures(summary)]
    made += shown
    if summary.comparisons and summary.headline != USUAL:
        at = len(made) - len(shown) + 1  # behind the headline's figure
        made[at:at] = _differences(summary)
    elif summary.comparisons:
        each = [speedups(summary).get(label) for label in labels]
        intervals = [Text(interval(s.ratio_of_means) if s else "", "dim") for s in each]
        made.append(TableColumn("speedup", 0, [_speedup(s.ratio_of_means) if s else _BASELINE for s in each]))
        made.append(TableColumn("95 % interval", 1, intervals, "left"))
        made.append(TableColumn("median job", 6, [_speedup(s.p50_of_ratios) if s else Text() for s in each]))
    return made


_BASELINE: Final = Text("baseline", style="dim")


def _differences(summary: Summary) -> list[TableColumn]:
    """Difference of each label to the baseline by the headline's figure, and its interval."""
    values, intervals, found = [], [], differences(summary)
    for label in summary.labels:
        against = found.get(label)
        interval = None if against is None else against.interval
        style = "" if against is None else {1: "green", -1: "red", 0: ""}[against.sure]
        values.append(_BASELINE if against is None else Text(by_difference(summary, against.value), style))
        intervals.append(
            Text(
                ""
                if interval is None
                else "[{}, {}]".format(*(by_difference(summary, edge, bare=True) for edge in interval)),
                "dim",
            )
        )
    return [
        TableColumn(f"to {summary.baseline}", 0, values),
        TableColumn("95 % interval", 1, intervals, "left"),
    ]


def _cells(figure: Figure) -> list[Text]:
    best = figure.best
    return [
        Text(NOTHING) if value is None else Text(number(value) + figure.unit, "bold green" if value == best else "")
        for value in figure.values
    ]


def _speedup(speedup: Speedup) -> Text:
    value, ci95 = speedup.value, speedup.ci95
    sure = value is not None and ci95 is not None and (ci95[0] > 1 or ci95[1] < 1)
    return Text(times(value), style=("green" if value and value > 1 else "red") if sure else "")


def on(run: Run) -> str:
    """Resource of the load in brackets, unless the usual resource."""
    return f" ({run.load_resource})" if run.load_resource not in (None, "cpu") else ""


def _title(summary: Summary) -> str:
    first, seeds = summary.runs[0], len(summary.seeds)
    load = summary.mean(first.label, "load")
    parts = [
        f"{counted(summary, 'jobs')} jobs",
        f"{counted(summary, 'tasks')} tasks",
        f"{seeds} seed{'s' if seeds > 1 else ''}",
    ]
    return f"{summary.scenario}: " + ", ".join(parts + ([f"load {load:.2f}{on(first)}"] if load is not None else []))


def counted(summary: Summary, name: Literal["jobs", "tasks"]) -> str:
    """How many jobs or tasks a seed has; lowest and highest where the seeds differ."""
    counts = {getattr(run, name) for run in summary.runs}
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def expectations(summary: Summary) -> Text:
    """A line per expectation with the figures of both sides."""
    text = Text()
    for outcome in summary.expect:
        mark, style = ("holds", "green") if outcome.holds else ("FAILS", "bold red")
        text.append(f"{mark}  ", style=style).append(outcome.text)
        text.append(f"   ({sides(outcome)})\n", style="dim")
    return text


def sides(outcome: ExpectationOutcome) -> str:
    """The figures of both sides of an expectation, or the reason for a side without a value."""
    return outcome.why or f"{number(outcome.left, 4)} against {number(outcome.right, 4)}"


def show(summary: Summary, console: Console) -> None:
    """Prints the comparison, the meaning of the speedups, and the expectations."""
    console.print(comparison(summary, console.width))
    if summary.comparisons:
        how = summary.comparisons[0].interval
        if summary.headline == USUAL:
            note = f"seconds; speedup = mean JCT of {summary.baseline} / mean JCT of the label; interval: {how}"
        else:
            figure, seeds = figure_name(summary.headline), len(summary.seeds)
            how = f"Student's t over {seeds} seeds" if seeds > 1 else "none for one seed"
            note = f"times in seconds; difference of {figure} to {summary.baseline}; interval: {how}"
        console.print(note, style="dim", highlight=False)
    for line in filter(None, (new_queue(summary), locality(summary))):
        console.print(line, style="dim", highlight=False)
    rows_of_costs = cost_rows(summary)
    if rows_of_costs:
        console.print(Text("what sharing costs: mean JCT / mean JCT under the baseline", style="bold"))
        console.print(_cost_table(rows_of_costs))
    if summary.expect:
        console.print(expectations(summary))


def _cost_table(rows: Sequence[tuple[str, str, Costs]]) -> Table:
    left = len(rows) - _COST_ROWS
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    table.caption = f"and {left} more in report.html" if left > 0 else None
    known = [name for name in Costs.__struct_fields__ if any(getattr(costs, name) is not None for _, _, costs in rows)]
    for name in ("queue", "label"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for name in known:
        table.add_column(name, justify="right", no_wrap=True)
    for queue, label, costs in rows[:_COST_ROWS]:
        table.add_row(queue, label, *(times(getattr(costs, name)) for name in known))
    return table


def locality(summary: Summary) -> str:
    """How near to their input tasks ran under each label, in a line; empty without tasks with input on a node."""
    shares = [(label, summary.mean(label, "locality", "node")) for label in summary.labels]
    known = [f"{100 * share:.1f} % ({label})" for label, share in shares if share is not None]
    return f"tasks that ran on a node with their input: {', '.join(known)}" if known else ""


def new_queue(summary: Summary) -> str:
    """Share of an additional queue, in a line; empty for a run with a single queue."""
    if not summary.several_queues:
        return ""
    shares = {label: summary.mean(label, "new_queue", "share") for label in summary.labels}
    known = {label: share for label, share in shares.items() if share is not None}
    if not known:
        return ""
    weight = summary.runs[0].new_queue.weight
    low, high = (f"{100 * share:.1f}" for share in (min(known.values()), max(known.values())))
    if low == high:
        got = f"{low} %"
    elif len(known) <= _NAMED:
        got = ", ".join(f"{100 * share:.1f} % ({label})" for label, share in known.items())
    else:
        got = f"{low} to {high} %, by label"
    return f"a new queue of weight {weight:g} would get at the time of highest load: {got} of the cluster"
