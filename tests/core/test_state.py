"""The state: what facts do to it, which it ignores, and what is impossible."""

from __future__ import annotations

import msgspec
import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Hold, Move, Place, Preempt, Release, Run
from schedulers.core.errors import InvalidJob, InvalidTransition
from schedulers.core.events import (
    ContainerEnded,
    ContainerExpired,
    ContainerObserved,
    ContainerStarted,
    Estimated,
    Heartbeat,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    NodesRefused,
    PilotsNamed,
    QueueChanged,
    StageWithdrawn,
    TaskEnded,
    Tick,
)
from schedulers.core.log import Ignored, Log, parse
from schedulers.core.memory import dump
from schedulers.core.model import Node, Queue
from schedulers.core.predictor import SamplePlan
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


def placed(decisions: list) -> list[tuple[str, int, int]]:
    return [(d.job, d.stage, d.task) for d in decisions if isinstance(d, Place | Run | Move)]


@pytest.fixture
def one() -> Scheduler:
    """One core, job a of two tasks: container 1 holds a/0/0."""
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a", stage(2))))
    return made


# -- repeated and late facts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "fact",
    [
        NodeAdded(9, node()),
        JobSubmitted(9, job("a")),
        JobChanged(9, "a", (0,)),
        ContainerStarted(9, 1),
        ContainerStarted(9, 77),
        ContainerEnded(9, 77),
        ContainerExpired(9, 1),
        ContainerExpired(9, 77),
        NodeLost(9, "gone"),
        NodeRemoved(9, "gone"),
        NodeChanged(9, node("gone")),
        JobChanged(9, "gone", (0,)),
        StageWithdrawn(9, "gone", 0),
        JobCancelled(9, "gone"),
        ContainerObserved(9, "gone", "x", (1, 1)),
        ContainerObserved(9, "n", "x", None),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_a_repeated_or_late_fact_changes_nothing(one: Scheduler, fact: object) -> None:
    one.handle(ContainerStarted(1, 1))
    before = msgspec.msgpack.encode({**dump(one.state), "now": 0})
    assert one.handle(fact) == []
    assert msgspec.msgpack.encode({**dump(one.state), "now": 0}) == before


def test_an_ignored_fact_is_logged_as_such() -> None:
    lines: list[bytes] = []
    log = Log(lines.append)
    made = scheduler("fifo", node(), log=log)
    made.handle(ContainerEnded(4, 9, 0, 5))
    log.flush()
    *_, last = parse(b"".join(lines).splitlines())
    assert last == Ignored(ContainerEnded(4, 9, 0, 5), "late")


def test_a_container_ends_once(one: Scheduler) -> None:
    one.handle(ContainerEnded(1, 1, 0, 1))
    one.handle(ContainerEnded(2, 1, 0, 1))
    assert one.state.jobs["a"].left == 1


def test_a_finished_job_is_not_run_again() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a")))
    made.handle(ContainerEnded(1, 1, 0, 1))
    assert made.handle(JobSubmitted(2, job("a"))) == []
    assert not made.state.jobs


def test_the_end_of_an_executors_earlier_task_is_not_that_of_its_next_jobs() -> None:
    made = scheduler("fifo", node(), executors=True)
    made.handle(JobSubmitted(0, job("a", stage(), stage(parents=(0,)), stage(parents=(1,)))))
    made.handle(JobSubmitted(0, job("b")))
    made.handle(ContainerStarted(1, 1))
    over = TaskEnded(2, 1, job="a", stage=0, task=0, attempt=0, runtime_ms=1)
    made.handle(over)
    for at, index in ((3, 1), (4, 2)):
        made.handle(TaskEnded(at, 1, job="a", stage=index, task=0, attempt=0, runtime_ms=1))
    held = next(iter(made.state.containers.values()))
    assert held.job == "b"
    made.handle(msgspec.structs.replace(over, at=9, container=held.id))
    assert "b" in made.state.jobs


# -- nodes ----------------------------------------------------------------------------------------


def test_a_lost_nodes_tasks_wait_again_with_the_next_attempt() -> None:
    made = scheduler("fifo", node("n"))
    made.handle(JobSubmitted(0, job("a")))
    made.handle(NodeLost(1, "n"))
    assert made.handle(NodeAdded(2, node("m"))) == [Place(2, "m", "a", 0, 0, attempt=1)]


def test_a_lost_node_says_why_its_jobs_wait_now() -> None:
    made = scheduler("fifo", node("n"))
    made.handle(JobSubmitted(0, job("a")))
    assert made.handle(NodeLost(1, "n")) == [Hold("a", Reason.NO_NODES)]


def test_an_expired_container_says_why_its_job_waits_now() -> None:
    made = scheduler("fifo", node(), offers="cycle")
    made.handle(JobSubmitted(0, job("a")))
    made.handle(Tick(0))
    assert made.handle(ContainerExpired(1, 1)) == [Hold("a", Reason.BEHIND_OTHERS)]


def test_a_started_container_does_not_expire(one: Scheduler) -> None:
    one.handle(ContainerStarted(1, 1))
    one.handle(ContainerExpired(2, 1))
    assert 1 in one.state.containers


def test_a_leaving_node_takes_nothing_new_and_goes_with_its_last_container(one: Scheduler) -> None:
    one.handle(NodeRemoved(1, "n"))
    assert "n" in one.state.nodes
    assert placed(one.handle(ContainerEnded(2, 1, 0, 1))) == []
    assert "n" not in one.state.nodes


def test_a_leaving_node_may_be_back_before_its_last_container_ends(one: Scheduler) -> None:
    one.handle(NodeRemoved(1, "n"))
    one.handle(NodeAdded(2, node("n")))
    assert placed(one.handle(ContainerEnded(3, 1, 0, 1))) != []
    validate(one.state)


def test_a_leaving_node_may_be_lost(one: Scheduler) -> None:
    one.handle(NodeRemoved(1, "n"))
    one.handle(NodeLost(2, "n"))
    validate(one.state)
    assert one.state.nodes == {}


def test_a_node_may_shrink_below_what_it_holds(one: Scheduler) -> None:
    one.handle(NodeChanged(1, Node(id="n", capacity=(500, 512))))
    validate(one.state)
    assert one.state.nodes["n"].free == [-500, -512]


def test_a_shrunk_node_takes_nothing_until_there_is_room_again(one: Scheduler) -> None:
    one.handle(NodeChanged(1, Node(id="n", capacity=(1500, 1600))))
    assert placed(one.handle(Tick(1))) == []
    assert placed(one.handle(ContainerEnded(2, 1, 0, 1))) == [("a", 0, 1)]


def test_foreign_use_takes_room_until_it_is_gone() -> None:
    made = scheduler("fifo", node())
    made.handle(ContainerObserved(0, "n", "daemon", (1, 0)))
    assert made.handle(JobSubmitted(1, job("a"))) == [Hold("a", Reason.NO_ROOM)]
    assert placed(made.handle(ContainerObserved(2, "n", "daemon", None))) == [("a", 0, 0)]


def test_foreign_use_may_change_size() -> None:
    made = scheduler("fifo", node())
    made.handle(ContainerObserved(0, "n", "daemon", (900, 5)))
    made.handle(ContainerObserved(1, "n", "daemon", (100, 7)))
    assert made.state.nodes["n"].free == [900, 1017]


@pytest.mark.parametrize(
    "fact",
    [
        NodeAdded(1, Node(id="m", capacity=(1000,))),
        NodeChanged(1, Node(id="n", capacity=(1000, 1, 1))),
        ContainerObserved(1, "n", "x", (1,)),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_a_vector_of_the_wrong_length_is_refused_before_anything_changes(one: Scheduler, fact: object) -> None:
    with pytest.raises(InvalidTransition, match="resources, not 2"):
        one.handle(fact)
    validate(one.state)


# -- jobs -----------------------------------------------------------------------------------------


def test_children_wait_for_every_parent() -> None:
    made = scheduler("fifo", node("n", 9))
    first = made.handle(JobSubmitted(0, job("a", stage(), stage(2), stage(parents=(0, 1)))))
    assert placed(first) == [("a", 0, 0), ("a", 1, 0), ("a", 1, 1)]
    assert placed(made.handle(ContainerEnded(1, 1, 0, 1))) == []
    assert placed(made.handle(ContainerEnded(2, 2, 0, 1))) == []
    assert placed(made.handle(ContainerEnded(3, 3, 0, 1))) == [("a", 2, 0)]


def test_a_stage_starts_when_it_was_asked_for_and_its_parents_are_done() -> None:
    made = scheduler("fifo", node("n", 9))
    made.handle(JobSubmitted(0, job("a", stage(), stage(parents=(0,))), asks="roots"))
    assert placed(made.handle(ContainerEnded(1, 1, 0, 1))) == []
    assert placed(made.handle(JobChanged(2, "a", (1,)))) == [("a", 1, 0)]


def test_asking_early_does_not_start_a_stage_before_its_parents() -> None:
    made = scheduler("fifo", node("n", 9))
    made.handle(JobSubmitted(0, job("a", stage(), stage(parents=(0,))), asks="roots"))
    assert placed(made.handle(JobChanged(1, "a", (1,)))) == []
    assert placed(made.handle(ContainerEnded(2, 1, 0, 1))) == [("a", 1, 0)]


def test_nothing_starts_before_it_is_asked_for() -> None:
    made = scheduler("fifo", node())
    assert made.handle(JobSubmitted(0, job("a"), asks="asked")) == [Hold("a", Reason.WAITS_FOR_ASK)]
    assert placed(made.handle(JobChanged(1, "a", (0,)))) == [("a", 0, 0)]


def test_nothing_starts_of_a_stage_that_was_withdrawn_before_it_is_asked_for_again() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a", stage(tasks=3))))
    assert made.handle(StageWithdrawn(1, "a", 0)) == [Hold("a", Reason.WAITS_FOR_ASK)]
    assert placed(made.handle(ContainerEnded(2, 1, 1))) == []  # one task has failed, and one has not started
    validate(made.state)
    assert len(placed(made.handle(JobChanged(3, "a", (0,))))) == 1
    validate(made.state)


def test_what_runs_of_a_withdrawn_stage_goes_on_to_the_end_of_the_job() -> None:
    made = scheduler("fifo", node("n", 9))
    made.handle(JobSubmitted(0, job("a", stage())))
    made.handle(StageWithdrawn(1, "a", 0))
    made.handle(JobChanged(2, "a", (0,)))
    validate(made.state)
    made.handle(ContainerEnded(3, 1, 0, 1))
    assert made.state.jobs == {}


def test_withdrawing_a_stage_that_is_not_there() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a")))
    with pytest.raises(InvalidTransition, match="stages 0 to 0, not 1"):
        made.handle(StageWithdrawn(1, "a", 1))


@pytest.mark.parametrize("index", [-1, 1])
def test_asking_for_a_stage_that_is_not_there(index: int) -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a"), asks="asked"))
    with pytest.raises(InvalidTransition, match="asked for"):
        made.handle(JobChanged(1, "a", (index,)))


def test_nothing_of_a_cancelled_job_starts(one: Scheduler) -> None:
    one.handle(JobCancelled(1, "a"))
    assert placed(one.handle(ContainerEnded(2, 1, 1))) == []
    assert one.state.jobs == {}


def test_a_cancelled_job_that_is_gone_begins_anew_only_when_submitted_again(one: Scheduler) -> None:
    one.handle(JobCancelled(1, "a"))
    again = JobSubmitted(2, job("a", stage(2)), again=True)
    assert one.handle(again) == []  # a container of before is still there
    one.handle(ContainerEnded(3, 1, 1))
    assert one.handle(JobSubmitted(4, job("a", stage(2)))) == []
    assert one.state.jobs == {}
    one.handle(msgspec.structs.replace(again, at=5))
    assert list(one.state.jobs) == ["a"]
    validate(one.state)


def test_a_cancelled_jobs_containers_end_by_their_own_events(one: Scheduler) -> None:
    one.handle(JobCancelled(1, "a"))
    assert 1 in one.state.containers
    assert one.state.used == [1000, 1024]


def test_asking_for_stages_of_a_cancelled_job_starts_nothing() -> None:
    made = scheduler("fifo", node("n", 2))
    made.handle(JobSubmitted(0, job("a", stage(), stage()), asks="asked"))
    made.handle(JobChanged(0, "a", (0,)))
    made.handle(JobCancelled(1, "a"))
    assert made.handle(JobChanged(2, "a", (1,))) == []
    validate(made.state)


def test_a_failed_task_runs_again_and_does_not_count() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a")))
    assert made.handle(ContainerEnded(1, 1, 1)) == [Place(2, "n", "a", 0, 0, attempt=1)]
    made.handle(ContainerEnded(2, 2, 0, 1))
    assert not made.state.jobs


def test_failed_tasks_go_before_fresh_ones() -> None:
    made = scheduler("fifo", node())
    made.handle(JobSubmitted(0, job("a", stage(5))))
    assert placed(made.handle(ContainerEnded(1, 1, 1))) == [("a", 0, 0)]


def test_a_job_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidJob, match="cycle"):
        scheduler("fifo").handle(JobSubmitted(0, job("a", stage(parents=(1,)), stage(parents=(0,)))))


def test_queues_are_remembered() -> None:
    made = scheduler("fifo")
    made.handle(QueueChanged(0, Queue(name="prod", weight=3.0)))
    assert made.view.queues["prod"].weight == 3.0


def test_time_never_runs_backwards() -> None:
    made = scheduler("fifo")
    made.handle(Tick(5))
    with pytest.raises(InvalidTransition, match="time runs backwards: Tick at 4 after 5"):
        made.handle(Tick(4))


def test_an_estimate_of_an_unknown_job_is_kept_for_it() -> None:
    made = scheduler("sjf", node(), predictor={"kind": "oracle"})
    made.handle(Estimated(0, "a", (700,)))
    made.handle(JobSubmitted(0, job("a", stage(2))))
    assert made.state.jobs["a"].size_ms == 1400


# -- impossible decisions -------------------------------------------------------------------------


def test_an_impossible_placement_tells_the_story_and_changes_nothing(one: Scheduler) -> None:
    with pytest.raises(InvalidTransition, match=r"node n has .* free"):
        one.state.apply(Place(2, "n", "a", 0, 1))
    validate(one.state)


def test_a_task_is_not_started_twice() -> None:
    made = scheduler("fifo", node("n", 1), node("m", 1), offers="cycle")
    made.handle(JobSubmitted(0, job("a", stage(2))))
    made.state.apply(Place(1, "n", "a", 0, 0))
    with pytest.raises(InvalidTransition, match="task a/0/0 is not waiting"):
        made.state.apply(Place(2, "m", "a", 0, 0))


@pytest.mark.parametrize(
    "decision", [Release(1), Run(1, "a", 0, 1), Move(1, "b", 0, 0)], ids=lambda d: type(d).__name__
)
def test_a_busy_container_is_not_an_idle_executor(one: Scheduler, decision: object) -> None:
    one.handle(JobSubmitted(0, job("b")))
    with pytest.raises(
        InvalidTransition, match=r"container 1 of job a \(stage 0, task 0, attempt 0\), granted at 0 ms on n, granted"
    ):
        one.state.apply(decision)


def test_only_containers_that_are_there_are_preempted(one: Scheduler) -> None:
    with pytest.raises(InvalidTransition, match=r"container 5 \(unknown: never granted, or over\)"):
        one.state.apply(Preempt(5, "rule"))


def test_a_pilot_must_be_a_task(one: Scheduler) -> None:
    with pytest.raises(InvalidTransition, match="no task 9 in stage 0 to be a pilot"):
        one.state.hear(PilotsNamed(0, "a", SamplePlan(pilots=((0, 9),))))


# -- executors ------------------------------------------------------------------------------------


def test_executors_of_a_cancelled_job_are_given_back() -> None:
    made = scheduler("fifo", node("n", 2), executors=True)
    made.handle(JobSubmitted(0, job("a", stage(2), stage(parents=(0,), demand=(2000, 1024)))))
    for container in (1, 2):
        made.handle(ContainerStarted(1, container))
    made.handle(TaskEnded(2, 1, job="a", stage=0, task=0, attempt=0, runtime_ms=1))
    made.handle(JobCancelled(3, "a"))
    made.handle(TaskEnded(4, 2, job="a", stage=0, task=1, attempt=0, runtime_ms=1))
    assert made.state.used == [0, 0]


def test_an_executor_of_another_size_does_not_block_its_job_for_ever() -> None:
    made = scheduler("fifo", node("n", 1), executors=True)
    made.handle(JobSubmitted(0, job("a", stage(demand=(500, 512)), stage(parents=(0,)))))
    made.handle(ContainerStarted(1, 1))
    decided = made.handle(TaskEnded(2, 1, job="a", stage=0, task=0, attempt=0, runtime_ms=1))
    decided += made.handle(Tick(3))
    assert Release(1) in decided
    assert placed(decided) == [("a", 1, 0)]


def test_an_executor_that_ends_between_tasks_teaches_nothing_twice() -> None:
    made = scheduler("gs", node("n", 1), executors=True, offers="cycle", predictor={"kind": "three_sigma"})
    made.handle(JobSubmitted(0, job("a", stage(), stage(parents=(0,)))))
    made.handle(Tick(0))
    made.handle(ContainerStarted(1, 1))
    made.handle(TaskEnded(2, 1, job="a", stage=0, task=0, attempt=0, runtime_ms=5))
    learned = made.predictor.dump() if made.predictor else None
    made.handle(ContainerEnded(3, 1, 0, 99))
    assert made.predictor is not None
    assert made.predictor.dump() == learned


def test_a_heartbeat_of_an_unknown_node_is_harmless() -> None:
    assert scheduler("fifo", offers="heartbeat").handle(Heartbeat(0, "gone")) == []


def test_an_executor_starts_nothing_more_of_a_stage_that_was_withdrawn() -> None:
    made = scheduler("fifo", node(), executors=True)
    made.handle(JobSubmitted(0, job("a", stage(2))))
    made.handle(ContainerStarted(1, 1))
    made.handle(StageWithdrawn(2, "a", 0))
    assert placed(made.handle(TaskEnded(3, 1, "a", 0, 0, 0, 2))) == []
    validate(made.state)


def test_room_for_a_size_that_was_asked_about_while_nothing_of_it_waited_is_found() -> None:
    made = scheduler({"kind": "fifo"}, node("n", 4), offers="cycle")
    made.handle(JobSubmitted(0, job("small", stage(4))))
    made.handle(Tick(0))
    made.handle(JobSubmitted(1, job("large", stage(1, (4000, 1024)))))
    made.handle(Tick(1))
    sizes = made.state.sizes
    small = made.state.jobs["small"].stages[0].size
    assert not sizes.perhaps_with_room(())  # none of the launchable sizes has room
    assert not sizes.fitting(small)
    made.handle(ContainerEnded(2, next(iter(made.state.containers)), 0, 1))
    assert not sizes.fits_some_node(made.state.jobs["large"].stages[0].size)
    assert sizes.fits_some_node(small)
    sizes.validate()


@pytest.mark.parametrize("offers", ["event", "cycle", "heartbeat"])
def test_a_job_goes_to_none_of_the_nodes_that_its_master_refuses(offers: str) -> None:
    made = scheduler("fifo", node("n0"), node("n1"), offers=offers)
    assert made.state.hear(NodesRefused(0, "gone", ("n0",))) == "late"
    made.handle(JobSubmitted(0, job("a", stage()), asks="asked"))
    made.handle(NodesRefused(1, "a", ("n0",)))
    validate(made.state)
    made.handle(JobChanged(2, "a", (0,)))
    for event in (Heartbeat(3, "n0"), Heartbeat(3, "n1"), Tick(3)):
        made.handle(event)
    assert [container.node for container in made.state.containers.values()] == ["n1"]


def test_a_refused_node_is_taken_again_when_the_master_no_longer_refuses_it() -> None:
    made = scheduler("fifo", node("n0"))
    made.handle(JobSubmitted(0, job("a", stage()), asks="asked"))
    made.handle(NodesRefused(1, "a", ("n0",)))
    assert made.handle(JobChanged(2, "a", (0,))) == [Hold("a", Reason.NO_NODE_MATCHES)]
    assert made.state.hear(NodesRefused(3, "a", ("n0",))) == "duplicate"
    assert made.handle(NodesRefused(4, "a")) == [Place(1, "n0", "a", 0, 0)]
    validate(made.state)
