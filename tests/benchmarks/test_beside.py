"""How the brain's answers beside the forecaster are held against its answers without."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.kubernetes.beside import Took, compared


def took(factor: float, pairs: int = 40, calls: int = 50) -> Took:
    """Calls of a few ms, beside the forecaster so many times longer; the CPU time is half the time until the answer."""
    draw = np.random.default_rng(1)
    sides = {side: draw.lognormal(1, 0.3, (pairs, calls)) * (factor if side else 1.0) for side in (True, False)}
    return {side: [[(ms, ms / 2) for ms in turn] for turn in turns.tolist()] for side, turns in sides.items()}


@pytest.mark.parametrize("share", [0.5, 0.99])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_the_interval_holds_the_true_ratio_and_not_much_more(factor: float, share: float) -> None:
    beside, alone, low, high = compared(took(factor), 0, share)
    assert low < factor < high < low * 1.3
    assert low < beside / alone < high


def test_cpu_time_is_compared_likewise() -> None:
    both = took(1.2)
    times, cpu = compared(both, 0, 0.99), compared(both, 1, 0.99)
    assert cpu == pytest.approx((times[0] / 2, times[1] / 2, times[2], times[3]))
