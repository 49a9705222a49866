"""Where results go while a run runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from schedulers.core.model import Job
from schedulers.core.policy import Planned
from schedulers.core.resources import Vector

#: Whole numbers of a row that are stored in fewer than 64 bits.
Int16 = Annotated[int, msgspec.Meta(extra={"bits": 16})]
Int32 = Annotated[int, msgspec.Meta(extra={"bits": 32})]


class JobRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One job as it ended, a row of jobs.parquet with these columns; times in ms on the simulated clock.

    first_start_ms, finish_ms: None when no task ever started, or the job did not finish.
    tasks, stages, width: all tasks, all stages, tasks of the widest stage.
    work_ms: the true total of its tasks' run times at node speed 1.
    size_ms, size_source: the estimated total when the policy sized the job and where it came from
        (`history:job_name`, `pilots:2`); None when the job was never sized.
    thin: it bypassed sampling; pilots: tasks that ran as samples.
    failed_tasks: attempts that ended with a code other than 0.
    ideal_ms: JCT on an empty cluster with room for everything (longest path of true run times), None if unknown.
    service: it does not end by itself. all_started_ms: when all tasks of a service had started. start_within_ms: its
        objective for that, from its submission (columns only where there are services).
    deadline_ms: when it should have been done, None where it has no deadline.
    """

    id: str
    submit_ms: int
    tasks: Int32
    work_ms: int
    name: str = ""
    user: str = ""
    queue: str = "default"
    first_start_ms: int | None = None
    finish_ms: int | None = None
    stages: Int32 = 1
    width: Int32 = 1
    size_ms: float | None = None
    size_source: str | None = None
    thin: bool = False
    pilots: Int32 = 0
    failed_tasks: Int32 = 0
    weight: float = 1.0
    ideal_ms: int | None = None
    service: bool = False
    all_started_ms: int | None = None
    start_within_ms: int | None = None
    deadline_ms: int | None = None


class Try(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came of a scheduler's thinking about a job once, a row of tries.parquet; times in ms.

    scheduler: its name. asked: tasks of the job that were to be placed. placed, refused: claims that were carried out,
    and that were not. given_up: the job was given up.
    """

    scheduler: str
    job: str
    began_ms: int
    ended_ms: int
    asked: Int32
    placed: Int32
    refused: Int32
    given_up: bool = False


@dataclass(slots=True)
class Attempt:
    """One attempt of a task, as recorders get it when it has ended: a row of tasks.parquet; times in ms.

    It is the engine's own record of a container, which goes on to the next task: copy what you keep.
    granted_ms: since when its resources were held for it (in a kept executor: since it was handed the task).
    started_ms: its first instant of running, None if it never ran. code: 0 when it succeeded.
    arrived_ms: when all the data that it takes was on its node, None if it takes none (a column only where there
    are links). copy: it was started beside another attempt of its task (a column only where there are copies).
    """

    job: str
    stage: Int32
    task: Int32
    attempt: Int16
    node: str
    container: int
    granted_ms: int
    started_ms: int | None
    ended_ms: int
    pilot: bool
    code: Int32
    arrived_ms: int | None = field(default=None, kw_only=True)
    copy: bool = field(default=False, kw_only=True)


#: Columns of tasks.parquet, and of jobs.parquet, that are there only where the run can fill them.
SOMETIMES: Final = ("arrived_ms", "copy")
OF_SERVICES: Final = ("service", "all_started_ms", "start_within_ms")


class Recording:
    """Where results go. This one keeps nothing; `rm_emulator.results.record.Recorder` writes files."""

    def demand(self, job: str, stage: int, vector: Vector) -> None:
        """What a task of a stage holds."""

    def task(self, attempt: Attempt) -> None:
        """An attempt has ended."""

    def job(self, row: JobRow) -> None:
        """A job that ended."""

    def plan(self, job: Job, made_ms: int, planned: Planned) -> None:
        """The policy has planned a live job; the last plan counts."""

    def tried(self, row: Try) -> None:
        """A scheduler that takes its time has thought about a job."""

    def finish(self, end_ms: int) -> None:
        """The run is over."""


class Kept(Recording):
    """A recording in memory. tasks: attempts in the order in which they ended; none of them without `attempts`.

    jobs: in the order in which they ended. plans: the last one of each job. tries: in order.
    """

    def __init__(self, *, attempts: bool = True) -> None:
        self.tasks: list[Attempt] = []
        self.jobs: list[JobRow] = []
        self.plans: dict[str, Planned] = {}
        self.tries: list[Try] = []
        self._attempts = attempts

    def task(self, attempt: Attempt) -> None:
        """See Recording."""
        if self._attempts:
            self.tasks.append(Attempt(**{field: getattr(attempt, field) for field in Attempt.__slots__}))

    def job(self, row: JobRow) -> None:
        """See Recording."""
        self.jobs.append(row)

    def plan(self, job: Job, made_ms: int, planned: Planned) -> None:
        """See Recording."""
        self.plans[job.id] = planned

    def tried(self, row: Try) -> None:
        """See Recording."""
        self.tries.append(row)
