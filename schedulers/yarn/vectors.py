"""Vectors and Hadoop's two resource calculators, with its rounding (floats of 32 bits where Java uses them).

Follows org.apache.hadoop.yarn.util.resource: Resources, DefaultResourceCalculator, DominantResourceCalculator. Sizes of
containers (ResourceCalculator.normalize, SchedulerUtils.normalizeRequest) are at least the minimum, up to a multiple of
the step, at most the maximum: CapacityScheduler's step is its minimum, FairScheduler has an increment.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from operator import add, gt, mul, sub, truediv
from typing import Final

Vector = tuple[int, ...]

_FLOAT: Final = struct.Struct("f")
_PACK, _UNPACK = _FLOAT.pack, _FLOAT.unpack


def single(value: float) -> float:
    """The value rounded to Java's `float`."""
    held: float = _UNPACK(_PACK(value))[0]
    return held


# Two resources are the rule, and nothing else is asked as often: unrolled, here and in DominantCalculator.


def plus(a: Vector, b: Vector) -> Vector:
    """Resources.add."""
    if len(a) == 2:
        return (a[0] + b[0], a[1] + b[1])
    return tuple(map(add, a, b))


def minus(a: Vector, b: Vector) -> Vector:
    """Resources.subtract."""
    if len(a) == 2:
        return (a[0] - b[0], a[1] - b[1])
    return tuple(map(sub, a, b))


def times(a: Vector, factor: float) -> Vector:
    """Resources.multiply and multiplyAndRoundDown: fractions are cut off."""
    return tuple(int(x * factor) for x in a)


def least(a: Vector, b: Vector) -> Vector:
    """Resources.componentwiseMin."""
    return tuple(map(min, a, b))


def most(a: Vector, b: Vector) -> Vector:
    """Resources.componentwiseMax."""
    return tuple(map(max, a, b))


def all_fit(small: Vector, big: Vector) -> bool:
    """Resources.fitsIn without a calculator: every component."""
    return not any(map(gt, small, big))


def rounded_up(value: int, step: int) -> int:
    """ResourceCalculator.roundUp; a step of 0 leaves the value alone."""
    return -(-value // step) * step if step else value


def rounded_down(value: int, step: int) -> int:
    """ResourceCalculator.roundDown; a step of 0 leaves the value alone."""
    return value // step * step if step else value


def times_down(a: Vector, factor: float, step: Vector) -> Vector:
    """Resources.multiplyAndNormalizeDown."""
    return tuple(rounded_down(int(x * factor), s) for x, s in zip(a, step, strict=True))


def round_up(a: Vector, step: Vector) -> Vector:
    """Resources.roundUp."""
    return tuple(map(rounded_up, a, step)) if any(step) else a


def round_down(a: Vector, step: Vector) -> Vector:
    """Resources.roundDown."""
    return tuple(map(rounded_down, a, step)) if any(step) else a


def divide_ceil(a: Vector, by: float) -> Vector:
    """Resources.divideAndCeil: 0 when divided by 0."""
    return tuple([math.ceil(x / by) for x in a]) if by else (0,) * len(a)


def normalised(ask: int, minimum: int, step: int, maximum: int) -> int:
    """ResourceCalculator.normalize for one resource; a step of 0 does not round."""
    return min(rounded_up(max(ask, minimum), step), maximum)


def normalise(ask: Vector, minimum: Vector, step: Vector, maximum: Vector) -> Vector:
    """DominantResourceCalculator.normalize: every resource (Hadoop's memory calculator writes 1 vcore instead)."""
    return tuple(map(normalised, ask, minimum, step, maximum))


class Calculator:
    """ResourceCalculator: how two vectors compare. The base class is DefaultResourceCalculator: memory alone counts."""

    def compare(self, cluster: Vector, a: Vector, b: Vector, *, largest_only: bool = False) -> int:
        """-1, 0 or 1. largest_only: look at the dominant resource alone (`singleType`)."""
        return (a[0] > b[0]) - (a[0] < b[0])

    def fits(self, small: Vector, big: Vector) -> bool:
        """Resources.fitsIn with this calculator."""
        return small[0] <= big[0]

    def divide(self, cluster: Vector, a: Vector, b: Vector) -> float:
        """ResourceCalculator.divide: how many times b is in a."""
        return a[0] / b[0] if b[0] else 0.0

    def ratio(self, a: Vector, b: Vector) -> float:
        """ResourceCalculator.ratio, a float."""
        return single(a[0] / b[0]) if b[0] else 0.0

    def above_zero(self, a: Vector) -> bool:
        """ResourceCalculator.isAnyMajorResourceAboveZero."""
        return a[0] > 0

    def larger(self, cluster: Vector, a: Vector, b: Vector) -> Vector:
        """Resources.max: either vector, whole."""
        return a if self.compare(cluster, a, b) >= 0 else b

    def smaller(self, cluster: Vector, a: Vector, b: Vector) -> Vector:
        """Resources.min: either vector, whole."""
        return a if self.compare(cluster, a, b) <= 0 else b

    def times_up(self, a: Vector, factors: float | Sequence[float], step: Vector) -> Vector:
        """ResourceCalculator.multiplyAndNormalizeUp: the nearest whole number here, then up to the step."""
        by = [factors] * len(a) if isinstance(factors, float) else factors
        return round_up(tuple(map(self._whole, map(mul, a, by))), step)

    def _whole(self, product: float) -> int:
        return int(product + 0.5)

    def scarcest(self, used: Vector, limit: Vector) -> int:
        """The index of the resource closest to (or furthest beyond) a limit; for sentences, not in Hadoop."""
        return 0


class DominantCalculator(Calculator):
    """DominantResourceCalculator: the largest share of the cluster decides, ties go to the next largest."""

    def compare(self, cluster: Vector, a: Vector, b: Vector, *, largest_only: bool = False) -> int:
        """See Calculator."""
        if a == b:
            return 0
        if len(cluster) != 2 or not (cluster[0] and cluster[1]):
            if all(cluster):
                return by_shares(cluster, a, b, largest_only=largest_only)
            return self._without_cluster(cluster, a, b)
        mine, less = a[0] / cluster[0], a[1] / cluster[1]
        if mine < less:
            mine, less = less, mine
        other, least = b[0] / cluster[0], b[1] / cluster[1]
        if other < least:
            other, least = least, other
        if mine != other:
            return 1 if mine > other else -1
        return 0 if largest_only else (less > least) - (less < least)

    def _without_cluster(self, cluster: Vector, a: Vector, b: Vector) -> int:
        """Resources missing in the cluster do not count; with none at all the components decide."""
        present = [i for i, c in enumerate(cluster) if c]
        if present:
            pick = tuple(cluster[i] for i in present)
            return self.compare(pick, tuple(a[i] for i in present), tuple(b[i] for i in present))
        if all_fit(b, a):
            return 1
        return -1 if all_fit(a, b) else 0

    def fits(self, small: Vector, big: Vector) -> bool:
        """See Calculator."""
        if len(small) == 2:
            return small[0] <= big[0] and small[1] <= big[1]
        return not any(map(gt, small, big))

    def divide(self, cluster: Vector, a: Vector, b: Vector) -> float:
        """See Calculator."""
        of = largest_share(b, cluster)
        return largest_share(a, cluster) / of if of else 0.0

    def ratio(self, a: Vector, b: Vector) -> float:
        """See Calculator."""
        return single(largest_share(a, b))

    def above_zero(self, a: Vector) -> bool:
        """See Calculator."""
        return any(x > 0 for x in a)

    def _whole(self, product: float) -> int:
        """The ceiling of the product as a float of 32 bits, unlike in DefaultResourceCalculator."""
        return math.ceil(single(product))

    def scarcest(self, used: Vector, limit: Vector) -> int:
        """See Calculator."""
        parts = [u / bound if bound else math.inf * u or 0.0 for u, bound in zip(used, limit, strict=True)]
        return parts.index(max(parts))


def largest_share(a: Vector, cluster: Vector) -> float:
    """The dominant share, of the resources that the cluster has."""
    if len(cluster) == 2 and cluster[0] and cluster[1]:
        one, other = a[0] / cluster[0], a[1] / cluster[1]
        return one if one >= other else other
    return max((x / c for x, c in zip(a, cluster, strict=True) if c), default=0.0)


def by_shares(cluster: Vector, a: Vector, b: Vector, *, largest_only: bool) -> int:
    """DominantResourceCalculator.compare of shares of a cluster that has all resources: the largest first."""
    mine = sorted(map(truediv, a, cluster), reverse=True)
    other = sorted(map(truediv, b, cluster), reverse=True)
    if largest_only:
        del mine[1:], other[1:]
    return (mine > other) - (mine < other)


MEMORY: Final = Calculator()
DOMINANT: Final = DominantCalculator()
#: By the names of the configuration.
CALCULATORS: Final[dict[str, Calculator]] = {"memory": MEMORY, "dominant": DOMINANT}
