"""The full record of why a job waits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.events import ContainerEnded, JobCancelled, JobSubmitted, NodeAdded, NodeRemoved
from schedulers.core.explain import Explanation
from schedulers.core.model import Node, Stage
from schedulers.core.places import Places, Requirement
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


@pytest.fixture
def mixed() -> Scheduler:
    """A full node, one too small, one short of memory, one that leaves; job a fills them, b waits."""
    made = scheduler(
        "fifo",
        node("full", 2),
        Node(id="small", capacity=(500, 9000)),
        Node(id="lean", capacity=(4000, 2048)),
        node("leaving", 2),
    )
    made.handle(JobSubmitted(0, job("a", stage(6, (1000, 1024)))))
    made.handle(NodeRemoved(1, "leaving"))
    made.handle(JobSubmitted(2, job("b", stage(2, (1000, 1024)), stage(parents=(0,), name="reduce"), name="etl")))
    return made


def codes(explanation: Explanation) -> list[Reason]:
    return [because.reason for because in explanation.reasons]


def test_excluded_nodes_are_counted_by_why_and_add_up(mixed: Scheduler) -> None:
    excluded = mixed.explain("b").stages[0].excluded
    assert excluded == {"lack cpu and memory": 1, "too small": 1, "lack memory": 1, "draining": 1}
    assert sum(excluded.values()) == len(mixed.state.nodes)


def test_the_sentence_says_what_is_missing_where(mixed: Scheduler) -> None:
    assert mixed.explain("b").reasons[0].sentence == (
        "no node has 1 cpu and 1Gi memory free (1 draining, 1 lack cpu and memory, 1 lack memory, 1 too small; "
        "the nearest has 2 cpu and 0 memory free)"
    )


def test_the_reason_that_was_said_comes_first_and_then_what_later_stages_wait_for(mixed: Scheduler) -> None:
    assert codes(mixed.explain("b")) == [Reason.NO_ROOM, Reason.WAITS_FOR_STAGE]
    assert mixed.state.jobs["b"].hold is Reason.NO_ROOM


@pytest.fixture
def full() -> Scheduler:
    """Two nodes of 4 CPUs and 4 GiB: one has 3 CPUs and 1 GiB left, the other 1 CPU and 2 GiB; b wants more of both."""
    made = scheduler("fifo", Node(id="x", capacity=(4000, 4096)), Node(id="y", capacity=(4000, 4096)))
    made.handle(JobSubmitted(0, job("a", stage(1, (1000, 3072)))))
    made.handle(JobSubmitted(0, job("c", stage(1, (3000, 2048)))))
    made.handle(JobSubmitted(1, job("b", stage(1, (4000, 3072)))))
    return made


def test_all_resources_that_a_node_lacks_are_named(full: Scheduler) -> None:
    assert full.explain("b").stages[0].excluded == {"lack cpu and memory": 2}


def test_what_is_free_on_the_nearest_node_is_told(full: Scheduler) -> None:
    assert full.explain("b").reasons[0].sentence == (
        "no node has 4 cpu and 3Gi memory free (2 lack cpu and memory; the nearest has 3 cpu and 1Gi memory free)"
    )


def test_code_and_numbers_of_a_reason_say_the_scarce_resource(mixed: Scheduler) -> None:
    reason = mixed.explain("b").reasons[0]
    assert reason.reason is Reason.NO_ROOM
    assert (reason.data["demand"], reason.data["scarce"]) == ("1 cpu and 1Gi memory", "cpu")


def test_where_it_stands_is_told(mixed: Scheduler) -> None:
    explanation = mixed.explain("b")
    assert (explanation.at, explanation.submitted, explanation.running, explanation.waiting) == (2, 2, 0, 2)


def test_a_stage_behind_a_barrier_names_the_stage_before_it() -> None:
    made = scheduler("fifo", node("n", 9))
    made.handle(JobSubmitted(0, job("a", stage(3, name="map"), stage(parents=(0,), name="reduce"))))
    made.handle(ContainerEnded(1, 1, 0, 1))
    assert [because.sentence for because in made.explain("a").reasons] == ["waits for stage map (2 of 3 tasks left)"]


def test_a_task_too_large_for_every_node_even_while_one_leaves() -> None:
    made = scheduler("fifo", node("n"), node("m"))
    made.handle(JobSubmitted(0, job("a")))
    made.handle(NodeRemoved(1, "n"))
    made.handle(JobSubmitted(2, job("b", stage(demand=(5000, 0)))))
    explanation = made.explain("b")
    assert codes(explanation) == [made.state.jobs["b"].hold] == [Reason.TOO_LARGE]
    assert explanation.reasons[0].sentence == (
        "stage s asks for 5 cpu, more than any of the 2 nodes has in all; the nearest has 1 cpu"
    )


def in_zone(zone: str, demand: tuple[int, int] = (1000, 0)) -> Stage:
    return replace(stage(demand=demand), places=Places(((Requirement("zone", "In", (zone,)),),)))


@pytest.fixture
def zones() -> Scheduler:
    """A node of 1 CPU in zone a, one of 4 in zone b."""
    return scheduler("fifo", node("small", 1, labels={"zone": "a"}), node("large", 4, labels={"zone": "b"}))


def test_a_stage_that_may_use_no_node_is_not_said_to_ask_for_too_much(zones: Scheduler) -> None:
    zones.handle(JobSubmitted(0, job("a", in_zone("c"))))
    explanation = zones.explain("a")
    assert codes(explanation) == [zones.state.jobs["a"].hold] == [Reason.NO_NODE_MATCHES]
    assert explanation.reasons[0].sentence == (
        "stage s may use none of the 2 nodes (2 with other labels); it asks for nodes with zone in (c)"
    )


def test_a_stage_too_large_for_the_nodes_that_it_may_use_names_only_these(zones: Scheduler) -> None:
    zones.handle(JobSubmitted(0, job("a", in_zone("a", (2000, 0)))))
    explanation = zones.explain("a")
    assert codes(explanation) == [zones.state.jobs["a"].hold] == [Reason.TOO_LARGE]
    assert explanation.reasons[0].sentence == (
        "stage s asks for 2 cpu, more than the one node that it may use has in all: 1 cpu"
    )


def test_two_resources_that_no_node_has_together_are_told_beside_the_nearest_node() -> None:
    made = scheduler("fifo", Node(id="x", capacity=(8000, 1024)), Node(id="y", capacity=(2000, 8192)))
    made.handle(JobSubmitted(0, job("a", stage(demand=(8000, 8192)))))
    assert made.explain("a").reasons[0].sentence == (
        "stage s asks for 8 cpu and 8Gi memory, more than any of the 2 nodes has in all; "
        "the nearest has 2 cpu and 8Gi memory"
    )


def test_a_stage_that_may_use_no_node_starts_when_one_comes(zones: Scheduler) -> None:
    zones.handle(JobSubmitted(0, job("a", in_zone("c"))))
    zones.handle(NodeAdded(1, node("third", 1, labels={"zone": "c"})))
    assert zones.state.jobs["a"].running == 1


def test_without_nodes() -> None:
    made = scheduler("fifo")
    made.handle(JobSubmitted(0, job("a")))
    assert made.explain("a").reasons[0].sentence == "the cluster has no node that takes containers"


def test_with_room_elsewhere_a_heartbeat_is_waited_for() -> None:
    made = scheduler("fifo", node("n"), offers="heartbeat")
    made.handle(JobSubmitted(0, job("a")))
    assert made.explain("a").reasons[0].data == {"nodes": 1}


def test_in_cycles_those_before_it_are_named() -> None:
    made = scheduler("fifo", node("n", 9), offers="cycle")
    for name in ("a", "b", "c"):
        made.handle(JobSubmitted(0, job(name)))
    data = made.explain("c").reasons[0].data
    assert (data["ahead"], data["first"]) == (2, "a")
    assert data["turn"] == "2 jobs are served before it, the first is a"
    assert made.explain("a").reasons[0].sentence == "there is room for it, and it is next"


def test_nothing_holds_back_a_job_that_has_all_it_wants() -> None:
    made = scheduler("fifo", node("n"))
    made.handle(JobSubmitted(0, job("a")))
    assert made.explain("a").reasons == ()


def test_nothing_of_a_cancelled_job_waits() -> None:
    made = scheduler("fifo", node("n"))
    made.handle(JobSubmitted(0, job("a", stage(4))))
    made.handle(JobCancelled(1, "a"))
    assert made.explain("a").reasons == ()


def test_not_asked_for() -> None:
    made = scheduler("fifo", node("n"))
    made.handle(JobSubmitted(0, job("a", stage(name="map")), asks="asked"))
    assert made.explain("a").reasons[0].sentence == "the tasks of stage map have not been asked for yet"


def test_pilots_are_waited_for_and_the_queue_is_told() -> None:
    made = scheduler(
        {"kind": "gs", "work_conserving": False}, node("n", 9), predictor={"kind": "slearn", "fixed_percent": 40}
    )
    made.handle(JobSubmitted(0, job("a", stage(5))))
    explanation = made.explain("a")
    assert explanation.reasons[0].sentence == "waits for its pilot tasks (2 of 2 left)"
    assert explanation.about == {"queue": None}


def test_the_estimate_is_told_with_its_source() -> None:
    made = scheduler("gs", node("n"), predictor={"kind": "three_sigma", "default_task_ms": 500})
    made.handle(JobSubmitted(0, job("a", stage(4))))
    explanation = made.explain("a")
    assert (explanation.size_ms, explanation.size_source) == (2000.0, "default")
