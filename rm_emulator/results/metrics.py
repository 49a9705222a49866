"""The figures of one cell, as pure functions of its three tables (`rm_emulator.results.record`).

Definitions, the same everywhere a figure is shown:

JCT
    finish - submit, of jobs that finished. Wait: first start of a task - submit.
quantiles
    with linear interpolation between neighbours (NumPy's default).
makespan
    last finish - first submission.
utilisation
    resource x time held from grant to end of each attempt, failed attempts included, divided by
    (capacity of all nodes x makespan). Time in which a kept executor idles is not held by a task.
load
    total true work / (slots x arrival span): slots = how many of the average task (weighted by run time) the
    cluster holds at once, nodes weighted by speed; arrival span = last - first submission.
share
    dominant share (DRF, section 4.1): the largest fraction of any resource of the cluster, averaged over
    the makespan; exact, not sampled.
slowdown
    JCT / ideal JCT (longest path of true run times on an empty cluster).
prediction error
    |estimated - true| / true of a job's total work, of jobs that were sized.
wide, small
    width >= 3 tasks; true work < 1000 s (SLearn, NSDI'22, Table 8).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

THIN_WIDTH: Final = 3
SMALL_MS: Final = 1_000_000
#: Upper bounds of the priority queues 0..8 of GS (SLearn, section 4): 10^6 ms, ten times more for each.
GS_BOUNDS_MS: Final = tuple(10 ** (6 + q) for q in range(9))
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
#: Table 8's bins in the paper's order: bin-1 to bin-4.
BINS: Final = ("thin_small", "wide_small", "thin_large", "wide_large")

Figures = dict[str, float | None]
Floats = npt.NDArray[np.float64]


def spread(values: pl.Series, names: Mapping[str, float] = QUANTILES, *, mean: bool = True) -> Figures:
    """Mean and quantiles of a series; every one None when it is empty. Nulls are left out.

    >>> spread(pl.Series([1.0, 2.0, 3.0, 4.0, 5.0]))
    {'mean': 3.0, 'p50': 3.0, 'p90': 4.6, 'p99': 4.96}
    """
    there = values.drop_nulls().to_numpy().astype(np.float64)
    keys = (["mean"] if mean else []) + list(names)
    if len(there) == 0:
        return dict.fromkeys(keys)
    figures = ([figure(average(there))] if mean else []) + [figure(np.quantile(there, q)) for q in names.values()]
    return dict(zip(keys, figures, strict=True))


def figure(value: float | np.floating[Any]) -> float:
    """A figure as it is written down: twelve significant digits, so that the last bits of a sum do not show."""
    return float(f"{float(value):.12g}")


def average(values: Iterable[float] | Floats) -> float:
    """Arithmetic mean by exact summation: the same on every machine and in any order."""
    there = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return math.fsum(there) / len(there)


def timed(jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs with `jct_s`, `wait_s`, `slowdown`, `error_pct`, `bin`; null where a job has none."""
    jct = pl.col("finish_ms") - pl.col("submit_ms")
    small, thin = pl.col("work_ms") < SMALL_MS, pl.col("width") < THIN_WIDTH
    size = pl.when(small).then(pl.lit("small")).otherwise(pl.lit("large"))
    return jobs.with_columns(
        jct_s=jct / 1000,
        wait_s=(pl.col("first_start_ms") - pl.col("submit_ms")) / 1000,
        slowdown=pl.when(pl.col("ideal_ms") > 0).then(jct / pl.col("ideal_ms")),
        error_pct=pl.when(pl.col("work_ms") > 0).then(
            100 * (pl.col("size_ms") - pl.col("work_ms")).abs() / pl.col("work_ms")
        ),
        bin=pl.when(thin).then(pl.lit("thin_")).otherwise(pl.lit("wide_")) + size,
    )


def makespan_ms(jobs: pl.DataFrame) -> int | None:
    """Last finish - first submission; None when nothing finished."""
    finished = jobs["finish_ms"].drop_nulls().to_numpy()
    return int(finished.max() - jobs["submit_ms"].to_numpy().min()) if len(finished) else None


def whole_cluster(nodes: pl.DataFrame) -> pl.DataFrame:
    """The rows of nodes.parquet that speak of the whole cluster."""
    return nodes.filter(pl.col("node").is_null())


def utilisation(jobs: pl.DataFrame, nodes: pl.DataFrame) -> Figures:
    """Held / capacity per resource over the makespan; None for a resource the cluster lacks."""
    span = makespan_ms(jobs)
    found: Figures = {}
    for (resource,), rows in whole_cluster(nodes).partition_by("resource", as_dict=True, maintain_order=True).items():
        capacity = int(rows["capacity"][0])
        area = math.fsum((rows["held"] * (rows["end_ms"] - rows["start_ms"])).to_list())
        found[str(resource)] = figure(area / (capacity * span)) if capacity and span else None
    return found


def load(jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame) -> float | None:
    """Total true work / (slots x arrival span); None when all jobs arrive at once or nothing ran."""
    submits = jobs["submit_ms"].to_numpy()
    span = int(np.ptp(submits)) if len(submits) else 0
    ran = tasks.filter((pl.col("code") == 0) & (pl.col("ended_ms") > pl.col("started_ms")))
    if not span or ran.is_empty():
        return None
    run = pl.col("ended_ms") - pl.col("started_ms")
    slots = []
    for row in whole_cluster(nodes).unique("resource", keep="first", maintain_order=True).iter_rows(named=True):
        area, total = ran.select((pl.col(f"demand_{row['resource']}") * run).sum().alias("a"), run.sum()).row(0)
        if area:
            slots.append(row["capacity"] * row["speed"] * total / area)
    return figure(_total(jobs["work_ms"]) / (min(slots) * span)) if slots else None


def _total(values: pl.Series) -> int:
    return int(values.to_numpy().sum())


def dominant_shares(
    jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame, by: str = "queue"
) -> dict[str, float]:
    """Time-averaged dominant share per queue (or per `user`) over the makespan, names sorted.

    At every instant the largest of held / capacity over the resources, then the mean over time.
    """
    span = makespan_ms(jobs)
    groups = sorted(jobs[by].unique().to_list())
    if not span:
        return dict.fromkeys(groups, 0.0)
    capacity = {
        row["resource"]: row["capacity"]
        for row in whole_cluster(nodes).unique("resource", keep="first", maintain_order=True).iter_rows(named=True)
        if row["capacity"]
    }
    held = (
        tasks.lazy()
        .select("job", "granted_ms", "ended_ms", *(pl.col(f"demand_{r}") for r in capacity))
        .join(jobs.lazy().select(pl.col("id").alias("job"), by), on="job")
    )
    changes = pl.concat(
        [
            held.select(by, at="granted_ms", **{r: pl.col(f"demand_{r}") for r in capacity}),
            held.select(by, at="ended_ms", **{r: -pl.col(f"demand_{r}") for r in capacity}),
        ]
    )
    shares = (
        changes.group_by(by, "at")
        .agg(pl.col(r).sum() for r in capacity)
        .sort(by, "at")
        .with_columns(
            *(pl.col(r).cum_sum().over(by) / c for r, c in capacity.items()),
            lasts=pl.col("at").shift(-1).over(by) - pl.col("at"),
        )
        .select(by, share=pl.max_horizontal(*capacity) * pl.col("lasts"))
        .drop_nulls()
        .collect()
    )
    found = {name: part["share"].to_list() for (name,), part in shares.partition_by(by, as_dict=True).items()}
    return {group: figure(math.fsum(found.get(group, ())) / span) for group in groups}


def jain(shares: Mapping[str, float], weights: Mapping[str, float] | None = None) -> float | None:
    """Jain's fairness index of shares per unit weight: (sum x)^2 / (n sum x^2), from 1/n to 1.

    None for fewer than two groups, or when nobody held anything.

    >>> jain({"a": 0.5, "b": 0.5}), jain({"a": 1.0, "b": 0.0}), jain({"a": 0.6, "b": 0.2}, {"a": 3})
    (1.0, 0.5, 1.0)
    """
    each = [share / (weights or {}).get(name, 1.0) for name, share in shares.items()]
    squares = len(each) * sum(x * x for x in each)
    return figure(sum(each) ** 2 / squares) if len(each) > 1 and squares else None


def gs_queues(sizes_ms: pl.Series, bounds_ms: Sequence[float] = GS_BOUNDS_MS) -> npt.NDArray[np.int64]:
    """The priority queue of each job size: the first whose upper bound is above it (by default 10^(6+q) ms).

    >>> gs_queues(pl.Series([999_999.0, 1e6, 5e7, 1e14])).tolist()
    [0, 1, 2, 9]
    """
    bounds = np.array(bounds_ms, dtype=np.float64)
    return np.searchsorted(bounds, sizes_ms.to_numpy().astype(np.float64), side="right").astype(np.int64)


def queue_placement(jobs: pl.DataFrame, bounds_ms: Sequence[float] = GS_BOUNDS_MS) -> Figures:
    """Fractions of wide, sized jobs whose estimate puts them in the priority queue of their true size, or not.

    bounds_ms: upper bounds of the queues; the policy's own where it has some.
    over: the estimate is too large, the job waits in a queue of lower priority than it deserves.
    """
    wide = jobs.filter((pl.col("width") >= THIN_WIDTH) & pl.col("size_ms").is_not_null())
    if wide.is_empty():
        return {"correct": None, "over": None, "under": None}
    off = gs_queues(wide["size_ms"], bounds_ms) - gs_queues(wide["work_ms"], bounds_ms)
    return {
        "correct": figure((off == 0).mean()),
        "over": figure((off > 0).mean()),
        "under": figure((off < 0).mean()),
    }


def bins(jobs: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Table 8's bins: jobs in each, its fractions of jobs and of work, and the JCT in it."""
    work = _total(jobs["work_ms"])
    found: dict[str, dict[str, Any]] = {}
    for name in BINS:
        part = jobs.filter(pl.col("bin") == name)
        found[name] = {
            "jobs": len(part),
            "jobs_fraction": figure(len(part) / len(jobs)) if len(jobs) else None,
            "work_fraction": figure(_total(part["work_ms"]) / work) if work else None,
            "jct_s": spread(part["jct_s"]),
        }
    return found


def queues(jobs: pl.DataFrame, shares: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Per queue: number of jobs, JCT, wait, time-averaged dominant share."""
    return {
        name: {
            "jobs": len(part),
            "jct_s": spread(part["jct_s"]),
            "wait_s": spread(part["wait_s"]),
            "share": shares.get(name),
        }
        for name in sorted(jobs["queue"].unique().to_list())
        for part in [jobs.filter(pl.col("queue") == name)]
    }


def figures(
    jobs: pl.DataFrame,
    tasks: pl.DataFrame,
    nodes: pl.DataFrame,
    *,
    queue_weights: Mapping[str, float] | None = None,
    bounds_ms: Sequence[float] = GS_BOUNDS_MS,
) -> dict[str, Any]:
    """All figures of one cell from its tables, under their names in summary.json."""
    with_times = timed(jobs)
    span = makespan_ms(jobs)
    per_queue = dominant_shares(jobs, tasks, nodes, "queue")
    fairness = (
        jain(per_queue, queue_weights) if len(per_queue) > 1 else jain(dominant_shares(jobs, tasks, nodes, "user"))
    )
    placement = queue_placement(jobs, bounds_ms)
    return {
        "jobs": len(jobs),
        "unfinished_jobs": int(jobs["finish_ms"].null_count()),
        "tasks": _total(jobs["tasks"]),
        "failed_tasks": int((tasks["code"] != 0).sum()),
        "jct_s": spread(with_times["jct_s"]),
        "wait_s": spread(with_times["wait_s"]),
        "slowdown": spread(with_times["slowdown"]),
        "makespan_s": span / 1000 if span is not None else None,
        "load": load(jobs, tasks, nodes),
        "utilisation": utilisation(jobs, nodes),
        "jain": fairness,
        "queue_placement_correct": placement["correct"],
        "queue_placement": placement,
        "prediction_error_pct": spread(with_times["error_pct"], {"p50": 0.5, "p90": 0.9}, mean=False),
        "sized_jobs": int(jobs["size_ms"].count()),
        "pilots": _total(jobs["pilots"]),
        "queues": queues(with_times, per_queue),
        "bins": bins(with_times),
    }
