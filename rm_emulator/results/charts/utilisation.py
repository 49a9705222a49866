"""What of the cluster is held over time."""

from __future__ import annotations

import numpy as np
import polars as pl

from rm_emulator.results.chart import CLUSTER, Cells, Chart, Figure, register
from rm_emulator.results.drawing import CURVE_POINTS, means, of_label, time_axis, time_unit, trace
from rm_emulator.results.metrics import whole_cluster
from rm_emulator.results.table import percent


@register(CLUSTER, order=10, wide=True, source="rm-emulator")
def utilisation(cells: Cells) -> Chart | None:
    """What of the cluster is held, over time, one variant per resource."""
    series: dict[str, list[Figure]] = {}
    tables = {label: whole_cluster(cells.nodes(label)) for label in cells.labels}
    resources = [
        row[0]
        for row in tables[cells.labels[0]].filter(pl.col("capacity") > 0).unique("resource", maintain_order=True)
        .select("resource").iter_rows()
    ]  # fmt: skip
    end = float(max(table["end_ms"].to_numpy().max() for table in tables.values()))
    divisor, _ = time_unit(end)
    for resource in resources:
        for index, label in enumerate(cells.labels):
            table = tables[label].filter(pl.col("resource") == resource)
            held = table["held"].to_numpy() / table["capacity"].to_numpy()
            at = table["start_ms"].to_numpy() / divisor
            step = -(-len(at) // CURVE_POINTS)
            x, y = np.r_[at[::step], table["end_ms"].to_numpy().max() / divisor], means(held, step)
            line = trace(label, x, np.r_[y, y[-1]], of_label(index, 1.8), "%{y:.0%}")
            series.setdefault(resource, []).append(line)
    layout = {
        "xaxis": time_axis(
            (cells.jobs[label, cells.seeds[0]]["submit_ms"] for label in cells.labels), end, cells.date(0)
        ),
        "yaxis": {"tickformat": ".0%", "range": [0, 1.02]},
        "hovermode": "x unified",
    }
    same: dict[str, list[str]] = {}
    for resource, data in series.items():
        same.setdefault(str(data), []).append(resource)
    variants = tuple((" and ".join(r), {"data": series[r[0]], "layout": layout}) for r in same.values())
    if not variants:
        return None
    return Chart(
        title="Utilisation over time",
        alt="Fraction of the cluster's resources held over time, one line per label",
        caption=f"Held from grant to end of each task, as a fraction of all nodes' capacity ({variants[0][0]}); "
        f"seed {cells.seeds[0]}."
        if len(variants) == 1
        else f"Held from grant to end of each task, as a fraction of all nodes' capacity; seed {cells.seeds[0]}.",
        variants=variants,
        head=("label", *(f"{resource}, whole run" for resource in series)),
        rows=tuple(
            (label, *(percent(cells.summary.mean(label, "utilisation", resource)) for resource in series))
            for label in cells.labels
        ),
        choose="resource",
    )
