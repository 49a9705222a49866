"""Faults where schedulers think, or see no cluster: what each has heard, and what becomes of claims and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest

from rm_emulator.engine.config import (
    Architecture,
    Central,
    Decentralised,
    EngineConfig,
    Faults,
    GiveUp,
    NodeFault,
    TaskFaults,
    Thinker,
    TwoLevel,
)
from rm_emulator.engine.config import SharedState as Shared
from rm_emulator.engine.in_memory import MemoryRun, run_in_memory
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers, assign_jobs, first_container
from rm_emulator.engine.workers import Workers
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.decentralised.decider import Decentraliser

ONE = (Thinker(name="x", t_job_ms=1000, t_task_ms=0),)
THINKING: dict[str, Architecture] = {
    "central": Central(t_job_ms=1000),
    "shared_state": Shared(schedulers=ONE),
    "two_level": TwoLevel(schedulers=ONE),
}


def source(name: str, tasks: int = 1, at: int = 0, ms: int = 10_000, **fields: Any) -> WorkloadJob:
    """A job of one stage, its tasks of one core."""
    stages = (Stage(name="s", tasks=tasks, demand=(1,)),)
    return WorkloadJob(job=Job(id=name, stages=stages, **fields), submit_ms=at, runtimes=(Fixed(ms),))


def fault(at: int, until: int | None = None, **fields: Any) -> NodeFault:
    return NodeFault(at_ms=at, node="n0", lasts_ms=None if until is None else until - at, **fields)


def run(architecture: Architecture, jobs: Sequence[WorkloadJob], *outages: NodeFault, **more: Any) -> MemoryRun:
    """These jobs on nodes `n0`, `n1` of so many `cores`, under first_fit."""
    cores, count = more.pop("cores", 1), more.pop("nodes", 2)
    config = EngineConfig(
        nodes=tuple(Node(id=f"n{n}", capacity=(cores,)) for n in range(count)),
        resources=("cpu",),
        profile="events",
        architecture=architecture,
        faults=Faults(outages=outages, **more),
    )
    workload = Workload(name="w", jobs=tuple(jobs), resources=("cpu",))
    if isinstance(architecture, Decentralised):
        plain = msgspec.to_builtins(architecture.probing)
        rules = SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, decentralised=plain)
        return run_in_memory(config, workload, Workers(Decentraliser(rules)))
    thinkers = getattr(architecture, "thinkers", ONE)
    schedulers = [
        Scheduler(
            SchedulerConfig(
                resources=("cpu",), policy={"kind": "fifo"}, offers="thought", first_container=first_container(n)
            )
        )
        for n in range(len(thinkers))
    ]
    return run_in_memory(config, workload, MultipleSchedulers(schedulers, assign_jobs(jobs, thinkers)))


def attempts(ran: MemoryRun) -> list[tuple[str, int, int, int]]:
    return [(task.node, task.granted_ms, task.ended_ms, task.code) for task in ran.recording.tasks]


def claims(ran: MemoryRun) -> list[tuple[int, int, int]]:
    return [(row.ended_ms, row.placed, row.refused) for row in ran.recording.tries]


def test_a_central_scheduler_hears_of_a_loss_while_it_thinks_and_places_elsewhere() -> None:
    ran = run(THINKING["central"], [source("a")], fault(500))
    assert claims(ran) == [(1000, 1, 0)]
    assert attempts(ran) == [("n1", 1000, 11_000, 0)]


@pytest.mark.parametrize("name", ["shared_state", "two_level"])
def test_a_claim_on_a_node_lost_since_the_look_is_refused_and_is_no_failed_attempt(name: str) -> None:
    ran = run(THINKING[name], [source("a")], fault(500))
    # Refused at 1 s, in the queue again a second later, thought about for another.
    assert claims(ran) == [(1000, 0, 1), (3000, 1, 0)]
    assert attempts(ran) == [("n1", 3000, 13_000, 0)]
    assert ran.recording.tasks[0].attempt == ran.recording.jobs[0].failed_tasks == 0


@pytest.mark.parametrize("name", ["shared_state", "two_level"])
def test_a_claim_on_a_node_that_was_lost_and_is_back_is_refused_too(name: str) -> None:
    ran = run(THINKING[name], [source("a")], fault(500, 700))
    assert claims(ran) == [(1000, 0, 1), (3000, 1, 0)]


@pytest.mark.parametrize("name", ["shared_state", "two_level"])
def test_a_claim_on_a_node_drained_since_the_look_is_refused(name: str) -> None:
    ran = run(THINKING[name], [source("a")], fault(500, kind="drain"))
    assert claims(ran) == [(1000, 0, 1), (3000, 1, 0)]


def test_with_one_claim_on_a_lost_node_a_whole_commit_is_refused() -> None:
    whole = Shared(schedulers=ONE, commit="all_or_nothing")
    ran = run(whole, [source("a", tasks=2)], fault(500, 2500))
    assert claims(ran) == [(1000, 0, 2), (3000, 0, 0), (5000, 2, 0)]


def test_a_scheduler_that_hears_at_once_claims_elsewhere() -> None:
    ran = run(Shared(schedulers=ONE, own_ends="at_once"), [source("a")], fault(500))
    assert claims(ran) == [(1000, 1, 0)]


@pytest.mark.parametrize("name", THINKING)
def test_a_task_lost_with_its_node_is_thought_about_again(name: str) -> None:
    ran = run(THINKING[name], [source("a")], fault(3000))
    assert attempts(ran) == [("n0", 1000, 3000, -100), ("n1", 4000, 14_000, 0)]


@pytest.mark.parametrize("name", THINKING)
def test_a_dead_node_holds_its_tasks_and_takes_more_until_the_death_is_noticed(name: str) -> None:
    ran = run(THINKING[name], [source("a", tasks=2)], fault(500), noticed_after_ms=5000, nodes=3)
    assert attempts(ran) == [("n0", 1000, 5500, -100), ("n1", 1000, 11_000, 0), ("n2", 6500, 16_500, 0)]


def test_a_lost_node_is_offered_to_no_framework() -> None:
    two = TwoLevel(schedulers=(Thinker(name="x", users=("x",), t_job_ms=1000, t_task_ms=0), Thinker(name="y")))
    ran = run(two, [source("a", at=1000, user="x"), source("b", at=1000)], fault(500))
    # n1 alone is on offer, to x; it is full until 12 s. Were n0 on offer, y would begin with 1 s.
    assert [(row.scheduler, row.began_ms) for row in ran.recording.tries] == [("x", 1000), ("y", 12_000)]


def test_a_node_that_is_back_is_offered_again() -> None:
    ran = run(THINKING["two_level"], [source("a", at=1000)], fault(500, 5000), nodes=1)
    assert attempts(ran) == [("n0", 6000, 16_000, 0)]


@pytest.mark.parametrize("own_ends", ["afterwards", "at_once"])
@pytest.mark.parametrize("conflict", ["resource_fit", "sequence"])
def test_who_hears_that_a_drained_node_is_back_hears_what_others_still_hold_there(conflict: Any, own_ends: Any) -> None:
    thinkers = (Thinker(name="x", users=("x",), t_job_ms=100), Thinker(name="y", t_job_ms=10_000, t_task_ms=0))
    shared = Shared(schedulers=thinkers, conflict=conflict, own_ends=own_ends)
    jobs = [source("a", user="x", ms=60_000), source("b", at=1000, ms=1000)]
    ran = run(shared, jobs, fault(2000, 3000, kind="drain"), nodes=1)
    # x holds the node from 0.105 s to 60.105 s: y, who thinks from 1 s on, must not start there before.
    assert min(task.granted_ms for task in ran.recording.tasks if task.job == "b") > 60_105


def test_a_stage_that_backs_off_is_not_asked_for_by_a_retry() -> None:
    rules = TaskFaults(probability=1.0, attempts=2, backoff_ms=60_000)
    ran = run(Central(t_job_ms=100), [source("a", tasks=2, ms=500)], nodes=1, tasks=rules)
    first, second = ran.recording.tasks[:2]
    assert second.granted_ms - first.ended_ms == 60_100


def test_a_job_that_was_given_up_is_over_when_its_last_container_is_lost() -> None:
    one = Shared(schedulers=(Thinker(name="one", t_job_ms=0, t_task_ms=0),), give_up=GiveUp(none_placed=1, attempts=2))
    ran = run(one, [source("wide", tasks=6, ms=60_000)], fault(10_000), nodes=1, cores=4)
    assert [row.placed for row in ran.recording.tries] == [4, 0, 0]
    assert [code for *_, code in attempts(ran)] == [-100] * 4
    assert [row.finish_ms for row in ran.recording.jobs] == [None]


# -- workers with queues: a message takes 10 ms, so that a reservation leads to a start after 30 ms -------------


SPARROW = Decentralised(message_ms=10, probe_ratio=1.0)
#: From the search for a worker to the start of the task, ms.
METHODS = pytest.mark.parametrize(
    ("method", "takes"), [("random", 10), ("per_task", 30), ("batch", 30), ("late_binding", 30)]
)
Method = Literal["random", "per_task", "batch", "late_binding"]


def test_a_task_lost_with_its_worker_waits_at_another_worker() -> None:
    ran = run(SPARROW, [source("a", tasks=2)], fault(1000))
    # The second reservation waits at n1 from 1.01 s on, and is asked about when n1 is free.
    assert attempts(ran) == [("n0", 30, 1000, -100), ("n1", 30, 10_030, 0), ("n1", 10_050, 20_050, 0)]


def test_reservations_at_a_dead_worker_are_made_elsewhere_when_the_death_is_noticed() -> None:
    ran = run(SPARROW, [source("a", tasks=2, ms=1000)], fault(5), noticed_after_ms=5000)
    assert attempts(ran) == [("n1", 30, 1030, 0), ("n1", 5035, 6035, 0)]


def test_what_waits_at_a_drained_worker_waits_elsewhere_and_what_runs_there_goes_on() -> None:
    ran = run(SPARROW, [source("a", tasks=4)], fault(1000, kind="drain"))
    assert attempts(ran) == [
        ("n0", 30, 10_030, 0),
        ("n1", 30, 10_030, 0),
        ("n1", 10_050, 20_050, 0),
        ("n1", 20_070, 30_070, 0),
    ]


def test_messages_to_a_silent_worker_wait_until_it_is_heard_again() -> None:
    ran = run(SPARROW, [source("a")], fault(5, 2000, kind="silent"), nodes=1, noticed_after_ms=5000)
    assert attempts(ran) == [("n0", 2020, 12_020, 0)]


@METHODS
@pytest.mark.parametrize("at", [0, 100])
def test_tasks_without_any_worker_wait_for_the_first_that_comes(method: Method, takes: int, at: int) -> None:
    one = Decentralised(message_ms=10, method=method)
    ran = run(one, [source("a", at=at)], fault(5, 2000), nodes=1)
    assert attempts(ran) == [("n0", 2000 + takes, 12_000 + takes, 0)]


@METHODS
def test_a_failed_task_is_launched_anew_a_message_after_its_failure(method: Method, takes: int) -> None:
    one = Decentralised(message_ms=10, method=method)
    ran = run(one, [source("a")], tasks=TaskFaults(probability=1.0, attempts=2))
    first, second = ran.recording.tasks
    assert (first.code, second.code, second.attempt) == (1, 1, 1)
    assert second.granted_ms == first.ended_ms + 10 + takes
    assert [row.failed_ms for row in ran.recording.jobs] == [second.ended_ms]


@pytest.mark.parametrize(("method", "at"), [("per_task", 515), ("batch", 515), ("late_binding", 30)])
def test_answers_of_a_dead_worker_are_awaited_until_the_death_is_noticed(method: Method, at: int) -> None:
    both = Decentralised(message_ms=10, method=method, probe_ratio=2.0)
    ran = run(both, [source("a")], fault(5), noticed_after_ms=500)
    # With late binding n1 asks by itself; else its answer waits from 20 ms on for that of n0, until 505 ms.
    assert attempts(ran) == [("n1", at, 10_000 + at, 0)]


def test_a_job_too_large_for_the_workers_left_waits_and_one_too_large_for_all_is_given_up() -> None:
    large = WorkloadJob(
        job=Job(id="large", stages=(Stage(name="s", tasks=1, demand=(9,)),)), submit_ms=100, runtimes=(Fixed(5),)
    )
    ran = run(SPARROW, [large, source("a", at=200)], fault(5, 2000), nodes=1)
    assert {row.id: row.finish_ms for row in ran.recording.jobs} == {"large": None, "a": 12_030}


def test_stages_that_back_off_are_refused_where_workers_have_queues() -> None:
    with pytest.raises(ValueError, match="no task backs off with architecture 'decentralised'"):
        run(SPARROW, [source("a")], tasks=TaskFaults(probability=0.5, backoff_ms=1000))
