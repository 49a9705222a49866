"""Whom a scheduler asks, without knowing anything of the cluster: workers drawn at random.

Sparrow, SOSP 2013, section 3. Where more are asked for than there are: radlab/sparrow, UnconstrainedTaskPlacer.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np

from schedulers.core import keyed


def count_probes(ratio: float, tasks: int) -> int:
    """ceil(ratio x tasks) of the numbers as they are written: 1.1 x 50 is 55, and not a little more."""
    return ceil(Fraction(Decimal(str(ratio))) * tasks)


def spread(drawn: Sequence[str], number: int) -> list[str]:
    """`number` entries over the drawn workers, in their order: each as often as any other, the first once more."""
    whole, more = divmod(number, len(drawn))
    return [*drawn] * whole + [*drawn[:more]]


class Sampling:
    """Draws workers for a stage; keyed by job and stage, so that no draw depends on another."""

    def __init__(self, seed: int, *again: int) -> None:
        self._seed, self._again = seed, again

    def again(self, at: int) -> Sampling:
        """The draws for tasks that failed or were lost, at time `at`, ms."""
        return Sampling(self._seed, at)

    def together(self, job: str, stage: int, tasks: int, eligible: Sequence[str], ratio: float) -> list[str]:
        """Workers to ask for so many tasks of a stage together, distinct where there are enough."""
        number = count_probes(ratio, tasks)
        draw = keyed.generator(self._seed, "probes", job, stage, *self._again)
        return spread(_distinct(draw, eligible, number), number)

    def apart(self, job: str, stage: int, eligible: Sequence[Sequence[str]], number: int) -> list[list[str]]:
        """For each task by itself distinct workers among its eligible workers, all of them where there are too few."""
        draw = keyed.generator(self._seed, "probes", job, stage, *self._again)
        return [_distinct(draw, each, number) for each in eligible]


def _distinct(draw: np.random.Generator, among: Sequence[str], number: int) -> list[str]:
    places = draw.choice(len(among), min(number, len(among)), replace=False)
    return [among[place] for place in places.tolist()]
