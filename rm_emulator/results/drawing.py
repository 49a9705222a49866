"""What charts have in common: colours, curves, axes, units."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

from rm_emulator.results.chart import Cells, Chart, Figure
from rm_emulator.results.metrics import Floats
from rm_emulator.results.sweep import Estimate
from rm_emulator.results.table import number

SERIES: Final = 8
DASHES: Final = ("solid", "solid", "solid", "solid", "dash", "dash", "dash", "dash")
#: Points of one curve: beyond these a screen shows no difference.
CURVE_POINTS: Final = 300


def colour(index: int) -> str:
    """The series colour of the label with this index."""
    return f"$s{index % SERIES}"


def of_job(job: str) -> str:
    """The colour of a job, the same on all charts of nodes; grey without a job."""
    return colour(zlib.crc32(job.encode())) if job else "$faint"


def in_words(words: Sequence[str]) -> Figure:
    """An axis of words in this order, long ones in lines."""
    ticks = {"tickvals": [*words], "ticktext": [word.replace(", ", ",<br>") for word in words], "automargin": True}
    return {"type": "category", "categoryorder": "array", "categoryarray": [*words], **ticks}


def of_label(index: int, width: float, **more: Any) -> Figure:
    """The line of the label with this index."""
    return {"color": colour(index), "width": width, "dash": DASHES[index % SERIES], **more}


def curve(values: Floats) -> tuple[Floats, Floats]:
    """A cumulative distribution of sorted values in few points: from the smallest value's share to 1."""
    n = len(values)
    at = np.unique(np.linspace(0, n - 1, min(n, CURVE_POINTS)).astype(int))
    x = values[at]
    share: Floats = np.searchsorted(values, x, side="right") / n
    return x, share


def trace(name: str, x: Floats, y: Floats, line: Figure, hover: str) -> Figure:
    """A stepped line through the points (x, y). hover: plotly's template of the text at each point."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [five_digits(v) for v in x],
        "y": [round(float(v), 4) for v in y],
        "line": {"shape": "hv", **line},
        "hovertemplate": hover + "<extra>" + name + "</extra>",
    }


#: Between the ends of a logarithmic axis at most so large a factor: steps of its ticks as plotly has them.
_FEW_TICKS: Final[Sequence[tuple[float, str | int]]] = ((9.0, ""), (50.0, "D2"), (1e6, 1))


def log_axis(text: str, low: float, high: float) -> Figure:
    """A logarithmic axis with whole numbers beside its ticks: all where `low` and `high` are near, then 1, 2 and 5.

    From a factor of 50 on only whole decades have a tick, from six decades on every second.
    """
    axis = {"type": "log", "title": {"text": text}, "tickformat": ",~r"}
    if high <= _FEW_TICKS[0][0] * low:
        return axis
    return {**axis, "dtick": next((dtick for factor, dtick in _FEW_TICKS[1:] if high <= factor * low), 2)}


def line(**where: Any) -> Figure:
    """A dotted line above the grid and below the data, such as that of no difference."""
    return {"type": "line", "line": {"color": "$ink", "width": 1, "dash": "dot"}, "layer": "between", **where}


def note(text: str, x: float, y: float, **more: Any) -> Figure:
    """Text at a place of the whole figure, by parts of its width and height; its lower end there."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "yanchor": "bottom"}
    return {**place, "text": text, "showarrow": False, **more}


def spans(bars: Iterable[tuple[float, float, float]], divisor: float, **more: Any) -> Figure:
    """Bars on rows of a chart of time. bars: (row, start, end), in ms; divisor: ms of the axis's unit.

    `customdata` of a bar has its start and its length as text: a bar of 18 s on an axis in hours is 0.005 of its unit.
    """
    rows = list(bars)
    return {
        "type": "bar",
        "orientation": "h",
        "y": [row for row, _, _ in rows],
        "base": [round(start / divisor, 4) for _, start, _ in rows],
        "x": [round((end - start) / divisor, 4) for _, start, end in rows],
        "customdata": [[duration(start), duration(end - start)] for _, start, end in rows],
        **more,
    }


def whiskers(estimates: Sequence[Estimate], tint: str) -> Figure:
    """The 95 % intervals of points as error bars; none for a point without an interval."""
    ends = [(each.value, *(each.interval or (each.value, each.value))) for each in estimates]
    sides = {
        "array": [five_digits(high - value) for value, _, high in ends],
        "arrayminus": [five_digits(value - low) for value, low, _ in ends],
    }
    return {"type": "data", "symmetric": False, **sides, "thickness": 1.2, "width": 3, "color": tint}


def through(name: str, index: int, x: Sequence[Any], estimates: Sequence[Estimate], **more: Any) -> Figure:
    """The line of the label with this index through estimates, with their intervals."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": [five_digits(each.value) for each in estimates],
        **({"error_y": whiskers(estimates, colour(index))} if any(each.interval for each in estimates) else {}),
        "line": of_label(index, 2.0),
        "marker": {"size": 7, "color": colour(index)},
        **more,
    }


def over(lines: Mapping[str, Mapping[Any, Estimate]], across: str, figure: str) -> Figure:
    """A figure over a swept setting, a line per name through its values by place: numbers, or words in their order."""
    data = [
        through(name, index, [*line], [*line.values()], hovertemplate=f"%{{y:.4~g}} at %{{x}}<extra>{name}</extra>")
        for index, (name, line) in enumerate(lines.items())
    ]
    words = list(dict.fromkeys(at for line in lines.values() for at in line if isinstance(at, str)))
    layout = {
        "xaxis": {**(in_words(words) if words else {}), "title": {"text": across}},
        "yaxis": {"title": {"text": figure}, "rangemode": "tozero"},
        "hovermode": "closest",
    }
    return {"data": data, "layout": layout}


def five_digits(value: float) -> float:
    """A number as exact as a chart shows it."""
    return float(f"{value:.5g}")


def means(values: Floats, step: int) -> Floats:
    """Means of `step` rows at a time, NaN left out; the last group may be shorter."""
    if step <= 1:
        return values
    at = np.arange(0, len(values), step)
    known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), at)
    counts = np.add.reduceat(known.astype(np.float64), at)
    averages: Floats = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return averages


def time_unit(end_ms: float) -> tuple[float, str]:
    """What a time axis that ends here is in: ms of the unit, and its name."""
    if end_ms > 3 * 3_600_000:
        return 3_600_000.0, "h"
    return (60_000.0, "min") if end_ms > 600_000 else (1000.0, "s")


#: A first submission is late after this part of the time that a chart shows.
_LATE: Final = 0.05


def time_axis(submits: Iterable[pl.Series], end_ms: float, since: datetime | None = None) -> Figure:
    """An axis of time up to an end, from 0, or from the first of the submissions (ms) where that is late.

    since: date of time 0.
    """
    divisor, unit = time_unit(end_ms)
    first = min((int(each.to_numpy().min()) for each in submits if len(each)), default=0)
    begin = first if first > _LATE * end_ms else 0
    zero = "" if since is None else f" since {show_date(since)} UTC"
    return {"title": {"text": f"time ({unit}{zero})"}, "range": [round(begin / divisor, 4), round(end_ms / divisor, 4)]}


def show_date(date: datetime) -> str:
    """A date to read, `2020-03-01 10:12`."""
    return f"{date:%Y-%m-%d %H:%M}"


def duration(ms: float) -> str:
    """A time or a duration in a unit that fits its own size, `12.5 min`."""
    divisor, unit = time_unit(ms) if ms >= 120_000 else (1000.0, "s")
    return f"{number(ms / divisor)} {unit}"


def rows_of(names: Sequence[str]) -> Figure:
    """An axis with a row per name, the first one on top."""
    ticks = {"tickvals": list(range(len(names))), "ticktext": list(names), "range": [len(names) - 0.5, -0.5]}
    return {**ticks, "showgrid": False, "automargin": True}


def hatched(shape: str, size: int, strength: float, ground: str = "$page") -> Figure:
    """A pattern over a bar's colour; shape: as of plotly, plain when empty."""
    return {"shape": shape, "fillmode": "overlay", "size": size, "fgcolor": ground, "fgopacity": strength}


def of_queues(cells: Cells, keys: Sequence[str], show: Callable[[float | None], str]) -> tuple[tuple[str, ...], ...]:
    """The numbers behind a chart of queues: label, queue, and fields of `figures.QueueFairness`, means over seeds."""

    def figures(label: str, queue: str) -> Iterator[str]:
        return (show(cells.summary.mean(label, "fairness", "queues", queue, key)) for key in keys)

    return tuple((label, name, *figures(label, name)) for label, each in cells.courses.items() for name in each.queues)


def curves(of_labels: Mapping[str, tuple[int, Floats]], axis: str, hover: str) -> Figure:
    """Cumulative distributions on a logarithmic axis. of_labels: index and sorted values of each label."""
    lines = {label: curve(values) for label, (_, values) in of_labels.items()}
    reach = min(x[0] for x, _ in lines.values()), max(x[-1] for x, _ in lines.values())
    data = [
        trace(label, np.r_[x[0], x, reach[1]], np.r_[0.0, y, 1.0], of_label(of_labels[label][0], 2.2), hover)
        for label, (x, y) in lines.items()
    ]
    layout = {"xaxis": log_axis(axis, *reach), "yaxis": {"tickformat": ".0%", "range": [0, 1.01]}}
    return {"data": data, "layout": {**layout, "hovermode": "x unified"}}


def distribution(
    cells: Cells, column: str, *, title: str, axis: str, caption: str, floor: float = 0.001
) -> Chart | None:
    """The cumulative distribution of a column of the timed jobs, a curve per label. floor: of the logarithmic axis."""
    pooled = [(label, index, cells.pooled(label, column)) for index, label in enumerate(cells.labels)]
    shown = [each for each in pooled if len(each[2])]
    if not shown:
        return None
    least = min((float(values[values > 0][0]) for _, _, values in shown if values[-1] > 0), default=floor)
    floor = max(floor, 10.0 ** np.floor(np.log10(least)))  # zeros stand at the decade where the other values begin
    raised = {label: (index, np.maximum(values, floor)) for label, index, values in shown}
    rows = []
    for label, _, values in shown:
        figures = [values.mean(), *np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9, 0.99])]
        rows.append((label, f"{len(values):,}", *(number(float(v)) for v in figures)))
    return Chart(
        title=title,
        alt=f"Cumulative distribution: {title.lower()}, one curve per label",
        caption=caption,
        variants=(("", curves(raised, axis, "%{x:.3~s}: %{y:.0%} of jobs")),),
        head=("label", "jobs", "mean", "p10", "p25", "p50", "p75", "p90", "p99"),
        rows=tuple(rows),
    )
