"""Policy `capacity`: what queues of ours become in YARN's CapacityScheduler, and whom its preemption serves."""

from __future__ import annotations

import pytest

from rm_emulator.engine.exit_codes import PREEMPTED
from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.decisions import Place, Preempt
from schedulers.core.events import ContainerEnded, Heartbeat, JobSubmitted, QueueChanged, Tick
from schedulers.core.model import Limit, Queue, Service
from schedulers.core.scheduler import Scheduler
from schedulers.yarn.policy import Units
from schedulers.yarn.tree import Branch, fraction, parts


def siblings(*queues: Queue) -> list[Branch]:
    return [Branch(f"root.{queue.name}", queue) for queue in queues]


def test_a_guarantee_is_the_capacity_and_weights_share_the_rest() -> None:
    there = siblings(Queue(name="a", guaranteed=0.4), Queue(name="b", weight=2.0), Queue(name="c"))
    assert parts(there, [0.4, None, None]) == pytest.approx([0.4, 0.4, 0.2])


def test_where_all_have_one_the_rest_goes_to_them_in_proportion() -> None:
    assert parts(siblings(Queue(name="a"), Queue(name="b")), [0.2, 0.3]) == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, None), (0.3, 0.3), ((3, 5), 0.5), ((3, -1), None), ((0, 2), 0.2)]
)
def test_one_number_for_all_resources_is_never_stricter(limit: Limit, expected: float | None) -> None:
    assert fraction(limit, (10, 10)) == expected


def two_queues(service: Service | None = None, **preemption: object) -> Scheduler:
    """Queue a holds all of 10 CPUs, since its jobs came alone; then a job comes to b. service: what those of a are."""
    settings = {"kind": "capacity", "preemption": {"enabled": True, "period_ms": 1000, **preemption}}
    there = scheduler(settings, node("n", 10), offers="heartbeat")
    for queue in (Queue(name="a", per_user=None), Queue(name="b")):
        there.handle(QueueChanged(0, queue))
    # Of many users, since one user may not go beyond the queue's own.
    for number in range(10):
        there.handle(JobSubmitted(0, job(f"a{number}", stage(4), queue="a", user=f"u{number}", service=service)))
    for beat in range(40):
        there.handle(Heartbeat(beat, "n"))
    assert len(there.state.containers) == 10
    there.handle(JobSubmitted(50, job("b0", stage(4), queue="b", user="v")))
    return there


def killed(there: Scheduler, until_ms: int) -> list[tuple[int, Preempt]]:
    found = []
    for now in range(1000, until_ms + 1, 1000):
        new = [d for d in there.handle(Tick(now)) if isinstance(d, Preempt)]
        for decision in new:
            there.handle(ContainerEnded(now + 1, decision.container, PREEMPTED, 0))
        for beat in range(8):
            there.handle(Heartbeat(now + 2 + beat, "n"))
        found += [(now, decision) for decision in new]
    return found


def test_a_preemption_says_whom_it_serves_and_by_which_numbers() -> None:
    there = two_queues(max_wait_before_kill_ms=3000, natural_termination_factor=1.0, total_per_round=1.0)
    (first, decision), *_ = killed(there, 6000)
    assert first == 4000  # marked in the first round, killed when chosen again after the wait
    assert decision.cause == "b0"
    assert decision.rule == "queue root.a holds 100.0% of the cluster and is guaranteed 50.0%"


def test_what_is_not_preemptible_stays() -> None:
    there = two_queues(max_wait_before_kill_ms=0)
    there.handle(QueueChanged(60, Queue(name="a", preemptible=False)))
    assert killed(there, 9000) == []


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_service_is_stopped_only_where_it_may_be(preemptible: bool) -> None:
    there = two_queues(Service(preemptible=preemptible), max_wait_before_kill_ms=0, natural_termination_factor=1.0)
    assert bool(killed(there, 9000)) is preemptible


def test_the_one_that_was_preempted_takes_nothing_back() -> None:
    there = two_queues(max_wait_before_kill_ms=1000, natural_termination_factor=1.0, total_per_round=1.0)
    assert killed(there, 30_000)
    held = {"a": 0, "b": 0}
    for container in there.state.containers.values():
        held[container.job[0]] += 1
    assert held == {"a": 6, "b": 4}
    assert not any(isinstance(d, Place) for d in there.handle(Heartbeat(40_000, "n")))


def test_limits_are_told_in_the_units_of_kubernetes() -> None:
    parts, whole = (Units(("cpu", "memory"), whole=whole) for whole in (False, True))
    assert (parts.show("vcores", 2500), whole.show("vcores", 2), whole.show("memory", 4096)) == ("2500m", "2", "4Gi")
