"""How one figure of the jobs is distributed, a curve per label: completion times, waits, errors of estimates."""

from __future__ import annotations

from typing import Final

from rm_emulator.results.chart import PREDICTION, TIMES, Cells, Chart, register
from rm_emulator.results.drawing import distribution

#: An error of less than so many percent is one of rounding.
_ROUNDING: Final = 1.0


@register(TIMES, order=10, source="rm-emulator")
def jct(cells: Cells) -> Chart | None:
    """Distribution of the job completion time."""
    return distribution(
        cells,
        "jct_s",
        title="Job completion time",
        axis="completion time (s)",
        caption="Share of jobs that finished within the time on the axis; further left is better. Logarithmic axis.",
    )


@register(TIMES, order=30, wide=True, source="rm-emulator")
def wait(cells: Cells) -> Chart | None:
    """Distribution of the wait for the first task."""
    return distribution(
        cells,
        "wait_s",
        title="Waiting time",
        axis="wait until the first task starts (s)",
        caption="Share of jobs whose first task started within the time on the axis. Jobs that start at once are the "
        "height of the curve at its left end.",
        floor=0.1,
    )


@register(PREDICTION, order=10, source="rm-emulator")
def error(cells: Cells) -> Chart | None:
    """Distribution of the prediction error, unless all labels know the run times."""
    largest = (errors[-1] for label in cells.labels if len(errors := cells.pooled(label, "error_pct")))
    if max(largest, default=0.0) < _ROUNDING:
        return None
    return distribution(
        cells,
        "error_pct",
        title="Prediction error",
        axis="|estimated - true| / true size (%)",
        caption="Share of sized jobs whose total work was estimated with at most the error on the axis. Further left "
        "is better.",
        floor=0.1,
    )
