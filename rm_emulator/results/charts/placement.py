"""Where estimates put jobs among priority queues."""

from __future__ import annotations

from rm_emulator.results.chart import PREDICTION, Cells, Chart, register
from rm_emulator.results.drawing import hatched


@register(PREDICTION, order=20, source="rm-emulator")
def placement(cells: Cells) -> Chart | None:
    """Correct, over and under: where the estimates put wide jobs among the GS queues, unless all are right."""
    parts = {
        label: [cells.summary.mean(label, "queue_placement", key) for key in ("correct", "over", "under")]
        for label in cells.labels
    }
    shown = {label: [p or 0.0 for p in fractions] for label, fractions in parts.items() if fractions[0] is not None}
    if all(right == 1 for right, *_ in shown.values()):
        return None
    names = ("right", "too low (over-estimated)", "too high (under-estimated)")
    styles = (("$s2", ""), ("$s1", "/"), ("$s4", "\\"))
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": list(reversed(shown)),
            "x": [round(shown[label][i], 5) for label in reversed(shown)],
            "marker": {"color": tint, "pattern": hatched(shape, 6, 0.6)},
            "hovertemplate": "%{y}: %{x:.1%}<extra>" + name + "</extra>",
        }
        for i, (name, (tint, shape)) in enumerate(zip(names, styles, strict=True))
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"tickformat": ".0%", "range": [0, 1.001], "title": {"text": "wide jobs"}},
        "yaxis": {"automargin": True},
        "legend": {"traceorder": "normal"},
    }
    return Chart(
        title="Queue placement",
        alt="Share of wide jobs whose estimate puts them in the right, a too low or a too high priority queue",
        caption="Multi-level queues need the size's order of magnitude only: does the estimate fall into the queue of "
        "the true size (1000 s, 10,000 s, ...)? Jobs with 3 tasks and more.",
        variants=(("", {"data": data, "layout": layout}),),
        head=("label", "correct", "over", "under"),
        rows=tuple((label, *(f"{100 * p:.1f} %" for p in fractions)) for label, fractions in shown.items()),
        tall=150 + 46 * len(shown),
    )
