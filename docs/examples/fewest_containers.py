"""Puts a task where fewest others run: a placer from outside the tree."""

from schedulers.core.placer import Scored, placers
from schedulers.core.resources import Vector
from schedulers.core.state import NodeState


@placers.register("fewest_containers", source="Kubernetes, topology spread by host name with maxSkew 1")
class FewestContainers(Scored):
    """The fitting node on which fewest containers are."""

    def cost(self, demand: Vector, node: NodeState, capacity: Vector) -> float:
        """Smaller is better; among equals `tie` decides, a setting that comes with `Scored`."""
        return len(node.containers)
