"""Policy `fair_yarn`: what YARN's FairScheduler says of itself through the core."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import MemoryRecording, job, node, scheduler, stage
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.events import Heartbeat, JobSubmitted
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Queue
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler


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


@pytest.mark.parametrize("policy", ["fair_yarn", "capacity"])
def test_a_job_that_its_queue_lets_in_late_gets_its_master_then(policy: str) -> None:
    jobs = tuple(
        WorkloadJob(job=job(f"j{n}", stage(2)), submit_ms=1000 * n, runtimes=(Fixed(5000),), am=(1000, 1024))
        for n in range(3)
    )
    config = EngineConfig(nodes=(node("n", 16),), profile="sls", queues=(Queue(name="default", max_running=1),))
    settings = SchedulerConfig(resources=("cpu", "memory"), policy={"kind": policy}, offers="heartbeat")
    kept = MemoryRecording()
    Simulation(config, Workload(name="w", jobs=jobs), Scheduler(settings), kept).run()
    masters = [task for task in kept.tasks if task.stage == 1]
    for earlier, later in pairwise(sorted(masters, key=lambda task: task.started_ms)):
        assert later.started_ms >= earlier.ended_ms
    assert len(masters) == 3
