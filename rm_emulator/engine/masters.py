"""Application masters: what each knows of its job, and what is told of it at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rm_emulator.engine.execution import StageTimes
from rm_emulator.engine.recording import JobRow
from rm_emulator.workload.model import WorkloadJob
from schedulers.core.model import topological_order
from schedulers.core.state import JobState

if TYPE_CHECKING:
    from rm_emulator.engine.attempts import Attempt


class Master:
    """An application master: what it knows of its job."""

    __slots__ = (
        "asks",
        "failed",
        "first_start",
        "left",
        "master",
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
        self.master: Attempt | None = None  # its own container, once it runs
        self.own_stage = len(source.job.stages)  # the stage of that container
        self.unregisters = False


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
