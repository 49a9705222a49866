"""Which job's tasks each node runs when."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.results.chart import CLUSTER, Cells, Chart, Figure, register
from rm_emulator.results.drawing import SERIES, hatched, time_unit
from rm_emulator.results.perfetto import lanes
from rm_emulator.results.table import number

#: Lanes and slices of one chart: beyond these a screen shows no difference.
GANTT_LANES: Final = 32
GANTT_SLICES: Final = 4000


@register(CLUSTER, order=20, wide=True)
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
        title="Nodes over time",
        alt="Gantt chart: which job's tasks each node runs when",
        caption="Every bar is a task, coloured by job; hatched bars are pilot tasks. Drag to zoom, double-click to go "
        f"back. Seed {cells.seeds[0]}{'; ' + note if note else ''}. All of it: open trace.json.gz in ui.perfetto.dev.",
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
                "pattern": hatched(shapes[kind], 5, 0.8),
            },
            "hovertemplate": "%{text}<br>%{base:.4~r} for %{x:.4~r}<extra></extra>",
        }
        for (tint, kind), group in sorted(groups.items())
    ]
