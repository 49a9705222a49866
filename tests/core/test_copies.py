"""Copies of tasks: who is the task, what is counted, what becomes of the others."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Copy, Preempt
from schedulers.core.errors import InvalidParameters, InvalidTransition
from schedulers.core.events import (
    ContainerEnded,
    ContainerStarted,
    Heartbeat,
    JobCancelled,
    JobSubmitted,
    LinksSet,
    NodeLost,
    QueueChanged,
    Tick,
)
from schedulers.core.log import Log
from schedulers.core.model import CopyRules, Edge, Links, Queue
from schedulers.core.policy import Suggestion
from schedulers.core.scheduler import Scheduler

FEEDS = (stage(2, name="map"), stage(parents=(Edge(parent=0, data=1000),), name="reduce"))


def begun(others: str = "run", *, most: int = 2, nodes: int = 4, log: Log | None = None) -> Scheduler:
    """Job a: map/0 runs in container 1 on n0, map/1 in container 2 on n1, both since 10 ms."""
    settings = CopyRules(max=most, others=others)
    there = [node(f"n{i}") for i in range(nodes)]
    made = scheduler("fifo", *there, offers="cycle", copies=settings, log=log, predictor={"kind": "posterior"})
    made.handle(LinksSet(0, Links(rate=1000)))
    made.handle(JobSubmitted(0, job("a", *FEEDS)))
    made.handle(JobSubmitted(0, job("large", stage(demand=(9000, 1)))))  # nothing is on offer where nobody waits
    made.handle(Tick(0))
    made.handle(ContainerStarted(10, 1))
    made.handle(ContainerStarted(10, 2))
    return made


def copied(made: Scheduler, task: int, where: str, at: int = 20) -> list:
    round_ = made.begin(Tick(at))
    round_.suggest(Suggestion("a", 0, node=where, task=task, copy=True))
    decisions = round_.end()
    validate(made.state)
    return [decision for decision in decisions if isinstance(decision, Copy)]


def counts(made: Scheduler) -> tuple[int, int, int]:
    """Waiting, running and finished tasks of stage map."""
    there = made.state.jobs["a"].stages[0]
    return there.waiting, there.running, there.finished


def ended(made: Scheduler, at: int, container: int, code: int = 0) -> list[Preempt]:
    decisions = made.handle(ContainerEnded(at, container, code, at - 10 if code == 0 else 0))
    validate(made.state)
    return [decision for decision in decisions if isinstance(decision, Preempt)]


def test_a_copy_holds_room_and_is_no_running_task() -> None:
    made = begun()
    assert copied(made, 0, "n2") == [Copy(3, "n2", "a", 0, 0, 0)]
    live = made.state.jobs["a"]
    assert (counts(made), live.running, live.executors, live.used[0]) == ((0, 2, 0), 2, 3, 3000)
    assert list(made.state.nodes["n2"].containers) == [3]


def test_the_copy_that_ends_first_is_the_task_and_the_other_goes_on() -> None:
    made = begun()
    copied(made, 0, "n2")
    made.handle(ContainerStarted(25, 3))
    assert ended(made, 100, 3) == []
    assert (counts(made), made.state.containers[1].copy) == ((0, 1, 1), True)
    assert ended(made, 150, 1) == []
    assert counts(made) == (0, 1, 1)
    assert made.state.jobs["a"].stages[0].outputs == {0: [("n2", 100), ("n0", 150)]}


def test_the_others_are_ended_where_the_settings_say_so() -> None:
    made = begun("end")
    copied(made, 0, "n2")
    assert ended(made, 100, 1) == [Preempt(3, "copy", "a")]
    assert ended(made, 101, 3, code=-102) == []
    assert (counts(made), made.state.copies.live) == ((0, 1, 1), {})


def test_a_task_that_lost_to_its_copy_is_ended_likewise() -> None:
    made = begun("end")
    copied(made, 0, "n2")
    assert ended(made, 100, 3) == [Preempt(1, "copy", "a")]


def test_a_copy_of_what_was_done_before_is_not_ended() -> None:
    made = begun("end")
    ended(made, 100, 1)
    assert copied(made, 0, "n2", 110) == [Copy(3, "n2", "a", 0, 0, 0)]
    assert ended(made, 150, 2) == []
    assert ended(made, 200, 3) == []
    assert made.state.jobs["a"].stages[0].outputs == {0: [("n0", 100), ("n2", 200)], 1: [("n1", 150)]}


def test_if_the_task_fails_its_copy_takes_its_place() -> None:
    made = begun()
    copied(made, 0, "n2")
    ended(made, 100, 1, code=1)
    assert (counts(made), made.state.containers[3].copy, made.state.copies.live) == ((0, 2, 0), False, {})
    ended(made, 150, 3)
    assert counts(made) == (0, 1, 1)


def test_if_the_copy_fails_nothing_waits_again() -> None:
    made = begun()
    copied(made, 0, "n2")
    ended(made, 100, 3, code=1)
    assert counts(made) == (0, 2, 0)


def test_if_both_fail_the_task_waits_again() -> None:
    made = begun()
    copied(made, 0, "n2")
    ended(made, 100, 1, code=1)
    ended(made, 110, 3, code=1)
    assert counts(made) == (1, 1, 0)
    assert made.state.jobs["a"].stages[0].attempts == {0: 1}


def test_a_lost_node_takes_the_task_and_leaves_the_copy() -> None:
    made = begun()
    copied(made, 0, "n2")
    made.handle(NodeLost(50, "n0"))
    validate(made.state)
    assert counts(made) == (0, 2, 0)
    assert made.view.holders(made.state.jobs["a"], made.state.jobs["a"].stages[0], 0) == ("n2",)


def test_the_pilot_is_whichever_is_the_task() -> None:
    made = begun()
    made.state.containers[1].pilot = True
    made.state.jobs["a"].pilots_left = 1
    copied(made, 0, "n2")
    made.handle(ContainerEnded(100, 3, 0, 80))
    assert (made.state.jobs["a"].pilots_left, made.state.containers[1].pilot) == (0, False)


def test_the_predictor_hears_of_a_task_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = begun()
    heard: list[int] = []
    monkeypatch.setattr(made.predictor, "finished", lambda task, ms, speed, at: heard.append(ms))
    copied(made, 0, "n2")
    made.handle(ContainerEnded(100, 3, 0, 80))
    made.handle(ContainerEnded(120, 1, 0, 110))
    assert heard == [80]


@pytest.mark.parametrize("how", ["finished", "cancelled"])
def test_copies_of_a_job_that_is_over_are_ended(how: str) -> None:
    made = begun()
    ended(made, 100, 1)
    copied(made, 0, "n2", 110)
    if how == "cancelled":
        made.handle(JobCancelled(120, "a"))
        assert ended(made, 130, 2) == [Preempt(3, "copy", "a")]
    else:
        ended(made, 130, 2)
        made.handle(Tick(130))
        assert ended(made, 200, 4) == [Preempt(3, "copy", "a")]
    assert "a" not in made.state.jobs
    made.handle(ContainerStarted(201, 3))
    assert ended(made, 202, 3, code=-102) == []
    assert made.state.used == [0, 0]


@pytest.mark.parametrize(
    ("task", "where"),
    [(0, "n0"), (0, "n9"), (2, "n2"), (-1, "n2")],
    ids=["where it runs", "on no node", "no such task", "no task at all"],
)
def test_a_copy_that_makes_no_sense_is_refused(task: int, where: str) -> None:
    made = begun()
    assert copied(made, task, where) == []
    with pytest.raises((InvalidTransition, KeyError)):
        made.state.apply(Copy(9, where, "a", 0, task))


def test_a_task_that_waits_has_no_copy() -> None:
    made = begun(nodes=1)
    assert copied(made, 1, "n0") == []


def test_no_more_containers_than_the_settings_say() -> None:
    made = begun(most=2)
    assert len(copied(made, 0, "n2")) == 1
    assert copied(made, 0, "n3", 21) == []
    ended(made, 100, 1)
    ended(made, 110, 3)
    assert copied(made, 0, "n3", 120) == []


def test_no_copy_where_there_is_no_room_or_a_limit() -> None:
    made = begun()
    assert copied(made, 0, "n1") == []
    made.handle(QueueChanged(20, Queue(name="default", max=(2000, -1))))
    assert copied(made, 0, "n2") == []
    live = made.state.jobs["a"]
    assert not made.view.may_copy(live, live.stages[0], 0, made.state.nodes["n2"])


def test_without_the_setting_there_are_no_copies() -> None:
    made = scheduler("fifo", node("n0"), node("n1"), offers="cycle")
    made.handle(JobSubmitted(0, job("a")))
    made.handle(Tick(0))
    assert copied(made, 0, "n1") == []
    assert made.view.copies == 1


def test_executors_that_outlive_tasks_have_no_copies() -> None:
    with pytest.raises(InvalidParameters, match="copies do not go with executors"):
        scheduler("fifo", executors=True, copies=CopyRules())


def test_on_a_beat_a_copy_goes_to_the_node_that_beats() -> None:
    made = scheduler("fifo", node("n0"), node("n1"), node("n2"), offers="heartbeat", copies=CopyRules())
    made.handle(JobSubmitted(0, job("a", stage(2))))
    for number in range(2):
        made.handle(Heartbeat(0, f"n{number}"))
    made.handle(JobSubmitted(1, job("b", stage(9))))
    for where, placed in (("n2", 1), ("n1", 0)):
        round_ = made.begin(Heartbeat(2, "n2"))
        assert round_.suggest(Suggestion("a", 0, node=where, task=0, copy=True)).placed == placed
        round_.end()


def test_a_snapshot_remembers_who_is_the_task() -> None:
    made = begun("end")
    copied(made, 0, "n2")
    ended(made, 100, 3)
    again = Scheduler.restore(made.snapshot())
    validate(again.state)
    assert again.handle(Tick(101)) == made.handle(Tick(101))
    assert [c.copy for c in again.state.containers.values()] == [c.copy for c in made.state.containers.values()]


def test_a_log_with_copies_reads_as_it_was_written() -> None:
    chunks: list[bytes] = []
    log = Log(chunks.append)
    made = begun("end", log=log)
    copied(made, 0, "n2")
    ended(made, 100, 3)
    log.flush()
    lines = b"".join(chunks).splitlines()
    assert b'{"decision":"Copy","container":3,"node":"n2","job":"a","stage":0,"task":0}' in lines
    assert b'{"decision":"Preempt","container":1,"rule":"copy","cause":"a"}' in lines
    assert b'"copies":{"others":"end"}' in lines[0]


def test_the_header_of_a_log_without_copies_does_not_speak_of_them() -> None:
    chunks: list[bytes] = []
    log = Log(chunks.append)
    scheduler("fifo", log=log)
    log.flush()
    assert b"copies" not in b"".join(chunks)
