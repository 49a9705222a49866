"""The common books of both schedulers.

Follows ...resourcemanager.scheduler: AbstractYarnScheduler, SchedulerApplicationAttempt, SchedulerNode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterable, Mapping

from schedulers.yarn.records import (
    ANY,
    Action,
    App,
    Ask,
    Container,
    Grant,
    Level,
    Measure,
    Refusal,
    ReserveContainer,
    ReservedContainer,
    SchedulerNode,
    Unreserve,
    Why,
)
from schedulers.yarn.vectors import Vector, minus, normalise, plus

_AM_PRIORITY = 0  # RMAppAttemptImpl.AM_CONTAINER_PRIORITY


class Books(ABC):
    """Nodes, applications and their containers. A scheduler adds queues, through the hooks below."""

    def __init__(self, resources: tuple[str, ...], minimum: Vector, step: Vector, maximum: Vector) -> None:
        self.resources = resources
        self.minimum, self.step, self.maximum = minimum, step, maximum
        self.zero: Vector = (0,) * len(resources)
        self.total = self.zero
        self.nodes: dict[str, SchedulerNode] = {}
        self.racks: dict[str, int] = {}
        self.apps: dict[str, App] = {}
        self.containers: dict[int, Container] = {}
        self.reserved: dict[str, ReservedContainer] = {}  # by node
        self.asking = 0  # priorities at which something is open, over all applications
        self._made = 0
        self._numbers = 0
        self._out: list[Action] = []
        #: Whether the last beat came as far as its node; if not, a beat of any other would have brought the same.
        self.looked = False

    # -- hooks ----------------------------------------------------------------------------------

    def takes(self, queue: str) -> bool:
        """Whether applications may come into the queue of this path."""
        return True

    def _app_added(self, app: App, now: int) -> None:
        """A scheduler puts the application into its queue."""

    def _app_removed(self, app: App) -> None:
        """A scheduler takes the application, without containers by now, from its queue."""

    def _asked(self, app: App, priority: int, *, new: bool) -> None:
        """Asks changed. new: nothing was open at this priority before."""

    def _held(self, app: App, amount: Vector) -> None:
        """The use of an application's containers changed by an amount (negative: less)."""

    def _reservation_changed(self, app: App, amount: Vector) -> None:
        """The reserved amount of an application changed by an amount (negative: less)."""

    def _adopted(self, app: App, container: Container) -> None:
        """A container not granted by the scheduler itself was taken over: its application runs."""

    def _cluster_changed(self) -> None:
        """Nodes came or went."""

    def restore(self) -> None:
        """Work out figures that follow from others, since the books of another version may lack them."""
        self.asking = sum(len(app.keys) for app in self.apps.values())

    # -- decisions ------------------------------------------------------------------------------

    @abstractmethod
    def beat(self, node: str, now: int = 0) -> list[Action]:
        """A node's heartbeat: returns the decisions about its room."""

    @abstractmethod
    def monitor(self, now: int) -> list[Measure]:
        """A round of the preemption monitor; kills take effect here."""

    # -- facts ----------------------------------------------------------------------------------

    def add_node(self, node: str, capacity: Vector, rack: str = "/default-rack") -> None:
        """ClusterNodeTracker.addNode."""
        self.add_nodes([(node, capacity, rack)])

    def add_nodes(self, nodes: Iterable[tuple[str, Vector, str]]) -> None:
        """Many at once: name, capacity, rack. Limits and shares are computed when all of them are there."""
        for node, capacity, rack in nodes:
            if node in self.nodes:
                raise ValueError(f"node '{node}' is there already")
            self.nodes[node] = SchedulerNode(node, rack, capacity, capacity)
            self.racks[rack] = self.racks.get(rack, 0) + 1
            self.total = plus(self.total, capacity)
        self._cluster_changed()

    def add_app(
        self, app: str, queue: str, user: str = "default", priority: int = 0, *, now: int = 0, am: Vector | None = None
    ) -> None:
        """A new application, numbered in the order of these calls (ApplicationId).

        am: the size of its application master, asked for by the scheduler itself, with priority 0 and on any node;
        None: the application runs no master, and its first container is like any other.
        """
        if app in self.apps:
            raise ValueError(f"application '{app}' is there already")
        self._numbers += 1
        size = None if am is None else self.normalised(am)
        made = App(
            id=app, queue=queue, user=user, priority=priority, started=now, number=self._numbers, zero=self.zero,
            am_demand=size,
        )  # fmt: skip
        self._app_added(made, now)
        self.apps[app] = made
        if am is not None:
            self.ask(app, _AM_PRIORITY, am, {ANY: 1})

    def ask(self, app: str, priority: int, demand: Vector, counts: Mapping[str, int]) -> None:
        """AppSchedulingInfo.updateResourceRequests: the counts *replace* counts of the same priority and place.

        counts: containers wanted by node, rack and ANY (the total); 0 takes a place back.
        """
        entry = self.apps[app]
        known = entry.asks.get(priority)
        places = {} if known is None else dict(known.places)
        places.update(counts)
        places = {place: count for place, count in places.items() if count > 0}
        if not places.get(ANY, 0):
            self._close(entry, priority)
            return
        entry.asks[priority] = Ask(priority, self.normalised(demand), places)
        if known is None:
            insort(entry.keys, priority)
            self.asking += 1
        self._asked(entry, priority, new=known is None)

    def remove_app(self, app: str) -> list[int]:
        """doneApplicationAttempt: its containers end, its reservations go. Returns the containers."""
        entry = self.apps[app]
        ended = list(entry.containers)
        for container in ended:
            self.container_ended(container)
        for by_node in list(entry.reservations.values()):
            for reservation in list(by_node.values()):
                self._forget(reservation)
        for priority in list(entry.keys):
            self._close(entry, priority)
        del self.apps[app]
        self._app_removed(entry)
        return ended

    def adopt(self, app: str, node: str, priority: int, demand: Vector, *, am: bool = False) -> int:
        """Take over a running container (AbstractYarnScheduler.recoverContainersOnNode). Returns its number."""
        entry, target, size = self.apps[app], self.nodes[node], self.normalised(demand)
        if am:
            self._close(entry, _AM_PRIORITY)
        self._made += 1
        container = Container(self._made, app, node, priority, size, Level.OFF_SWITCH, am)
        self.containers[container.id] = target.containers[container.id] = entry.containers[container.id] = container
        if am:
            entry.am = container.id
        target.free = minus(target.free, size)
        entry.used = plus(entry.used, size)
        self._held(entry, size)
        self._adopted(entry, container)
        return container.id

    def container_ended(self, container: int) -> bool:
        """completedContainer: the container's room is free. False for a container already gone (killed, say)."""
        ended = self.containers.pop(container, None)
        if ended is None:
            return False
        app, node = self.apps[ended.app], self.nodes[ended.node]
        node.free = plus(node.free, ended.demand)
        del node.containers[container], app.containers[container]
        change = minus(self.zero, ended.demand)
        app.used = plus(app.used, change)
        self._held(app, change)
        return True

    def normalised(self, ask: Vector) -> Vector:
        """The size of an ask's container."""
        return normalise(ask, self.minimum, self.step, self.maximum)

    # -- what a scheduler does ------------------------------------------------------------------

    def _grant(self, app: App, ask: Ask, node: SchedulerNode, level: Level, *, reserved: bool) -> Grant:
        """A container starts to exist (FiCaSchedulerApp.apply, FSAppAttempt.allocate)."""
        self._made += 1
        am = app.waits_for_am
        container = Container(self._made, app.id, node.id, ask.priority, ask.demand, level, am)
        self.containers[container.id] = node.containers[container.id] = app.containers[container.id] = container
        if am:
            app.am = container.id
        node.free = minus(node.free, ask.demand)
        app.used = plus(app.used, ask.demand)
        ask.take(node, level)
        if not ask.open:
            self._close(app, ask.priority)
        self._held(app, ask.demand)
        app.refusal = None
        grant = Grant(container.id, app.id, node.id, ask.priority, ask.demand, level, am, reserved)
        self._out.append(grant)
        return grant

    def _reserve(self, app: App, ask: Ask, node: SchedulerNode, level: Level) -> ReserveContainer:
        """SchedulerApplicationAttempt.reserve: a new reservation also starts the count of looks in vain."""
        reservation = ReservedContainer(app.id, node.id, node.rack, ask.priority, ask.demand, level)
        node.reservation = self.reserved[node.id] = reservation
        app.reservations.setdefault(ask.priority, {})[node.id] = reservation
        app.reserved = plus(app.reserved, ask.demand)
        app.again.pop(ask.priority, None)
        self._reservation_changed(app, ask.demand)
        reserve = ReserveContainer(app.id, node.id, ask.priority, ask.demand, level)
        self._out.append(reserve)
        return reserve

    def _unreserve(self, reservation: ReservedContainer) -> None:
        """A reservation is given up, as a decision."""
        self._forget(reservation)
        self._out.append(Unreserve(reservation.app, reservation.node, reservation.priority, reservation.demand))

    def _forget(self, reservation: ReservedContainer) -> None:
        app = self.apps[reservation.app]
        self.nodes[reservation.node].reservation = None
        del self.reserved[reservation.node]
        by_node = app.reservations[reservation.priority]
        del by_node[reservation.node]
        if not by_node:
            del app.reservations[reservation.priority]
        change = minus(self.zero, reservation.demand)
        app.reserved = plus(app.reserved, change)
        self._reservation_changed(app, change)

    def _close(self, app: App, priority: int) -> None:
        """Nothing is open at a priority any more."""
        if app.asks.pop(priority, None) is not None:
            app.keys.remove(priority)
            self.asking -= 1
            self._asked(app, priority, new=False)

    def _refuse(self, app: App, why: Why, name: str, used: Vector, limit: Vector, which: int) -> None:
        app.refusal = Refusal(why, app.queue, name, self.resources[which], used[which], limit[which])

    def _taken(self) -> list[Action]:
        """The decisions since the last call."""
        out, self._out = self._out, []
        return out
