"""The figures of one cell, as pure functions of its three tables (`rm_emulator.results.record`).

`results.figures` defines them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from rm_emulator.results.figures import (
    BINS,
    Bin,
    Bins,
    DeadlineFigures,
    ErrorSpread,
    Placement,
    Queue,
    ServiceFigures,
    Spread,
)

THIN_WIDTH: Final = 3
SMALL_MS: Final = 1_000_000
#: Upper bounds of the priority queues 0..8 of GS (SLearn, section 4): 10^6 ms, ten times more for each.
GS_BOUNDS_MS: Final = tuple(10 ** (6 + q) for q in range(9))
_BLOCK: Final = 100_000

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
S = TypeVar("S", bound=msgspec.Struct)


def spread(values: pl.Series | Floats, kind: type[S]) -> S:
    """A record of mean and quantiles, by its fields (`mean`, `p50`); all None without values.

    >>> spread(pl.Series([1.0, 2.0, 3.0, 4.0, 5.0, None]), Spread)
    Spread(mean=3.0, p50=3.0, p90=4.6, p99=4.96)
    """
    known = values.drop_nulls().to_numpy().astype(np.float64) if isinstance(values, pl.Series) else values
    if len(known) == 0:
        return kind()

    def statistic(name: str) -> float:
        return average(known) if name == "mean" else float(np.quantile(known, int(name[1:]) / 100))

    return kind(**{name: figure(statistic(name)) for name in kind.__struct_fields__})


def figure(value: float | np.floating[Any]) -> float:
    """A figure as written to files: twelve significant digits, to hide the last bits of a sum."""
    return float(f"{float(value):.12g}")


def average(values: Iterable[float] | Floats) -> float:
    """Arithmetic mean by exact summation: the same on every machine and in any order."""
    numbers = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return math.fsum(numbers) / len(numbers)


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
    """The rows of nodes.parquet for the whole cluster."""
    return nodes.filter(pl.col("node").is_null())


def capacities(nodes: pl.DataFrame) -> dict[str, int]:
    """By resource, of the whole cluster."""
    rows = whole_cluster(nodes).unique("resource", keep="first", maintain_order=True)
    return dict(rows.select("resource", "capacity").iter_rows())


def integrals(owner: Ints, units: Floats, start: Ints, end: Ints, width: int, buckets: int, owners: int) -> Floats:
    """Units x ms of intervals [start, end) in each bucket of equal width, by owner: buckets x owners."""
    total: Floats = np.zeros((buckets, owners))
    # In blocks, since a block's arrays are a dozen times its rows; sums of whole numbers do not depend on their order.
    for first in range(0, len(owner), _BLOCK):
        rows = slice(first, first + _BLOCK)
        total += _integrals(owner[rows], units[rows], start[rows], end[rows], width, buckets, owners)
    return total


def _integrals(owner: Ints, units: Floats, start: Ints, end: Ints, width: int, buckets: int, owners: int) -> Floats:
    lasts = end > start
    owner, units, start, end = owner[lasts], units[lasts], start[lasts], end[lasts]
    first, last = start // width, (end - 1) // width

    def summed(at: Ints, weights: Floats, rows: int = buckets) -> Floats:
        sums: Floats = np.bincount(at * owners + owner, weights, rows * owners).astype(np.float64)
        return sums.reshape(rows, owners)

    head = np.minimum(end, (first + 1) * width) - start
    tail = np.where(last > first, end - last * width, 0)
    # Whole buckets between as steps up and down, summed once. Products of whole numbers below 2^53 are exact.
    full = units * width
    steps = summed(first + 1, full, buckets + 1) - summed(np.maximum(last, first + 1), full, buckets + 1)
    return summed(first, units * head) + summed(last, units * tail) + np.cumsum(steps, axis=0)[:buckets]


def utilisation(jobs: pl.DataFrame, nodes: pl.DataFrame) -> dict[str, float | None]:
    """Held / capacity per resource over the makespan; None for a resource the cluster lacks."""
    span = makespan_ms(jobs)
    used: dict[str, float | None] = {}
    for (resource,), rows in whole_cluster(nodes).partition_by("resource", as_dict=True, maintain_order=True).items():
        capacity = int(rows["capacity"][0])
        area = math.fsum((rows["held"] * (rows["end_ms"] - rows["start_ms"])).to_list())
        used[str(resource)] = figure(area / (capacity * span)) if capacity and span else None
    return used


def load(jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame) -> float | None:
    """Total true work / (slots x arrival span); None when all jobs arrive at once or nothing ran."""
    submits = jobs["submit_ms"].to_numpy()
    span = int(np.ptp(submits)) if len(submits) else 0
    run = pl.col("ended_ms") - pl.col("started_ms")
    ran = tasks.lazy().filter(pl.col("code") == 0, run > 0).select("^demand_.*$", run=run).collect()
    if not span or ran.is_empty():
        return None
    slots = []
    for row in whole_cluster(nodes).unique("resource", keep="first", maintain_order=True).iter_rows(named=True):
        held = pl.col(f"demand_{row['resource']}") * pl.col("run")
        area, total = ran.select(held.sum(), pl.col("run").sum()).row(0)
        if area:
            slots.append(row["capacity"] * row["speed"] * total / area)
    return figure(_total(jobs["work_ms"]) / (min(slots) * span)) if slots else None


def launching(jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame, resource: str | None) -> float | None:
    """Holdings of all attempts from grant to end / holdings of successful attempts while running; None: none ran.

    resource: the resource held, containers where None. Nodes are weighted by speed. Application masters are no tasks.
    """
    speeds = nodes.filter(pl.col("node").is_not_null()).select("node", "speed").unique("node")
    # Lazily, so that only the columns of the sums are joined.
    own = tasks.lazy().join(speeds.lazy(), on="node").join(jobs.lazy().select("stages", job="id"), on="job")
    each = pl.col("speed") * (1 if resource is None else pl.col(f"demand_{resource}"))
    held, ran = (each * (pl.col("ended_ms") - pl.col(since)) for since in ("granted_ms", "started_ms"))
    sums = own.filter(pl.col("stage") < pl.col("stages")).select(
        held.sum().alias("held"), ran.filter(pl.col("code") == 0).sum().alias("ran")
    )
    total, running = sums.collect().row(0)
    return figure(total / running) if running else None


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
    order = {group: number for number, group in enumerate(groups)}
    owners = jobs.select(job="id", owner=pl.col(by).replace_strict(order, return_dtype=pl.Int32))
    owned = tasks.select("job").join(owners, on="job", how="left", maintain_order="left")["owner"].to_numpy()
    # A grant and an end per attempt, sorted with numpy: grouped frames of a million tasks take three times the memory.
    owner, at = np.tile(owned, 2), np.concatenate([tasks["granted_ms"].to_numpy(), tasks["ended_ms"].to_numpy()])
    sort = np.lexsort((at, owner))
    owner, at = owner[sort], at[sort]
    lasts = np.diff(at, append=at[-1:])
    lasts[np.flatnonzero(np.diff(owner))] = 0
    area = np.zeros(len(at))
    for name, amount in capacities(nodes).items():
        if amount:
            # One sum for all groups: each has given back everything where the next begins.
            demand = tasks[f"demand_{name}"].to_numpy()
            held = np.concatenate([demand, -demand])[sort]
            np.maximum(area, np.cumsum(held, out=held) / amount, out=area)
    area *= lasts
    parts = np.split(area, np.searchsorted(owner, np.arange(1, len(groups))))
    return {group: figure(math.fsum(part) / span) for group, part in zip(groups, parts, strict=True)}


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


def queue_placement(jobs: pl.DataFrame, bounds_ms: Sequence[float] = GS_BOUNDS_MS) -> Placement:
    """Whether the estimates of wide, sized jobs put them in the priority queue of their true size.

    bounds_ms: upper bounds of the queues; the policy's own where it has some.
    """
    wide = jobs.filter((pl.col("width") >= THIN_WIDTH) & pl.col("size_ms").is_not_null())
    if wide.is_empty():
        return Placement()
    off = gs_queues(wide["size_ms"], bounds_ms) - gs_queues(wide["work_ms"], bounds_ms)
    return Placement(correct=figure((off == 0).mean()), over=figure((off > 0).mean()), under=figure((off < 0).mean()))


def bins(jobs: pl.DataFrame) -> Bins[Bin]:
    """Table 8's bins of timed jobs."""
    work = _total(jobs["work_ms"])

    def one(part: pl.DataFrame) -> Bin:
        return Bin(
            jobs=len(part),
            jobs_fraction=figure(len(part) / len(jobs)) if len(jobs) else None,
            work_fraction=figure(_total(part["work_ms"]) / work) if work else None,
            jct_s=spread(part["jct_s"], Spread),
        )

    return Bins(**{name: one(jobs.filter(pl.col("bin") == name)) for name in BINS})


def queues(jobs: pl.DataFrame, shares: Mapping[str, float]) -> dict[str, Queue]:
    """The figures of each queue of timed jobs; shares: time-averaged dominant shares."""
    return {
        name: Queue(
            jobs=len(part),
            jct_s=spread(part["jct_s"], Spread),
            wait_s=spread(part["wait_s"], Spread),
            share=shares.get(name),
        )
        for name in sorted(jobs["queue"].unique().to_list())
        for part in [jobs.filter(pl.col("queue") == name)]
    }


def deadlines(jobs: pl.DataFrame) -> DeadlineFigures | None:
    """Of the jobs with a deadline how many have met it, None where no job has one."""
    due = jobs.filter(pl.col("deadline_ms").is_not_null())
    if due.is_empty():
        return None
    late_ms = due["finish_ms"] - due["deadline_ms"]
    return DeadlineFigures(
        jobs=len(due),
        met=figure(int((late_ms <= 0).sum()) / len(due)),
        late_s=spread(late_ms.filter(late_ms > 0) / 1000, Spread),
    )


def figures(
    jobs: pl.DataFrame,
    tasks: pl.DataFrame,
    nodes: pl.DataFrame,
    *,
    queue_weights: Mapping[str, float] | None = None,
    bounds_ms: Sequence[float] = GS_BOUNDS_MS,
) -> dict[str, Any]:
    """All figures of a cell computed from its tables, as fields of `figures.Run`."""
    batch = without_services(jobs)
    with_times = timed(batch)
    span = makespan_ms(jobs)
    per_queue = dominant_shares(jobs, tasks, nodes, "queue")
    fairness = (
        jain(per_queue, queue_weights) if len(per_queue) > 1 else jain(dominant_shares(jobs, tasks, nodes, "user"))
    )
    placement = queue_placement(jobs, bounds_ms)
    due = deadlines(jobs)
    spreads = {name: spread(with_times[name], Spread) for name in ("jct_s", "wait_s", "slowdown")}
    return {
        "jobs": len(jobs),
        "unfinished_jobs": int(batch["finish_ms"].null_count()),
        "tasks": _total(jobs["tasks"]),
        "failed_tasks": int((tasks["code"] != 0).sum()),
        **spreads,
        "makespan_s": span / 1000 if span is not None else None,
        "load": load(jobs, tasks, nodes),
        "utilisation": utilisation(jobs, nodes),
        "jain": fairness,
        "queue_placement_correct": placement.correct,
        "queue_placement": placement,
        "prediction_error_pct": spread(with_times["error_pct"], ErrorSpread),
        "sized_jobs": int(jobs["size_ms"].count()),
        "pilots": _total(jobs["pilots"]),
        "queues": queues(with_times, per_queue),
        "bins": bins(with_times),
        "services": services(jobs),
        **({"deadlines": due} if due is not None else {}),
    }


def without_services(jobs: pl.DataFrame) -> pl.DataFrame:
    """The batch jobs: jobs with an end of their own."""
    return jobs.filter(~pl.col("service")) if "service" in jobs.columns else jobs


def services(jobs: pl.DataFrame) -> ServiceFigures | msgspec.UnsetType:
    """The figures of services; UNSET where there are none."""
    if "service" not in jobs.columns:
        return msgspec.UNSET
    rows = jobs.filter("service").with_columns(took=pl.col("all_started_ms") - pl.col("submit_ms"))
    met = (pl.col("took") <= pl.col("start_within_ms")).fill_null(value=False)
    held = rows.drop_nulls("start_within_ms").select(took=met)
    return ServiceFigures(
        jobs=len(rows),
        started=int(rows["took"].count()),
        start_s=spread(rows["took"] / 1000, Spread),
        in_time=figure(held["took"].mean()) if len(held) else None,  # type: ignore[arg-type]
    )
