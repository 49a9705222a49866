"""Fairness of the queues over time."""

from __future__ import annotations

import numpy as np

from rm_emulator.results import fairness
from rm_emulator.results.chart import SHARING, Cells, Chart, Figure, register
from rm_emulator.results.drawing import CURVE_POINTS, means, of_label, time_unit
from rm_emulator.results.fairness import QueueShares
from rm_emulator.results.metrics import Floats
from rm_emulator.results.table import number


@register(SHARING, order=30, wide=True, source="Jain, Chiu and Hawe 1984: index of fairness")
def jain(cells: Cells) -> Chart | None:
    """Jain's index over time, one line per label, one variant per length of its windows."""
    courses, summary = cells.courses, cells.summary
    if not fairness.have_several_queues(courses):
        return None
    variants, rows = [], []
    begin = min(course.start_ms for course in courses.values())
    end = max(course.end_ms for course in courses.values())
    divisor, unit = time_unit(end)
    layout = {
        "xaxis": {"title": {"text": f"time ({unit})"}, "range": [begin / divisor, end / divisor]},
        "yaxis": {"range": [0, 1.03], "tickformat": ".1f"},
        "hovermode": "x unified",
        "showlegend": True,
    }
    for window_ms in fairness.WINDOWS_MS:
        lines = [
            _jain_line(course, window_ms, label, index, divisor)
            for index, (label, course) in enumerate(courses.items())
            if fairness.jain_over_time(course, window_ms) is not None
        ]
        if lines:
            variants.append((f"{window_ms // 1000} s", {"data": lines, "layout": layout}))
    for label in courses:
        for window_ms in fairness.WINDOWS_MS:
            key = f"jain_{window_ms // 1000}s"
            figures = [summary.mean(label, "fairness", key, name) for name in ("mean", "worst")]
            rows.append((label, f"{window_ms // 1000} s", *map(number, figures)))
    if not variants:
        return None
    return Chart(
        title="Jain's index",
        alt="Jain's fairness index over time, one line per label",
        caption="1: every queue with work has the same part of its fair share; 1/n: one of n has it all. Long windows "
        "forgive a queue that is served late but in full. Gaps: fewer than two queues had work. "
        f"Seed {cells.seeds[0]}; the table holds means over all seeds.",
        variants=tuple(variants),
        head=("label", "window", "mean", "worst"),
        rows=tuple(rows),
        choose="window",
    )


def _jain_line(course: QueueShares, window_ms: int, label: str, index: int, divisor: float) -> Figure:
    values = fairness.jain_over_time(course, window_ms)
    assert values is not None
    step = -(-len(values) // CURVE_POINTS)
    x, y = _steps(means(values[:, None], step)[:, 0], course.start_ms / divisor, step * window_ms / divisor)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": x,
        "y": y,
        "connectgaps": False,
        "line": of_label(index, 1.8, shape="hv"),
        "hovertemplate": "%{y:.2f}<extra>" + label + "</extra>",
    }


def _steps(values: Floats, start: float, width: float) -> tuple[list[float], list[float | None]]:
    """Points of a line of steps; before a gap and at the end the last value is drawn to where it ends."""
    x, y = [], list[float | None]()
    for index, value in enumerate(values.tolist()):
        known = not np.isnan(value)
        if known or (y and y[-1] is not None):
            x.append(round(start + index * width, 5))
            y.append(round(value, 4) if known else y[-1])
        if not known and y and y[-1] is not None:
            x.append(x[-1])
            y.append(None)
    if y and y[-1] is not None:
        x.append(round(start + len(values) * width, 5))
        y.append(y[-1])
    return x, y
