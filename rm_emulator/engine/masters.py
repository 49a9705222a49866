"""Application masters: what each knows of its job, how they call the resource manager, what is told of a job's end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from rm_emulator.engine.calendar import ASK
from rm_emulator.engine.execution import StageTimes
from rm_emulator.engine.recording import JobRow
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.events import JobChanged
from schedulers.core.model import Job, Stage, topological_order
from schedulers.core.resources import Vector
from schedulers.core.state import JobState

if TYPE_CHECKING:
    from rm_emulator.engine.containers import Container
    from rm_emulator.engine.simulation import Simulation


class Master:
    """An application master: what it knows of its job.

    left: tasks of each stage that it has not counted yet. asks: stages that it will ask for in its next call.
    own_stage: the stage of its own container. container: that, once it runs.
    work: true run time of all attempts so far, at node speed 1.
    """

    __slots__ = (
        "asks",
        "container",
        "failed",
        "first_start",
        "left",
        "name",
        "number",
        "own_stage",
        "parents_left",
        "source",
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
        self.container: Container | None = None
        self.own_stage = len(source.job.stages)
        self.unregisters = False

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


class Masters:
    """Application masters that call the resource manager every interval since their job's submission.

    What they hear in a call takes effect `delay_ms` later. report(container) is called when one has ended.
    """

    def __init__(
        self, engine: Simulation, interval_ms: int, delay_ms: int, report: Callable[[Container], None]
    ) -> None:
        self._engine, self._interval, self._delay, self._report = engine, interval_ms, delay_ms, report

    def call(self, job: Master) -> int:
        """When its next call is, which is after now."""
        now = self._engine.calendar.now
        return now + self._interval - (now - job.source.submit_ms) % self._interval

    def answer(self, job: Master) -> int:
        """When what it hears in its next call takes effect."""
        return self.call(job) + self._delay

    def ask(self, job: Master, stages: list[int], at: int) -> None:
        """It asks for the tasks of these stages at that time, with all that it will have to ask for then."""
        if stages and not job.asks:
            self._engine.later(at, ASK, job.number, self._ask, job)
        job.asks += stages

    def _ask(self, job: Master) -> None:
        asked, job.asks = tuple(sorted(job.asks)), []
        self._engine.say(JobChanged(self._engine.calendar.now, job.name, asked))

    def register(self, container: Container) -> None:
        """Its own container has started."""
        job = container.master
        job.container = container
        if self._engine.shared is not None:
            self._engine.shared.start(container, job.source.am, math.inf)
        self.ask(job, job.roots, self.call(job))

    def unregister(self, job: Master) -> None:
        """When it has counted its last task, its job is done and its container is over."""
        if not any(job.left) and not job.unregisters:
            job.unregisters = True
            self._engine.later(self.answer(job), ASK, job.number, self._unregister, job)

    def _unregister(self, job: Master) -> None:
        container = job.container
        assert container is not None
        assert container.started_ms is not None
        self._engine.finish(job)
        container.runtime = self._engine.calendar.now - container.started_ms
        self._engine.leave(container)
        self._engine.note(container)
        self._report(container)


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
        ideal_ms=_ideal_ms(job),
    )


def _ideal_ms(job: Master) -> int | None:
    """Longest path through the stages, each as long as its longest task; None for measured waves."""
    stages = job.source.job.stages
    ends = [0] * len(stages)
    for index in topological_order(stages):
        first = getattr(job.times[index], "first", None)
        if first is None:
            return None
        ends[index] = max((ends[parent] for parent in stages[index].parents), default=0) + max(first)
    return max(ends)
