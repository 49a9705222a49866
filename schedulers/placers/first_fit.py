"""First fit: the fitting node that joined first."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core.placer import Placer, placers
from schedulers.core.resources import Vector
from schedulers.core.state import NodeState


@placers.register("first_fit", source="Johnson 1973; tie: order in which the nodes joined")
class FirstFit(Placer):
    """The fitting node that joined first."""

    takes_first = True

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick."""
        return nodes[0]
