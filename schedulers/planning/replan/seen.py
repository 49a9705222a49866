"""What a policy has seen of executors: the wave of each task, and how long tasks of alike jobs take by wave."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from schedulers.core.events import ContainerStarted, Estimated, Event, JobSubmitted, TaskEnded
from schedulers.core.live import RUNNING
from schedulers.core.model import Job
from schedulers.core.policy import ClusterView
from schedulers.core.waves import LEVELS, TOP, WAVES, StageRunTimes, choices

#: Run times that are remembered of a stage, wave and level: the last ones.
_REMEMBERED: Final = 64
_FRESH, _FIRST, _REST = range(len(WAVES))
#: Kinds of jobs that are remembered: those that ended last.
_KINDS: Final = 1000
#: A longer run time counts as so long, ms (three days).
LONGEST_MS: Final = 1 << 28
_Lists = list[list[deque[int]]]


class Course(NamedTuple):
    """Run times of a job's stages as arrays."""

    values: NDArray[np.int64]
    """ms"""
    lists: NDArray[np.int64]
    """Where the run times of a stage, wave and level begin in `values`, and how many there are: by these three, two
    numbers."""


class Task(msgspec.Struct, array_like=True):
    """The present or last task of an executor for its job."""

    stage: int = -1
    wave: int = _FRESH
    width: int = 1
    """Executors of the job when the task began."""
    ended: int = -1
    """When the last task ended, ms; -1: there was none."""


def course_of(stages: Sequence[StageRunTimes]) -> Course:
    """Run times of a job as arrays; run times beyond LONGEST_MS count as so long."""
    counts = [len(measured) for stage in stages for measured in stage.lists]
    starts = np.cumsum([0, *counts])
    values = np.concatenate([np.array(measured, np.int64) for stage in stages for measured in stage.lists])
    lists = np.empty((len(stages), len(WAVES), len(LEVELS), 2), np.int64)
    first = 0
    for index, stage in enumerate(stages):
        numbers = first + np.array(stage.by_wave, np.int64)
        lists[index, ..., 0], lists[index, ..., 1] = starts[numbers], np.array(counts)[numbers]
        first += len(stage.lists)
    return Course(np.minimum(values, LONGEST_MS), lists)


class Seen:
    """Executors and run times, by facts alone.

    Jobs of one application and name (`app`, `name`) with as many stages, and to a power of two as many tasks, are
    alike. When such a job has ended, the run times of its tasks are known for the next.
    """

    def __init__(self, *, inverted: bool) -> None:
        """inverted: how a level follows from a number of executors, see `schedulers.core.waves.choices`."""
        shares = choices(inverted=inverted)
        self._levels = [below if share >= 1 / 2 else above for below, above, share in shares]
        self.tasks: dict[int, Task] = {}
        """By executor."""
        self._kinds: dict[str, str] = {}  # of live jobs
        self._told: dict[str, tuple[StageRunTimes, ...]] = {}  # of live jobs
        self._open: dict[str, dict[int, _Lists]] = {}  # run times of live jobs by stage
        self._known: dict[str, dict[int, _Lists]] = {}  # the same of ended jobs, by kind of job
        self._courses: dict[str, Course | None] = {}

    def observe(self, event: Event, view: ClusterView) -> None:
        """Hear a fact, after the state has changed."""
        if isinstance(event, TaskEnded):
            self._ended(event, view)
        elif isinstance(event, ContainerStarted):
            container = view.containers[event.container]
            width = view.jobs[container.job].executors if container.job in view.jobs else 1
            self.tasks[container.id] = Task(container.stage, _FRESH, width)
        elif isinstance(event, JobSubmitted):
            self._kinds[event.job.id] = _kind(event.job)
        elif isinstance(event, Estimated) and event.by_wave:
            self._told[event.job] = event.by_wave

    def _ended(self, event: TaskEnded, view: ClusterView) -> None:
        task = self.tasks.setdefault(event.container, Task(event.stage))
        lists = self._open.setdefault(event.job, {}).setdefault(event.stage, _empty())
        lists[task.wave][self._levels[min(task.width, TOP)]].append(event.runtime_ms)
        task.stage, task.ended = event.stage, view.now
        container = view.containers.get(event.container)
        if container is not None and container.status == RUNNING:
            task.wave, task.width = _REST, view.jobs[container.job].executors
        if event.job not in view.jobs:
            self._learn(event.job)

    def went_on(self, containers: Collection[int], view: ClusterView) -> None:
        """Idle executors of before a division that run tasks of their job after the division."""
        for number in containers:
            container = view.containers.get(number)
            if container is None or container.status != RUNNING:
                continue
            task = self.tasks.setdefault(number, Task())
            waited = task.ended < view.now
            task.wave = _FRESH if waited else (_REST if task.stage == container.stage else _FIRST)
            task.stage, task.width = container.stage, view.jobs[container.job].executors
        # Executors that are given back have no fact of their own.
        if len(self.tasks) > 2 * len(view.containers) + len(LEVELS):
            self.tasks = {number: task for number, task in self.tasks.items() if number in view.containers}

    def _learn(self, job: str) -> None:
        """Add the run times of an ended job to the known ones of its kind."""
        if (kind := self._kinds.get(job)) is None:
            return
        known = self._known.pop(kind, {})
        self._known[kind] = known  # at the end: what stays in front was not heard of for longest
        if len(self._known) > _KINDS:
            del self._known[next(iter(self._known))]
        for stage, lists in self._open.pop(job, {}).items():
            there = known.setdefault(stage, _empty())
            for wave, levels in enumerate(lists):
                for level, ran in enumerate(levels):
                    there[wave][level] += ran
        self._courses = {name: course for name, course in self._courses.items() if self._kinds[name] != kind}

    def forget(self, job: str) -> None:
        """A job is gone."""
        for memory in (self._kinds, self._told, self._open, self._courses):
            memory.pop(job, None)

    def course(self, job: Job) -> Course | None:
        """Run times of a live job; None: not known."""
        if job.id not in self._courses:
            stages = self._told.get(job.id) or self._learned(job)
            self._courses[job.id] = course_of(stages) if stages else None
        return self._courses[job.id]

    def _learned(self, job: Job) -> list[StageRunTimes]:
        known = self._known.get(_kind(job), {})
        return [_filled(known[index]) for index in range(len(job.stages))] if len(known) == len(job.stages) else []

    def dump(self) -> Any:
        """Plain data for `load`."""
        return [
            [[number, msgspec.to_builtins(task)] for number, task in self.tasks.items()],
            self._kinds,
            msgspec.to_builtins(self._told),
            *([[name, _plain(stages)] for name, stages in of.items()] for of in (self._open, self._known)),
        ]

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        tasks, kinds, told, *known = data
        self.tasks = {number: msgspec.convert(task, Task) for number, task in tasks}
        self._kinds = dict(kinds)
        self._told = msgspec.convert(told, dict[str, tuple[StageRunTimes, ...]])
        self._open, self._known = ({name: _lists(stages) for name, stages in of} for of in known)
        self._courses = {}


def _kind(job: Job) -> str:
    """What alike jobs have in common. Where tasks are half as many, run times are others, for more input of each."""
    return "\x1f".join((job.app, job.name, str(len(job.stages)), str(job.tasks.bit_length())))


def _empty() -> _Lists:
    return [[deque(maxlen=_REMEMBERED) for _ in LEVELS] for _ in WAVES]


def _filled(lists: _Lists) -> StageRunTimes:
    """Run times of a stage, with those of the nearest level, or else wave, where none were seen; some were."""
    made: list[tuple[int, ...]] = []
    by_wave = []
    for wave in range(len(WAVES)):
        # Another wave of the stage says more than nothing: the next warmer one, or the warmest there is.
        levels = next(each for each in (*lists[wave:], *lists[wave::-1]) if any(each))
        seen = [level for level, ran in enumerate(levels) if ran]
        nearest = [min(seen, key=lambda other: (abs(other - level), other)) for level in range(len(LEVELS))]
        by_wave.append(tuple(len(made) + seen.index(level) for level in nearest))
        made += [tuple(levels[level]) for level in seen]
    return StageRunTimes(tuple(made), tuple(by_wave))


def _plain(stages: Mapping[int, _Lists]) -> Any:
    return [[stage, [[list(ran) for ran in wave] for wave in lists]] for stage, lists in stages.items()]


def _lists(stages: Any) -> dict[int, _Lists]:
    return {stage: [[deque(ran, maxlen=_REMEMBERED) for ran in wave] for wave in lists] for stage, lists in stages}
