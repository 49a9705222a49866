"""Each job against itself under the baseline."""

from __future__ import annotations

import msgspec
import numpy as np

from rm_emulator.results import statistics
from rm_emulator.results.chart import TIMES, Cells, Chart, register
from rm_emulator.results.drawing import curves, line
from rm_emulator.results.figures import RatioQuantiles
from rm_emulator.results.table import number


@register(TIMES, order=20, source="rm-emulator")
def ratios(cells: Cells) -> Chart | None:
    """Distribution of the per-job ratio, over all jobs and seeds."""
    summary = cells.summary
    sorted_ratios, rows = {}, []
    for compared in summary.comparisons:
        label = compared.label
        values = np.sort(statistics.all_ratios(pair for _, pair in cells.pairs(label)))
        if len(values):
            sorted_ratios[label] = (cells.labels.index(label), values)
            quantiles = [number(q) for q in msgspec.structs.astuple(compared.ratio_quantiles)]
            sides = [f"{100 * (part or 0.0):.0f} %" for part in (compared.jobs_faster, compared.jobs_slower)]
            rows.append((label, *sides, *quantiles))
    if not sorted_ratios:
        return None
    axis = f"JCT under {summary.baseline} / JCT of the same job"
    figure = curves(sorted_ratios, axis, "%{x:.2f}x: %{y:.0%} of jobs gain less")
    figure["layout"]["shapes"] = [line(x0=1, x1=1, yref="paper", y0=0, y1=1)]
    return Chart(
        title="Who wins, who loses",
        alt=f"Cumulative distribution of each job's speedup over {summary.baseline}",
        caption="Every job against itself under the baseline. Left of 1 a job is slower than before: an average "
        "hides how many those are.",
        variants=(("", figure),),
        head=("label", "faster", "slower", *RatioQuantiles.__struct_fields__),
        rows=tuple(rows),
    )
