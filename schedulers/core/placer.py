"""Placers: a placer picks the node for a task when the policy leaves the node open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from schedulers.core import keyed
from schedulers.core.registry import NoParams, Registry
from schedulers.core.resources import Vector

if TYPE_CHECKING:
    from schedulers.core.live import NodeState
    from schedulers.core.policy import Policy


class Placer(ABC):
    """Base of all placers. `seed` is for a seeded tie-break."""

    Params: type[msgspec.Struct] = NoParams
    #: Whether the placer assigns tasks to nodes ahead of time.
    assigns = False
    #: Whether the placer, with its settings, copies tasks where copies are allowed.
    copies = False
    #: Whether the placer always picks the first node, so that equal tasks fill a node before the next is looked for.
    takes_first = False

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        self.params, self.seed = params, seed
        self.next_container: Callable[[], int] = lambda: 0
        """Number of the container to be placed, from the scheduler: a key for random draws."""

    @abstractmethod
    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """The node for a task of the given demand among `nodes`: non-empty, all fit, in order of arrival.

        capacity: of the whole cluster, to weigh resources against each other.
        """

    def around(self, policy: Policy) -> Policy:
        """The policy for the scheduler to ask: wrapped in another policy where the placer decides more than nodes."""
        return policy


class Tied(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of placers with scores."""

    tie: Annotated[
        Literal["joined", "random"],
        msgspec.Meta(
            description="order of nodes with equal scores: the node that joined first, or a seeded random order"
        ),
    ] = "joined"


class Scored(Placer):
    """A placer that takes the node of the least cost. Params: Tied."""

    Params = Tied

    def __init__(self, params: Tied, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._random = params.tie == "random"

    @abstractmethod
    def cost(self, demand: Vector, node: NodeState, capacity: Vector) -> float:
        """Cost of a task of the given demand on a node with room. capacity: of the whole cluster."""

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick."""
        return min(nodes, key=lambda node: (self.cost(demand, node, capacity), self._rank(node)))

    def _rank(self, node: NodeState) -> float:
        # Keyed by the node alone, so that the order of nodes is the same for every task and in every replay.
        return keyed.uniform(self.seed, "node-tie", node.id) if self._random else node.index


placers: Registry[Placer] = Registry("placer", "schedulers.placers")
