"""The limits that are offered: few, ascending, never less than what gives an executor, never more than there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.learned.limits import candidates


@pytest.mark.parametrize(
    ("least", "executors", "expected"),
    [
        (1, 50, (1, 2, 3, 4, 5, 9, 18, 38, 50)),
        (5, 50, (5, 9, 18, 38, 50)),
        (33, 40, (33, 38, 40)),
        (50, 50, (50,)),
        (51, 50, ()),
        (40, 200, (40, 50, 75, 112, 168, 200)),
    ],
)
def test_limits_are_the_least_then_steps_then_all(least: int, executors: int, expected: tuple[int, ...]) -> None:
    assert candidates(least, executors) == expected


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_limits_ascend_from_the_least_to_all(least: int, executors: int) -> None:
    found = candidates(least, executors)
    assert list(found) == sorted(set(found))
    assert not found if least > executors else (found[0], found[-1]) == (least, executors)
