"""Arithmetic of amounts of resources: all vectors of a cluster have its resources in one order (`Resources.names`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def fits(demand: Sequence[int], free: Sequence[int]) -> bool:
    """Whether every component of the demand is there."""
    for wanted, there in zip(demand, free):  # noqa: B905, SIM110 (strict and any() cost twice as much; the hottest line)
        if wanted > there:
            return False
    return True


def times_in(demand: Sequence[int], free: Iterable[int]) -> int:
    """Number of tasks of the demand that fit free room at once; 1 for a demand of nothing."""
    return max(0, min((there // wanted for wanted, there in zip(demand, free, strict=True) if wanted), default=1))


def dominant_share(held: Iterable[int], capacity: Iterable[int]) -> float:
    """The largest fraction of any resource (DRF, section 4.1); resources missing in the cluster count nothing."""
    largest = 0.0
    for h, c in zip(held, capacity, strict=True):  # a loop: max() of a generator costs three times as much
        if c and h / c > largest:
            largest = h / c
    return largest


def alignment(demand: Iterable[int], free: Iterable[int], capacity: Iterable[int]) -> float:
    """Fit between a demand and free room: their dot product, both as fractions of the capacity (Tetris, 3.2).

    Resources without capacity count nothing.
    """
    return sum((d / c) * (f / c) for d, f, c in zip(demand, free, capacity, strict=True) if c)
