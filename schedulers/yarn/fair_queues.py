"""The queue tree of the FairScheduler: settings, shares, demand, order of service.

Follows ...scheduler.fair: FSQueue, FSParentQueue, FSLeafQueue, QueueManager and the scheduling policies.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from schedulers.yarn.locality import LocalityLevels
from schedulers.yarn.records import App
from schedulers.yarn.shares import (
    Claim,
    Contender,
    compare_drf,
    compare_fair,
    compare_fifo,
    compute_fair_shares,
    fair_key,
)
from schedulers.yarn.vectors import (
    DOMINANT,
    MEMORY,
    Calculator,
    Vector,
    all_fit,
    least,
    most,
    plus,
)

ROOT: Final = "root"
POLICIES: Final = ("fair", "drf", "fifo")


class FairQueueConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of the allocation file. Vectors are absolute; None = not set.

    policy: fair, drf or fifo, None = the default of the scheduler. most_kid: maxChildResources, of children not named
    in the file. am_share: maxAMShare, -1 = no limit, None = the default.
    """

    name: str
    policy: str | None = None
    weight: float = 1.0
    minimum: Vector | None = None
    most: Vector | None = None
    most_kid: Vector | None = None
    am_share: float | None = None
    kids: tuple[FairQueueConfig, ...] = ()

    def __post_init__(self) -> None:
        if self.policy is not None and self.policy not in POLICIES:
            raise ValueError(f"queue '{self.name}': policy '{self.policy}' (known: {', '.join(POLICIES)})")


class FairApp(msgspec.Struct, eq=False):
    """FSAppAttempt: the application, its share and demand as of the last update, and its locality levels."""

    app: App
    leaf: FairLeaf
    levels: LocalityLevels
    demand: Vector
    share: Vector
    weight: float = 1.0
    key: tuple[Any, ...] | None = None


class FairQueue(ABC):
    """FSQueue. used: containers below the queue (reservations are no use); running: applications below the queue."""

    def __init__(self, config: FairQueueConfig, parent: FairParent | None, zero: Vector, defaults: Defaults) -> None:
        self.parent = parent
        self.path: str = config.name if parent is None else f"{parent.path}.{config.name}"
        self.used = self.demand = self.share = zero
        self.running = 0
        self.zero = zero
        self._last: dict[int, tuple[list[Claim], int, list[int]]] = {}  # by resource: claims, of what, shares
        self.configure(config, defaults)

    def configure(self, config: FairQueueConfig, defaults: Defaults) -> None:
        """FSQueue.reinit: settings take effect."""
        self.config = config
        self.policy = config.policy or defaults.policy
        self.am_share = defaults.am_share if config.am_share is None else config.am_share
        self.minimum = config.minimum or self.zero
        bound = config.most
        if bound is None and self.parent is not None and not self.parent.names(config.name):
            bound = self.parent.config.most_kid
        # A maximum below the minimum counts as the minimum (FSQueue.getMaxShare).
        self.most = None if bound is None else most(bound, self.minimum)

    @property
    def rc(self) -> Calculator:
        """SchedulingPolicy.getResourceCalculator."""
        return DOMINANT if self.policy == "drf" else MEMORY

    def chain(self) -> Iterator[FairQueue]:
        """The queue and all queues above."""
        queue: FairQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    @abstractmethod
    def leaves(self) -> Iterator[FairLeaf]:
        """The leaf queues below."""

    def over(self, more: Vector) -> FairQueue | None:
        """FSQueue.fitsInMaxShare: the first queue, from here up, with too low a maximum for more."""
        for queue in self.chain():
            if queue.most is not None and not all_fit(plus(queue.used, more), queue.most):
                return queue
        return None

    def contender(self) -> Contender:
        """The queue as its parent's comparator sees it."""
        return Contender(self.path, self.used, self.demand, self.minimum, self.config.weight)

    def compute_shares(self, weights: Sequence[Weighed], cluster: Vector) -> list[Vector]:
        """SchedulingPolicy.computeShares: memory under fair, all under drf, everything to the first under fifo."""
        if self.policy == "fifo":
            first = min(range(len(weights)), key=lambda i: weights[i].started, default=0)
            return [self.share if i == first else self.zero for i in range(len(weights))]
        counted = range(len(cluster)) if self.policy == "drf" else (0,)
        columns = [[0] * len(weights) for _ in cluster]
        for r in counted:
            claims = [Claim(w.minimum[r], None if w.most is None else w.most[r], w.weight, w.active) for w in weights]
            columns[r] = self._divided(r, claims)
        return [tuple(column[i] for column in columns) for i in range(len(weights))]

    def _divided(self, r: int, claims: list[Claim]) -> list[int]:
        """Shares of a resource; the shares of the last update where nothing has changed, as in most queues."""
        known = self._last.get(r)
        if known is None or known[:2] != (claims, self.share[r]):
            known = self._last[r] = (claims, self.share[r], compute_fair_shares(claims, self.share[r]))
        return known[2]


class Weighed(msgspec.Struct, frozen=True):
    """Input of a share: minimum, maximum, weight, whether active, time of the start."""

    minimum: Vector
    most: Vector | None
    weight: float
    active: bool = True
    started: int = 0


class FairParent(FairQueue):
    """FSParentQueue. Unconfigured children appear when an application names them."""

    def __init__(self, config: FairQueueConfig, parent: FairParent | None, zero: Vector, defaults: Defaults) -> None:
        super().__init__(config, parent, zero, defaults)
        self.kids: dict[str, FairQueue] = {
            kid.name: (FairParent if kid.kids else FairLeaf)(kid, self, zero, defaults) for kid in config.kids
        }

    def names(self, kid: str) -> bool:
        """Whether the configuration names a child."""
        return any(named.name == kid for named in self.config.kids)

    def configure(self, config: FairQueueConfig, defaults: Defaults) -> None:
        """See FairQueue."""
        super().configure(config, defaults)
        named = {kid.name: kid for kid in config.kids}
        for name, kid in getattr(self, "kids", {}).items():
            kid.configure(named.get(name, FairQueueConfig(name=name)), defaults)

    def leaves(self) -> Iterator[FairLeaf]:
        """See FairQueue."""
        for kid in self.kids.values():
            yield from kid.leaves()

    def in_order(self, cluster: Vector, *, bug: bool) -> list[FairQueue]:
        """Its children as they are offered a node (FSParentQueue.assignContainer)."""
        kids = list(self.kids.values())
        if len(kids) < 2:
            return kids
        if self.policy == "fair":
            return sorted(kids, key=lambda kid: fair_key(kid.contender()))
        compare = comparator(self.policy, cluster, bug=bug)
        seen = {id(kid): kid.contender() for kid in kids}
        return sorted(kids, key=functools.cmp_to_key(lambda a, b: compare(seen[id(a)], seen[id(b)])))

    def update(self, cluster: Vector) -> None:
        """FSParentQueue.updateInternal: shares from here down."""
        kids = list(self.kids.values())
        weights = [Weighed(k.minimum, k.most, k.config.weight, k.running > 0) for k in kids]
        for kid, share in zip(kids, self.compute_shares(weights, cluster), strict=True):
            kid.share = share
            if isinstance(kid, FairParent | FairLeaf):
                kid.update(cluster)

    def update_demand(self) -> None:
        """FSParentQueue.updateDemand."""
        demand = self.zero
        for kid in self.kids.values():
            if isinstance(kid, FairParent | FairLeaf):
                kid.update_demand()
            demand = plus(demand, kid.demand)
        self.demand = demand if self.most is None else least(demand, self.most)


class FairLeaf(FairQueue):
    """FSLeafQueue. order: applications with unmet demand, in order of service."""

    def __init__(self, config: FairQueueConfig, parent: FairParent | None, zero: Vector, defaults: Defaults) -> None:
        super().__init__(config, parent, zero, defaults)
        self.apps: dict[str, FairApp] = {}
        self.order: list[FairApp] = []
        self.am_used = zero

    def leaves(self) -> Iterator[FairLeaf]:
        """See FairQueue."""
        yield self

    def update(self, cluster: Vector) -> None:
        """FSLeafQueue.updateInternal: shares of its applications, with or without demand."""
        apps = list(self.apps.values())
        weights = [Weighed(self.zero, None, each.weight, started=each.app.started) for each in apps]
        for each, share in zip(apps, self.compute_shares(weights, cluster), strict=True):
            each.share = share

    def update_demand(self) -> None:
        """FSLeafQueue.updateDemand: use and asks of its applications, up to its maximum."""
        demand = self.zero
        for each in self.apps.values():
            each.demand = plus(each.app.used, each.app.open)
            demand = plus(demand, each.demand)
        self.demand = demand if self.most is None else least(demand, self.most)

    def resort(self, cluster: Vector) -> None:
        """FSLeafQueue.fetchAppsWithDemand, kept in order until use or demand changes."""
        self.order = []
        for each in self.apps.values():
            each.key = self._key(each, cluster)
            if each.key is not None:
                self.order.append(each)
        self.order.sort(key=_kept_key)

    def moved(self, each: FairApp, cluster: Vector) -> None:
        """Give an application its new place after a change of its use."""
        if each.key is not None:
            del self.order[bisect_left(self.order, each.key, key=_kept_key)]
        each.key = self._key(each, cluster)
        if each.key is not None:
            self.order.insert(bisect_left(self.order, each.key, key=_kept_key), each)

    def _key(self, each: FairApp, cluster: Vector) -> tuple[Any, ...] | None:
        """The policy's comparator of applications as a key: possible as applications have no minimum share.

        None: the application's demand, as of the last update, is met.
        """
        app = each.app
        if each.demand == app.used:
            return None
        tail = (app.started, app.number)
        if self.policy == "fifo":
            return (-app.priority, *tail)
        if self.policy == "fair":
            return (not any(each.demand), app.used[0] / each.weight, *tail)
        shares = sorted((u / c for u, c in zip(app.used, cluster, strict=True) if c), reverse=True)
        return (*(share / each.weight for share in shares), *tail)

    def am_limit(self, free: Vector) -> Vector | None:
        """FSLeafQueue.computeMaxAMResource: of its share, or of the free room where the share is 0; None = no limit."""
        if abs(self.am_share + 1) < 0.0001:
            return None
        bound = free if self.most is None else least(free, self.most)
        return tuple(math.ceil(s * self.am_share) if s else math.ceil(b * self.am_share) for s, b in
                     zip(self.share, bound, strict=True))  # fmt: skip

    def starved(self, each: FairApp, cluster: Vector) -> bool:
        """FSAppAttempt.isStarvedForFairShare: use below its share, by the largest share of each."""
        return self.rc.compare(cluster, each.app.used, each.share, largest_only=True) < 0


class Defaults(msgspec.Struct, frozen=True):
    """defaultQueueSchedulingPolicy and queueMaxAMShareDefault."""

    policy: str = "fair"
    am_share: float = 0.5


def _kept_key(each: FairApp) -> tuple[Any, ...]:
    assert each.key is not None
    return each.key


def comparator(policy: str, cluster: Vector, *, bug: bool) -> Callable[[Contender, Contender], int]:
    """SchedulingPolicy.getComparator."""
    if policy == "drf":
        return lambda a, b: compare_drf(a, b, cluster, bug=bug)
    compare = compare_fifo if policy == "fifo" else compare_fair
    return lambda a, b: compare(a, b, cluster)


def app_weight(demand: Vector, *, size_based: bool) -> float:
    """FairScheduler.getAppWeight: log2(1 + demanded memory) with yarn.scheduler.fair.sizebasedweight."""
    return math.log1p(demand[0]) / math.log(2) if size_based and demand[0] else 1.0
