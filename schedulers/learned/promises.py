"""Which stage an executor goes to when it is free: said before it is, or while the stage is not open yet.

Decima's commitments (decima-sim:executor_commit.py). An executor of a stage without tasks to start is promised ahead;
one that has come to a job, or stays in it, for a stage that is not open waits there for it. Where a container ends with
its task, a stage has a number of slots instead: as long as tasks wait in it the next one has the room of one that ends,
until there is something new to choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedulers.core.live import IDLE, MOVING, ContainerState, JobState

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView

#: A stage of a job, by the job's id and the stage's index.
Place: TypeAlias = tuple[str, int]
_NONE: Final[Mapping[int, int]] = {}


class Promises:
    """All promises of one cluster.

    given: by the stage whose executors were promised, to which stages how many of them go, in this order.
    waiting: by job, the executors that wait in it, or are on their way to do so, each with its stage.
    slots: by job, where containers end with their tasks, how many of them its stages are to have at once.
    opened: by job, there, the stages with tasks that could start when it was looked at last.
    """

    def __init__(self) -> None:
        self.given: dict[Place, dict[Place, int]] = {}
        self.waiting: dict[str, dict[int, int]] = {}
        self.slots: dict[str, dict[int, int]] = {}
        self.opened: dict[str, list[int]] = {}
        self.changed: dict[str, None] = {}
        """Jobs with more or fewer promises than when somebody cleared this."""
        self._to: dict[str, Counter[int]] = {}
        self._net: Counter[str] = Counter()
        self._ending: dict[str, int] = {}

    def to(self, job: str) -> Mapping[int, int]:
        """By stage of the job, how many executors are promised to it, waiting ones included, or slots are empty."""
        return self._to.get(job, _NONE)

    def net(self, job: str) -> int:
        """How many more executors the job will have by promises between jobs and empty slots; below 0: fewer."""
        return self._net[job] + sum(self._to[job].values()) if job in self.slots else self._net[job]

    def promised(self, source: Place) -> int:
        """How many executors of a stage are promised."""
        return sum(self.given.get(source, {}).values())

    def promise(self, source: Place, target: Place, count: int) -> None:
        """So many more executors of the one stage go to the other."""
        given = self.given.setdefault(source, {})
        given[target] = given.get(target, 0) + count
        self._count(source, target, count)

    def take(self, source: Place) -> Place | None:
        """Where the next executor of a stage goes; that promise is kept, or void. None: nothing was promised."""
        given = self.given.get(source)
        if not given:
            return None
        target = next(iter(given))
        self._withdraw(source, target, 1)
        return target

    def trim(self, source: Place, most: int) -> None:
        """No more executors of a stage can keep promises; the last promises are void."""
        over = self.promised(source) - most
        while over > 0:
            target = next(reversed(self.given[source]))
            count = min(over, self.given[source][target])
            self._withdraw(source, target, count)
            over -= count

    def wait(self, job: str, container: int, stage: int) -> None:
        """An executor of the job, or on its way there, waits for the stage."""
        self.waiting.setdefault(job, {})[container] = stage
        self._to.setdefault(job, Counter())[stage] += 1
        self.changed[job] = None

    def leave(self, job: str, container: int) -> None:
        """It waits no longer."""
        waiting = self.waiting[job]
        self._to[job][waiting.pop(container)] -= 1
        self.changed[job] = None
        if not waiting:
            del self.waiting[job]

    def let(self, job: JobState, stage: int, slots: int) -> None:
        """A stage is to have so many more containers than it has, or has slots for."""
        had = self.slots.setdefault(job.id, {})
        had[stage] = max(had.get(stage, 0), job.stages[stage].running) + slots
        self._look_at_slots(job.id, job)

    def is_news(self, name: str, job: JobState | None) -> bool:
        """Whether a stage of the job may start tasks that could not when this was asked last. job: None: it is gone."""
        was = self.opened.pop(name, [])
        if job is None:
            return False
        self.opened[name] = list(job.open)
        return not set(job.open).issubset(was)

    def end_slots(self) -> None:
        """No stage has slots any more; what runs in them goes on."""
        for name in self.slots:
            self._to.pop(name, None)
            self._ending.pop(name, None)
            self.changed[name] = None
        self.slots.clear()

    def owed(self) -> list[Place]:
        """Stages with empty slots."""
        return [(job, stage) for job in self.slots for stage in self.to(job)]

    def ending(self) -> int:
        """How many containers run in stages without tasks to start of which one has ended: their room is free next."""
        return sum(self._ending.values())

    def check(self, name: str, job: JobState | None, view: ClusterView) -> None:
        """A job has changed: forget what can be no more. job: None when it is gone."""
        for container in list(self.waiting.get(name, ())):
            if job is None or not self._waits(view.containers.get(container), name):
                self.leave(name, container)
        for source in [place for place in self.given if place[0] == name]:
            self.trim(source, 0 if job is None else job.stages[source[1]].running + self._idle(source, view))
        if job is None:
            for source, given in list(self.given.items()):
                for target in [place for place in given if place[0] == name]:
                    self._withdraw(source, target, given[target])
            if name not in self.slots:
                self._to.pop(name, None)
            self._net.pop(name, None)
        slots = self.slots.get(name, {})
        for index in list(slots):
            if job is None or not (job.stages[index].waiting or job.stages[index].running):
                del slots[index]
        if slots and job is not None:
            self._look_at_slots(name, job)
        elif name in self.slots:
            del self.slots[name]
            self._to.pop(name, None)
            self._ending.pop(name, None)

    def _look_at_slots(self, name: str, job: JobState) -> None:
        """See which slots of a job are empty, and whose room will be free."""
        empty, ending = Counter[int](), 0
        for index, most in self.slots[name].items():
            stage = job.stages[index]
            if stage.waiting and stage.running < most:
                empty[index] = min(stage.waiting, most - stage.running)
            elif stage.running < most:
                ending += stage.running
        self._to[name], self._ending[name] = empty, ending
        self.changed[name] = None

    @staticmethod
    def _waits(container: ContainerState | None, job: str) -> bool:
        return container is not None and container.job == job and container.status in (IDLE, MOVING)

    def _idle(self, source: Place, view: ClusterView) -> int:
        """How many executors are idle that ran a task of this stage last, and wait for no other."""
        waiting = self.waiting.get(source[0], _NONE)
        return sum((there.job, there.stage) == source and there.id not in waiting for there in view.idle())

    def _withdraw(self, source: Place, target: Place, count: int) -> None:
        given = self.given[source]
        given[target] -= count
        if not given[target]:
            del given[target]
            if not given:
                del self.given[source]
        self._count(source, target, -count)

    def _count(self, source: Place, target: Place, count: int) -> None:
        self._to.setdefault(target[0], Counter())[target[1]] += count
        self.changed[source[0]] = self.changed[target[0]] = None
        if source[0] != target[0]:
            self._net[source[0]] -= count
            self._net[target[0]] += count

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """All of them, as plain data."""
        return {
            "given": [[*source, *to, n] for source, given in self.given.items() for to, n in given.items()],
            "waiting": [[job, *entry] for job, waiting in self.waiting.items() for entry in waiting.items()],
            "slots": [[job, *entry] for job, slots in self.slots.items() for entry in slots.items()],
            "opened": self.opened,
        }

    def load(self, data: Any, jobs: Mapping[str, JobState]) -> None:
        """Takes over what `dump` returned. jobs: the live ones."""
        for job, stage, to_job, to_stage, count in data["given"]:
            self.promise((job, stage), (to_job, to_stage), count)
        for job, container, stage in data["waiting"]:
            self.wait(job, container, stage)
        for name, stage, most in data["slots"]:
            self.slots.setdefault(name, {})[stage] = most
        self.opened.update(data["opened"])
        for name in self.slots:
            if name in jobs:
                self._look_at_slots(name, jobs[name])
