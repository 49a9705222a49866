"""The speedups of every label over the baseline, with their intervals."""

from __future__ import annotations

from rm_emulator.results.chart import RESULTS, Cells, Chart, Figure, register
from rm_emulator.results.drawing import colour, line, rows_of
from rm_emulator.results.figures import Speedup
from rm_emulator.results.table import SPEEDUP_NAMES, interval, times


@register(RESULTS, order=10, wide=True, source="rm-emulator")
def speedups(cells: Cells) -> Chart | None:
    """The three average speedups of every label with their intervals."""
    summary = cells.summary
    compared = summary.comparisons
    if not compared:
        return None
    data, rows = [], []
    symbols = dict(zip(SPEEDUP_NAMES, ("circle", "diamond", "square"), strict=True))
    for place, comparison in enumerate(compared):
        for offset, (key, name) in enumerate(SPEEDUP_NAMES.items()):
            speedup = getattr(comparison.speedup, key)
            if speedup.value is not None:
                tint = colour(cells.labels.index(comparison.label))
                y = place + 0.22 * (offset - 1)
                data.append(
                    _whisker(speedup, y, f"{comparison.label}, {name}", {"color": tint, "symbol": symbols[key]})
                )
                rows.append((comparison.label, name, times(speedup.value), interval(speedup)))
    keys = [
        {**_whisker(None, 0.0, name, {"color": "$ink", "symbol": symbols[key]}), "showlegend": True}
        for key, name in SPEEDUP_NAMES.items()
    ]
    layout = {
        "xaxis": {"title": {"text": f"speedup over {summary.baseline}"}, "ticksuffix": "x", "rangemode": "tozero"},
        "yaxis": rows_of([comparison.label for comparison in compared]),
        "shapes": [line(x0=1, x1=1, yref="paper", y0=0, y1=1)],
        "hovermode": "closest",
    }
    return Chart(
        title=f"How much sooner than {summary.baseline}?",
        alt=f"Speedup of each label over {summary.baseline} with 95 percent intervals",
        caption="Right of the line: jobs finish sooner. Bars are 95 % intervals. The three averages answer different "
        "questions; where they disagree, look at the ratio of each job below.",
        variants=(("", {"data": keys + data, "layout": layout}),),
        head=("label", "average", "speedup", "95 % interval"),
        rows=tuple(rows),
        tall=130 + 64 * len(compared),
    )


def _whisker(speedup: Speedup | None, y: float, name: str, marker: Figure) -> Figure:
    """A point with its interval; without a speedup only an entry of the legend."""
    trace = {"type": "scatter", "mode": "markers", "name": name, "showlegend": False, "marker": {"size": 10, **marker}}
    if speedup is None or speedup.value is None or speedup.ci95 is None:
        return {**trace, "x": [None], "y": [y]}
    value, (low, high) = speedup.value, speedup.ci95
    sides = {"array": [round(high - value, 4)], "arrayminus": [round(value - low, 4)]}
    error = {"type": "data", "symmetric": False, **sides, "thickness": 1.6, "width": 4, "color": marker["color"]}
    hover = f"{name}<br>%{{x:.2f}}x {interval(speedup)}<extra></extra>"
    return {**trace, "x": [round(value, 4)], "y": [y], "error_x": error, "hovertemplate": hover}
