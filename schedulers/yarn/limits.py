"""How much application masters and users may take of a leaf queue, with Hadoop's rounding.

Follows LeafQueue.calculateAndGetAMResourceLimit, getUserAMResourceLimit and UsersManager.computeUserLimit.
"""

from __future__ import annotations

from typing import Final

from schedulers.yarn.queues import UNKNOWN, LeafQueue
from schedulers.yarn.vectors import Calculator, Vector, divide_ceil, plus, round_up, single, times

#: Below this size of a cluster, 100 % of an amount is exactly the amount, in floats of 64 bits.
_EXACT: Final = 2**40


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
    _note_asked(leaf)
    limit = leaf.user_limit[1]
    if limit is None:
        limit = _user_limit(leaf, minimum, total, calculator)
        leaf.user_limit = (leaf.version, limit)
    return limit


def _note_asked(leaf: LeafQueue) -> None:
    """The limit of this version of the queue is asked for: users with only pending applications count as of now."""
    if leaf.user_limit[0] != leaf.version:
        leaf.user_limit = (leaf.version, None)
        leaf.only_pending = leaf.newcomers


def is_within_user_limit(leaf: LeafQueue, used: Vector, minimum: Vector, total: Vector, calculator: Calculator) -> bool:
    """Whether a use is not above the user limit."""
    # Fast path: at most as much as the limit is at least, whatever the users hold; asked for every container.
    if calculator.compare(total, used, leaf.user_floor) <= 0:
        _note_asked(leaf)
        return True
    return calculator.compare(total, used, user_limit(leaf, minimum, total, calculator)) <= 0


def bind_users(leaf: LeafQueue, minimum: Vector, total: Vector, calculator: Calculator) -> None:
    """The part of the user limit from settings and cluster alone, worked out when they change."""
    capacity = leaf.least = calculator.larger(total, leaf.capacity, minimum)
    factor = leaf.config.user_limit_factor
    leaf.user_part = _part(leaf, capacity)
    leaf.user_most = leaf.most_down if factor == -1 or not any(leaf.capacity) else times(capacity, single(factor))
    bind_floor(leaf, total, calculator)
    for user in leaf.users.values():
        user.ratio = UNKNOWN


def bind_floor(leaf: LeafQueue, total: Vector, calculator: Calculator) -> None:
    """The least possible user limit with these settings and this cluster."""
    # A user's part of 100 % is the capacity, or, once as much is in use, all use and more: never below the capacity.
    whole = leaf.config.user_limit == 100 and max(total, default=0) < _EXACT
    part = leaf.least if whole else (0,) * len(total)
    leaf.user_floor = calculator.smaller(total, part, leaf.user_most)


def _part(leaf: LeafQueue, whole: Vector) -> Vector:
    """minimum-user-limit-percent of an amount."""
    return divide_ceil(times(whole, single(leaf.config.user_limit)), 100.0)


def _user_limit(leaf: LeafQueue, minimum: Vector, total: Vector, calculator: Calculator) -> Vector:
    """UsersManager.computeUserLimit; a single pass over all users, for active and for only pending users too."""
    consumed, used, asking = 0.0, minimum, 0
    for user in leaf.users.values():
        if user.ratio == UNKNOWN:
            user.ratio = calculator.ratio(user.used, total)
        consumed += user.ratio
        if user.asking:
            used = plus(used, user.used)
            asking += 1
    current = calculator.times_up(total, single(consumed), minimum)
    part = leaf.user_part
    if calculator.compare(total, current, leaf.least) >= 0:
        part = _part(leaf, plus(current, minimum))
    limit = calculator.larger(total, divide_ceil(used, float(asking)), part)
    return round_up(calculator.smaller(total, limit, leaf.user_most), minimum)
