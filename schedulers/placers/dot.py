"""Dot product: the fitting node with free room most in the direction of the demand (Tetris)."""

from __future__ import annotations

from schedulers.core.placer import Scored, placers
from schedulers.core.resources import Vector
from schedulers.core.state import NodeState
from schedulers.core.vectors import alignment


@placers.register("dot", source="Tetris (SIGCOMM'14), section 3.2: alignment of demand and free room")
class Dot(Scored):
    """The fitting node with the largest dot product of demand and free room, both as fractions of the node.

    Fractions of the node itself, so that a large node and a plentiful resource count no more than others.
    """

    def cost(self, demand: Vector, node: NodeState, capacity: Vector) -> float:
        """See Scored.cost."""
        return -alignment(demand, node.free, node.spec.capacity)
