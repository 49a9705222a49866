"""Nodes: added, changed, drained and removed, and the room on each held by other schedulers."""

from __future__ import annotations

from typing import Final

from schedulers.core.errors import InvalidTransition
from schedulers.core.events import ContainerObserved, NodeAdded, NodeChanged, NodeRemoved, OthersSeen
from schedulers.core.live import Counts, NodeState
from schedulers.core.model import Node
from schedulers.core.queues import QueueTree
from schedulers.core.resources import Vector
from schedulers.core.sizes import Sizes

#: What all other schedulers of a cluster hold together is called so.
OTHERS: Final = "others"


class ClusterNodes:
    """The nodes of a cluster.

    width: length of vectors. tree: queues, whose shares follow the capacity.
    """

    __slots__ = ("_counts", "_sizes", "_tree", "_width", "by_id", "capacity", "foreign")

    def __init__(self, width: int, counts: Counts, tree: QueueTree, sizes: Sizes) -> None:
        self._width, self._counts, self._tree, self._sizes = width, counts, tree, sizes
        self.by_id: dict[str, NodeState] = {}
        """In order of arrival."""
        self.capacity: list[int] = [0] * width
        """Of the whole cluster; from the nodes."""
        self.foreign: list[int] = [0] * width
        """Held on the nodes by others; from the nodes."""

    # -- nodes come and go ----------------------------------------------------------------------

    def added(self, event: NodeAdded) -> str | None:
        """A node is there, or a drained node is back before its last container has ended."""
        spec = event.node
        if (known := self.by_id.get(spec.id)) is not None:
            if not known.draining:
                return "duplicate"
            known.draining = False
            return self.changed(NodeChanged(event.at, spec))
        self._check_widths(spec)
        node = NodeState(spec, self._counts.next_node, list(spec.room))
        self._sizes.find_barred(node)
        self._counts.next_node += 1
        self.by_id[spec.id] = self._sizes.nodes[node.index] = node
        self._add_capacity(spec.capacity, 1)
        self._changed(node)
        return None

    def changed(self, event: NodeChanged) -> str | None:
        """A node is of another kind now."""
        spec = event.node
        node = self.by_id.get(spec.id)
        if node is None:
            return "unknown"
        self._check_widths(spec)
        for r, (old, new) in enumerate(zip(node.spec.room, spec.room, strict=True)):
            # By the difference, because running containers and foreign use keep their room.
            node.free[r] += new - old
        self._add_capacity(node.spec.capacity, -1)
        self._add_capacity(spec.capacity, 1)
        node.spec = spec
        self._sizes.find_barred(node)
        self._changed(node)
        return None

    def removed(self, event: NodeRemoved) -> str | None:
        """A node takes nothing more, and is gone with its last container."""
        node = self.by_id.get(event.node)
        if node is None:
            return "unknown"
        if node.draining:
            return "duplicate"
        # Not removed at once: running containers keep their node, and the capacity with it, to their end.
        node.draining = True
        self._changed(node)
        if not node.containers:
            self.forget(node)
        return None

    def forget(self, node: NodeState) -> None:
        """A node without containers is gone."""
        del self.by_id[node.id], self._sizes.nodes[node.index]
        self._add_capacity(node.spec.capacity, -1)
        for vector in node.foreign.values():
            for r, amount in enumerate(vector):
                self.foreign[r] -= amount
        self._changed(node)

    def _changed(self, node: NodeState) -> None:
        self._counts.version += 1
        self._sizes.room_changed(node)

    def _add_capacity(self, vector: Vector, sign: int) -> None:
        self._sizes.cluster_changed()
        for r, amount in enumerate(vector):
            self.capacity[r] += sign * amount
        # A share of a queue is a share of the present capacity.
        if self._tree.queues:
            self._tree.resize(self.capacity)
            self._sizes.limits_changed()

    def _check_widths(self, spec: Node) -> None:
        self._check_width(spec.capacity, f"node {spec.id}")
        self._check_width(spec.slack or spec.capacity, f"slack of node {spec.id}")

    def _check_width(self, vector: Vector, what: str) -> None:
        if len(vector) != self._width:
            raise InvalidTransition(f"{what} has {len(vector)} resources, not {self._width}")

    # -- foreign use ----------------------------------------------------------------------------

    def observed(self, event: ContainerObserved) -> str | None:
        """Take in foreign use of a node, by a pod or daemon of somebody else; None: the use is over."""
        return self._observe(event.node, event.name, event.demand)

    def others_seen(self, event: OthersSeen) -> None:
        """Take in the use of each node by all other schedulers of the cluster together."""
        for node, demand in event.held.items():
            self._observe(node, OTHERS, demand)

    def _observe(self, name: str, user: str, demand: Vector | None) -> str | None:
        node = self.by_id.get(name)
        if node is None:
            return "unknown"
        old = node.foreign.get(user)
        if old == demand:
            return "duplicate"
        if demand is not None:
            self._check_width(demand, f"use '{user}' of node {node.id}")
        for sign, vector in ((1, old), (-1, demand)):
            for r, amount in enumerate(vector or ()):
                node.free[r] += sign * amount
                self.foreign[r] -= sign * amount
        if demand is None:
            del node.foreign[user]
        else:
            node.foreign[user] = demand
        self._changed(node)
        return None
