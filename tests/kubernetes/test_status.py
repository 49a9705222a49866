"""Who is told to wait, and that every word of it ends when the wait does."""

from __future__ import annotations

from typing import Any

import msgspec

from operators.extender.status import StatusWriter
from schedulers.objects.dagjob import DagJob
from schedulers.objects.names import PODS_REFUSED, WAITING_CONDITION
from schedulers.objects.pod import Condition, Pod, PodStatus
from tests.kubernetes.world import World, stage


class Words:
    """What is said now, in place of a writer."""

    def __init__(self) -> None:
        self.pods: dict[str, str] = {}  # key -> reason; "" once it waits no more
        self.dagjobs: dict[str, str] = {}  # key -> reason

    def report_pod(self, pod: Pod, reason: str, message: str) -> None:
        self.pods[pod.key] = reason

    def report_released(self, pod: Pod, node: str | None) -> None:
        self.pods[pod.key] = ""

    def report_dagjob(self, key: str, *, reason: str, **_: Any) -> None:
        self.dagjobs[key] = reason

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def writer(world: World) -> tuple[StatusWriter, Words]:
    words = Words()
    teller: Any = words
    return StatusWriter(world.brain, teller), words


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
    teller, words = writer(world)
    teller.go_round()
    assert words.pods[pod.key] == "NoRoom"
    world.settle()
    assert world.lists.pods[pod.key].is_terminal
    teller.go_round()
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
    teller, words = writer(world)
    teller.go_round()
    assert (words.pods, words.dagjobs) == ({pod.key: ""}, {job.key: ""})


def test_a_job_whose_pods_cannot_be_made_says_so() -> None:
    world = World((1,))
    job = world.submit(stage("a", 1))
    teller, words = writer(world)
    teller.go_round()
    assert words.dagjobs[job.key] == "WaitsForAsk"
    status = msgspec.structs.replace(job.status, conditions=[Condition(PODS_REFUSED, "True", "Forbidden", "no")])
    world._put("DagJob", world.lists.dagjobs, DagJob(job.metadata, job.spec, status))
    teller.go_round()
    assert words.dagjobs[job.key] == "PodsRefused"
