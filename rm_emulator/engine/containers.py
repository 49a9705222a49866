"""Jobs and containers as the engine knows them: what an application master knows of its job, a node of a container."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from rm_emulator.engine.execution import StageTimes
from rm_emulator.engine.recording import Attempt, JobRow
from rm_emulator.workload.model import WorkloadJob
from rm_emulator.workload.waves import Wave
from schedulers.core.decisions import Copy, Move
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Vector
from schedulers.core.state import JobState
from schedulers.kit.paths import to_output


@dataclass(slots=True, eq=False)
class Master:
    """An application master: what it knows of its job."""

    source: WorkloadJob
    """The job with its true run times."""
    number: int
    """The job's place in the workload."""
    times: list[StageTimes]
    """True run times, by stage."""
    state: JobState
    """The job as its scheduler sees it."""
    name: str = field(init=False)
    """The job's id."""
    left: list[int] = field(init=False)
    """Tasks that the master has not counted yet, by stage."""
    parents_left: list[int] = field(init=False)
    """Parents with tasks left, by stage."""
    own_stage: int = field(init=False)
    """The stage of the master's own container."""
    asks: list[int] = field(default_factory=list)
    """Stages that the master will ask for in its next call."""
    first_start: int | None = None
    """First instant of the job's first task, ms."""
    failed: int = 0
    """Attempts that ended with a code other than 0."""
    work: int = 0
    """True run time of all attempts so far but copies, at node speed 1, ms."""
    counted: set[tuple[int, int]] = field(default_factory=set)
    """(stage, task) of the tasks that the master has counted, where there are copies."""
    started: set[tuple[int, int]] = field(default_factory=set)
    """(stage, task) of a service's tasks that have started."""
    all_started: int | None = None
    """Time at which all tasks of a service had started, ms."""
    container: Container | None = None
    """The master's own container, once it runs."""
    unregisters: bool = False
    """Whether the master has counted its last task, and ends in its next call."""

    def __post_init__(self) -> None:
        stages = self.source.job.stages
        self.name, self.own_stage = self.source.job.id, len(stages)
        self.left = [stage.tasks for stage in stages]
        self.parents_left = [len(stage.parents) for stage in stages]

    @property
    def lasts(self) -> bool:
        """Whether it is a service, which does not end by itself."""
        return self.source.job.kind == "service"

    def begin(self, container: Container, now: int) -> None:
        """A task of a service runs."""
        self.started.add((container.stage, container.task))
        if self.all_started is None and len(self.started) == self.source.job.tasks:
            self.all_started = now

    @property
    def roots(self) -> list[int]:
        """Stages without parents."""
        return [i for i, stage in enumerate(self.source.job.stages) if not stage.parents]

    def opened(self, stage: int) -> list[int]:
        """A stage has finished: the stages of whose parents it was the last."""
        found = []
        for child in self.state.children[stage]:
            self.parents_left[child] -= 1
            if self.parents_left[child] == 0:
                found.append(child)
        return found


@dataclass(slots=True, eq=False)
class Container(Attempt):
    """A container, the attempt that is in it, and what only the engine knows of that.

    index: its node's. master: of the job that it is for. runtime: of the attempt, ms.
    distance: from the task's input, see `Distances`; None: no input.
    wave: what measured run times are told of the executor. forecasts: how often the end was foretold, where others
    move it. ready: when it is launched and would start its task, were all data there.
    """

    index: int
    master: Master
    runtime: int = 0
    distance: int | None = None
    wave: Wave = "fresh"
    forecasts: int = 0
    ready: int = 0

    def take(self, decision: Move | Copy, master: Master, now: int, pilot: bool) -> None:
        """It is granted a task, if it was there, of another job."""
        self.master, self.job = master, decision.job
        self.stage, self.task, self.attempt = decision.stage, decision.task, decision.attempt
        self.granted_ms, self.started_ms, self.distance, self.pilot = now, None, None, pilot


def empty(number: int, node: str, index: int, master: Master) -> Container:
    """A new container on its way to a job, without a task as yet."""
    return Container(master.name, -1, -1, 0, node, number, 0, None, 0, False, 0, index, master)


def with_master(job: Job, demand: Vector) -> Job:
    """A job whose last stage is its application master."""
    master = Stage(name="application-master", tasks=1, demand=demand, master=True)
    return msgspec.structs.replace(job, stages=(*job.stages, master))


def result(job: Master, finish: int | None) -> JobRow:
    """What recorders get of a job that finished then, or never."""
    spec, state = job.source.job, job.state
    plan = state.plan
    return JobRow(
        id=spec.id,
        submit_ms=job.source.submit_ms,
        tasks=spec.tasks,
        work_ms=job.work,
        name=spec.name,
        user=spec.user,
        queue=spec.queue,
        first_start_ms=job.first_start,
        finish_ms=finish,
        stages=len(spec.stages),
        width=spec.width,
        size_ms=state.size_ms,
        size_source=state.size_source or None,
        thin=plan is not None and plan.thin,
        pilots=len(plan.pilots) if plan is not None else 0,
        failed_tasks=job.failed,
        weight=spec.weight,
        ideal_ms=None if job.lasts else _ideal_ms(job),
        service=job.lasts,
        all_started_ms=job.all_started,
        start_within_ms=None if spec.service is None else spec.service.start_within_ms,
        deadline_ms=spec.deadline,
    )


def _ideal_ms(job: Master) -> int | None:
    """Longest path through the stages, each as long as its longest task; None for measured waves."""
    longest = [max(getattr(times, "first", ()), default=None) for times in job.times]
    if None in longest:
        return None
    return int(max(to_output(job.source.job.stages, lambda stage: longest[stage] or 0)))
