"""Tries actions before it takes one: each is played forward to the end, by estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import RUNNING, ContainerState, JobState, StageState
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph
from schedulers.learned.limits import candidates
from schedulers.learned.orders import capped_sjf, critical, most_of
from schedulers.planning.forward import Play, PlayedJob, PlayedStage
from schedulers.planning.paths import to_output

#: A task takes so long of which nothing is known, in ms.
UNKNOWN_MS: Final = 10_000.0
#: What is left at least of a task that should be over, as a part.
REST: Final = 0.1


@policies.register(
    "lookahead", source="Decima (SIGCOMM'19), section 5.2, its action; rollout (Bertsekas 2020) of a rule"
)
class Lookahead(Dispatch):
    """Asked as Decima is, it plays `capped_sjf` forward from some actions, and takes the one with the least mean JCT.

    The play knows estimates only, and no jobs that are still to come.
    """

    needs_estimates = True

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        jobs: Annotated[int, msgspec.Meta(ge=1, description="so many jobs with the least work are tried")] = 4
        moving_ms: Annotated[
            float, msgspec.Meta(ge=0, description="what an executor is taken to need to begin in another job, in ms")
        ] = 3000.0
        crowding: Annotated[
            float,
            msgspec.Meta(
                ge=0, le=1, description="a task takes its estimate x (its job's part of all executors) ^ this"
            ),
        ] = 0.25
        margin: Annotated[
            float,
            msgspec.Meta(ge=0, lt=1, description="by what part of all time left another action must be better"),
        ] = 0.005

    params: Params

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        tried: dict[tuple[int, int, int], Action] = {}
        for action in self._actions(graph, view):
            tried.setdefault((action.job, action.row, self.given(graph, action)), action)
        own, *others = tried.values()
        if not others:
            return own
        world = _World(self, graph, view)
        best, best_ms = own, world.total_ms(own) * (1 - self.params.margin)
        for action in others:
            total_ms = world.total_ms(action)
            if total_ms < best_ms:
                best, best_ms = action, total_ms
        return best

    def _actions(self, graph: Graph, view: ClusterView) -> Iterator[Action]:
        """The rule's own action first; then the critical stage of some jobs, with all, half or few of the executors."""
        yield capped_sjf(graph, view, self.asked)
        able = [index for index, job in enumerate(graph.jobs) if job.valid.any()]
        able.sort(key=lambda index: _work_of(view.jobs[graph.jobs[index].name]))
        for index in able[: self.params.jobs]:
            row, limits = critical(graph.jobs[index]), candidates(graph.jobs[index].least, graph.executors)
            for limit in limits[-1], limits[len(limits) // 2], limits[0]:
                yield Action(index, row, limit)


def _work_of(job: JobState) -> float:
    return math.inf if job.size_ms is None else job.size_ms


class _World:
    """What is known now, ready to be played from any action. Jobs by work, least in front."""

    def __init__(self, policy: Lookahead, graph: Graph, view: ClusterView) -> None:
        self.policy, self.graph, self.view = policy, graph, view
        order = sorted((view.jobs[job.name] for job in graph.jobs), key=lambda job: (_work_of(job), job.seq))
        self.number = {job.id: number for number, job in enumerate(order)}
        self.running: dict[tuple[str, int], list[ContainerState]] = {}
        for container in view.containers.values():
            if container.status <= RUNNING:
                self.running.setdefault((container.job, container.stage), []).append(container)
        self.jobs = [self._job(job) for job in order]
        for container in view.idle():
            self.jobs[self.number[container.job]].idle += 1
        self.source = next((job.name for job in graph.jobs if job.features[1] > 0), "")
        if self.source:  # these are given by the action
            self.jobs[self.number[self.source]].idle -= policy.batch[0]

    def _job(self, job: JobState) -> PlayedJob:
        known = [self.view.task_ms(job.id, stage.index) for stage in job.stages]
        times = [UNKNOWN_MS if ms is None else max(ms, 1.0) for ms in known]
        paths = to_output(job.spec.stages, times.__getitem__)
        stages = [self._stage(job, *each) for each in zip(job.stages, times, paths, strict=True)]
        return PlayedJob(stages, most_of(job.size_ms))

    def _stage(self, job: JobState, stage: StageState, task_ms: float, path: float) -> PlayedStage:
        place, now = (job.id, stage.index), self.view.now
        rests = [
            task_ms if there.status < RUNNING else max(task_ms - (now - there.started), task_ms * REST)
            for there in self.running.get(place, ())
        ]
        goes = [
            (self.number[name], index, count)
            for (name, index), count in self.policy.promises.given.get(place, {}).items()
        ]
        left, soonest, children = (
            stage.waiting + sum(rests) / task_ms,
            max(rests, default=0.0),
            job.children[stage.index],
        )
        return PlayedStage(left, task_ms, stage.parents_left, children, path, len(rests), soonest, goes)

    def total_ms(self, action: Action) -> float:
        """Sum over jobs of when they end from now on, if this is done now."""
        jobs = [job.copied() for job in self.jobs]
        (idle, running), count = self.policy.batch, self.policy.given(self.graph, action)
        chosen = self.graph.jobs[action.job]
        target, stage = self.number[chosen.name], int(chosen.stages[action.row])
        now = min(count, idle)
        for name, index in running[: count - now]:
            giver = jobs[self.number[name]].stages[index]
            giver.goes = [*giver.goes, (target, stage, 1)]
        if self.source:
            jobs[self.number[self.source]].idle += idle - now
        settings = self.policy.params
        free = 0 if self.source else idle - now
        play = Play(jobs, free, self.graph.executors, moving_ms=settings.moving_ms, crowding=settings.crowding)
        for container in self.view.moving():
            waits_for = self.policy.promises.waiting.get(container.job, {}).get(container.id)
            if waits_for is not None:
                play.send(self.number[container.job], waits_for, 1, own=False)
        play.send(target, stage, now, own=chosen.name == self.source)
        return sum(play.ends())
