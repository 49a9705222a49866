"""Multi-level priority queues with weighted sharing (SLearn, section 5.1), for sorting jobs by size or age."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated

import msgspec

from schedulers.core.resources import Vector
from schedulers.core.vectors import dominant_share
from schedulers.kit.ordered import Order


class LevelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Thresholds and weights; the defaults are the paper's (section 5.1 and its appendix)."""

    queues: Annotated[
        int, msgspec.Meta(ge=1, le=50, description="number of priority queues; the last queue has no upper bound")
    ] = 10
    first_threshold_ms: Annotated[
        float,
        msgspec.Meta(
            gt=0,
            description="upper bound of the first queue, total work in task ms; larger: more jobs share the first "
            "queue",
        ),
    ] = 1e6
    growth: Annotated[
        float, msgspec.Meta(gt=1, description="ratio of each queue's upper bound to the bound of the queue before")
    ] = 10.0
    weight_decay: Annotated[
        float,
        msgspec.Meta(
            ge=1,
            description="ratio of each queue's weight to the weight of the queue after; larger: a stronger "
            "preference for short jobs",
        ),
    ] = 10.0


class Levels:
    """N queues, the resources used by each, and the order of queues by use for their weight."""

    def __init__(self, settings: LevelSettings, resources: int) -> None:
        self.bounds = [settings.first_threshold_ms * settings.growth**q for q in range(settings.queues - 1)]
        self.weights = [settings.weight_decay**-q for q in range(settings.queues)]
        self.orders = [Order() for _ in range(settings.queues)]
        self._entries = [order.entries for order in self.orders]
        self.used: list[list[int]] = [[0] * resources for _ in range(settings.queues)]

    def add_queue(self, weight: float) -> int:
        """One more queue, outside the thresholds; returns its number."""
        self.weights.append(weight)
        self.orders.append(Order())
        self._entries.append(self.orders[-1].entries)
        self.used.append([0] * len(self.used[0]))
        return len(self.weights) - 1

    def of(self, size_ms: float) -> int:
        """The queue of a job with the given total work: the first with an upper bound above (a bound belongs below)."""
        return level_of(size_ms, self.bounds)

    def charge(self, queue: int, demand: Vector | list[int], sign: int = 1) -> None:
        """Count resources as used by a queue."""
        used = self.used[queue]
        for r, amount in enumerate(demand):
            used[r] += sign * amount

    def poorest_first(self, capacity: Sequence[int]) -> list[int]:
        """Queues with waiting jobs, smallest used/weight first; ties to the heavier, then to the lower number."""
        there = [q for q, entries in enumerate(self._entries) if entries]
        if len(there) < 2:
            return there
        return sorted(
            there, key=lambda q: (dominant_share(self.used[q], capacity) / self.weights[q], -self.weights[q], q)
        )


def level_of(size: float, bounds: list[float]) -> int:
    """Index of the first bound above `size`; past the last one, the number of bounds."""
    return bisect_right(bounds, size)
