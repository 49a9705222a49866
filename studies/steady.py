"""Whether a queueing run is long enough: its later responses are not above its earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rm_emulator import api

#: Growth up to this part of the second quarter's mean is borne.
BORNE: Final = 0.05


def grows(quarters: Sequence[Sequence[float]]) -> bool:
    """Whether the last quarter lies above the second by more than its 95 % interval and by more than 5 %.

    quarters: per seed the mean response of each quarter of the counted jobs in their order of submission, any unit. The
    second quarter and not the first, which a warm-up cut too short would lower. One seed has no interval: 5 % alone.
    """
    growth = api.interval([last / second - 1 for _, second, _, last in quarters])
    assert growth.value is not None
    return growth.value > BORNE and (growth.ci95 is None or growth.ci95[0] > 0)
