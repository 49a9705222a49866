"""Policy `fair_yarn`: what YARN's FairScheduler says of itself through the core."""

from __future__ import annotations

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.events import Heartbeat, JobSubmitted
from schedulers.core.reasons import Reason


def test_who_waits_beside_a_reservation_is_told_whom_it_serves() -> None:
    there = scheduler({"kind": "fair_yarn"}, node("n", 10), offers="heartbeat")
    there.handle(JobSubmitted(0, job("large", stage(3, demand=(6000, 1024)))))
    for now in (500, 1000):
        there.handle(Heartbeat(now, "n"))
    there.handle(JobSubmitted(1100, job("small", stage(2))))
    there.handle(Heartbeat(1500, "n"))
    assert [container.job for container in there.state.containers.values()] == ["large"]
    first = there.explain("small").reasons[0]
    assert first.reason is Reason.RESERVED
    assert first.sentence == "the room that it needs is reserved for job large"
    assert there.explain("large").reasons[0].reason is Reason.NO_ROOM
