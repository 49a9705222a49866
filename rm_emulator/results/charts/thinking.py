"""Schedulers with think times: their busyness, their conflicts, and the waits of jobs for a scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import fmean
from typing import Any, Final

from rm_emulator.issues import show_swept
from rm_emulator.results import sweep
from rm_emulator.results.chart import JOBS, SWEEP, Cells, Chart, register
from rm_emulator.results.drawing import colour, over
from rm_emulator.results.expect import keys
from rm_emulator.results.figures import Summary
from rm_emulator.results.sweep import Estimate
from rm_emulator.results.table import number

_FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "busyness": ("busyness",),
    "conflicts per job": ("conflict_fraction",),
    "mean wait to be thought about (s)": ("wait_s", "mean"),
    "jobs given up": ("given_up",),
}
#: What the copies of one scheduler end with.
_COPY: Final = re.compile(r"-\d+$")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _names(summary: Summary) -> list[str]:
    """The schedulers of any run."""
    found = (run.schedulers for run in summary.runs)
    return list(dict.fromkeys(name for each in found if isinstance(each, dict) for name in each))


def _figures(summary: Summary) -> dict[str, tuple[str, ...]]:
    """`_FIGURES`, the headline's figure first."""
    return dict(sorted(_FIGURES.items(), key=lambda figure: figure[1] != keys(summary.headline)))


@register(JOBS, order=15, wide=True, source="rm-emulator")
def thinking(cells: Cells) -> Chart | None:
    """A bar per label and scheduler."""
    summary, names = cells.summary, _names(cells.summary)
    if not names or summary.axes:
        return None
    value = {
        (label, name, what): summary.mean(label, "schedulers", name, *path)
        for label in summary.labels
        for name in names
        for what, path in _figures(summary).items()
    }
    variants = []
    for what in _figures(summary):
        data = [
            {
                "type": "bar",
                "name": label,
                "x": names,
                "y": [value[label, name, what] for name in names],
                "marker": {"color": colour(index)},
                "hovertemplate": f"%{{x}}: %{{y:.4~g}}<extra>{label}</extra>",
            }
            for index, label in enumerate(summary.labels)
        ]
        layout = {"yaxis": {"title": {"text": what}, "rangemode": "tozero"}, "barmode": "group"}
        variants.append((what, {"data": data, "layout": layout}))
    return Chart(
        title="Schedulers that take their time",
        alt="Bars: how busy each scheduler is, by label",
        caption="Busyness is the time spent thinking over that of the run; a conflict is an attempt at a job of which "
        "at least one claim was refused, and conflicts are counted per job that was placed as a whole.",
        variants=tuple(variants),
        head=("label", "scheduler", *_figures(summary)),
        rows=tuple(
            (label, name, *(number(value[label, name, what]) for what in _figures(summary)))
            for label in summary.labels
            for name in names
        ),
        choose="figure",
    )


@register(SWEEP, order=6, wide=True, source="rm-emulator")
def over_thinking(cells: Cells) -> Chart | None:
    """The same over a swept setting, a number if there is one: a line per scheduler and combination of all else."""
    summary = cells.summary
    axes = [axis for axis, values in summary.axes.items() if len(values) > 1]
    across = next((axis for axis in axes if all(_number(value) is not None for value in summary.axes[axis])), None)
    across = across or next(iter(axes), None)
    if across is None or not _names(summary):
        return None
    shown = sweep.names(summary.axes)[across]
    lines = {what: _lines(summary, across, path) for what, path in _figures(summary).items()}
    rows = []
    for line in dict.fromkeys(name for found in lines.values() for name in found):
        for at in map(_place, summary.axes[across]):
            there = [found.get(line, {}).get(at) for found in lines.values()]
            if any(there):
                figures = (number(each.value if each else None) for each in there)
                rows.append((line, f"{at:g}" if isinstance(at, float) else at, *figures))
    return Chart(
        title="Schedulers that take their time, over a setting",
        alt=f"Busyness of schedulers over {shown}, one line per scheduler",
        caption="Means over the seeds, and over schedulers that differ in nothing but their number. Durations are in "
        "seconds.",
        variants=tuple((what, over(found, shown, what)) for what, found in lines.items()),
        head=("scheduler", shown, *_figures(summary)),
        rows=tuple(rows),
        choose="figure",
    )


def _number(value: Any) -> float | None:
    """A number, or a duration in seconds; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    digits = str(value).rstrip("hms")
    unit = _UNITS.get(str(value)[len(digits) :])
    try:
        return None if unit is None else float(digits) * unit
    except ValueError:
        return None


def _place(value: Any) -> float | str:
    """Where a value of the setting is drawn."""
    at = _number(value)
    return show_swept(value) if at is None else at


def _lines(summary: Summary, across: str, path: tuple[str, ...]) -> dict[str, dict[float | str, Estimate]]:
    """Estimates by line, then by place. All copies of a scheduler share a line: their number may be a swept setting."""
    lines: dict[str, dict[float | str, list[float]]] = {}
    for values, point in summary.points:
        others = sweep.named(values, summary, across)
        for label in point.labels:
            for name in _names(point):
                found = point.mean(label, "schedulers", name, *path)
                if found is not None:
                    scheduler = _COPY.sub("", name)
                    line = "; ".join([scheduler, *others, *([label] if len(point.labels) > 1 else [])])
                    lines.setdefault(line, {}).setdefault(_place(values[across]), []).append(found)
    order = [_place(value) for value in summary.axes[across]]
    if all(isinstance(at, float) for at in order):
        order.sort()
    return {name: {at: Estimate(fmean(line[at]), None) for at in order if at in line} for name, line in lines.items()}
