"""A run that begins from the state of a restored scheduler: nobody has emulated what came before.

Policy, predictor and their memory are the scheduler's own. Begun anew are launches of granted containers and creations
of pods that the scheduler has not seen: these take as long as if they began now.
"""

from __future__ import annotations

from typing import Final

from rm_emulator.engine.calendar import END
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.execution import ListedTimes, StageTimes
from rm_emulator.engine.features.services import ServicesFeature
from rm_emulator.engine.recording import Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.live import RUNNING, ContainerState, JobState
from schedulers.core.scheduler import Scheduler

#: Run time of every task until others are drawn, ms; a task that runs lasts longer than it has.
_LEAST_MS: Final = 1


def remembered(
    scheduler: Scheduler, now_ms: int, record: Recording, *, profile: str = "kubernetes", seed: int = 0
) -> Simulation:
    """The run of a scheduler from the present on, at `now_ms`, not before the state's own time.

    Run times are placeholders, to be exchanged by `branch`. Tasks of cancelled jobs end at once.
    """
    state = scheduler.state
    jobs = sorted(state.jobs.values(), key=lambda job: job.seq)
    config = EngineConfig(
        nodes=tuple(node.spec for node in state.nodes.values()),
        resources=scheduler.config.resources,
        queues=tuple(state.queues.values()),
        profile=profile,
    )
    workload = Workload(name="cluster", jobs=tuple(map(_source, jobs)), resources=config.resources)
    made = Simulation(config, workload, scheduler, record, seed=seed)
    made.calendar.advance(now_ms)
    made.arrivals.count = len(jobs)
    for number, (job, source) in enumerate(zip(jobs, workload.jobs, strict=True)):
        made.jobs[job.id] = _master(job, source, number)
    nodes = {node.id: index for index, node in enumerate(config.nodes)}
    for container in state.containers.values():
        if (master := made.jobs.get(container.job)) is not None:
            _add(made, container, master, nodes[container.node])
    made.enter_first(None)
    made.profile.take_over(made.profile)
    return made


def _source(job: JobState) -> WorkloadJob:
    return WorkloadJob(job=job.spec, submit_ms=job.submitted, runtimes=(Fixed(_LEAST_MS),) * len(job.spec.stages))


def _master(job: JobState, source: WorkloadJob, number: int) -> Master:
    """The job's master; it knows what its scheduler knows."""
    times: list[StageTimes] = [ListedTimes([_LEAST_MS] * stage.tasks) for stage in job.stages]
    made = Master(source, number, times, job)
    made.tasks_left = [stage.tasks - stage.finished for stage in job.stages]
    made.parents_left = [stage.parents_left for stage in job.stages]
    if any(stage.finished for stage in job.stages):
        made.first_start_ms = job.submitted  # the start of a task that has ended is not in the state
    return made


def _add(made: Simulation, container: ContainerState, master: Master, index: int) -> None:
    runs = container.status == RUNNING
    started = max(container.started, container.granted) if runs else None
    number, now = container.id, made.calendar.now
    there = made.containers[number] = Container(
        job=container.job,
        stage=container.stage,
        task=container.task,
        attempt=container.attempt,
        node=container.node,
        container=number,
        granted_ms=container.granted,
        started_ms=started,
        ended_ms=0,
        pilot=container.pilot,
        code=0,
        index=index,
        master=master,
    )
    if started is None:
        made.launch(there)
        return
    master.first_start_ms = started if master.first_start_ms is None else min(started, master.first_start_ms)
    services = made.feature(ServicesFeature)
    if services is not None and services.started(there):
        return
    there.runtime = max(_LEAST_MS, now - started + 1)
    made.enter_end(started + there.runtime, END, number, made.over, there)
