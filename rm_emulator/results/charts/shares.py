"""What queues hold, above what would be fair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np

from rm_emulator.results import fairness
from rm_emulator.results.chart import SHARING, Cells, Chart, Figure, register
from rm_emulator.results.drawing import CURVE_POINTS, SERIES, colour, hatched, means, of_queues, time_unit
from rm_emulator.results.fairness import QueueShares
from rm_emulator.results.metrics import Floats
from rm_emulator.results.table import percent

OTHERS: Final = "others"


class SharesParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings."""

    queues: Annotated[
        int, msgspec.Meta(ge=2, le=100, description="areas at most; what is left of more queues is summed in the last")
    ] = 12


@register(SHARING, order=10, wide=True, source="DRF (NSDI'11): dominant shares", params=SharesParams)
def shares(cells: Cells, params: SharesParams) -> Chart | None:
    """Share of each queue over time, drawn above the queue's fair share; one variant per label."""
    courses = cells.courses
    if not fairness.have_several_queues(courses):
        return None
    groups = _groups(courses, params.queues)
    some = f" The {len(groups) - 1} largest queues have a colour each." if len(groups[-1][1]) > 1 else ""
    return Chart(
        title="Shares of the queues over time",
        alt="Stacked areas over time: the share of the cluster each queue holds, and below it its fair share",
        caption="Above: the dominant share each queue holds (of the resource it holds most of), stacked. Below: what "
        "it would hold if the cluster were shared by weight among those who have work. The closer the two pictures, "
        f"the fairer.{some} Shares of different resources may add up to more than 100 %. Seed {cells.seeds[0]}.",
        variants=tuple((label, _two_panels(course, groups)) for label, course in courses.items()),
        head=("label", "queue", "share held, mean", "fair share, mean"),
        rows=of_queues(cells, ("share_mean", "fair_share_mean"), percent),
        choose="label",
        tall=470 + 22 * (len(groups) // 6),
    )


def _groups(courses: Mapping[str, QueueShares], most: int) -> list[tuple[str, list[int]]]:
    """Name and columns of each area: every queue by itself, of many the largest, and the others together."""
    first = next(iter(courses.values()))
    if len(first.queues) <= most:
        return [(name, [index]) for index, name in enumerate(first.queues)]
    weight = np.sum([course.held.mean(axis=0) + course.fair.mean(axis=0) for course in courses.values()], axis=0)
    order = np.argsort(-weight, kind="stable").tolist()
    largest = sorted(order[: most - 1])
    return [*((first.queues[i], [i]) for i in largest), (OTHERS, sorted(order[most - 1 :]))]


def _two_panels(course: QueueShares, groups: Sequence[tuple[str, list[int]]]) -> Figure:
    step = -(-len(course.held) // CURVE_POINTS)
    divisor, unit = time_unit(course.end_ms)
    panels = [("y", "y", course.held), ("y2", "y2", course.fair)]
    data, top = [], 1.0
    for axis, stack, values in panels:
        held = means(values, step)
        top = max(top, float(held.sum(axis=1).max()))
        for index, (name, columns) in enumerate(groups):
            area = held[:, columns].sum(axis=1)
            look = _area(name, index, grouped=len(columns) > 1)
            start = {"x0": round(course.start_ms / divisor, 5), "dx": round(step * course.width_ms / divisor, 5)}
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
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "line": {"color": tint, "width": 0.6, "shape": "hv"},
        "fillcolor": tint,
        "fillpattern": hatched("/" if index >= SERIES and not grouped else "", 7, 0.7, "$card"),
        "hovertemplate": "%{y:.1%}<extra>" + name + "</extra>",
    }


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 4) for value in values]
