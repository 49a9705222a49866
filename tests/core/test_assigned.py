"""Tasks that are assigned to nodes before they can start: lines, who starts when, and what is assigned anew."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.checks import validate
from schedulers.core.decisions import Hold, Place
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import (
    ContainerEnded,
    ContainerObserved,
    ContainerStarted,
    Estimated,
    Event,
    Heartbeat,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    OfferAsked,
    QueueChanged,
    StageWithdrawn,
    Tick,
)
from schedulers.core.model import Job, Node, Queue, Stage
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler
from schedulers.kit.assigned import Assigned

ORACLE = {"kind": "oracle"}


def made(*nodes: Node, policy: str = "fifo", ahead: bool = True, **config: Any) -> Scheduler:
    placement = {"kind": "deft", "ahead": ahead}
    return scheduler(policy, *nodes, placement=placement, predictor=ORACLE, **{"offers": "cycle", **config})


def submit(one: Scheduler, spec: Job, *times: int, at: int = 0) -> None:
    one.handle(Estimated(at, spec.id, times))
    one.handle(JobSubmitted(at, spec))


def chain(name: str, *tasks: int) -> Job:
    """Stages one after another of so many tasks each."""
    return job(name, *(stage(count, parents=(i - 1,) if i else ()) for i, count in enumerate(tasks)))


def placed(one: Scheduler, *facts: Event) -> list[tuple[str, int, int, str]]:
    """(job, stage, task, node) of what starts on these facts."""
    decisions = [d for fact in facts for d in one.handle(fact)]
    validate(one.state)
    return [(d.job, d.stage, d.task, d.node) for d in decisions if isinstance(d, Place)]


def lines(one: Scheduler) -> dict[str, list[tuple[str, int, int]]]:
    """Who waits at which node."""
    assert isinstance(one.policy, Assigned)
    at = one.policy.node_queues.by_node
    return {name: [(t.job, t.stage, t.task) for t in at[name].values()] for name in sorted(at)}


# -- which policies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", ["hdrf", "fair", "gs", "capacity", "delay", "las", "graphene", "tetris", "capped_sjf"]
)
def test_a_policy_whose_order_hangs_on_starts_is_refused(policy: str) -> None:
    with pytest.raises(InvalidParameters, match=rf"'{policy}' has none that holds until then \(it goes with bfs, cp, "):
        made(node(), policy=policy)


def test_executors_are_refused() -> None:
    with pytest.raises(InvalidParameters, match="does not go with executors that outlive tasks"):
        made(node(), executors=True)


def test_reservations_of_the_core_are_refused() -> None:
    with pytest.raises(InvalidParameters, match="assigns tasks to nodes, where they wait in line"):
        made(node(), reserve_after=1)


# -- assigning ------------------------------------------------------------------------------------


def test_a_task_waits_for_a_busy_node_that_ends_it_sooner() -> None:
    one = made(node("slow", speed=0.1), node("fast"))
    submit(one, chain("a", 1), 1000)
    submit(one, chain("b", 1), 1000)
    assert placed(one, Tick(0)) == [("a", 0, 0, "fast")]
    assert lines(one) == {"fast": [("b", 0, 0)]}


def test_all_that_came_in_one_instant_is_assigned_in_the_policys_order() -> None:
    one = made(node("n"), policy="sjf")
    submit(one, chain("long", 1), 900)
    submit(one, chain("short", 1), 100)
    assert placed(one, Tick(0)) == [("short", 0, 0, "n")]


def test_children_are_assigned_behind_their_parents_before_these_have_run() -> None:
    one = made(node("n"), node("m", speed=0.5))
    submit(one, chain("a", 2, 1), 100, 100)
    placed(one, Tick(0))
    assert lines(one) == {"n": [("a", 0, 1), ("a", 1, 0)]}


def test_or_only_once_their_parents_are_done() -> None:
    one = made(node("n"), node("m", speed=0.5), ahead=False)
    submit(one, chain("a", 2, 1), 100, 100)
    placed(one, Tick(0))
    assert lines(one) == {"n": [("a", 0, 1)]}


def test_who_stands_behind_a_task_that_waits_for_its_parents_does_not_overtake_it() -> None:
    one = made(node("n"), node("m"))
    submit(one, job("a", stage(1), stage(2, parents=(0,))), 100, 100)
    placed(one, Tick(0))
    submit(one, chain("b", 2), 500, at=10)
    assert placed(one, Tick(10)) == []
    assert lines(one) == {"m": [("a", 1, 1), ("b", 0, 1)], "n": [("a", 1, 0), ("b", 0, 0)]}


def test_who_fits_beside_all_before_him_starts() -> None:
    one = made(node("n", 2))
    submit(one, chain("a", 1, 1), 100, 100)
    submit(one, chain("b", 1), 100)
    assert placed(one, Tick(0)) == [("a", 0, 0, "n"), ("b", 0, 0, "n")]


def test_nobody_overtakes_a_larger_task_that_waits_for_room() -> None:
    one = made(node("n", 2))
    submit(one, chain("a", 1), 100)
    submit(one, job("wide", stage(1, (2000, 2048))), 50)
    submit(one, chain("b", 1), 10)
    assert placed(one, Tick(0)) == [("a", 0, 0, "n")]
    assert lines(one) == {"n": [("wide", 0, 0), ("b", 0, 0)]}


def test_a_task_that_fits_no_node_waits_for_one_that_it_fits() -> None:
    one = made(node("n"))
    submit(one, job("wide", stage(1, (4000, 4096))), 50)
    assert (placed(one, Tick(0)), lines(one)) == ([], {})
    assert placed(one, NodeAdded(5, node("large", 4)), Tick(5)) == [("wide", 0, 0, "large")]


def test_a_policy_that_hears_every_fact_by_itself_assigns_at_once() -> None:
    one = made(node("n"), policy="sjf", offers="event")
    submit(one, chain("long", 2), 900)
    submit(one, chain("short", 1), 100)
    assert lines(one) == {"n": [("long", 0, 1), ("short", 0, 0)]}


# -- telling --------------------------------------------------------------------------------------


def test_a_job_that_waits_in_line_says_where_behind_whom_and_until_when() -> None:
    one = made(node("n3"))
    submit(one, chain("a", 3), 4100)
    submit(one, chain("b", 1), 1000)
    holds = [d for d in one.handle(Tick(0)) if isinstance(d, Hold)]
    assert Hold("b", Reason.ASSIGNED) in holds
    (reason,) = one.reasons("b")[:1]
    assert reason.sentence == "assigned to node n3, 2 before it, expected to start at 12.3 s"


# -- what is assigned anew ------------------------------------------------------------------------


def test_what_waited_at_a_lost_node_and_what_ran_there_is_assigned_anew() -> None:
    one = made(node("n"), node("m"))
    submit(one, chain("a", 4, 1), 100, 100)
    assert len(placed(one, Tick(0))) == 2
    assert placed(one, NodeLost(50, "n"), Tick(50)) == []
    assert lines(one) == {"m": [("a", 0, 3), ("a", 0, 0), ("a", 0, 2), ("a", 1, 0)]}


def test_a_task_that_failed_goes_behind_the_others_and_its_children_behind_it() -> None:
    one = made(node("n"))
    submit(one, chain("a", 1, 1), 100, 100)
    submit(one, chain("b", 2), 100)
    placed(one, Tick(0))
    assert lines(one) == {"n": [("a", 1, 0), ("b", 0, 0), ("b", 0, 1)]}
    one.handle(ContainerEnded(50, 1, 1))
    assert placed(one, Tick(50)) == [("b", 0, 0, "n")]
    assert lines(one) == {"n": [("b", 0, 1), ("a", 0, 0), ("a", 1, 0)]}


def test_a_cancelled_job_leaves_its_lines() -> None:
    one = made(node("n"))
    submit(one, chain("a", 3, 2), 100, 100)
    submit(one, chain("b", 1), 100)
    placed(one, Tick(0))
    one.handle(JobCancelled(10, "a"))
    assert lines(one) == {"n": [("b", 0, 0)]}


@pytest.mark.parametrize(
    "fact", [NodeAdded(10, node("fast", speed=9.0)), NodeChanged(10, node("m", speed=9.0)), NodeRemoved(10, "n")]
)
def test_when_nodes_are_others_all_that_waits_is_assigned_anew(fact: Event) -> None:
    one = made(node("n"), node("m", speed=0.1))
    submit(one, chain("a", 4), 100)
    placed(one, Tick(0))
    assert lines(one) == {"n": [("a", 0, 1), ("a", 0, 2), ("a", 0, 3)]}
    placed(one, fact, Tick(10))
    assert lines(one) != {"n": [("a", 0, 1), ("a", 0, 2), ("a", 0, 3)]}


def test_what_others_leave_no_room_for_goes_elsewhere() -> None:
    one = made(node("n"), node("m", speed=0.1))
    submit(one, chain("a", 2), 100)
    placed(one, Tick(0))
    assert placed(one, ContainerObserved(5, "n", "daemon", (500, 0)), Tick(5)) == [("a", 0, 1, "m")]


def test_the_turns_of_a_job_are_made_anew_when_its_size_becomes_known() -> None:
    one = made(node("n"), node("m", speed=0.2))
    one.handle(JobSubmitted(0, chain("a", 2)))  # a minute each as far as is known
    submit(one, chain("b", 1), 50_000)
    placed(one, Tick(0))
    assert lines(one) == {"n": [("a", 0, 1), ("b", 0, 0)]}
    one.handle(Estimated(10, "a", (400_000,)))
    assert placed(one, Tick(10)) == []
    assert lines(one) == {"n": [("b", 0, 0), ("a", 0, 1)]}


def test_a_withdrawn_stage_holds_up_nobody() -> None:
    one = made(node("n"))
    submit(one, chain("a", 2), 100)
    submit(one, chain("b", 1), 100)
    placed(one, Tick(0))
    one.handle(StageWithdrawn(10, "a", 0))
    one.handle(ContainerEnded(100, 1, 0, 100))
    assert placed(one, Tick(100)) == [("b", 0, 0, "n")]


def test_who_is_at_a_limit_holds_up_nobody() -> None:
    one = made(node("n", 2))
    one.handle(QueueChanged(0, Queue(name="small", max=(1000, -1))))
    submit(one, job("a", stage(2), queue="small"), 100)
    submit(one, chain("b", 1), 100)
    assert placed(one, Tick(0)) == [("a", 0, 0, "n"), ("b", 0, 0, "n")]


# -- estimates that were wrong --------------------------------------------------------------------


def straggling() -> Scheduler:
    """A task of 100 ms still runs on n, another waits behind it; m is slower and idle."""
    one = made(node("n"), node("m", speed=0.5))
    submit(one, chain("a", 2), 100)
    placed(one, Tick(0), ContainerStarted(0, 1))
    assert lines(one) == {"n": [("a", 0, 1)]}
    return one


def test_a_task_that_is_late_goes_to_an_idle_node_once_that_is_sooner() -> None:
    one = straggling()
    assert placed(one, Tick(149)) == []  # until 198 and then 100, or 200 from now
    assert placed(one, Tick(201)) == [("a", 0, 1, "m")]


def test_the_next_time_to_look_is_said_and_doubles() -> None:
    one = straggling()
    assert one.next_change() == 101
    one.handle(Tick(101))
    assert one.next_change() == 103
    one.handle(Tick(130))
    assert one.next_change() == 161


def test_nobody_is_late_while_all_goes_as_expected() -> None:
    one = made(node("n"), node("m", speed=0.1))
    submit(one, chain("a", 3), 100)
    placed(one, Tick(0), ContainerStarted(0, 1))
    one.handle(ContainerEnded(100, 1, 0, 100))
    assert placed(one, Tick(100)) == [("a", 0, 1, "n")]


# -- gangs, and who is asked about ----------------------------------------------------------------


def test_a_gang_starts_when_the_turns_of_all_its_tasks_have_come() -> None:
    one = made(node("n"), node("m"))
    submit(one, chain("a", 1), 100)
    submit(one, gang(2), 100)
    submit(one, chain("b", 1), 10)
    assert placed(one, Tick(0)) == [("a", 0, 0, "n")]
    assert placed(one, ContainerEnded(100, 1, 0, 100), Tick(100)) == [("g", 0, 0, "n"), ("g", 0, 1, "m")]
    assert lines(one) == {"m": [("b", 0, 0)]} or lines(one) == {"n": [("b", 0, 0)]}


def gang(tasks: int) -> Job:
    return job("g", Stage(name="s", tasks=tasks, demand=(1000, 1024), gang=True))


def test_tasks_of_a_gang_do_not_wait_for_each_other() -> None:
    one = made(node("fast"), node("slow", speed=0.1))
    submit(one, chain("a", 1), 100)
    submit(one, gang(2), 100)
    placed(one, Tick(0))
    assert lines(one) == {"fast": [("g", 0, 0)], "slow": [("g", 0, 1)]}


def test_where_nodes_beat_a_gang_is_assigned_to_one() -> None:
    one = made(node("fast"), node("slow", 2, speed=0.1), offers="heartbeat")
    submit(one, gang(2), 100)
    assert lines(one) == {"slow": [("g", 0, 0), ("g", 0, 1)]}
    assert placed(one, Heartbeat(5, "fast"), Heartbeat(6, "slow")) == [("g", 0, 0, "slow"), ("g", 0, 1, "slow")]


def test_a_gang_that_never_fits_has_no_turns() -> None:
    one = made(node("n"), node("m"))
    submit(one, gang(3), 100)
    assert (placed(one, Tick(0)), lines(one)) == ([], {})


def test_who_is_asked_about_gets_the_node_that_it_was_assigned_to() -> None:
    one = made(node("slow", speed=0.5), node("fast"))
    submit(one, chain("a", 1), 1000)
    assert placed(one, OfferAsked(0, "a", 0)) == [("a", 0, 0, "fast")]


def test_or_another_where_that_is_ruled_out() -> None:
    one = made(node("slow", speed=0.5), node("fast"))
    submit(one, chain("a", 1), 1000)
    assert placed(one, OfferAsked(0, "a", 0, ("slow",))) == [("a", 0, 0, "slow")]
    assert lines(one) == {}
