"""The charts of the report, as plain data for plotly.js, each with the table of numbers behind it.

Colours are names of CSS variables (`$s0` to `$s7`, `$ink`, `$faint`): the page fills them in for its
light or dark theme. Nothing here draws; every function maps tables to a `Chart`, or to None when the
run has nothing to show for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from rm_emulator.results.metrics import BINS, whole_cluster
from rm_emulator.results.perfetto import lanes
from rm_emulator.results.table import interval, mean_over_seeds, number, times

Floats = npt.NDArray[np.float64]
Figure = dict[str, Any]

SERIES: Final = 8
DASHES: Final = ("solid", "solid", "solid", "solid", "dash", "dash", "dash", "dash")
#: Points of one curve, lanes and slices of one Gantt chart: beyond these a screen shows no difference.
CURVE_POINTS: Final = 300
GANTT_LANES: Final = 32
GANTT_SLICES: Final = 4000
SPEEDUP_NAMES: Final = {
    "ratio_of_means": "ratio of means",
    "mean_of_ratios": "mean of ratios",
    "p50_of_ratios": "median of ratios",
}
BIN_NAMES: Final = {
    "thin_small": "thin, small",
    "wide_small": "wide, small",
    "thin_large": "thin, large",
    "wide_large": "wide, large",
}


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart of the page.

    id: of its element; alt: what it shows, for those who do not see it; caption: how to read it.
    variants: (name, figure); with more than one the page shows a selector called `choose`.
    head, rows: the numbers behind it; tall: height in pixels.
    """

    id: str
    title: str
    alt: str
    caption: str
    variants: tuple[tuple[str, Figure], ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    choose: str = ""
    tall: int = 340


class Cells(msgspec.Struct, frozen=True):
    """What a run's cells hold, label by label in the scenario's order.

    jobs: (label, seed) -> the timed jobs. tasks, nodes: a reader of the table of one label's first seed.
    """

    labels: list[str]
    seeds: list[int]
    jobs: Mapping[tuple[str, int], pl.DataFrame]
    tasks: Callable[[str], pl.DataFrame]
    nodes: Callable[[str], pl.DataFrame]

    def pooled(self, label: str, column: str) -> Floats:
        """One column of a label's jobs over all seeds, nulls left out, ascending."""
        parts = [self.jobs[label, seed][column].drop_nulls().to_numpy() for seed in self.seeds]
        return np.sort(np.concatenate(parts).astype(np.float64))


def colour(index: int) -> str:
    """The series colour of the label with this index."""
    return f"$s{index % SERIES}"


def speedups(summary: Mapping[str, Any], labels: Sequence[str]) -> Chart | None:
    """The three average speedups of every label with their intervals."""
    compared = summary["comparisons"]
    if not compared:
        return None
    data, rows = [], []
    symbols = dict(zip(SPEEDUP_NAMES, ("circle", "diamond", "square"), strict=True))
    for place, found in enumerate(compared):
        for offset, (key, name) in enumerate(SPEEDUP_NAMES.items()):
            speedup = found["speedup"][key]
            if speedup["value"] is not None:
                tint = colour(list(labels).index(found["label"]))
                y = place + 0.22 * (offset - 1)
                data.append(_whisker(speedup, y, f"{found['label']}, {name}", {"color": tint, "symbol": symbols[key]}))
                rows.append((found["label"], name, times(speedup["value"]), interval(speedup)))
    keys = [
        {**_whisker(None, 0.0, name, {"color": "$ink", "symbol": symbols[key]}), "showlegend": True}
        for key, name in SPEEDUP_NAMES.items()
    ]
    layout = {
        "xaxis": {"title": {"text": f"speedup over {summary['baseline']}"}, "ticksuffix": "x", "rangemode": "tozero"},
        "yaxis": {
            "tickvals": list(range(len(compared))),
            "ticktext": [found["label"] for found in compared],
            "range": [len(compared) - 0.5, -0.5],
            "showgrid": False,
            "automargin": True,
        },
        "shapes": [_line(x0=1, x1=1, yref="paper", y0=0, y1=1)],
        "hovermode": "closest",
    }
    return Chart(
        id="speedups",
        title=f"How much sooner than {summary['baseline']}?",
        alt=f"Speedup of each label over {summary['baseline']} with 95 percent intervals",
        caption="Right of the line: jobs finish sooner. Bars are 95 % intervals. The three averages answer different "
        "questions; where they disagree, look at the ratio of each job below.",
        variants=(("", {"data": keys + data, "layout": layout}),),
        head=("label", "average", "speedup", "95 % interval"),
        rows=tuple(rows),
        tall=130 + 64 * len(compared),
    )


def jct(cells: Cells) -> Chart | None:
    """Distribution of the job completion time."""
    return _distribution(
        cells,
        "jct_s",
        name="jct",
        title="Job completion time",
        axis="completion time (s)",
        caption="Share of jobs that finished within the time on the axis; further left is better. Logarithmic axis.",
    )


def wait(cells: Cells) -> Chart | None:
    """Distribution of the wait for the first task."""
    return _distribution(
        cells,
        "wait_s",
        name="wait",
        title="Waiting time",
        axis="wait until the first task starts (s)",
        caption="Share of jobs whose first task started within the time on the axis. Jobs that start at once are the "
        "height of the curve at its left end.",
        floor=0.1,
    )


def error(cells: Cells) -> Chart | None:
    """Distribution of the prediction error."""
    return _distribution(
        cells,
        "error_pct",
        name="error",
        title="Prediction error",
        axis="|estimated - true| / true size (%)",
        caption="Share of sized jobs whose total work was estimated with at most the error on the axis. Further left "
        "is better.",
        floor=0.1,
    )


def _distribution(
    cells: Cells, column: str, *, name: str, title: str, axis: str, caption: str, floor: float = 0.001
) -> Chart | None:
    data, rows = [], []
    reach = (np.inf, 0.0)
    for index, label in enumerate(cells.labels):
        values = cells.pooled(label, column)
        if len(values) == 0:
            continue
        x, y = _curve(np.maximum(values, floor))
        reach = (min(reach[0], x[0]), max(reach[1], x[-1]))
        line = {"color": colour(index), "width": 2.2, "dash": DASHES[index % SERIES]}
        data.append(_trace(label, x, y, line, "%{x:.3~s}: %{y:.0%} of jobs"))
        figures = [values.mean(), *np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9, 0.99])]
        rows.append((label, f"{len(values):,}", *(number(float(v)) for v in figures)))
    if not data:
        return None
    layout = {
        "xaxis": _log_axis(axis, *reach),
        "yaxis": {"tickformat": ".0%", "range": [0, 1.01]},
        "hovermode": "x unified",
    }
    return Chart(
        id=name,
        title=title,
        alt=f"Cumulative distribution: {title.lower()}, one curve per label",
        caption=caption,
        variants=(("", {"data": data, "layout": layout}),),
        head=("label", "jobs", "mean", "p10", "p25", "p50", "p75", "p90", "p99"),
        rows=tuple(rows),
    )


def ratios(cells: Cells, summary: Mapping[str, Any], of: Callable[[str], Floats]) -> Chart | None:
    """Distribution of the per-job ratio. of: label -> the ratios of all jobs and seeds."""
    data, rows = [], []
    reach = (np.inf, 0.0)
    for compared in summary["comparisons"]:
        label, index = compared["label"], cells.labels.index(compared["label"])
        values = np.sort(of(label))
        if len(values) == 0:
            continue
        x, y = _curve(values)
        reach = (min(reach[0], x[0]), max(reach[1], x[-1]))
        line = {"color": colour(index), "width": 2.2, "dash": DASHES[index % SERIES]}
        data.append(_trace(label, x, y, line, "%{x:.2f}x: %{y:.0%} of jobs gain less"))
        quantiles = [number(q) for q in compared["ratio_quantiles"].values()]
        sides = [f"{100 * compared[key]:.0f} %" for key in ("jobs_faster", "jobs_slower")]
        rows.append((label, *sides, *quantiles))
    if not data:
        return None
    layout = {
        "xaxis": _log_axis(f"JCT under {summary['baseline']} / JCT of the same job", *reach),
        "yaxis": {"tickformat": ".0%", "range": [0, 1.01]},
        "hovermode": "x unified",
        "shapes": [_line(x0=1, x1=1, yref="paper", y0=0, y1=1)],
    }
    names = list(summary["comparisons"][0]["ratio_quantiles"])
    return Chart(
        id="ratios",
        title="Who wins, who loses",
        alt=f"Cumulative distribution of each job's speedup over {summary['baseline']}",
        caption="Every job against itself under the baseline. Left of 1 a job is slower than before: an average "
        "hides how many those are.",
        variants=(("", {"data": data, "layout": layout}),),
        head=("label", "faster", "slower", *names),
        rows=tuple(rows),
    )


def placement(summary: Mapping[str, Any], labels: Sequence[str]) -> Chart | None:
    """Correct, over and under: where the estimates put wide jobs among the GS queues."""
    parts = {
        label: [mean_over_seeds(summary, label, "queue_placement", key) for key in ("correct", "over", "under")]
        for label in labels
    }
    shown = {label: [p or 0.0 for p in found] for label, found in parts.items() if found[0] is not None}
    if not shown:
        return None
    names = ("right", "too low (over-estimated)", "too high (under-estimated)")
    styles = (("$s2", ""), ("$s1", "/"), ("$s4", "\\"))
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(reversed(shown)),
            "x": [round(shown[label][i], 5) for label in reversed(shown)],
            "marker": {
                "color": tint,
                "pattern": {"shape": shape, "fillmode": "overlay", "size": 6, "fgcolor": "$page", "fgopacity": 0.6},
            },
            "hovertemplate": "%{y}: %{x:.1%}<extra>" + name + "</extra>",
        }
        for i, (name, (tint, shape)) in enumerate(zip(names, styles, strict=True))
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"tickformat": ".0%", "range": [0, 1], "title": {"text": "wide jobs"}},
        "yaxis": {"automargin": True},
        "legend": {"traceorder": "normal"},
    }
    return Chart(
        id="placement",
        title="Queue placement",
        alt="Share of wide jobs whose estimate puts them in the right, a too low or a too high priority queue",
        caption="Multi-level queues need the size's order of magnitude only: does the estimate fall into the queue of "
        "the true size (1000 s, 10,000 s, ...)? Jobs with 3 tasks and more.",
        variants=(("", {"data": data, "layout": layout}),),
        head=("label", "correct", "over", "under"),
        rows=tuple((label, *(f"{100 * p:.1f} %" for p in found)) for label, found in shown.items()),
        tall=150 + 46 * len(shown),
    )


def bins(summary: Mapping[str, Any], labels: Sequence[str]) -> Chart | None:
    """Speedup by size and width of the job (SLearn, NSDI'22, Table 8)."""
    if not summary["comparisons"]:
        return None
    first = next(run for run in summary["runs"] if run["label"] == labels[0])
    heads = {
        name: f"{BIN_NAMES[name].replace(', ', ',<br>')}<br>{percent(part['jobs_fraction'])}"
        for name, part in first["bins"].items()
    }
    data, rows = [], []
    for compared in summary["comparisons"]:
        index = list(labels).index(compared["label"])
        each = [compared["bins"][name]["speedup"]["ratio_of_means"]["value"] for name in BINS]
        data.append(
            {
                "type": "bar",
                "name": compared["label"],
                "x": [heads[name] for name in BINS],
                "y": [None if value is None else round(value, 4) for value in each],
                "marker": {"color": colour(index)},
                "hovertemplate": "%{x}: %{y:.2f}x<extra>" + compared["label"] + "</extra>",
            }
        )
        for name in BINS:
            part, found = first["bins"][name], compared["bins"][name]
            shares = [percent(part["jobs_fraction"]), percent(part["work_fraction"])]
            averages = [times(found["speedup"][key]["value"]) for key in SPEEDUP_NAMES]
            ci95 = interval(found["speedup"]["ratio_of_means"])
            rows.append((BIN_NAMES[name], *shares, compared["label"], *averages, ci95, percent(found["jobs_faster"])))
    layout = {
        "barmode": "group",
        "yaxis": {"title": {"text": f"speedup over {summary['baseline']}"}, "ticksuffix": "x", "rangemode": "tozero"},
        "xaxis": {"type": "category", "tickangle": 0, "automargin": True, "showgrid": False},
        "shapes": [_line(x0=0, x1=1, xref="paper", y0=1, y1=1)],
    }
    return Chart(
        id="bins",
        title="By size and width of the job",
        alt="Speedup of each label in the four bins of jobs: thin or wide, small or large",
        caption="Small: under 1000 s of work. Thin: fewer than 3 tasks. Below each bin its share of the jobs; bars "
        "show the ratio of means in it.",
        variants=(("", {"data": data, "layout": layout}),),
        head=("bin", "jobs", "work", "label", *SPEEDUP_NAMES.values(), "95 % (means)", "jobs faster"),
        rows=tuple(sorted(rows, key=lambda row: list(BIN_NAMES.values()).index(row[0]))),
    )


def variation(cells: Cells) -> Chart | None:
    """CoV over time against CoV over space, per group of recurring jobs, from the tasks that ran."""
    label = cells.labels[0]
    found = recurring(cells.jobs[label, cells.seeds[0]], cells.tasks(label), cells.nodes(label))
    if found.is_empty():
        return None
    right, top = (round(1.08 * max(0.05, float(np.max(found[c].to_numpy()))), 3) for c in ("space", "time"))
    above = int((found["time"] > found["space"]).sum())
    sizes = 7 + 26 * np.sqrt(found["work"].to_numpy() / found["work"].sum())
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [round(v, 4) for v in found["space"]],
            "y": [round(v, 4) for v in found["time"]],
            "text": found["name"].to_list(),
            "customdata": found["runs"].to_list(),
            "marker": {
                "color": colour(0),
                "size": [round(float(s), 1) for s in sizes],
                "opacity": 0.65,
                "line": {"color": "$page", "width": 1},
            },
            "hovertemplate": "%{text}: %{customdata} runs<br>time %{y:.2f}, space %{x:.2f}<extra></extra>",
        }
    ]
    layout = {
        "xaxis": {"title": {"text": "CoV over space (inside one job)"}, "range": [0, right]},
        "yaxis": {"title": {"text": "CoV over time (run to run)"}, "range": [0, top]},
        "shapes": [_line(x0=0, y0=0, x1=max(right, top), y1=max(right, top))],
        "showlegend": False,
        "hovermode": "closest",
    }
    shown = found.sort("work", descending=True).head(40)
    return Chart(
        id="variation",
        title="Would sampling pay?",
        alt="Scatter of groups of recurring jobs: variation from run to run against variation inside a job",
        caption=f"One dot per job name with 3 runs or more, its size the work in it; {above} of {len(found)} lie above "
        "the line: they vary more from run to run than inside a run, so a sample of their own tasks tells more "
        "than their history. Space is deviation / (mean x sqrt(3 % of the tasks)).",
        variants=(("", {"data": data, "layout": layout}),),
        head=("job name", "runs", "CoV over time", "CoV over space", "share of work"),
        rows=tuple(
            (
                r["name"],
                str(r["runs"]),
                number(r["time"]),
                number(r["space"]),
                percent(r["work"] / found["work"].sum()),
            )
            for r in shown.iter_rows(named=True)
        ),
        tall=400,
    )


def recurring(jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Per job name with at least 3 runs: `name, runs, time, space, work` (SLearn, NSDI'22, section 4.1).

    time: deviation / mean of the jobs' mean task run times; space: mean over jobs of
    deviation / (mean x sqrt(0.03 n)). Both stage by stage, weighted by tasks; space of stages with 2 tasks or
    more. Population deviations, run times at node speed 1.
    """
    speeds = nodes.filter(pl.col("node").is_not_null()).select("node", "speed").unique()
    ran = tasks.lazy().filter((pl.col("code") == 0) & pl.col("started_ms").is_not_null()).join(speeds.lazy(), on="node")
    run = (pl.col("ended_ms") - pl.col("started_ms")) * pl.col("speed")
    named = jobs.lazy().filter(pl.col("name") != "").select("name", "work_ms", job="id")
    space = pl.col("deviation") / (pl.col("mean") * (0.03 * pl.col("n")).sqrt())
    stages = (
        ran.group_by("job", "stage")
        .agg(mean=run.mean(), deviation=run.std(ddof=0), n=pl.len())
        .filter(pl.col("mean") > 0)
        .with_columns(space=pl.when(pl.col("n") > 1).then(space))
        .join(named, on="job")
        .sort("job", "stage")
    )
    inside = (
        stages.filter(pl.col("space").is_not_null())
        .group_by("name", "job", maintain_order=True)
        .agg(space=_weighted("space"))
        .group_by("name", maintain_order=True)
        .agg(pl.col("space").mean())
    )
    between = (
        stages.group_by("name", "stage", maintain_order=True)
        .agg(time=pl.col("mean").std(ddof=0) / pl.col("mean").mean(), n=pl.col("n").sum())
        .group_by("name", maintain_order=True)
        .agg(time=_weighted("time"))
    )
    work = stages.unique("job", maintain_order=True).group_by("name", maintain_order=True)
    totals = work.agg(runs=pl.len(), work=pl.col("work_ms").sum()).filter(pl.col("runs") >= 3)
    return totals.join(inside, on="name").join(between, on="name").sort("name").collect()


def _weighted(column: str) -> pl.Expr:
    return (pl.col(column) * pl.col("n")).sum() / pl.col("n").sum()


def utilisation(cells: Cells, summary: Mapping[str, Any]) -> Chart | None:
    """What of the cluster is held, over time, one variant per resource."""
    series: dict[str, list[Figure]] = {}
    tables = {label: whole_cluster(cells.nodes(label)) for label in cells.labels}
    resources = [
        row[0]
        for row in tables[cells.labels[0]].filter(pl.col("capacity") > 0).unique("resource", maintain_order=True)
        .select("resource").iter_rows()
    ]  # fmt: skip
    divisor, unit = time_unit(max(table["end_ms"].to_numpy().max() for table in tables.values()))
    for resource in resources:
        for index, label in enumerate(cells.labels):
            table = tables[label].filter(pl.col("resource") == resource)
            held = table["held"].to_numpy() / table["capacity"].to_numpy()
            at = table["start_ms"].to_numpy() / divisor
            step = -(-len(at) // CURVE_POINTS)
            means = np.add.reduceat(held, np.arange(0, len(held), step)) / np.diff(
                np.append(np.arange(0, len(held), step), len(held))
            )
            line = {"color": colour(index), "width": 1.8, "dash": DASHES[index % SERIES], "shape": "hv"}
            trace = _trace(label, at[::step], means, line, "%{y:.0%}")
            series.setdefault(resource, []).append(trace)
    layout = {
        "xaxis": {"title": {"text": f"time ({unit})"}},
        "yaxis": {"tickformat": ".0%", "range": [0, 1.02]},
        "hovermode": "x unified",
    }
    same: dict[str, list[str]] = {}
    for resource, data in series.items():
        same.setdefault(str(data), []).append(resource)
    variants = tuple((" and ".join(r), {"data": series[r[0]], "layout": layout}) for r in same.values())
    if not variants:
        return None
    return Chart(
        id="utilisation",
        title="Utilisation over time",
        alt="Fraction of the cluster's resources held over time, one line per label",
        caption=f"Held from grant to end of each task, as a fraction of all nodes' capacity ({variants[0][0]}); "
        f"seed {cells.seeds[0]}."
        if len(variants) == 1
        else f"Held from grant to end of each task, as a fraction of all nodes' capacity; seed {cells.seeds[0]}.",
        variants=variants,
        head=("label", *(f"{resource}, whole run" for resource in series)),
        rows=tuple(
            (label, *(percent(mean_over_seeds(summary, label, "utilisation", resource)) for resource in series))
            for label in cells.labels
        ),
        choose="resource",
    )


def gantt(cells: Cells) -> Chart | None:
    """Nodes against time, one variant per label."""
    variants, rows, notes = [], [], set()
    for label in cells.labels:
        tasks = cells.tasks(label).select("job", "node", "granted_ms", "ended_ms", "pilot", "code")
        if tasks.is_empty():
            continue
        shown, count = _shown_nodes(tasks)
        figure, merged = _bars(tasks.filter(pl.col("node").is_in(shown)), shown)
        variants.append((label, figure))
        notes.add(f"{len(shown)} of {count} nodes shown" if len(shown) < count else "")
        notes.add("neighbouring short tasks are merged (grey)" if merged else "")
        busy = tasks.group_by("node").agg(n=pl.len(), s=(pl.col("ended_ms") - pl.col("granted_ms")).sum() / 1000)
        rows += [
            (label, r["node"], f"{r['n']:,}", number(r["s"], 4))
            for r in busy.filter(pl.col("node").is_in(shown)).sort("node").head(12).iter_rows(named=True)
        ]
    if not variants:
        return None
    note = "; ".join(sorted(note for note in notes if note))
    return Chart(
        id="gantt",
        title="Nodes over time",
        alt="Gantt chart: which job's tasks each node runs when",
        caption="Every bar is a task, coloured by job; hatched bars are pilot tasks. Drag to zoom, double-click to go "
        f"back. Seed {cells.seeds[0]}{'; ' + note if note else ''}. All of it: open trace.json in ui.perfetto.dev.",
        variants=tuple(variants),
        head=("label", "node", "task attempts", "held (s)"),
        rows=tuple(rows),
        choose="label",
        tall=520,
    )


def _shown_nodes(tasks: pl.DataFrame) -> tuple[list[str], int]:
    """Evenly spaced nodes whose lanes together fill a chart, and how many nodes there are."""
    names = sorted(tasks["node"].unique().to_list())
    first = tasks.filter(pl.col("node") == names[0]).sort("granted_ms")
    each = 1 + max(lanes(first["granted_ms"].to_list(), first["ended_ms"].to_list()))
    fit = max(1, GANTT_LANES // each)
    chosen = np.unique(np.linspace(0, len(names) - 1, min(fit, len(names))).astype(int))
    return [names[i] for i in chosen], len(names)


class _Bar(msgspec.Struct):
    lane: int
    start: int
    end: int
    job: str
    kind: str
    tasks: int = 1


def _bars(tasks: pl.DataFrame, nodes: Sequence[str]) -> tuple[Figure, bool]:
    divisor, unit = time_unit(int(tasks["ended_ms"].to_numpy().max()))
    bars: list[_Bar] = []
    ticks, names, offset = [], [], 0
    for node in nodes:
        frame = tasks.filter(pl.col("node") == node).sort("granted_ms", "ended_ms", "job")
        lane = lanes(frame["granted_ms"].to_list(), frame["ended_ms"].to_list())
        for row, where in zip(frame.iter_rows(named=True), lane, strict=True):
            kind = "failed" if row["code"] else "pilot" if row["pilot"] else ""
            bars.append(_Bar(offset + where, row["granted_ms"], row["ended_ms"], row["job"], kind))
        height = 1 + max(lane, default=0)
        ticks.append(offset + (height - 1) / 2)
        names.append(node)
        offset += height
    shown = _merged(bars)
    every = max(1, -(-len(names) // 24))
    layout = {
        "barmode": "overlay",
        "bargap": 0.12,
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {"title": {"text": f"time ({unit})"}, "range": [0, max(bar.end for bar in bars) / divisor]},
        "yaxis": {
            "tickvals": ticks[::every],
            "ticktext": names[::every],
            "autorange": "reversed",
            "showgrid": False,
            "automargin": True,
        },
        "dragmode": "zoom",
    }
    return {"data": _gantt_traces(shown, divisor), "layout": layout}, len(shown) < len(bars)


def _merged(bars: Sequence[_Bar]) -> list[_Bar]:
    """The same picture with at most GANTT_SLICES bars: neighbours on a lane that are too short to see become one."""
    span = max((bar.end for bar in bars), default=1)
    short, shown = 0.0, list(bars)
    while len(shown) > GANTT_SLICES:
        short = max(span / 2000, 1.5 * short)
        last: dict[int, _Bar] = {}
        shown = []
        for bar in sorted(bars, key=lambda b: (b.lane, b.start)):
            before = last.get(bar.lane)
            if before and bar.end - before.start <= short and bar.start - before.end <= short / 4:
                before.job = before.job if before.job == bar.job else ""
                before.kind = before.kind if before.kind == bar.kind else ""
                before.end, before.tasks = max(bar.end, before.end), before.tasks + 1
            else:
                shown.append(_Bar(bar.lane, bar.start, bar.end, bar.job, bar.kind))
                last[bar.lane] = shown[-1]
    return shown


def _gantt_traces(bars: Sequence[_Bar], divisor: float) -> list[Figure]:
    groups: dict[tuple[str, str], list[_Bar]] = {}
    for bar in bars:
        tint = f"$s{zlib.crc32(bar.job.encode()) % SERIES}" if bar.job else "$faint"
        groups.setdefault((tint, bar.kind), []).append(bar)
    shapes = {"": "", "pilot": "/", "failed": "x"}
    return [
        {
            "type": "bar",
            "orientation": "h",
            "base": [round(bar.start / divisor, 4) for bar in group],
            "x": [round((bar.end - bar.start) / divisor, 4) for bar in group],
            "y": [bar.lane for bar in group],
            "text": [(bar.job or f"{bar.tasks} tasks") + (f" ({kind})" if kind else "") for bar in group],
            "textposition": "none",
            "width": 0.86,
            "marker": {
                "color": tint,
                "line": {"width": 0.4, "color": "$page"},
                "pattern": {
                    "shape": shapes[kind],
                    "fillmode": "overlay",
                    "size": 5,
                    "fgcolor": "$page",
                    "fgopacity": 0.8,
                },
            },
            "hovertemplate": "%{text}<br>%{base:.4~r} for %{x:.4~r}<extra></extra>",
        }
        for (tint, kind), group in sorted(groups.items())
    ]


def _curve(values: Floats) -> tuple[Floats, Floats]:
    """A cumulative distribution of sorted values in few points: from the smallest value's share to 1."""
    n = len(values)
    at = np.unique(np.linspace(0, n - 1, min(n, CURVE_POINTS)).astype(int))
    x = values[at]
    share: Floats = np.searchsorted(values, x, side="right") / n
    return x, share


def _trace(name: str, x: Floats, y: Floats, line: Figure, hover: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [float(f"{v:.5g}") for v in x],
        "y": [round(float(v), 4) for v in y],
        "line": {"shape": "hv", **line},
        "hovertemplate": hover + "<extra>" + name + "</extra>",
    }


def _whisker(speedup: Mapping[str, Any] | None, y: float, name: str, marker: Figure) -> Figure:
    """A point with its interval; without a speedup only an entry of the legend."""
    trace = {"type": "scatter", "mode": "markers", "name": name, "showlegend": False, "marker": {"size": 10, **marker}}
    if speedup is None:
        return {**trace, "x": [None], "y": [y]}
    value, (low, high) = speedup["value"], speedup["ci95"]
    sides = {"array": [round(high - value, 4)], "arrayminus": [round(value - low, 4)]}
    error = {"type": "data", "symmetric": False, **sides, "thickness": 1.6, "width": 4, "color": marker["color"]}
    hover = f"{name}<br>%{{x:.2f}}x {interval(speedup)}<extra></extra>"
    return {**trace, "x": [round(value, 4)], "y": [y], "error_x": error, "hovertemplate": hover}


def _log_axis(text: str, low: float, high: float) -> Figure:
    """A logarithmic axis that names whole decades when it spans enough of them."""
    axis = {"type": "log", "title": {"text": text}}
    return {**axis, "dtick": 1} if high > 50 * low else axis


def _line(**where: Any) -> Figure:
    return {"type": "line", "line": {"color": "$ink", "width": 1, "dash": "dot"}, "layer": "below", **where}


def percent(value: float | None) -> str:
    """A fraction to read, `12.3 %`."""
    return number(None) if value is None else f"{100 * value:.1f} %"


def time_unit(end_ms: float) -> tuple[float, str]:
    """What a time axis that ends here is in: ms of the unit, and its name."""
    if end_ms > 3 * 3_600_000:
        return 3_600_000.0, "h"
    return (60_000.0, "min") if end_ms > 600_000 else (1000.0, "s")
