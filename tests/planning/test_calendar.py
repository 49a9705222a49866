"""Rayon's calendar: what is accepted and where it goes, by hand; and what holds for all requests."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.planning.rayon.calendar import Atom, Calendar, Part

Fit = Literal["latest", "earliest"]
ALL = (10,)


def gang(size: int, steps: int) -> Atom:
    return Atom(1, (size,), steps)


@pytest.mark.parametrize(("fit", "first"), [("latest", 7), ("earliest", 0)])
def test_a_gang_alone_is_as_late_or_as_early_as_its_window_allows(fit: Fit, first: int) -> None:
    calendar = Calendar(fit)
    assert calendar.reserve("a", [gang(6, 3)], 0, 10, ALL)
    assert calendar.parts["a"] == (Part(first, first + 3, (6,)),)


@pytest.mark.parametrize(("fit", "first"), [("latest", 4), ("earliest", 3)])
def test_a_gang_without_room_beside_another_goes_before_or_behind(fit: Fit, first: int) -> None:
    calendar = Calendar(fit)
    assert calendar.reserve("a", [gang(6, 3)], 0, 10, ALL)
    assert calendar.reserve("b", [gang(5, 3)], 0, 10, ALL)
    assert calendar.parts["b"] == (Part(first, first + 3, (5,)),)


def test_gangs_with_room_beside_each_other_share_their_time() -> None:
    calendar = Calendar()
    assert calendar.reserve("a", [gang(6, 3)], 0, 10, ALL)
    assert calendar.reserve("b", [gang(4, 3)], 0, 10, ALL)
    assert calendar.reserved(7) == {"a": (6,), "b": (4,)}


@pytest.mark.parametrize("atom", [gang(11, 1), gang(1, 6)], ids=["larger than the cluster", "longer than its window"])
def test_what_never_fits_is_rejected(atom: Atom) -> None:
    assert not Calendar().reserve("a", [atom], 0, 5, ALL)


def test_a_rejected_job_leaves_nothing_reserved() -> None:
    calendar = Calendar()
    assert not calendar.reserve("a", [gang(6, 3), gang(6, 3)], 0, 5, ALL)  # either alone would fit
    assert calendar.parts == {"a": ()}
    assert calendar.reserve("b", [gang(10, 5)], 0, 5, ALL)


def test_a_full_calendar_rejects_until_a_job_is_released() -> None:
    calendar = Calendar()
    assert calendar.reserve("a", [gang(6, 5)], 0, 5, ALL)
    assert not calendar.reserve("b", [gang(5, 1)], 0, 5, ALL)
    calendar.keep({"c": None})
    assert calendar.reserve("c", [gang(5, 1)], 0, 5, ALL)


@pytest.mark.parametrize(("fit", "parts"), [("latest", [(4, 7), (7, 9)]), ("earliest", [(0, 3), (3, 5)])])
def test_a_chain_is_placed_in_its_order(fit: Fit, parts: list[tuple[int, int]]) -> None:
    calendar = Calendar(fit)
    assert calendar.reserve("a", [gang(2, 3), gang(2, 2)], 0, 9, ALL)
    assert sorted((part.first, part.last) for part in calendar.parts["a"]) == parts


def test_more_tasks_than_the_cluster_holds_run_in_waves() -> None:
    calendar = Calendar("earliest")
    assert calendar.reserve("a", [Atom(25, (1,), 2)], 0, 6, ALL)
    assert calendar.parts["a"] == (Part(0, 2, (10,)), Part(2, 4, (10,)), Part(4, 6, (5,)))


def test_waves_leave_out_the_time_of_others() -> None:
    calendar = Calendar("earliest")
    assert calendar.reserve("a", [gang(10, 1)], 0, 1, ALL)
    assert calendar.reserve("b", [gang(10, 1)], 3, 4, ALL)
    assert calendar.reserve("c", [Atom(11, (1,), 2)], 0, 9, ALL)
    assert calendar.parts["c"] == (Part(1, 3, (10,)), Part(4, 6, (1,)))


REQUESTS = st.lists(
    st.tuples(
        st.lists(
            st.builds(Atom, st.integers(1, 12), st.tuples(st.integers(1, 12), st.integers(0, 9)), st.integers(1, 6)),
            min_size=1,
            max_size=3,
        ),
        st.integers(0, 10),
        st.integers(0, 30),
    ),
    max_size=12,
)


@given(REQUESTS, st.sampled_from(["latest", "earliest"]))
def test_no_step_is_promised_more_than_the_cluster_and_each_job_all_that_it_asked_for(
    requests: list[tuple[list[Atom], int, int]], fit: Fit
) -> None:
    capacity, calendar = (10, 7), Calendar(fit)
    for number, (atoms, first, length) in enumerate(requests):
        name = str(number)
        accepted = calendar.reserve(name, atoms, first, first + length, capacity)
        parts = calendar.parts[name]
        assert all(first <= part.first < part.last <= first + length for part in parts)
        got = [sum((part.last - part.first) * part.amount[i] for part in parts) for i in range(2)]
        asked = [sum(atom.gangs * atom.steps * atom.demand[i] for atom in atoms) for i in range(2)]
        assert got == (asked if accepted else [0, 0])
    for step in range(41):
        reserved = calendar.reserved(step).values()
        assert all(sum(amount[i] for amount in reserved) <= capacity[i] for i in range(2))
