"""Recordings: receivers of results during a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from rm_emulator.engine.config import NodeFault
from schedulers.core.model import Job
from schedulers.core.old_names import old_classes
from schedulers.core.policy import Planned
from schedulers.core.resources import Vector

#: Whole numbers of a row that are stored in fewer than 64 bits.
Int16 = Annotated[int, msgspec.Meta(extra={"bits": 16})]
Int32 = Annotated[int, msgspec.Meta(extra={"bits": 32})]


# Without garbage collection: rows are never part of a circle, and a run may keep very many.
class JobRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job at its end, a row of jobs.parquet with these columns; times in ms on the simulated clock."""

    id: str
    submit_ms: int
    tasks: Int32
    """Number of all tasks."""
    work_ms: int
    """True total of the tasks' run times at node speed 1."""
    name: str = ""
    user: str = ""
    queue: str = "default"
    first_start_ms: int | None = None
    """None when no task ever started."""
    finish_ms: int | None = None
    """None when the job did not finish."""
    stages: Int32 = 1
    width: Int32 = 1
    """Tasks of the widest stage."""
    size_ms: float | None = None
    """Estimated total of run times; None when the policy never sized the job."""
    size_source: str | None = None
    """Source of the estimate (`history:job_name`, `pilots:2`)."""
    thin: bool = False
    """Whether the job bypassed sampling."""
    pilots: Int32 = 0
    """Tasks that ran as samples."""
    failed_tasks: Int32 = 0
    """Attempts that ended with a code other than 0."""
    weight: float = 1.0
    ideal_ms: int | None = None
    """JCT on an empty cluster with room for everything (longest path of true run times); None if unknown."""
    service: bool = False
    """Whether the job lasts until somebody ends the job (column only where there are services, as for the next two)."""
    all_started_ms: int | None = None
    """Time at which all tasks of a service had started."""
    start_within_ms: int | None = None
    """Objective of a service for the start of all tasks, from submission."""
    deadline_ms: int | None = None
    """Time at which the job should have ended; None without a deadline."""
    failed_ms: int | None = None
    """Time at which the job failed, having no finish; None: it did not (column only where tasks fail)."""
    resubmitted_ms: int | None = None
    """Time at which the job last began anew (column only where a restart forgets jobs); earlier attempts are lost."""


class SchedulingAttempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Result of an attempt of a scheduler at a job, a row of tries.parquet; times in ms."""

    scheduler: str
    """Name of the scheduler."""
    job: str
    began_ms: int
    ended_ms: int
    asked: Int32
    """Tasks of the job to be placed."""
    placed: Int32
    """Claims that were carried out."""
    refused: Int32
    """Claims that were refused."""
    given_up: bool = False
    """Whether the job was given up."""


@dataclass(slots=True)
class Attempt:
    """An attempt of a task at its end: a row of tasks.parquet; times in ms.

    The object is the engine's own record of a container, and goes on to the next task: recorders copy the fields.
    """

    job: str
    stage: Int32
    task: Int32
    attempt: Int16
    node: str
    container: int
    granted_ms: int
    """Time since which the resources were held for the attempt (in a kept executor: since the task was handed over)."""
    started_ms: int | None
    """First instant of running; None for an attempt that never ran."""
    ended_ms: int
    pilot: bool
    code: Int32
    """Exit code; 0 for success."""
    arrived_ms: int | None = field(default=None, kw_only=True)
    """Time at which all input was on the node; None without input (column only where there are links)."""
    copy: bool = field(default=False, kw_only=True)
    """Whether another attempt of the task was running at the start (column only where there are copies)."""
    useful_ms: int | None = field(default=None, kw_only=True)
    """Work that need not be repeated; None for an attempt that never ran (column only where there are checkpoints)."""


#: Columns of tasks.parquet and of jobs.parquet for runs that can fill them.
OPTIONAL_COLUMNS: Final = ("arrived_ms", "copy", "useful_ms")
SERVICE_COLUMNS: Final = ("service", "all_started_ms", "start_within_ms")
FAULT_COLUMNS: Final = ("failed_ms",)
RESTART_COLUMNS: Final = ("resubmitted_ms",)


class Recording:
    """Receiver of results. The base keeps nothing; `rm_emulator.results.record.Recorder` writes files."""

    def demand(self, job: str, stage: int, vector: Vector) -> None:
        """Amounts held by a task of a stage."""

    def task(self, attempt: Attempt) -> None:
        """An attempt has ended."""

    def job(self, row: JobRow) -> None:
        """A job has ended."""

    def plan(self, job: Job, made_ms: int, planned: Planned) -> None:
        """The policy has planned a live job; the last plan counts."""

    def scheduling_attempt(self, row: SchedulingAttempt) -> None:
        """A scheduler with think times has ended an attempt at a job."""

    def fault(self, fault: NodeFault) -> None:
        """A fault of a node begins, whether or not anybody notices."""

    def restart(self, at_ms: int, back_ms: int) -> None:
        """The manager goes away, and will be back."""

    def finish(self, end_ms: int) -> None:
        """The run is over."""


class MemoryRecording(Recording):
    """A recording in memory.

    `tasks`: attempts in the order of their ends, none without `attempts`. `jobs`: in the order of their ends.
    `plans`: the last plan of each job. `tries`: in order.
    """

    def __init__(self, *, attempts: bool = True) -> None:
        self.tasks: list[Attempt] = []
        self.jobs: list[JobRow] = []
        self.plans: dict[str, Planned] = {}
        self.tries: list[SchedulingAttempt] = []
        self._attempts = attempts

    def task(self, attempt: Attempt) -> None:
        """Keep a copy, since the engine reuses the attempt for the container's next task."""
        if self._attempts:
            self.tasks.append(Attempt(**{field: getattr(attempt, field) for field in Attempt.__slots__}))

    def job(self, row: JobRow) -> None:
        """Keep the job."""
        self.jobs.append(row)

    def plan(self, job: Job, made_ms: int, planned: Planned) -> None:
        """Keep the plan in place of an earlier plan."""
        self.plans[job.id] = planned

    def scheduling_attempt(self, row: SchedulingAttempt) -> None:
        """Keep the attempt."""
        self.tries.append(row)


# Plug-ins and notebooks import the former name.
__getattr__ = old_classes(__name__, {"Kept": "MemoryRecording"})
