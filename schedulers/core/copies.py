"""Copies: more containers of a task that is under way or done, so that its output is on more nodes, or there sooner.

Of a task that is not done, whichever container ends first with success is the task; if the one that is the task fails,
the oldest copy takes its place. A copy holds room as any container does, but is no running task.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from schedulers.core.live import RUNNING, ContainerState, JobState, StageState
from schedulers.core.model import Copies

Key = tuple[str, int, int]
Containers = Mapping[int, ContainerState]
#: The rule of a Preempt that ends a copy which nobody needs any more.
COPY: Final = "copy"


@dataclass(slots=True)
class Group:
    """The containers of one task that has live copies. task: the one that is the task, None when that is done."""

    task: int | None
    copies: list[int]


class TaskCopies:
    """The live copies of all tasks. settings: how many there may be, and what becomes of those that come too late."""

    def __init__(self, settings: Copies) -> None:
        self.settings = settings
        self.live: dict[Key, Group] = {}
        """By (job, stage, task); from the containers."""
        self.leaving: dict[int, None] = {}
        """Copies that were ordered to end."""
        self._unneeded: list[int] = []

    def allows(self, containers: Containers, job: JobState, stage: StageState, task: int, node: str) -> bool:
        """Whether a copy of this task may be made on this node: room is another matter."""
        if job.cancelled or job.spec.stages[stage.index].master or not 0 <= task < stage.tasks:
            return False
        if stage.parents_left or stage.is_waiting(task):
            return False
        made, there = (stage.outputs or {}).get(task, ()), of_task(containers, job, stage, task)
        if not made and all(container.copy for container in there):
            return False  # it is done, and nobody takes its output
        where = {*(place for place, _ in made), *(container.node for container in there)}
        return node not in where and len(made) + len(there) < self.settings.max

    def add(self, copy: ContainerState, containers: Containers) -> None:
        """A copy was made, or is remembered."""
        key = (copy.job, copy.stage, copy.task)
        group = self.live.get(key)
        if group is None:
            task = next((c.id for c in containers.values() if not c.copy and (c.job, c.stage, c.task) == key), None)
            group = self.live[key] = Group(task, [])
        insort(group.copies, copy.id)

    def settle(
        self, container: ContainerState, job: JobState | None, containers: Containers, *, succeeded: bool
    ) -> bool:
        """A container ends: whether that is the end of its task. Roles are swapped where another is the task now."""
        self.leaving.pop(container.id, None)
        key = (container.job, container.stage, container.task)
        group = self.live.get(key)
        if group is None:
            return True
        ends_as_task = not container.copy
        if container.copy:
            group.copies.remove(container.id)
            if succeeded and group.task is not None and job is not None:
                other = containers[group.task]
                insort(group.copies, other.id)
                swap(job, other, container)
                ends_as_task = True
        elif not succeeded and job is not None:
            group.task = group.copies.pop(0)
            swap(job, container, containers[group.task])
            ends_as_task = False
        if ends_as_task:
            group.task = None
            if self.settings.others == "end":
                self._unneeded += group.copies
        if not group.copies:
            del self.live[key]
        return ends_as_task

    def unneeded(self, jobs: Mapping[str, JobState]) -> list[int]:
        """Copies that are to end now, each said once: they came too late, or their job is over."""
        gone = [c for (job, _, _), group in self.live.items() if job not in jobs for c in group.copies]
        found = [c for c in dict.fromkeys((*self._unneeded, *gone)) if c not in self.leaving]
        self._unneeded.clear()
        return found


def of_task(containers: Containers, job: JobState, stage: StageState, task: int) -> list[ContainerState]:
    """The live containers of one task."""
    name, index = job.spec.id, stage.index
    return [c for c in containers.values() if c.task == task and c.stage == index and c.job == name]


def holders(containers: Containers, job: JobState, stage: StageState, task: int) -> tuple[str, ...]:
    """Nodes on which the task is under way, or has made its output where somebody takes that."""
    done = [node for node, _ in (stage.outputs or {}).get(task, ())]
    return (*done, *(container.node for container in of_task(containers, job, stage, task)))


def swap(job: JobState, task: ContainerState, copy: ContainerState) -> None:
    """The copy is the task from now on, and the other way round."""
    task.copy, copy.copy = True, False
    task.pilot, copy.pilot = False, task.pilot
    for container, sign in ((task, -1), (copy, 1)):
        if container.status == RUNNING:
            job.started += sign
            job.started_sum += sign * container.started
