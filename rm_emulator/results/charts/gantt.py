"""Which job's tasks each node runs when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.results.chart import CLUSTER, Cells, Chart, Figure, register
from rm_emulator.results.drawing import hatched, of_job, spans, time_axis, time_unit
from rm_emulator.results.metrics import BLOCK, Attempts
from rm_emulator.results.perfetto import lanes
from rm_emulator.results.table import number

#: A cluster that runs no more tasks at once is shown whole, of another so many lanes. Height of a lane in pixels.
GANTT_LANES: Final = 160
_SOME_LANES: Final = 40
_LANE: Final = 9
#: Kind of the part of a bar in which its task waits for what it takes.
DATA: Final = "waits for data"
#: Slices of one chart, and of those of all labels together: beyond these a screen shows no difference.
GANTT_SLICES: Final = 4000
_SLICES: Final = 16_000
#: So many faults are drawn of a label, the longest.
_FAULTS: Final = 1000


@register(CLUSTER, order=20, wide=True, source="rm-emulator")
def gantt(cells: Cells) -> Chart | None:
    """Nodes against time, one variant per label."""
    variants, rows, notes, most = [], [], set(), 0
    slices = min(GANTT_SLICES, _SLICES // len(cells.labels))
    for label in cells.labels:
        came = cells.jobs[label, cells.seeds[0]].select("submit_ms", job="id")
        tasks = cells.scan_attempts(label)
        shown, count = shown_nodes(tasks)
        if not shown:
            continue
        drawn = tasks.lazy().filter(pl.col("node").is_in(shown)).collect()
        bars, names = _bars(drawn.join(came, on="job", how="left", maintain_order="left"), shown)
        end = max(bar.end for bar in bars)
        figure, merged = _drawn(bars, names, slices, time_axis([came["submit_ms"]], end, cells.date(0)))
        if (faults := cells.faults(label)) is not None:
            figure["data"].append(_faults(faults, names, end))
            notes.add(
                "a frame over the lanes of a node is a fault of the node, over all lanes a restart of the manager"
            )
        variants.append((label, figure))
        most = max(most, sum(height for _, height in names))
        notes.add(f"{len(shown)} of {count} nodes shown" if len(shown) < count else "")
        notes.add("the light part of a bar is a wait for data" if any(bar.kind == DATA for bar in bars) else "")
        notes.add("bars hatched the other way are copies" if any(bar.kind == "copy" for bar in bars) else "")
        notes.add("neighbouring short tasks are merged (grey)" if merged else "")
        busy = drawn.group_by("node").agg(n=pl.len(), s=(pl.col("ended_ms") - pl.col("granted_ms")).sum() / 1000)
        rows += [
            (label, r["node"], f"{r['n']:,}", number(r["s"], 4))
            for r in busy.sort("node").head(12).iter_rows(named=True)
        ]
    if not variants:
        return None
    note = "; ".join(sorted(note for note in notes if note))
    return Chart(
        title="Nodes over time",
        alt="Gantt chart: which job's tasks each node runs when",
        caption="Every bar is a task, coloured by job, from its grant to its end; hatched ones are pilots, crossed "
        "ones failed. Rest on a bar to read its job, stage, times and how long after its job it came. Drag to zoom, "
        f"double-click to go back. Seed {cells.seeds[0]}{'; ' + note if note else ''}. Perfetto shows all "
        "tasks: see below.",
        variants=tuple(variants),
        head=("label", "node", "task attempts", "held (s)"),
        rows=tuple(rows),
        choose="label",
        tall=max(300, min(1500, 110 + _LANE * most)),
    )


def shown_nodes(tasks: Attempts) -> tuple[list[str], int]:
    """All nodes where their lanes fit into a chart, else evenly spaced ones, and how many nodes there are."""
    names = tasks.lazy().select(pl.col("node").unique()).collect(engine="streaming")["node"].sort().to_list()
    if not names:
        return [], 0
    # By number, since texts of a million tasks take four times the memory, and sorting them three times the time.
    node = pl.col("node").cast(pl.Enum(names)).to_physical()
    held = tasks.lazy().select(node, "granted_ms", "ended_ms").collect(engine="streaming")
    of_node = np.bincount(held["node"].to_numpy(), minlength=len(names)).cumsum() // BLOCK
    cuts = [0, *(np.flatnonzero(np.diff(of_node)) + 1).tolist(), len(names)]
    most = [most for first, last in pairwise(cuts) for most in _most_at_once(held, first, last)]
    fit = len(names) if sum(most) <= GANTT_LANES else max(1, _SOME_LANES // max(most))
    chosen = np.unique(np.linspace(0, len(names) - 1, min(fit, len(names))).astype(int))
    return [names[i] for i in chosen], len(names)


def _most_at_once(held: pl.DataFrame, first: int, last: int) -> list[int]:
    """The largest number of tasks at once on each node of a range."""
    own, one = held.filter((pl.col("node") >= first) & (pl.col("node") < last)), pl.lit(1, pl.Int32)
    at = [own.select("node", at=name, more=more) for name, more in (("granted_ms", one), ("ended_ms", -one))]
    steps = pl.concat(at).sort("node", "at", "more").with_columns(pl.col("more").cum_sum().over("node"))
    return steps.group_by("node").agg(pl.col("more").max())["more"].to_list()


def placed(tasks: pl.DataFrame, nodes: Sequence[str]) -> Iterator[tuple[pl.DataFrame, list[int], int]]:
    """Of each node its tasks in order of their grants, on which lane of the chart each is, how many lanes it has."""
    above = 0
    for node in nodes:
        own = tasks.filter(pl.col("node") == node).sort("granted_ms", "ended_ms", "job")
        where = lanes(own["granted_ms"].to_list(), own["ended_ms"].to_list())
        height = 1 + max(where, default=0)
        yield own, [above + lane for lane in where], height
        above += height


class _Bar(msgspec.Struct):
    """came, ran: when the job was submitted, and when the task started to run (ms); of several tasks None."""

    lane: int
    start: int
    end: int
    job: str
    kind: str
    stage: int | None = None
    came: int | None = None
    ran: int | None = None
    tasks: int = 1


def _bars(tasks: pl.DataFrame, nodes: Sequence[str]) -> tuple[list[_Bar], list[tuple[str, int]]]:
    """The bars of these nodes, and of each node its name and how many lanes it has."""
    bars: list[_Bar] = []
    names: list[tuple[str, int]] = []
    for node, (own, where, height) in zip(nodes, placed(tasks, nodes), strict=True):
        names.append((node, height))
        for row, lane in zip(own.iter_rows(named=True), where, strict=True):
            kind = "failed" if row["code"] else "pilot" if row["pilot"] else ""
            kind = "copy" if row.get("copy") else kind
            start, end = row["granted_ms"], row["ended_ms"]
            there = min(row.get("arrived_ms") or start, end)
            about = {"stage": row["stage"], "came": row["submit_ms"], "ran": row["started_ms"]}
            if there > start:
                bars.append(_Bar(lane, start, there, row["job"], DATA, **about))
            if end > there or there <= start:
                bars.append(_Bar(lane, max(there, start), end, row["job"], kind, **about))
    return bars, names


def _faults(faults: pl.DataFrame, names: Sequence[tuple[str, int]], end: int) -> Figure:
    """A frame around all lanes of its node for each fault, and around all for a restart, over the tasks.

    end: of the chart, ms.
    """
    heights = [height for _, height in names]
    lanes: dict[str | None, int] = {**dict(names), None: sum(heights)}
    middles: dict[str | None, float] = dict(zip((name for name, _ in names), _middles(heights), strict=True))
    length, is_drawn = pl.col("end_ms") - pl.col("begin_ms"), pl.col("node").is_in(list(middles))
    known = faults.filter((is_drawn | pl.col("node").is_null()) & (pl.col("begin_ms") < end))
    middles[None] = (lanes[None] - 1) / 2
    drawn = known.with_columns(pl.col("end_ms").fill_null(end).clip(upper_bound=end)).top_k(_FAULTS, by=length)
    rows = drawn.sort("begin_ms", "node").rows(named=True)
    divisor, _ = time_unit(end)
    return {
        **spans(((middles[row["node"]], row["begin_ms"], row["end_ms"]) for row in rows), divisor),
        "width": [lanes[row["node"]] for row in rows],
        "text": [f"fault: {row['kind']}" for row in rows],
        "textposition": "none",
        "marker": {"color": "$faint", "opacity": 0.4, "line": {"width": 1.5, "color": "$ink"}},
        "hovertemplate": "%{text}<br>at %{customdata[0]} for %{customdata[1]}<extra></extra>",
    }


def _middles(heights: Sequence[int]) -> list[float]:
    """The middle of each node's lanes."""
    lanes_of = np.array(heights)
    middles: list[float] = (np.cumsum(lanes_of) - (lanes_of + 1) / 2).tolist()
    return middles


def _drawn(bars: Sequence[_Bar], names: Sequence[tuple[str, int]], slices: int, across: Figure) -> tuple[Figure, bool]:
    """The chart, and whether tasks were merged in it. across: its axis of time."""
    divisor, _ = time_unit(max(bar.end for bar in bars))
    heights = [height for _, height in names]
    ticks = _middles(heights)
    shown, every = _merged(bars, slices), max(1, -(-len(names) // 40))
    layout = {
        "barmode": "overlay",
        "bargap": 0.12,
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": across,
        "yaxis": {
            "tickvals": ticks[::every],
            "ticktext": [name for name, _ in names][::every],
            "range": [sum(heights) - 0.5, -0.5],
            "showgrid": False,
            "automargin": True,
        },
        "dragmode": "zoom",
    }
    return {"data": _gantt_traces(shown, divisor), "layout": layout}, len(shown) < len(bars)


def _merged(bars: Sequence[_Bar], slices: int) -> list[_Bar]:
    """The same picture with at most so many bars: neighbours on a lane that are too short to see become one."""
    span = max((bar.end for bar in bars), default=1)
    short, shown = 0.0, sorted(bars, key=lambda bar: (bar.lane, bar.start))
    while len(shown) > slices:
        short, longer = max(span / 2000, 1.5 * short), shown
        shown = []
        for bar in longer:
            before = shown[-1] if shown and shown[-1].lane == bar.lane else None
            if before and bar.end - before.start <= short and bar.start - before.end <= short / 4:
                before.job = before.job if before.job == bar.job else ""
                before.kind = before.kind if before.kind == bar.kind else ""
                before.stage = before.came = before.ran = None
                before.end, before.tasks = max(bar.end, before.end), before.tasks + bar.tasks
            else:
                shown.append(bar)
    return shown


def _gantt_traces(bars: Sequence[_Bar], divisor: float) -> list[Figure]:
    groups: dict[tuple[str, str], list[_Bar]] = {}
    for bar in bars:
        groups.setdefault((of_job(bar.job), bar.kind), []).append(bar)
    shapes = {"pilot": "/", "failed": "x", "copy": "\\"}
    return [
        {
            **spans(((bar.lane, bar.start, bar.end) for bar in group), divisor),
            "text": [_said(bar) for bar in group],
            "textposition": "none",
            "width": 0.86,
            "marker": {
                "color": tint,
                "line": {"width": 0.4, "color": "$page"},
                "pattern": hatched(shapes.get(kind, ""), 5, 0.8),
            },
            **({"opacity": 0.35} if kind == DATA else {}),
            "hovertemplate": "%{text}<br>at %{customdata[0]} for %{customdata[1]}<extra></extra>",
        }
        for (tint, kind), group in sorted(groups.items())
    ]


def _said(bar: _Bar) -> str:
    """What stands on a bar beside its times."""
    kind = f" ({bar.kind})" if bar.kind else ""
    if bar.stage is None or bar.came is None:
        tasks = f"{bar.tasks} tasks"
        return f"{bar.job}: {tasks}{kind}" if bar.job else f"{tasks}{kind}"
    launch = "" if bar.ran is None else f", ran {_s(bar.ran - bar.start)} later"
    return f"{bar.job}, stage {bar.stage}{kind}<br>granted {_s(bar.start - bar.came)} after its job came{launch}"


def _s(ms: int) -> str:
    return f"{number(ms / 1000)} s"
