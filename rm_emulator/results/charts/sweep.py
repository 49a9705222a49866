"""A sweep: the main figures over each swept setting, and the best label where two are swept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

import msgspec

from rm_emulator.issues import show_swept
from rm_emulator.results import sweep
from rm_emulator.results.chart import SWEEP, Cells, Chart, Figure, register
from rm_emulator.results.contest import figure_name, lowest
from rm_emulator.results.drawing import colour, five_digits, in_words, line, note, through
from rm_emulator.results.expect import keys
from rm_emulator.results.figures import Summary
from rm_emulator.results.sweep import Estimate
from rm_emulator.results.table import number, times

#: So many combinations of the other axes have a panel of their own.
_PANELS: Final = 9
_ACROSS: Final = 3
#: So many points of all lines of a figure are drawn, and so many values of each axis where labels are.
_MARKS: Final = 2000
_SIDE: Final = 40
#: A numeric axis whose ends are this far apart is logarithmic.
_WIDE: Final = 20
_AXIS: Final = {
    "gridcolor": "$grid",
    "linecolor": "$rule",
    "zeroline": False,
    "ticks": "",
    "tickfont": {"color": "$soft"},
}
Values = Mapping[str, Any]
#: A figure by name: (point, label) -> what is drawn.
Figures = dict[str, dict[tuple[int, str], Estimate]]
Points = Sequence[tuple[Values, Summary]]


@register(SWEEP, order=10, wide=True, source="rm-emulator")
def over_axes(cells: Cells) -> Chart | None:
    """The main figures over each axis, a line per label with its interval over the seeds."""
    summary = cells.summary
    if not summary.axes:
        return None
    points, figures = summary.points, _figures(summary)
    axes = [axis for axis, values in summary.axes.items() if len(values) > 1] or [*summary.axes]
    names = sweep.names(summary.axes)
    variants = tuple(
        (f"{figure} over {names[axis]}" if len(axes) > 1 else figure, _panels(summary, points, axis, figure, drawn))
        for figure, drawn in figures.items()
        for axis in axes
    )
    rows = [
        (
            *(show_swept(value) for value in values.values()),
            label,
            *(_text(figures[f].get((at, label))) for f in figures),
        )
        for at, (values, point) in enumerate(points[: sweep.points_shown(summary)])
        for label in point.labels
    ]
    most = max(len(_others(summary, axis)) for axis in axes)
    down = -(-min(most, _PANELS) // _ACROSS) if most > 1 else 1
    drawn_of = [(len(_values(summary, axis)), len(summary.axes[axis]), f"values of {names[axis]}") for axis in axes]
    left = "".join(sweep.left_out(*each) for each in [(_PANELS, most, "combinations of the other settings"), *drawn_of])
    listed = sweep.left_out(sweep.points_shown(summary), len(points), "points").replace("Shown", "In the table", 1)
    return Chart(
        title="Figures over the swept settings",
        alt=f"Mean job completion time and other figures over {', '.join(names.values())}, one line per label",
        caption="Means over the seeds with 95 % intervals (Student's t; of speedups as in the table). "
        f"A panel for each combination of the other swept settings.{left}{listed}",
        variants=variants,
        head=(*names.values(), "label", *figures),
        rows=tuple(rows),
        choose="figure",
        tall=110 + 240 * down,
    )


@register(SWEEP, order=20, wide=True, source="rm-emulator")
def best_label(cells: Cells) -> Chart | None:
    """Of a sweep of two settings: under which label jobs finish soonest at each point."""
    summary = cells.summary
    if len(summary.axes) != 2 or len(summary.labels) < 2:
        return None
    (across, xs), (up, ys) = ((axis, values[:_SIDE]) for axis, values in summary.axes.items())
    names, speedups = sweep.names(summary.axes), _speedups(summary.points)
    shown = [(at, *point) for at, point in enumerate(summary.points) if point[0][across] in xs and point[0][up] in ys]
    found = [(at, values, label) for at, values, point in shown if (label := lowest(point))]
    left = "".join(
        sweep.left_out(_SIDE, len(values), f"values of {names[axis]}") for axis, values in summary.axes.items()
    )
    size = max(18, min(46, 700 // max(len(xs), 1), 300 // max(len(ys), 1)))
    data: list[Figure] = []
    for index, label in enumerate(summary.labels):
        mine = [(at, values) for at, values, winner in found if winner == label]
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": label,
                "x": [show_swept(values[across]) for _, values in mine] or [None],
                "y": [show_swept(values[up]) for _, values in mine] or [None],
                "text": [times(speedups[at, label].value) if (at, label) in speedups else "" for at, _ in mine],
                "customdata": [[label, at + 1] for at, _ in mine],
                "marker": {"symbol": "square", "size": size, "color": colour(index), "opacity": 0.85},
                "textfont": {"color": "$page", "size": 11},
                "hovertemplate": f"{names[across]} %{{x}}, {names[up]} %{{y}}: {label} %{{text}}<extra></extra>",
            }
        )
    layout = {
        "xaxis": {**in_words(list(map(show_swept, xs))), **_titled(names[across]), "showgrid": False},
        "yaxis": {**in_words(list(map(show_swept, ys))), **_titled(names[up]), "showgrid": False},
        "hovermode": "closest",
        "legend": {"itemsizing": "constant"},
    }
    return Chart(
        title="Under which label do jobs finish soonest?",
        alt=f"The label with the lowest mean job completion time over {names[across]} and {names[up]}",
        caption=f"Lowest mean job completion time at each point; the number is its speedup over {summary.baseline}. "
        f"It says nothing of how sure that is: see the intervals above.{left}",
        variants=(("", {"data": data, "layout": layout}),),
        head=(*names.values(), "label"),
        rows=tuple((*(show_swept(value) for value in values.values()), label) for _, values, label in found),
        tall=max(240, 120 + (size + 12) * len(ys)),
    )


def _figures(summary: Summary) -> Figures:
    """What is drawn, the headline's figure first, without figures that apply to no point."""
    resource = summary.runs[0].load_resource or next(iter(summary.runs[0].utilisation), None)
    paths: dict[str, tuple[str, ...]] = {
        "mean JCT (s)": ("jct_s", "mean"),
        "p90 JCT (s)": ("jct_s", "p90"),
        "mean wait (s)": ("wait_s", "mean"),
        "makespan (s)": ("makespan_s",),
        "load": ("load",),
    }
    if resource is not None:
        paths[f"utilisation ({resource})"] = ("utilisation", resource)
    first = keys(summary.headline)
    called = next((name for name, path in paths.items() if path == first), figure_name(summary.headline))
    paths = {called: first} | paths
    figures: Figures = {name: {} for name in paths}
    points = summary.points
    for at, (_, point) in enumerate(points):
        for label in point.labels:
            for name, path in paths.items():
                if (found := sweep.estimate(point, label, *path)) is not None:
                    figures[name][at, label] = found
    figures[f"speedup over {summary.baseline}"] = _speedups(points)
    return {name: drawn for name, drawn in figures.items() if drawn}


def _speedups(points: Points) -> dict[tuple[int, str], Estimate]:
    """The speedup of each label at each point by mean JCT."""
    found = {}
    for at, (_, point) in enumerate(points):
        for compared in point.comparisons:
            mean = compared.speedup.ratio_of_means
            if mean.value is not None:
                ends = None if mean.ci95 is None else (mean.ci95[0], mean.ci95[1])
                found[at, compared.label] = Estimate(mean.value, ends)
    return found


def _others(summary: Summary, axis: str) -> list[Values]:
    """The combinations of the axes beside this one."""
    others = {name: values for name, values in summary.axes.items() if name != axis}
    return [dict(zip(others, values, strict=True)) for values in product(*others.values())]


def _values(summary: Summary, axis: str) -> Sequence[Any]:
    """The values of an axis that are drawn."""
    panels = min(len(_others(summary, axis)), _PANELS)
    return summary.axes[axis][: max(2, _MARKS // (panels * len(summary.labels)))]


def _panels(
    summary: Summary, points: Points, axis: str, figure: str, drawn: Mapping[tuple[int, str], Estimate]
) -> Figure:
    """A figure over one axis, a panel for each combination of the others."""
    others, names = _others(summary, axis)[:_PANELS], sweep.names(summary.axes)
    across, down = min(len(others), _ACROSS), -(-len(others) // _ACROSS)
    data: list[Figure] = []
    notes: list[Figure] = []
    layout: Figure = {"hovermode": "closest", "annotations": notes, "shapes": []}
    values = _values(summary, axis)
    encode = msgspec.json.encode
    first = {encode(each) for each in values}
    within = [(at, of) for at, (of, _) in enumerate(points) if encode(of[axis]) in first]
    of_axis = _scale(names[axis], values)
    for panel, fixed in enumerate(others):
        row, column = divmod(panel, _ACROSS)
        number_ = "" if panel == 0 else str(panel + 1)
        wide, high = 1 / across, 1 / down
        left, right = column * wide + (0.03 if column else 0), (column + 1) * wide - 0.01
        top = 1 - row * high - (0.06 if fixed else 0)
        bottom = 1 - (row + 1) * high + (0.12 if row < down - 1 else 0)
        layout[f"xaxis{number_}"] = {**_AXIS, **of_axis, "domain": [left, right], "anchor": f"y{number_}"}
        title = _titled(figure) if column == 0 else {}
        tied: Figure = {"matches": "y", "showticklabels": column == 0} if panel else {"rangemode": "tozero"}
        layout[f"yaxis{number_}"] = {**_AXIS, **tied, **title, "domain": [bottom, top], "anchor": f"x{number_}"}
        if fixed:
            text = ", ".join(f"{names[name]} {show_swept(value)}" for name, value in fixed.items())
            notes.append(note(text, (left + right) / 2, top, xanchor="center", font={"color": "$soft"}))
        if figure.startswith("speedup"):
            layout["shapes"].append(line(xref=f"x{number_} domain", yref=f"y{number_}", x0=0, x1=1, y0=1, y1=1))
        here = [(at, of[axis]) for at, of in within if fixed.items() <= of.items()]
        data += _lines(summary.labels, here, values, drawn, number_)
    return {"data": data, "layout": layout}


def _lines(
    labels: Sequence[str],
    here: list[tuple[int, Any]],
    values: Sequence[Any],
    drawn: Mapping[tuple[int, str], Estimate],
    panel: str,
) -> list[Figure]:
    """A line per label through the points of one panel. here: their numbers and values; values: of the axis."""
    if sweep.numeric(values):
        here.sort(key=lambda point: float(point[1]))
    traces = []
    for index, label in enumerate(labels):
        shown = [(value, drawn[at, label]) for at, value in here if (at, label) in drawn]
        if not shown:
            continue
        places = [_beside(value, values, index, len(labels)) for value, _ in shown]
        more = {
            "legendgroup": label,
            "showlegend": panel == "",
            "customdata": [[show_swept(value), at + 1] for at, value in here if (at, label) in drawn],
            "xaxis": f"x{panel}",
            "yaxis": f"y{panel}",
            "hovertemplate": f"{label}: %{{y:.4~g}} at %{{customdata[0]}}<extra></extra>",
        }
        traces.append(through(label, index, places, [each for _, each in shown], **more))
    return traces


def _beside(value: Any, values: Sequence[Any], index: int, labels: int) -> Any:
    """Where a label's point is drawn: numbers a little apart, so that the bars of their intervals are."""
    if not sweep.numeric(values):
        return show_swept(value)
    apart = 0.008 * (index - (labels - 1) / 2)
    low, high = min(values), max(values)
    return five_digits(value * (high / low) ** apart if _logarithmic(values) else value + apart * (high - low))


def _logarithmic(values: Sequence[Any]) -> bool:
    return bool(min(values) > 0 and max(values) >= _WIDE * min(values))


def _scale(name: str, values: Sequence[Any]) -> Figure:
    """The axis of a swept setting: of numbers, wide ranges logarithmic, or of words in their order."""
    if not sweep.numeric(values):
        return {**in_words([show_swept(value) for value in values]), **_titled(name)}
    ticks = sorted(values)
    scale = {"type": "log" if _logarithmic(values) else "linear"}
    few = {"tickvals": ticks, "ticktext": [show_swept(value) for value in ticks]} if len(ticks) <= 8 else {}
    return {**scale, **few, **_titled(name)}


def _titled(name: str) -> Figure:
    return {"title": {"text": name, "standoff": 10, "font": {"color": "$soft", "size": 12}}}


def _text(estimate: Estimate | None) -> str:
    if estimate is None or estimate.interval is None:
        return number(estimate.value if estimate else None)
    low, high = estimate.interval
    return f"{number(estimate.value)} [{number(low)}, {number(high)}]"
