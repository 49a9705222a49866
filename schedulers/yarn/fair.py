"""Hadoop 3.3's FairScheduler, decision by decision.

Follows ...scheduler.fair: FairScheduler (attemptScheduling), FSParentQueue, FSLeafQueue and FSAppAttempt
(assignContainer). Without preemption between queues (off by default) and continuous scheduling's node order.
"""

from __future__ import annotations

import math

import msgspec

from schedulers.yarn.books import Books
from schedulers.yarn.fair_queues import (
    ROOT,
    Defaults,
    FairApp,
    FairLeaf,
    FairParent,
    FairQueue,
    FairQueueConfig,
    app_weight,
)
from schedulers.yarn.locality import LocalityLevels
from schedulers.yarn.records import (
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
    Why,
)
from schedulers.yarn.vectors import Vector, all_fit, minus, plus, times


class FairConfig(msgspec.Struct, frozen=True, kw_only=True):
    """yarn-site.xml's yarn.scheduler.fair.* and the allocation file, with the defaults of 3.3.5.

    increment: unit of the sizes of containers. multiple, dynamic, most_containers: assignmultiple,
    dynamic.max.assign, max.assign. reservable_nodes: largest part of the nodes reserved for an application.
    reservation_multiple: asks below so many increments reserve nothing. node_share, rack_share: locality.threshold.*;
    node_ms, rack_ms: locality-delay-*-ms of continuous scheduling, used where `by_time`. drf_bug: Hadoop's own.
    """

    root: FairQueueConfig = FairQueueConfig(name=ROOT)
    resources: tuple[str, ...] = ("memory", "vcores")
    minimum: Vector = (1024, 1)
    increment: Vector = (1024, 1)
    maximum: Vector = (8192, 4)
    policy: str = "fair"
    am_share: float = 0.5
    multiple: bool = False
    dynamic: bool = True
    most_containers: int = -1
    reservable_nodes: float = 0.05
    reservation_multiple: float = 2.0
    node_share: float = -1.0
    rack_share: float = -1.0
    by_time: bool = False
    node_ms: int = -1
    rack_ms: int = -1
    size_based: bool = False
    drf_bug: bool = True


class FairScheduler(Books):
    """FairScheduler. Facts go in by the methods of Books; `update` refreshes shares, `beat` decides."""

    def __init__(self, config: FairConfig = FairConfig()) -> None:  # noqa: B008 (frozen)
        super().__init__(config.resources, config.minimum, config.increment, config.maximum)
        self.root = FairParent(config.root, None, self.zero, Defaults(config.policy, config.am_share))
        self._fair: dict[str, FairApp] = {}
        self._now = 0
        self.configure(config)

    def configure(self, config: FairConfig) -> None:
        """FairScheduler.reinitialize: new settings; queues that exist stay."""
        self.config = config
        self._defaults = Defaults(config.policy, config.am_share)
        self.root.configure(config.root, self._defaults)
        self._threshold = times(config.increment, config.reservation_multiple)
        for leaf in self.root.leaves():
            leaf.resort(self.total)

    def leaf(self, queue: str) -> FairLeaf:
        """QueueManager.getLeafQueue: the queue of a path, with or without root, made where missing."""
        at: FairParent = self.root
        *above, last = [part for part in queue.split(".") if part != ROOT]
        for part in above:
            kid = at.kids.get(part)
            if kid is None:
                kid = at.kids[part] = FairParent(self._settings(at, part), at, self.zero, self._defaults)
            at = self._as_parent(at, part, kid)
        leaf = at.kids.get(last)
        if leaf is None:
            leaf = at.kids[last] = FairLeaf(self._settings(at, last), at, self.zero, self._defaults)
        if not isinstance(leaf, FairLeaf):
            raise ValueError(f"queue '{queue}' has queues below it and takes no applications")
        return leaf

    def _settings(self, parent: FairParent, name: str) -> FairQueueConfig:
        named = {kid.name: kid for kid in parent.config.kids}
        return named.get(name, FairQueueConfig(name=name))

    def _as_parent(self, above: FairParent, name: str, kid: FairQueue) -> FairParent:
        """A queue configured without children becomes a parent when a child is named, unless the queue has apps."""
        if isinstance(kid, FairParent):
            return kid
        assert isinstance(kid, FairLeaf)
        if kid.apps:
            raise ValueError(f"queue '{kid.path}' holds applications and takes no queues")
        made = above.kids[name] = FairParent(kid.config, above, self.zero, self._defaults)
        return made

    # -- decisions ------------------------------------------------------------------------------

    def update(self, now: int) -> None:
        """FairScheduler.update, every 500 ms: demand and fair shares; new applications and asks are seen from here."""
        self._now = now
        self.root.update_demand()
        for each in self._fair.values():
            each.weight = app_weight(each.demand, size_based=self.config.size_based)
        self.root.share = self.total
        self.root.update(self.total)
        for leaf in self.root.leaves():
            leaf.resort(self.total)

    def beat(self, node: str, now: int = 0) -> list[Action]:
        """FairScheduler.attemptScheduling: the reservation first, else the queue furthest below its share."""
        self._now = now
        target = self.nodes[node]
        self.looked |= target.reservation is not None
        if target.reservation is not None and self._fulfil(target, target.reservation):
            return self._taken()
        bound = times(target.free, 0.5)
        given, count = self.zero, 0
        while target.reservation is None:
            got = self._assign_queue(self.root, target)
            if not isinstance(got, Grant):
                break
            count += 1
            given = plus(given, got.demand)
            if not self._may_go_on(count, given, bound):
                break
        return self._taken()

    def monitor(self, now: int) -> list[Measure]:
        """Nothing: preemption between queues (yarn.scheduler.fair.preemption, off by default) is not modelled."""
        return []

    def _may_go_on(self, count: int, given: Vector, bound: Vector) -> bool:
        """FairScheduler.shouldContinueAssigning: until *more* than half of the free room is given."""
        if not self.config.multiple:
            return False
        if self.config.dynamic:
            return all_fit(given, bound)
        return self.config.most_containers <= 0 or count < self.config.most_containers

    # -- queues ---------------------------------------------------------------------------------

    def _app_added(self, app: App, now: int) -> None:
        """FairScheduler.addApplicationAttempt: no demand before the next update."""
        leaf = self.leaf(app.queue)
        app.queue = leaf.path
        self._fair[app.id] = leaf.apps[app.id] = FairApp(app, leaf, LocalityLevels(), self.zero, self.zero)
        for queue in leaf.chain():
            queue.running += 1

    def _app_removed(self, app: App) -> None:
        """FairScheduler.removeApplicationAttempt."""
        each = self._fair.pop(app.id)
        leaf = each.leaf
        del leaf.apps[app.id]
        if each.key is not None:
            leaf.order.remove(each)
        if app.am is not None:
            leaf.am_used = minus(leaf.am_used, app.am_demand or self.zero)
        for queue in leaf.chain():
            queue.running -= 1

    def _held(self, app: App, amount: Vector) -> None:
        each = self._fair[app.id]
        for queue in each.leaf.chain():
            queue.used = plus(queue.used, amount)
        each.leaf.moved(each, self.total)

    def _adopted(self, app: App, container: Container) -> None:
        """FSAppAttempt.recoverContainer."""
        if container.am:
            leaf = self._fair[app.id].leaf
            leaf.am_used = plus(leaf.am_used, app.am_demand or self.zero)

    def _cluster_changed(self) -> None:
        """FairScheduler.addNode and removeNode update at once."""
        self.update(self._now)

    def _assign_queue(self, queue: FairQueue, node: SchedulerNode) -> Grant | ReserveContainer | None:
        """FSParentQueue.assignContainer, FSLeafQueue.assignContainer."""
        if queue.most is not None and not all_fit(queue.used, queue.most):
            return None
        if isinstance(queue, FairLeaf):
            for each in list(queue.order):
                got = self._assign_app(each, node)
                if got is not None:
                    return got
            return None
        assert isinstance(queue, FairParent)
        for kid in queue.in_order(self.total, bug=self.config.drf_bug):
            if kid.running:
                got = self._assign_queue(kid, node)
                if got is not None:
                    return got
        return None

    # -- one application ------------------------------------------------------------------------

    def _assign_app(self, each: FairApp, node: SchedulerNode) -> Grant | ReserveContainer | None:
        """FSAppAttempt.assignContainer: priorities in order; the first served by the node decides."""
        if not self._am_may(each):
            return None
        for priority in list(each.app.keys):
            ask = each.app.asks[priority]
            if not self._has_container_for(each, ask, node):
                continue
            level = self._level(each, ask, node)
            if level is not None:
                return self._try(each, ask, node, level, reservation=None)
        return None

    def _am_may(self, each: FairApp) -> bool:
        """FSAppAttempt.isOverAMShareLimit, FSLeafQueue.canRunAppAM."""
        app, leaf = each.app, each.leaf
        if not app.waits_for_am:
            return True
        limit = leaf.am_limit(self._free())
        used = plus(leaf.am_used, app.asks[app.keys[0]].demand if app.keys else self.zero)
        if limit is None or (app.keys and all_fit(used, limit)):
            return True
        self._refuse(app, Why.QUEUE_AM_LIMIT, leaf.path, used, limit, leaf.rc.scarcest(used, limit))
        return False

    def _free(self) -> Vector:
        return minus(self.total, self.root.used)

    def _has_container_for(self, each: FairApp, ask: Ask, node: SchedulerNode) -> bool:
        """FSAppAttempt.hasContainerForNode: an empty node would fit the ask, and no queue's maximum is broken."""
        rc = each.leaf.rc
        self.looked = True
        if not all_fit(ask.demand, node.capacity):
            self._refuse(
                each.app, Why.TOO_LARGE, node.id, ask.demand, node.capacity, rc.scarcest(ask.demand, node.capacity)
            )
            return False
        over = each.leaf.over(ask.demand)
        if over is not None and over.most is not None:
            used = plus(over.used, ask.demand)
            which = next(i for i, (u, m) in enumerate(zip(used, over.most, strict=True)) if u > m)
            self._refuse(each.app, Why.QUEUE_LIMIT, over.path, used, over.most, which)
            return False
        return True

    def _level(self, each: FairApp, ask: Ask, node: SchedulerNode) -> Level | None:
        """The level at which the node may serve the ask now, or None while the ask waits for a nearer level."""
        levels, config = each.levels, self.config
        levels.missed(ask.priority)
        if config.by_time:
            allowed = levels.by_time(ask.priority, config.node_ms, config.rack_ms, self._now)
        else:
            allowed = levels.by_count(ask.priority, len(self.nodes), config.node_share, config.rack_share)
        on_rack = ask.has(node.rack)
        if on_rack and ask.has(node.id):
            return Level.NODE
        if on_rack and allowed is not Level.NODE:
            return Level.RACK
        if len(ask.places) == 1 or allowed is Level.OFF_SWITCH:
            return Level.OFF_SWITCH
        each.app.refusal = Refusal(Why.LOCALITY, each.leaf.path, each.app.id, "", levels.count(ask.priority), 0)
        return None

    def _try(
        self, each: FairApp, ask: Ask, node: SchedulerNode, level: Level, reservation: ReservedContainer | None
    ) -> Grant | ReserveContainer | None:
        """FSAppAttempt.assignContainer of a request: allocate, reserve, or neither."""
        app = each.app
        if all_fit(ask.demand, node.free):
            each.levels.granted(ask.priority, level)
            if reservation is not None:
                self._forget(reservation)
            grant = self._grant(app, ask, node, level, reserved=reservation is not None)
            if grant.am:
                each.leaf.am_used = plus(each.leaf.am_used, app.am_demand or self.zero)
            return grant
        if reservation is None and self._may_reserve(each, ask, node, level):
            return self._reserve(app, ask, node, level)
        which = next(i for i, (d, f) in enumerate(zip(ask.demand, node.free, strict=True)) if d > f)
        self._refuse(app, Why.NO_ROOM, node.id, ask.demand, node.free, which)
        return None

    def _may_reserve(self, each: FairApp, ask: Ask, node: SchedulerNode, level: Level) -> bool:
        """FSAppAttempt.isReservable and reservationExceedsThreshold: starved, large enough, not too many nodes."""
        if not each.leaf.starved(each, self.total):
            return False
        if each.leaf.rc.compare(self.total, ask.demand, self._threshold) < 0:
            return False
        if level is Level.NODE:
            return True
        held = [reservation for by_node in each.app.reservations.values() for reservation in by_node.values()]
        nodes, reserved = len(self.nodes), len(held)
        if level is Level.RACK:
            nodes, reserved = self.racks[node.rack], sum(1 for reservation in held if reservation.rack == node.rack)
        return reserved < math.ceil(nodes * self.config.reservable_nodes)

    def _fulfil(self, node: SchedulerNode, reservation: ReservedContainer) -> bool:
        """FSAppAttempt.assignReservedContainer: whether the reservation stays, or was turned into a container."""
        each = self._fair[reservation.app]
        ask = each.app.asks.get(reservation.priority)
        if ask is None or not self._has_container_for(each, ask, node) or not self._am_may(each):
            self._unreserve(reservation)
            return False
        if all_fit(reservation.demand, node.free):
            level = self._level(each, ask, node)
            if level is not None:
                self._try(each, ask, node, level, reservation)
        return True
