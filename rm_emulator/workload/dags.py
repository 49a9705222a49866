"""Random DAGs of the HEFT literature: tasks on machines of unlike speed, edges with data, all from a seed.

Source: Topcuoglu, Hariri, Wu, "Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous
Computing", IEEE TPDS 13(3), 2002, section 5.2. Taken from the paper:

- the number of levels is drawn evenly around sqrt(n) / alpha, so that levels have sqrt(n) x alpha tasks on average;
- the mean time of a task over the machines is drawn evenly from 0 to twice the mean of the graph;
- its time on a machine evenly from (1 - beta / 2) to (1 + beta / 2) times the mean;
- CCR is the mean time of a transfer over the mean time of a task;
- the sets of values for the draws of `DagsSettings`.

Chosen here:

- There are at least two levels (a draw of 1 would give tasks without an edge) and at most n. A level has a task and
  an even draw's part of all others, so that there are exactly n.
- Every task below the first level has a parent in the level above, so that the levels are the depth of the graph;
  the parents take turns. Every task above the last level then gets further children, evenly out of all lower
  levels, up to `out_degree` (all tasks below where there are fewer). The turns alone may give more.
- Data of an edge is drawn evenly from 0 to twice the mean, then scaled to meet CCR exactly.
- Several tasks may have no parent, and several no child; an entry and an exit without time or data change no schedule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from rm_emulator.workload.model import Fixed, PerNode, PerTask, RunTimes, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Edge, Job, Node, Stage
from schedulers.core.resources import Resources, Vector

#: One gigabit a second.
RATE: Final = 125_000_000
#: So many times of tasks on nodes are kept at all.
MAX_TIMES: Final = 20_000_000
_SMALLEST: Final = 2**-53
T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a random DAG."""

    tasks: int
    """Number of tasks, n."""
    alpha: float = 1.0
    """Above 1 short and wide, below 1 long and narrow."""
    out_degree: int = 3
    """Children of a task, as far as there are tasks below."""
    ccr: float = 1.0
    """Mean transfer over mean task."""
    beta: float = 0.5
    """Range of a task's times over the machines, relative to their mean (0: all alike, at most 2)."""
    mean_ms: int = 50_000
    """Mean time of a task, ms."""


class Dag(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks in topological order, as planners take them."""

    sizes: tuple[int, ...]
    """(tasks,): mean time over unlike machines, or time at speed 1, ms."""
    times: tuple[tuple[int, ...], ...]
    """(tasks, machines), ms, at least 1."""
    edges: tuple[tuple[int, int, int], ...]
    """(parent, child, bytes), sorted."""
    rate: int
    """Bytes a second between two machines; inside a machine nothing is moved."""


def dag(shape: Shape, machines: int | Sequence[float], *, seed: int, number: int = 0, rate: int = RATE) -> Dag:
    """The DAG with number `number` of the seed.

    `machines`: number of unrelated machines (times by `beta`), or the speed of each (time = size / speed, without
    `beta`). More machines leave the times on the first machines unchanged.

    Raises InvalidParameters for impossible numbers.
    """
    _check(shape, machines, rate)
    sizes = np.maximum(1.0, np.rint(_even(seed, "sizes", number, shape.tasks) * 2 * shape.mean_ms))
    times = _times(shape, sizes, machines, seed, number)
    pairs = _edges(shape, _widths(shape, seed, number), seed, number)
    volumes = _even(seed, "data", number, len(pairs))
    if pairs:
        volumes *= shape.ccr * float(times.mean()) / 1000 * rate / float(volumes.mean())
    return Dag(
        sizes=tuple(sizes.astype(np.int64).tolist()),
        times=tuple(map(tuple, times.astype(np.int64).tolist())),
        edges=tuple(
            (*pair, data) for pair, data in zip(pairs, np.rint(volumes).astype(np.int64).tolist(), strict=True)
        ),
        rate=rate,
    )


def _check(shape: Shape, machines: int | Sequence[float], rate: int) -> None:
    """Raise InvalidParameters with the wrong value."""
    if shape.tasks < 1 or shape.out_degree < 1 or shape.mean_ms < 1 or rate < 1:
        raise InvalidParameters(
            f"dags: tasks {shape.tasks}, out_degree {shape.out_degree}, mean_ms {shape.mean_ms}, rate {rate} "
            "(all at least 1)"
        )
    if not (0 < shape.alpha < math.inf and 0 <= shape.ccr < math.inf and 0 <= shape.beta <= 2):
        raise InvalidParameters(
            f"dags: alpha {shape.alpha} (above 0), ccr {shape.ccr} (at least 0, finite), beta {shape.beta} (0 to 2)"
        )
    if isinstance(machines, int):
        if machines < 1:
            raise InvalidParameters(f"dags: {machines} machines (at least 1)")
    elif not machines or not all(0 < speed < math.inf for speed in machines):
        raise InvalidParameters(f"dags: speeds {list(machines)} (at least one machine, all above 0)")


def _times(
    shape: Shape, sizes: NDArray[np.float64], machines: int | Sequence[float], seed: int, number: int
) -> NDArray[np.float64]:
    """(tasks, machines), whole ms."""
    if isinstance(machines, int):
        draws = _even(seed, "times", number, machines * len(sizes)).reshape(machines, len(sizes)).T
        factors = 1 + shape.beta * (draws - 0.5)
    else:
        factors = 1 / np.array(machines, dtype=np.float64)[np.newaxis, :]
    return np.maximum(1.0, np.rint(sizes[:, np.newaxis] * factors))


def _widths(shape: Shape, seed: int, number: int) -> list[int]:
    """Tasks of each level."""
    draw = float(_even(seed, "levels", number, 1)[0])
    levels = min(shape.tasks, max(2, math.ceil(draw * 2 * math.sqrt(shape.tasks) / shape.alpha)))
    parts = _even(seed, "widths", number, levels)
    ends = np.rint(np.cumsum(parts) / float(parts.sum()) * (shape.tasks - levels)).astype(np.int64)
    return [1 + int(more) for more in np.diff(ends, prepend=0)]


def _edges(shape: Shape, widths: Sequence[int], seed: int, number: int) -> list[tuple[int, int]]:
    """(parent, child), sorted; drawn by the rules of the module."""
    starts = np.concatenate([[0], np.cumsum(widths)]).tolist()
    children: list[set[int]] = [set() for _ in range(shape.tasks)]
    for level in range(1, len(widths)):
        order = np.argsort(_even(seed, "turns", number, widths[level - 1], level), kind="stable").tolist()
        for turn, child in enumerate(range(starts[level], starts[level + 1])):
            children[starts[level - 1] + order[turn % len(order)]].add(child)
    for level in range(len(widths) - 1):
        below = range(starts[level + 1], shape.tasks)
        for parent in range(starts[level], starts[level + 1]):
            order = np.argsort(_even(seed, "children", number, len(below), parent), kind="stable").tolist()
            for place in order:
                if len(children[parent]) >= shape.out_degree:
                    break
                children[parent].add(below[place])
    return [(parent, child) for parent, under in enumerate(children) for child in sorted(under)]


def _even(seed: int, purpose: str, number: int, count: int, part: int = 0) -> NDArray[np.float64]:
    """Independent numbers in (0, 1). Only `random` is drawn from: its stream is the same on every machine."""
    return np.maximum(keyed.generator(seed, f"dags {purpose}", number, part).random(count), _SMALLEST)


class DagsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Random DAGs as jobs; each DAG draws evenly among several values. Defaults: the sets of the HEFT paper."""

    tasks: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=1000)], ...], Meta(min_length=1, description="number of tasks of a DAG")
    ] = (20, 40, 60, 80, 100)
    alpha: Annotated[
        tuple[Annotated[float, Meta(gt=0)], ...],
        Meta(
            min_length=1,
            description="shape: sqrt(n) / alpha levels of sqrt(n) x alpha tasks; above 1 wide, below 1 long",
        ),
    ] = (0.5, 1.0, 2.0)
    out_degree: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...],
        Meta(min_length=1, description="number of children of a task, on any lower level; at most all tasks below"),
    ] = (1, 2, 3, 4, 5, 100)
    ccr: Annotated[
        tuple[Annotated[float, Meta(ge=0)], ...],
        Meta(
            min_length=1,
            description="mean transfer time / mean task time, exact in every DAG at the links' `rate`",
        ),
    ] = (0.1, 0.5, 1.0, 5.0, 10.0)
    beta: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=2)], ...],
        Meta(
            min_length=1,
            description="range of a task's times over the nodes: from 1 - beta/2 to 1 + beta/2 times the mean",
        ),
    ] = (0.1, 0.25, 0.5, 0.75, 1.0)
    mean_s: Annotated[float, Meta(ge=0.001, le=1e6, description="mean time of a task, s")] = 50.0
    times: Annotated[
        Literal["by_node", "by_speed"],
        Meta(
            description="run times: by_node draws a time per task and node (unrelated machines, spread by `beta`; node "
            "speed does not count), by_speed divides the task's time by the node's speed (`beta` does not count)"
        ),
    ] = "by_node"
    jobs: Annotated[int, Meta(ge=1, le=100_000, description="number of jobs, one DAG each")] = 10
    arrivals: Annotated[
        Literal["batch", "poisson"],
        Meta(description="arrivals: batch all at time 0, poisson at random after the first job"),
    ] = "batch"
    interarrival_s: Annotated[float, Meta(gt=0, description="mean time between jobs, s, for poisson")] = 45.0
    queue: Annotated[str, Meta(description="queue of all jobs")] = "default"
    demand: Annotated[
        dict[str, Any], Meta(description="resources of one task, as quantities", examples=[{"cpu": 1}])
    ] = msgspec.field(default_factory=lambda: {"cpu": 1})


def shape(settings: DagsSettings, *, seed: int, number: int) -> Shape:
    """The shape of the DAG with number `number` of the seed."""
    tasks, alpha, degree, ccr, beta = _even(seed, "shapes", number, 5).tolist()
    return Shape(
        tasks=_one_of(settings.tasks, tasks),
        alpha=_one_of(settings.alpha, alpha),
        out_degree=_one_of(settings.out_degree, degree),
        ccr=_one_of(settings.ccr, ccr),
        beta=_one_of(settings.beta, beta),
        mean_ms=round(settings.mean_s * 1000),
    )


def _one_of(values: Sequence[T], draw: float) -> T:
    return values[int(draw * len(values))]


def literature(count: int, machines: int | Sequence[float], *, seed: int, rate: int = RATE) -> list[Dag]:
    """`count` DAGs with shapes drawn from the sets of the HEFT paper; more DAGs leave the first DAGs unchanged."""
    settings = DagsSettings()
    return [
        dag(shape(settings, seed=seed, number=number), machines, seed=seed, number=number, rate=rate)
        for number in range(count)
    ]


def generate(settings: DagsSettings, nodes: Sequence[Node], *, seed: int, rate: int = RATE) -> Workload:
    """Each DAG as a job with a single task per stage.

    `rate`: bytes a second between two nodes, to turn `ccr` into amounts of data. Raises InvalidParameters, and
    InvalidQuantity for a demand.
    """
    kinds = Resources().extended(settings.demand)
    demand = kinds.demand(settings.demand)
    if not any(demand):
        raise InvalidParameters(f"dags: demand {settings.demand} asks for nothing (above 0 of one resource at least)")
    machines = len(nodes) if settings.times == "by_node" else [node.speed for node in nodes]
    most = settings.jobs * max(settings.tasks) * len(nodes)
    if settings.times == "by_node" and most > MAX_TIMES:
        raise InvalidParameters(
            f"dags: {settings.jobs:,} jobs of {max(settings.tasks):,} tasks on {len(nodes):,} nodes are {most:,} times "
            f"(at most {MAX_TIMES:,}; `times: by_speed` needs one per task)"
        )
    width = len(str(settings.jobs - 1))
    jobs = []
    for number, submit in enumerate(_submits(settings, seed)):
        drawn = dag(shape(settings, seed=seed, number=number), machines, seed=seed, number=number, rate=rate)
        ident = f"dag-{number:0{width}d}"
        job = Job(id=ident, stages=_stages(drawn, demand), name=ident, app="dags", queue=settings.queue)
        jobs.append(WorkloadJob(job=job, submit_ms=submit, runtimes=_runtimes(drawn, settings, nodes)))
    return Workload(
        name="dags",
        jobs=tuple(jobs),
        resources=kinds.names,
        source="random DAGs as in Topcuoglu, Hariri, Wu, HEFT, TPDS 2002, section 5.2",
    )


def _submits(settings: DagsSettings, seed: int) -> list[int]:
    """Arrival times in ms, ascending, the first at 0."""
    if settings.arrivals == "batch":
        return [0] * settings.jobs
    gaps = keyed.generator(seed, "dags arrivals").exponential(settings.interarrival_s * 1000, settings.jobs - 1)
    return [round(at) for at in accumulate([0.0, *gaps.tolist()])]


def _stages(drawn: Dag, demand: Vector) -> tuple[Stage, ...]:
    parents: list[list[int | Edge]] = [[] for _ in drawn.sizes]
    for parent, child, data in drawn.edges:
        parents[child].append(Edge(parent=parent, data=data) if data else parent)
    width = len(str(len(parents) - 1))
    return tuple(
        Stage(name=f"t{task:0{width}d}", tasks=1, demand=demand, parents=tuple(above))
        for task, above in enumerate(parents)
    )


def _runtimes(drawn: Dag, settings: DagsSettings, nodes: Sequence[Node]) -> tuple[RunTimes, ...]:
    if settings.times == "by_speed":
        return tuple(map(Fixed, drawn.sizes))
    names = tuple(node.id for node in nodes)
    return tuple(PerNode(nodes=names, ms=(times,)) for times in drawn.times)


def together(entries: Sequence[WorkloadJob], nodes: Sequence[Node], *, rate: int) -> Dag:
    """All tasks of the jobs as a single DAG for a planner, job by job and stage by stage, without arrival times.

    The pairs of tasks of two stages share the data of their edge, as whole bytes rounded up. Run times must be known
    per task or node; raises InvalidParameters for all others.
    """
    tasks: list[tuple[float, ...]] = []
    edges: list[tuple[int, int, int]] = []
    for entry in entries:
        starts = list(accumulate([len(tasks), *(stage.tasks for stage in entry.job.stages)]))
        for index, (stage, times) in enumerate(zip(entry.job.stages, entry.runtimes, strict=True)):
            tasks += _rows(times, stage.tasks, nodes)
            for edge in stage.edges:
                above = range(starts[edge.parent], starts[edge.parent + 1])
                below = range(starts[index], starts[index + 1])
                share = -(-edge.data // (len(above) * len(below)))
                edges += [(parent, child, share) for parent in above for child in below]
    return Dag(
        sizes=tuple(max(1, round(row[0])) for row in tasks),
        times=tuple(tuple(max(1, round(ms)) for ms in row[1:]) for row in tasks),
        edges=tuple(sorted(edges)),
        rate=rate,
    )


def _rows(times: RunTimes, tasks: int, nodes: Sequence[Node]) -> list[tuple[float, ...]]:
    """Per task its size, and its time on each node."""
    if isinstance(times, PerNode):
        at = [times.nodes.index(node.id) for node in nodes]
        rows = [tuple(float(row[place]) for place in at) for row in times.ms]
        given = [(math.fsum(row) / len(row), *row) for row in rows]
    elif isinstance(times, Fixed | PerTask):
        sizes = times.ms if isinstance(times, PerTask) else (times.ms,)
        given = [(float(ms), *(ms / node.speed for node in nodes)) for ms in sizes]
    else:
        raise InvalidParameters(f"run times '{times.__struct_config__.tag}' are not known task by task")
    return given if len(given) == tasks else given * tasks
