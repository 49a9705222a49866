"""How much application masters and users may take of a leaf queue, with Hadoop's rounding.

Follows LeafQueue.calculateAndGetAMResourceLimit, getUserAMResourceLimit and UsersManager.computeUserLimit.
"""

from __future__ import annotations

from schedulers.yarn.queues import LeafQueue
from schedulers.yarn.vectors import Calculator, Vector, divide_ceil, plus, round_up, single, times


def am_limit(leaf: LeafQueue, minimum: Vector, calculator: Calculator) -> Vector:
    """LeafQueue.calculateAndGetAMResourceLimitPerPartition: of the queue's possible use, of its capacity at least."""
    of = leaf.am_basis if calculator.fits(leaf.capacity, leaf.am_basis) else leaf.capacity
    return calculator.times_up(of, leaf.am_share, minimum)


def user_am_limit(
    leaf: LeafQueue, minimum: Vector, total: Vector, calculator: Calculator, queue_limit: Vector
) -> Vector:
    """LeafQueue.getUserAMResourceLimitPerPartition: the same part of the capacity as the user limit, never more."""
    users = max(active_users(leaf), 1)
    part = min(max(single(leaf.config.user_limit / 100), single(1 / users)), 1.0)
    by = single(single(leaf.am_share * part) * single(leaf.config.user_limit_factor))
    return calculator.smaller(total, calculator.times_up(leaf.capacity, by, minimum), queue_limit)


def active_users(leaf: LeafQueue) -> int:
    """UsersManager.getNumActiveUsers: with open asks; as of the last user limit, with only pending apps."""
    return sum(1 for user in leaf.users.values() if user.asking) + leaf.only_pending


def user_limit(leaf: LeafQueue, minimum: Vector, total: Vector, calculator: Calculator) -> Vector:
    """UsersManager.getComputedResourceLimitForActiveUsers: the same for every user, as all weights are 1.

    Kept until the queue's version changes.
    """
    version, limit = leaf.user_limit
    if version != leaf.version:
        limit = _user_limit(leaf, minimum, total, calculator)
        leaf.user_limit = (leaf.version, limit)
    return limit


def bind_users(leaf: LeafQueue, minimum: Vector, total: Vector, calculator: Calculator) -> None:
    """The part of the user limit from settings and cluster alone, worked out when they change."""
    capacity = leaf.least = calculator.larger(total, leaf.capacity, minimum)
    factor = leaf.config.user_limit_factor
    leaf.user_part = _part(leaf, capacity)
    leaf.user_most = leaf.most_down if factor == -1 or not any(leaf.capacity) else times(capacity, single(factor))
    for user in leaf.users.values():
        user.ratio = calculator.ratio(user.used, total)


def _part(leaf: LeafQueue, whole: Vector) -> Vector:
    """minimum-user-limit-percent of an amount."""
    return divide_ceil(times(whole, single(leaf.config.user_limit)), 100.0)


def _user_limit(leaf: LeafQueue, minimum: Vector, total: Vector, calculator: Calculator) -> Vector:
    """UsersManager.computeUserLimit; a single pass over all users, for active and for only pending users too."""
    consumed, used, asking, only_pending = 0.0, minimum, 0, 0
    for user in leaf.users.values():
        consumed += user.ratio
        if user.asking:
            used = plus(used, user.used)
            asking += 1
        if user.pending and not user.active:
            only_pending += 1
    leaf.only_pending = only_pending
    current = calculator.times_up(total, single(consumed), minimum)
    part = leaf.user_part
    if calculator.compare(total, current, leaf.least) >= 0:
        part = _part(leaf, plus(current, minimum))
    limit = calculator.larger(total, divide_ceil(used, float(asking)), part)
    return round_up(calculator.smaller(total, limit, leaf.user_most), minimum)
