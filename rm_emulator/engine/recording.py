"""Where results go while a run runs."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from schedulers.core.model import Job
from schedulers.core.policy import Planned
from schedulers.core.resources import Vector


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """A finished job, as recorders get it; times in ms."""

    id: str
    submit_ms: int
    tasks: int
    work_ms: int
    name: str
    user: str
    queue: str
    first_start_ms: int | None
    finish_ms: int | None
    stages: int
    width: int
    size_ms: float | None
    size_source: str | None
    thin: bool
    pilots: int
    failed_tasks: int
    weight: float
    ideal_ms: int | None


class Attempt(msgspec.Struct):
    """One attempt of a task, as recorders get it when it has ended; times in ms.

    It is the engine's own record of a container, which goes on to the next task: copy what you keep.
    granted_ms: since when its resources were held for it (in a kept executor: since it was handed the task).
    started_ms: its first instant of running, None if it never ran. code: 0 when it succeeded.
    """

    job: str
    stage: int
    task: int
    attempt: int
    node: str
    container: int
    granted_ms: int
    started_ms: int | None
    ended_ms: int
    pilot: bool
    code: int


class Recording(Protocol):
    """Where results go; `rm_emulator.results.record.Recorder` is one."""

    def demand(self, job: str, stage: int, vector: Vector) -> None:
        """What a task of a stage holds."""

    def task(self, attempt: Attempt) -> None:
        """An attempt has ended."""

    def job(self, row: Any) -> None:
        """A job that ended."""

    def plan(self, job: Job, made_ms: int, planned: Planned) -> None:
        """The policy has planned a live job; the last plan counts."""

    def finish(self, end_ms: int) -> None:
        """The run is over."""


class Nothing:
    """A recording that keeps nothing."""

    def demand(self, *_: Any) -> None:
        """See Recording."""

    def task(self, attempt: Attempt) -> None:
        """See Recording."""

    def job(self, row: Any) -> None:
        """See Recording."""

    def plan(self, job: Job, made_ms: int, planned: Planned) -> None:
        """See Recording."""

    def finish(self, end_ms: int) -> None:
        """See Recording."""
