"""The figures of one cell, as pure functions of its three tables (`rm_emulator.results.record`).

`results.figures` defines them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
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
#: The attempts of a cell: in memory or, where they are many, as a query of their file.
Attempts = pl.DataFrame | pl.LazyFrame
S = TypeVar("S", bound=msgspec.Struct)
#: Attempts read from a file at once.
BLOCK: Final = 100_000
#: Fewer names than these are found faster by Python than by a query.
_FEW: Final = 2_000


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


def pieces(tasks: Attempts, *columns: str) -> Iterator[pl.DataFrame]:
    """Columns of the attempts in their order: of a file `BLOCK` rows at once, in memory all columns and rows."""
    if isinstance(tasks, pl.DataFrame):
        yield tasks
        return
    rows = tasks.select(columns)
    for first in range(0, rows.select(pl.len()).collect().item(), BLOCK):
        yield rows.slice(first, BLOCK).collect()


def blocks(jobs: pl.DataFrame, tasks: Attempts, *columns: str) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Jobs in order of id with columns of their attempts, of a file about `BLOCK` attempts at once; whole in memory.

    Attempts keep their order.
    """
    if isinstance(tasks, pl.DataFrame):
        yield jobs, tasks
        return
    rows, jobs = tasks.select(columns), jobs.sort("id")
    number = jobs["tasks"].to_numpy().cumsum() // BLOCK
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(jobs)]):
        some = jobs[first:last]
        yield some, rows.filter(pl.col("job").is_in(some["id"].implode())).collect()


def load(jobs: pl.DataFrame, tasks: Attempts, nodes: pl.DataFrame) -> float | None:
    """Total true work / (slots x arrival span); None when all jobs arrive at once or nothing ran."""
    submits = jobs["submit_ms"].to_numpy()
    span = int(np.ptp(submits)) if len(submits) else 0
    amounts = _amounts(nodes)
    total, areas = 0, dict.fromkeys(amounts, 0)
    for part in pieces(tasks, "code", "started_ms", "ended_ms", *map(_demand, amounts)):
        ran, run = part["code"].to_numpy() == 0, part["ended_ms"].to_numpy() - part["started_ms"].to_numpy()
        ran &= run > 0
        times = run[ran].astype(np.int64)
        total += int(times.sum())
        for resource in areas:
            areas[resource] += int((part[_demand(resource)].to_numpy()[ran] * times).sum())
    if not span or not total:
        return None
    slots = [amounts[name][0] * amounts[name][1] * total / area for name, area in areas.items() if area]
    return figure(_total(jobs["work_ms"]) / (min(slots) * span)) if slots else None


def _demand(resource: str) -> str:
    """The column of a resource."""
    return f"demand_{resource}"


def launching(jobs: pl.DataFrame, tasks: Attempts, nodes: pl.DataFrame, resource: str | None) -> float | None:
    """Holdings of all attempts from grant to end / holdings of successful attempts while running; None: none ran.

    resource: the resource held, containers where None. Nodes are weighted by speed. Application masters are no tasks.
    """
    of_nodes = dict(zip(nodes["node"].to_list(), nodes["speed"].to_list(), strict=True))
    of_nodes.pop(None, None)
    names, speeds = list(of_nodes), np.array([*of_nodes.values(), np.nan])
    whole, running = list[Floats](), list[Floats]()
    held = () if resource is None else (_demand(resource),)
    for part in pieces(tasks, "job", "stage", "node", "granted_ms", "started_ms", "ended_ms", "code", *held):
        owner = owners(jobs, part)
        own = (owner >= 0) & (part["stage"].to_numpy() < jobs["stages"].to_numpy()[owner]) if len(jobs) else owner >= 0
        each = speeds[_places(names, part["node"])]
        for name in held:
            each *= part[name].to_numpy()
        ended, ran = part["ended_ms"].to_numpy(), own & (part["code"].to_numpy() == 0)
        whole.append((each * (ended - part["granted_ms"].to_numpy()))[own])
        running.append((each * (ended - part["started_ms"].to_numpy()))[ran])
    total, used = (math.fsum(chain.from_iterable(part.tolist() for part in parts)) for parts in (whole, running))
    return figure(total / used) if used else None


def owners(jobs: pl.DataFrame, tasks: pl.DataFrame) -> Ints:
    """The row of each task's job, -1 for a task without one."""
    return _places(jobs["id"].to_list(), tasks["job"])


def _places(known: Sequence[str], names: pl.Series) -> Ints:
    """The place of each name among different ones, -1 for an unknown name."""
    if len(names) < _FEW:
        number = {name: place for place, name in enumerate(known)}
        return np.fromiter((number.get(name, -1) for name in names.to_list()), np.int64, len(names))
    found: Ints = names.cast(pl.Enum(known), strict=False).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return found


def _total(values: pl.Series) -> int:
    return int(values.to_numpy().sum())


def dominant_shares(jobs: pl.DataFrame, tasks: Attempts, nodes: pl.DataFrame, by: str = "queue") -> dict[str, float]:
    """Time-averaged dominant share per queue (or per `user`) over the makespan, names sorted.

    At every instant the largest of held / capacity over the resources, then the mean over time.
    """
    span, names = makespan_ms(jobs), jobs[by].to_list()
    groups = sorted(set(names))
    if not span:
        return dict.fromkeys(groups, 0.0)
    number = {name: at for at, name in enumerate(groups)}
    of_jobs = np.array([number[name] for name in names], dtype=np.int32)
    capacity = {_demand(name): amount for name, amount in capacities(nodes).items() if amount}
    columns = ("granted_ms", "ended_ms", *capacity)
    found: list[list[npt.NDArray[Any]]] = [[] for _ in range(1 + len(columns))]
    for part in pieces(tasks, "job", *columns):
        owner = owners(jobs, part)
        known = owner >= 0
        arrays = (of_jobs[owner[known]], *(part[name].to_numpy()[known] for name in columns))
        for column, array in zip(found, arrays, strict=True):
            column.append(array)
    # Column by column, so that no column is there twice for longer than its own join.
    group, granted, ended, *demands = (np.concatenate(found.pop(0)) for _ in range(len(found)))
    parts = _areas(group, granted, ended, demands, [*capacity.values()], len(groups))
    return {
        name: figure(math.fsum(chain.from_iterable(each.tolist() for each in areas)) / span)
        for name, areas in zip(groups, parts, strict=True)
    }


def _areas(
    group: npt.NDArray[np.int32], granted: Ints, ended: Ints, demands: Sequence[Ints], capacity: Sequence[int], n: int
) -> list[list[Floats]]:
    """By group dominant share x ms between one change of the group's holdings and the next.

    demands, capacity: by resource. n: number of groups.
    """
    parts: list[list[Floats]] = [[] for _ in range(n)]
    # Each group's holdings before a window of time, and since when: the group's first change in the window.
    held, since = np.zeros((len(capacity), n), dtype=np.int64), np.zeros(n, dtype=np.int64)
    for low, high in pairwise(_edges(granted, ended)):
        begun, over = (np.flatnonzero((low <= times) & (times < high)) for times in (granted, ended))
        owner = np.concatenate([np.arange(n, dtype=np.int32), group[begun], group[over]])
        at = np.concatenate([since, granted[begun], ended[over]])
        order = np.lexsort((at, owner))
        owner, at = owner[order], at[order]
        first = np.searchsorted(owner, np.arange(n + 1))
        lasts = np.flatnonzero((owner[1:] == owner[:-1]) & (at[1:] != at[:-1]))
        shares = np.zeros(len(lasts))
        for r, (demand, whole) in enumerate(zip(demands, capacity, strict=True)):
            changes = np.concatenate([held[r], demand[begun], -demand[over]])[order]
            sums = changes.cumsum()
            sums -= (sums - changes)[first[:-1]][owner]  # of the groups before
            held[r] = sums[first[1:] - 1]
            shares = np.maximum(shares, sums[lasts] / whole)
        since = at[first[1:] - 1]
        areas, ends = shares * (at[lasts + 1] - at[lasts]), np.searchsorted(owner[lasts], np.arange(n + 1))
        for mine, (begin, end) in zip(parts, pairwise(ends.tolist()), strict=True):
            mine.append(areas[begin:end])
    return parts


def _edges(granted: Ints, ended: Ints) -> list[float]:
    """The edges of windows of time with about `BLOCK` changes each."""
    count = 2 * len(granted) // BLOCK
    if not count:
        return [-math.inf, math.inf]
    # All changes of a million attempts sorted at once take 200 MB. A sample finds the edges.
    sample = np.concatenate([granted[::16], ended[::16]])
    return [-math.inf, *np.unique(np.quantile(sample, np.arange(1, count + 1) / (count + 1))).tolist(), math.inf]


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
    tasks: Attempts,
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
        "failed_tasks": sum(int((part["code"].to_numpy() != 0).sum()) for part in pieces(tasks, "code")),
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
