"""How long jobs wait for their first task."""

from __future__ import annotations

from rm_emulator.results.chart import TIMES, Cells, Chart, register
from rm_emulator.results.drawing import distribution


@register(TIMES, order=30, wide=True)
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
