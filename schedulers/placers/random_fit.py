"""Random fit: any fitting node."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core import keyed
from schedulers.core.placer import Placer, placers
from schedulers.core.resources import Vector
from schedulers.core.state import NodeState


@placers.register("random_fit", source="google/cluster-scheduler-simulator: randomised first fit (Omega, EuroSys'13)")
class RandomFit(Placer):
    """A fitting node drawn at random, anew for each task, so that schedulers rarely choose the same node."""

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick."""
        return nodes[int(keyed.uniform(self.seed, "random fit", self.next_container()) * len(nodes))]
