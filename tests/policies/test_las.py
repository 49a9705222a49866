"""Least attained service: jobs sink as they consume, running tasks included (SLearn, section 5.1.3)."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, ContainerStarted, JobSubmitted, Tick
from schedulers.core.scheduler import Scheduler

SMALL = {"kind": "las", "queues": 3, "first_threshold_ms": 100.0}


def served(decisions: list) -> list[str]:
    return [d.job for d in decisions if isinstance(d, Place)]


def queue(made: Scheduler, name: str) -> int:
    return made.policy.about(made.state.jobs[name])["queue"]


@pytest.fixture
def two() -> Scheduler:
    """Two cores; job a runs two of its tasks since time 0."""
    made = scheduler(SMALL, node("n", 2), offers="cycle")
    made.handle(JobSubmitted(0, job("a", stage(9))))
    made.handle(Tick(0))
    made.handle(ContainerStarted(0, 1))
    made.handle(ContainerStarted(0, 2))
    return made


def test_a_new_job_goes_before_one_that_had_its_share(two: Scheduler) -> None:
    two.handle(ContainerEnded(60, 1, 0, 60))  # a has attained 60 + 60
    two.handle(JobSubmitted(60, job("b", stage(9))))
    assert served(two.handle(Tick(60))) == ["b"]
    assert queue(two, "a") == 1


def test_attained_service_counts_running_tasks(two: Scheduler) -> None:
    assert two.state.jobs["a"].attained_ms(40) == 80
    two.handle(ContainerEnded(40, 1, 0, 40))
    assert two.state.jobs["a"].attained_ms(45) == 85


def test_below_the_bound_a_job_stays(two: Scheduler) -> None:
    two.handle(ContainerEnded(49, 1, 0, 49))
    two.handle(Tick(49))
    assert queue(two, "a") == 0


def test_at_the_bound_a_job_sinks(two: Scheduler) -> None:
    two.handle(ContainerEnded(50, 1, 0, 50))
    two.handle(Tick(50))
    assert queue(two, "a") == 1


def test_a_long_running_task_does_not_hide_its_job() -> None:
    # Nothing happens to a after its task has started, and yet it sinks as time passes.
    made = scheduler(SMALL, node("n", 2), offers="cycle")
    made.handle(JobSubmitted(0, job("b", stage(1))))
    made.handle(JobSubmitted(0, job("a", stage(9))))
    made.handle(Tick(0))
    made.handle(ContainerStarted(1, 1))
    made.handle(ContainerStarted(1, 2))
    made.handle(JobSubmitted(2, job("c", stage(9))))
    made.handle(ContainerEnded(150, 1, 0, 149))
    assert served(made.handle(Tick(150))) == ["c"]
    assert queue(made, "a") == 1


def test_a_job_sinks_through_several_bounds_at_once(two: Scheduler) -> None:
    two.handle(ContainerEnded(5000, 1, 0, 5000))
    two.handle(Tick(5000))
    assert queue(two, "a") == 2


def test_a_job_never_rises_again(two: Scheduler) -> None:
    two.handle(ContainerEnded(60, 1, 0, 60))
    two.handle(Tick(60))
    two.handle(ContainerEnded(61, 2, 0, 1))  # heard late: it had run for 1 ms only
    two.handle(Tick(61))
    assert queue(two, "a") == 1


def test_inside_a_queue_it_is_first_come_first_served() -> None:
    made = scheduler(SMALL, node("n", 1), offers="cycle")
    for name in ("b", "a"):
        made.handle(JobSubmitted(0, job(name, stage(3))))
    assert served(made.handle(Tick(0))) == ["b"]


def test_queues_share_by_weight_so_that_no_job_starves() -> None:
    made = scheduler({**SMALL, "weight_decay": 2.0}, node("n", 6), offers="cycle")
    made.handle(JobSubmitted(0, job("old", stage(60))))
    made.handle(Tick(0))
    for container in range(1, 7):
        made.handle(ContainerStarted(0, container))
    for container in range(1, 7):
        made.handle(ContainerEnded(50, container, 0, 50))
    made.handle(JobSubmitted(50, job("new", stage(60))))
    counts = served(made.handle(Tick(50)))
    assert (counts.count("new"), counts.count("old")) == (4, 2)
