"""Priority queues by size: thresholds, weights, who is poorest (SLearn, section 5.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.keyed import digest, generator, uniform
from schedulers.kit.levels import Levels, LevelSettings
from schedulers.kit.ordered import Order


@pytest.mark.parametrize(
    ("size_ms", "queue"),
    [(0, 0), (999_999, 0), (1_000_000, 1), (9_999_999, 1), (1e7, 2), (5e7, 2), (1e14, 9), (9.9e13, 8)],
)
def test_the_queue_of_a_size_is_the_first_whose_bound_is_above_it(size_ms: float, queue: int) -> None:
    assert Levels(LevelSettings(), 1).of(size_ms) == queue


def test_weights_fall_by_ten_and_give_the_first_queue_nine_tenths() -> None:
    weights = Levels(LevelSettings(), 1).weights
    assert [weights[q] / weights[q + 1] for q in range(9)] == pytest.approx([10.0] * 9)
    assert weights[0] / sum(weights) == pytest.approx(0.9000000001, abs=1e-10)


def filled(used: dict[int, int]) -> Levels:
    levels = Levels(LevelSettings(queues=3), 1)
    for queue, amount in used.items():
        levels.orders[queue].put(f"j{queue}", (0,))
        levels.charge(queue, (amount,))
    return levels


def test_the_poorest_for_its_weight_is_served_first() -> None:
    assert filled({0: 50, 1: 4, 2: 1}).poorest_first((100,)) == [1, 0, 2]


def test_equal_queues_are_served_heaviest_first() -> None:
    assert filled({2: 0, 1: 0, 0: 0}).poorest_first((100,)) == [0, 1, 2]


def test_queues_without_jobs_are_not_served() -> None:
    assert filled({2: 0}).poorest_first((100,)) == [2]


def test_several_resources_count_by_dominant_share() -> None:
    levels = Levels(LevelSettings(queues=2, weight_decay=1.0), 2)
    for queue, used in ((0, (10, 0)), (1, (0, 5))):
        levels.orders[queue].put(f"j{queue}", (0,))
        levels.charge(queue, used)
    assert levels.poorest_first((100, 10)) == [0, 1]


def test_what_is_given_back_is_no_longer_charged() -> None:
    levels = filled({0: 7})
    levels.charge(0, (7,), -1)
    assert levels.used[0] == [0]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3) | st.none()), max_size=40))
def test_an_order_is_what_sorting_gives(changes: list[tuple[str, int | None]]) -> None:
    order, expected = Order(), {}
    for name, key in changes:
        if key is None:
            order.drop(name)
            expected.pop(name, None)
        else:
            order.put(name, (key,))
            expected[name] = key
    assert order.jobs() == sorted(expected, key=lambda name: (expected[name], name))


def test_draws_depend_on_their_names_alone() -> None:
    assert digest(1, "tie", "a") == digest(1, "tie", "a")
    assert len({digest(1, "tie", "a"), digest(2, "tie", "a"), digest(1, "pilots", "a"), digest(1, "tie", "b")}) == 4
    assert digest(1, "x", "ab", "c") != digest(1, "x", "a", "bc")


def test_uniform_is_below_one() -> None:
    assert all(0 <= uniform(0, "t", i) < 1 for i in range(200))


def test_generators_of_one_name_draw_the_same() -> None:
    assert generator(3, "d", "j", 1).random(4).tolist() == generator(3, "d", "j", 1).random(4).tolist()
