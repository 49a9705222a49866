"""Copies: more containers of a task under way or done, so that its output is on more nodes, or there sooner.

A policy makes copies by itself where its settings allow copies, and the core makes those that a job's master asks for.
Of an unfinished task, the first container to end with success is the task; if the task's own container fails, the
oldest copy takes its place. A copy holds room like any container, but is no running task.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from schedulers.core.live import RUNNING, ContainerState, JobState, StageState
from schedulers.core.model import CopyRules

Key = tuple[str, int, int]
Containers = Mapping[int, ContainerState]
#: The rule of a Preempt of a copy no longer needed.
COPY: Final = "copy"
#: Limits on copies that masters ask for, where policies make none.
_ASKED: Final = CopyRules(max=2, others="end")


@dataclass(slots=True)
class Group:
    """The containers of a task with live copies."""

    task: int | None
    """The container standing for the task; None once the task is done."""
    copies: list[int]
    """Numbers of the copies, ascending: the oldest in front."""


class TaskCopies:
    """The live copies of all tasks.

    `settings` limits the number of copies and says whether late copies run on or end; None: policies make none.
    """

    __slots__ = ("_ends_others", "_most", "_unneeded", "leaving", "live", "settings")

    def __init__(self, settings: CopyRules | None) -> None:
        self.settings = settings
        rules = settings or _ASKED
        self._most, self._ends_others = rules.max, rules.others == "end"
        self.live: dict[Key, Group] = {}
        """By (job, stage, task); from the containers."""
        self.leaving: dict[int, None] = {}
        """Copies ordered to end."""
        self._unneeded: list[int] = []

    def allows(self, containers: Containers, job: JobState, stage: StageState, task: int, node: str) -> bool:
        """Whether a copy of the task may be made on the node, room apart."""
        if job.cancelled or job.spec.stages[stage.index].master or not 0 <= task < stage.tasks:
            return False
        if stage.parents_left or stage.is_waiting(task):
            return False
        made, there = (stage.outputs or {}).get(task, ()), of_task(containers, job, stage, task)
        if not made and all(container.copy for container in there):
            return False  # the task is done, and no child takes its output
        where = {*(place for place, _ in made), *(container.node for container in there)}
        return node not in where and len(made) + len(there) < self._most

    def add(self, copy: ContainerState, containers: Containers) -> None:
        """A copy was made, or is remembered."""
        key = (copy.job, copy.stage, copy.task)
        group = self.live.get(key)
        if group is None:
            # A scan over all containers, but only for the first copy of a task.
            task = next((c.id for c in containers.values() if not c.copy and (c.job, c.stage, c.task) == key), None)
            group = self.live[key] = Group(task, [])
        insort(group.copies, copy.id)

    def settle(
        self, container: ContainerState, job: JobState | None, containers: Containers, *, succeeded: bool
    ) -> bool:
        """Whether the end of a container is the end of its task; a copy takes over the task where needed."""
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
                # Sorted, because the oldest copy takes over first and replays must agree on it.
                insort(group.copies, other.id)
                swap(job, other, container)
                ends_as_task = True
        elif not succeeded and job is not None:
            group.task = group.copies.pop(0)
            swap(job, container, containers[group.task])
            ends_as_task = False
        if ends_as_task:
            group.task = None
            if self._ends_others:
                self._unneeded += group.copies
        if not group.copies:
            del self.live[key]
        return ends_as_task

    def unneeded(self, jobs: Mapping[str, JobState]) -> list[int]:
        """Copies to end now, each named once: copies that came too late, and copies of jobs that are over."""
        gone = [c for (job, _, _), group in self.live.items() if job not in jobs for c in group.copies]
        found = [c for c in dict.fromkeys((*self._unneeded, *gone)) if c not in self.leaving]
        self._unneeded.clear()
        return found


def of_task(containers: Containers, job: JobState, stage: StageState, task: int) -> list[ContainerState]:
    """The live containers of a task."""
    name, index = job.spec.id, stage.index
    return [c for c in containers.values() if c.task == task and c.stage == index and c.job == name]


def holders(containers: Containers, job: JobState, stage: StageState, task: int) -> tuple[str, ...]:
    """Nodes running the task, and nodes holding its output where the output is needed."""
    done = [node for node, _ in (stage.outputs or {}).get(task, ())]
    return (*done, *(container.node for container in of_task(containers, job, stage, task)))


def swap(job: JobState, task: ContainerState, copy: ContainerState) -> None:
    """The copy is the task from now on, and the other way round."""
    task.copy, copy.copy = True, False
    task.pilot, copy.pilot = False, task.pilot
    # `started` counts tasks alone, so the sums move from the old task to the new.
    for container, sign in ((task, -1), (copy, 1)):
        if container.status == RUNNING:
            job.started += sign
            job.started_sum += sign * container.started
