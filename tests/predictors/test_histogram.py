"""The streaming histogram against the worked example of its paper, and its properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.kit.histogram import Histogram

VALUES = st.lists(st.floats(min_value=1, max_value=1e9), min_size=1, max_size=200)


def filled(*values: float, bins: int = 80) -> Histogram:
    made = Histogram(bins)
    for value in values:
        made.add(value)
    return made


@pytest.fixture
def worked() -> Histogram:
    return filled(23, 19, 10, 16, 36, 2, 9, 32, 30, 45, bins=5)


def test_worked_example_bins(worked: Histogram) -> None:
    assert worked.counts == [1, 2, 3, 3, 1]
    assert worked.centres == pytest.approx([2, 9.5, 19.3333, 32.6667, 45], abs=1e-4)


def test_worked_example_median_by_hive(worked: Histogram) -> None:
    assert worked.quantile(0.5) == pytest.approx(16.0556, abs=1e-4)


def test_quantile_zero_is_the_first_centre_and_one_the_last(worked: Histogram) -> None:
    assert (worked.quantile(0), worked.quantile(1)) == (2, 45)


def test_equal_values_share_a_bin() -> None:
    assert filled(10, 10, 20).counts == [2, 1]


def test_utility_known_answer() -> None:
    assert filled(10, 10, 20, 100).power_mean(-2) == pytest.approx(13.304, abs=1e-3)


def test_median_known_answer() -> None:
    assert filled(10, 10, 20, 100).median() == 15


def test_mean_known_answer() -> None:
    assert filled(10, 10, 20, 100).mean() == 35


def test_median_of_an_odd_number_is_the_middle_one() -> None:
    assert filled(3, 1, 2).median() == 2


@pytest.mark.parametrize("ask", ["mean", "median"])
def test_an_empty_histogram_has_no_middle(ask: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        getattr(Histogram(), ask)()


def test_equal_gaps_shrink_at_the_lowest_centre() -> None:
    assert filled(0, 1, 2, 3, bins=3).centres == [0.5, 2, 3]


@given(VALUES, st.integers(2, 20))
def test_count_is_the_number_of_insertions(values: list[float], bins: int) -> None:
    made = filled(*values, bins=bins)
    assert made.total == sum(made.counts) == len(values)


@given(VALUES, st.integers(2, 20))
def test_never_more_bins_than_allowed(values: list[float], bins: int) -> None:
    assert len(filled(*values, bins=bins).centres) <= bins


@given(VALUES, st.integers(2, 20))
def test_centres_ascend(values: list[float], bins: int) -> None:
    centres = filled(*values, bins=bins).centres
    assert centres == sorted(set(centres))


@given(VALUES, st.integers(2, 20))
def test_mean_is_that_of_the_values(values: list[float], bins: int) -> None:
    assert filled(*values, bins=bins).mean() == pytest.approx(sum(values) / len(values), rel=1e-9)


@given(VALUES, VALUES, st.integers(2, 20))
def test_merge_commutes(left: list[float], right: list[float], bins: int) -> None:
    one, other = filled(*left, bins=bins), filled(*right, bins=bins)
    there, back = Histogram.load(one.dump()), Histogram.load(other.dump())
    there.merge(other)
    back.merge(one)
    assert (there.counts, there.centres) == (back.counts, pytest.approx(back.centres))


@given(VALUES, VALUES)
def test_merge_of_few_values_equals_inserting_all(left: list[float], right: list[float]) -> None:
    merged = filled(*left, bins=400)
    merged.merge(filled(*right, bins=400))
    assert merged.dump() == filled(*left, *right, bins=400).dump()


@given(VALUES)
def test_utility_is_never_above_the_mean(values: list[float]) -> None:
    made = filled(*values)
    assert made.power_mean(-2) <= made.mean() * (1 + 1e-9)


@given(VALUES)
def test_dump_and_load_give_the_same(values: list[float]) -> None:
    made = filled(*values, bins=10)
    assert Histogram.load(made.dump()).dump() == made.dump()
