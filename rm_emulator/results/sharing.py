"""The report's charts of queues: shares beside fair shares, Jain's index, who is starved and when.

Every function maps the courses of the first seed (`results.fairness`) to a `Chart`; none is made for a run
with a single queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from rm_emulator.results import fairness
from rm_emulator.results.charts import (
    CURVE_POINTS,
    DASHES,
    SERIES,
    Chart,
    Figure,
    Floats,
    colour,
    percent,
    time_unit,
)
from rm_emulator.results.fairness import Course
from rm_emulator.results.table import mean_over_seeds, number

#: Queues with a colour or a row of their own; what is left of more of them is summed, or left out.
SHOWN: Final = 12
OTHERS: Final = "others"
#: Columns of the strip of states.
_COLUMNS: Final = 400
#: Colour, pattern and strength of each state: want stands out, and is told without the colour as well.
_LOOKS: Final = {
    fairness.STARVED: ("$s1", "", 1.0),
    fairness.HUNGRY: ("$s4", "/", 0.8),
    fairness.SATISFIED: ("$s2", "", 0.3),
}

Courses = Mapping[str, Course]


def shares(courses: Courses, summary: Mapping[str, Any], seed: int) -> Chart | None:
    """What each queue holds over time, above what would be its fair share; one variant per label."""
    if not _several(courses):
        return None
    groups = _groups(courses)
    rows = [
        (label, name, *(percent(_fairness(summary, label, name, key)) for key in ("share_mean", "fair_share_mean")))
        for label, found in courses.items()
        for name in found.queues
    ]
    some = f" The {len(groups) - 1} largest queues have a colour each." if len(groups[-1][1]) > 1 else ""
    return Chart(
        id="shares",
        title="Shares of the queues over time",
        alt="Stacked areas over time: the share of the cluster each queue holds, and below it its fair share",
        caption="Above: the dominant share each queue holds (of the resource it holds most of), stacked. Below: what "
        "it would hold if the cluster were shared by weight among those who have work. The closer the two pictures, "
        f"the fairer.{some} Shares of different resources may add up to more than 100 %. Seed {seed}.",
        variants=tuple((label, _two_panels(found, groups)) for label, found in courses.items()),
        head=("label", "queue", "share held, mean", "fair share, mean"),
        rows=tuple(rows),
        choose="label",
        tall=470 + 22 * (len(groups) // 6),
    )


def jain(courses: Courses, summary: Mapping[str, Any], seed: int) -> Chart | None:
    """Jain's index over time, one line per label, one variant per length of its windows."""
    if not _several(courses):
        return None
    variants, rows = [], []
    for window_ms in fairness.WINDOWS_MS:
        lines = [
            _jain_line(found, window_ms, label, index)
            for index, (label, found) in enumerate(courses.items())
            if fairness.jain_over_time(found, window_ms) is not None
        ]
        if lines:
            variants.append((f"{window_ms // 1000} s", {"data": lines, "layout": _jain_layout(courses)}))
    for label in courses:
        for window_ms in fairness.WINDOWS_MS:
            key = f"jain_{window_ms // 1000}s"
            figures = [mean_over_seeds(summary, label, "fairness", key, name) for name in ("mean", "worst")]
            rows.append((label, f"{window_ms // 1000} s", *map(number, figures)))
    if not variants:
        return None
    return Chart(
        id="jain",
        title="Jain's index",
        alt="Jain's fairness index over time, one line per label",
        caption="1: every queue with work has the same part of its fair share; 1/n: one of n has it all. Long windows "
        "forgive a queue that is served late but in full. Gaps: fewer than two queues had work. "
        f"Seed {seed}; the table holds means over all seeds.",
        variants=tuple(variants),
        head=("label", "window", "mean", "worst"),
        rows=tuple(rows),
        choose="window",
    )


def states(courses: Courses, summary: Mapping[str, Any], seed: int) -> Chart | None:
    """When each queue was starved, hungry or satisfied; one variant per label."""
    if not _several(courses):
        return None
    names = _in_want(courses)
    left = len(next(iter(courses.values())).queues) - len(names)
    keys = [f"{name}_s" for name in fairness.STATES.values()]
    rows = [
        (label, name, *(number(_fairness(summary, label, name, key), 4) for key in keys))
        for label, found in courses.items()
        for name in found.queues
    ]
    some = f" The {len(names)} queues that starved longest; {left} more are in the table." if left else ""
    return Chart(
        id="states",
        title="Starved, hungry, satisfied",
        alt="A row per queue: when it was starved, hungry or satisfied",
        caption="Starved: work waits below the queue's fair share while another queue holds more than its own. "
        "Hungry: work waits otherwise. Satisfied: nothing waits. Blank: the queue has no work."
        f"{some} Seed {seed}; the table holds means over all seeds, in seconds.",
        variants=tuple((label, _strips(found, names)) for label, found in courses.items()),
        head=("label", "queue", *(f"{name} (s)" for name in fairness.STATES.values())),
        rows=tuple(rows),
        choose="label",
        tall=130 + 30 * len(names),
    )


def _several(courses: Courses) -> bool:
    return any(len(found.queues) > 1 for found in courses.values())


def _fairness(summary: Mapping[str, Any], label: str, queue: str, key: str) -> float | None:
    """A figure of a queue; None when not every seed of the label has that queue."""
    runs = [run for run in summary["runs"] if run["label"] == label]
    if any(queue not in run["fairness"]["queues"] for run in runs):
        return None
    return mean_over_seeds(summary, label, "fairness", "queues", queue, key)


def _groups(courses: Courses) -> list[tuple[str, list[int]]]:
    """Name and columns of each area: every queue by itself, of many the largest, and the others together."""
    first = next(iter(courses.values()))
    if len(first.queues) <= SHOWN:
        return [(name, [index]) for index, name in enumerate(first.queues)]
    weight = np.sum([found.held.mean(axis=0) + found.fair.mean(axis=0) for found in courses.values()], axis=0)
    order = np.argsort(-weight, kind="stable").tolist()
    largest = sorted(order[: SHOWN - 1])
    return [*((first.queues[i], [i]) for i in largest), (OTHERS, sorted(order[SHOWN - 1 :]))]


def _two_panels(found: Course, groups: Sequence[tuple[str, list[int]]]) -> Figure:
    step = -(-len(found.held) // CURVE_POINTS)
    divisor, unit = _axis(found)
    panels = [("y", "y", found.held), ("y2", "y2", found.fair)]
    data, top = [], 1.0
    for axis, stack, values in panels:
        means = _means(values, step)
        top = max(top, float(means.sum(axis=1).max()))
        for index, (name, columns) in enumerate(groups):
            area = means[:, columns].sum(axis=1)
            look = _area(name, index, grouped=len(columns) > 1)
            start = {"x0": round(found.start_ms / divisor, 5), "dx": round(step * found.width_ms / divisor, 5)}
            place = {"yaxis": axis, "stackgroup": stack, "showlegend": axis == "y", **start}
            data.append({**look, **place, "y": [*_rounded(area), *_rounded(area[-1:])]})
    scale = {"tickformat": ".0%", "range": [0, round(1.02 * top, 4)]}
    layout = {
        "xaxis": {"title": {"text": f"time ({unit})"}, "anchor": "y2", "showgrid": False},
        "yaxis": {**scale, "domain": [0.54, 1], "title": {"text": "held"}},
        "yaxis2": {**scale, "domain": [0, 0.46], "title": {"text": "fair share"}},
        "legend": {"traceorder": "normal"},
        "hovermode": "x unified",
        "margin": {"l": 66, "r": 14, "t": 12, "b": 48},
    }
    return {"data": data, "layout": layout}


def _area(name: str, index: int, *, grouped: bool) -> Figure:
    """The looks of one queue's area; from the ninth queue on colours come again with a pattern."""
    tint = "$faint" if grouped else colour(index)
    pattern = {"shape": "/" if index >= SERIES and not grouped else "", "fgcolor": "$card", "size": 7, "fgopacity": 0.7}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "line": {"color": tint, "width": 0.6, "shape": "hv"},
        "fillcolor": tint,
        "fillpattern": {**pattern, "fillmode": "overlay"},
        "hovertemplate": "%{y:.1%}<extra>" + name + "</extra>",
    }


def _jain_line(found: Course, window_ms: int, label: str, index: int) -> Figure:
    values = fairness.jain_over_time(found, window_ms)
    assert values is not None
    step = -(-len(values) // CURVE_POINTS)
    divisor, _ = _axis(found)
    kept = _means(values[:, None], step)[:, 0]
    drawn = [None if np.isnan(value) else round(float(value), 4) for value in [*kept, kept[-1]]]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x0": round(found.start_ms / divisor, 5),
        "dx": round(step * window_ms / divisor, 5),
        "y": drawn,
        "connectgaps": False,
        "line": {"color": colour(index), "width": 1.8, "dash": DASHES[index % SERIES], "shape": "hv"},
        "hovertemplate": "%{y:.2f}<extra>" + label + "</extra>",
    }


def _jain_layout(courses: Courses) -> Figure:
    _, unit = _axis(next(iter(courses.values())))
    return {
        "xaxis": {"title": {"text": f"time ({unit})"}},
        "yaxis": {"range": [0, 1.03], "tickformat": ".1f"},
        "hovermode": "x unified",
        "showlegend": True,
    }


def _in_want(courses: Courses) -> list[str]:
    """The queues of the strip; of many those that were starved longest, then those that were hungry longest."""
    first = next(iter(courses.values()))
    if len(first.queues) <= SHOWN:
        return list(first.queues)
    counts = [
        np.sum([(found.state == code).mean(axis=0) for found in courses.values()], axis=0)
        for code in (fairness.STARVED, fairness.HUNGRY)
    ]
    order = np.lexsort((-counts[1], -counts[0]))[:SHOWN]
    return [first.queues[index] for index in sorted(order.tolist())]


def _strips(found: Course, names: Sequence[str]) -> Figure:
    """Bars from change to change; where a column stands for many buckets, the state that held for most of it."""
    step = -(-len(found.state) // _COLUMNS)
    divisor, unit = _axis(found)
    bars: dict[int, list[tuple[int, int, int]]] = {code: [] for code in _LOOKS}
    for place, name in enumerate(names):
        column = _most(found.state[:, found.queues.index(name)], step)
        edges = [0, *(1 + np.flatnonzero(np.diff(column))).tolist(), len(column)]
        for start, end in pairwise(edges):
            if column[start] in bars:
                bars[int(column[start])].append((place, start, end))
    width, last = step * found.width_ms, len(found.state) * found.width_ms
    data = []
    for code, (tint, shape, strength) in _LOOKS.items():
        spans = [(place, start * width, min(end * width, last)) for place, start, end in bars[code]]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": fairness.STATES[code],
                "y": [place for place, _, _ in spans],
                "base": [round((found.start_ms + start) / divisor, 4) for _, start, _ in spans],
                "x": [round((end - start) / divisor, 4) for _, start, end in spans],
                "width": 0.72,
                "opacity": strength,
                "marker": {
                    "color": tint,
                    "line": {"width": 0},
                    "pattern": {"shape": shape, "fillmode": "overlay", "size": 6, "fgcolor": "$card", "fgopacity": 0.7},
                },
                "hovertemplate": "from %{base:.4~r} for %{x:.4~r} " + unit + f"<extra>{fairness.STATES[code]}</extra>",
            }
        )
    layout = {
        "barmode": "overlay",
        "showlegend": True,
        "hovermode": "closest",
        "legend": {"traceorder": "normal"},
        "xaxis": {
            "title": {"text": f"time ({unit})"},
            "range": [round(found.start_ms / divisor, 4), round((found.start_ms + last) / divisor, 4)],
        },
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": list(names),
            "range": [len(names) - 0.5, -0.5],
            "showgrid": False,
            "automargin": True,
        },
    }
    return {"data": data, "layout": layout}


def _axis(found: Course) -> tuple[float, str]:
    return time_unit(found.start_ms + len(found.held) * found.width_ms)


def _means(values: Floats, step: int) -> Floats:
    """Means of `step` rows at a time, NaN left out; the last group may be shorter."""
    if step <= 1:
        return values
    at = np.arange(0, len(values), step)
    there = ~np.isnan(values)
    sums = np.add.reduceat(np.where(there, values, 0.0), at)
    counts = np.add.reduceat(there.astype(np.float64), at)
    found: Floats = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return found


def _most(column: fairness.Codes, step: int) -> fairness.Codes:
    """The most frequent code of every `step`; of equally frequent ones the neediest."""
    if step <= 1:
        return column
    at = np.arange(0, len(column), step)
    codes = np.array(sorted({fairness.IDLE, *_LOOKS}, reverse=True))
    counts = np.stack([np.add.reduceat((column == code).astype(np.int64), at) for code in codes])
    found: fairness.Codes = codes[counts.argmax(axis=0)].astype(np.int8)
    return found


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 4) for value in values]
