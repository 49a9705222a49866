"""Which pod stands for which task, and for which of the core's containers.

The core knows tasks by (job, stage, number) and counts its own attempts; the cluster knows pods. A task's current pod
is the present pod of the highest attempt. A container may be without a pod for a while (the failed attempt's successor
is still being created).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from schedulers.objects.pod import Pod

#: A run time heard by watch is preferred to the object's own stamps (whole seconds) while both agree this well.
AGREE_MS: Final = 1500


class Task(NamedTuple):
    """A task of a job; stage and number are the core's."""

    job: str
    stage: int
    number: int


class PodEntry(msgspec.Struct):
    """A pod standing for a task."""

    task: Task
    key: str
    attempt: int
    container: int | None = None
    """The core's container for the pod, None while the pod waits."""
    started: int = -1
    """When the pod was heard running, ms; -1 before."""
    ended: bool = False
    """Whether the pod's end has been taken in."""
    verdict: str | None = None
    """kube-scheduler's verdict, as last heard."""


class Ledger:
    """Pods by uid, tasks and containers, kept in step with each other."""

    def __init__(self) -> None:
        self.pods: dict[str, PodEntry] = {}
        self.current: dict[Task, str] = {}
        self.containers: dict[int, str | None] = {}  # uid of the pod, None: awaited
        self.tasks: dict[int, Task] = {}  # of each container
        self._awaiting: dict[Task, int] = {}

    def put(self, uid: str, key: str, task: Task, attempt: int) -> PodEntry:
        """Enter a pod, as the current one of its task unless a later attempt is there."""
        entry = self.pods.get(uid)
        if entry is None:
            entry = self.pods[uid] = PodEntry(task, key, attempt)
        other = self.pods.get(self.current.get(task, ""))
        # `<=`: a pod made anew under the same attempt replaces its predecessor.
        if other is None or other.attempt <= attempt:
            self.current[task] = uid
        return entry

    def drop(self, uid: str) -> PodEntry | None:
        """A pod is gone."""
        entry = self.pods.pop(uid, None)
        if entry is not None and self.current.get(entry.task) == uid:
            del self.current[entry.task]
        return entry

    def is_current(self, uid: str) -> bool:
        """Whether no later attempt of the pod's task is known."""
        entry = self.pods.get(uid)
        return entry is not None and self.current.get(entry.task) == uid

    def grant(self, container: int, task: Task) -> None:
        """The core has granted a container to a task; its pod is not named yet."""
        self.containers[container] = None
        self.tasks[container] = task
        self._awaiting[task] = container

    def container_without_pod(self, task: Task) -> int | None:
        """The task's container without a pod."""
        return self._awaiting.get(task)

    def assign(self, container: int, uid: str) -> None:
        """This pod gets the container."""
        entry = self.pods[uid]
        entry.container = container
        self.containers[container] = uid
        self._awaiting.pop(entry.task, None)

    def free(self, container: int) -> None:
        """The container is over."""
        uid = self.containers.pop(container, None)
        entry = self.pods.get(uid) if uid is not None else None
        # The pod may have another container by now, which stays.
        if entry is not None and entry.container == container:
            entry.container = None
        task = self.tasks.pop(container, None)
        # The task may await a newer container.
        if task is not None and self._awaiting.get(task) == container:
            del self._awaiting[task]

    def dump(self) -> dict[int, str]:
        """Container -> uid of its pod, for the snapshot."""
        return {container: uid for container, uid in self.containers.items() if uid is not None}


def runtime_ms(heard_start: int, pod: Pod, now: int) -> int:
    """Run time of the pod, ms: as heard, unless the object's own stamps differ (no leader was listening)."""
    start, finish = pod.started_ms, pod.finished_ms
    stamped = finish - start if start is not None and finish is not None else None
    heard = now - heard_start if heard_start >= 0 else None
    if stamped is None:
        return max(0, heard or 0)
    if heard is not None and abs(heard - stamped) <= AGREE_MS:
        return heard
    return max(0, stamped)
