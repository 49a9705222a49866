"""Use of nodes that is not ours: other schedulers' pods and daemons, or what other schedulers of the cluster hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schedulers.core.errors import InvalidTransition

if TYPE_CHECKING:
    from schedulers.core.events import ContainerObserved, OthersSeen
    from schedulers.core.resources import Vector
    from schedulers.core.state import ClusterState

#: What all others hold together is called so.
OTHERS: Final = "others"


def container_observed(state: ClusterState, event: ContainerObserved) -> str | None:
    """See ClusterState.hear."""
    return _observe(state, event.node, event.name, event.demand)


def others_seen(state: ClusterState, event: OthersSeen) -> None:
    """See ClusterState.hear."""
    for node, demand in event.held.items():
        _observe(state, node, OTHERS, demand)


def _observe(state: ClusterState, name: str, user: str, demand: Vector | None) -> str | None:
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
