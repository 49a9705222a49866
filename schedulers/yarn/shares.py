"""Fair shares of a resource, and the comparators for the order of service.

Follows ...scheduler.fair.policies: ComputeFairShares, FairSharePolicy, DominantResourceFairnessPolicy, FifoPolicy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from schedulers.yarn.vectors import Vector

_STEPS: Final = 25  # ComputeFairShares.COMPUTE_FAIR_SHARES_ITERATIONS
_LONG: Final = 2**63 - 1


class Claim(msgspec.Struct, frozen=True):
    """A Schedulable of ComputeFairShares for a resource. maximum: None = no limit. active: a queue with apps."""

    minimum: int
    maximum: int | None
    weight: float
    active: bool = True

    def fixed(self) -> int | None:
        """ComputeFairShares.getFairShareIfFixed: a share independent of competition, or None."""
        if not self.active or (self.maximum is not None and self.maximum <= 0):
            return 0
        return max(self.minimum, 0) if self.weight <= 0 else None

    def at(self, ratio: float) -> int:
        """ComputeFairShares.computeShare: the share at a weight-to-resource ratio."""
        share = max(self.weight * ratio, self.minimum)
        return int(share if self.maximum is None else min(share, self.maximum))


def compute_fair_shares(claims: Sequence[Claim], total: int) -> list[int]:
    """ComputeFairShares.computeShares: weighted max-min with the right bound of 25 bisections."""
    fixed = [claim.fixed() for claim in claims]
    taken = min(sum(share for share in fixed if share is not None), _LONG)
    alike = Counter(claim for claim, share in zip(claims, fixed, strict=True) if share is None)
    ratio = _ratio(alike, total, taken)
    return [claim.at(ratio) if share is None else share for claim, share in zip(claims, fixed, strict=True)]


def _ratio(claims: Mapping[Claim, int], total: int, taken: int) -> float:
    """The weight-to-resource ratio at which the claims use the available amount. claims: each with its number."""
    limit = min(sum((_LONG if c.maximum is None else c.maximum) * count for c, count in claims.items()), _LONG)
    available = min(max(total - taken, 0), limit)
    right = 1.0
    while _used(claims, right) < available:
        right *= 2
    left = 0.0
    for _ in range(_STEPS):
        middle = (left + right) / 2
        used = _used(claims, middle)
        if used == available:
            return middle
        left, right = (middle, right) if used < available else (left, middle)
    return right


def _used(claims: Mapping[Claim, int], ratio: float) -> int:
    return min(sum([claim.at(ratio) * count for claim, count in claims.items()]), _LONG)


class Contender(msgspec.Struct):
    """Input of a comparator: a Schedulable (a queue or an application)."""

    name: str
    used: Vector
    demand: Vector
    minimum: Vector
    weight: float = 1.0
    started: int = 0
    priority: int = 0


def fair_key(a: Contender) -> tuple[Any, ...]:
    """FairShareComparator as a key: demand, need of the minimum share, use by weight (all memory), start and name.

    A weight of 0 comes after every other (compareFairShareUsage).
    """
    least = min(a.minimum[0], a.demand[0])
    needy = a.used[0] < least
    if needy:
        place = (False, a.used[0] / max(least, 1), 0)
    elif a.weight > 0:
        place = (False, a.used[0] / a.weight, 0)
    else:
        place = (True, -a.weight, a.used[0])
    return (not any(a.demand), not needy, *place, a.started, a.name)


def compare_fair(a: Contender, b: Contender, cluster: Vector) -> int:
    """FairShareComparator."""
    return _sign(fair_key(a), fair_key(b))


def ratios(used: Vector, weight: float, cluster: Vector) -> tuple[list[float], int]:
    """DominantResourceFairnessComparator2.calculateClusterAndFairRatios: shares, and the index of the dominant share.

    Ties are memory's. weight divides the shares, and never changes the dominant resource.
    """
    shares = [u / c if c else 0.0 for u, c in zip(used, cluster, strict=True)]
    dominant = max(range(len(shares)), key=lambda i: (shares[i], -i))
    return [_over(share, weight) for share in shares], dominant


def compare_drf(a: Contender, b: Contender, cluster: Vector, *, bug: bool = True) -> int:
    """DominantResourceFairnessComparator2: need of the minimum share, dominant share by weight, start, name.

    bug: Hadoop's comparator of two resources takes b's need from what *a* uses (same line on trunk in 2020);
    its comparator of more resources does not, and is used here when `bug` is off or there are more than two.
    """
    mine, first = ratios(a.used, a.weight, cluster)
    other, second = ratios(b.used, b.weight, cluster)
    a_needy = a.used[first] < a.minimum[first]
    whose = a if bug and len(cluster) == 2 else b
    b_needy = whose.used[second] < b.minimum[second]
    if a_needy != b_needy:
        return -1 if a_needy else 1
    if a_needy:
        mine = [_over(u, m) for u, m in zip(a.used, a.minimum, strict=True)]
        other = [_over(u, m) for u, m in zip(b.used, b.minimum, strict=True)]
    return _sign(_ordered(mine, first), _ordered(other, second)) or by_start(a, b)


def _ordered(shares: list[float], dominant: int) -> tuple[float, ...]:
    """The dominant share first, the others from the largest."""
    rest = sorted((s for i, s in enumerate(shares) if i != dominant), reverse=True)
    return (shares[dominant], *rest)


def compare_fifo(a: Contender, b: Contender, cluster: Vector) -> int:
    """FifoComparator: priority (the larger first), start, name."""
    return _sign(b.priority, a.priority) or by_start(a, b)


def by_start(a: Contender, b: Contender) -> int:
    """The last tie-break: the earlier start, then the name."""
    return _sign((a.started, a.name), (b.started, b.name))


def _over(x: float, y: float) -> float:
    """Java's division of doubles where the divisor may be 0."""
    return x / y if y else (float("inf") if x > 0 else 0.0)


def _sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)
