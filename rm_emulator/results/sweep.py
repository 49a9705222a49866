"""The points of a sweep side by side: for the terminal, for the report, and for its charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.text import Text

from rm_emulator.issues import show_point, show_swept
from rm_emulator.results import table
from rm_emulator.results.figures import ExpectationOutcome, Summary, value
from rm_emulator.results.statistics import student_t

#: So many points are printed.
_PRINTED: Final = 30
#: So many labels at points stand in a table of the page: 2 MB, which a browser opens in a second.
_ROWS: Final = 2000


class Estimate(NamedTuple):
    """A mean over seeds and its 95 % interval, None for a single seed."""

    value: float
    interval: tuple[float, float] | None


def names(axes: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Names of the axes: the last part of the path where unique, else the whole path.

    >>> names({"cluster.nodes[0].count": [1], "workload.load": [1]})
    {'cluster.nodes[0].count': 'count', 'workload.load': 'load'}
    """
    short = {axis: axis.rpartition(".")[2] for axis in axes}
    return {axis: axis if [*short.values()].count(name) > 1 else name for axis, name in short.items()}


def named(values: Mapping[str, Any], summary: Summary, without: str) -> list[str]:
    """The swept settings at a point, without constant settings and without a given axis.

    A block is told by its kind; a plain value by the name of its axis.
    """
    swept = {axis: found for axis, found in values.items() if axis != without and len(summary.axes[axis]) > 1}
    called = names(summary.axes)
    return [
        show_swept(value) if isinstance(value, Mapping) else f"{called[axis]} {show_swept(value)}"
        for axis, value in swept.items()
    ]


def points_shown(summary: Summary) -> int:
    """So many points, from the first on, stand in the tables of the page."""
    return max(1, _ROWS // len(summary.labels))


def left_out(shown: int, every: int, things: str) -> str:
    """The sentence on what a table or a chart does not show, '' where all is shown.

    >>> left_out(12, 200, "points")
    ' Shown: the first 12 of 200 points; all are in summary.json.'
    """
    return f" Shown: the first {shown:,} of {every:,} {things}; all are in summary.json." if shown < every else ""


def estimate(point: Summary, label: str, *path: str) -> Estimate | None:
    """A figure of a label at a point; None when some seed lacks a value."""
    values = [value(run, *path) for run in point.of(label)]
    known = [each for each in values if each is not None]
    if not known or len(known) < len(values):
        return None
    return Estimate(math.fsum(known) / len(known), student_t(known) if len(known) > 1 else None)


def name_one(directory: Path, axes: Mapping[str, Sequence[Any]]) -> str:
    """Message of commands for a single point: a sweep's points."""
    count = math.prod(len(values) for values in axes.values())
    first = {axis: values[0] for axis, values in axes.items()}
    return f"is a sweep of {count:,} points: name one, such as {directory / 'points' / '1'} ({show_point(first)})"


def show(summary: Summary, console: Console) -> None:
    """Prints the labels at every point, and the expectations."""
    console.print(table.drawn(*compared(summary), console.width, rows_each=len(summary.labels)))
    left = len(summary.points) - _PRINTED
    if left > 0:
        console.print(f"and {left:,} more points in summary.json", style="dim", highlight=False)
    if summary.expect:
        console.print(_expectations(summary))


def compared(summary: Summary) -> tuple[str, list[table.TableColumn]]:
    """Title and columns of the table of `run`."""
    return _title(summary), columns(summary, _PRINTED)


def _title(summary: Summary) -> str:
    """Scenario, points, labels and seeds in words."""
    points, labels, seeds = len(summary.points), len(summary.labels), len(summary.seeds)
    return f"{summary.scenario}: {points:,} points, {labels} label{'s' * (labels > 1)}, {seeds} seed{'s' * (seeds > 1)}"


def columns(summary: Summary, most: int | None = None) -> list[table.TableColumn]:
    """Number and values of each point, and beside them the columns of its comparison. most: so many points."""
    points = summary.points[:most]
    rows = [(number, values) for number, (values, point) in enumerate(points, start=1) for _ in point.labels]
    made = [table.TableColumn("point", 0, [Text(str(number)) for number, _ in rows])]
    for axis, name in names(summary.axes).items():
        made.append(table.TableColumn(name, 0, [Text(show_swept(values[axis])) for _, values in rows]))
    parts = [{column.heading: column for column in table.columns(point)} for _, point in points]
    heads = {heading: column for part in reversed(parts) for heading, column in part.items()}
    nothing = [Text(table.NOTHING)] * len(summary.labels)
    for heading in dict.fromkeys(heading for part in parts for heading in part):
        each = (part[heading].cells if heading in part else nothing for part in parts)
        cells = [cell for of_point in each for cell in of_point]
        made.append(table.TableColumn(heading, heads[heading].rank, cells, heads[heading].justify))
    return made


def outcomes(summary: Summary) -> list[tuple[str, Sequence[ExpectationOutcome], int]]:
    """Each expectation with its failed outcomes, and the number of points evaluated."""
    texts = dict.fromkeys(outcome.text for outcome in summary.expect)
    of_text = {text: [outcome for outcome in summary.expect if outcome.text == text] for text in texts}
    return [(text, [each for each in found if not each.holds], len(found)) for text, found in of_text.items()]


def _expectations(summary: Summary) -> Text:
    text = Text()
    for wanted, failed, points in outcomes(summary):
        mark, style = ("FAILS", "bold red") if failed else ("holds", "green")
        text.append(f"{mark}  ", style=style).append(wanted)
        at = f"at {len(failed):,} of {points:,} points" if failed else f"at all {points:,} points"
        text.append(f"   ({at})\n", style="dim")
        for outcome in failed[:_PRINTED]:
            text.append(f"       {show_point(outcome.sweep or {})}   ({table.sides(outcome)})\n", style="dim")
    return text


def numeric(values: Sequence[Any]) -> bool:
    """Whether all values of an axis are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
