"""DRF and H-DRF: who is served, who waits and why."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Place
from schedulers.core.events import Heartbeat, JobSubmitted, NodeAdded, OfferAsked, QueueChanged, Tick
from schedulers.core.model import Queue
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


def cluster(policy: dict[str, object], *queues: Queue, cores: int = 12) -> Scheduler:
    made = scheduler(policy, node("n", cores), offers="cycle")
    for queue in queues:
        made.handle(QueueChanged(0, queue))
    return made


def served(made: Scheduler, *jobs: tuple[str, str, str]) -> dict[str, int]:
    for name, queue, user in jobs:
        made.handle(JobSubmitted(0, job(name, stage(40), queue=queue, user=user)))
    decisions = made.handle(Tick(1))
    picks = [d.job for d in decisions if isinstance(d, Place)]
    return {name: picks.count(name) for name, _, _ in jobs}


JOBS = (("j", "a", "ann"), ("k", "a", "bob"), ("l", "b", "bob"))


def test_between_queues_by_weight() -> None:
    made = cluster({"kind": "drf"}, Queue(name="a", weight=2.0), Queue(name="b"))
    assert served(made, *JOBS) == {"j": 4, "k": 4, "l": 4}


def test_between_users() -> None:
    assert served(cluster({"kind": "drf", "level": "user"}), *JOBS) == {"j": 6, "k": 3, "l": 3}


def test_between_jobs() -> None:
    assert served(cluster({"kind": "drf", "level": "job"}), *JOBS) == {"j": 4, "k": 4, "l": 4}


def test_inside_a_queue_first_come_first_served() -> None:
    assert served(cluster({"kind": "drf", "inside": "fifo"}), *JOBS) == {"j": 6, "k": 0, "l": 6}


@pytest.mark.parametrize("kind", ["drf", "hdrf"])
def test_queues_that_nobody_declared_have_weight_1(kind: str) -> None:
    assert served(cluster({"kind": kind}), *JOBS) == {"j": 3, "k": 3, "l": 6}


@pytest.mark.parametrize("kind", ["drf", "hdrf"])
def test_who_is_over_its_share_is_told_so_with_numbers(kind: str) -> None:
    made = cluster({"kind": kind}, Queue(name="a"), Queue(name="b"))
    made.handle(JobSubmitted(0, job("j", stage(40), queue="a")))
    made.handle(Tick(1))
    made.handle(JobSubmitted(2, job("l", stage(40), queue="b")))
    made.handle(NodeAdded(3, node("m", 2)))
    said = made.explain("j").reasons[0]
    assert said.reason is Reason.OVER_SHARE
    assert said.sentence.startswith("queue a holds ")
    assert "and b with 0 of cpu" in said.sentence
    assert made.explain("l").reasons[0].reason is Reason.BEHIND_OTHERS


@pytest.mark.parametrize("kind", ["drf", "hdrf"])
def test_a_filter_call_is_answered_whatever_the_shares(kind: str) -> None:
    made = cluster({"kind": kind})
    for name in "jk":
        made.handle(JobSubmitted(0, job(name, stage(4), queue=name)))
    for _ in range(3):
        decisions = made.handle(OfferAsked(1, "k", 0))
        assert [d.job for d in decisions if isinstance(d, Place)] == ["k"]


@pytest.mark.parametrize("kind", ["drf", "hdrf"])
def test_a_beat_serves_the_next_who_fits_on_its_node(kind: str) -> None:
    made = scheduler(kind, node("small", 1), node("large", 4), offers="heartbeat")
    made.handle(JobSubmitted(0, job("wide", stage(4, (2000, 1024)), queue="a")))
    made.handle(JobSubmitted(0, job("thin", stage(4), queue="b")))
    assert [d.job for d in made.handle(Heartbeat(1, "small")) if isinstance(d, Place)] == ["thin"]
    assert next(d.job for d in made.handle(Heartbeat(2, "large")) if isinstance(d, Place)) == "wide"


def test_jobs_of_an_inner_queue_share_with_the_queues_below_it() -> None:
    made = cluster({"kind": "hdrf"}, Queue(name="a"), Queue(name="a.x", parent="a"), Queue(name="b"))
    jobs = (("own", "a", ""), ("below", "a.x", ""), ("other", "b", ""))
    assert served(made, *jobs) == {"own": 3, "below": 3, "other": 6}


def test_queues_may_come_while_it_runs() -> None:
    made = cluster({"kind": "hdrf"}, cores=4)
    served(made, ("j", "a", ""), ("k", "b", ""))
    made.handle(QueueChanged(2, Queue(name="a", weight=3.0)))
    made.handle(QueueChanged(2, Queue(name="b")))
    made.handle(NodeAdded(3, node("m", 4)))
    made.handle(Tick(4))
    assert [made.state.jobs[name].running for name in "jk"] == [6, 2]
