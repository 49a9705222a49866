"""The present of a paused run, taken over by another scheduler: a run that begins from a state of the core.

The new scheduler hears facts alone, as a process does that takes over without a snapshot. Run times, jobs and
containers stay as they are. Whatever only the old scheduler and the old profile know is begun anew: the memory of the
policy (skipped offers, reservations, preemptions under way), launches of granted containers, and calls of application
masters and creations of pods that were on their way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rm_emulator.engine.branch import obstacle
from rm_emulator.engine.calendar import END
from rm_emulator.engine.control import Scheduling
from rm_emulator.engine.features.services import ServicesFeature
from rm_emulator.engine.recording import Attempt, JobRow, Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.events import Event, NodeAdded, NodeRemoved
from schedulers.core.model import Node, PastJob

replace = msgspec.structs.replace


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
        # An application master's own container ends after its job.
        if attempt.code == 0 and attempt.started_ms is not None and attempt.job not in self.ended:
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
                queue=job.queue,
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
    if any(stage.ties for source in engine.workload.jobs for stage in source.job.stages):
        return "stages are tied by edges that are no barriers"
    return "nodes or tasks have faults" if config.faults is not None else obstacle(engine)


def take_over(
    engine: Simulation,
    record: Recording,
    scheduler: Scheduling,
    told: Iterable[Event],
    *,
    drained: Sequence[str] = (),
    added: Sequence[Node] = (),
    oracle: bool = False,
) -> Simulation:
    """A run that goes on from the present of a paused run under a new scheduler.

    told: the facts that tell the present. drained: nodes that take no new containers. added: further nodes. oracle:
    whether true mean run times are told. The paused run is used up: its jobs and containers are those of the new run.
    """
    now = engine.calendar.now
    # By the constructor, and not by a new control in the old engine: profile and features look at their control once.
    made = Simulation(
        replace(engine.config, nodes=(*engine.config.nodes, *added)),
        replace(engine.workload, jobs=tuple(engine.arrivals.jobs)),
        scheduler,
        record,
        seed=engine.seed,
        oracle=oracle,
    )
    # SimPy refuses a stop at its present time.
    if now:
        made.calendar.advance(now)
    decisions = [decision for fact in told for decision in made.handle(fact)]
    made.arrivals.count = engine.arrivals.count
    _take_jobs(made, engine)
    _take_containers(made, engine)
    for node in added:
        decisions += made.handle(NodeAdded(now, node))
    for name in drained:
        decisions += made.handle(NodeRemoved(now, name))
    made.enter_first(engine.until)
    made.profile.take_over(engine.profile)
    # At last: a container to be preempted must be there.
    made.carry_out(decisions)
    return made


def _take_jobs(made: Simulation, engine: Simulation) -> None:
    # In the order of arrival, which the report of unfinished jobs follows.
    made.jobs.update(engine.jobs)
    # A master that has ended its job may still have a container, whose end is unheard.
    for job in {*engine.jobs.values(), *(container.master for container in engine.containers.values())}:
        job.state = made.control.job(job.name)
    for job in engine.jobs.values():
        made.arrivals.estimate(job.source.job, job.times)


def _take_containers(made: Simulation, engine: Simulation) -> None:
    """Launch what was granted, and enter the ends of running tasks; masters and unreported ends are the profile's."""
    made.containers.update(engine.containers)
    services = made.feature(ServicesFeature)
    for number, container in engine.containers.items():
        if container.started_ms is None:
            made.launch(container)
        elif services is not None and services.started(container):
            continue
        elif not container.has_ended and container.stage != container.master.master_stage:
            made.enter_end(container.started_ms + container.runtime, END, number, made.over, container)
