"""How far the surprise of a job's root stages carries to its later stages: a regression for each application.

Errors of history are those of ln(mean run time). A root's error x and a later stage's error y have the covariance
matrix C. Without any job seen, C is diagonal: no surprise carries. C of all jobs is drawn to the diagonal, C of an
application's stage to C of all jobs, and C of the stage of a job's name to C of the application's, each by five
jobs: the mean of an inverse-Wishart posterior.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from schedulers.kit.history import EVERYTHING, Key

#: Jobs that the wider group's covariances are worth to a narrower group.
_STRENGTH: Final = 5.0
#: Each job's part in the sums fades by this as another comes: about the newest 20 jobs count, as in 3Sigma's average of
#: recent run times. History may err otherwise than it did when it was young.
_KEEP: Final = 1 - 1 / 20
#: Stages of applications and names that are kept; beyond, the stage unheard of for the longest time is forgotten.
_KEPT: Final = 10_000
_NAMED: Final = ("app", "job_name")


class Carry(NamedTuple):
    """What x, the error of the roots, says of y, the error of a later stage: y is `slope` * x in the mean."""

    slope: float
    unexplained: float
    """Share of the variance of y that remains when x is known, 0 to 1."""


class Surprises:
    """Sums of x^2, x*y and y^2 over jobs, by application or name and stage, and over all."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, int], list[float]] = {}

    def learn(self, keys: Sequence[Key], stage: int, x: float, y: float) -> None:
        """Hear of the errors of a finished job's roots and of one of its later stages. keys: the job's."""
        sums = self._sums
        for group in _groups(keys, stage):
            n, xx, xy, yy = (_KEEP * each for each in sums.pop(group, (0.0, 0.0, 0.0, 0.0)))
            sums[group] = [n + 1, xx + x * x, xy + x * y, yy + y * y]  # at the end, see `_KEPT`
        for group in [*islice(sums, max(0, len(sums) - _KEPT))]:
            del sums[group]

    def carry(self, keys: Sequence[Key], stage: int) -> Carry:
        """How far the roots' error carries to a later stage of a job with these keys."""
        xx, xy, yy = 1.0, 0.0, 1.0
        for group in _groups(keys, stage):
            if group in self._sums:
                n, *seen = self._sums[group]
                xx, xy, yy = ((_STRENGTH * c + s) / (_STRENGTH + n) for c, s in zip((xx, xy, yy), seen, strict=True))
        return Carry(xy / xx, max(0.0, 1 - xy * xy / (xx * yy)))

    def dump(self) -> Any:
        """Plain data for `load`."""
        return [[*group, *sums] for group, sums in self._sums.items()]

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        self._sums = {(feature, value, stage): sums for feature, value, stage, *sums in data}


def root_error(errors: Sequence[tuple[float, float]]) -> float:
    """The error of several stages together. errors: (ln of the work foreseen, error) of each, at least one."""
    most = max(work for work, _ in errors)
    before = sum(math.exp(work - most) for work, _ in errors)
    return math.log(sum(math.exp(work - most + error) for work, error in errors) / before)


def _groups(keys: Sequence[Key], stage: int) -> Iterator[tuple[str, str, int]]:
    """All jobs, then ever fewer."""
    yield *EVERYTHING, 0
    for feature in _NAMED:
        yield from ((*key, stage) for key in keys if key[0] == feature)
