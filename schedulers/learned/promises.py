"""Promises of executors to stages, made before the executor is free or before the stage opens.

Promises are Decima's commitments (decima-sim:executor_commit.py). An executor of a stage without tasks to start is
promised ahead. An executor in a job whose target stage is not open waits in the job. Where a container ends with its
task, a stage has a number of slots instead: while tasks of the stage wait, the next task takes the room of a task that
ends, until there is something new to choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedulers.core.live import IDLE, MOVING, ContainerState, JobState

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView

#: A stage of a job, by the job's id and the stage's index.
StageId: TypeAlias = tuple[str, int]
_NONE: Final[Mapping[int, int]] = {}


class Promises:
    """All promises of one cluster."""

    def __init__(self) -> None:
        self.by_source: dict[StageId, dict[StageId, int]] = {}
        """By stage that gives executors: target stages in order, each with the number of executors."""
        self.waiting: dict[str, dict[int, int]] = {}
        """By job: executors that wait in the job, or are on their way, each with the stage to open."""
        self.slots: dict[str, dict[int, int]] = {}
        """By job, where containers end with their tasks: by stage the containers to have at once."""
        self.known_open: dict[str, list[int]] = {}
        """By job, where containers end with their tasks: open stages at the last look."""
        self.changed: dict[str, None] = {}
        """Jobs whose promises have changed since the observation cleared this mapping."""
        self._promised_to: dict[str, Counter[int]] = {}
        self._net_change: Counter[str] = Counter()
        self._ending: dict[str, int] = {}

    def promised_to(self, job: str) -> Mapping[int, int]:
        """By stage of the job, number of promised executors, waiting executors included, or of empty slots."""
        return self._promised_to.get(job, _NONE)

    def net_change(self, job: str) -> int:
        """Change of the job's number of executors by promises between jobs and empty slots."""
        return (
            self._net_change[job] + sum(self._promised_to[job].values()) if job in self.slots else self._net_change[job]
        )

    def promised(self, source: StageId) -> int:
        """Number of executors of a stage that are promised."""
        return sum(self.by_source.get(source, {}).values())

    def promise(self, source: StageId, target: StageId, count: int) -> None:
        """Promise `count` more executors of one stage to another stage."""
        given = self.by_source.setdefault(source, {})
        given[target] = given.get(target, 0) + count
        self._count_promise(source, target, count)

    def take(self, source: StageId) -> StageId | None:
        """Take the promise of a stage's next executor and return the target; None: nothing was promised."""
        given = self.by_source.get(source)
        if not given:
            return None
        target = next(iter(given))
        self._withdraw(source, target, 1)
        return target

    def trim(self, source: StageId, most: int) -> None:
        """Keep promises of at most `most` executors of a stage; the last promises are void."""
        over = self.promised(source) - most
        while over > 0:
            target = next(reversed(self.by_source[source]))
            count = min(over, self.by_source[source][target])
            self._withdraw(source, target, count)
            over -= count

    def wait(self, job: str, container: int, stage: int) -> None:
        """An executor of the job, or on its way there, waits for the stage."""
        self.waiting.setdefault(job, {})[container] = stage
        self._promised_to.setdefault(job, Counter())[stage] += 1
        self.changed[job] = None

    def stop_waiting(self, job: str, container: int) -> None:
        """An executor waits no longer."""
        waiting = self.waiting[job]
        self._promised_to[job][waiting.pop(container)] -= 1
        self.changed[job] = None
        if not waiting:
            del self.waiting[job]

    def add_slots(self, job: JobState, stage: int, slots: int) -> None:
        """Give a stage `slots` more containers than the stage has, or has slots for."""
        had = self.slots.setdefault(job.id, {})
        had[stage] = max(had.get(stage, 0), job.stages[stage].running) + slots
        self._count_slots(job.id, job)

    def has_opened_stage(self, name: str, job: JobState | None) -> bool:
        """Whether a stage of the job has opened since the last call. job: None when the job is gone."""
        was = self.known_open.pop(name, [])
        if job is None:
            return False
        self.known_open[name] = list(job.open)
        return not set(job.open).issubset(was)

    def end_slots(self) -> None:
        """Take all slots away; running containers go on."""
        for name in self.slots:
            self._promised_to.pop(name, None)
            self._ending.pop(name, None)
            self.changed[name] = None
        self.slots.clear()

    def stages_with_empty_slots(self) -> list[StageId]:
        """Stages with empty slots."""
        return [(job, stage) for job in self.slots for stage in self.promised_to(job)]

    def count_ending(self) -> int:
        """Number of containers whose room is free next: no task of the stage waits, and one container has ended."""
        return sum(self._ending.values())

    def drop_impossible(self, name: str, job: JobState | None, view: ClusterView) -> None:
        """A job has changed: forget promises without a chance. job: None when the job is gone."""
        for container in list(self.waiting.get(name, ())):
            if job is None or not self._waits(view.containers.get(container), name):
                self.stop_waiting(name, container)
        for source in [place for place in self.by_source if place[0] == name]:
            self.trim(source, 0 if job is None else job.stages[source[1]].running + self._idle(source, view))
        if job is None:
            for source, given in list(self.by_source.items()):
                for target in [place for place in given if place[0] == name]:
                    self._withdraw(source, target, given[target])
            if name not in self.slots:
                self._promised_to.pop(name, None)
            self._net_change.pop(name, None)
        slots = self.slots.get(name, {})
        for index in list(slots):
            if job is None or not (job.stages[index].waiting or job.stages[index].running):
                del slots[index]
        if slots and job is not None:
            self._count_slots(name, job)
        elif name in self.slots:
            del self.slots[name]
            self._promised_to.pop(name, None)
            self._ending.pop(name, None)

    def _count_slots(self, name: str, job: JobState) -> None:
        """Count the empty slots of a job, and the containers whose room is free next."""
        empty, ending = Counter[int](), 0
        for index, most in self.slots[name].items():
            stage = job.stages[index]
            if stage.waiting and stage.running < most:
                empty[index] = min(stage.waiting, most - stage.running)
            elif stage.running < most:
                ending += stage.running
        self._promised_to[name], self._ending[name] = empty, ending
        self.changed[name] = None

    @staticmethod
    def _waits(container: ContainerState | None, job: str) -> bool:
        return container is not None and container.job == job and container.status in (IDLE, MOVING)

    def _idle(self, source: StageId, view: ClusterView) -> int:
        """Number of idle executors with their last task in this stage and without a stage to wait for."""
        waiting = self.waiting.get(source[0], _NONE)
        return sum((there.job, there.stage) == source and there.id not in waiting for there in view.idle())

    def _withdraw(self, source: StageId, target: StageId, count: int) -> None:
        given = self.by_source[source]
        given[target] -= count
        if not given[target]:
            del given[target]
            if not given:
                del self.by_source[source]
        self._count_promise(source, target, -count)

    def _count_promise(self, source: StageId, target: StageId, count: int) -> None:
        self._promised_to.setdefault(target[0], Counter())[target[1]] += count
        self.changed[source[0]] = self.changed[target[0]] = None
        if source[0] != target[0]:
            self._net_change[source[0]] -= count
            self._net_change[target[0]] += count

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """All promises as plain data."""
        return {
            "given": [[*source, *to, n] for source, given in self.by_source.items() for to, n in given.items()],
            "waiting": [[job, *entry] for job, waiting in self.waiting.items() for entry in waiting.items()],
            "slots": [[job, *entry] for job, slots in self.slots.items() for entry in slots.items()],
            "opened": self.known_open,
        }

    def load(self, data: Any, jobs: Mapping[str, JobState]) -> None:
        """Take over a dump. jobs: the live jobs."""
        for job, stage, to_job, to_stage, count in data["given"]:
            self.promise((job, stage), (to_job, to_stage), count)
        for job, container, stage in data["waiting"]:
            self.wait(job, container, stage)
        for name, stage, most in data["slots"]:
            self.slots.setdefault(name, {})[stage] = most
        self.known_open.update(data["opened"])
        for name in self.slots:
            if name in jobs:
                self._count_slots(name, jobs[name])
