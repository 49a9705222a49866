"""The rest of a run, played forward from what is known now: who ends when, by estimates and a simple rule.

Tasks of a stage flow: so many at once as it has executors, each for its estimated time; all executors of a stage are
free when its last task ends. From then on each stays in its job while that has something to start, then goes to the
job with the least work that is below its number of executors, then to the one with the least work (`capped_sjf`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(slots=True, eq=False)
class PlayedStage:
    """A stage of a job that is played. Times in ms from now on.

    left: tasks that have not ended, those under way as the part that is left of them. soonest: when the last of those
    under way ends. parents: unfinished stages above. path: from its start to the end of the job. goes: where its
    executors were promised to go, each (job, stage, count). coming: executors on their way to it. pace: tasks per ms
    since `at`.
    """

    left: float
    task_ms: float
    parents: int
    children: Sequence[int]
    path: float
    executors: int = 0
    soonest: float = 0.0
    goes: Sequence[tuple[int, int, int]] = ()
    coming: int = 0
    pace: float = 0.0
    at: float = 0.0
    end: float = math.inf

    def now_left(self, now: float) -> float:
        """What is left of it by now."""
        return max(0.0, self.left - (now - self.at) * self.pace)

    def need(self, now: float) -> int:
        """How many more executors could start a task."""
        return max(0, math.ceil(self.now_left(now) - 1e-6) - self.executors - self.coming)


@dataclass(slots=True, eq=False)
class PlayedJob:
    """A job that is played.

    most: executors up to which it is served first. idle: executors that wait in it. held: all that it has, those on
    their way included. open: stages that may run, none of them done.
    """

    stages: list[PlayedStage]
    most: int
    idle: int = 0
    held: int = 0
    unfinished: int = 0
    end: float = math.nan
    open: list[int] = field(default_factory=list)

    def copied(self) -> PlayedJob:
        """Another one that can be played; this one was not."""
        stages = [
            PlayedStage(s.left, s.task_ms, s.parents, s.children, s.path, s.executors, s.soonest, s.goes)
            for s in self.stages
        ]
        return PlayedJob(stages, self.most, self.idle)

    def in_order(self) -> list[int]:
        """The open stages, the longest path in front."""
        return sorted(self.open, key=lambda index: -self.stages[index].path) if len(self.open) > 1 else list(self.open)


class Play:
    """One play of some jobs, those with the least work in front. free: executors of nobody. executors: of the cluster.

    moving_ms: what it takes an executor to begin in a job that is not its own. crowding: a task takes its estimate x
    (what its job has of all executors) ^ crowding.
    """

    def __init__(
        self, jobs: Sequence[PlayedJob], free: int, executors: int, *, moving_ms: float = 0.0, crowding: float = 0.0
    ) -> None:
        self.jobs, self.free, self.executors = jobs, free, executors
        self._moving_ms, self._crowding = moving_ms, crowding
        self._now = 0.0
        self._events: list[tuple[float, int, int, int]] = []  # when, job, stage; how many arrive, 0: the stage ends
        for job in jobs:
            job.open = [index for index, stage in enumerate(job.stages) if stage.left > 0 and not stage.parents]
            job.unfinished = sum(stage.left > 0 for stage in job.stages)
            job.held = job.idle + sum(stage.executors for stage in job.stages)
            if not job.unfinished:
                job.end = 0.0

    def send(self, job: int, stage: int, count: int, *, own: bool) -> None:
        """Executors set out for a stage. own: they are in its job already."""
        there = self.jobs[job]
        there.held += count
        if own:
            self._arrive(job, stage, count)
        elif count:
            there.stages[stage].coming += count
            heappush(self._events, (self._now + self._moving_ms, job, stage, count))

    def ends(self) -> list[float]:
        """Play to the end: when each job ends, in ms; inf where no executor ever comes."""
        for number, job in enumerate(self.jobs):
            for index in job.open:
                if job.stages[index].executors:
                    self._flow(number, index)
            self._stay(number)
        self._share()
        while self._events:
            self._now, number, index, count = heappop(self._events)
            stage = self.jobs[number].stages[index]
            if count:
                stage.coming -= count
                self._arrive(number, index, count)
            elif index in self.jobs[number].open and self._now == stage.end:
                self._end(number, index)
            else:
                continue  # by now it ends at another time
            self._share()
        return [math.inf if math.isnan(job.end) else job.end for job in self.jobs]

    def _flow(self, number: int, index: int) -> None:
        """From now on the stage has these executors: when will it end?"""
        job = self.jobs[number]
        stage = job.stages[index]
        stage.at = self._now
        stage.pace = stage.executors / self._task_ms(job, stage)
        stage.end = max(self._now + stage.left / stage.pace, stage.soonest)
        heappush(self._events, (stage.end, number, index, 0))

    def _task_ms(self, job: PlayedJob, stage: PlayedStage) -> float:
        """What a task takes that starts now."""
        return stage.task_ms * (job.held / self.executors) ** self._crowding if self._crowding else stage.task_ms

    def _join(self, number: int, index: int, count: int) -> None:
        job = self.jobs[number]
        stage = job.stages[index]
        stage.left = stage.now_left(self._now)
        stage.executors += count
        stage.soonest = self._now + self._task_ms(job, stage)
        self._flow(number, index)

    def _arrive(self, number: int, index: int, count: int) -> None:
        """Executors are in a job: they serve the stage, or wait, or whatever else the job has for them."""
        job = self.jobs[number]
        joining = min(count, job.stages[index].need(self._now)) if index in job.open else 0
        if joining:
            self._join(number, index, joining)
        job.idle += count - joining
        self._stay(number)

    def _end(self, number: int, index: int) -> None:
        job = self.jobs[number]
        stage = job.stages[index]
        idle, stage.executors, stage.left = stage.executors, 0, 0.0
        job.open.remove(index)
        job.unfinished -= 1
        for child in stage.children:
            below = job.stages[child]
            below.parents -= 1
            if not below.parents and below.left > 0:
                job.open.append(child)
        if not job.unfinished:
            job.end = self._now
        for to_job, to_stage, promised in stage.goes:
            going = min(idle, promised) if math.isnan(self.jobs[to_job].end) else 0
            idle -= going
            job.held -= going
            self.send(to_job, to_stage, going, own=to_job == number)
        job.idle += idle
        self._stay(number)

    def _stay(self, number: int) -> None:
        """Idle executors of a job serve it, wait for its next stages, or are nobody's."""
        job = self.jobs[number]
        if not job.idle:
            return
        for index in job.in_order():
            joining = min(job.idle, job.stages[index].need(self._now))
            if joining:
                job.idle -= joining
                self._join(number, index, joining)
        runs = any(job.stages[index].executors or job.stages[index].coming for index in job.open)
        soon = sum(math.ceil(stage.left) for stage in job.stages if stage.parents) if runs else 0
        spare = max(0, job.idle - soon)
        job.idle -= spare
        job.held -= spare
        self.free += spare

    def _share(self) -> None:
        """Executors of nobody go to the first job below its number, then to the first at all."""
        for limited in (True, False):
            for number, job in enumerate(self.jobs):
                if not self.free:
                    return
                want = min(self.free, job.most - job.held) if limited else self.free
                for index in job.in_order() if want > 0 else ():
                    given = min(want, job.stages[index].need(self._now))
                    want -= given
                    self.free -= given
                    self.send(number, index, given, own=False)
