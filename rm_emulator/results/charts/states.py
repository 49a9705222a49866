"""When queues are starved, hungry or satisfied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from rm_emulator.results import fairness
from rm_emulator.results.chart import SHARING, Cells, Chart, Figure, register
from rm_emulator.results.drawing import hatched, of_queues, rows_of, spans, time_unit
from rm_emulator.results.fairness import QueueShares
from rm_emulator.results.table import number

#: Queues with a row of their own.
SHOWN: Final = 12
#: Columns of the strip of states.
_COLUMNS: Final = 400
#: Colour, pattern and strength of each state: want stands out, and is told without the colour as well.
_LOOKS: Final = {
    fairness.STARVED: ("$s1", "", 1.0),
    fairness.HUNGRY: ("$s4", "/", 0.8),
    fairness.SATISFIED: ("$s2", "", 0.3),
}


@register(SHARING, order=20, wide=True, source="rm-emulator")
def states(cells: Cells) -> Chart | None:
    """When each queue was starved, hungry or satisfied; one variant per label."""
    courses = cells.courses
    if not fairness.have_several_queues(courses):
        return None
    names = _in_want(courses)
    left = len(next(iter(courses.values())).queues) - len(names)
    keys = [f"{name}_s" for name in fairness.STATES.values()]
    some = f" The {len(names)} queues that starved longest; {left} more are in the table." if left else ""
    return Chart(
        title="Starved, hungry, satisfied",
        alt="A row per queue: when it was starved, hungry or satisfied",
        caption="Starved: work waits below the queue's fair share while another queue holds more than its own. "
        "Hungry: work waits otherwise. Satisfied: nothing waits. Blank: the queue has no work."
        f"{some} Seed {cells.seeds[0]}; the table holds means over all seeds, in seconds.",
        variants=tuple((label, _strips(course, names)) for label, course in courses.items()),
        head=("label", "queue", *(f"{name} (s)" for name in fairness.STATES.values())),
        rows=of_queues(cells, keys, lambda seconds: number(seconds, 4)),
        choose="label",
        tall=130 + 30 * len(names),
    )


def _in_want(courses: Mapping[str, QueueShares]) -> list[str]:
    """The queues of the strip; if there are too many, the queues with the longest time starved, then hungry."""
    first = next(iter(courses.values()))
    if len(first.queues) <= SHOWN:
        return list(first.queues)
    counts = [
        np.sum([(course.state == code).mean(axis=0) for course in courses.values()], axis=0)
        for code in (fairness.STARVED, fairness.HUNGRY)
    ]
    order = np.lexsort((-counts[1], -counts[0]))[:SHOWN]
    return [first.queues[index] for index in sorted(order.tolist())]


def _strips(course: QueueShares, names: Sequence[str]) -> Figure:
    """Bars from change to change; where a column stands for many buckets, the state that held for most of it."""
    step = -(-len(course.state) // _COLUMNS)
    divisor, unit = time_unit(course.end_ms)
    width, last = step * course.width_ms, len(course.state) * course.width_ms
    bars: dict[int, list[tuple[int, int, int]]] = {code: [] for code in _LOOKS}
    for place, name in enumerate(names):
        column = _most(course.state[:, course.queues.index(name)], step)
        edges = [0, *(1 + np.flatnonzero(np.diff(column))).tolist(), len(column)]
        for start, end in pairwise(edges):
            if column[start] in bars:
                since, until = (course.start_ms + min(index * width, last) for index in (start, end))
                bars[int(column[start])].append((place, since, until))
    data = []
    for code, (tint, shape, strength) in _LOOKS.items():
        data.append(
            {
                **spans(bars[code], divisor),
                "name": fairness.STATES[code],
                "width": 0.72,
                "opacity": strength,
                "marker": {"color": tint, "line": {"width": 0}, "pattern": hatched(shape, 6, 0.7, "$card")},
                "hovertemplate": "from %{customdata[0]} for %{customdata[1]}"
                f"<extra>{fairness.STATES[code]}</extra>",
            }
        )
    layout = {
        "barmode": "overlay",
        "showlegend": True,
        "hovermode": "closest",
        "legend": {"traceorder": "normal"},
        "xaxis": {
            "title": {"text": f"time ({unit})"},
            "range": [round(course.start_ms / divisor, 4), round((course.start_ms + last) / divisor, 4)],
        },
        "yaxis": rows_of(names),
    }
    return {"data": data, "layout": layout}


def _most(column: fairness.Codes, step: int) -> fairness.Codes:
    """The most frequent code of every `step`; of equally frequent ones the neediest."""
    if step <= 1:
        return column
    at = np.arange(0, len(column), step)
    codes = np.array(sorted({fairness.IDLE, *_LOOKS}, reverse=True))
    counts = np.stack([np.add.reduceat((column == code).astype(np.int64), at) for code in codes])
    most: fairness.Codes = codes[counts.argmax(axis=0)].astype(np.int8)
    return most
