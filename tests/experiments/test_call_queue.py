"""The order in which calls leave for the workers of a cluster."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("distributed")
from rm_emulator.experiments.dask_calls import CallQueue


def test_a_group_leaves_as_a_whole_and_the_largest_is_shared_at_the_end() -> None:
    waiting = CallQueue(enumerate("aaabb"))
    first, second = waiting.next(), waiting.next()
    assert (first, second) == ((0, deque([1, 2])), (3, deque([4])))
    assert waiting.next() == (2, deque())
    assert first == (0, deque([1]))
    assert second is not None
    second[1].popleft()
    assert waiting.next() == (1, deque())
    assert waiting.next() is None


def test_calls_of_no_group_leave_alone() -> None:
    waiting = CallQueue([(0, ""), (1, "")])
    assert [waiting.next() for _ in range(3)] == [(0, deque()), (1, deque()), None]


def test_a_call_does_not_join_a_group_that_has_begun() -> None:
    waiting = CallQueue([(0, "a")])
    assert waiting.next() == (0, deque())
    waiting.add(1, "a")
    assert waiting.next() == (1, deque())


@given(st.lists(st.sampled_from(["", "a", "b"])), st.integers(1, 4), st.data())
def test_every_call_leaves_once_whoever_is_quick(groups: list[str], lanes: int, data: st.DataObject) -> None:
    waiting, left, at_work = CallQueue(enumerate(groups)), list[int](), list[deque[int]]()
    while True:
        while len(at_work) < lanes and (taken := waiting.next()):
            left.append(taken[0])
            at_work.append(taken[1])
        if not at_work:
            break
        group = at_work.pop(data.draw(st.integers(0, len(at_work) - 1)))
        if group:
            left.append(group.popleft())
            at_work.append(group)
    assert sorted(left) == list(range(len(groups)))
