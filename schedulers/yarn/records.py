"""Records and decisions of both schedulers: nodes, applications, asks, containers, reservations."""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from schedulers.yarn.vectors import Vector

#: The place of an ask that any node satisfies (ResourceRequest.ANY). Nodes and racks have other names.
ANY: Final = "*"


class Level(enum.StrEnum):
    """NodeType: how near a container is to a place asked for."""

    NODE = "node"
    RACK = "rack"
    OFF_SWITCH = "off_switch"


class Why(enum.StrEnum):
    """Reasons to pass over an application."""

    CLUSTER_EMPTY = "cluster_empty"
    QUEUE_AM_LIMIT = "queue_am_limit"
    USER_AM_LIMIT = "user_am_limit"
    QUEUE_LIMIT = "queue_limit"
    USER_LIMIT = "user_limit"
    HEADROOM = "headroom"
    LOCALITY = "locality"
    TOO_LARGE = "too_large"
    NO_ROOM = "no_room"


class Refusal(msgspec.Struct, frozen=True):
    """The reason to pass over an application, with the numbers of a sentence: binding limit, queue, use.

    name: queue, user or node of the limit. resource: the binding resource, '' without one. For LOCALITY used and limit
    are the missed and the needed opportunities.
    """

    why: Why
    queue: str
    name: str
    resource: str
    used: int
    limit: int


class Grant(msgspec.Struct, frozen=True):
    """A container on a node. am: for the application master. reserved: the node was reserved for the application."""

    container: int
    app: str
    node: str
    priority: int
    demand: Vector
    level: Level
    am: bool = False
    reserved: bool = False


class ReserveContainer(msgspec.Struct, frozen=True):
    """A node is kept for an application until the demand fits there."""

    app: str
    node: str
    priority: int
    demand: Vector
    level: Level


class Unreserve(msgspec.Struct, frozen=True):
    """A reservation is given up: no longer needed, or another node had room."""

    app: str
    node: str
    priority: int
    demand: Vector


class Mark(msgspec.Struct, frozen=True):
    """MARK_CONTAINER_FOR_PREEMPTION: the application is told, and has time to end the container itself."""

    container: int
    app: str
    node: str


class Kill(msgspec.Struct, frozen=True):
    """MARK_CONTAINER_FOR_KILLABLE: a container marked long enough ago is killed; its room is free at once.

    rule: reason of the choice, with its numbers. cause: the application in need of the room, '' when none is left.
    """

    container: int
    app: str
    node: str
    rule: str = ""
    cause: str = ""


class DropReservation(msgspec.Struct, frozen=True):
    """The preemption monitor takes a reservation away (KILL_RESERVED_CONTAINER)."""

    app: str
    node: str
    priority: int
    demand: Vector


Action = Grant | ReserveContainer | Unreserve
Measure = Mark | Kill | DropReservation


class Ask(msgspec.Struct, eq=False):
    """The open requests of a priority (LocalityAppPlacementAllocator): how many by place, all of equal size."""

    priority: int
    demand: Vector
    places: dict[str, int]

    @property
    def open(self) -> int:
        """How many containers are asked for in all."""
        return self.places.get(ANY, 0)

    def has(self, place: str) -> bool:
        """Whether a place is still asked for."""
        return place in self.places

    def take(self, node: SchedulerNode, level: Level) -> None:
        """LocalityAppPlacementAllocator.allocate: a container less at the place and above; none left: removed."""
        places: tuple[str, ...] = (ANY,)
        if level is not Level.OFF_SWITCH:
            places = (node.rack, ANY) if level is Level.RACK else (node.id, node.rack, ANY)
        for place in places:
            left = self.places.get(place, 0) - 1
            if left > 0:
                self.places[place] = left
            else:
                self.places.pop(place, None)


class Container(msgspec.Struct, eq=False):
    """RMContainer in state ALLOCATED or RUNNING."""

    id: int
    app: str
    node: str
    priority: int
    demand: Vector
    level: Level
    am: bool


class ReservedContainer(msgspec.Struct, eq=False):
    """RMContainer in state RESERVED."""

    app: str
    node: str
    rack: str
    priority: int
    demand: Vector
    level: Level


class SchedulerNode(msgspec.Struct, eq=False):
    """SchedulerNode: capacity, free room, reservation and containers of a node."""

    id: str
    rack: str
    capacity: Vector
    free: Vector
    reservation: ReservedContainer | None = None
    containers: dict[int, Container] = {}


class App(msgspec.Struct, eq=False, kw_only=True):
    """SchedulerApplicationAttempt: asks and containers of an application, by priority where YARN counts by priority.

    am_demand: the size of its application master; None without (an unmanaged master). missed: scheduling opportunities
    since the last local container. again: looks at a reservation in vain. active: activated by a capacity queue;
    hungry: active with open asks; rank: place in the order of service.
    """

    id: str
    queue: str
    user: str
    priority: int
    started: int
    number: int
    zero: Vector
    am_demand: Vector | None = None
    am: int | None = None
    used: Vector = ()
    reserved: Vector = ()
    asks: dict[int, Ask] = {}
    keys: list[int] = []
    containers: dict[int, Container] = {}
    reservations: dict[int, dict[str, ReservedContainer]] = {}
    missed: dict[int, int] = {}
    again: dict[int, int] = {}
    refusal: Refusal | None = None
    preemptible: bool = True
    active: bool = False
    hungry: bool = False
    rank: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        # Books that are read back come with what they hold.
        self.used, self.reserved = self.used or self.zero, self.reserved or self.zero

    @property
    def open(self) -> Vector:
        """All open asks together (ResourceUsage.getPending)."""
        total = list(self.zero)
        for ask in self.asks.values():
            count = ask.open
            for i, amount in enumerate(ask.demand):
                total[i] += amount * count
        return tuple(total)

    @property
    def waits_for_am(self) -> bool:
        """SchedulerApplicationAttempt.isWaitingForAMContainer."""
        return self.am_demand is not None and self.am is None

    @property
    def has_lost_am(self) -> bool:
        """Whether the container of the application master is gone."""
        return self.am is not None and self.am not in self.containers

    def held_back(self, priority: int) -> int:
        """SchedulerApplicationAttempt.getNumReservedContainers."""
        return len(self.reservations.get(priority, ()))
