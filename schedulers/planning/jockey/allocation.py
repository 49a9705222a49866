"""How many containers a job with a deadline is given: Jockey's utility and control loop (EuroSys'12, section 4.3)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Final

import msgspec

#: Utilities as near as this are equal.
_EQUAL: Final = 1e-9


class Utility(msgspec.Struct, frozen=True):
    """The worth of a job's end at a time: straight between points (time, utility), constant outside them."""

    points: tuple[tuple[float, float], ...]

    def at(self, time: float) -> float:
        """The utility of ending then."""
        times = [each for each, _ in self.points]
        place = bisect_right(times, time)
        if place == 0:
            return self.points[0][1]
        if place == len(times):
            return self.points[-1][1]
        (begin, first), (end, last) = self.points[place - 1], self.points[place]
        return first + (last - first) * (time - begin) / (end - begin)


def wanted(
    utility: Utility,
    elapsed: float,
    remaining: Sequence[float],
    allocations: Sequence[int],
    *,
    slack: float,
    dead_zone: float,
) -> int:
    """The smallest of the allocations with the best utility.

    remaining: time left by allocation, counted `slack` times. dead_zone: time added to the job's end.
    """
    worth = [utility.at(elapsed + slack * left + dead_zone) for left in remaining]
    best = max(worth)
    return min(allocation for allocation, each in zip(allocations, worth, strict=True) if each >= best - _EQUAL)


def stepped(allocation: int, to: int, alpha: float, limits: tuple[int, int]) -> int:
    """The next allocation: a part `alpha` of the way there, rounded up, inside the limits (least, most)."""
    part = Fraction(repr(alpha))  # as it is written: a tenth of 10 is 1, and not a little more
    return min(max(ceil(allocation + part * (to - allocation)), limits[0]), limits[1])
