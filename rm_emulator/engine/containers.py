"""Jobs and containers in the engine: the application master's knowledge of a job, the node's of a container."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from rm_emulator.engine.execution import StageTimes
from rm_emulator.engine.recording import Attempt, JobRow
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.decisions import Copy, Move
from schedulers.core.model import Job, Stage, topological_order
from schedulers.core.old_names import OldName
from schedulers.core.resources import Vector
from schedulers.core.state import JobState
from schedulers.core.waves import Wave
from schedulers.kit.paths import to_output


@dataclass(slots=True, eq=False)
class Master:
    """An application master with its knowledge of a job."""

    # Profiles from outside the tree read masters by these names.
    left = OldName("tasks_left")
    asks = OldName("stages_to_ask")
    counted = OldName("counted_tasks")
    started = OldName("started_tasks")
    own_stage = OldName("master_stage")
    unregisters = OldName("is_unregistering")
    work = OldName("work_ms")
    first_start = OldName("first_start_ms")
    all_started = OldName("all_started_ms")
    failed = OldName("failed_attempts")
    roots = OldName("root_stages")
    lasts = OldName("is_service")
    opened = OldName("end_stage")
    begin = OldName("note_start")

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
    tasks_left: list[int] = field(init=False)
    """Tasks that the master has not counted yet, by stage."""
    parents_left: list[int] = field(init=False)
    """Parents behind barriers with tasks left, by stage: what else keeps tasks waiting, the scheduler sees to."""
    ties: frozenset[tuple[int, int]] = field(init=False)
    """Parent and child of each edge that is no barrier."""
    master_stage: int = field(init=False)
    """The stage of the master's own container."""
    stages_to_ask: list[int] = field(default_factory=list)
    """Stages that the master will ask for in its next call."""
    first_start_ms: int | None = None
    """First instant of the job's first task, ms."""
    failed_attempts: int = 0
    """Attempts that ended with a code other than 0."""
    failed_ms: int | None = None
    """Time at which the job failed, ms."""
    resubmitted_ms: int | None = None
    """Time at which the job began anew for the last time, ms."""
    work_ms: int = 0
    """True run time of all attempts so far but copies, at node speed 1, ms."""
    counted_tasks: set[tuple[int, int]] = field(default_factory=set)
    """(stage, task) of the tasks that the master has counted, where there are copies."""
    withdrawals: Counter[int] = field(default_factory=Counter)
    """Number of reasons for which the request for a stage is withdrawn, by stage."""
    started_tasks: set[tuple[int, int]] = field(default_factory=set)
    """(stage, task) of a service's tasks that have started."""
    all_started_ms: int | None = None
    """Time at which all tasks of a service had started, ms."""
    container: Container | None = None
    """The master's own container, once it runs."""
    is_unregistering: bool = False
    """Whether the master has counted its last task, and ends in its next call."""
    silent_since_ms: int | None = None
    """Since when there is no master that anybody hears, ms; None: the master is heard."""
    silences: int = 0
    """Times at which the master has fallen silent."""

    def __post_init__(self) -> None:
        stages = self.source.job.stages
        self.name, self.master_stage = self.source.job.id, len(stages)
        self.tasks_left = [stage.tasks for stage in stages]
        self.parents_left = [len(stage.parents) - len(stage.ties) for stage in stages]
        self.ties = frozenset((edge.parent, child) for child, stage in enumerate(stages) for edge in stage.ties)

    @property
    def is_service(self) -> bool:
        """Whether the job is a service, without an end of its own."""
        return self.source.job.kind == "service"

    @property
    def is_silent(self) -> bool:
        """Whether nobody hears the master."""
        return self.silent_since_ms is not None

    def fall_silent(self, now: int) -> None:
        """Let nobody hear the master from now (ms) on: its calls on their way are void."""
        if self.silent_since_ms is None:
            self.silent_since_ms = now
            self.silences += 1
            self.stages_to_ask, self.is_unregistering = [], False

    def note_start(self, container: Container, now: int) -> None:
        """Note the start of a task of a service at time `now`, ms."""
        self.started_tasks.add((container.stage, container.task))
        if self.all_started_ms is None and len(self.started_tasks) == self.source.job.tasks:
            self.all_started_ms = now

    @property
    def unasked_stages(self) -> list[int]:
        """Stages whose tasks may start, and that the scheduler has not heard asked for."""
        stages = zip(self.parents_left, self.state.stages, strict=False)  # the master's own stage is none of its asks
        return [stage.index for parents_left, stage in stages if not parents_left and not stage.asked]

    @property
    def root_stages(self) -> list[int]:
        """Stages without parents behind barriers."""
        return [i for i, stage in enumerate(self.source.job.stages) if len(stage.parents) == len(stage.ties)]

    def end_stage(self, stage: int) -> list[int]:
        """Note the end of a stage; returns the stages of which the last parent behind a barrier ended."""
        found = []
        # Counted down, instead of a look at all parents of all children for each ended stage.
        for child in self.state.children[stage]:
            if (stage, child) in self.ties:
                continue
            self.parents_left[child] -= 1
            if self.parents_left[child] == 0:
                found.append(child)
        return found


@dataclass(slots=True, eq=False)
class Container(Attempt):
    """A container with its present attempt, and the engine's private knowledge of the attempt."""

    index: int
    """Place of the node in the cluster."""
    master: Master
    """Master of the container's job."""
    runtime: int = 0
    """Run time of the attempt, ms."""
    distance: int | None = None
    """Distance from the task's input, see `Distances`; None: no input."""
    wave: Wave = "fresh"
    """State of the executor, for measured run times."""
    forecasts: int = 0
    """Number of forecasts of the end, where tasks of the same node move the end."""
    ready: int = 0
    """Start of the task if all data were there, ms."""

    @property
    def has_ended(self) -> bool:
        """Whether the attempt has ended on its node; the end may be unheard."""
        return self.started_ms is not None and self.ended_ms > self.started_ms

    def take(self, decision: Move | Copy, master: Master, now: int, pilot: bool) -> None:
        """Grant the container a task, perhaps of another job, at time `now`, ms."""
        self.master, self.job = master, decision.job
        self.stage, self.task, self.attempt = decision.stage, decision.task, decision.attempt
        # The distance is of the former task; a task without input would keep it.
        self.granted_ms, self.started_ms, self.distance, self.pilot = now, None, None, pilot


def new_container(number: int, node: str, index: int, master: Master) -> Container:
    """A new container on its way to a job, without a task as yet."""
    return Container(master.name, -1, -1, 0, node, number, 0, None, 0, False, 0, index, master)


def with_master(job: Job, demand: Vector) -> Job:
    """A job whose last stage is its application master."""
    # Last, so that the indexes of all other stages stay.
    master = Stage(name="application-master", tasks=1, demand=demand, master=True)
    return msgspec.structs.replace(job, stages=(*job.stages, master))


def job_row(job: Master, finish: int | None) -> JobRow:
    """The row of a job with its end at `finish`, ms; None: the job never ended."""
    spec, state = job.source.job, job.state
    plan = state.plan
    return JobRow(
        id=spec.id,
        submit_ms=job.source.submit_ms,
        tasks=spec.tasks,
        work_ms=job.work_ms,
        name=spec.name,
        user=spec.user,
        queue=spec.queue,
        first_start_ms=job.first_start_ms,
        finish_ms=finish,
        stages=len(spec.stages),
        width=spec.width,
        size_ms=state.size_ms,
        size_source=state.size_source or None,
        thin=plan is not None and plan.thin,
        pilots=len(plan.pilots) if plan is not None else 0,
        failed_tasks=job.failed_attempts,
        weight=spec.weight,
        ideal_ms=None if job.is_service else _ideal_ms(job),
        service=job.is_service,
        all_started_ms=job.all_started_ms,
        start_within_ms=None if spec.service is None else spec.service.start_within_ms,
        deadline_ms=spec.deadline,
        failed_ms=job.failed_ms,
        resubmitted_ms=job.resubmitted_ms,
    )


def _ideal_ms(job: Master) -> int | None:
    """Longest path through the stages, or through the tasks of one-to-one edges; None for measured waves."""
    # Measured waves have no run times before an executor is known, hence no ideal.
    longest = [max(getattr(times, "first", ()), default=None) for times in job.times]
    if None in longest:
        return None
    if job.ties:
        return _longest_ms(job.source.job.stages, [list(getattr(times, "first", ())) for times in job.times])
    return int(max(to_output(job.source.job.stages, lambda stage: longest[stage] or 0)))


def _longest_ms(stages: tuple[Stage, ...], times: list[list[int]]) -> int:
    """Longest path through the tasks. times: ms, by stage and task."""
    ends: list[list[int]] = [[] for _ in stages]
    for index in topological_order(stages):
        singles = [ends[edge.parent] for edge in stages[index].ties if edge.kind == "one_to_one"]
        # A share lets tasks have their containers early, and lets none run before the end of the parent.
        whole = [max(ends[edge.parent]) for edge in stages[index].edges if edge.kind != "one_to_one"]
        ends[index] = [ms + max((*whole, *(each[task] for each in singles), 0)) for task, ms in enumerate(times[index])]
    return max(map(max, ends))
