"""Who is told to wait, and that every word of it ends when the wait does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from operators.extender.figures import figures_of
from operators.extender.status import StatusWriter, wait_report
from schedulers.objects.dagjob import DagJob
from schedulers.objects.names import PODS_REFUSED, QUEUE_LABEL, WAITING_CONDITION
from schedulers.objects.pod import Condition, Pod, PodStatus
from tests.kubernetes.world import World, stage


class Words:
    """What is said now, in place of a writer."""

    def __init__(self) -> None:
        self.pods: dict[str, str] = {}  # key -> reason; "" once it waits no more
        self.dagjobs: dict[str, str] = {}  # key -> reason
        self.events: list[tuple[str, str]] = []  # kind, reason

    def report_pod(self, pod: Pod, reason: str, message: str) -> None:
        self.pods[pod.key] = reason

    def report_released(self, pod: Pod, node: str | None) -> None:
        self.pods[pod.key] = ""

    def report_dagjob(self, key: str, *, reason: str = "", **_: Any) -> None:
        self.dagjobs[key] = reason

    def report_event(self, kind: str, meta: Any, reason: str, message: str) -> None:
        self.events.append((kind, reason))

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def writer(world: World) -> tuple[StatusWriter, Words]:
    words = Words()
    reports: Any = words
    return StatusWriter(world.brain, reports), words


def waiting(world: World) -> tuple[DagJob, Pod]:
    """Of two jobs of one task each, the one that waits, and its pod."""
    world.submit(stage("a", 1))
    second = world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    (pod,) = world.pods_of(second)
    return second, pod


def test_a_pod_that_starts_and_ends_between_two_rounds_is_told_that_its_wait_is_over() -> None:
    world = World((1,))
    job, pod = waiting(world)
    reporter, words = writer(world)
    reporter.go_round()
    assert words.pods[pod.key] == "NoRoom"
    world.settle()
    assert world.lists.pods[pod.key].is_terminal
    reporter.go_round()
    assert (words.pods[pod.key], words.dagjobs[job.key]) == ("", "")


def test_a_new_leader_ends_what_an_earlier_one_has_said() -> None:
    world = World((1,))
    job, pod = waiting(world)
    said = [Condition(WAITING_CONDITION, "True", "NoRoom", "x")]
    world.change(pod, status=PodStatus(conditions=said))
    world.settle()
    ended = world.lists.pods[pod.key]
    world.change(ended, status=msgspec.structs.replace(ended.status, conditions=said))
    world.lists.dagjobs[job.key].status.reason = "NoRoom"
    world.new_leader()
    reporter, words = writer(world)
    reporter.go_round()
    assert (words.pods, words.dagjobs) == ({pod.key: ""}, {job.key: ""})


def test_a_job_whose_pods_cannot_be_made_says_so() -> None:
    world = World((1,))
    job = world.submit(stage("a", 1))
    reporter, words = writer(world)
    reporter.go_round()
    assert words.dagjobs[job.key] == "WaitsForAsk"
    status = msgspec.structs.replace(job.status, conditions=[Condition(PODS_REFUSED, "True", "Forbidden", "no")])
    world._put("DagJob", world.lists.dagjobs, DagJob(job.metadata, job.spec, status))
    reporter.go_round()
    assert words.dagjobs[job.key] == "PodsRefused"


def four(policy: str) -> tuple[World, list[DagJob]]:
    """Four jobs of one task each that wait on a full node, under this policy."""
    world = World((2,), policy=policy, predictor=None if policy == "fifo" else "point_estimate")
    world.submit(stage("a", 1, cpu=2))
    world.create_pods()
    world.brain.cycle()
    return world, [world.submit(stage("a", 1)) for _ in range(4)]


def told(world: World, job: DagJob) -> tuple[int | None, str]:
    entry = world.brain.jobs.of_owner(job.metadata.uid)
    assert entry is not None
    said = wait_report(world.brain, entry)
    assert said is not None
    return said.position, said.message


POLICIES = ("fifo", "tetrisched", "jockey", "graphene")


@pytest.mark.parametrize("policy", POLICIES)
def test_four_jobs_that_wait_are_numbered_from_one_to_four(policy: str) -> None:
    world, jobs = four(policy)
    world.create_pods()
    world.brain.cycle()
    assert [told(world, job)[0] for job in jobs] == [1, 2, 3, 4]
    assert ("number 2 of 4 waiting in queue default by submission" in told(world, jobs[1])[1]) == (
        policy in ("tetrisched", "graphene")
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_without_its_pods_has_no_place(policy: str) -> None:
    world, jobs = four(policy)
    assert {told(world, job)[0] for job in jobs} == {None}
    assert "number" not in told(world, jobs[0])[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_with_room_and_nobody_before_it_is_not_said_to_be_behind_nobody(policy: str) -> None:
    world = World((4,), policy=policy, predictor=None if policy == "fifo" else "point_estimate")
    jobs = [world.submit(stage("a", 1)) for _ in range(4)]
    world.create_pods()
    messages = [told(world, job)[1] for job in jobs]
    assert not any(": 0" in message or "none" in message for message in messages)
    reason = {
        "fifo": "it is next",
        "jockey": "it is next",
        "tetrisched": "the next one is made within 4 s",
        "graphene": "chosen anew",
    }
    assert reason[policy] in messages[0]


def test_jobs_outside_a_queue_that_is_full_of_jobs_are_numbered_too() -> None:
    world, jobs = four("fifo")
    world.put_queue("default", maxRunning=1)
    more = [world.submit(stage("a", 1)) for _ in range(3)]
    world.create_pods()
    world.brain.cycle()
    assert [told(world, job)[0] for job in (*jobs, *more)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_wait_is_an_event_on_the_job_and_on_few_of_its_pods() -> None:
    world = World((1,))
    world.submit(stage("a", 1))
    world.submit(stage("a", 50))
    world.create_pods()
    world.brain.cycle()
    reporter, words = writer(world)
    reporter.go_round()
    assert words.events == [("DagJob", "NoRoom"), *[("Pod", "NoRoom")] * 3]


def test_figures_of_queues_are_the_books_and_not_what_labels_say() -> None:
    world = World((4,))
    world.put_queue("above")
    world.put_queue("below", parent="above")
    job = world.submit(stage("a", 6), queue="below")
    world.create_pods()
    world.brain.cycle()
    world.write()
    world.bind()
    before = {name: each.shown() for name, each in figures_of(world.brain).items()}
    assert before["above"] == before["below"] == {"jobs": 1, "pending": 2, "running": 4, "share": "100.0%"}
    for pod in world.pods_of(job):
        pod.metadata.labels[QUEUE_LABEL] = "default"
        world.change(pod)
    assert {name: each.shown() for name, each in figures_of(world.brain).items()} == before
