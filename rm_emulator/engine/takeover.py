"""The present of a paused run, taken over by another scheduler: a run that begins from a state of the core.

The new scheduler hears facts alone, as a process does that takes over without a snapshot: queues, nodes, history, and
of each live job its submission, its asks, its finished tasks and its containers. Every fact is told with the time at
which the fact became true, in the order of these times, so that waits, elapsed times and history are as they were.

Nobody but the old scheduler and the old run know these; they are begun anew:
the memory of the policy (skipped offers, reservations, preemptions under way); the number of failed attempts of a task;
launches of granted containers; calls of application masters and creations of pods that were on their way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from rm_emulator.engine.branch import obstacle
from rm_emulator.engine.calendar import END
from rm_emulator.engine.containers import Master
from rm_emulator.engine.recording import Attempt, JobRow, Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.events import (
    ContainerAdopted,
    ContainerObserved,
    ContainerStarted,
    Event,
    HistoryPrimed,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    NodeAdded,
    NodeRemoved,
    QueueChanged,
    TaskFound,
)
from schedulers.core.live import RUNNING, ContainerState, JobState
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node, PastJob, topological_order
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState

replace = msgspec.structs.replace


class Takeover(msgspec.Struct, frozen=True):
    """By whom the present is taken over, and on which nodes."""

    scheduler: SchedulerConfig
    drained: tuple[str, ...] = ()
    """Nodes that take no new containers."""
    added: tuple[Node, ...] = ()
    """Nodes that come in addition."""


class Past(Recording):
    """What is over in a run: its jobs, and the finished tasks of live jobs. speeds: of the nodes, by id."""

    def __init__(self, sources: Mapping[str, WorkloadJob], speeds: Mapping[str, float]) -> None:
        self.ended: dict[str, int] = {}
        """End of each job that has ended, ms."""
        self.jobs: list[PastJob] = []
        """The batch jobs that have ended, in the order of their ends."""
        self.tasks: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
        """By live job, of each finished task (stage, task): end, and run time at node speed 1, ms."""
        self._sources, self._speeds = sources, speeds

    def task(self, attempt: Attempt) -> None:
        """Note the end of a task."""
        if attempt.code == 0 and attempt.started_ms is not None:
            ms = round((attempt.ended_ms - attempt.started_ms) * self._speeds[attempt.node])
            self.tasks.setdefault(attempt.job, {})[attempt.stage, attempt.task] = attempt.ended_ms, ms

    def job(self, row: JobRow) -> None:
        """Note the end of a job."""
        tasks = self.tasks.pop(row.id, {})
        if row.finish_ms is None:
            return
        self.ended[row.id] = row.finish_ms
        job = self._sources[row.id].job
        times: list[list[int]] = [[] for _ in job.stages]
        for (stage, _), (_, ms) in tasks.items():
            if stage < len(times):  # the application master's own stage stands behind the others
                times[stage].append(ms)
        self.jobs.append(
            PastJob(
                name=job.name,
                submitted=row.submit_ms,
                finished=row.finish_ms,
                stages=tuple((len(each), sum(each) / max(1, len(each))) for each in times),
                user=job.user,
                app=job.app,
                demand=tuple(map(max, zip(*(stage.demand for stage in job.stages), strict=True))),
            )
        )


def takeover_obstacle(engine: Simulation) -> str:
    """Why the present cannot be taken over, as the end of a sentence; '' where it can."""
    config = engine.config
    if config.architecture is not None:
        return "several schedulers decide, or a scheduler takes time to think"
    if config.executors is not None:
        return "executors outlive their tasks"
    if config.links is not None:
        return "data is on its way from node to node"
    if engine.control.copies:
        return "tasks run in copies"
    if any(source.job.kind == "service" for source in engine.workload.jobs):
        return "services have no end"
    return obstacle(engine)


def take_over(engine: Simulation, record: Recording, *, state: ClusterState, past: Past, by: Takeover) -> Simulation:
    """A run that goes on from the present of a paused run under a new scheduler. state: of the run's own scheduler.

    The paused run is used up: its jobs and containers are those of the new run.
    """
    scheduler, now = Scheduler(by.scheduler), engine.calendar.now
    # By the constructor, and not by a new control in the old engine: profile and features look at their control once.
    made = Simulation(
        replace(engine.config, nodes=(*engine.config.nodes, *by.added)),
        replace(engine.workload, jobs=tuple(engine.arrivals.jobs)),
        scheduler,
        record,
        seed=engine.seed,
        oracle=scheduler.predictor is not None and scheduler.predictor.told_truth,
    )
    # SimPy refuses a stop at its present time.
    if now:
        made.calendar.advance(now)
    told = facts(state, engine.containers, engine.workload.history, past)
    decisions = [decision for fact in told for decision in made.handle(fact)]
    made.arrivals.count = engine.arrivals.count
    _take_jobs(made, engine)
    _take_containers(made, engine)
    for node in by.added:
        decisions += made.handle(NodeAdded(now, node))
    for name in by.drained:
        decisions += made.handle(NodeRemoved(now, name))
    made.enter_first(engine.until)
    made.profile.take_over(engine.profile)
    # At last: a preempted container must be there.
    made.carry_out(decisions)
    return made


def _take_jobs(made: Simulation, engine: Simulation) -> None:
    made.jobs.update(engine.jobs)
    masters: dict[str, Master] = {container.job: container.master for container in engine.containers.values()}
    # A master that has ended its job may still have a container, whose end is unheard.
    for name, master in {**masters, **engine.jobs}.items():
        master.state = made.control.job(name)
    for job in engine.jobs.values():
        made.arrivals.estimate(job.source.job, job.times)


def _take_containers(made: Simulation, engine: Simulation) -> None:
    """Launch what was granted, and enter the ends of running tasks; masters and unreported ends are the profile's."""
    made.containers.update(engine.containers)
    for number, container in engine.containers.items():
        if container.started_ms is None:
            made.launch(container)
        elif not container.has_ended and container.stage != container.master.master_stage:
            made.enter_end(container.started_ms + container.runtime, END, number, made.over, container)


# -- facts ----------------------------------------------------------------------------------------

#: Time of a fact, and its place among the facts of the same instant.
_Order = tuple[int, int, int, int, int]
#: A stage opens with the end of its parents, so ends stand before adoptions.
_SUBMITTED, _ENDED, _OVER, _ADOPTED = range(4)


def facts(
    state: ClusterState, containers: Collection[int], history: tuple[PastJob, ...], past: Past
) -> Iterator[Event]:
    """The facts that tell the present of a state to a scheduler that knows nothing.

    containers: numbers of those that are there; the task of any other container waits. history: jobs that ended before
    the run began. past: finished tasks unknown here have the mean run time of their stage, and are told with their
    job's submission.
    """
    yield from (QueueChanged(0, queue) for queue in state.queues.values())
    for node in state.nodes.values():
        yield NodeAdded(0, node.spec)
        yield from (ContainerObserved(0, node.id, name, use) for name, use in node.foreign.items())
    if history:
        yield HistoryPrimed(0, history)
    timed: list[tuple[_Order, Event]] = [
        ((job.finished, _OVER, number, 0, 0), HistoryPrimed(job.finished, (job,)))
        for number, job in enumerate(past.jobs)
    ]
    held: dict[str, list[ContainerState]] = {}
    for container in state.containers.values():
        held.setdefault(container.job, []).append(container)
    for job in state.jobs.values():
        timed += _facts_of(job, held.get(job.id, []), past)
    for container in state.containers.values():
        if container.id in containers:
            timed += _container_facts(container)
    yield from (event for _, event in sorted(timed, key=lambda each: each[0]))
    yield from (JobCancelled(state.now, job.id) for job in state.jobs.values() if job.cancelled)
    yield from (NodeRemoved(state.now, node.id) for node in state.nodes.values() if node.draining)


def _facts_of(job: JobState, held: Collection[ContainerState], past: Past) -> Iterator[tuple[_Order, Event]]:
    at, seq = job.submitted, job.seq
    # 'asked', and then the asks, because only their sum is in the state.
    yield (at, _SUBMITTED, seq, 0, 0), JobSubmitted(at, job.spec, "asked")
    asked = tuple(stage.index for stage in job.stages if stage.asked)
    if asked:
        yield (at, _SUBMITTED, seq, 1, 0), JobChanged(at, job.id, asked)
    # Parents first: a task of a closed stage would be ignored.
    known = past.tasks.get(job.id, {})
    for place, index in enumerate(topological_order(job.spec.stages)):
        stage = job.stages[index]
        if not stage.finished:
            continue
        usual = at, round(stage.done_ms / stage.finished)
        under_way = {container.task for container in held if container.stage == index}
        for task in range(stage.tasks):
            if task not in under_way and not stage.is_waiting(task):
                ended, ms = known.get((index, task), usual)
                yield (ended, _ENDED, seq, place, task), TaskFound(ended, job.id, index, task, ms)


def _container_facts(container: ContainerState) -> Iterator[tuple[_Order, Event]]:
    number, node, granted, started = container.id, container.node, container.granted, container.started
    adopted = ContainerAdopted(granted, number, node, container.job, container.stage, container.task)
    yield (granted, _ADOPTED, number, 0, 0), adopted
    if container.status == RUNNING:
        yield (started, _ADOPTED, number, 1, 0), ContainerStarted(started, number)
