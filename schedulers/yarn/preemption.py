"""The preemption monitor of the CapacityScheduler: use above guarantees, choice of containers, time of kills.

Follows ...monitor.capacity: ProportionalCapacityPreemptionPolicy, PreemptableResourceCalculator,
TempQueuePerPartition, FifoCandidatesSelector. Between queues only; reserved containers are not sought on purpose.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated

import msgspec

from schedulers.yarn.vectors import Calculator, Vector, minus, most, plus, single, times

Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class MonitorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """yarn.resourcemanager.monitor.capacity.preemption.*: times in ms, the rest as fractions.

    budget: of the cluster, per round. dead_zone: max_ignored_over_capacity. natural_end: natural_termination_factor.
    """

    period: int = 3000
    wait_before_kill: int = 15000
    budget: float = 0.1
    dead_zone: float = 0.1
    natural_end: float = 0.2


class Preemption(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same as settings of a policy, with Hadoop's defaults."""

    enabled: bool = False
    period_ms: Annotated[int, msgspec.Meta(ge=1)] = 3000
    max_wait_before_kill_ms: int = 15_000
    total_per_round: Fraction = 0.1
    max_ignored_over_capacity: float = 0.1
    natural_termination_factor: Fraction = 0.2

    def config(self) -> MonitorConfig | None:
        """The monitor's settings; None: there is no monitor."""
        if not self.enabled:
            return None
        return MonitorConfig(
            period=self.period_ms,
            wait_before_kill=self.max_wait_before_kill_ms,
            budget=self.total_per_round,
            dead_zone=self.max_ignored_over_capacity,
            natural_end=self.natural_termination_factor,
        )


class QueueUse(msgspec.Struct, kw_only=True, eq=False):
    """TempQueuePerPartition: a copy of a queue for a round. pending of a parent is its children's.

    ideal: due amount; excess: amount to be taken; obtain: amount to be taken in the round.
    """

    name: str
    guaranteed: Vector
    most: Vector
    used: Vector
    pending: Vector = ()
    pending_less_reserved: Vector = ()
    am_share: Vector = ()
    priority: int = 0
    disabled: bool = False
    kids: list[QueueUse] = []
    ideal: Vector = ()
    untouchable: Vector = ()
    takeable: Vector = ()
    excess: Vector = ()
    obtain: Vector = ()
    normal: tuple[float, ...] = ()

    def leaves(self) -> Iterator[QueueUse]:
        """The leaf queues, in order of the tree."""
        if not self.kids:
            yield self
        for kid in self.kids:
            yield from kid.leaves()


class PreemptionCandidate(msgspec.Struct, frozen=True):
    """A container open to preemption. am: application masters go last."""

    id: int
    priority: int
    demand: Vector
    am: bool = False


class Holder(msgspec.Struct, frozen=True):
    """An application's containers and reservations (node, size). Holders come newest first."""

    app: str
    containers: Sequence[PreemptionCandidate]
    reservations: Sequence[tuple[str, Vector]] = ()


class Verdict(msgspec.Struct):
    """One round: containers to mark, containers to kill, reservations (app, node) to drop."""

    marked: list[int] = []
    killed: list[int] = []
    reservations: list[tuple[str, str]] = []


Holders = Callable[[str], Iterable[Holder]]


def assess(root: QueueUse, total: Vector, rc: Calculator, config: MonitorConfig, budget: Vector) -> None:
    """PreemptableResourceCalculator.computeIdealAllocation: fills `ideal`, `excess` and `obtain` of every queue."""
    zero = (0,) * len(total)
    _sum_up(root, total, rc, zero)
    root.ideal = root.guaranteed
    _share_out(root, total, rc, budget, zero)
    for leaf in root.leaves():
        leaf.obtain = zero
        over = times(leaf.guaranteed, 1.0 + config.dead_zone)
        if not leaf.disabled and rc.compare(total, leaf.used, over) > 0:
            leaf.obtain = leaf.excess
            if rc.compare(total, leaf.excess, zero) > 0:
                leaf.obtain = rc.times_up(leaf.excess, config.natural_end, (1,) * len(zero))


def _sum_up(queue: QueueUse, total: Vector, rc: Calculator, zero: Vector) -> None:
    """TempQueuePerPartition.addChild and updatePreemptableExtras."""
    for kid in queue.kids:
        _sum_up(kid, total, rc, zero)
    if queue.kids:
        queue.pending = functools.reduce(plus, (kid.pending for kid in queue.kids), zero)
        queue.pending_less_reserved = functools.reduce(plus, (kid.pending_less_reserved for kid in queue.kids), zero)
    queue.ideal = queue.excess = queue.obtain = zero
    extra = rc.larger(total, minus(queue.used, queue.guaranteed), zero)
    if not queue.kids:
        queue.untouchable, queue.takeable = (extra, zero) if queue.disabled else (zero, extra)
        return
    below = functools.reduce(plus, (kid.takeable for kid in queue.kids), zero)
    queue.untouchable = zero if rc.compare(total, below, extra) >= 0 else minus(extra, below)
    queue.takeable = rc.smaller(total, below, extra)


def _share_out(queue: QueueUse, total: Vector, rc: Calculator, budget: Vector, zero: Vector) -> None:
    """PreemptableResourceCalculator.recursivelyComputeIdealAssignment."""
    if not queue.kids:
        return
    whole = queue.ideal
    _distribute(queue.kids, whole, rc, zero)
    needed = zero
    for kid in queue.kids:
        if rc.compare(whole, kid.used, kid.ideal) > 0:
            needed = plus(needed, minus(kid.used, kid.ideal))
    scale = single(rc.divide(whole, budget, needed)) if rc.compare(whole, needed, budget) > 0 else 1.0
    for kid in queue.kids:
        kid.excess = _excess(kid, whole, rc, scale, zero)
        _share_out(kid, total, rc, budget, zero)


def _excess(queue: QueueUse, whole: Vector, rc: Calculator, scale: float, zero: Vector) -> Vector:
    """TempQueuePerPartition.assignPreemption: use beyond the queue's ideal, never below its due."""
    due = rc.smaller(whole, plus(queue.used, queue.pending), queue.guaranteed)
    keep = rc.larger(whole, due, queue.ideal)
    return times(minus(queue.used, keep), scale) if rc.compare(whole, queue.used, keep) > 0 else zero


def _distribute(queues: list[QueueUse], whole: Vector, rc: Calculator, zero: Vector) -> None:
    """PreemptableResourceCalculator.computeIdealResourceDistribution: queues without guarantee get the rest."""
    rich = [queue for queue in queues if rc.compare(whole, queue.guaranteed, zero) > 0]
    left = _fix_point(rich, whole, whole, rc, zero, even=False)
    poor = [queue for queue in queues if rc.compare(whole, queue.guaranteed, zero) <= 0]
    if poor and rc.compare(whole, left, zero) > 0:
        _fix_point(poor, whole, left, rc, zero, even=True)


def _fix_point(
    queues: list[QueueUse], whole: Vector, left: Vector, rc: Calculator, zero: Vector, *, even: bool
) -> Vector:
    """AbstractPreemptableResourceCalculator.computeFixpointAllocation: the most under-served are offered first."""
    wanting: list[QueueUse] = []
    for queue in queues:
        over = rc.compare(whole, queue.used, queue.guaranteed) > 0
        queue.ideal = plus(queue.guaranteed, queue.untouchable) if over else queue.used
        left = minus(left, queue.ideal)
        if rc.compare(whole, queue.ideal, plus(queue.used, queue.pending)) < 0:
            wanting.append(queue)
    order = functools.cmp_to_key(functools.partial(_by_need, whole=whole, rc=rc))
    while wanting and rc.compare(whole, left, zero) > 0:
        _normalise(wanting, zero, even=even)
        wanting.sort(key=order)
        first = [queue for queue in wanting if order(queue) <= order(wanting[0])]
        wanting = wanting[len(first) :]
        given = zero
        for queue in first:
            accepted = _offer(queue, rc.times_up(left, queue.normal, (1,) * len(zero)), whole, rc, zero)
            if rc.compare(whole, accepted, zero) > 0:
                wanting.append(queue)
            given = plus(given, accepted)
        left = minus(left, given)
    return left


def _by_need(a: QueueUse, b: QueueUse, *, whole: Vector, rc: Calculator) -> int:
    """TQComparator: ideal of guarantee, then as PriorityUtilizationQueueOrderingPolicy.compare."""
    mine, other = _part(a, whole, rc), _part(b, whole, rc)
    if a.priority == b.priority or (mine < 1) != (other < 1):
        return (mine > other) - (mine < other)
    return (a.priority < b.priority) - (a.priority > b.priority)


def _part(queue: QueueUse, whole: Vector, rc: Calculator) -> float:
    if not rc.above_zero(queue.guaranteed):
        return math.inf
    return rc.divide(whole, queue.ideal, queue.guaranteed)


def _normalise(queues: list[QueueUse], zero: Vector, *, even: bool) -> None:
    """AbstractPreemptableResourceCalculator.resetCapacity: each queue's part of the wanting queues' guarantees."""
    active = functools.reduce(plus, (queue.guaranteed for queue in queues), zero)
    for queue in queues:
        if even:
            queue.normal = (single(1 / len(queues)),) * len(zero)
        else:
            queue.normal = tuple(single(g / a) if a else 0.0 for g, a in zip(queue.guaranteed, active, strict=True))


def _offer(queue: QueueUse, avail: Vector, whole: Vector, rc: Calculator, zero: Vector) -> Vector:
    """TempQueuePerPartition.offer: within its maximum and its needs; a leaf not beyond its guarantee or use."""
    accepted = rc.smaller(
        whole,
        most(minus(queue.most, queue.ideal), zero),
        rc.smaller(whole, avail, minus(plus(queue.used, queue.pending_less_reserved), queue.ideal)),
    )
    if not queue.kids:
        bound = rc.larger(whole, minus(rc.larger(whole, queue.used, queue.guaranteed), queue.ideal), zero)
        accepted = rc.smaller(whole, accepted, bound)
    queue.ideal = plus(queue.ideal, accepted)
    return accepted


class _Round:
    """FifoCandidatesSelector.selectCandidates: containers and reservations of a round, within its budget."""

    def __init__(self, total: Vector, rc: Calculator, budget: Vector) -> None:
        self._total, self._rc, self._budget = total, rc, budget
        self._zero = (0,) * len(total)
        self.containers: list[int] = []
        self.reservations: list[tuple[str, str]] = []

    def take(self, leaf: QueueUse, holders: Iterable[Holder]) -> None:
        """One leaf queue: reservations and containers of its newest applications, then masters beyond their share."""
        if self._rc.compare(self._total, leaf.obtain, self._zero) <= 0:
            return
        self._left: Vector | None = leaf.obtain
        masters: list[PreemptionCandidate] = []
        for holder in holders:
            if self._done():
                break
            self._take_from(holder, masters)
        size = functools.reduce(plus, (master.demand for master in masters), self._zero)
        for master in masters:
            if self._done() or self._rc.compare(self._total, size, leaf.am_share) <= 0:
                break
            if self._try(master.demand):
                self.containers.append(master.id)
                size = minus(size, master.demand)

    def _take_from(self, holder: Holder, masters: list[PreemptionCandidate]) -> None:
        """FifoCandidatesSelector.preemptFrom: every reservation goes, whether of use or not."""
        for node, demand in holder.reservations:
            if self._done():
                return
            self._try(demand)
            self.reservations.append((holder.app, node))
        for container in sorted(holder.containers, key=lambda c: (-c.priority, -c.id)):
            if self._done():
                return
            if container.am:
                masters.append(container)
            elif self._try(container.demand):
                self.containers.append(container.id)

    def _done(self) -> bool:
        return self._left is None

    def _try(self, demand: Vector) -> bool:
        """CapacitySchedulerPreemptionUtils.tryPreemptContainerAndDeductResToObtain: only of use, within the budget."""
        assert self._left is not None
        left = tuple(x or -1 for x in self._left)
        self._left = left
        if not self._rc.above_zero(left) or not self._rc.fits(demand, self._budget):
            return False
        after = minus(left, demand)
        if self._rc.compare(self._total, most(after, self._zero), most(left, self._zero)) >= 0:
            return False
        self._budget = minus(self._budget, demand)
        self._left = after if self._rc.compare(self._total, after, self._zero) > 0 else None
        return True


class Monitor:
    """ProportionalCapacityPreemptionPolicy: remembers since when a container is marked."""

    def __init__(self) -> None:
        self._marked: dict[int, int] = {}

    def round(
        self, root: QueueUse, total: Vector, rc: Calculator, config: MonitorConfig, now: int, holders: Holders
    ) -> Verdict:
        """containerBasedPreemptOrKill: a container is killed when chosen again long enough after its mark."""
        budget = times(total, config.budget)
        assess(root, total, rc, config, budget)
        chosen = _Round(total, rc, budget)
        for leaf in root.leaves():
            if not leaf.disabled:
                chosen.take(leaf, holders(leaf.name))
        verdict = Verdict(reservations=chosen.reservations)
        for container in chosen.containers:
            since = self._marked.get(container)
            if since is None:
                self._marked[container] = now
                verdict.marked.append(container)
            elif since + config.wait_before_kill <= now:
                del self._marked[container]
                verdict.killed.append(container)
        self._tidy(now, config)
        return verdict

    def _tidy(self, now: int, config: MonitorConfig) -> None:
        """cleanupStaledPreemptionCandidates: marks without a kill are forgotten after twice the wait."""
        self._marked = {c: since for c, since in self._marked.items() if since + 2 * config.wait_before_kill >= now}
