"""Waves: run times of a stage's tasks by position on their executor, and by the number of executors of the job.

Source: Decima (SIGCOMM 2019), section 6.2, as released in hongzimao/decima-sim.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Wave = Literal["fresh", "first", "rest"]
#: First task on an executor that is new to the job, or was idle; first of its stage on a known executor; later ones.
WAVES: Final[tuple[Wave, ...]] = ("fresh", "first", "rest")
#: Numbers of executors at which the released profiles were measured and are looked up (decima-sim:param.py).
LEVELS: Final = (5, 10, 20, 40, 50, 60, 80, 100)
TOP: Final = LEVELS[-1]


class StageRunTimes(msgspec.Struct, frozen=True):
    """Run times of the tasks of a stage as a distribution, by wave and level."""

    lists: tuple[tuple[int, ...], ...]
    """Run times at node speed 1, ms: each list is drawn from evenly, and none is empty."""
    by_wave: tuple[tuple[int, ...], ...]
    """By wave of WAVES and level of LEVELS, which of the lists holds."""


def choices(*, inverted: bool) -> list[tuple[int, int, float]]:
    """For 0..100 executors: index of the level below, index of the level above, probability of the level below."""
    made: list[tuple[int, int, float]] = []
    for executors in range(TOP + 1):
        above = next(i for i, level in enumerate(LEVELS) if level >= executors)
        if LEVELS[above] == executors or above == 0:
            made.append((above, above, 1.0))
            continue
        left, right = LEVELS[above - 1], LEVELS[above]
        # The released code takes the lower level with probability (k - L) / (R - L): the closer to the
        # upper level, the more often the lower one. Interpolation is the reverse.
        share = (executors - left) if inverted else (right - executors)
        made.append((above - 1, above, share / (right - left)))
    return made
