"""A run goes on from a moment in another way than it would have: with other run times, and other jobs to come.

What has happened by the moment stays: containers, heartbeats, launches, transfers and messages on their way. Nothing is
drawn here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rm_emulator.engine.config import Thinking
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.execution import StageTimes
from rm_emulator.engine.features.disorder import DisorderFeature
from rm_emulator.engine.features.overbooking import Overbooking
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import PerNode, WorkloadJob
from schedulers.decentralised.settings import Probing


class Future(Protocol):
    """Run times from the moment on."""

    def stage_times(self, job: Master) -> list[StageTimes]:
        """Run times of all tasks of a live job, by stage: of a running task longer than it has run so far."""


def obstacle(engine: Simulation) -> str:
    """Why the run cannot be continued with other run times, as the end of a sentence; '' where it can."""
    architecture = engine.config.architecture
    if isinstance(architecture, Probing | Thinking):
        return "several schedulers decide, or a scheduler takes time to think"
    if engine.feature(Overbooking) is not None:
        return "tasks of a node slow each other down (overbooking)"
    if engine.feature(DisorderFeature) is not None:
        return "facts come in disorder"
    if any(isinstance(times, PerNode) for source in engine.workload.jobs for times in source.runtimes):
        return "run times are given by node"
    return ""


def branch(engine: Simulation, future: Future | None, arrivals: Sequence[WorkloadJob]) -> None:
    """Let the run go on with these run times, and with these jobs in place of all jobs to come.

    future: None leaves run times as they are. arrivals: in order of submission, none before the present moment.
    The run is paused after `Calendar.advance`.
    """
    if future is not None:
        for job in engine.jobs.values():
            if not job.is_service:
                job.times = future.stage_times(job)

    def when(at: int, callback: Any, value: Any) -> int | None:
        if engine.arrivals.is_arrival(callback):
            return None
        if future is None or not isinstance(value, Container) or callback != engine.over:
            return at
        # Preempted, or an application master: its end is not a task's.
        if engine.containers.get(value.container) is not value or value.stage == value.master.master_stage:
            return at
        assert value.started_ms is not None
        engine.set_run_time(value)
        value.runtime = max(value.runtime, engine.calendar.now - value.started_ms + 1)
        return value.started_ms + value.runtime

    engine.calendar.exchange(when)
    engine.arrivals.replace(arrivals)
