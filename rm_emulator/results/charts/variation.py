"""Would sampling pay? Variation over time against variation over space."""

from __future__ import annotations

import numpy as np
import polars as pl

from rm_emulator.results.chart import PREDICTION, Cells, Chart, register
from rm_emulator.results.drawing import colour, line
from rm_emulator.results.metrics import Attempts, blocks
from rm_emulator.results.table import number, percent


@register(PREDICTION, order=30, wide=True, source="SLearn (NSDI'22), section 4.1")
def variation(cells: Cells) -> Chart | None:
    """CoV over time against CoV over space, per group of recurring jobs, from the tasks that ran."""
    label = cells.labels[0]
    groups = recurring(cells.jobs[label, cells.seeds[0]], cells.scan(label), cells.nodes(label))
    if groups.is_empty():
        return None
    right, top = (round(1.08 * max(0.05, float(np.max(groups[c].to_numpy()))), 3) for c in ("space", "time"))
    above = int((groups["time"] > groups["space"]).sum())
    sizes = 7 + 26 * np.sqrt(groups["work"].to_numpy() / groups["work"].sum())
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [round(v, 4) for v in groups["space"]],
            "y": [round(v, 4) for v in groups["time"]],
            "text": groups["name"].to_list(),
            "customdata": groups["runs"].to_list(),
            "marker": {
                "color": colour(0),
                "size": [round(float(s), 1) for s in sizes],
                "opacity": 0.65,
                "line": {"color": "$page", "width": 1},
            },
            "hovertemplate": "%{text}: %{customdata} runs<br>time %{y:.2f}, space %{x:.2f}<extra></extra>",
        }
    ]
    layout = {
        "xaxis": {"title": {"text": "CoV over space (inside one job)"}, "range": [0, right]},
        "yaxis": {"title": {"text": "CoV over time (run to run)"}, "range": [0, top]},
        "shapes": [line(x0=0, y0=0, x1=max(right, top), y1=max(right, top))],
        "showlegend": False,
        "hovermode": "closest",
    }
    shown = groups.sort("work", descending=True).head(40)
    return Chart(
        title="Would sampling pay?",
        alt="Scatter of groups of recurring jobs: variation from run to run against variation inside a job",
        caption=f"One dot per job name with 3 runs or more, its size the work in it; {above} of {len(groups)} lie "
        "above the line: they vary more from run to run than inside a run, so a sample of their own tasks tells more "
        "than their history. Space is deviation / (mean x sqrt(3 % of the tasks)).",
        variants=(("", {"data": data, "layout": layout}),),
        head=("job name", "runs", "CoV over time", "CoV over space", "share of work"),
        rows=tuple(
            (
                r["name"],
                str(r["runs"]),
                number(r["time"]),
                number(r["space"]),
                percent(r["work"] / groups["work"].sum()),
            )
            for r in shown.iter_rows(named=True)
        ),
        tall=400,
    )


def recurring(jobs: pl.DataFrame, tasks: Attempts, nodes: pl.DataFrame) -> pl.DataFrame:
    """Per job name with at least 3 runs: `name, runs, time, space, work` (SLearn, NSDI'22, section 4.1).

    time: deviation / mean of the jobs' mean task run times; space: mean over jobs of
    deviation / (mean x sqrt(0.03 n)). Both stage by stage, weighted by tasks; space of stages with 2 tasks or
    more. Population deviations, run times at node speed 1.
    """
    speeds = nodes.filter(pl.col("node").is_not_null()).select("node", "speed").unique()
    columns = ("job", "stage", "node", "started_ms", "ended_ms", "code")
    run_times = pl.concat(_run_times(part, speeds) for _, part in blocks(jobs, tasks, *columns))
    named = jobs.lazy().filter(pl.col("name") != "").select("name", "work_ms", job="id")
    space = pl.col("deviation") / (pl.col("mean") * (0.03 * pl.col("n")).sqrt())
    stages = (
        run_times.lazy()
        .filter(pl.col("mean") > 0)
        .with_columns(space=pl.when(pl.col("n") > 1).then(space))
        .join(named, on="job")
        .sort("job", "stage")
    )
    inside = (
        stages.filter(pl.col("space").is_not_null())
        .group_by("name", "job", maintain_order=True)
        .agg(space=_weighted("space"))
        .group_by("name", maintain_order=True)
        .agg(pl.col("space").mean())
    )
    between = (
        stages.group_by("name", "stage", maintain_order=True)
        .agg(time=pl.col("mean").std(ddof=0) / pl.col("mean").mean(), n=pl.col("n").sum())
        .group_by("name", maintain_order=True)
        .agg(time=_weighted("time"))
    )
    work = stages.unique("job", maintain_order=True).group_by("name", maintain_order=True)
    totals = work.agg(runs=pl.len(), work=pl.col("work_ms").sum()).filter(pl.col("runs") >= 3)
    return totals.join(inside, on="name").join(between, on="name").sort("name").collect()


def _run_times(tasks: pl.DataFrame, speeds: pl.DataFrame) -> pl.DataFrame:
    """`job, stage, mean, deviation, n` of the stages' run times at node speed 1 (ms)."""
    ran = tasks.lazy().filter((pl.col("code") == 0) & pl.col("started_ms").is_not_null()).join(speeds.lazy(), on="node")
    run = (pl.col("ended_ms") - pl.col("started_ms")) * pl.col("speed")
    return ran.group_by("job", "stage").agg(mean=run.mean(), deviation=run.std(ddof=0), n=pl.len()).collect()


def _weighted(column: str) -> pl.Expr:
    return (pl.col(column) * pl.col("n")).sum() / pl.col("n").sum()
