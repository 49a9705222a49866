"""The CapacityScheduler with queues that come and go: use and asks move with their application."""

from __future__ import annotations

import pytest

from schedulers.yarn.capacity import CapacityConfig
from schedulers.yarn.plan_queue import PlanScheduler
from schedulers.yarn.queues import ROOT, QueueConfig
from schedulers.yarn.records import ANY, Grant


def root(**shares: float) -> QueueConfig:
    return QueueConfig(
        name=ROOT, kids=tuple(QueueConfig(name=name, capacity=share, am_share=1.0) for name, share in shares.items())
    )


@pytest.fixture
def books() -> PlanScheduler:
    """An application with three of its five containers on a node for ten."""
    made = PlanScheduler(CapacityConfig(root=root(common=1.0), calculator="dominant"))
    made.add_node("n", (10_240, 10))
    made.add_app("a", "root.common")
    made.ask("a", 10, (1024, 1), {ANY: 3})
    made.beat("n")
    made.beat("n")
    made.beat("n")
    made.ask("a", 10, (1024, 1), {ANY: 2})
    return made


def test_an_application_moves_with_its_use_and_its_asks(books: PlanScheduler) -> None:
    books.set_queues(root(common=0.5, mine=0.5))
    books.move("a", "root.mine")
    assert books.leaf("root.common").used == (0, 0)
    assert books.leaf("root.mine").used == (3072, 3)
    assert books.root.used == (3072, 3)
    assert [isinstance(action, Grant) for action in books.beat("n")] == [True]
    assert books.leaf("root.mine").used == (4096, 4)


def test_a_queue_that_goes_is_unknown_and_the_others_have_their_new_capacities(books: PlanScheduler) -> None:
    books.set_queues(root(common=0.5, mine=0.5))
    books.set_queues(root(common=1.0))
    assert not books.takes("root.mine")
    assert books.leaf("root.common").capacity == (10_240, 10)


def test_there_and_back_leaves_the_books_as_they_were(books: PlanScheduler) -> None:
    before = books.leaf("root.common").used, books.apps["a"].open
    books.set_queues(root(common=0.5, mine=0.5))
    books.move("a", "root.mine")
    books.move("a", "root.common")
    assert (books.leaf("root.common").used, books.apps["a"].open) == before
    assert books.leaf("root.mine").active == []
