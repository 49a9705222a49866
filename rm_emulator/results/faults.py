"""What faults cost: work that was lost, and how long lost tasks waited for their next attempt."""

from __future__ import annotations

from typing import Final

import polars as pl

from rm_emulator.results.figures import FaultFigures, Spread
from rm_emulator.results.metrics import Attempts, capacities, figure, spread

_TASK: Final = ("job", "stage", "task")


def figures(jobs: pl.DataFrame, tasks: Attempts, nodes: pl.DataFrame) -> FaultFigures:
    """The figures of a cell, from its three tables."""
    room = nodes.filter(pl.col("node").is_not_null()).unique(["node", "resource"])
    wide = room.pivot("resource", index="node", values="capacity")
    # Of the resource of which an attempt holds the largest part of its node.
    part = pl.max_horizontal(pl.col(f"demand_{name}") / pl.col(name) for name in capacities(nodes)).fill_nan(0.0)
    rows, succeeds, held = tasks.lazy(), pl.col("code") == 0, pl.col("ended_ms") - pl.col("granted_ms")
    useful = pl.when(succeeds).then(pl.col("ended_ms") - pl.col("started_ms")).otherwise(0)
    if "useful_ms" in rows.collect_schema().names():
        useful = pl.col("useful_ms").fill_null(0)
    if "resubmitted_ms" in jobs.columns:
        # Whatever a job did before it began anew is lost.
        rows = rows.join(jobs.lazy().select("resubmitted_ms", job="id"), on="job")
        counts = pl.col("granted_ms") >= pl.col("resubmitted_ms").fill_null(0)
        succeeds, useful = succeeds & counts, pl.when(counts).then(useful).otherwise(0)
    totals = (
        rows.join(wide.lazy(), on="node")
        .select(
            lost=(part * (held - useful)).filter(~succeeds).sum(),
            held=(part * held).sum(),
            useful=(part * useful).sum(),
        )
        .collect()
        .row(0, named=True)
    )
    again = (
        tasks.lazy()
        .select(*_TASK, "attempt", "granted_ms", "ended_ms", "code")
        .sort(*_TASK, "granted_ms", "attempt")
        .with_columns(next=pl.col("granted_ms").shift(-1).over(*_TASK))
        .filter((pl.col("code") != 0) & pl.col("next").is_not_null())
        .select((pl.col("next") - pl.col("ended_ms")) / 1000)
        .collect()
    )
    alone = jobs.filter(pl.col("finish_ms").is_not_null() & (pl.col("stages") == 1) & pl.col("ideal_ms").is_not_null())
    took = alone.select((pl.col("finish_ms") - pl.col("first_start_ms")).sum()).item()
    return FaultFigures(
        failed_jobs=int(jobs["failed_ms"].count()) if "failed_ms" in jobs.columns else 0,
        lost_node_s=figure(totals["lost"] / 1000),
        goodput=figure(totals["useful"] / totals["held"]) if totals["held"] else None,
        ettr=figure(alone["ideal_ms"].sum() / took) if took else None,
        wait_again_s=spread(again.to_series(), Spread),
    )
