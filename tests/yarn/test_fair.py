"""What Hadoop 3.3's FairScheduler does, one fact each; numbers from runs of the real one and its own tests."""

from __future__ import annotations

import msgspec
import pytest

from schedulers.yarn.fair import FairConfig, FairScheduler
from schedulers.yarn.fair_queues import FairQueueConfig
from schedulers.yarn.records import ANY, Grant, Level, ReserveContainer, Unreserve, Why
from schedulers.yarn.vectors import Vector

GB = 1024
RACK = "/default-rack"
ONE = (GB, 1)


def cluster(
    *queues: FairQueueConfig, nodes: int = 4, size: Vector = (10 * GB, 10), **settings: object
) -> FairScheduler:
    root = FairQueueConfig(name="root", kids=queues)
    scheduler = FairScheduler(FairConfig(root=root, **{"policy": "drf", **settings}))  # type: ignore[arg-type]
    for i in range(1, nodes + 1):
        scheduler.add_node(f"node{i}", size)
    return scheduler


def job(scheduler: FairScheduler, name: str, queue: str, size: Vector, count: int) -> None:
    scheduler.add_app(name, queue)
    scheduler.ask(name, 20, size, {ANY: count})
    scheduler.update(0)


def granted(actions: list[object]) -> list[str]:
    return [action.app for action in actions if isinstance(action, Grant)]


def test_an_application_is_invisible_until_the_next_update() -> None:
    scheduler = cluster()
    scheduler.add_app("app", "q")
    scheduler.ask("app", 20, ONE, {ANY: 4})
    assert scheduler.beat("node1") == []
    scheduler.update(500)
    assert granted(scheduler.beat("node1")) == ["app"]


def test_one_container_per_beat_on_any_node_without_delay() -> None:
    scheduler = cluster()
    scheduler.add_app("app", "q")
    scheduler.ask("app", 20, ONE, {"node1": 9, RACK: 9, ANY: 9})
    scheduler.update(0)
    (grant,) = scheduler.beat("node3")
    assert isinstance(grant, Grant)
    assert grant.level is Level.RACK


def test_more_than_half_of_the_free_room_is_given_with_multiple_assignment() -> None:
    scheduler = cluster(multiple=True, size=(8 * GB, 8))
    job(scheduler, "app", "q", ONE, 12)
    assert len(scheduler.beat("node1")) == 5


def test_queues_are_served_by_dominant_share_over_weight() -> None:
    scheduler = cluster(FairQueueConfig(name="a", weight=3.0), FairQueueConfig(name="b"))
    for name in "ab":
        job(scheduler, name, name, ONE, 20)
    order = [app for _ in range(8) for app in granted(scheduler.beat("node1"))]
    assert sorted(order) == ["a"] * 6 + ["b"] * 2


def test_the_share_of_an_application_is_its_queue_s_divided_by_all_its_applications() -> None:
    scheduler = cluster()
    for name in ("x1", "x2"):
        job(scheduler, name, "x", ONE, 1)
    job(scheduler, "y1", "y", ONE, 1)
    assert scheduler._fair["x1"].share == (10 * GB, 10)


def full(*, threshold: float = 2.0) -> FairScheduler:
    """One node full with eight containers of queue a; the application b1 of queue b has nothing."""
    scheduler = cluster(nodes=1, size=(8 * GB, 8), reservation_multiple=threshold)
    job(scheduler, "a1", "a", ONE, 8)
    for _ in range(8):
        scheduler.beat("node1")
    return scheduler


def test_a_starved_application_reserves_a_node_for_a_large_container() -> None:
    scheduler = full()
    job(scheduler, "b1", "b", (2 * GB, 2), 1)
    assert [type(action) for action in scheduler.beat("node1")] == [ReserveContainer]
    assert scheduler.leaf("b").used == (0, 0)  # a reservation is no use


def test_a_small_container_reserves_nothing() -> None:
    scheduler = full()
    job(scheduler, "b1", "b", ONE, 1)
    assert scheduler.beat("node1") == []


@pytest.mark.parametrize(("size", "reserved"), [((GB, 3), 1), ((3 * GB, 1), 1), ((GB, 2), 0)])
def test_the_size_that_may_reserve_is_compared_by_shares_from_the_largest(size: Vector, reserved: int) -> None:
    scheduler = full()
    job(scheduler, "b1", "b", size, 1)
    assert len(scheduler.beat("node1")) == reserved


def test_an_application_at_its_share_reserves_nothing() -> None:
    scheduler = cluster(nodes=1, size=(8 * GB, 8))
    job(scheduler, "a1", "a", (4 * GB, 4), 3)
    for _ in range(2):
        scheduler.beat("node1")
    assert scheduler.beat("node1") == []


def test_nothing_else_is_placed_on_a_reserved_node_until_it_fits() -> None:
    scheduler = full()
    job(scheduler, "b1", "b", (2 * GB, 2), 1)
    scheduler.beat("node1")
    job(scheduler, "c1", "c", ONE, 1)
    ends = list(scheduler.containers)
    scheduler.container_ended(ends[0])
    assert scheduler.beat("node1") == []
    scheduler.container_ended(ends[1])
    (grant,) = scheduler.beat("node1")
    assert isinstance(grant, Grant)
    assert (grant.app, grant.reserved) == ("b1", True)


def test_a_reservation_without_open_asks_is_released_and_the_node_goes_on() -> None:
    scheduler = full()
    job(scheduler, "b1", "b", (2 * GB, 2), 1)
    scheduler.beat("node1")
    scheduler.ask("b1", 20, (2 * GB, 2), {ANY: 0})
    job(scheduler, "c1", "c", ONE, 1)
    scheduler.container_ended(next(iter(scheduler.containers)))
    actions = scheduler.beat("node1")
    assert [type(action) for action in actions] == [Unreserve, Grant]


def test_an_application_reserves_one_node_in_twenty_of_a_rack() -> None:
    scheduler = cluster(nodes=4, size=(2 * GB, 2))
    job(scheduler, "a1", "a", ONE, 8)
    for i in (1, 2, 3, 4, 1, 2, 3, 4):
        scheduler.beat(f"node{i}")
    scheduler.add_app("b1", "b")
    scheduler.ask("b1", 20, (2 * GB, 2), {"elsewhere": 4, RACK: 4, ANY: 4})
    scheduler.update(0)
    reserved = [type(action) for i in (1, 2, 3, 4) for action in scheduler.beat(f"node{i}")]
    assert reserved == [ReserveContainer]


def test_a_node_that_is_asked_for_may_be_reserved_beyond_that() -> None:
    scheduler = cluster(nodes=4, size=(2 * GB, 2))
    job(scheduler, "a1", "a", ONE, 8)
    for i in (1, 2, 3, 4, 1, 2, 3, 4):
        scheduler.beat(f"node{i}")
    scheduler.add_app("b1", "b")
    scheduler.ask("b1", 20, (2 * GB, 2), {f"node{i}": 4 for i in (1, 2, 3, 4)} | {RACK: 4, ANY: 4})
    scheduler.update(0)
    assert [len(scheduler.beat(f"node{i}")) for i in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_no_queue_goes_beyond_its_maximum_and_the_refusal_says_which() -> None:
    scheduler = cluster(FairQueueConfig(name="a", most=(3 * GB, 3)))
    job(scheduler, "app", "a", ONE, 9)
    assert [len(scheduler.beat("node1")) for _ in range(5)] == [1, 1, 1, 0, 0]
    refusal = scheduler.apps["app"].refusal
    assert refusal is not None
    assert (refusal.why, refusal.name, refusal.used, refusal.limit) == (Why.QUEUE_LIMIT, "root.a", 4 * GB, 3 * GB)


def test_masters_take_at_most_their_part_of_the_queue_s_share() -> None:
    scheduler = cluster(FairQueueConfig(name="a", am_share=0.1))
    for i in range(6):
        scheduler.add_app(f"app{i}", "a", am=ONE)
    scheduler.update(0)
    got = [app for _ in range(6) for app in granted(scheduler.beat("node1"))]
    assert got == ["app0", "app1", "app2", "app3"]
    scheduler.remove_app("app0")
    assert granted(scheduler.beat("node1")) == ["app4"]


def test_a_fifo_queue_serves_the_application_that_began_first() -> None:
    scheduler = cluster(FairQueueConfig(name="a", policy="fifo"))
    for name, start in (("late", 9), ("early", 1)):
        scheduler.add_app(name, "a", now=start)
        scheduler.ask(name, 20, ONE, {ANY: 2})
    scheduler.update(10)
    assert [app for _ in range(3) for app in granted(scheduler.beat("node1"))] == ["early", "early", "late"]


def test_queues_appear_when_an_application_names_them() -> None:
    scheduler = cluster(FairQueueConfig(name="a", most_kid=(GB, 1), kids=(FairQueueConfig(name="known"),)))
    job(scheduler, "app", "a.new", ONE, 3)
    assert [len(scheduler.beat("node1")) for _ in range(2)] == [1, 0]
    assert scheduler.leaf("a.known").most is None


def test_locality_levels_hold_for_a_part_of_the_nodes() -> None:
    scheduler = cluster(node_share=0.5, rack_share=0.5)
    scheduler.add_app("app", "q")
    scheduler.ask("app", 20, ONE, {"node1": 9, RACK: 9, ANY: 9})
    scheduler.update(0)
    assert [len(scheduler.beat("node2")) for _ in range(3)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FairQueueConfig(name="a", policy="best"), "known: fair, drf, fifo"),
        (lambda: cluster(FairQueueConfig(name="a", kids=(FairQueueConfig(name="b"),))).leaf("a"), "queues below it"),
    ],
)
def test_what_makes_no_sense_is_said(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_settings_change_while_it_runs() -> None:
    scheduler = cluster(FairQueueConfig(name="a", most=(GB, 1)))
    job(scheduler, "app", "a", ONE, 3)
    root = FairQueueConfig(name="root", kids=(FairQueueConfig(name="a", most=(2 * GB, 2)),))
    scheduler.configure(msgspec.structs.replace(scheduler.config, root=root))
    assert [len(scheduler.beat("node1")) for _ in range(3)] == [1, 1, 0]
