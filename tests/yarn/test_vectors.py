"""Hadoop's rounding, which differs between its two resource calculators."""

from __future__ import annotations

import pytest

from schedulers.yarn.vectors import DOMINANT, MEMORY, single


@pytest.mark.parametrize(("factor", "nearest", "ceiling"), [(25 / 45, 25, 26), (20 / 45, 20, 20), (0.51, 23, 23)])
def test_memory_alone_is_rounded_to_the_nearest_and_several_resources_up(
    factor: float, nearest: int, ceiling: int
) -> None:
    assert MEMORY.times_up((45,), single(factor), (1,)) == (nearest,)
    assert DOMINANT.times_up((45,), single(factor), (1,)) == (ceiling,)


def test_both_then_go_up_to_the_step() -> None:
    assert MEMORY.times_up((1000, 3), 0.5, (512, 1)) == (512, 2)
    assert DOMINANT.times_up((1030, 3), 0.5, (512, 1)) == (1024, 2)
