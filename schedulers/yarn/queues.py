"""The queue tree of the CapacityScheduler: settings, capacities in absolute terms, users, order of service.

Follows ...scheduler.capacity: AbstractCSQueue, ParentQueue, LeafQueue, UsersManager.User, and the ordering policies
PriorityUtilizationQueueOrderingPolicy, FifoOrderingPolicy, FairOrderingPolicy.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from schedulers.yarn.records import App
from schedulers.yarn.vectors import Calculator, Vector, minus, plus, round_down, single, times, times_down

ROOT: Final = "root"
#: The ratio of a user before anybody has asked for the ratio.
UNKNOWN: Final = -1.0


class QueueConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of capacity-scheduler.xml. Capacities are fractions of the parent (capacity, maximum-capacity).

    user_limit: minimum-user-limit-percent. am_share: maximum-am-resource-percent, None = the parent's.
    ordering: fifo or fair, of the applications; size_based: fair by use divided by log2(1 + demand).
    child_order: utilization or priority-utilization, of the child queues. preemption: False = disable_preemption.
    """

    name: str
    capacity: float = 1.0
    maximum: float = 1.0
    user_limit: float = 100.0
    user_limit_factor: float = 1.0
    am_share: float | None = None
    priority: int = 0
    ordering: str = "fifo"
    size_based: bool = False
    child_order: str = "utilization"
    preemption: bool = True
    kids: tuple[QueueConfig, ...] = ()

    def __post_init__(self) -> None:
        if self.ordering not in ("fifo", "fair"):
            raise ValueError(f"queue '{self.name}': ordering '{self.ordering}' (known: fifo, fair)")
        if self.child_order not in ("utilization", "priority-utilization"):
            raise ValueError(
                f"queue '{self.name}': child_order '{self.child_order}' (known: utilization, priority-utilization)"
            )
        total = sum(kid.capacity for kid in self.kids)
        if self.kids and total and abs(total - 1) > 0.001:
            raise ValueError(f"queue '{self.name}': the capacities of its children make {total:g}, not 1")
        if self.maximum < self.capacity:
            raise ValueError(f"queue '{self.name}': maximum {self.maximum:g} below capacity {self.capacity:g}")


class User(msgspec.Struct, eq=False):
    """UsersManager.User: use of a leaf queue by a user. asking: counting applications with open asks.

    ratio: used part of the cluster, UNKNOWN since the last change of use.
    """

    used: Vector
    am_used: Vector
    ratio: float = 0.0
    active: int = 0
    pending: int = 0
    asking: dict[str, None] = {}  # in order, so that its bytes are the same in every process


class YarnQueue:
    """A queue of the tree. chain: itself and all queues above.

    used: containers and reservations below the queue; reserved: the reservations alone. rank: place among the siblings,
    empty after a change of use; order: the children as last sorted, likewise.
    """

    def __init__(self, config: QueueConfig, parent: YarnQueue | None, zero: Vector) -> None:
        self.parent = parent
        self.chain: tuple[YarnQueue, ...] = (self,) if parent is None else (self, *parent.chain)
        self.path: str = config.name if parent is None else f"{parent.path}.{config.name}"
        self.used = self.reserved = zero
        self.capacity = self.most = self.most_down = zero
        self.share = self.most_share = 0.0
        self.am_share = 0.0
        self.config = config
        self.rank: tuple[Any, ...] = ()
        self.order: list[YarnQueue] = []
        self.kids = [(Parent if kid.kids else LeafQueue)(kid, self, zero) for kid in config.kids]

    def leaves(self) -> Iterator[LeafQueue]:
        """The leaf queues below, in order of the configuration."""
        for kid in self.kids:
            yield from kid.leaves()

    def configure(self, config: QueueConfig, am_share: float) -> None:
        """Settings take effect (ParentQueue.reinitialize). Raises ValueError for another tree."""
        if [kid.name for kid in config.kids] != [kid.config.name for kid in self.kids]:
            raise ValueError(f"queue '{self.path}': queues cannot be added or removed while the scheduler runs")
        self.config = config
        self.am_share = single(am_share if config.am_share is None else config.am_share)
        above = (1.0, 1.0) if self.parent is None else (self.parent.share, self.parent.most_share)
        self.share = single(single(config.capacity) * above[0])
        self.most_share = single(single(config.maximum) * above[1])
        for kid, settings in zip(self.kids, config.kids, strict=True):
            kid.configure(settings, self.am_share)

    def resize(self, total: Vector, minimum: Vector) -> None:
        """AbstractCSQueue.updateEffectiveResources: capacities by the cluster's size, cut to whole units."""
        self.capacity, self.most = times(total, self.share), times(total, self.most_share)
        self.most_down = times_down(total, self.most_share, minimum)
        self.rank, self.order = (), []
        for kid in self.kids:
            kid.resize(total, minimum)


class Parent(YarnQueue):
    """ParentQueue."""


class LeafQueue(YarnQueue):
    """LeafQueue.

    active: activated applications, in order of service; hungry: active applications with open asks; pending:
    applications waiting for activation. version changes with all inputs of the user limit. limit: largest possible use
    at the queue's last turn; am_basis: the same as known to activation. least, user_part, user_most: parts of the user
    limit from settings and cluster alone; user_floor: the least possible user limit, from the same. newcomers: users
    with nothing but pending applications; only_pending: the same, as of the last user limit.
    """

    def __init__(self, config: QueueConfig, parent: YarnQueue | None, zero: Vector) -> None:
        super().__init__(config, parent, zero)
        self.active: list[App] = []
        self.hungry: list[App] = []
        self.pending: list[App] = []
        self.users: dict[str, User] = {}
        self.am_used = zero
        self.limit = self.am_basis = zero
        self.version = 0
        self.user_limit: tuple[int, Vector | None] = (-1, None)
        self.least = self.user_part = self.user_most = self.user_floor = zero
        self.newcomers = self.only_pending = 0

    def leaves(self) -> Iterator[LeafQueue]:
        """See Queue."""
        yield self

    def count_newcomers(self) -> None:
        """Count `newcomers` anew, after applications came, went or began to run."""
        self.newcomers = sum(1 for user in self.users.values() if user.pending and not user.active)

    def key(self, app: App) -> tuple[Any, ...]:
        """How its applications are ordered, pending ones always by fifo."""
        if self.config.ordering == "fair":
            return fair_key(app, size_based=self.config.size_based)
        return fifo_key(app)

    def insert(self, apps: list[App], app: App) -> None:
        """Into `active` or `hungry`, in order."""
        if not app.rank:
            app.rank = self.key(app)
        apps.insert(bisect_left(apps, app.rank, key=_rank), app)

    def remove(self, apps: list[App], app: App) -> None:
        """Out of `active` or `hungry`."""
        del apps[bisect_left(apps, app.rank, key=_rank)]

    def moved(self, app: App) -> None:
        """Use or demand changed: a new place, where they decide (AbstractComparatorOrderingPolicy)."""
        if self.config.ordering == "fifo" or not app.active:
            return
        lists = (self.active, self.hungry) if app.hungry else (self.active,)
        for apps in lists:
            self.remove(apps, app)
        app.rank = ()
        for apps in lists:
            self.insert(apps, app)

    def sort(self) -> None:
        """All anew, when the settings have changed."""
        for app in self.active:
            app.rank = self.key(app)
        self.active.sort(key=_rank)
        self.hungry.sort(key=_rank)


def _rank(ranked: App | YarnQueue) -> tuple[Any, ...]:
    return ranked.rank


def fifo_key(app: App) -> tuple[Any, ...]:
    """FifoOrderingPolicy: the larger priority, then the earlier application."""
    return (-app.priority, app.number)


def fair_key(app: App, *, size_based: bool) -> tuple[Any, ...]:
    """FairOrderingPolicy: the least use, the earlier start, with demand first, the earlier application."""
    pending = app.open[0]
    return (*fair_order(app.used[0], pending, app.started, size_based=size_based), app.number)


def fair_order(used: int, pending: int, started: int, *, size_based: bool) -> tuple[float, int, bool]:
    """FairOrderingPolicy.FairComparator as a key: magnitude of use, start, then demand."""
    magnitude = float(used)
    if size_based:
        weight = math.log1p(used + pending) / math.log(2)
        magnitude = used / weight if weight else 0.0
    return (magnitude, started, not used + pending)


class Utilization(msgspec.Struct, frozen=True):
    """Input of the order of sibling queues. used: of its own capacity, or of the cluster where 0."""

    name: str
    used: float
    capacity: float
    priority: int = 0


def queue_key(utilization: Utilization) -> tuple[Any, ...]:
    """PriorityUtilizationQueueOrderingPolicy without priorities: queues of no capacity last, then least used."""
    return (utilization.capacity <= 0, utilization.used, -utilization.capacity)


def priority_queue_key(utilization: Utilization) -> tuple[Any, ...]:
    """The same with priorities: queues below their capacity first; on either side the larger priority first."""
    return (
        utilization.capacity <= 0,
        utilization.used >= 1,
        -utilization.priority,
        utilization.used,
        -utilization.capacity,
    )


def in_order(utilizations: Sequence[Utilization], *, respect_priority: bool) -> list[Utilization]:
    """Sibling queues as they are offered a node; equal queues stay in the order of the configuration."""
    key: Callable[[Utilization], tuple[Any, ...]] = priority_queue_key if respect_priority else queue_key
    return sorted(utilizations, key=key)


def utilization(queue: YarnQueue, total: Vector, minimum: Vector, calculator: Calculator) -> Utilization:
    """CSQueueUtils.updateUsedCapacity: used part of the capacity, at least a minimum allocation."""
    if queue.share:
        of = calculator.larger(total, queue.capacity, minimum)
        used = calculator.divide(total, queue.used, of)
    else:
        used = calculator.divide(total, queue.used, total)
    return Utilization(queue.path, single(used), queue.share, queue.config.priority)


def kids_in_order(parent: Parent, total: Vector, minimum: Vector, calculator: Calculator) -> Sequence[YarnQueue]:
    """The children of a queue as `in_order` has them; queues without a change of use keep their rank."""
    if len(parent.kids) == 1:
        return parent.kids
    if not parent.order:
        key = priority_queue_key if parent.config.child_order == "priority-utilization" else queue_key
        for kid in parent.kids:
            if not kid.rank:
                kid.rank = key(utilization(kid, total, minimum, calculator))
        parent.order = sorted(parent.kids, key=_rank)
    return parent.order


def account(queue: YarnQueue, amount: Vector) -> None:
    """Change the use of a queue and all queues above (AbstractCSQueue.allocateResource, releaseResource)."""
    for each in queue.chain:
        each.used, each.rank, each.order = plus(each.used, amount), (), []


def limit_below(
    parent: YarnQueue, kid: YarnQueue, limit: Vector, minimum: Vector, total: Vector, rc: Calculator
) -> Vector:
    """ParentQueue.getResourceLimitsOfChild: the parent's rest and the child's use, within the child's maximum."""
    available = plus(minus(limit, parent.used), kid.used)
    available = rc.smaller(total, available, kid.most_down)
    return round_down(available, minimum)
