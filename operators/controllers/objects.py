"""DagJobs as the controllers read them: with the whole pod template, which the brain must not see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from schedulers.objects.indexes import read_indexes, show_indexes
from schedulers.objects.meta import Meta
from schedulers.objects.pod import Condition


class StageSpec(msgspec.Struct):
    """A stage; template is the pod template as it was written."""

    name: str
    template: dict[str, Any]
    tasks: int = 1
    parents: tuple[str, ...] = ()
    gang: bool = False


class DagJobSpec(msgspec.Struct):
    """What is to run."""

    stages: tuple[StageSpec, ...]
    queue: str = "default"
    user: str = ""
    deadline: str | None = None
    retries: int = 3
    ttlSecondsAfterFinished: int | None = None


class Tries(msgspec.Struct, frozen=True):
    """What is remembered of tasks that are not done and have ended badly at least once.

    failures: tries of theirs that count. attempt: the highest that has ended. indexes: of all such tasks, `0-5,7`.
    """

    failures: int = 0
    attempt: int = 0
    indexes: str = ""


class StageStatus(msgspec.Struct, omit_defaults=False):
    """Counts of a stage. completedIndexes (such as `0-5,7`) and tries outlive the pods.

    started: its pods have been asked for.
    """

    name: str
    tasks: int = 0
    created: int = 0
    waiting: int = 0
    released: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    completedIndexes: str = ""
    started: bool = False
    tries: list[Tries] = []


class DagJobStatus(msgspec.Struct):
    """The fields that the controllers write."""

    observedGeneration: int = 0
    phase: str = ""
    conditions: list[Condition] = []
    stages: list[StageStatus] = []
    tasks: int = 0
    succeeded: int = 0
    startTime: str | None = None
    completionTime: str | None = None


class DagJob(msgspec.Struct):
    """A DagJob with its templates."""

    metadata: Meta
    spec: DagJobSpec
    status: DagJobStatus = msgspec.field(default_factory=DagJobStatus)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.metadata.key

    @property
    def is_over(self) -> bool:
        """Whether it has succeeded or failed for good."""
        return self.status.phase in ("Succeeded", "Failed")


def write_tries(tries: Mapping[int, tuple[int, int]]) -> list[Tries]:
    """Task index -> (failures, attempt), with equal ones together: 100,000 tasks that all failed once are one entry."""
    same: dict[tuple[int, int], set[int]] = {}
    for index, ended in tries.items():
        same.setdefault(ended, set()).add(index)
    return [Tries(failures, attempt, show_indexes(same[failures, attempt])) for failures, attempt in sorted(same)]


def read_tries(tries: Iterable[Tries]) -> dict[int, tuple[int, int]]:
    """The inverse of `write_tries`."""
    return {index: (one.failures, one.attempt) for one in tries for index in read_indexes(one.indexes)}
