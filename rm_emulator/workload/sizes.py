"""Size of the cluster that a workload needs: its demands, its load by the hour, and its waits by number of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.workload import pool
from rm_emulator.workload.pool import PoolJob, PoolStage
from rm_emulator.workload.stage_table import HOUR_MS, StageTable, ask
from schedulers.core.errors import InvalidParameters, InvalidQuantity
from schedulers.core.resources import Vector, parse_quantity, show_steps, to_steps

#: Jobs whose waits are estimated: of a larger workload, the consecutive ones with the most work per time.
MOST_JOBS: Final = 10_000
#: Cores of a node that nobody has described, unless a task asks for more.
_CORES: Final = 16_000
_GIB: Final = 2**30
#: More nodes than any cluster has.
_MOST_NODES: Final = 10**7


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster should be, as far as it is given."""

    wait_ms: int = 600_000
    """90 % of the jobs should wait no longer, ms."""
    node: Mapping[str, str] | None = None
    """Resources of a node; None: derived from the largest demand."""
    nodes: int | None = None
    """A number of nodes to give the waits for, besides the usual numbers."""
    own: int | None = None
    """Number of the scenario's nodes, which are like `node`; None for another node, and without a scenario."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Demands of tasks for a resource, in `unit`; load: all tasks' demands x run times by time of the job's arrival."""

    resource: str
    unit: str
    p50: float
    """Median over tasks."""
    p90: float
    max: float
    total_hours: float
    """Demand x run time over all tasks, unit x hours."""
    mean_load: float | None
    """Total over the span of the arrivals, in `unit`: kept busy on average; None for arrivals at one time."""
    peak_load: float
    """Work that arrives in the busiest hour, over an hour."""
    peak_hour: int
    """The busiest hour, counted from the first arrival (0)."""


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated waits of the jobs on a number of nodes, s."""

    nodes: int
    p50_s: float
    p90_s: float


class ClusterSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Cluster sizes for a workload."""

    demands: tuple[Demand, ...]
    widest_gang: int
    """Tasks of the widest gang; 0 without gangs."""
    node: dict[str, str]
    """Resources of the node that the counts below are for."""
    derived: bool
    """Whether the node was derived from the demands."""
    own: int | None = None
    """Number of the scenario's nodes; None for a node unlike the scenario's, and without a scenario."""
    least: int
    """Least number of nodes on which no task and no gang is refused."""
    enough: int | None
    """Least number of nodes, to 2 %, on which 90 % of the jobs wait no longer than `wait_s`; None: not to be had."""
    wait_s: float
    waits: tuple[Waits, ...]
    """Estimated waits by number of nodes."""
    judged: int
    """Number of jobs whose waits are estimated."""


def size(table: StageTable, wanted: Wanted) -> ClusterSizes | None:
    """ClusterSizes for a workload; None for a workload without a job of known run times.

    Raises InvalidParameters for a node that the largest task does not fit, and for an unknown resource of the node.
    """
    known = table.stages.filter(pl.col("mean").is_not_null().all().over("job"))
    if not known.height:
        return None
    asks = known.select(ask(name) for name in table.resources)
    shape = _derived(table.resources, known) if wanted.node is None else _given(table.resources, wanted.node)
    largest = tuple(int(most) for most in asks.max().row(0))
    _check_fits(table.resources, largest, shape)
    known = _fitting(table.resources, known, shape)
    gangs = known.filter("gang")
    least = int(gangs.select(_ceil(pl.col("tasks"), pl.col("per_node"))).to_series().max() or 1)  # type: ignore[arg-type]
    widest = max(gangs["tasks"].to_list(), default=0)
    judged = _pool_jobs(table, _busiest(table, known))
    if wanted.nodes is not None and wanted.nodes < least:
        raise InvalidParameters(f"nodes: a gang of {widest:,} tasks never starts on {wanted.nodes} (at least {least})")
    found: dict[int, Waits] = {}
    enough = _enough(judged, least, wanted.wait_ms / 1000, found)
    shown = {max(least, enough // 2), enough, enough * 2} if enough else {least}
    shown |= {nodes for nodes in (wanted.nodes, wanted.own) if nodes and nodes >= least}
    for nodes in shown - found.keys():
        found[nodes] = _waits(judged, nodes)
    return ClusterSizes(
        demands=tuple(_demand(table, known, name) for name in table.resources if int(asks[ask(name)].sum())),
        widest_gang=widest,
        node={name: show_steps(name, steps) for name, steps in zip(table.resources, shape, strict=True) if steps},
        derived=wanted.node is None,
        own=wanted.own,
        least=least,
        enough=enough,
        wait_s=wanted.wait_ms / 1000,
        waits=tuple(found[nodes] for nodes in sorted(shown)),
        judged=len(judged),
    )


def in_units(resource: str, steps: float) -> tuple[float, str]:
    """An amount in the unit that people say: cores, GiB, or pieces."""
    base = parse_quantity(show_steps(resource, 1))
    if base >= 2**20:
        return steps * float(base / _GIB), "GiB"
    return steps * float(base), "cores" if resource == "cpu" else ""


def parse_node(text: str) -> dict[str, str]:
    """`cpu=32,memory=128Gi` as resources. Raises InvalidParameters."""
    found = {}
    for part in text.split(","):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            of = "" if part == text else f" in '{text}'"
            raise InvalidParameters(f"--node: '{part}' is no resource of a node (write cpu=32,memory=128Gi){of}")
        try:
            parse_quantity(amount)
        except InvalidQuantity as error:
            raise InvalidParameters(f"node: {name}: {error}") from None
        found[name] = amount
    return found


def _given(resources: Sequence[str], node: Mapping[str, str]) -> Vector:
    unknown = [name for name in node if name not in resources]
    if unknown:
        raise InvalidParameters(f"node: no task asks for '{unknown[0]}' (tasks ask for {', '.join(resources)})")
    return tuple(to_steps(name, node.get(name, "0"), round_up=False) for name in resources)


def _derived(resources: Sequence[str], stages: pl.DataFrame) -> Vector:
    """A node for the largest task, with resources in the proportion of the whole work; powers of two.

    At least 16 cores, if tasks ask for cores.
    """
    works = [float((stages[ask(name)] * stages["tasks"] * stages["mean"]).sum()) for name in resources]
    largest = [int(stages[ask(name)].max() or 0) for name in resources]  # type: ignore[arg-type]
    cores = resources.index("cpu") if "cpu" in resources else 0
    first = _power(resources[cores], max(largest[cores], _CORES if resources[cores] == "cpu" else 1))
    shape = []
    for index, name in enumerate(resources):
        share = first * works[index] / works[cores] if works[cores] else 0.0
        wanted = first if index == cores and works[cores] else max(float(largest[index]), share)
        shape.append(_power(name, wanted) if wanted else 0)
    return tuple(shape)


def _power(resource: str, steps: float) -> int:
    """The next power of two from an amount on, in the resource's unit (cores, GiB, pieces), as steps."""
    base = parse_quantity(show_steps(resource, 1))
    unit = Fraction(_GIB) / base if base >= 2**20 else 1 / base
    power = max(0, math.ceil(math.log2(max(steps / float(unit), 1e-9))))
    return math.ceil(unit * (1 << power))


def _check_fits(resources: Sequence[str], largest: Vector, shape: Vector) -> None:
    for name, most, there in zip(resources, largest, shape, strict=True):
        if most > there:
            raise InvalidParameters(
                f"node: a task asks for {show_steps(name, most)} of {name}, the node has {show_steps(name, there)}"
            )


def _demand(table: StageTable, stages: pl.DataFrame, resource: str) -> Demand:
    """Figures of a resource that some task asks for."""
    column, tasks = pl.col(ask(resource)), pl.col("tasks")
    by_size = stages.group_by(column).agg(tasks.sum()).sort(ask(resource))
    upto = by_size["tasks"].cum_sum().to_numpy()
    sizes = by_size[ask(resource)].to_numpy()
    p50, p90 = (in_units(resource, int(sizes[np.searchsorted(upto, share * upto[-1])]))[0] for share in (0.5, 0.9))
    work = stages.group_by("job", maintain_order=True).agg(work=(column * tasks * pl.col("mean")).sum())
    submit = table.jobs["submit"].gather(work["job"])
    first = int(submit[0])
    hours = work.group_by(hour=(submit - first) // HOUR_MS).agg(pl.col("work").sum()).sort("work", descending=True)
    total, span = float(work["work"].sum()), int(submit[-1]) - first
    unit = in_units(resource, 1)[1]
    return Demand(
        resource=resource,
        unit=unit,
        p50=p50,
        p90=p90,
        max=in_units(resource, int(sizes[-1]))[0],
        total_hours=in_units(resource, total / HOUR_MS)[0],
        mean_load=in_units(resource, total / span)[0] if span else None,
        peak_load=in_units(resource, float(hours["work"][0]) / HOUR_MS)[0],
        peak_hour=int(hours["hour"][0]),
    )


def _fitting(resources: Sequence[str], stages: pl.DataFrame, shape: Vector) -> pl.DataFrame:
    """The stages with the number of their tasks that fit a node (`per_node`)."""
    fits = [
        there // pl.when(pl.col(ask(name)) > 0).then(pl.col(ask(name)))
        for name, there in zip(resources, shape, strict=True)
    ]
    return stages.with_columns(per_node=pl.min_horizontal(fits).fill_null(1))


def _ceil(amount: pl.Expr, unit: pl.Expr) -> pl.Expr:
    return (amount + unit - 1) // unit


def _pool_jobs(table: StageTable, stages: pl.DataFrame) -> list[PoolJob]:
    """Jobs as the pool takes them."""
    columns = pl.struct("tasks", "mean", "per_node", "gang")
    rows = stages.group_by("job", maintain_order=True).agg(stages=columns)
    submits = table.jobs["submit"].gather(rows["job"])
    return [
        PoolJob(submit, [PoolStage(*stage.values()) for stage in listed])
        for submit, listed in zip(submits.to_list(), rows["stages"].to_list(), strict=True)
    ]


def _busiest(table: StageTable, stages: pl.DataFrame) -> pl.DataFrame:
    """The stages of the consecutive jobs with the most work per time, as many as are judged."""
    nodes = pl.col("tasks") * pl.col("mean") / pl.col("per_node")
    jobs = stages.group_by("job", maintain_order=True).agg(work=nodes.sum())
    extra = jobs.height - MOST_JOBS
    if extra <= 0:
        return stages
    work = np.concatenate(([0.0], np.cumsum(jobs["work"].to_numpy())))
    submit = table.jobs["submit"].gather(jobs["job"]).to_numpy()
    spans = np.maximum(1.0, submit[MOST_JOBS - 1 :] - submit[: extra + 1])
    first = int(np.argmax((work[MOST_JOBS:] - work[: extra + 1]) / spans))
    chosen = jobs["job"][first : first + MOST_JOBS]
    return stages.filter(pl.col("job").is_between(chosen[0], chosen[-1]))


def _waits(jobs: Sequence[PoolJob], nodes: int) -> Waits:
    p50, p90 = np.quantile(np.asarray(pool.waits(jobs, nodes)) / 1000, (0.5, 0.9))
    return Waits(nodes=nodes, p50_s=float(p50), p90_s=float(p90))


def _enough(jobs: Sequence[PoolJob], least: int, wait_s: float, found: dict[int, Waits]) -> int | None:
    """The least number of nodes, to 2 %, with a P90 of waits of at most `wait_s`, by bisection."""

    def good(nodes: int) -> bool:
        if nodes not in found:
            found[nodes] = _waits(jobs, nodes)
        return found[nodes].p90_s <= wait_s

    work = sum(s.tasks * s.ms / s.per_node for job in jobs for s in job.stages)
    span = max(1, jobs[-1].submit - jobs[0].submit)
    # Below the mean load queues grow without end, which is slow to walk through, so the search begins there.
    low, high = least - 1, max(least, min(_MOST_NODES, math.ceil(work / span)))
    while not good(high):
        low, high = high, high * 2
        if high > _MOST_NODES:
            return None
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high
