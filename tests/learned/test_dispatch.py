"""When a policy in Decima's form is asked, and what becomes of its answers."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
import pytest

import rm_emulator
from rm_emulator.results import replay
from rm_emulator.testing import Subject, check_skipping, job, node, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Commit, Decision, Hold, Move, Place, Run
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Event,
    JobSubmitted,
    NodeAdded,
    NodeLost,
    QueueChanged,
    TaskEnded,
)
from schedulers.core.live import RUNNING
from schedulers.core.model import Job, Queue
from schedulers.core.policy import ClusterView
from schedulers.core.registry import NoParams
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph
from tests.learned.setting import episode
from tests.policies.test_decima import scenario

pytestmark = pytest.mark.usefixtures("no_report")


class Answer(NamedTuple):
    """To which stage of which job, and up to how many."""

    job: str
    stage: int
    limit: int


class Scripted(Dispatch):
    """Answers as it was told, then with the first valid stage for all. seen: (source, free executors, valid stages)."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(NoParams())
        self.answers = list(answers)
        self.seen: list[tuple[str, int, list[tuple[str, int]]]] = []

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        sources = [each.name for each in graph.jobs if each.features[1] > 0]
        valid = [(each.name, int(stage)) for each in graph.jobs for stage in each.stages[each.valid]]
        self.seen.append(("".join(sources), round(float(graph.jobs[0].features[2]) * 20), valid))
        name, index, limit = self.answers.pop(0) if self.answers else Answer(*valid[0], graph.executors)
        which = [each.name for each in graph.jobs].index(name)
        return Action(which, list(graph.jobs[which].stages).index(index), limit)


class World:
    """A scheduler of one node that outlives nothing but its time, and the shell that it needs."""

    def __init__(self, cores: int, *answers: Answer, executors: bool = True) -> None:
        self.policy = Scripted(*answers)
        self.scheduler = scheduler("fifo", node(cores=cores), executors=executors)
        self.scheduler.policy = self.policy
        self.now = 0

    def tell(self, *facts: Event) -> list[Decision]:
        """All decisions on these facts; what is granted starts at once."""
        decided = [decision for fact in facts for decision in self.scheduler.handle(fact)]
        validate(self.scheduler.state)
        return decided

    def submit(self, *jobs: Job) -> list[Decision]:
        """Jobs arrive."""
        return self.tell(*(JobSubmitted(self.now, each) for each in jobs))

    def start(self) -> list[Decision]:
        """All containers that were granted, or set out, are there."""
        waiting = [c.id for c in self.scheduler.state.containers.values() if c.status not in (RUNNING, 2)]
        return self.tell(*(ContainerStarted(self.now, number) for number in waiting))

    def end(self, number: int) -> list[Decision]:
        """The task of an executor ends."""
        self.now += 10
        c = self.scheduler.state.containers[number]
        ended = TaskEnded(self.now, c.id, job=c.job, stage=c.stage, task=c.task, attempt=c.attempt, runtime_ms=10)
        return self.tell(ended)


CHAIN = (stage(2), stage(4, parents=(0,)))


def test_executors_of_a_stage_are_asked_of_together_when_the_first_is_free() -> None:
    world = World(3, Answer("a", 0, 3))
    world.submit(job("a", stage(3)), job("b", stage(9)))
    world.start()
    world.end(1)
    assert world.policy.seen[1:] == [("a", 3, [("b", 0)])]


def test_each_follows_its_promise_when_its_task_ends() -> None:
    world = World(3, Answer("a", 0, 3), Answer("b", 0, 3))
    world.submit(job("a", stage(3)), job("b", stage(9)))
    world.start()
    moved = [decision for number in (1, 3, 2) for decision in world.end(number) if type(decision) is Move]
    assert [(m.container, m.job, m.task) for m in moved if isinstance(m, Move)] == [(1, "b", 0), (3, "b", 1)]
    assert len(world.policy.seen) == 3  # the last one ends with its job, so that its room is asked for


def test_a_limit_is_of_the_job_and_those_that_it_gives_away_do_not_count() -> None:
    world = World(4, Answer("a", 0, 4), Answer("b", 0, 1), Answer("c", 0, 4))
    world.submit(job("a", stage(4)), job("b", stage(9)), job("c", stage(9)))
    world.start()
    world.end(1)
    assert world.policy.promises.by_source == {("a", 0): {("c", 0): 3}}


def test_an_executor_is_sent_to_another_job_before_its_stage_is_open() -> None:
    world = World(4, Answer("a", 0, 2), Answer("b", 0, 2), Answer("b", 1, 4))
    world.submit(job("a", stage(2)), job("b", *CHAIN), job("c", stage(9)))
    world.start()
    assert [d for d in world.end(1) if not isinstance(d, Hold)] == [Commit(1, "b", 1)]


def test_a_stage_is_reached_when_all_before_it_is_started() -> None:
    world = World(4, Answer("a", 0, 1), Answer("a", 0, 2))
    world.submit(job("a", *CHAIN))
    world.submit(job("b", stage(9)))
    valid = [valid for _, _, valid in world.policy.seen]
    assert valid == [[("a", 0)], [("a", 0)], [("a", 1), ("b", 0)]]


def test_an_executor_waits_in_its_job_and_goes_on_unasked() -> None:
    world = World(2, Answer("a", 0, 2), Answer("a", 1, 2))
    world.submit(job("a", *CHAIN), job("b", stage(9)))
    world.start()
    assert world.end(1) == []
    asked = len(world.policy.seen)
    assert [(d.container, d.stage) for d in world.end(2) if isinstance(d, Run)] == [(1, 1), (2, 1)]
    assert len(world.policy.seen) == asked


def test_a_promise_of_a_stage_out_of_tasks_is_asked_anew() -> None:
    world = World(3, Answer("a", 0, 2), Answer("b", 0, 1), Answer("b", 0, 3))
    world.submit(job("a", stage(2)), job("b", stage(3)), job("c", stage(3)))
    world.start()
    world.end(1)  # both executors of a are promised to b, which has two tasks left
    world.start()
    world.end(3)
    world.end(1)
    before = len(world.policy.seen)
    world.end(2)
    assert len(world.policy.seen) > before


def test_promises_of_executors_that_are_lost_are_void() -> None:
    world = World(3, Answer("a", 0, 3))
    world.submit(job("a", stage(3)), job("b", stage(9)))
    world.start()
    world.end(1)
    world.tell(NodeLost(world.now, "n"))
    world.policy.promises.drop_impossible("a", world.scheduler.state.jobs["a"], world.scheduler.view)
    assert world.policy.promises.by_source == {}


def test_a_restored_policy_goes_on_with_the_same_promises() -> None:
    world = World(3, Answer("a", 0, 3))
    world.submit(job("a", stage(3)), job("b", stage(9)))
    world.start()
    world.end(1)
    kept, other = msgspec.msgpack.decode(msgspec.msgpack.encode(world.policy.dump())), Scripted()
    other.load(kept, world.scheduler.view)
    assert other.promises.by_source == world.policy.promises.by_source
    assert other.promises.promised_to("b") == world.policy.promises.promised_to("b")
    assert other.promises.net_change("a") == world.policy.promises.net_change("a") == -2


def test_where_containers_end_with_their_tasks_a_stage_keeps_its_slots_unasked() -> None:
    world = World(3, Answer("a", 0, 3), executors=False)
    world.submit(job("a", stage(9)))
    world.start()
    assert served(world, 1, 2, 3) == ["a", "a", "a"]
    assert len(world.policy.seen) == 1


def test_slots_end_when_a_job_comes() -> None:
    world = World(3, Answer("a", 0, 3), Answer("b", 0, 1), executors=False)
    world.submit(job("a", stage(9)), job("b", stage(9)))
    world.start()
    assert served(world, 1, 2, 3) == ["b", "a", "a"]
    assert len(world.policy.seen) == 3


def test_slots_end_when_a_stage_opens() -> None:
    world = World(3, Answer("b", 0, 1), Answer("a", 0, 3), Answer("b", 1, 3), executors=False)
    world.submit(job("b", stage(1), stage(9, parents=(0,))), job("a", stage(9)))
    world.start()
    assert served(world, 1, 2, 3) == ["b", "b", "b"]


def test_a_restored_policy_keeps_slots() -> None:
    world = World(3, Answer("a", 0, 3), executors=False)
    world.submit(job("a", stage(9)))
    world.start()
    kept, other = msgspec.msgpack.decode(msgspec.msgpack.encode(world.policy.dump())), Scripted()
    other.load(kept, world.scheduler.view)
    world.scheduler.policy = other
    assert served(world, 1, 2, 3) == ["a", "a", "a"]
    assert other.seen == []


def served(world: World, *ended: int) -> list[str]:
    """Whose tasks start as these containers end."""
    decided = [world.tell(ContainerEnded(5, number, 0, 5)) for number in ended]
    return [each.job for decisions in decided for each in decisions if isinstance(each, Place)]


def test_the_room_of_a_stage_without_tasks_is_given_before_it_is_free() -> None:
    world = World(3, Answer("c", 0, 3), *[Answer("a", 0, 3)] * 3, Answer("b", 0, 3), executors=False)
    world.submit(job("c", stage(3)), job("a", stage(3)), job("b", stage(9)))
    world.start()
    assert served(world, 1, 2, 3) == ["a", "a", "a"]
    world.now = 5
    world.start()
    assert served(world, 4, 5, 6) == ["b", "b", "b"]
    assert [free for _, free, _ in world.policy.seen] == [3, 1, 1, 1, 3]


def test_a_stage_is_served_although_its_queue_was_given_a_limit_after_it_was_seen() -> None:
    world = World(1)
    world.submit(job("b", stage(1, (2000, 1024))), job("c", stage(1, (2000, 1024)), queue="other"), job("a"))
    world.tell(QueueChanged(1, Queue(name="default", max=0.9)))
    granted = world.tell(NodeAdded(2, node("n2", cores=4)))
    assert [each.job for each in granted if isinstance(each, Place)] == ["b", "c"]


def test_a_job_with_many_small_containers_gets_large_ones_too() -> None:
    world = World(8, executors=False)
    granted = world.submit(job("a", stage(4), stage(1, (4000, 1024))))
    assert sum(isinstance(each, Place) for each in granted) == 5


def test_it_needs_no_more_decisions_than_the_released_simulator() -> None:
    asked = episode({"kind": "dispatch"}, 1000).asked
    assert 200 < asked < 400


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_teacher_is_as_good_as_the_policy_that_it_is_taken_from() -> None:
    pairs = [(episode({"kind": kind}, seed).mean_s for kind in ("dispatch", "capped_sjf")) for seed in (1000, 1001)]
    taught, own = (fmean(means) for means in zip(*pairs, strict=True))
    assert taught == pytest.approx(own, rel=0.03)


@pytest.mark.slow
def test_whatever_is_answered_all_jobs_end() -> None:
    # 1008: an executor of another job was promised to the last stage, then to nobody, and nobody was asked again.
    assert [episode({"kind": "dispatch", "rule": "random"}, seed).jobs for seed in (1003, 1008)] == [20, 20]


def test_a_stage_that_is_due_for_a_reservation_after_another_of_its_size_is_heard_of() -> None:
    check_skipping(Subject(policy={"kind": "dispatch"}, reserve_after=2_000), (2,))


@pytest.mark.parametrize(("policy", "seed"), [({"kind": "dispatch", "rule": "random"}, 1), ({"kind": "decima"}, 4)])
def test_a_log_is_replayed_where_an_executor_was_told_to_wait_and_nothing_else_happened(
    policy: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    rm_emulator.run(scenario(policy), out=tmp_path / "out", seeds=[seed], jobs=1)
    (log,) = (tmp_path / "out").rglob("events.jsonl*")
    assert replay.main(log) == 0
