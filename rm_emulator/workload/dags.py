"""Random DAGs of the HEFT literature: tasks on machines of unlike speed, edges that carry data, all from a seed.

Source: Topcuoglu, Hariri, Wu, "Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous
Computing", IEEE TPDS 13(3), 2002, section 5.2. What the paper gives is taken as it is:

- the number of levels is drawn evenly around sqrt(n) / alpha, so that levels have sqrt(n) x alpha tasks on average;
- the mean time of a task over the machines is drawn evenly from 0 to twice the mean of the graph;
- its time on one machine evenly from (1 - beta / 2) to (1 + beta / 2) times that;
- CCR is the mean time of a transfer over the mean time of a task;
- the sets of values that `DagsSettings` draws from by default.

What it leaves open is chosen here:

- There are at least two levels (a draw of one would give tasks without an edge) and at most n. A level has one task and
  an even draw's part of all others, so that there are exactly n.
- Every task below the first level has a parent in the level above, so that the levels are the depth of the graph;
  these parents take turns. Every task above the last level then gets further children, evenly out of all lower
  levels, until it has `out_degree` (all tasks below it where there are fewer). The turns alone may give it more.
- Data of an edge is drawn evenly from 0 to twice the mean, and all of it is scaled so that CCR is met exactly.
- Several tasks may have no parent, and several no child; an entry and an exit without time or data change no schedule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters

#: One gigabit a second.
RATE: Final = 125_000_000
_SMALLEST: Final = 2**-53
T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What one random DAG looks like.

    tasks: n. alpha: above 1 short and wide, below 1 long and narrow. out_degree: children of a task, where there are
    so many tasks below it. ccr: mean transfer over mean task. beta: range of a task's times over the machines, relative
    to their mean (0: all alike, at most 2). mean_ms: mean time of a task.
    """

    tasks: int
    alpha: float = 1.0
    out_degree: int = 3
    ccr: float = 1.0
    beta: float = 0.5
    mean_ms: int = 50_000


class Dag(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks in topological order, as planners take them.

    sizes: (tasks,) mean time over unlike machines, or time at speed 1, ms. times: (tasks, machines), ms, at least 1.
    edges: (parent, child, bytes), sorted. rate: bytes a second between two machines; nothing is moved inside one.
    """

    sizes: tuple[int, ...]
    times: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[int, int, int], ...]
    rate: int


def dag(shape: Shape, machines: int | Sequence[float], *, seed: int, number: int = 0, rate: int = RATE) -> Dag:
    """The DAG with this number of the seed.

    machines: so many unrelated ones (times by `beta`), or the speed of each (time = size / speed; beta says nothing).
    More machines leave the times on the first ones as they are. Raises InvalidParameters for impossible numbers.
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
    """Raise InvalidParameters that names the value."""
    if shape.tasks < 1 or shape.out_degree < 1 or shape.mean_ms < 1 or rate < 1:
        raise InvalidParameters(
            f"dags: tasks {shape.tasks}, out_degree {shape.out_degree}, mean_ms {shape.mean_ms}, rate {rate} "
            "(all at least 1)"
        )
    if not (0 < shape.alpha < math.inf and 0 <= shape.ccr < math.inf and 0 <= shape.beta <= 2):
        raise InvalidParameters(
            f"dags: alpha {shape.alpha} (above 0), ccr {shape.ccr} (at least 0), beta {shape.beta} (0 to 2)"
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
    """(parent, child), sorted; see the module for how they are drawn."""
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
    """The values that each DAG's shape is drawn from, evenly. Defaults: the sets of the HEFT paper."""

    tasks: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10_000)], ...], Meta(min_length=1, description="tasks of a DAG")
    ] = (20, 40, 60, 80, 100)
    alpha: Annotated[
        tuple[Annotated[float, Meta(gt=0)], ...],
        Meta(min_length=1, description="shape: above 1 short and wide, below 1 long and narrow"),
    ] = (0.5, 1.0, 2.0)
    out_degree: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...],
        Meta(min_length=1, description="children of a task; all tasks below it where there are fewer"),
    ] = (1, 2, 3, 4, 5, 100)
    ccr: Annotated[
        tuple[Annotated[float, Meta(ge=0)], ...],
        Meta(min_length=1, description="mean time of a transfer over mean time of a task"),
    ] = (0.1, 0.5, 1.0, 5.0, 10.0)
    beta: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=2)], ...],
        Meta(min_length=1, description="range of a task's times over the machines, relative to their mean"),
    ] = (0.1, 0.25, 0.5, 0.75, 1.0)
    mean_s: Annotated[float, Meta(ge=0.001, le=1e6, description="mean time of a task, s")] = 50.0


def shape(settings: DagsSettings, *, seed: int, number: int) -> Shape:
    """The shape of the DAG with this number of the seed."""
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
    """So many DAGs with shapes drawn from the sets of the HEFT paper; more leave the first ones as they are."""
    settings = DagsSettings()
    return [
        dag(shape(settings, seed=seed, number=number), machines, seed=seed, number=number, rate=rate)
        for number in range(count)
    ]
