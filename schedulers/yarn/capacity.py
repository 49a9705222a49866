"""Hadoop 3.3's CapacityScheduler, decision by decision.

Follows ...scheduler.capacity: CapacityScheduler (the loop of a node's heartbeat), ParentQueue and LeafQueue
(assignContainers), allocator.RegularContainerAllocator (one application on one node). Synchronous scheduling,
one partition, no placement constraints, no lazy or intra-queue preemption.
"""

from __future__ import annotations

import enum
from bisect import insort
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from schedulers.yarn import limits as bounds
from schedulers.yarn.books import Books
from schedulers.yarn.locality import LocalityDelay, is_asked, missed_before
from schedulers.yarn.preemption import Holder, Monitor, MonitorConfig, PreemptionCandidate, QueueUse, Verdict
from schedulers.yarn.queues import (
    ROOT,
    UNKNOWN,
    LeafQueue,
    Parent,
    QueueConfig,
    User,
    YarnQueue,
    account,
    fifo_key,
    kids_in_order,
    limit_below,
)
from schedulers.yarn.records import (
    Action,
    App,
    Ask,
    Container,
    DropReservation,
    Grant,
    Kill,
    Level,
    Mark,
    Measure,
    Refusal,
    ReserveContainer,
    ReservedContainer,
    SchedulerNode,
    Why,
)
from schedulers.yarn.vectors import CALCULATORS, Vector, least, minus, most, plus, times

_LEVELS: Final = (Level.NODE, Level.RACK, Level.OFF_SWITCH)


class CapacityConfig(msgspec.Struct, frozen=True, kw_only=True):
    """capacity-scheduler.xml, with the defaults of 3.3.5.

    root: the queue tree. calculator: memory (DefaultResourceCalculator, which looks at nothing else) or dominant.
    minimum, maximum: sizes of containers; sizes are multiples of the minimum. multiple, most_containers,
    most_off_switch: per-node-heartbeat.*, -1 = no limit. continue_looking: reservations-continue-look-all-nodes.
    """

    root: QueueConfig = QueueConfig(name=ROOT, kids=(QueueConfig(name="default"),))
    resources: tuple[str, ...] = ("memory", "vcores")
    calculator: str = "memory"
    minimum: Vector = (1024, 1)
    maximum: Vector = (8192, 4)
    delay: LocalityDelay = LocalityDelay()
    multiple: bool = True
    most_containers: int = 100
    most_off_switch: int = 1
    continue_looking: bool = True
    am_share: float = 0.1
    monitor: MonitorConfig | None = None

    def __post_init__(self) -> None:
        if self.calculator not in CALCULATORS:
            raise ValueError(f"calculator '{self.calculator}' (known: {', '.join(CALCULATORS)})")


class _Skip(enum.Enum):
    """CSAssignment.SkippedType: the answer of a queue or application that takes nothing."""

    NONE = enum.auto()
    OTHER = enum.auto()
    QUEUE_LIMIT = enum.auto()


class _Limits:
    """ResourceLimits: the most a queue may use now, the rest left, the amount to be given up first."""

    __slots__ = ("blocked", "headroom", "limit", "unreserve")

    def __init__(self, limit: Vector, zero: Vector) -> None:
        self.limit, self.headroom = limit, limit
        self.blocked = self.unreserve = zero


_Got = Grant | ReserveContainer | _Skip


class CapacityScheduler(Books):
    """CapacityScheduler. Facts go in by the methods of Books; `beat` and `monitor` decide."""

    def __init__(self, config: CapacityConfig = CapacityConfig()) -> None:  # noqa: B008 (frozen)
        super().__init__(config.resources, config.minimum, config.minimum, config.maximum)
        self.root: YarnQueue = Parent(config.root, None, self.zero)
        self._leaves: dict[str, LeafQueue] = {}
        for leaf in self.root.leaves():
            self._leaves[leaf.path] = leaf
            self._leaves[leaf.path.removeprefix(f"{ROOT}.")] = leaf
            self._leaves.setdefault(leaf.config.name, leaf)
        self._leaf_of: dict[str, LeafQueue] = {}
        self._monitor = Monitor()
        self.configure(config)

    def configure(self, config: CapacityConfig) -> None:
        """CapacityScheduler.reinitialize: new settings for the same queues. Raises ValueError for other queues."""
        self.config = config
        self.rc = CALCULATORS[config.calculator]
        self.root.configure(config.root, config.am_share)
        for leaf in self.root.leaves():
            leaf.sort()
        self._cluster_changed()

    def restore(self) -> None:
        """See Books.restore."""
        super().restore()
        for leaf in self.root.leaves():
            leaf.count_newcomers()
            bounds.bind_floor(leaf, self.total, self.rc)

    def takes(self, queue: str) -> bool:
        """See Books.takes."""
        return queue in self._leaves

    def leaf(self, queue: str) -> LeafQueue:
        """CapacityScheduler.getQueue, by path (with or without root) or, for the first such queue, by name."""
        leaf = self._leaves.get(queue)
        if leaf is None:
            known = ", ".join(leaf.path.removeprefix(f"{ROOT}.") for leaf in self.root.leaves())
            raise ValueError(f"no leaf queue '{queue}' (known: {known})")
        return leaf

    # -- decisions ------------------------------------------------------------------------------

    def beat(self, node: str, now: int = 0) -> list[Action]:
        """CapacityScheduler.allocateContainersToNode: passes over one node until `canAllocateMore` says no."""
        target = self.nodes[node]
        given = off_switch = 0
        while True:
            got = self._pass(target)
            if not isinstance(got, Grant):
                return self._taken()
            given += 1
            off_switch += got.level is Level.OFF_SWITCH
            if not self._may_go_on(given, off_switch):
                return self._taken()

    def offer(self, node: str) -> list[Action]:
        """A pass over a node: CapacityScheduler.allocateContainerOnSingleNode."""
        self._pass(self.nodes[node])
        return self._taken()

    def monitor(self, now: int) -> list[Measure]:
        """ProportionalCapacityPreemptionPolicy.editSchedule, to be called every period; kills take effect here."""
        settings = self.config.monitor
        if settings is None:
            return []
        use = self._use_of(self.root)
        verdict = self._monitor.round(use, self.total, self.rc, settings, now, self._holders)
        return self._carry_out(verdict, self._in_need(use))

    # -- activation -----------------------------------------------------------------------------

    def _app_added(self, app: App, now: int) -> None:
        """LeafQueue.addApplicationAttempt."""
        leaf = self.leaf(app.queue)
        app.queue = leaf.path
        self._leaf_of[app.id] = leaf
        leaf.users.setdefault(app.user, User(self.zero, self.zero)).pending += 1
        leaf.count_newcomers()
        insort(leaf.pending, app, key=fifo_key)
        self._activate(leaf)

    def _app_removed(self, app: App) -> None:
        """LeafQueue.removeApplicationAttempt."""
        leaf = self._leaf_of.pop(app.id)
        user = leaf.users[app.user]
        if not app.active:
            leaf.pending.remove(app)
            user.pending -= 1
        else:
            leaf.remove(leaf.active, app)
            user.active -= 1
            size = app.am_demand or self.zero
            leaf.am_used, user.am_used = minus(leaf.am_used, size), minus(user.am_used, size)
        if not user.active and not user.pending:
            del leaf.users[app.user]
        leaf.count_newcomers()
        leaf.version += 1
        self._activate(leaf)

    def _activate(self, leaf: LeafQueue) -> None:
        """LeafQueue.activateApplications: pending ones in order, as long as both limits hold; the first always."""
        if not any(self.total):
            for app in leaf.pending:
                self._refuse(app, Why.CLUSTER_EMPTY, leaf.path, self.zero, self.total, 0)
            return
        queue_limit = bounds.am_limit(leaf, self.minimum, self.rc)
        # A single limit for all users, taken once: Hadoop too keeps the limit of the first application of a round.
        user_limit: Vector | None = None
        for app in list(leaf.pending):
            user = leaf.users[app.user]
            size = app.am_demand or self.zero
            alone = not leaf.active or not any(leaf.am_used)
            used = plus(leaf.am_used, size)
            if not self._am_fits(app, used, queue_limit, Why.QUEUE_AM_LIMIT, leaf.path) and not alone:
                continue
            if user_limit is None:
                user_limit = bounds.user_am_limit(leaf, self.minimum, self.total, self.rc, queue_limit)
            used = plus(user.am_used, size)
            if not self._am_fits(app, used, user_limit, Why.USER_AM_LIMIT, app.user) and not alone:
                continue
            self._start(leaf, user, app, size)

    def _adopted(self, app: App, container: Container) -> None:
        """FiCaSchedulerApp.recoverContainer: running applications count as activated, whatever the limits say now."""
        if not app.active:
            leaf = self._leaf_of[app.id]
            self._start(leaf, leaf.users[app.user], app, app.am_demand or self.zero)

    def _am_fits(self, app: App, used: Vector, limit: Vector, why: Why, name: str) -> bool:
        if self.rc.fits(used, limit):
            return True
        self._refuse(app, why, name, used, limit, self.rc.scarcest(used, limit))
        return False

    def _start(self, leaf: LeafQueue, user: User, app: App, size: Vector) -> None:
        leaf.pending.remove(app)
        leaf.insert(leaf.active, app)
        app.active = True
        if app.keys:
            leaf.insert(leaf.hungry, app)
            app.hungry = True
        user.pending -= 1
        user.active += 1
        leaf.count_newcomers()
        leaf.am_used, user.am_used = plus(leaf.am_used, size), plus(user.am_used, size)
        leaf.version += 1
        app.refusal = None

    def _asked(self, app: App, priority: int, *, new: bool) -> None:
        """AppSchedulingInfo.updatePendingResources: a user with asks is active, once an application of theirs runs."""
        leaf = self._leaf_of[app.id]
        user = leaf.users[app.user]
        if new and user.active and app.id not in user.asking:
            user.asking[app.id] = None
        if not app.keys:
            user.asking.pop(app.id, None)
        leaf.version += 1
        leaf.moved(app)
        if app.active and app.hungry != bool(app.keys):
            app.hungry = bool(app.keys)
            if app.hungry:
                leaf.insert(leaf.hungry, app)
            else:
                leaf.remove(leaf.hungry, app)

    # -- use ------------------------------------------------------------------------------------

    def _held(self, app: App, amount: Vector) -> None:
        leaf = self._leaf_of[app.id]
        account(leaf, amount)
        user = leaf.users[app.user]
        user.used = plus(user.used, amount)
        user.ratio = UNKNOWN
        leaf.version += 1
        leaf.moved(app)

    def _reservation_changed(self, app: App, amount: Vector) -> None:
        """Reservations count as use, of the queue and of the user."""
        self._held(app, amount)
        for queue in self._leaf_of[app.id].chain:
            queue.reserved = plus(queue.reserved, amount)

    def _cluster_changed(self) -> None:
        """CapacityScheduler.updateClusterResource, down the tree."""
        self.root.resize(self.total, self.minimum)
        self._relimit(self.root, self.total)

    def _relimit(self, queue: YarnQueue, limit: Vector) -> None:
        if isinstance(queue, LeafQueue):
            queue.limit = queue.am_basis = self.rc.smaller(self.total, queue.most_down, limit)
            queue.version += 1
            bounds.bind_users(queue, self.minimum, self.total, self.rc)
            self._activate(queue)
            return
        assert isinstance(queue, Parent)
        for kid in queue.kids:
            self._relimit(kid, limit_below(queue, kid, limit, self.minimum, self.total, self.rc))

    # -- one pass -------------------------------------------------------------------------------

    def _may_go_on(self, given: int, off_switch: int) -> bool:
        """CapacityScheduler.canAllocateMore."""
        config = self.config
        if 0 <= config.most_off_switch <= off_switch:
            return False
        return config.multiple and (config.most_containers < 0 or given < config.most_containers)

    def _pass(self, node: SchedulerNode) -> _Got:
        if node.reservation is not None:
            self.looked = True
            self._fulfil(node, node.reservation)
            return _Skip.NONE
        if not self.rc.fits(self.minimum, node.free):
            self.looked = True
            return _Skip.NONE
        return self._assign(self.root, node, _Limits(self.total, self.zero))

    def _assign(self, queue: YarnQueue, node: SchedulerNode, limits: _Limits) -> _Got:
        if isinstance(queue, LeafQueue):
            return self._assign_leaf(queue, node, limits)
        assert isinstance(queue, Parent)
        return self._assign_parent(queue, node, limits)

    def _assign_parent(self, queue: Parent, node: SchedulerNode, limits: _Limits) -> _Got:
        """ParentQueue.assignContainersToChildQueues: the first child to take something ends the pass."""
        if not self._queue_may(queue, limits, queue.reserved):
            return _Skip.NONE
        answer = _Skip.NONE
        limit = limits.limit
        for kid in kids_in_order(queue, self.total, self.minimum, self.rc):
            below = _Limits(limit_below(queue, kid, limit, self.minimum, self.total, self.rc), self.zero)
            got = self._assign(kid, node, below)
            if not isinstance(got, _Skip):
                return got
            if got is _Skip.QUEUE_LIMIT:
                # Room out of a child's reach for its limits is kept for the child from its siblings.
                answer = got
                blocked = below.headroom if isinstance(kid, LeafQueue) else below.blocked
                blocked = self.rc.larger(self.total, blocked, self.zero)
                limits.blocked = plus(limits.blocked, blocked)
                limit = minus(limit, blocked)
        return answer

    def _assign_leaf(self, leaf: LeafQueue, node: SchedulerNode, limits: _Limits) -> _Got:
        """LeafQueue.assignContainers: applications in order, within the queue's and their users' limits."""
        leaf.limit = self.rc.smaller(self.total, leaf.most_down, limits.limit)
        if not leaf.hungry:
            return _Skip.NONE
        # Applications without open asks matter only to a queue at its limit; below, a queue stays below until a grant.
        check_queue = not self._queue_may(leaf, limits, self.zero)
        for app in leaf.active if check_queue else leaf.hungry:
            if check_queue:
                if not self._queue_may(leaf, limits, app.reserved):
                    self._refuse(app, Why.QUEUE_LIMIT, leaf.path, leaf.used, *self._bound(leaf.used, limits.limit))
                    return _Skip.NONE
                check_queue = self.config.continue_looking and any(app.reserved)
            leaf.am_basis = leaf.limit
            if not self._user_may(leaf, app, limits):
                continue
            got = self._assign_app(leaf, app, node, limits)
            if got is not _Skip.OTHER:
                return got
        return _Skip.NONE

    def _bound(self, used: Vector, limit: Vector) -> tuple[Vector, int]:
        return limit, self.rc.scarcest(used, limit)

    def _queue_may(self, queue: YarnQueue, limits: _Limits, reserved: Vector) -> bool:
        """AbstractCSQueue.canAssignToThisQueue: below its limit, or so without reservations that could go."""
        current = self.rc.smaller(self.total, queue.most, limits.limit)
        limits.headroom = minus(current, queue.used)
        if self.rc.compare(self.total, queue.used, current) < 0:
            return True
        if not self.config.continue_looking or self.rc.compare(self.total, reserved, self.zero) <= 0:
            return False
        return self.rc.compare(self.total, minus(queue.used, reserved), current) < 0

    def _user_may(self, leaf: LeafQueue, app: App, limits: _Limits) -> bool:
        """LeafQueue.canAssignToUser: not *above* the limit, so another container always fits."""
        used = leaf.users[app.user].used
        limits.unreserve = self.zero
        if bounds.is_within_user_limit(leaf, used, self.minimum, self.total, self.rc):
            return True
        limit = bounds.user_limit(leaf, self.minimum, self.total, self.rc)
        if self.config.continue_looking and self.rc.compare(self.total, minus(used, app.reserved), limit) <= 0:
            limits.unreserve = minus(used, limit)
            return True
        self._refuse(app, Why.USER_LIMIT, app.user, used, *self._bound(used, limit))
        return False

    # -- one application ------------------------------------------------------------------------

    def _assign_app(self, leaf: LeafQueue, app: App, node: SchedulerNode, limits: _Limits) -> _Got:
        """RegularContainerAllocator.assignContainers: the first priority not passed over decides."""
        looking = self.config.continue_looking
        for priority in app.keys:
            ask = app.asks[priority]
            if not looking and not self._wants_more(app, ask):
                continue
            room = limits.headroom
            if looking and app.reservations:
                room = plus(room, app.reserved)
            if self.rc.compare(self.total, room, ask.demand) < 0:
                self._refuse(app, Why.HEADROOM, leaf.path, leaf.used, *self._bound(leaf.used, limits.limit))
                return _Skip.QUEUE_LIMIT
            app.missed[priority] = app.missed.get(priority, 0) + 1
            self.looked = True
            return self._on_node(leaf, app, ask, node, limits, reservation=None)
        return _Skip.OTHER

    def _on_node(
        self,
        leaf: LeafQueue,
        app: App,
        ask: Ask,
        node: SchedulerNode,
        limits: _Limits,
        reservation: ReservedContainer | None,
    ) -> _Got:
        """RegularContainerAllocator.assignContainersOnNode: the node, its rack, then anywhere."""
        if len(ask.places) == 1:  # it names no place, and so never waits for one
            return self._try(leaf, app, ask, node, Level.OFF_SWITCH, limits, reservation) or _Skip.OTHER
        for level in _LEVELS:
            if not is_asked(level, ask, node) or not self._waited(leaf, app, ask, level, reservation):
                continue
            got = self._try(leaf, app, ask, node, level, limits, reservation)
            if got is not None:
                return got
        return _Skip.OTHER

    def _waited(self, leaf: LeafQueue, app: App, ask: Ask, level: Level, reservation: ReservedContainer | None) -> bool:
        """RegularContainerAllocator.canAssign: an application with the node reserved does not wait for any level."""
        if level is Level.OFF_SWITCH and reservation is not None:
            return True
        needed = missed_before(level, ask, len(self.nodes), self.config.delay)
        missed = app.missed.get(ask.priority, 0)
        if needed < missed:
            return True
        app.refusal = Refusal(Why.LOCALITY, leaf.path, app.id, "", missed, int(needed) + 1)
        return False

    def _try(
        self,
        leaf: LeafQueue,
        app: App,
        ask: Ask,
        node: SchedulerNode,
        level: Level,
        limits: _Limits,
        reservation: ReservedContainer | None,
    ) -> Grant | ReserveContainer | None:
        """RegularContainerAllocator.assignContainer: allocate, reserve, or neither (LOCALITY_SKIPPED)."""
        if not self.rc.fits(ask.demand, node.capacity):
            self._refuse(app, Why.TOO_LARGE, node.id, ask.demand, *self._bound(ask.demand, node.capacity))
            return None
        over, excess = False, self.zero
        if limits.unreserve is not self.zero or not self.rc.fits(ask.demand, limits.headroom):
            excess = minus(ask.demand, limits.headroom)
            if limits.unreserve is not self.zero:
                excess = self.rc.larger(self.total, excess, limits.unreserve)
            over = self.rc.compare(self.total, excess, self.zero) > 0
        looking = self.config.continue_looking and reservation is None
        if self.rc.fits(ask.demand, node.free):
            spare = None
            if looking and (over or not self._wants_more(app, ask)):
                spare = self._spare(app, ask, excess if over else ask.demand)
                if spare is None:
                    return None
            return self._take(leaf, app, ask, node, level, reservation, spare)
        self._refuse(app, Why.NO_ROOM, node.id, ask.demand, *self._bound(ask.demand, node.free))
        if looking and over:
            return None
        return self._keep(leaf, app, ask, node, level, reservation)

    def _keep(
        self,
        leaf: LeafQueue,
        app: App,
        ask: Ask,
        node: SchedulerNode,
        level: Level,
        reservation: ReservedContainer | None,
    ) -> ReserveContainer | None:
        """Reserve the node, or go on keeping it."""
        if reservation is not None:
            app.again[ask.priority] = app.again.get(ask.priority, 0) + 1
            return ReserveContainer(app.id, node.id, ask.priority, reservation.demand, reservation.level)
        if not self._wants_more(app, ask) or not self._accepted(leaf, app, ask.demand, self.zero):
            return None
        self._local(app, ask, level)
        return self._reserve(app, ask, node, level)

    def _wants_more(self, app: App, ask: Ask) -> bool:
        """RegularContainerAllocator.shouldAllocOrReserveNewContainer: asks beyond reservations, or long in vain."""
        reserved = app.held_back(ask.priority)
        if not reserved:
            return ask.open > 0
        largest = self.maximum
        bias = min(self.rc.ratio(ask.demand, largest), self.rc.ratio(minus(largest, self.minimum), largest))
        starvation = int(app.again.get(ask.priority, 0) / reserved * (1 - bias))
        return starvation + ask.open - reserved > 0

    def _spare(self, app: App, ask: Ask, size: Vector) -> ReservedContainer | None:
        """SchedulerApplicationAttempt.getNodeIdToUnreserve: the first large enough reservation of the priority."""
        held = app.reservations.get(ask.priority, {})
        return next((reservation for reservation in held.values() if self.rc.fits(size, reservation.demand)), None)

    def _take(
        self, leaf: LeafQueue, app: App, ask: Ask, node: SchedulerNode, level: Level,
        reservation: ReservedContainer | None, spare: ReservedContainer | None,
    ) -> Grant | None:  # fmt: skip
        if reservation is None and not self._accepted(
            leaf, app, ask.demand, self.zero if spare is None else spare.demand
        ):
            return None
        if spare is not None:
            self._unreserve(spare)
        if reservation is not None:
            self._forget(reservation)
        else:
            self._local(app, ask, level)
        return self._grant(app, ask, node, level, reserved=reservation is not None)

    def _local(self, app: App, ask: Ask, level: Level) -> None:
        """RegularContainerAllocator.doAllocation: local containers start the wait anew, others do not."""
        if level is Level.NODE or (level is Level.RACK and self.config.delay.rack_full_reset):
            app.missed[ask.priority] = 0

    def _accepted(self, leaf: LeafQueue, app: App, demand: Vector, released: Vector) -> bool:
        """LeafQueue.accept and AbstractCSQueue.accept: the last word on maximum capacities, resource by resource.

        Hadoop repeats the proposal until the beat's containers are counted out; the repetition is skipped here.
        """
        giving = any(released)
        for queue in leaf.chain:
            after = plus(queue.used, demand)
            if giving:
                after = minus(after, released)
            if not self.rc.fits(after, queue.most):
                self._refuse(app, Why.QUEUE_LIMIT, queue.path, after, *self._bound(after, queue.most))
                return False
        used = leaf.users[app.user].used
        if giving:
            used = minus(used, released)
        return bounds.is_within_user_limit(leaf, used, self.minimum, self.total, self.rc)

    def _fulfil(self, node: SchedulerNode, reservation: ReservedContainer) -> None:
        """CapacityScheduler.allocateFromReservedContainer: the reservation only, whatever the result."""
        app = self.apps[reservation.app]
        leaf = self._leaf_of[app.id]
        limits = _Limits(self.total, self.zero)
        leaf.limit = self.rc.smaller(self.total, leaf.most_down, limits.limit)
        ask = app.asks.get(reservation.priority)
        if ask is None:
            self._unreserve(reservation)
            return
        app.missed[reservation.priority] = app.missed.get(reservation.priority, 0) + 1
        self._on_node(leaf, app, ask, node, limits, reservation)

    # -- preemption -----------------------------------------------------------------------------

    def _use_of(self, queue: YarnQueue) -> QueueUse:
        """ProportionalCapacityPreemptionPolicy.cloneQueues."""
        use = QueueUse(
            name=queue.path, guaranteed=queue.capacity, most=queue.most, used=queue.used,
            priority=queue.config.priority if self._respects_priority(queue) else 0,
            disabled=not queue.config.preemption, kids=[self._use_of(kid) for kid in queue.kids],
        )  # fmt: skip
        if isinstance(queue, LeafQueue):
            use.pending = self._pending(queue, less_reserved=False)
            use.pending_less_reserved = self._pending(queue, less_reserved=True)
            use.am_share = times(times(self.total, queue.share), queue.am_share)
        return use

    def _respects_priority(self, queue: YarnQueue) -> bool:
        return queue.parent is not None and queue.parent.config.child_order == "priority-utilization"

    def _pending(self, leaf: LeafQueue, *, less_reserved: bool) -> Vector:
        """LeafQueue.getTotalPendingResourcesConsideringUserLimit."""
        limit = bounds.user_limit(leaf, self.minimum, self.total, self.rc)
        left: dict[str, Vector] = {}
        total = self.zero
        for app in leaf.hungry:
            room = left.get(app.user)
            if room is None:
                room = most(minus(limit, leaf.users[app.user].used), self.zero)
            wanted = most(minus(app.open, app.reserved) if less_reserved else app.open, self.zero)
            wanted = least(room, wanted)
            total = plus(total, wanted)
            left[app.user] = minus(room, wanted)
        return total

    def _holders(self, queue: str) -> Iterator[Holder]:
        """LeafQueue's ordering policy backwards (getPreemptionIterator), each with its containers to take."""
        leaf = self._leaves[queue]
        for app in reversed(leaf.active):
            there = app.containers.values() if app.preemptible else ()
            containers = [PreemptionCandidate(c.id, c.priority, c.demand, c.am) for c in there]
            reserved = [(k.node, k.demand) for held in app.reservations.values() for k in held.values()]
            yield Holder(app.id, containers, reserved)

    def _in_need(self, use: QueueUse) -> str:
        """The next application in the leaf queue with the least of its own and with open asks."""
        needy = [
            leaf
            for leaf in use.leaves()
            if any(leaf.pending) and self.rc.compare(self.total, leaf.used, leaf.guaranteed) < 0
        ]
        if not needy:
            return ""
        poorest = min(needy, key=lambda leaf: self.rc.divide(self.total, leaf.used, leaf.guaranteed))
        return self.leaf(poorest.name).hungry[0].id

    def _over(self, leaf: LeafQueue) -> str:
        held, own = (100 * self.rc.divide(self.total, part, self.total) for part in (leaf.used, leaf.capacity))
        return f"queue {leaf.path} holds {held:.1f}% of the cluster and is guaranteed {own:.1f}%"

    def _carry_out(self, verdict: Verdict, served: str) -> list[Measure]:
        measures: list[Measure] = []
        for app, node in verdict.reservations:
            reservation = self.nodes[node].reservation
            if reservation is not None and reservation.app == app:
                self._forget(reservation)
                measures.append(DropReservation(app, node, reservation.priority, reservation.demand))
        for container in verdict.marked:
            held = self.containers[container]
            measures.append(Mark(container, held.app, held.node))
        for container in verdict.killed:
            held = self.containers[container]
            measures.append(Kill(container, held.app, held.node, self._over(self._leaf_of[held.app]), served))
            self.container_ended(container)
        return measures

    def users(self, queue: str) -> Mapping[str, User]:
        """UsersManager.getUsers of a leaf queue."""
        return self.leaf(queue).users
