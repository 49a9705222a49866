"""What a placer is: it picks the node for a task when the policy leaves that open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec

from schedulers.core import keyed
from schedulers.core.registry import NoParams, Registry
from schedulers.core.resources import Vector

if TYPE_CHECKING:
    from schedulers.core.forecast import Forecast
    from schedulers.core.live import JobState, NodeState, StageState


class Placer(ABC):
    """Base of all placers. `seed` is for a seeded tie-break."""

    Params: type[msgspec.Struct] = NoParams
    #: Whether it assigns tasks to nodes ahead of time.
    assigns = False
    #: Whether, set as it is, it copies tasks where copies are allowed.
    copies = False

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        self.params, self.seed = params, seed
        self.next_container: Callable[[], int] = lambda: 0
        """The number of the container that is to be placed, from the scheduler: what a draw may be keyed by."""

    @abstractmethod
    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """The node for a task of this demand among `nodes`: non-empty, all fit, in order of arrival.

        capacity: of the whole cluster, to weigh resources against each other.
        """


class Choice(NamedTuple):
    """Where a task is to run, and from when to when (ms). parent: stage and task that are copied there first, or None.

    copy_start, copy_end: when that copy runs.
    """

    node: str
    start: float
    end: float
    parent: tuple[int, int] | None = None
    copy_start: float = 0.0
    copy_end: float = 0.0


class Assigner(Placer):
    """A placer that assigns each task to a node before it can start there; it waits in the node's line.

    It does so in the policy's order, which has to be one that a start does not change (`Ordered.ahead`).
    """

    assigns = True
    #: Whether tasks are assigned as soon as all their parents are; False: once their parents are done.
    ahead = True

    @abstractmethod
    def choose(self, job: JobState, stage: StageState, forecast: Forecast, copies: int) -> Choice | None:
        """The node for a task of this stage, None if it fits none. copies: how often a task may run, 1: no copies."""

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick: for what was not assigned (a gang, which starts where it fits)."""
        return nodes[0]


class Tied(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of placers that score nodes."""

    tie: Annotated[
        Literal["joined", "random"],
        msgspec.Meta(description="among equal scores: the node that joined first, or a seeded random order of nodes"),
    ] = "joined"


class Scored(Placer):
    """A placer that takes the node of the least cost. Params: Tied."""

    Params = Tied

    def __init__(self, params: Tied, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._random = params.tie == "random"

    @abstractmethod
    def cost(self, demand: Vector, node: NodeState, capacity: Vector) -> float:
        """What it costs to put a task of this demand on a node that it fits; capacity: of the whole cluster."""

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick."""
        return min(nodes, key=lambda node: (self.cost(demand, node, capacity), self._rank(node)))

    def _rank(self, node: NodeState) -> float:
        return keyed.uniform(self.seed, "node-tie", node.id) if self._random else node.index


placers: Registry[Placer] = Registry("placer", "schedulers.placers")
