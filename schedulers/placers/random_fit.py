"""Random fit: any of the nodes that fit."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core import keyed
from schedulers.core.placer import Placer, placers
from schedulers.core.resources import Vector
from schedulers.core.state import NodeState


@placers.register("random_fit", source="google/cluster-scheduler-simulator: randomised first fit (Omega, EuroSys'13)")
class RandomFit(Placer):
    """A node drawn at random among those that fit, anew for each task, so that schedulers rarely choose the same."""

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick."""
        return nodes[int(keyed.uniform(self.seed, "random fit", self.next_container()) * len(nodes))]
