"""What holds in both schedulers whatever happens: no place twice given, limits kept, nothing left behind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulers.yarn import memory
from schedulers.yarn.capacity import CapacityConfig, CapacityScheduler
from schedulers.yarn.fair import FairConfig, FairScheduler
from schedulers.yarn.fair_queues import FairLeaf, FairParent, FairQueue, FairQueueConfig
from schedulers.yarn.limits import user_limit
from schedulers.yarn.preemption import MonitorConfig
from schedulers.yarn.queues import QueueConfig, YarnQueue
from schedulers.yarn.records import ANY, Grant, ReserveContainer, Unreserve
from schedulers.yarn.vectors import Vector, all_fit, minus, plus

GB = 1024
NODES = ("n1", "n2", "n3")
QUEUES = ("a", "b.x", "b.y")
Any_ = CapacityScheduler | FairScheduler


def capacity() -> CapacityScheduler:
    kids = (
        QueueConfig(name="x", capacity=0.3, user_limit_factor=3.0, user_limit=25),
        QueueConfig(name="y", capacity=0.7, maximum=0.8, ordering="fair"),
    )
    root = QueueConfig(
        name="root",
        kids=(
            QueueConfig(name="a", capacity=0.4, user_limit_factor=2.0),
            QueueConfig(name="b", capacity=0.6, kids=kids),
        ),
    )
    return CapacityScheduler(
        CapacityConfig(root=root, calculator="dominant", monitor=MonitorConfig(wait_before_kill=3))
    )


def fair() -> FairScheduler:
    kids = (FairQueueConfig(name="x", weight=2.0), FairQueueConfig(name="y", most=(6 * GB, 5)))
    root = FairQueueConfig(name="root", kids=(FairQueueConfig(name="a"), FairQueueConfig(name="b", kids=kids)))
    return FairScheduler(FairConfig(root=root, policy="drf", multiple=True))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), st.sampled_from(NODES)),
        st.tuples(st.just("beat"), st.sampled_from(NODES)),
        st.tuples(st.just("app"), st.sampled_from(QUEUES), st.sampled_from("uvw"), st.booleans()),
        st.tuples(
            st.just("ask"), st.integers(0, 9), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4),
            st.integers(0, 6), st.sampled_from((*NODES, ANY)),
        ),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("finish"), st.integers(0, 9)),
        st.tuples(st.just("update")),
        st.tuples(st.just("monitor")),
        st.tuples(st.just("join"), st.just("late")),
    ),
    min_size=20,
    max_size=120,
)  # fmt: skip


class Drive:
    """Applies steps; what a step names is taken modulo what is there."""

    def __init__(self, scheduler: Any_) -> None:
        self.scheduler, self.now, self.names = scheduler, 0, 0
        for node in NODES:
            scheduler.add_node(node, (8 * GB, 6), f"rack {node in ('n1', 'n2')}")

    def step(self, word: str, *args: object) -> None:
        self.now += 1
        getattr(self, word)(*args)

    def beat(self, node: str) -> None:
        if node in self.scheduler.nodes:
            self.scheduler.beat(node, self.now)

    def app(self, queue: str, user: str, master: bool) -> None:
        self.names += 1
        self.scheduler.add_app(f"app{self.names}", queue, user, now=self.now, am=(GB, 1) if master else None)

    def ask(self, which: int, priority: int, gigabytes: int, cores: int, count: int, at: str) -> None:
        apps = list(self.scheduler.apps)
        if apps and (at == ANY or at in self.scheduler.nodes):
            counts = {at: count, ANY: count}
            if at != ANY:
                counts[self.scheduler.nodes[at].rack] = count
            self.scheduler.ask(apps[which % len(apps)], priority, (gigabytes * GB, cores), counts)

    def end(self, which: int) -> None:
        held = list(self.scheduler.containers)
        if held:
            self.scheduler.container_ended(held[which % len(held)])

    def finish(self, which: int) -> None:
        apps = list(self.scheduler.apps)
        if apps:
            self.scheduler.remove_app(apps[which % len(apps)])

    def update(self) -> None:
        if isinstance(self.scheduler, FairScheduler):
            self.scheduler.update(self.now)

    def monitor(self) -> None:
        self.scheduler.monitor(self.now)

    def join(self, node: str) -> None:
        if node not in self.scheduler.nodes:
            self.scheduler.add_node(node, (8 * GB, 6), f"rack {node in ('n1', 'n2')}")


def check(scheduler: Any_) -> None:
    for node in scheduler.nodes.values():
        held = scheduler.zero
        for container in node.containers.values():
            held = plus(held, container.demand)
        assert plus(held, node.free) == node.capacity
        assert all_fit(scheduler.zero, node.free)
        kept = node.reservation
        if kept is not None:
            assert scheduler.apps[kept.app].reservations[kept.priority][node.id] is kept
    for app in scheduler.apps.values():
        used = reserved = scheduler.zero
        for container in app.containers.values():
            used = plus(used, container.demand)
        for by_node in app.reservations.values():
            for node_id, kept in by_node.items():
                assert scheduler.nodes[node_id].reservation is kept
                reserved = plus(reserved, kept.demand)
        assert (app.used, app.reserved) == (used, reserved)
        assert app.keys == sorted(app.asks)


def queues(queue: YarnQueue) -> list[YarnQueue]:
    return [queue, *(each for kid in queue.kids for each in queues(kid))]


@given(steps)
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("make", [capacity, fair])
def test_nothing_is_given_twice_and_nothing_is_left_behind(
    make: Callable[[], Any_], script: list[tuple[object, ...]]
) -> None:
    drive = Drive(make())
    for step in script:
        drive.step(*step)  # type: ignore[arg-type]
        check(drive.scheduler)
    scheduler = drive.scheduler
    for app in list(scheduler.apps):
        scheduler.remove_app(app)
    assert not scheduler.containers
    assert scheduler.root.used == scheduler.zero
    assert all(n.free == n.capacity and n.reservation is None for n in scheduler.nodes.values())
    if isinstance(scheduler, CapacityScheduler):
        assert all(each.used == each.reserved == scheduler.zero for each in queues(scheduler.root))
        assert not any(leaf.users or leaf.active or leaf.hungry or leaf.pending for leaf in scheduler.root.leaves())


@given(steps)
@settings(max_examples=50, deadline=None)
def test_capacity_limits_hold_after_every_beat(script: list[tuple[object, ...]]) -> None:
    """No queue above its maximum; who gets a container was not above the user limit before it."""
    scheduler = capacity()
    drive = Drive(scheduler)
    for step in script:
        if step[0] == "join":
            continue
        if step[0] != "beat":
            drive.step(*step)  # type: ignore[arg-type]
            continue
        beat_and_check(scheduler, str(step[1]))


def beat_and_check(scheduler: CapacityScheduler, node: str) -> None:
    for _ in range(10):
        limits = {
            leaf.path: user_limit(leaf, scheduler.minimum, scheduler.total, scheduler.rc)
            for leaf in scheduler.root.leaves()
        }
        used = {(leaf.path, name): user.used for leaf in scheduler.root.leaves() for name, user in leaf.users.items()}
        actions = scheduler.offer(node)
        if not actions:
            return
        for each in queues(scheduler.root):
            assert all_fit(each.used, each.most)
        last = actions[-1]
        app = scheduler.apps[last.app]
        spared = sum_of(action.demand for action in actions if isinstance(action, Unreserve))
        if isinstance(last, ReserveContainer) or (isinstance(last, Grant) and not last.reserved):
            before = minus(used[app.queue, app.user], spared)
            assert scheduler.rc.compare(scheduler.total, before, limits[app.queue]) <= 0


def sum_of(demands: Iterable[Vector]) -> Vector:
    return functools.reduce(plus, demands, (0, 0))


@given(steps)
@settings(max_examples=40, deadline=None)
def test_fair_maximums_hold_after_every_step(script: list[tuple[object, ...]]) -> None:
    scheduler = fair()
    drive = Drive(scheduler)
    for step in script:
        drive.step(*step)  # type: ignore[arg-type]
        for leaf in scheduler.root.leaves():
            assert all(queue.most is None or all_fit(queue.used, queue.most) for queue in leaf.chain())


@given(steps)
@settings(max_examples=50, deadline=None)
def test_remembered_shares_are_those_computed_anew(script: list[tuple[object, ...]]) -> None:
    scheduler = fair()
    drive = Drive(scheduler)
    for step in script:
        drive.step(*step)  # type: ignore[arg-type]
        if step[0] == "update":
            shares = shares_below(scheduler.root, forget=True)
            scheduler.update(drive.now)
            assert shares_below(scheduler.root) == shares


def shares_below(queue: FairQueue, *, forget: bool = False) -> list[Vector]:
    """Of the queues and applications from here down. forget: the next update computes all of them."""
    if forget:
        queue._last.clear()
    if isinstance(queue, FairLeaf):
        return [queue.share, *(each.share for each in queue.apps.values())]
    assert isinstance(queue, FairParent)
    return [queue.share, *(share for kid in queue.kids.values() for share in shares_below(kid, forget=forget))]


@given(steps)
@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("make", [capacity, fair])
def test_books_read_back_decide_as_the_others(make: Callable[[], Any_], script: list[tuple[object, ...]]) -> None:
    drive = Drive(make())
    for step in script:
        drive.step(*step)  # type: ignore[arg-type]
    books = drive.scheduler
    read = memory.load(memory.dump(books))
    check(read)
    for node in [*books.nodes] * 3:
        assert read.beat(node, drive.now) == books.beat(node, drive.now)
