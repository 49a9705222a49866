"""When nodes fail: the faults of a cluster in the order of their times, whatever a policy decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import count
from typing import Final

from msgspec.structs import replace

from rm_emulator.engine import execution
from rm_emulator.engine.config import Faults, NodeFault, NodeFaultRates, Worse
from rm_emulator.engine.execution import LONGEST_MS
from rm_emulator.workload.model import Fixed
from schedulers.core import keyed
from schedulers.core.model import Node

#: Draws for a repair longer than so far.
_TRIES: Final = 1000
_MS_PER_1000_DAYS: Final = 1000 * 86_400_000


def node_faults(faults: Faults, nodes: Sequence[Node], seed: int) -> Iterator[NodeFault]:
    """The faults of all nodes, by time and then in the order of the nodes; endless where faults have rates."""
    place = {node.id: index for index, node in enumerate(nodes)}

    def order(fault: NodeFault) -> tuple[int, int]:
        return fault.at_ms, place[fault.node]

    streams = [iter(sorted(faults.outages, key=order))]
    if (rates := faults.nodes) is not None:
        means = mean_times(rates, [node.id for node in nodes], seed)
        streams += [_drawn(rates, node, mean, seed) for node, mean in means.items()]
    return merge(*streams, key=order)


def later_faults(rates: NodeFaultRates, nodes: Sequence[Node], seed: int, draw: int, now: int) -> Iterator[NodeFault]:
    """Faults after a moment (ms) as another draw has them; lemons stay lemons."""
    place = {node.id: index for index, node in enumerate(nodes)}
    means, anew = mean_times(rates, list(place), seed), keyed.digest(seed, "later faults", draw)

    def after(fault: NodeFault) -> NodeFault:
        return replace(fault, at_ms=now + fault.at_ms)

    # From now on for each node: failures are memoryless, and those of a node that is out are left out.
    streams = (map(after, _drawn(rates, node, mean, anew)) for node, mean in means.items())
    return merge(*streams, key=lambda fault: (fault.at_ms, place[fault.node]))


def later_end(rates: NodeFaultRates, fault: NodeFault, seed: int, draw: int, now: int) -> int:
    """The end (ms) of a repair that goes on at a moment, as another draw has it."""
    if isinstance(rates.repair, Fixed):
        return fault.at_ms + rates.repair.ms
    random = keyed.generator(seed, "later repair", draw, fault.node)
    repairs = execution.draw(rates.repair, random, _TRIES)
    return fault.at_ms + next((ms for ms in repairs if ms > now - fault.at_ms), now - fault.at_ms + 1)


def mean_times(rates: NodeFaultRates, nodes: Sequence[str], seed: int) -> dict[str, float]:
    """Mean time between a repair and the next fault of each node, ms; the mean rate is that of `rates`.

    The lemons are the nodes with the smallest of the numbers drawn for each node: exactly their share, rounded.
    """
    worse = rates.lemons or Worse(share=0.0, times=1.0)
    lemons = sorted(nodes, key=lambda node: keyed.uniform(seed, "lemons", node))[: round(worse.share * len(nodes))]
    # Divided by the mean over the lemons of this very cluster, so that rounding leaves the mean as it is.
    mean = 1 + len(lemons) / len(nodes) * (worse.times - 1)
    good = _MS_PER_1000_DAYS / rates.per_1000_node_days * mean
    return dict.fromkeys(nodes, good) | dict.fromkeys(lemons, good / worse.times)


def _drawn(rates: NodeFaultRates, node: str, mean_ms: float, seed: int) -> Iterator[NodeFault]:
    """The faults of a node: a node under repair does not fail."""
    at = 0
    for number in count():
        draws = keyed.generator(seed, "node faults", node, number)
        at += max(1, round(min(draws.exponential(mean_ms), LONGEST_MS)))
        if at >= LONGEST_MS:
            return
        repair = rates.repair
        lasts = repair.ms if isinstance(repair, Fixed) else execution.draw(repair, draws, 1)[0]
        yield NodeFault(at_ms=at, node=node, kind=rates.kind, lasts_ms=lasts, times=rates.times)
        at += lasts
