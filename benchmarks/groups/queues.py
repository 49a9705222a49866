"""Group `policies`: what a heartbeat costs in a tree of 200 queues, and what limits of queues cost the core."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from benchmarks.reference import quiet
from benchmarks.rows import Row, benchmark
from benchmarks.steady import LARGE, TINY, Size, Steady, in_turns, quantile
from schedulers.core.model import Limit
from schedulers.core.policy import policies

_BEATS: Final = 2000
_TURNS: Final = 8
#: What the rows are measured against.
_PLAIN: Final = "fifo"
#: Parts of the cluster that an inner queue and a leaf may hold: half as much again as their equal parts.
_MOST: Final = (0.15, 0.0075)


@benchmark("queues", "policies")
def queues(tiny: bool) -> Iterator[Row]:
    """Every registered policy on a full cluster with a tree of queues, beside fifo in the same run."""
    size = TINY if tiny else LARGE
    names = sorted((entry.name for entry in policies), key=lambda name: (name != _PLAIN, name))
    measured = _measured({name: partial(Steady, name, size) for name in names}, tiny)
    for name in names:
        yield from _rows("queues", name, measured[name], measured[_PLAIN], f"{_said(size)}; reference: {_PLAIN}")


@benchmark("queue_limits", "policies")
def queue_limits(tiny: bool) -> Iterator[Row]:
    """Fifo with a limit on each queue, beside fifo without any queue."""
    size = TINY if tiny else LARGE
    bare = msgspec.structs.replace(size, inner=0, leaves=0)
    most: tuple[Limit, Limit] = (0.75, 0.375) if tiny else _MOST
    ways = {"none": partial(Steady, _PLAIN, bare), "limited": partial(Steady, _PLAIN, size, most=most)}
    measured = _measured(ways, tiny)
    note = f"{_said(size)}, each limited to half as much again as its equal part; reference: no queues"
    yield from _rows("queue_limits", _PLAIN, measured["limited"], measured["none"], note)


def _measured(ways: dict[str, partial[Steady]], tiny: bool) -> dict[str, Steady]:
    with quiet():
        return in_turns(dict(ways), *((60, 2) if tiny else (_BEATS, _TURNS)))


def _said(size: Size) -> str:
    return f"{size.nodes} nodes, {size.jobs} jobs, {size.inner * size.leaves} queues"


def _rows(group: str, name: str, steady: Steady, plain: Steady, note: str) -> Iterator[Row]:
    """Median and 99th percentile of beats after a container has ended, and the median of those that give nothing."""
    # What a policy does now and then, and the 99th percentile passes by, is in these two.
    all_in = f"mean {sum(steady.busy) / len(steady.busy):.4g}, longest {max(steady.busy):.4g}"
    for what, value, other, about in (
        ("p50", quantile(steady.busy, 0.5), quantile(plain.busy, 0.5), "a container has ended"),
        ("p99", quantile(steady.busy, 0.99), quantile(plain.busy, 0.99), f"a container has ended, {all_in}"),
        ("idle", quantile(steady.idle, 0.5), quantile(plain.idle, 0.5), "nothing fits, median"),
    ):
        yield Row(
            name=f"{group}_{what}/{name}",
            value=value,
            unit="us",
            reference=other,
            ratio=value / other if other else None,
            note=f"per heartbeat, {about}; {note}",
        )
