"""Best fit: the fitting node with the least left over, and its opposite, worst fit."""

from __future__ import annotations

from schedulers.core.placer import Scored, placers
from schedulers.core.resources import Vector
from schedulers.core.state import NodeState


def left_over(demand: Vector, node: NodeState, capacity: Vector) -> float:
    """Free room after placing, each resource as a fraction of the cluster's, summed."""
    free = zip(node.free, demand, capacity, strict=True)
    return sum((f - d) / c for f, d, c in free if c)


class _LeftOver(Scored):
    sign = 1.0

    def cost(self, demand: Vector, node: NodeState, capacity: Vector) -> float:
        """See Scored.cost."""
        return self.sign * left_over(demand, node, capacity)


@placers.register("best_fit", source="Johnson 1973; several resources: sum of the fractions left over")
class BestFit(_LeftOver):
    """The fitting node with the least room left over."""


@placers.register("worst_fit", source="spreads load; several resources: sum of the fractions left over")
class WorstFit(_LeftOver):
    """The fitting node with the most room left over."""

    sign = -1.0
