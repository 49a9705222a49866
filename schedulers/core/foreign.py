"""Use of nodes that is not ours: other schedulers' pods and daemons, or what other schedulers of the cluster hold."""

from __future__ import annotations

from typing import Final, Protocol

from schedulers.core.errors import InvalidTransition
from schedulers.core.events import ContainerObserved, OthersSeen
from schedulers.core.live import NodeState
from schedulers.core.resources import Resources, Vector
from schedulers.core.sizes import Sizes


class Owner(Protocol):
    """What this needs of the state whose nodes they are."""

    resources: Resources
    nodes: dict[str, NodeState]
    foreign: list[int]
    sizes: Sizes
    version: int


#: What all others hold together is called so.
OTHERS: Final = "others"


def container_observed(state: Owner, event: ContainerObserved) -> str | None:
    """See ClusterState.hear."""
    return _observe(state, event.node, event.name, event.demand)


def others_seen(state: Owner, event: OthersSeen) -> None:
    """See ClusterState.hear."""
    for node, demand in event.held.items():
        _observe(state, node, OTHERS, demand)


def _observe(state: Owner, name: str, user: str, demand: Vector | None) -> str | None:
    """Somebody else holds so much on a node."""
    node = state.nodes.get(name)
    if node is None:
        return "unknown"
    old = node.foreign.get(user)
    if old == demand:
        return "duplicate"
    if demand is not None and len(demand) != len(state.resources):
        what = f"use '{user}' of node {node.id}"
        raise InvalidTransition(f"{what} has {len(demand)} resources, not {len(state.resources)}")
    for sign, vector in ((1, old), (-1, demand)):
        for r, amount in enumerate(vector or ()):
            node.free[r] += sign * amount
            state.foreign[r] -= sign * amount
    if demand is None:
        del node.foreign[user]
    else:
        node.foreign[user] = demand
    state.version += 1
    state.sizes.room_changed(node)
    return None
