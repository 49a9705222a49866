"""YARN's container sizes: what an application gets for what it asks.

Follows ResourceCalculator.normalize and SchedulerUtils.normalizeRequest: at least the minimum, up to a multiple
of the step, at most the maximum. CapacityScheduler's step is its minimum; FairScheduler has an increment.
"""

from __future__ import annotations

from schedulers.yarn.vectors import Vector, rounded_up


def normalised(ask: int, minimum: int, step: int, maximum: int) -> int:
    """ResourceCalculator.normalize for one resource; a step of 0 does not round."""
    return min(rounded_up(max(ask, minimum), step), maximum)


def normalise(ask: Vector, minimum: Vector, step: Vector, maximum: Vector) -> Vector:
    """DominantResourceCalculator.normalize: every resource (Hadoop's memory calculator writes 1 vcore instead)."""
    return tuple(map(normalised, ask, minimum, step, maximum))
