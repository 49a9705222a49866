"""A sweep over architectures: how each does over another setting, such as the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rm_emulator.issues import show_swept
from rm_emulator.results import sweep
from rm_emulator.results.chart import SWEEP, Cells, Chart, register
from rm_emulator.results.drawing import over
from rm_emulator.results.figures import Summary
from rm_emulator.results.sweep import Estimate
from rm_emulator.results.table import number

#: Axes that say who decides.
_AXES: Final = tuple(f"cluster.architecture{part}" for part in ("", ".kind", ".method"))
_FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "mean JCT (s)": ("jct_s", "mean"),
    "p50 JCT (s)": ("jct_s", "p50"),
    "p99 JCT (s)": ("jct_s", "p99"),
    "mean wait (s)": ("wait_s", "mean"),
    "messages per task": ("messages_per_task",),
}


@register(SWEEP, order=5, wide=True, source="rm-emulator")
def over_architectures(cells: Cells) -> Chart | None:
    """Response times of each architecture over a swept number: a line per architecture."""
    summary = cells.summary
    axes = summary.axes or {}
    numeric = [axis for axis, values in axes.items() if len(values) > 1 and sweep.numeric(values)]
    if not numeric or not any(len(axes.get(axis, ())) > 1 for axis in _AXES):
        return None
    across, names = numeric[0], sweep.names(axes)
    lines = {figure: _lines(summary, across, path) for figure, path in _FIGURES.items()}
    lines = {figure: found for figure, found in lines.items() if found}
    if not lines:
        return None
    told = dict.fromkeys(name for found in lines.values() for name in found)
    rows = []
    for name in told:
        for value in sorted(axes[across]):
            cell = [found.get(name, {}).get(value) for found in lines.values()]
            rows.append((name, show_swept(value), *(number(each.value if each else None) for each in cell)))
    return Chart(
        title="Architectures side by side",
        alt=f"Response times over {names[across]}, one line per architecture",
        caption="Means over the seeds, with 95 % intervals where there are several. A job's response time is its JCT.",
        variants=tuple((figure, over(found, names[across], figure)) for figure, found in lines.items()),
        head=("architecture", names[across], *lines),
        rows=tuple(rows),
        choose="figure",
    )


def _lines(summary: Summary, across: str, path: tuple[str, ...]) -> dict[str, dict[float, Estimate]]:
    """One figure over one axis, a line for each combination of all else that differs."""
    lines: dict[str, dict[float, Estimate]] = {}
    for values, point in summary.points:
        others = sweep.named(values, summary, across)
        for label in point.labels:
            found = sweep.estimate(point, label, *path)
            if found is not None:
                name = "; ".join([*others, *([label] if len(point.labels) > 1 else [])])
                lines.setdefault(name, {})[values[across]] = found
    return {name: dict(sorted(line.items())) for name, line in lines.items()}
