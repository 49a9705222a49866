from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.scenario.durations import parse_duration, parse_seeds, show_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("1s", 1000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1500),
        (".5s", 500),
        ("1e3", 1_000_000),
        ("1e3ms", 1000),
        ("10 s", 10_000),
        (3, 3000),
        (0.25, 250),
        (0, 0),
        ("0s", 0),
        ("0.4995s", 500),  # half up
    ],
)
def test_reads_as_whole_milliseconds(text: object, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("-5s", "negative duration: '-5s'"),
        (-1, "negative duration: -1"),
        (math.nan, "not a duration: nan"),
        (math.inf, "not a duration: inf"),
        ("5 parsecs", "unknown unit 'parsecs'"),
        ("5 sec", "did you mean 's'?"),
        ("5 min", "did you mean 'm'?"),
        ("1h30", "unknown unit ''"),
        ("soon", "not a duration: 'soon'"),
        ("", "not a duration: ''"),
        (True, "not a duration: True"),
        (None, "not a duration: None"),
        ("0.2ms", "duration too short"),
        ("99999999999d", "duration out of range"),
    ],
)
def test_refuses_with_the_value_and_what_is_accepted(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_duration(value)


@given(st.integers(min_value=0, max_value=10**12))
def test_what_is_shown_reads_as_the_same(ms: int) -> None:
    assert parse_duration(show_duration(ms)) == ms


@pytest.mark.parametrize(
    ("value", "seeds"),
    [([1, 2, 3], [1, 2, 3]), ("1..5", [1, 2, 3, 4, 5]), ("7", [7]), ("1..2,9", [1, 2, 9]), (4, [4]), ("0", [0])],
)
def test_seeds(value: object, seeds: list[int]) -> None:
    assert parse_seeds(value) == seeds


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("5..1", "empty range of seeds: '5..1'"),
        ("1-5", "not a list of seeds: '1-5'"),
        ([], "no seeds"),
        ([1, 1], "seed 1 is given twice"),
        ([1.5], "not a seed: 1.5"),
        ([-1], "negative seed: -1"),
        ("1..999999999", "too many seeds"),
        (None, "not a list of seeds: None"),
    ],
)
def test_seeds_refused(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_seeds(value)
