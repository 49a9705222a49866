"""Policies that answer one question over and over: to which stage do these executors go, until its job has how many?

Decima's action (SIGCOMM'19, section 5.2) and when it is asked, as in the released simulator (decima-sim:spark_env):
when the first executor of a stage without tasks to start is free, of all executors of that stage at once; each of them
follows when its task ends. Executors may be sent to stages that are not open yet, if all tasks above are started or
promised; they wait there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from schedulers.core.live import IDLE
from schedulers.core.parties import serve_asked
from schedulers.core.policy import ClusterView, Offer, Outcome, Policy, Suggestion, Suggestions
from schedulers.learned.graph import Action, Graph
from schedulers.learned.observation import Observation, Source
from schedulers.learned.promises import Place, Promises

if TYPE_CHECKING:
    from schedulers.core.state import ContainerState, JobState, NodeState, StageState

_Steps: TypeAlias = Generator[Suggestion, Outcome, None]


class Dispatch(Policy):
    """Asks `choose` while there are executors to give and stages to give them to. asked: how often it has asked."""

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.promises = Promises()
        self.observation = Observation(self.promises)
        self.asked = 0

    @abstractmethod
    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """Which valid row of which job, and up to which of `candidates(least, executors)`. Some row is valid."""

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Keep promises, then ask for what is left to give."""
        self._catch_up(view)
        return serve_asked(offer) if offer.job is not None else self._divide(view, offer)

    def _catch_up(self, view: ClusterView) -> None:
        for name in view.changed():
            self.promises.check(name, view.jobs.get(name), view)
            self.observation.note(name)

    def _divide(self, view: ClusterView, offer: Offer) -> _Steps:
        free = yield from self._keep_promises(view)
        while free:
            batch = _alike(free)
            free = [container for container in free if container not in batch]
            yield from self._give(view, batch)
        yield from self._fill(view, offer)

    # -- executors that are there ---------------------------------------------------------------

    def _keep_promises(self, view: ClusterView) -> Generator[Suggestion, Outcome, list[ContainerState]]:
        """Let executors go where they were promised to go; returns those that nothing was promised of."""
        free = []
        for container in view.idle():
            waits_for = self.promises.waiting.get(container.job, {}).get(container.id)
            if waits_for is not None:
                if self._waits_on(view.jobs[container.job], waits_for):
                    continue
                self.promises.leave(container.job, container.id)
                self.observation.note(container.job)
                target: Place | None = (container.job, waits_for)
            else:
                target = self.promises.take((container.job, container.stage))
            if target is None or not (yield from self._send(view, container, target)):
                free.append(container)
        return free

    def _waits_on(self, job: JobState, index: int) -> bool:
        """Whether a stage that an executor waits for will open, by what has started or is promised."""
        promised = self.promises.to(job.id)
        return index not in job.open and all(
            job.stages[parent].waiting <= promised.get(parent, 0) for parent in job.spec.stages[index].above
        )

    def _send(
        self, view: ClusterView, container: ContainerState, target: Place
    ) -> Generator[Suggestion, Outcome, bool]:
        """Let an idle executor serve a stage, now or when it opens; whether it does."""
        job = view.jobs.get(target[0])
        if job is None or container.status != IDLE or not job.stages[target[1]].waiting:
            return False
        giver, ahead = container.job, target[1] not in job.open
        self.observation.note(giver, job.id)
        if ahead and not self._waits_on(job, target[1]):
            return False
        if not ahead or giver != job.id:
            outcome = yield Suggestion(job.id, target[1], executor=container.id, ahead=ahead)
            if not outcome.placed:
                return False
        if ahead:
            self.promises.wait(job.id, container.id, target[1])
        return True

    def _give(self, view: ClusterView, batch: Sequence[ContainerState]) -> _Steps:
        """Ask where idle executors of one job go, and with them those that still run on the same stages."""
        idle, giver = list(batch), view.jobs[batch[0].job]
        running: list[Place] = []
        for index in dict.fromkeys(container.stage for container in batch):
            if index >= 0 and not giver.stages[index].waiting:
                place = (giver.id, index)
                running += [place] * (giver.stages[index].running - self.promises.promised(place))
        while idle:
            found = self._choice(view, Source(giver.id, len(idle) + len(running), {idle[0].size}))
            if found is None:
                return
            target, count = found
            for container in idle[:count]:
                yield from self._send(view, container, target)
            for place in running[: max(0, count - len(idle))]:
                self.promises.promise(place, target, 1)
            running = running[max(0, count - len(idle)) :]
            idle = idle[count:]
            self.observation.note(giver.id, target[0])

    def _choice(self, view: ClusterView, source: Source) -> tuple[Place, int] | None:
        """Ask: to which stage, and how many of these executors. None: there is nothing to choose from."""
        self.observation.refresh(view)
        sizes = self.observation.sizes(view)
        offered = source.sizes & sizes.keys()
        if not offered:
            return None
        graph = self.observation.graph(view, source._replace(sizes=offered), executors_of(view, sizes))
        if not any(job.valid.any() for job in graph.jobs):
            return None
        self.asked += 1
        action = self.choose(graph, view)
        job = graph.jobs[action.job]
        sight = self.observation.sight(job.name)
        stage = sight.rows[action.row]
        return (job.name, stage), min(sight.left[stage], max(1, action.limit - job.least + 1), source.count)

    # -- room for new ones ----------------------------------------------------------------------

    def _fill(self, view: ClusterView, offer: Offer) -> _Steps:
        """Ask what is to be started where there is room."""
        while offer.limit != 0:
            nodes = view.with_room() if offer.nodes is None else offer.nodes
            if not nodes:
                return
            self.observation.refresh(view)
            sizes = self.observation.sizes(view)
            rooms = {size: room for size, stage in sizes.items() if (room := _room(view, offer, nodes, stage))}
            found = self._choice(view, Source("", max(rooms.values()), set(rooms))) if rooms else None
            if found is None:
                return
            (name, index), count = found
            job = view.jobs[name]
            ahead = index not in job.open
            count = min(count, rooms[job.stages[index].size])
            outcome = yield Suggestion(name, index, count=count, ahead=ahead)
            if not outcome.placed:
                return
            if ahead:
                for container in outcome.containers:
                    self.promises.wait(name, container, index)
            else:
                self.promises.check(name, job, view)  # executors that waited in the job go first
            self.observation.note(name)

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> Any:
        """What was promised, and how often it has asked."""
        return {**self.promises.dump(), "asked": self.asked}

    def load(self, data: Any, view: ClusterView) -> None:
        """What it sees follows from the state."""
        self.promises.load(data)
        self.asked = data["asked"]
        self.observation.note(*view.jobs)


def _alike(free: Sequence[ContainerState]) -> list[ContainerState]:
    """Of these executors those of the first one's job and size."""
    return [container for container in free if (container.job, container.size) == (free[0].job, free[0].size)]


def executors_of(view: ClusterView, sizes: Iterable[int]) -> int:
    """How many executors of the smallest of these sizes the cluster holds, used ones included."""
    smallest = min(map(view.demand, sizes), key=sum)
    return max(1, min(c // d for c, d in zip(view.capacity, smallest, strict=True) if d))


def _room(view: ClusterView, offer: Offer, nodes: Sequence[NodeState], stage: StageState) -> int:
    """How many new containers of the stage's size there is room for."""
    if not view.admits(stage):
        return 0
    room = sum([node.room_for(stage) for node in nodes])
    return room if offer.limit is None else min(room, offer.limit)
