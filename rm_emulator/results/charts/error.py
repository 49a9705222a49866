"""How far estimates were off."""

from __future__ import annotations

from rm_emulator.results.chart import PREDICTION, Cells, Chart, register
from rm_emulator.results.drawing import distribution


@register(PREDICTION, order=10)
def error(cells: Cells) -> Chart | None:
    """Distribution of the prediction error."""
    return distribution(
        cells,
        "error_pct",
        title="Prediction error",
        axis="|estimated - true| / true size (%)",
        caption="Share of sized jobs whose total work was estimated with at most the error on the axis. Further left "
        "is better.",
        floor=0.1,
    )
