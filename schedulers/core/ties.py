"""Ties: edges of live jobs that are no barriers, and the tasks and stages that wait for them.

A stage behind one-to-one edges lets its tasks in one by one. A stage behind a share is open while so many tasks of the
parent are done and all others have begun. So no task gets a container early beside a waiting task of its parent, where
early tasks could hold the room that the parent needs, and both would wait for ever (MapReduce preempts reducers then).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from schedulers.core.live import GRANTED, RUNNING, ContainerState, JobState, StageState
from schedulers.core.model import Job, topological_order

#: The rule of a Preempt of a container granted early, of which a task of a parent waits again.
EARLY: Final = "early"


class Ties:
    """The ties of a job without a begun task."""

    __slots__ = ("barriers", "left_above", "met", "shares", "singles")

    def __init__(self, spec: Job) -> None:
        self.barriers: list[list[int]] = [[] for _ in spec.stages]
        """By stage the children behind barriers."""
        self.singles: list[list[int]] = [[] for _ in spec.stages]
        """By stage the children behind one-to-one edges."""
        self.shares: list[list[tuple[int, int]]] = [[] for _ in spec.stages]
        """By stage the children behind shares, each with the number of tasks that must be done."""
        self.left_above: list[dict[int, int]] = [{} for _ in spec.stages]
        """By stage, for each task not let in yet, the tasks of parents to be done before, by one-to-one edges."""
        self.met: set[tuple[int, int]] = set()
        """Parent and child of each share that lets the child start now; from the stages."""
        for child, stage in enumerate(spec.stages):
            for edge in stage.edges:
                if edge.kind == "barrier":
                    self.barriers[edge.parent].append(child)
                elif edge.kind == "share":
                    self.shares[edge.parent].append((child, edge.least(spec.stages[edge.parent].tasks)))
                else:
                    self.singles[edge.parent].append(child)
                    for task in range(stage.tasks):
                        self.left_above[child][task] = self.left_above[child].get(task, 0) + 1

    def tie(self, stages: Sequence[StageState], asks: str) -> None:
        """Let the stages of the new job wait by its ties. asks: see `JobSubmitted`."""
        for stage in stages:
            if self.left_above[stage.index]:
                # As if all tasks had been begun: each is let in with the last of its parents' tasks.
                stage.waiting, stage.next = 0, stage.tasks
            stage.parents_left = 0
        for parent in stages:
            for child in (*self.barriers[parent.index], *(child for child, _ in self.shares[parent.index])):
                stages[child].parents_left += 1
        if asks == "roots":
            # The share of a parent is no affair of the shell: the stage is asked for with the parent.
            behind = {child for children in self.barriers for child in children}
            for stage in stages:
                stage.asked = stage.index not in behind

    def have_all_begun(self, stage: StageState) -> bool:
        """Whether all tasks of the stage have begun."""
        return stage.waiting == len(stage.copies) and not self.left_above[stage.index]

    def released(self, stage: StageState, task: int) -> list[int]:
        """Note the end of a task; returns the stages below whose task of this number may start."""
        found = []
        for child in self.singles[stage.index]:
            left = self.left_above[child]
            left[task] -= 1
            if not left[task]:
                del left[task]
                found.append(child)
        return found

    def changed_shares(self, stage: StageState) -> list[tuple[int, bool]]:
        """Children whose share of the stage is met since the last call, or is no longer met."""
        if not self.shares[stage.index]:
            return []
        begun, found = self.have_all_begun(stage), []
        for child, least in self.shares[stage.index]:
            key, met = (stage.index, child), begun and stage.finished >= least
            if met != (key in self.met):
                self.met ^= {key}
                found.append((child, met))
        return found

    def recall(self, job: JobState, containers: Iterable[ContainerState]) -> None:
        """Take over the standing of a live job. containers: of the job."""
        under_way: list[set[int]] = [set() for _ in job.stages]
        for container in containers:
            # An idle executor, or a copy, may name a task that is done.
            if container.status in (GRANTED, RUNNING) and not container.copy:
                under_way[container.stage].add(container.task)
        # Parents first: a task that is not let in yet is neither waiting nor under way, and not done.
        for index in topological_order(job.spec.stages):
            stage, left = job.stages[index], self.left_above[index]
            for task in range(stage.tasks) if self.singles[index] else ():
                if task not in left and task not in under_way[index] and not stage.is_waiting(task):
                    self.released(stage, task)
        for stage in job.stages:
            self.changed_shares(stage)


def ties_of(spec: Job) -> Ties | None:
    """The ties of a new job; None for a job with barriers alone."""
    return Ties(spec) if any(stage.ties for stage in spec.stages) else None
