"""What Hadoop 3.3's CapacityScheduler does, one fact each; numbers from runs of the real one."""

from __future__ import annotations

import msgspec
import pytest

from schedulers.yarn.capacity import CapacityConfig, CapacityScheduler
from schedulers.yarn.locality import LocalityDelay
from schedulers.yarn.preemption import MonitorConfig
from schedulers.yarn.queues import QueueConfig
from schedulers.yarn.records import (
    ANY,
    DropReservation,
    Grant,
    Kill,
    Level,
    Mark,
    ReserveContainer,
    Unreserve,
    Why,
)
from schedulers.yarn.vectors import Vector

GB = 1024
RACK = "/default-rack"
AM = (GB, 1)
ONE = (GB, 1)


def queue(name: str, capacity: float, **settings: object) -> QueueConfig:
    return msgspec.convert({"name": name, "capacity": capacity, **settings}, QueueConfig)


def cluster(
    *queues: QueueConfig, nodes: int = 4, size: Vector = (10 * GB, 10), **settings: object
) -> CapacityScheduler:
    root = QueueConfig(name="root", kids=queues or (QueueConfig(name="default"),))
    scheduler = CapacityScheduler(CapacityConfig(root=root, calculator="dominant", **settings))  # type: ignore[arg-type]
    for i in range(1, nodes + 1):
        scheduler.add_node(f"node{i}", size)
    return scheduler


def local(count: int, node: str = "node1") -> dict[str, int]:
    return {node: count, RACK: count, ANY: count}


def granted(actions: list[object]) -> int:
    return sum(isinstance(action, Grant) for action in actions)


@pytest.mark.parametrize(("capacity", "size", "masters"), [(0.5, 40, 2), (0.4, 50, 2), (0.6, 50, 3)])
def test_the_user_limit_on_masters_binds_before_the_queue_limit(capacity: float, size: int, masters: int) -> None:
    scheduler = cluster(queue("a", capacity), queue("b", 1 - capacity), nodes=size // 10)
    for i in range(6):
        scheduler.add_app(f"app{i}", "a", am=AM)
    leaf = scheduler.leaf("a")
    assert len(leaf.active) == masters
    refusal = scheduler.apps[f"app{masters}"].refusal
    assert refusal is not None
    assert (refusal.why, refusal.name, refusal.limit) == (Why.USER_AM_LIMIT, "default", masters * GB)


def test_one_application_always_starts() -> None:
    scheduler = cluster(queue("a", 0.01), queue("b", 0.99), nodes=1)
    scheduler.add_app("first", "a", am=(4 * GB, 4))
    scheduler.add_app("second", "a", am=AM)
    assert [app.id for app in scheduler.leaf("a").active] == ["first"]


def test_a_pending_application_starts_when_one_is_removed() -> None:
    scheduler = cluster(queue("a", 0.5), queue("b", 0.5))
    for i in range(3):
        scheduler.add_app(f"app{i}", "a", am=AM)
    scheduler.remove_app("app0")
    assert [app.id for app in scheduler.leaf("a").active] == ["app1", "app2"]


def test_a_master_is_off_switch_and_ends_the_beat() -> None:
    scheduler = cluster(queue("a", 0.5), queue("b", 0.5))
    scheduler.add_app("one", "a", am=AM)
    scheduler.add_app("two", "a", am=AM)
    first = scheduler.beat("node1")
    assert [(g.app, g.am, g.level) for g in first if isinstance(g, Grant)] == [("one", True, Level.OFF_SWITCH)]


def test_the_home_node_takes_all_it_has_room_for_in_one_beat() -> None:
    scheduler = cluster()
    scheduler.add_app("job", "default", am=AM)
    scheduler.beat("node1")
    scheduler.ask("job", 20, ONE, local(60))
    assert granted(scheduler.beat("node1")) == 9
    assert granted(scheduler.beat("node1")) == 0


def test_a_lone_job_gets_three_containers_off_its_home_in_four_seconds() -> None:
    """Four nodes, the home full: 0.75 containers a second."""
    scheduler = cluster(size=(100 * GB, 100), nodes=3)
    scheduler.add_node("home", (GB, 1))
    scheduler.add_app("job", "default")
    scheduler.ask("job", 20, ONE, local(200, "home"))
    scheduler.beat("home")
    seconds = 40
    off = sum(granted(scheduler.beat(node)) for _ in range(seconds) for node in ("home", "node1", "node2", "node3"))
    assert off / seconds == pytest.approx(0.75, abs=0.03)


def test_few_open_tasks_are_placed_at_every_beat() -> None:
    """open x 2 / nodes < missed: no wait beyond the first opportunities."""
    scheduler = cluster(nodes=4)
    scheduler.add_app("job", "default")
    scheduler.ask("job", 20, ONE, local(1))
    assert granted(scheduler.beat("node2")) == 1


def test_asks_for_any_node_never_wait_and_come_one_a_beat() -> None:
    scheduler = cluster()
    scheduler.add_app("job", "default")
    scheduler.ask("job", 20, ONE, {ANY: 12})
    assert [granted(scheduler.beat(f"node{i}")) for i in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_a_rack_is_taken_after_more_than_forty_or_as_many_as_there_are_nodes() -> None:
    scheduler = cluster(nodes=3, delay=LocalityDelay(rack_additional=1000))
    scheduler.add_app("job", "default")
    scheduler.ask("job", 20, ONE, {"elsewhere": 100, RACK: 100, ANY: 100})
    levels = [action.level for _ in range(6) for action in scheduler.offer("node2") if isinstance(action, Grant)]
    assert levels == [Level.RACK]
    assert scheduler.apps["job"].missed[20] == 2  # reset by the fourth offer, then two more


def test_a_node_with_less_than_the_minimum_counts_as_no_opportunity() -> None:
    scheduler = cluster(nodes=1, size=(512, 10))
    scheduler.add_node("node2", (10 * GB, 10))
    scheduler.add_app("job", "default")
    scheduler.ask("job", 20, ONE, local(100, "node2"))
    scheduler.beat("node1")
    assert scheduler.apps["job"].missed == {}


def test_absolute_capacities_are_cut_to_whole_units_by_way_of_floats() -> None:
    scheduler = cluster(queue("a", 0.7), queue("b", 0.3), nodes=10)
    assert scheduler.leaf("a").capacity == (71679, 69)


def test_a_lone_user_stops_one_container_above_the_capacity_of_the_queue() -> None:
    """maximum-capacity 100 % does not help: 21 of 40 cores."""
    scheduler = cluster(queue("a", 0.5), queue("b", 0.5))
    scheduler.add_app("job", "a")
    scheduler.ask("job", 20, ONE, local(60))
    for _ in range(60):
        for i in (1, 2, 3, 4):
            scheduler.beat(f"node{i}")
    assert scheduler.leaf("a").used == (21 * GB, 21)
    refusal = scheduler.apps["job"].refusal
    assert refusal is not None
    assert (refusal.why, refusal.queue, refusal.used, refusal.limit) == (Why.USER_LIMIT, "root.a", 21 * GB, 20 * GB)


def test_a_user_limit_factor_of_two_lets_one_user_past_the_capacity() -> None:
    scheduler = cluster(queue("a", 0.25, user_limit_factor=2.0), queue("b", 0.75))
    scheduler.add_app("job", "a")
    scheduler.ask("job", 20, ONE, {f"node{i}": 60 for i in (1, 2, 3, 4)} | {RACK: 60, ANY: 60})
    for _ in range(4):
        for i in (1, 2, 3, 4):
            scheduler.beat(f"node{i}")
    assert scheduler.leaf("a").used == (21 * GB, 21)


def test_no_queue_goes_beyond_its_maximum() -> None:
    scheduler = cluster(queue("a", 0.25, maximum=0.3, user_limit_factor=10.0), queue("b", 0.75))
    scheduler.add_app("job", "a")
    scheduler.ask("job", 20, ONE, local(60))
    for _ in range(10):
        scheduler.beat("node1")
        scheduler.beat("node2")
    assert scheduler.leaf("a").used == (12 * GB, 12)


def test_an_application_that_waits_for_its_node_lets_the_next_one_take_another() -> None:
    scheduler = cluster()
    scheduler.add_app("first", "default")
    scheduler.add_app("second", "default")
    scheduler.ask("first", 20, ONE, local(50))
    scheduler.ask("second", 20, ONE, local(1, "node2"))
    (grant,) = (action for action in scheduler.offer("node2") if isinstance(action, Grant))
    assert grant.app == "second"
    refusal = scheduler.apps["first"].refusal
    assert refusal is not None
    assert (refusal.why, refusal.used, refusal.limit) == (Why.LOCALITY, 1, 5)


def test_the_queue_that_uses_least_of_its_capacity_is_served_first() -> None:
    scheduler = cluster(queue("a", 0.2), queue("b", 0.8))
    for name in "ab":
        scheduler.add_app(name, name)
        scheduler.ask(name, 1, ONE, {ANY: 20})
    apps = [a.app for _ in range(5) for a in scheduler.beat("node1") if isinstance(a, Grant)]
    assert apps == ["b", "a", "b", "b", "b"]  # equal use: the larger queue first


def test_what_does_not_fit_reserves_the_node_and_counts_as_use() -> None:
    scheduler = cluster(nodes=2)
    scheduler.add_app("small", "default")
    scheduler.ask("small", 1, (6 * GB, 1), {"node1": 1, RACK: 1, ANY: 1})
    scheduler.beat("node1")
    scheduler.add_app("large", "default")
    scheduler.ask("large", 1, (8 * GB, 1), {"node1": 1, RACK: 1, ANY: 1})
    actions = scheduler.beat("node1")
    assert [type(action) for action in actions] == [ReserveContainer]
    assert scheduler.leaf("default").used == (14 * GB, 2)
    assert scheduler.beat("node1") == []  # nothing else is placed there


def crowded() -> tuple[CapacityScheduler, list[int]]:
    """Two nodes with 4 of 10 GB free each, and an application that has node1 reserved for 8."""
    scheduler = cluster(nodes=2)
    scheduler.add_app("small", "default")
    scheduler.ask("small", 1, (6 * GB, 1), {ANY: 2})
    held = [a.container for i in (1, 2) for a in scheduler.beat(f"node{i}") if isinstance(a, Grant)]
    scheduler.add_app("large", "default")
    scheduler.ask("large", 1, (8 * GB, 1), {ANY: 1})
    assert [type(action) for action in scheduler.beat("node1")] == [ReserveContainer]
    return scheduler, held


def test_a_reservation_becomes_a_container_when_room_appears() -> None:
    scheduler, held = crowded()
    scheduler.container_ended(held[0])
    (action,) = scheduler.beat("node1")
    assert isinstance(action, Grant)
    assert action.reserved
    assert scheduler.leaf("default").used == (14 * GB, 2)


def test_a_reservation_is_given_up_for_room_on_another_node() -> None:
    scheduler, held = crowded()
    scheduler.container_ended(held[1])
    assert [type(action) for action in scheduler.beat("node2")] == [Unreserve, Grant]
    assert scheduler.nodes["node1"].reservation is None


def test_a_reservation_that_nobody_needs_is_released_at_the_beat_of_its_node() -> None:
    scheduler, _ = crowded()
    scheduler.ask("large", 1, (8 * GB, 1), {ANY: 0})
    assert [type(action) for action in scheduler.beat("node1")] == [Unreserve]
    assert scheduler.leaf("default").used == (12 * GB, 2)


def test_an_ask_beyond_what_the_queue_has_left_reserves_nothing() -> None:
    scheduler = cluster(nodes=1)
    scheduler.add_app("small", "default")
    scheduler.ask("small", 1, (6 * GB, 6), {ANY: 1})
    scheduler.beat("node1")
    scheduler.add_app("large", "default")
    scheduler.ask("large", 1, (8 * GB, 8), {ANY: 1})
    assert scheduler.beat("node1") == []
    refusal = scheduler.apps["large"].refusal
    assert refusal is not None
    assert refusal.why is Why.HEADROOM


def over_limit(*, wanted: int = 20, **monitor: float) -> CapacityScheduler:
    """Queue a holds 30 of 40 slots, b has just asked for its 20."""
    settings = MonitorConfig(**monitor)  # type: ignore[arg-type]
    scheduler = cluster(queue("a", 0.5, user_limit_factor=2.0), queue("b", 0.5), monitor=settings)
    for number, count in enumerate((15, 15)):
        app = f"a{number}"
        scheduler.add_app(app, "a")
        scheduler.ask(app, 20, ONE, {f"node{i}": count for i in (1, 2, 3, 4)} | {RACK: count, ANY: count})
    for i in (1, 2, 3, 4):
        scheduler.beat(f"node{i}")
    assert scheduler.leaf("a").used == (30 * GB, 30)
    scheduler.add_app("b0", "b")
    scheduler.ask("b0", 20, ONE, {ANY: wanted})
    return scheduler


def test_the_monitor_marks_a_fifth_of_the_excess_of_the_newest_application() -> None:
    scheduler = over_limit()
    marks = scheduler.monitor(0)
    # 10 more are wanted than there are free, the budget of a round is 4, of which a fifth is taken.
    assert [type(mark) for mark in marks] == [Mark]
    assert {mark.app for mark in marks} == {"a1"}


def test_a_mark_kills_only_when_chosen_again_after_the_wait() -> None:
    scheduler = over_limit()
    seen = [(round_ * 3, type(m).__name__) for round_ in range(7) for m in scheduler.monitor(round_ * 3000)]
    assert seen[0] == (0, "Mark")
    assert [time for time, what in seen if what == "Kill"] == [15]
    assert scheduler.leaf("a").used == (29 * GB, 29)


def test_a_killed_container_frees_its_room_at_once_and_its_end_is_told_once() -> None:
    scheduler = over_limit(wait_before_kill=0, natural_end=1.0)
    scheduler.monitor(0)
    kills = [m for m in scheduler.monitor(3000) if isinstance(m, Kill)]
    assert len(kills) == 4
    assert scheduler.root.used == (26 * GB, 26)
    assert not scheduler.container_ended(kills[0].container)


def test_queues_within_the_dead_zone_are_left_alone() -> None:
    scheduler = over_limit(dead_zone=0.6)
    assert scheduler.monitor(0) == []


def test_reservations_of_the_queue_above_its_share_are_dropped_at_once() -> None:
    scheduler = over_limit(wanted=0)
    scheduler.container_ended(next(iter(scheduler.nodes["node1"].containers)))
    scheduler.ask("a1", 5, (8 * GB, 1), {ANY: 1})
    assert [type(action) for action in scheduler.beat("node1")] == [ReserveContainer]
    scheduler.ask("b0", 20, ONE, {ANY: 20})
    dropped = [measure for measure in scheduler.monitor(0) if isinstance(measure, DropReservation)]
    assert [(d.app, d.node) for d in dropped] == [("a1", "node1")]
    assert scheduler.apps["a1"].reserved == (0, 0)


def test_masters_are_taken_last() -> None:
    scheduler = cluster(
        queue("a", 0.5, user_limit_factor=2.0), queue("b", 0.5), am_share=1.0,
        monitor=MonitorConfig(natural_end=1.0, budget=1.0),
    )  # fmt: skip
    for number in range(6):
        scheduler.add_app(f"a{number}", "a", am=(4 * GB, 4))
    for i in (1, 2, 3, 4, 1, 2, 3, 4):
        scheduler.beat(f"node{i}")
    scheduler.ask("a0", 20, ONE, {f"node{i}": 6 for i in (1, 2, 3, 4)} | {RACK: 6, ANY: 6})
    for i in (1, 2, 3, 4):
        scheduler.beat(f"node{i}")
    scheduler.add_app("b0", "b")
    scheduler.ask("b0", 20, ONE, {ANY: 20})
    marked = [m.container for m in scheduler.monitor(0) if isinstance(m, Mark)]
    masters = [container for container in marked if scheduler.containers[container].am]
    plain = [c.id for c in scheduler.containers.values() if c.app == "a0" and not c.am]
    assert set(plain) <= set(marked)
    assert marked[-1:] == masters  # one, as the others are within their share


def test_settings_change_while_it_runs_but_queues_do_not() -> None:
    scheduler = cluster(queue("a", 0.5), queue("b", 0.5))
    changed = QueueConfig(name="root", kids=(queue("a", 0.2), queue("b", 0.8)))
    scheduler.configure(msgspec.structs.replace(scheduler.config, root=changed))
    assert scheduler.leaf("a").capacity == (8 * GB, 8)
    other = QueueConfig(name="root", kids=(queue("c", 1.0),))
    with pytest.raises(ValueError, match="cannot be added or removed"):
        scheduler.configure(msgspec.structs.replace(scheduler.config, root=other))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cluster(queue("a", 0.5), queue("b", 0.4)), "make 0.9, not 1"),
        (lambda: queue("a", 0.5, maximum=0.4), "maximum 0.4 below capacity 0.5"),
        (lambda: queue("a", 0.5, ordering="lifo"), "known: fifo, fair"),
        (lambda: cluster().add_app("x", "nowhere"), "no leaf queue 'nowhere' \\(known: default\\)"),
    ],
)
def test_what_makes_no_sense_is_said(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
