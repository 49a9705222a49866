"""Which jobs of a queueing run count, and whether it is long enough: later responses are not above earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

import numpy as np

from rm_emulator import api

#: Growth up to this part of the second quarter's mean is borne.
BORNE: Final = 0.05


def warm_up(jobs: int) -> int:
    """How many of the jobs of a run come first and do not count, as queues fill: a fifth."""
    return jobs // 5


def grows(quarters: Sequence[Sequence[float]]) -> bool:
    """Whether the last quarter lies above the second by more than its 95 % interval and by more than 5 %.

    quarters: per seed the mean response of each quarter of the counted jobs in their order of submission, any unit. The
    second quarter and not the first, which a warm-up cut too short would lower. One seed has no interval: 5 % alone.
    """
    growth = api.interval([last - second for _, second, _, last in quarters])
    assert growth.value is not None
    usual = fmean(second for _, second, _, _ in quarters)
    return growth.value > BORNE * usual and (growth.ci95 is None or growth.ci95[0] > 0)


def quarters(times: Sequence[float] | api.Floats) -> tuple[float, ...]:
    """Means of the quarters of what counts of a run, in its order; at least four times."""
    return tuple(float(part.mean()) for part in np.array_split(np.asarray(times, dtype=float), 4))


def marked(shown: str, of: Sequence[Sequence[float]]) -> str:
    """A cell of a table, in italics where the runs grow, so that the figure holds of their span alone. of: quarters."""
    return f"*{shown}*" if grows(of) else shown
