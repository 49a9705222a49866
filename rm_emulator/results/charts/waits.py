"""What jobs wait for, in all."""

from __future__ import annotations

from rm_emulator.results import waits as waiting
from rm_emulator.results.chart import JOBS, Cells, Chart, register
from rm_emulator.results.drawing import colour, duration, hatched, time_unit
from rm_emulator.results.table import percent
from schedulers.core.reasons import Reason

#: Names of the units of `time_unit` on an axis.
_UNITS = {"h": "hours", "min": "minutes", "s": "seconds"}
_SHAPES = ("", "/")


@register(JOBS, order=10, wide=True, source="rm-emulator")
def waits(cells: Cells) -> Chart | None:
    """How long jobs waited for each reason, a bar per label."""
    if not cells.reasons:
        return None
    sums = {label: waiting.by_reason(each, cells.nodes(label)) for label, each in cells.waits.items()}
    waited = {label: dict(each.select("reason", "ms").iter_rows()) for label, each in sums.items()}
    divisor, unit = time_unit(max((sum(of.values()) for of in waited.values()), default=0))
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": reason.replace("_", " "),
            "y": list(reversed(waited)),
            "x": [round(waited[label].get(reason, 0) / divisor, 5) for label in reversed(waited)],
            "customdata": [duration(waited[label].get(reason, 0)) for label in reversed(waited)],
            "marker": {"color": colour(index), "pattern": hatched(_SHAPES[index // 8 % 2], 6, 0.6)},
            "hovertemplate": f"%{{y}}: %{{customdata}}<br>{waiting.MEANINGS[Reason(reason)]}"
            f"<extra>{reason.replace('_', ' ')}</extra>",
        }
        for index, reason in enumerate(cells.reasons)
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": f"{_UNITS[unit]}, summed over jobs"}, "rangemode": "tozero"},
        "yaxis": {"automargin": True},
        "legend": {"traceorder": "normal"},
        "hovermode": "closest",
    }
    main = "; ".join(f"{r.replace('_', ' ')}: {waiting.MEANINGS[Reason(r)]}" for r in cells.reasons[:4])
    return Chart(
        title="What jobs wait for",
        alt="A bar per label: how long jobs waited, by reason",
        caption=f"{main[:1].upper()}{main[1:]}. Of several reasons the first in a fixed order counts. The table says "
        "which part of the cluster was free meanwhile: where much was, limits or an order kept jobs out.",
        variants=(("", {"data": data, "layout": layout}),),
        head=("label", "reason", "meaning", "jobs", "waited", "cluster free meanwhile"),
        rows=tuple(
            (
                label,
                row["reason"].replace("_", " "),
                waiting.MEANINGS[Reason(row["reason"])],
                f"{row['jobs']:,}",
                duration(row["ms"]),
                percent(row["free"]),
            )
            for label, each in sums.items()
            for row in each.iter_rows(named=True)
        ),
        tall=130 + 46 * len(sums),
    )
