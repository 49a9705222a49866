"""Overbooked network and disk: while tasks ask for more than a node has, all that use the resource slow down alike.

A task that asks for d of a resource of which c is there and D is asked for runs at min(1, c / D) of its speed; one that
uses several such resources, at the lowest of these (Graphene, OSDI'16, section 7: their goodput does not collapse).
Memory and cores are never overbooked: the core knows the slack of each node, and there is none for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from schedulers.core.model import Node
from schedulers.core.resources import Vector

#: Part of a ms that is floating-point noise.
_NOISE = 1e-6


class _Sharer(msgspec.Struct):
    """A running task. left: what it would run still if it were alone, ms. rate: its speed since `since`; 0: new."""

    demand: Vector
    left: float
    since: int
    rate: float = 0.0


class Sharers:
    """Running tasks by node. A start or an end changes when others end: both return (container, new end in ms)."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._capacities = [node.capacity for node in nodes]
        self._shared = [[r for r, slack in enumerate(node.slack) if slack] for node in nodes]
        self._there: list[dict[int, _Sharer]] = [{} for _ in nodes]

    def start(self, node: int, container: int, demand: Vector, runtime_ms: int, now: int) -> list[tuple[int, int]]:
        """A task starts that would run so long if it were alone."""
        self._there[node][container] = _Sharer(demand, float(runtime_ms), now)
        return self._share(node, now)

    def end(self, node: int, container: int, now: int) -> list[tuple[int, int]]:
        """A task is over; nothing happens when it had not started."""
        if self._there[node].pop(container, None) is None:
            return []
        return self._share(node, now)

    def _share(self, node: int, now: int) -> list[tuple[int, int]]:
        """Settle what was run so far, and at what speed each goes on."""
        there, moved = self._there[node], []
        factors = {}
        for r in self._shared[node]:
            asked = sum(sharer.demand[r] for sharer in there.values())
            if asked > self._capacities[node][r]:
                factors[r] = self._capacities[node][r] / asked
        for container, sharer in there.items():
            rate = min((factor for r, factor in factors.items() if sharer.demand[r]), default=1.0)
            if rate != sharer.rate:
                sharer.left = max(0.0, sharer.left - (now - sharer.since) * sharer.rate)
                sharer.since, sharer.rate = now, rate
                moved.append((container, now + math.ceil(sharer.left / rate - _NOISE)))
        return moved
