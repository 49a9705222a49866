"""Best fit: the fitting node with the least left over, and its opposite, worst fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from schedulers.core import keyed
from schedulers.core.placer import Placer, placers
from schedulers.core.resources import Vector
from schedulers.core.state import NodeState


class Tied(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of placers that score nodes."""

    tie: Annotated[
        Literal["joined", "random"],
        msgspec.Meta(description="among equal scores: the node that joined first, or a seeded random order of nodes"),
    ] = "joined"


def left_over(demand: Vector, node: NodeState, capacity: Vector) -> float:
    """Free room after placing, each resource as a fraction of the cluster's, summed."""
    free = zip(node.free, demand, capacity, strict=True)
    return sum((f - d) / c for f, d, c in free if c)


class _Scored(Placer):
    Params = Tied
    sign = 1.0

    def __init__(self, params: Tied, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._random = params.tie == "random"

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick."""
        return min(nodes, key=lambda node: (self.sign * left_over(demand, node, capacity), self._rank(node)))

    def _rank(self, node: NodeState) -> float:
        return keyed.uniform(self.seed, "node-tie", node.id) if self._random else node.index


@placers.register("best_fit", source="Johnson 1973; several resources: sum of the fractions left over")
class BestFit(_Scored):
    """The fitting node with the least room left over."""


@placers.register("worst_fit", source="spreads load; several resources: sum of the fractions left over")
class WorstFit(_Scored):
    """The fitting node with the most room left over."""

    sign = -1.0
