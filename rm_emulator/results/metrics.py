"""The figures of one cell, as pure functions of its three tables (`rm_emulator.results.record`).

`results.figures` defines them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
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

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
S = TypeVar("S", bound=msgspec.Struct)


def spread(values: pl.Series | Floats, kind: type[S]) -> S:
    """A record of mean and quantiles, by its fields (`mean`, `p50`); all None without values.

    >>> spread(pl.Series([1.0, 2.0, 3.0, 4.0, 5.0, None]), Spread)
    Spread(mean=3.0, p50=3.0, p90=4.6, p99=4.96)
    """
    known = _known(values.to_numpy().astype(np.float64)) if isinstance(values, pl.Series) else values
    if len(known) == 0:
        return kind()
    names = [name for name in kind.__struct_fields__ if name != "mean"]
    found = dict(zip(names, np.quantile(known, [int(name[1:]) / 100 for name in names]).tolist(), strict=True))
    return kind(**{name: figure(found[name] if name in found else average(known)) for name in kind.__struct_fields__})


def figure(value: float | np.floating[Any]) -> float:
    """A figure as written to files: twelve significant digits, to hide the last bits of a sum."""
    return float(f"{float(value):.12g}")


def average(values: Iterable[float] | Floats) -> float:
    """Arithmetic mean by exact summation: the same on every machine and in any order."""
    numbers = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return math.fsum(numbers) / len(numbers)


_JCT: Final = pl.col("finish_ms") - pl.col("submit_ms")
#: The columns of timed jobs; null where a job has none.
TIMES: Final[Mapping[str, pl.Expr]] = {
    "jct_s": _JCT / 1000,
    "wait_s": (pl.col("first_start_ms") - pl.col("submit_ms")) / 1000,
    "slowdown": pl.when(pl.col("ideal_ms") > 0).then(_JCT / pl.col("ideal_ms")),
    "error_pct": pl.when(pl.col("work_ms") > 0).then(
        100 * (pl.col("size_ms") - pl.col("work_ms")).abs() / pl.col("work_ms")
    ),
    "bin": pl.when(pl.col("width") < THIN_WIDTH).then(pl.lit("thin_")).otherwise(pl.lit("wide_"))
    + pl.when(pl.col("work_ms") < SMALL_MS).then(pl.lit("small")).otherwise(pl.lit("large")),
}


def timed(jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs with the columns of TIMES; a frame that has them already is returned as it is."""
    return jobs if "jct_s" in jobs.columns else jobs.with_columns(**TIMES)


def makespan_ms(jobs: pl.DataFrame) -> int | None:
    """Last finish - first submission; None when nothing finished."""
    finished = jobs["finish_ms"].drop_nulls().to_numpy()
    return int(finished.max() - jobs["submit_ms"].to_numpy().min()) if len(finished) else None


def whole_cluster(nodes: pl.DataFrame) -> pl.DataFrame:
    """The rows of nodes.parquet for the whole cluster."""
    return nodes.filter(pl.col("node").is_null())


def capacities(nodes: pl.DataFrame) -> dict[str, int]:
    """By resource, of the whole cluster."""
    return {resource: capacity for resource, (capacity, _) in _amounts(nodes).items()}


def _amounts(nodes: pl.DataFrame) -> dict[str, tuple[int, float]]:
    """By resource capacity and mean speed of the whole cluster, in the order of the table."""
    # A cell has few rows: Python is faster than a query.
    rows = zip(*(nodes[name].to_list() for name in ("node", "resource", "capacity", "speed")), strict=True)
    return {resource: (capacity, speed) for node, resource, capacity, speed in rows if node is None}


def integrals(owner: Ints, units: Floats, start: Ints, end: Ints, width: int, buckets: int, owners: int) -> Floats:
    """Units x ms of intervals [start, end) in each bucket of equal width, by owner: buckets x owners."""
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
    held = nodes["held"].to_numpy() * (nodes["end_ms"].to_numpy() - nodes["start_ms"].to_numpy())
    areas: dict[str, list[float]] = {}
    for node, resource, area in zip(nodes["node"].to_list(), nodes["resource"].to_list(), held.tolist(), strict=True):
        if node is None:
            areas.setdefault(resource, []).append(area)
    return {
        resource: figure(math.fsum(areas[resource]) / (capacity * span)) if capacity and span else None
        for resource, capacity in capacities(nodes).items()
    }


def load(jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame) -> float | None:
    """Total true work / (slots x arrival span); None when all jobs arrive at once or nothing ran."""
    submits = jobs["submit_ms"].to_numpy()
    span = int(np.ptp(submits)) if len(submits) else 0
    ran, run = tasks["code"].to_numpy() == 0, tasks["ended_ms"].to_numpy() - tasks["started_ms"].to_numpy()
    ran &= run > 0
    if not span or not ran.any():
        return None
    times = run[ran].astype(np.int64)
    slots = []
    for resource, (capacity, speed) in _amounts(nodes).items():
        area = int((tasks[f"demand_{resource}"].to_numpy()[ran] * times).sum())
        if area:
            slots.append(capacity * speed * int(times.sum()) / area)
    return figure(_total(jobs["work_ms"]) / (min(slots) * span)) if slots else None


def launching(jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame, resource: str | None) -> float | None:
    """Holdings of all attempts from grant to end / holdings of successful attempts while running; None: none ran.

    resource: the resource held, containers where None. Nodes are weighted by speed. Application masters are no tasks.
    """
    speeds = dict(zip(nodes["node"].to_list(), nodes["speed"].to_list(), strict=True))
    owner = owners(jobs, tasks)
    own = (owner >= 0) & (tasks["stage"].to_numpy() < jobs["stages"].to_numpy()[owner]) if len(jobs) else owner >= 0
    each = np.fromiter(map(speeds.__getitem__, tasks["node"].to_list()), np.float64, len(tasks))
    if resource is not None:
        each *= tasks[f"demand_{resource}"].to_numpy()
    ended, ran = tasks["ended_ms"].to_numpy(), own & (tasks["code"].to_numpy() == 0)
    total = math.fsum((each * (ended - tasks["granted_ms"].to_numpy()))[own].tolist())
    running = math.fsum((each * (ended - tasks["started_ms"].to_numpy()))[ran].tolist())
    return figure(total / running) if running else None


def owners(jobs: pl.DataFrame, tasks: pl.DataFrame) -> Ints:
    """The row of each task's job, -1 for a task without one."""
    rows = {job: row for row, job in enumerate(jobs["id"].to_list())}
    return np.fromiter((rows.get(job, -1) for job in tasks["job"].to_list()), np.int64, len(tasks))


def _total(values: pl.Series) -> int:
    return int(values.to_numpy().sum())


def dominant_shares(
    jobs: pl.DataFrame, tasks: pl.DataFrame, nodes: pl.DataFrame, by: str = "queue"
) -> dict[str, float]:
    """Time-averaged dominant share per queue (or per `user`) over the makespan, names sorted.

    At every instant the largest of held / capacity over the resources, then the mean over time.
    """
    span, names = makespan_ms(jobs), jobs[by].to_list()
    groups = sorted(set(names))
    if not span:
        return dict.fromkeys(groups, 0.0)
    number = {name: at for at, name in enumerate(groups)}
    owner = owners(jobs, tasks)
    known = owner >= 0
    group = np.tile(np.array([number[name] for name in names], dtype=np.int64)[owner[known]], 2)
    at = np.concatenate([tasks["granted_ms"].to_numpy()[known], tasks["ended_ms"].to_numpy()[known]])
    order = np.lexsort((at, group))
    group, at = group[order], at[order]
    # What a group holds is 0 after its last change, so sums go on from group to group.
    lasts = np.flatnonzero((group[1:] == group[:-1]) & (at[1:] != at[:-1]))
    shares = np.zeros(len(lasts))
    for resource, capacity in capacities(nodes).items():
        if capacity:
            demand = tasks[f"demand_{resource}"].to_numpy()[known]
            held = np.concatenate([demand, -demand])[order].cumsum()[lasts]
            shares = np.maximum(shares, held / capacity)
    parts = shares * (at[lasts + 1] - at[lasts])
    ends = np.searchsorted(group[lasts], np.arange(len(groups) + 1)).tolist()
    sums = (math.fsum(parts[first:last].tolist()) for first, last in pairwise(ends))
    return {name: figure(total / span) for name, total in zip(groups, sums, strict=True)}


def jain(shares: Mapping[str, float], weights: Mapping[str, float] | None = None) -> float | None:
    """Jain's fairness index of shares per unit weight: (sum x)^2 / (n sum x^2), from 1/n to 1.

    None for fewer than two groups, or when nobody held anything.

    >>> jain({"a": 0.5, "b": 0.5}), jain({"a": 1.0, "b": 0.0}), jain({"a": 0.6, "b": 0.2}, {"a": 3})
    (1.0, 0.5, 1.0)
    """
    each = [share / (weights or {}).get(name, 1.0) for name, share in shares.items()]
    squares = len(each) * sum(x * x for x in each)
    return figure(sum(each) ** 2 / squares) if len(each) > 1 and squares else None


def gs_queues(sizes_ms: Floats, bounds_ms: Sequence[float] = GS_BOUNDS_MS) -> npt.NDArray[np.int64]:
    """The priority queue of each job size: the first whose upper bound is above it (by default 10^(6+q) ms).

    >>> gs_queues(np.array([999_999.0, 1e6, 5e7, 1e14])).tolist()
    [0, 1, 2, 9]
    """
    bounds = np.array(bounds_ms, dtype=np.float64)
    return np.searchsorted(bounds, sizes_ms, side="right").astype(np.int64)


def queue_placement(jobs: pl.DataFrame, bounds_ms: Sequence[float] = GS_BOUNDS_MS) -> Placement:
    """Whether the estimates of wide, sized jobs put them in the priority queue of their true size.

    bounds_ms: upper bounds of the queues; the policy's own where it has some.
    """
    sizes = jobs["size_ms"].to_numpy().astype(np.float64)
    wide = (jobs["width"].to_numpy() >= THIN_WIDTH) & ~np.isnan(sizes)
    if not wide.any():
        return Placement()
    off = gs_queues(sizes[wide], bounds_ms) - gs_queues(jobs["work_ms"].to_numpy()[wide], bounds_ms)
    return Placement(correct=figure((off == 0).mean()), over=figure((off > 0).mean()), under=figure((off < 0).mean()))


def bins(jobs: pl.DataFrame) -> Bins[Bin]:
    """Table 8's bins of timed jobs."""
    total, works, jcts = _total(jobs["work_ms"]), jobs["work_ms"].to_numpy(), jobs["jct_s"].to_numpy()
    whose = np.array(jobs["bin"].to_list(), dtype=np.str_)

    def one(mine: Bools) -> Bin:
        count, work = int(mine.sum()), int(works[mine].sum())
        return Bin(
            jobs=count,
            jobs_fraction=figure(count / len(jobs)) if len(jobs) else None,
            work_fraction=figure(work / total) if total else None,
            jct_s=spread(_known(jcts[mine]), Spread),
        )

    return Bins(**{name: one(whose == name) for name in BINS})


def queues(jobs: pl.DataFrame, shares: Mapping[str, float]) -> dict[str, Queue]:
    """The figures of each queue of timed jobs; shares: time-averaged dominant shares."""
    names = jobs["queue"].to_list()
    whose, jcts, waits = np.array(names), jobs["jct_s"].to_numpy(), jobs["wait_s"].to_numpy()
    return {
        name: Queue(
            jobs=int(mine.sum()),
            jct_s=spread(_known(jcts[mine]), Spread),
            wait_s=spread(_known(waits[mine]), Spread),
            share=shares.get(name),
        )
        for name in sorted(set(names))
        for mine in [whose == name]
    }


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def deadlines(jobs: pl.DataFrame) -> DeadlineFigures | None:
    """Of the jobs with a deadline how many have met it, None where no job has one."""
    dates = jobs["deadline_ms"].to_numpy()
    due = ~np.isnan(dates)
    if not due.any():
        return None
    late_ms = jobs["finish_ms"].to_numpy()[due] - dates[due]
    return DeadlineFigures(
        jobs=len(late_ms),
        met=figure(int((late_ms <= 0).sum()) / len(late_ms)),
        late_s=spread(late_ms[late_ms > 0] / 1000, Spread),
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
        "failed_tasks": int((tasks["code"].to_numpy() != 0).sum()),
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
