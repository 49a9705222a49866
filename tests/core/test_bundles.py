"""Bundles: what is picked, and how seldom everything is examined."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Place
from schedulers.core.events import JobSubmitted, NodeAdded, Tick
from schedulers.core.model import Job, Node, Stage
from schedulers.core.policy import policies
from schedulers.core.scheduler import Scheduler
from schedulers.core.vectors import fits
from schedulers.kit.bundles import (
    BundledOrder,
    Candidate,
    Choices,
    Room,
    enough_to_fill,
    fill_greedily,
    packed,
    pick_best,
    pick_fullest,
)
from schedulers.policies.fifo import Fifo


def candidate(demand: tuple[int, ...], tasks: int = 1) -> Candidate:
    return Candidate(SimpleNamespace(id="j"), SimpleNamespace(demand=demand, waiting=tasks, size=hash(demand)))


def room(*free: int, capacity: tuple[int, ...] | None = None) -> Room:
    spec = SimpleNamespace(capacity=capacity or free, id="n")
    there = SimpleNamespace(spec=spec, free=list(free), version=0)
    view = SimpleNamespace(
        fits=lambda stage, node: fits(stage.demand, node.free), nodes={}, capacity=free, reserves=False
    )
    return Room(view, there)


# -- picks ----------------------------------------------------------------------------------------


def test_the_best_is_the_first_of_equal_ones() -> None:
    found = [candidate((1, 1)), candidate((2, 2)), candidate((2, 2))]
    assert pick_best(found, room(4, 4), [1.0, 2.0, 2.0]) == [found[1]]


def test_the_fullest_need_not_be_greedy() -> None:
    # Greedy takes 6 of 10 and nothing more; two of 5 fill the node.
    found = [candidate((6, 6)), candidate((5, 5), 2)]
    free = (10, 10)
    assert fill_greedily(found, free, free) == [found[0]]
    assert list(pick_fullest(found, room(*free), [1.0, 0.5])) == [found[1], found[1]]


TASKS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12), st.integers(1, 4)), min_size=1, max_size=8)
FREE = st.tuples(st.integers(1, 20), st.integers(1, 20))


@given(TASKS, FREE)
def test_the_fullest_never_packs_less_than_the_greedy_one(
    tasks: list[tuple[int, int, int]], free: tuple[int, int]
) -> None:
    there = room(*free, capacity=(20, 20))
    found = [c for x, y, count in tasks if there.fits((c := candidate((x, y), count)).stage)]
    picked = pick_fullest(found, there, there.packing(found)) if found else []
    greedy = fill_greedily(found, free, (20, 20))
    assert packed(picked, free, (20, 20)) >= packed(greedy, free, (20, 20))
    assert fits([sum(c.stage.demand[r] for c in picked) for r in range(2)], free)
    assert all(sum(1 for c in picked if c is one) <= one.stage.waiting for one in found)


@given(TASKS, FREE)
def test_picking_the_best_one_by_one_is_the_greedy_one(
    tasks: list[tuple[int, int, int]], free: tuple[int, int]
) -> None:
    there, way = room(*free, capacity=(20, 20)), []
    found = [candidate((x, y), count) for x, y, count in tasks]
    greedy = fill_greedily(found, free, (20, 20))
    while left := [c for c in found if c.stage.waiting and there.fits(c.stage)]:
        (best,) = pick_best(left, there, there.packing(left))
        way.append(best)
        best.stage.waiting -= 1
        assert there.node is not None
        there.node.free[:] = [f - d for f, d in zip(there.node.free, best.stage.demand, strict=True)]
        there.node.version += 1
    assert way == greedy


def test_enough_is_what_fills_the_node_so_many_times() -> None:
    found, twice = [candidate((2, 0), 4)], enough_to_fill(2.0)
    assert twice(found, room(4, 4))
    assert not twice(found, room(5, 4))


# -- an existing order, bundled -------------------------------------------------------------------


class BundledFifo(BundledOrder, Fifo):
    """First come first served, from bundles."""


class OneByOne(BundledFifo):
    """The same, with a pass per task."""

    bundled = False


class CutFifo(BundledFifo):
    """Stops a pass when what it found fills the node."""

    choices = Choices(enough=enough_to_fill(1.0))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    list(policies)  # loads them, so that what is there before is everything
    monkeypatch.setattr(policies, "_entries", dict(policies._entries))
    for cls in (BundledFifo, OneByOne, CutFifo):
        policies.register(cls.__name__, source="a test")(cls)


def jobs(count: int = 30) -> list[Job]:
    demands = [(1000, 1024), (1000, 2048), (2000, 1024), (500, 4096)]
    return [job(f"j{i:02}", stage(2, demands[i % 4])) for i in range(count)]


def placed(kind: str) -> tuple[list[tuple[str, str]], int]:
    """What is placed where, sorted, and how many candidates were examined."""
    made: Scheduler = scheduler(kind, offers="cycle")
    for number in range(3):
        made.handle(NodeAdded(0, Node(id=f"n{number}", capacity=(6000, 12288))))
    for entry in jobs():
        made.handle(JobSubmitted(0, entry))
    decisions = made.handle(Tick(1))
    return sorted((d.job, d.node) for d in decisions if isinstance(d, Place)), getattr(made.policy, "examined", 0)


def test_a_bundled_order_places_what_the_order_does() -> None:
    assert placed("BundledFifo")[0] == placed("fifo")[0]


def test_a_bundle_examines_a_third_or_less_of_what_a_pass_per_task_does() -> None:
    (same, few), (alike, many) = placed("BundledFifo"), placed("OneByOne")
    assert same == alike
    assert 3 * few <= many


def test_a_pass_that_stops_early_examines_less_still() -> None:
    (some, few), (_, more) = placed("CutFifo"), placed("BundledFifo")
    assert some == placed("fifo")[0]
    assert few < more


def test_a_refused_candidate_is_not_asked_for_again() -> None:
    made = scheduler("BundledFifo", node("n", 4), offers="cycle")
    gang = Stage(name="g", tasks=5, demand=(1000, 1024), gang=True)
    made.handle(JobSubmitted(0, job("gang", gang)))
    made.handle(JobSubmitted(0, job("other", stage(2))))
    assert [d.job for d in made.handle(Tick(1)) if isinstance(d, Place)] == ["other", "other"]
