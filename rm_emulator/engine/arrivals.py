"""Arrivals: the facts before the first job, and each job at its time, with true run times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rm_emulator.engine import containers
from rm_emulator.engine.calendar import ARRIVE
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Master
from rm_emulator.engine.execution import Execution, StageTimes, node_means, wave_times
from rm_emulator.engine.profile import Engine
from rm_emulator.workload.model import Workload, WorkloadJob
from schedulers.core.events import (
    ContainerAdopted,
    Estimated,
    Event,
    HistoryPrimed,
    JobChanged,
    JobSubmitted,
    LinksSet,
    NodeAdded,
    QueueChanged,
)
from schedulers.core.model import Job


class Arrivals:
    """The jobs of a workload in the order of arrival.

    `execution` draws true run times. With `oracle`, the true means are told before each job. `count`: jobs so far.
    """

    def __init__(self, engine: Engine, execution: Execution, *, oracle: bool) -> None:
        self._engine, self._execution, self._oracle = engine, execution, oracle
        self._jobs = engine.workload.jobs
        self.count = 0

    @property
    def are_left(self) -> bool:
        """Whether jobs are still to come."""
        return self.count < len(self._jobs)

    @property
    def batch_left(self) -> bool:
        """Whether batch jobs are live or still to come."""
        if any(not job.is_service for job in self._engine.jobs.values()):
            return True
        # By number: a slice would copy all jobs to come, at the end of each job.
        return any(self._jobs[number].job.kind == "batch" for number in range(self.count, len(self._jobs)))

    @property
    def finished_jobs(self) -> int:
        """Number of jobs that have arrived and ended."""
        return self.count - len(self._engine.jobs)

    @property
    def jobs(self) -> Sequence[WorkloadJob]:
        """The jobs so far and the jobs to come, in order of arrival."""
        return self._jobs

    @property
    def arrived(self) -> Sequence[WorkloadJob]:
        """The jobs so far, in order of arrival."""
        return self._jobs[: self.count]

    def expect(self) -> None:
        """Enter the next arrival alone, so that a long workload costs no memory on the calendar."""
        if self.are_left:
            self._engine.calendar.at(self._jobs[self.count].submit_ms, ARRIVE, self.count, self._arrive, self.count)

    def is_arrival(self, callback: Any) -> bool:
        """Whether an entry of the calendar with this callback is an arrival."""
        return bool(callback == self._arrive)

    def replace(self, jobs: Sequence[WorkloadJob]) -> None:
        """Let these jobs come in place of all that have not arrived; no arrival is on the calendar."""
        self._jobs = (*self._jobs[: self.count], *jobs)
        self.expect()

    def estimate(self, job: Job, times: Sequence[StageTimes]) -> None:
        """Tell an oracle the true means of a job's run times by stage; distributions too where executors are played."""
        if self._oracle and job.kind == "batch":
            means = tuple(round(each.mean_ms) for each in times)
            by_wave = wave_times(times) if self._engine.control.wants_waves else ()
            self._engine.tell(Estimated(self._engine.calendar.now, job.id, means, node_means(times), by_wave))

    def _arrive(self, number: int) -> None:
        self.count = number + 1
        self.expect()
        job = self._submit(number)
        if job.source.running:
            self._adopt(job)
        self._engine.carry_on()

    def submit_anew(self, job: Master) -> None:
        """Submit a job anew, whose containers have ended and which the scheduler has forgotten."""
        anew = self._submit(job.number, again=True)
        # The times and costs of a job count from the first submission on.
        anew.first_start_ms, anew.failed_attempts, anew.work_ms = job.first_start_ms, job.failed_attempts, job.work_ms
        anew.resubmitted_ms = self._engine.calendar.now

    def _submit(self, number: int, *, again: bool = False) -> Master:
        engine, source = self._engine, self._jobs[number]
        now, spec = engine.calendar.now, source.job
        times = self._execution.stage_times(source)
        if source.am:
            spec = containers.with_master(spec, source.am)
        # Before the job, so that the policy has its estimates at the first decision.
        self.estimate(spec, times)
        # The decisions wait for the `Master`: a placement needs the job in `engine.jobs`.
        decisions = engine.handle(JobSubmitted(now, spec, "asked" if source.am else engine.profile.asks, again))
        job = engine.jobs[spec.id] = Master(source, number, times, engine.control.job(spec.id))
        for index, stage in enumerate(spec.stages):
            engine.record.demand(spec.id, index, stage.demand)
        engine.carry_out(decisions)
        engine.profile.arrived(job)
        return job

    def _adopt(self, job: Master) -> None:
        """Take in the tasks that run already; all jobs of an instant arrive before the first offer of room."""
        engine, running = self._engine, job.source.running
        now = engine.calendar.now
        decisions = engine.handle(JobChanged(now, job.name, tuple(sorted({each.stage for each in running}))))
        # Profiles offer no room on these facts, so nothing but this loop takes a number.
        for number, each in enumerate(running, start=max(engine.containers, default=0) + 1):
            adopted = ContainerAdopted(now, number, each.node, job.name, each.stage, each.task)
            decisions += engine.handle(adopted)
            # A task of a job that its queue does not let in waits like all others.
            if number in engine.control.containers:
                container = engine.make_container(number, each.node, job.name)
                container.stage, container.task, container.granted_ms = each.stage, each.task, now
                engine.started(container)
        engine.carry_out(decisions)


def first_facts(config: EngineConfig, workload: Workload) -> Iterator[Event]:
    """The facts before the first job: queues, nodes, links, history."""
    yield from (QueueChanged(0, queue) for queue in config.queues)
    yield from (NodeAdded(0, node) for node in config.nodes)
    if config.links is not None:
        yield LinksSet(0, config.links)
    if workload.history:
        yield HistoryPrimed(0, workload.history)
