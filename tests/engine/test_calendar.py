"""Simulated time: one total order, whatever the order of entry."""

from __future__ import annotations

import pytest

from rm_emulator.engine.calendar import ARRIVE, ASK, BEAT, END, START, TICK, Calendar
from schedulers.core import keyed


def order(entries: list[tuple[int, int, int]], calendar: Calendar | None = None) -> list[tuple[int, int, int]]:
    """The order in which entries (when, rank, key) are called."""
    calendar = calendar or Calendar()
    called: list[tuple[int, int, int]] = []
    for entry in entries:
        calendar.at(*entry, called.append, entry)
    calendar.run()
    return called


def test_earlier_comes_first() -> None:
    assert order([(5, START, 0), (3, TICK, 9)]) == [(3, TICK, 9), (5, START, 0)]


def test_the_same_instant_goes_by_rank() -> None:
    ranks = [TICK, BEAT, END, START, ASK, ARRIVE]
    assert [rank for _, rank, _ in order([(1, rank, 0) for rank in ranks])] == [ARRIVE, ASK, START, END, BEAT, TICK]


def test_the_same_rank_goes_by_key() -> None:
    assert [key for _, _, key in order([(1, END, key) for key in (30, 2, 11)])] == [2, 11, 30]


def test_time_is_a_whole_number_of_milliseconds() -> None:
    calendar = Calendar()
    seen: list[int] = []
    calendar.at(7, END, 0, lambda _: seen.append(calendar.now))
    calendar.run()
    assert seen == [7]
    assert isinstance(seen[0], int)


def test_disorder_permutes_facts_of_one_instant_and_nothing_else() -> None:
    entries = [(1, END, key) for key in range(20)] + [(1, BEAT, 0), (1, TICK, 0), (0, END, 5)]
    shuffled = order(entries, Calendar(keyed.generator(1, "disorder")))
    assert sorted(shuffled) == sorted(entries)
    assert (shuffled[0], shuffled[-2:]) == ((0, END, 5), [(1, BEAT, 0), (1, TICK, 0)])
    assert [key for _, _, key in shuffled[1:-2]] != list(range(20))


def test_disorder_is_seeded() -> None:
    entries = [(1, END, key) for key in range(20)]
    first, second = (order(entries, Calendar(keyed.generator(4, "disorder"))) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("rank", "key", "expected"), [(END, 3, True), (BEAT, 2, True), (BEAT, 7, False), (TICK, 0, False)]
)
def test_whose_turn_it_is(rank: int, key: int, expected: bool) -> None:
    calendar = Calendar()
    calendar.at(0, BEAT, 5, lambda _: None)
    assert calendar.is_turn(rank, key) is expected
