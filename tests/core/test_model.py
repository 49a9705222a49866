"""Jobs are DAGs of stages; everything else is refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.testing import job, stage
from schedulers.core.errors import InvalidJob
from schedulers.core.model import Stage, check_job, topological_order


def test_order_puts_parents_first() -> None:
    assert topological_order((stage(parents=(2,)), stage(parents=(0,)), stage())) == [2, 0, 1]


def test_order_takes_the_lowest_index_among_equals() -> None:
    # 2 and 3 are both ready once 0 and 1 are out; 3 became ready first.
    assert topological_order((stage(), stage(), stage(parents=(1,)), stage(parents=(0,)))) == [0, 1, 2, 3]


@given(st.lists(st.integers(0, 255), min_size=1, max_size=8))
def test_order_is_complete_and_topological(bits: list[int]) -> None:
    stages = tuple(stage(parents=tuple(p for p in range(i) if b >> p & 1)) for i, b in enumerate(bits))
    order = topological_order(stages)
    assert sorted(order) == list(range(len(stages)))
    assert all(order.index(p) < order.index(i) for i, s in enumerate(stages) for p in s.parents)


def test_a_cycle_is_named() -> None:
    with pytest.raises(InvalidJob, match="cycle: a, b"):
        topological_order((stage(name="a", parents=(1,)), stage(name="b", parents=(0,)), stage(name="c")))


def test_a_stage_is_not_its_own_parent() -> None:
    with pytest.raises(InvalidJob, match="cycle"):
        topological_order((stage(parents=(0,)),))


@pytest.mark.parametrize("parent", [-1, 1])
def test_a_parent_that_is_not_there(parent: int) -> None:
    with pytest.raises(InvalidJob, match=f"names parent {parent}, but there are 1 stages"):
        topological_order((stage(parents=(parent,)),))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (stage(0), "has 0 tasks"),
        (stage(demand=(1000,)), "2 components"),
        (stage(demand=(-1, 5)), "none below 0"),
        (stage(demand=(0, 0)), "at least one above"),
        (Stage(name="s", tasks=3, demand=(1, 1), hosts=(("a",), ("b",))), "has 3 tasks, but hosts for 2"),
    ],
)
def test_a_stage_that_cannot_be(bad: object, words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        check_job(job("j", bad), 2)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_no_share_can_be_divided_by(weight: float) -> None:
    with pytest.raises(InvalidJob, match="weight"):
        check_job(job("j", weight=weight), 2)


def test_width_is_that_of_the_widest_stage() -> None:
    assert job("j", stage(3), stage(5), stage(4)).width == 5


def test_tasks_are_counted_over_all_stages() -> None:
    assert job("j", stage(3), stage(5)).tasks == 8
