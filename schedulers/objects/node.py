"""Nodes: their resources, and reasons that keep pods off."""

from __future__ import annotations

import msgspec

from schedulers.core import model
from schedulers.core.places import Taint
from schedulers.core.resources import Resources, to_steps
from schedulers.objects.meta import Stored
from schedulers.objects.names import RESERVED_TAINT, SPEED_LABEL, TYPE_LABEL, ZONE_LABEL
from schedulers.objects.pod import Condition, Quantities

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable")
NOT_READY = Taint("node.kubernetes.io/not-ready")


class NodeTaint(msgspec.Struct, gc=False):
    """As written on a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class NodeSpec(msgspec.Struct):
    """The scheduling part of a node's spec."""

    unschedulable: bool = False
    taints: list[NodeTaint] = []


class NodeStatus(msgspec.Struct):
    """Resources of a node, and its conditions."""

    allocatable: Quantities = {}
    capacity: Quantities = {}
    conditions: list[Condition] = []


class NodeObject(Stored):
    """A node."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def is_reserved(self) -> bool:
        """Whether only our pods are placed on the node."""
        return any(taint.key == RESERVED_TAINT for taint in self.spec.taints)

    @property
    def said_speed(self) -> str:
        """Text of the node's speed label, "" where missing."""
        return self.metadata.labels.get(SPEED_LABEL, "")

    @property
    def speed(self) -> float | None:
        """Speed by the node's label, 1 where missing or empty; None unless a number from 0.001 to 1000."""
        try:
            speed = float(self.said_speed or 1)
        except ValueError:
            return None
        return speed if model.SLOWEST <= speed <= model.FASTEST else None

    @property
    def is_ready(self) -> bool:
        """Its condition Ready; a node without conditions (written in a file) counts as ready."""
        said = [condition.status for condition in self.status.conditions if condition.type == "Ready"]
        return not said or said[0] == "True"


def core_node(node: NodeObject, resources: Resources) -> model.Node:
    """A node for the core.

    Capacity is `status.allocatable` (else `status.capacity`), rounded down. Cordoned nodes and nodes not ready carry
    Kubernetes' taints for them, whether or not its controllers have set the taints yet. Our own taint is left out: all
    our pods tolerate it. An unreadable speed counts as 1. Labels with frequent changes would be frequent changes of the
    node; no well-known label has them. Raises InvalidQuantity for an unreadable quantity.
    """
    meta = node.metadata
    offered = node.status.allocatable or node.status.capacity
    taints = [Taint(t.key, t.value, t.effect) for t in node.spec.taints if t.key != RESERVED_TAINT]
    for key, there in ((UNSCHEDULABLE, node.spec.unschedulable), (NOT_READY, not node.is_ready)):
        if there and all(t.key != key.key for t in taints):
            taints.append(key)
    return model.Node(
        id=meta.name,
        capacity=tuple(
            to_steps(name, offered[name], round_up=False) if name in offered else 0 for name in resources.names
        ),
        speed=node.speed or 1.0,
        rack=meta.labels.get(ZONE_LABEL, ""),
        kind=meta.labels.get(TYPE_LABEL, ""),
        labels=dict(sorted(meta.labels.items())),
        taints=tuple(taints),
    )
