"""Trees of queues: accounts, limits, letting in, taking away."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Hold, Place
from schedulers.core.errors import InvalidQuantity, InvalidQueue
from schedulers.core.events import (
    ContainerAdopted,
    ContainerEnded,
    ContainerObserved,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeLost,
    QueueChanged,
    QueueRemoved,
    Tick,
)
from schedulers.core.model import PerUser, Queue
from schedulers.core.policy import policies
from schedulers.core.queues import UNLIMITED, QueueTree, mistakes, parse_limit
from schedulers.core.reasons import Reason
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler

RESOURCES = Resources()


def made(*queues: Queue, policy: Any = "fifo", cores: int = 10, **config: Any) -> Scheduler:
    there = scheduler(policy, node("n", cores), offers="cycle", **config)
    for queue in queues:
        there.handle(QueueChanged(0, queue))
    return there


def submit(there: Scheduler, name: str, tasks: int = 20, **fields: Any) -> None:
    there.handle(JobSubmitted(there.state.now, job(name, stage(tasks), **fields)))


def fill(there: Scheduler) -> list[str]:
    return [d.job for d in there.handle(Tick(there.state.now + 1)) if isinstance(d, Place)]


def said(there: Scheduler, name: str) -> tuple[Reason, str]:
    first = there.explain(name).reasons[0]
    assert there.reason(there.state.jobs[name]) is first.reason
    return first.reason, first.sentence


# -- shape ----------------------------------------------------------------------------------------


def test_the_way_up_ends_at_a_missing_parent_and_in_a_cycle() -> None:
    tree = QueueTree(2)
    for name, parent in (("a", ""), ("b", "a"), ("c", "b"), ("lost", "nowhere"), ("x", "y"), ("y", "x"), ("z", "x")):
        tree.put(Queue(name=name, parent=parent))
    assert tree.up("c") == ["c", "b", "a"]
    assert tree.up("lost") == ["lost"]
    assert tree.up("x") == ["x", "y"]
    assert tree.below() == {"": ["a", "lost", "x", "y", "z"], "a": ["b"], "b": ["c"]}


def test_collapsed_weights_are_the_papers() -> None:
    """H-DRF, section 3.2."""
    tree = QueueTree(2)
    for name, parent in (("n1", ""), ("n2", ""), ("n11", "n1"), ("n21", "n2"), ("n22", "n2")):
        tree.put(Queue(name=name, parent=parent))
    assert [tree.collapsed_weight(name) for name in ("n11", "n21", "n22")] == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("value", "limit"),
    [("25%", 0.25), (0.25, 0.25), (1, 1.0), ({"cpu": "500m"}, (500, -1)), ({"memory": "1Gi", "cpu": 2}, (2000, 1024))],
)
def test_limits_are_shares_or_resources(value: Any, limit: Any) -> None:
    assert parse_limit(value, RESOURCES, UNLIMITED) == limit


@pytest.mark.parametrize("value", ["half", "120%", -0.1, 1.5, True, "1Gi"])
def test_what_is_no_limit_is_refused_with_what_is_accepted(value: Any) -> None:
    with pytest.raises(InvalidQueue, match=r"not a share of the cluster \(expected '25%', 0.25, or resources"):
        parse_limit(value, RESOURCES, UNLIMITED)


def test_a_limit_on_a_resource_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidQuantity, match="unknown resource 'gpu'"):
        parse_limit({"gpu": 1}, RESOURCES, UNLIMITED)


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (
            [Queue(name="a", guaranteed=0.5, max=0.25)],
            "max is below what is guaranteed: 25% = 2500m of cpu for 50% = 5",
        ),
        ([Queue(name="a", guaranteed=0.6), Queue(name="b", guaranteed=0.5)], "'a', 'b' are guaranteed 110% together"),
        (
            [Queue(name="a", guaranteed=(3000, 0)), Queue(name="b", parent="a", guaranteed=0.4)],
            "more than the 3 of its",
        ),
        ([Queue(name="a", max_running=0)], "expected at least 1"),
        ([Queue(name="a", weight=0.0)], "weight is 0"),
    ],
)
def test_trees_that_make_no_sense(queues: list[Queue], message: str) -> None:
    found = list(mistakes(queues, RESOURCES, (10_000, 10_240)))
    assert len(found) == 1
    assert message in found[0].message


def test_thirds_together_are_the_whole() -> None:
    thirds = [Queue(name=name, guaranteed=1 / 3) for name in "abc"]
    assert not list(mistakes(thirds, RESOURCES, (10_000, 10_240)))


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [entry.name for entry in policies])
@pytest.mark.parametrize("offers", ["cycle", "event"])
def test_no_policy_exceeds_a_limit(policy: str, offers: str) -> None:
    queues = (Queue(name="up", max=0.5), Queue(name="a", parent="up", max=(3000, -1)), Queue(name="b", parent="up"))
    there = made(*queues, policy=policy, predictor={"kind": "oracle"})
    for name in "ab":
        submit(there, name, queue=name)
    fill(there)
    assert there.state.tree.used("up") == (5000, 5120)
    assert there.state.tree.used("a")[0] <= 3000
    validate(there.state)


def test_a_limit_is_said_with_its_numbers() -> None:
    there = made(Queue(name="a", max=0.3))
    submit(there, "j", queue="a")
    assert fill(there) == ["j"] * 3
    assert said(there, "j") == (
        Reason.QUEUE_AT_LIMIT,
        "queue a holds 3 of cpu (30.0% of the cluster) and may hold 3: 1 more for stage s would be over its limit",
    )


def test_a_share_follows_the_cluster() -> None:
    there = made(Queue(name="a", max=0.3))
    submit(there, "j", queue="a")
    fill(there)
    there.handle(NodeAdded(5, node("m", 10)))
    assert fill(there) == ["j"] * 3
    there.handle(NodeLost(9, "m"))
    assert fill(there) == []


def test_each_user_has_a_limit_of_its_own() -> None:
    there = made(Queue(name="a", per_user=PerUser(limit=(2000, -1))))
    submit(there, "j", queue="a", user="ann")
    submit(there, "k", queue="a", user="ann")
    submit(there, "l", queue="a", user="bob")
    assert fill(there) == ["j", "j", "l", "l"]
    assert there.state.tree.used("a", "ann") == (2000, 2048)
    assert said(there, "k")[0] is Reason.USER_AT_LIMIT
    assert "user ann holds 2 of cpu in queue a (20.0% of the cluster), where each may hold 2" in said(there, "k")[1]


def test_what_ends_makes_room_under_a_limit() -> None:
    there = made(Queue(name="a", max=(2000, -1)))
    submit(there, "j", queue="a")
    fill(there)
    woken = there.state.journal.sizes.cursor()
    there.handle(ContainerEnded(there.state.now, 1, 0, 1))
    assert woken.read()
    assert fill(there) == ["j"]


def test_a_job_that_found_no_room_hears_of_the_limit_that_stops_it_now() -> None:
    there = made(Queue(name="a", max=(2000, -1)), cores=1)
    there.handle(ContainerObserved(0, "n", "other", (1000, 1024)))
    submit(there, "j", queue="a")
    assert there.state.jobs["j"].hold is Reason.NO_ROOM
    there.handle(NodeAdded(1, node("m", 9)))
    assert Hold("j", Reason.QUEUE_AT_LIMIT) in there.handle(Tick(2))


def test_a_lower_limit_stops_nothing_that_runs() -> None:
    there = made(Queue(name="a"))
    submit(there, "j", queue="a")
    assert len(fill(there)) == 10
    there.handle(QueueChanged(5, Queue(name="a", max=0.2)))
    assert len(there.state.containers) == 10
    for number in range(1, 9):
        there.handle(ContainerEnded(there.state.now, number, 0, 1))
        assert fill(there) == []
    there.handle(ContainerEnded(there.state.now, 9, 0, 1))
    assert fill(there) == ["j"]


def test_a_gang_larger_than_its_limit_waits_whole() -> None:
    import msgspec

    there = made(Queue(name="a", max=(3000, -1)))
    gang = msgspec.structs.replace(stage(4), gang=True)
    there.handle(JobSubmitted(0, job("g", gang, queue="a")))
    assert fill(there) == []
    assert said(there, "g") == (
        Reason.QUEUE_AT_LIMIT,
        "queue a holds 0 of cpu (0.0% of the cluster) and may hold 3: 4 more for stage s would be over its limit, "
        "even if nothing else were held: the 4 tasks of stage s start together, and the limit allows 3",
    )


def test_a_limit_that_could_never_take_a_task_is_named_before_one_that_is_full_now() -> None:
    there = made(Queue(name="a", max=(2000, -1), per_user=PerUser(limit=(3000, -1))))
    there.handle(JobSubmitted(0, job("full", stage(2), queue="a", user="u")))
    assert fill(there) == ["full", "full"]
    there.handle(JobSubmitted(1, job("large", stage(1, (3000, 0)), queue="a", user="u")))
    assert fill(there) == []
    assert there.state.jobs["large"].hold is Reason.QUEUE_AT_LIMIT
    assert said(there, "large")[1].endswith(
        "3 more for stage s would be over its limit, even if nothing else were held"
    )


def test_nonsense_is_refused() -> None:
    there = made()
    for queue in (Queue(name="a", weight=0.0), Queue(name="a", max=1.5), Queue(name="a", max=(1,))):
        with pytest.raises(InvalidQueue):
            there.handle(QueueChanged(0, queue))


# -- letting jobs in ------------------------------------------------------------------------------


def test_jobs_beyond_the_number_wait_in_order_of_submission() -> None:
    there = made(Queue(name="a", max_running=1), policy="sjf", predictor={"kind": "oracle"})
    for name in ("first", "second", "third"):
        submit(there, name, 2, queue="a")
    assert fill(there) == ["first"] * 2
    assert said(there, "third") == (
        Reason.QUEUE_FULL_OF_JOBS,
        "queue a has let in 1 job and lets in no more than 1 at once; this job comes after 1 other",
    )
    for container in (1, 2):
        there.handle(ContainerEnded(5, container, 0, 1))
    assert fill(there) == ["second"] * 2


def test_each_user_may_run_so_many_jobs() -> None:
    there = made(Queue(name="a", per_user=PerUser(max_running=1)))
    submit(there, "j", 2, queue="a", user="ann")
    submit(there, "k", 2, queue="a", user="ann")
    submit(there, "l", 2, queue="a", user="bob")
    assert fill(there) == ["j", "j", "l", "l"]
    assert said(there, "k")[0] is Reason.USER_FULL_OF_JOBS
    there.handle(JobCancelled(5, "k"))
    assert "k" not in there.state.jobs
    validate(there.state)


def test_what_runs_already_is_in_whatever_the_number_says() -> None:
    there = made(Queue(name="a", max_running=1))
    submit(there, "j", 2, queue="a")
    submit(there, "k", 2, queue="a")
    there.handle(ContainerAdopted(1, 1, "n", "k", 0, 0))
    assert there.state.jobs["k"].running == 1
    assert there.state.jobs["k"].admitted
    validate(there.state)


def test_a_higher_number_lets_the_next_in() -> None:
    there = made(Queue(name="a", max_running=1))
    for name in "jkl":
        submit(there, name, 1, queue="a")
    there.handle(QueueChanged(5, Queue(name="a", max_running=2)))
    assert fill(there) == ["j", "k"]


# -- taking queues away ---------------------------------------------------------------------------


def test_a_queue_that_is_gone_drains_and_lets_nobody_in() -> None:
    there = made(Queue(name="up"), Queue(name="a", parent="up", max=0.2))
    submit(there, "old", 3, queue="a")
    fill(there)
    there.handle(QueueRemoved(2, "up"))
    submit(there, "new", 1, queue="a")
    there.handle(ContainerEnded(3, 1, 0, 1))
    assert fill(there) == ["old"]  # goes on, under the same limit
    assert said(there, "new") == (Reason.QUEUE_GONE, "queue up was removed before the job came, and lets no job in")
    there = Scheduler.restore(there.snapshot())
    assert not there.state.jobs["new"].admitted
    there.handle(QueueChanged(9, Queue(name="up")))
    assert "new" in there.state.waiting


def test_a_queue_is_taken_away_once() -> None:
    there = made(Queue(name="a"))
    assert there.state.hear(QueueRemoved(1, "b")) == "unknown"
    assert there.state.hear(QueueRemoved(1, "a")) is None
    assert there.state.hear(QueueRemoved(1, "a")) == "duplicate"


# -- cost -----------------------------------------------------------------------------------------


def test_without_queues_nothing_is_counted() -> None:
    there = made()
    submit(there, "j", 2)
    fill(there)
    assert not list(there.state.tree.accounts())
    assert not there.state.sizes.bounds


def test_unlimited_queues_leave_sizes_alone() -> None:
    there = made(Queue(name="a"), Queue(name="b"))
    submit(there, "j", 2, queue="a")
    submit(there, "k", 2, queue="b")
    assert len(there.state.sizes.demands) == 1
    assert not there.state.sizes.bounds
