"""When jobs are done."""

from __future__ import annotations

from rm_emulator.results.chart import TIMES, Cells, Chart, register
from rm_emulator.results.drawing import distribution


@register(TIMES, order=10)
def jct(cells: Cells) -> Chart | None:
    """Distribution of the job completion time."""
    return distribution(
        cells,
        "jct_s",
        title="Job completion time",
        axis="completion time (s)",
        caption="Share of jobs that finished within the time on the axis; further left is better. Logarithmic axis.",
    )
