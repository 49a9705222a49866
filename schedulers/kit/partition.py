"""Policies with a number of containers for each job: serve the first job below its number, over and over.

With executors that outlive tasks this is Decima's dynamic partition (decima-sim:heuristic_agent.py): an executor is
held for the next tasks of its job, even while they wait for their parents.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from schedulers.core.policy import ClusterView, Offer, Outcome, Suggestion, Suggestions
from schedulers.core.vectors import times_in
from schedulers.kit.ordered import Ordered
from schedulers.kit.parties import serve_asked

if TYPE_CHECKING:
    from schedulers.core.resources import Vector
    from schedulers.core.state import ContainerState, JobState, NodeState, StageState

_Steps = Generator[Suggestion, Outcome, None]


class Partitioned(Ordered):
    """Serves jobs in the order of `key`, each up to `most` containers.

    stays: an idle executor serves its own job first, and is held for the job as long as tasks are to come. limits:
    whether `most` limits any job. yields: idle executors leave their job, in spite of `stays`, for jobs earlier in the
    order that are below their number. spills: room unusable for jobs below their number goes to the others, in the same
    order. warm: so many unstarted tasks of a stage are left to each executor that has a task of the stage; only for
    tasks beyond are more executors got.
    """

    stays = True
    limits = True
    yields = False
    spills = True
    warm = 0.0

    def most(self, job: JobState, view: ClusterView) -> float:
        """How many containers the job may hold before the others are served; no limit unless overridden."""
        return math.inf

    def hold(self, job: JobState) -> float:
        """How many executors may wait for the job's next stages; no limit unless overridden."""
        return math.inf

    def cap(self, job: JobState, stage: StageState) -> float:
        """Executors with tasks of the stage beyond which none is added; no limit unless overridden."""
        return math.inf

    def keeps(self, job: JobState, view: ClusterView) -> float:
        """Up to how many executors the job keeps idle ones for its next stages; no limit unless overridden."""
        return math.inf

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the first job below its number with a task that fits, until nothing fits."""
        if view.has_executors:
            return serve_asked(offer) if offer.job is not None else _Division(self, view, offer).steps()
        return self._fill(view, offer) if self.limits else super().schedule(view, offer)

    def _fill(self, view: ClusterView, offer: Offer) -> Suggestions:
        placed = True
        while placed and offer.has_room():
            self._refresh(view)
            placed = yield from self._serve(view, offer, limited=True)
            if not placed and self.spills:
                placed = yield from self._serve(view, offer, limited=False)

    def _serve(self, view: ClusterView, offer: Offer, *, limited: bool) -> Generator[Suggestion, Outcome, bool]:
        for name in self._order:
            job = view.jobs[name]
            left = self.most(job, view) - job.executors if limited else math.inf
            if left <= 0:
                continue
            for stage in self.stages(job, view):
                if offer.fits(job, stage):
                    count = int(min(stage.waiting, left)) if self.bundles else 1
                    outcome = yield Suggestion(name, stage.index, count=count)
                    if outcome.placed:
                        return True
        return False

    # -- with executors -------------------------------------------------------------------------

    def ranked(self, view: ClusterView) -> list[JobState]:
        """With executors: the live jobs with tasks to start, now or later, in order."""
        self._refresh(view)
        return [view.jobs[name] for name in self._order]

    def _refresh(self, view: ClusterView) -> None:
        if not view.has_executors:
            super()._refresh(view)
            return
        for name in view.changed():
            job = view.jobs.get(name)
            if job is not None and to_start(job):
                self._order.put(name, self.key(job, view))
            else:
                self._leave(name, view)

    def _sort(self, view: ClusterView) -> None:
        if not view.has_executors:
            super()._sort(view)
            return
        self._order.fill({name: self.key(job, view) for name, job in view.jobs.items() if to_start(job)})


def to_start(job: JobState) -> int:
    """Number of unstarted tasks of the job, tasks waiting for other stages included."""
    return job.left - job.running if job.admitted and not job.cancelled else 0


def executors_of(view: ClusterView, demands: Iterable[Vector]) -> int:
    """Number of executors the cluster holds, used ones included, of the demand with the most."""
    return max([1, *(times_in(demand, view.capacity) for demand in demands)])


class _Division:
    """A round of dividing free executors and room among the jobs.

    free: idle executors open to any job. held: by job, executors waiting for its next stages, or on their way there.
    spare: number of containers still to be given, free executors and new ones.
    """

    def __init__(self, policy: Partitioned, view: ClusterView, offer: Offer) -> None:
        self.policy, self.view, self.offer = policy, view, offer
        self.free: list[ContainerState] = []
        self.held: Counter[str] = Counter(c.job for c in view.moving())
        self.spare = 0

    def steps(self) -> _Steps:
        """Executors go on in their jobs, then the jobs get more in their order."""
        jobs = self.policy.ranked(self.view)
        self.spare = self._room()
        if self.policy.stays:
            yield from self._stay(jobs)
        else:
            self.free = self.view.idle()
        self.spare += len(self.free)
        for limited in (True, False) if self.policy.limits and self.policy.spills else (True,):
            for job in jobs:
                if self.spare <= 0:
                    return
                most = self.policy.most(job, self.view) if limited else math.inf
                yield from self._give(job, most)

    def _room(self) -> int:
        """Number of new containers with room, of the size with the most."""
        demands = [self.view.demand(size) for size in self.view.active_sizes]
        nodes = self.view.with_room() if self.offer.nodes is None else self.offer.nodes
        return max((sum(times_in(demand, node.free) for node in nodes) for demand in demands), default=0)

    def _stay(self, jobs: list[JobState]) -> _Steps:
        """Let idle executors serve their own jobs; hold executors needed by their jobs soon."""
        own: dict[str, list[ContainerState]] = {}
        for container in self.view.idle():
            own.setdefault(container.job, []).append(container)
        leaving = self._leaving(jobs, own) if self.policy.yields and own else Counter()
        for name, idle in own.items():
            job = self.view.jobs.get(name)
            held = 0
            if job is not None:
                self.free += idle[: leaving[name]]
                del idle[: leaving[name]]
                yield from self._go_on(job, idle)
                held = self._kept(job, len(idle))
                self.held[name] += held
            self.free += idle[held:]

    def _leaving(self, jobs: list[JobState], own: Mapping[str, Sequence[ContainerState]]) -> Counter[str]:
        """How many idle executors leave each job for jobs before it. own: the idle executors by job."""
        leaving: Counter[str] = Counter()
        there = {name: len(idle) for name, idle in own.items()}
        # Executors that no job keeps come first.
        wanted = -self.spare - sum(there.values()) + sum(there.get(job.id, 0) for job in jobs)
        for job in jobs:
            idle = there.get(job.id, 0)
            leaving[job.id] = max(0, min(idle, wanted))
            below = self.policy.most(job, self.view) - job.executors
            wanted += int(max(0, min(below, job.waiting - idle))) - leaving[job.id]
        return leaving

    def _soon(self, job: JobState) -> int:
        """How many more executors could wait for the job's next stages."""
        # A job without running tasks opens no stage by itself: its executors may block the tasks it waits for.
        later = min(to_start(job) - job.waiting, self.policy.hold(job))
        return int(max(0, later - self.held[job.id])) if job.running else 0

    def _open(self, job: JobState, stage: StageState) -> int:
        """How many tasks of an open stage may start now."""
        return int(max(0, min(stage.waiting, self.policy.cap(job, stage) - stage.running)))

    def _kept(self, job: JobState, idle: int) -> int:
        """How many of the job's idle executors stay for the next stages."""
        soon = min(self._soon(job), idle)
        if not soon:
            return 0
        return int(max(0, min(soon, self.policy.keeps(job, self.view) - job.executors + idle)))

    def _go_on(self, job: JobState, idle: list[ContainerState]) -> _Steps:
        """Start tasks of the job in its own idle executors, and take the executors off the list."""
        for stage in self.policy.stages(job, self.view):
            for container in [c for c in idle if c.size == stage.size][: self._open(job, stage)]:
                outcome = yield Suggestion(job.id, stage.index, executor=container.id)
                if outcome.placed:
                    idle.remove(container)

    def _give(self, job: JobState, most: float) -> _Steps:
        """Let the job have more containers, for tasks able to start now and then for tasks to come soon."""
        want = most - (job.executors - sum(c.job == job.id for c in self.free))
        for stage in self.policy.stages(job, self.view):
            warm = 0 if most == math.inf else int(self.policy.warm * stage.running)
            want -= yield from self._get(job, stage, min(want, self._open(job, stage), stage.waiting - warm))
        for stage in job.stages:
            if min(want, self.spare) <= 0:
                return
            if stage.waiting and stage.index not in job.open and self._is_kept(stage):
                want -= yield from self._get(job, stage, min(want, stage.waiting, self._soon(job)), ahead=True)

    def _nodes(self, stage: StageState) -> Iterable[NodeState]:
        """Nodes on offer with room for a task of the stage."""
        if self.offer.nodes is None:
            return self.view.nodes_fitting(stage)
        return [node for node in self.offer.nodes if self.view.fits(stage, node)]

    def _is_kept(self, stage: StageState) -> bool:
        """Whether the core lets an idle executor of the size be: it releases sizes without waiting tasks."""
        active = list(self.view.active_sizes)
        return not active or stage.size in active

    def _get(
        self, job: JobState, stage: StageState, want: float, *, ahead: bool = False
    ) -> Generator[Suggestion, Outcome, int]:
        """Get up to `want` executors for a stage: the job's own, new executors, others; returns the number.

        ahead: the executors wait for the stage.
        """
        got = 0
        while got < want:
            there = [c for c in self.free if c.size == stage.size]
            mine = next((c for c in there if c.job == job.id), None)
            room = 0 if mine else sum(node.fit_count(stage) for node in self._nodes(stage))
            if not (there or room):
                break
            if mine is not None and ahead:
                placed = 1  # the executor waits at its job already
            elif room:
                count = int(min(want - got, room))
                placed = (yield Suggestion(job.id, stage.index, count=count, ahead=ahead)).placed
            else:
                mine = mine or there[0]
                placed = (yield Suggestion(job.id, stage.index, executor=mine.id, ahead=ahead)).placed
            if not placed:
                break
            if mine is not None:
                self.free.remove(mine)
            got += placed
            self.spare -= placed
        if ahead:
            self.held[job.id] += got
        return got
