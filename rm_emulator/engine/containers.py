"""Jobs and containers as the engine knows them: what an application master knows of its job, a node of a container."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rm_emulator.engine.execution import StageTimes
from rm_emulator.engine.recording import Attempt, JobRow
from rm_emulator.workload.model import WorkloadJob
from rm_emulator.workload.waves import Wave
from schedulers.core.decisions import Copy, Move
from schedulers.core.model import Job, Stage, topological_order
from schedulers.core.resources import Vector
from schedulers.core.state import JobState


class Master:
    """An application master: what it knows of its job.

    left: tasks of each stage that it has not counted yet. asks: stages that it will ask for in its next call.
    own_stage: the stage of its own container. container: that, once it runs.
    work: true run time of all attempts so far but copies, at node speed 1. counted: tasks that it has counted, where
    there are copies. started: tasks of a service that have started; all_started: when all of them had, ms.
    """

    __slots__ = (
        "all_started",
        "asks",
        "container",
        "counted",
        "failed",
        "first_start",
        "left",
        "name",
        "number",
        "own_stage",
        "parents_left",
        "source",
        "started",
        "state",
        "times",
        "unregisters",
        "work",
    )

    def __init__(self, source: WorkloadJob, number: int, times: list[StageTimes], state: JobState) -> None:
        self.source, self.number, self.times, self.state = source, number, times, state
        self.name = source.job.id
        self.left = [stage.tasks for stage in source.job.stages]
        self.parents_left = [len(stage.parents) for stage in source.job.stages]
        self.asks: list[int] = []
        self.first_start: int | None = None
        self.failed = 0
        self.work = 0
        self.counted: set[tuple[int, int]] = set()
        self.started: set[tuple[int, int]] = set()
        self.all_started: int | None = None
        self.container: Container | None = None
        self.own_stage = len(source.job.stages)
        self.unregisters = False

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
    stages = job.source.job.stages
    ends = [0] * len(stages)
    for index in topological_order(stages):
        first = getattr(job.times[index], "first", None)
        if first is None:
            return None
        ends[index] = max((ends[parent] for parent in stages[index].above), default=0) + max(first)
    return max(ends)
