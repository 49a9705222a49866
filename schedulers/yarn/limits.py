"""How much application masters and users may take of a leaf queue, with Hadoop's rounding.

Follows LeafQueue.calculateAndGetAMResourceLimit, getUserAMResourceLimit and UsersManager.computeUserLimit.
"""

from __future__ import annotations

from schedulers.yarn.queues import Leaf, User
from schedulers.yarn.vectors import Calculator, Vector, divide_ceil, plus, round_up, single, times


def am_limit(leaf: Leaf, minimum: Vector, calculator: Calculator) -> Vector:
    """LeafQueue.calculateAndGetAMResourceLimitPerPartition: of what the queue can use, of its capacity at least."""
    of = leaf.am_basis if calculator.fits(leaf.capacity, leaf.am_basis) else leaf.capacity
    return calculator.times_up(of, leaf.am_share, minimum)


def user_am_limit(leaf: Leaf, minimum: Vector, total: Vector, calculator: Calculator, queue_limit: Vector) -> Vector:
    """LeafQueue.getUserAMResourceLimitPerPartition: the same part of the capacity as the user limit, never more."""
    users = max(active_users(leaf), 1)
    part = min(max(single(leaf.config.user_limit / 100), single(1 / users)), 1.0)
    by = single(single(leaf.am_share * part) * single(leaf.config.user_limit_factor))
    return calculator.smaller(total, calculator.times_up(leaf.capacity, by, minimum), queue_limit)


def active_users(leaf: Leaf) -> int:
    """UsersManager.getNumActiveUsers: with open asks; as of the last user limit, with only pending apps."""
    return sum(1 for user in leaf.users.values() if user.asking) + leaf.only_pending


def user_limit(leaf: Leaf, minimum: Vector, total: Vector, calculator: Calculator) -> Vector:
    """UsersManager.getComputedResourceLimitForActiveUsers: the same for every user, as all weights are 1.

    Kept until the queue's version changes.
    """
    version, limit = leaf.user_limit
    if version != leaf.version:
        limit = _user_limit(leaf, minimum, total, calculator)
        leaf.user_limit = (leaf.version, limit)
        leaf.only_pending = sum(1 for user in leaf.users.values() if user.pending and not user.active)
    return limit


def _ratio(user: User, total: Vector, calculator: Calculator) -> float:
    """What a user holds of the cluster. Most hold what they held when it was asked last, with the same calculator."""
    used, of, ratio = user.ratio
    if user.used is not used or total is not of:
        ratio = calculator.ratio(user.used, total)
        user.ratio = (user.used, total, ratio)
    return ratio


def _user_limit(leaf: Leaf, minimum: Vector, total: Vector, calculator: Calculator) -> Vector:
    """UsersManager.computeUserLimit."""
    capacity = calculator.larger(total, leaf.capacity, minimum)
    ratio = single(sum([_ratio(user, total, calculator) for user in leaf.users.values()]))
    consumed = calculator.times_up(total, ratio, minimum)
    current = capacity if calculator.compare(total, consumed, capacity) < 0 else plus(consumed, minimum)
    asking = [user for user in leaf.users.values() if user.asking]
    used = minimum
    for user in asking:
        used = plus(used, user.used)
    limit = calculator.larger(
        total,
        divide_ceil(used, float(len(asking))),
        divide_ceil(times(current, single(leaf.config.user_limit)), 100.0),
    )
    factor = leaf.config.user_limit_factor
    most = leaf.most_down if factor == -1 or not any(leaf.capacity) else times(capacity, single(factor))
    return round_up(calculator.smaller(total, limit, most), minimum)
