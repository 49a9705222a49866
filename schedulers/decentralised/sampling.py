"""Whom a scheduler asks, without knowing anything of the cluster: workers drawn at random.

Sparrow, SOSP 2013, section 3. Where more are asked for than there are: radlab/sparrow, UnconstrainedTaskPlacer.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil

from schedulers.core import keyed


def probes(ratio: float, tasks: int) -> int:
    """ceil(ratio x tasks) of the numbers as they are written: 1.1 x 50 is 55, and not a little more."""
    return ceil(Fraction(Decimal(str(ratio))) * tasks)


def spread(drawn: Sequence[str], number: int) -> list[str]:
    """So many entries over these workers, in this order: each as often as any other, the first once more."""
    whole, more = divmod(number, len(drawn))
    return [*drawn] * whole + [*drawn[:more]]


class Sampling:
    """Draws workers for a stage; keyed by job and stage, so that no draw depends on another.

    ratio: probes per task, at least 1.
    """

    def __init__(self, ratio: float, seed: int) -> None:
        self._ratio, self._seed = ratio, seed

    def together(self, job: str, stage: int, tasks: int, eligible: Sequence[str]) -> list[str]:
        """Workers that are asked for so many tasks of a stage together, distinct where there are enough."""
        number = probes(self._ratio, tasks)
        (drawn,) = self._draws("stage", job, stage, [eligible], number)
        return spread(drawn, number)

    def apart(self, job: str, stage: int, eligible: Sequence[Sequence[str]]) -> list[list[str]]:
        """For each task by itself distinct workers of those that it may use, all of them where there are too few."""
        return self._draws("task", job, stage, eligible, probes(self._ratio, 1))

    def one(self, job: str, stage: int, eligible: Sequence[Sequence[str]]) -> list[list[str]]:
        """For each task one worker of those that it may use."""
        return self._draws("task", job, stage, eligible, 1)

    def _draws(
        self, purpose: str, job: str, stage: int, eligible: Sequence[Sequence[str]], most: int
    ) -> list[list[str]]:
        draw = keyed.generator(self._seed, "probes", purpose, job, stage)
        return [
            [each[place] for place in draw.choice(len(each), min(most, len(each)), replace=False).tolist()]
            for each in eligible
        ]
