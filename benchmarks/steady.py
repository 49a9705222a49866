"""A cluster under steady load, for as long as anybody measures: nearly full, a container ends, its node beats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import numpy as np

from schedulers.core import keyed
from schedulers.core.compatible import needs_estimates
from schedulers.core.decisions import Decision, Place
from schedulers.core.events import ContainerEnded, ContainerStarted, Heartbeat, JobSubmitted, NodeAdded, QueueChanged
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Limit, Node, Queue, Stage
from schedulers.core.scheduler import Scheduler

_TASKS: Final = 100
_NODE: Final = (4000, 16384)
#: Tasks of unlike sizes, so that what one leaves may be too little for another.
_DEMANDS: Final = ((1000, 1024), (1000, 2048), (1000, 4096), (2000, 6144))
_USERS: Final = 7
#: Node beats until a cluster counts as full: some policies give one container a beat, and some none at first.
_ROUNDS: Final = 20
#: Beats after a pause that are not counted: they pay for what others left in the processor's caches.
_WARM: Final = 20


class Size(msgspec.Struct, frozen=True):
    """How large: nodes, jobs, and a tree of queues of two levels (0, 0: no queues)."""

    nodes: int
    jobs: int
    inner: int
    leaves: int


LARGE: Final = Size(1000, 1000, 10, 20)
TINY: Final = Size(20, 20, 2, 2)


class Steady:
    """One scheduler whose cluster stays full: who is done is replaced.

    busy, idle: what heartbeats took, µs of CPU time: of nodes on which a container has just ended, and of those on
    which nothing has happened, and nothing was placed.
    """

    def __init__(self, policy: str, size: Size, *, most: tuple[Limit, Limit] = (None, None)) -> None:
        """most: what a queue right below the root may hold, and what a leaf may."""
        self.busy: list[float] = []
        self.idle: list[float] = []
        self._size, self._now, self._made = size, 0, 0
        self._draw = keyed.generator(1, "bench", "steady")
        self._nodes = [f"n{i:04d}" for i in range(size.nodes)]
        self._running: dict[str, dict[int, str]] = {name: {} for name in self._nodes}  # container -> job, by node
        self._work: dict[str, int] = {}
        self._scheduler = Scheduler(_config(policy))
        for node in self._nodes:
            self._scheduler.handle(NodeAdded(0, Node(id=node, capacity=_NODE)))
        for queue in _queues(size, most):
            self._scheduler.handle(QueueChanged(0, queue))
        for _ in range(size.jobs):
            self._submit()
        self._fill()

    def run(self, beats: int) -> None:
        """So many beats of either kind more, those that only warm up not counted."""
        for count, (victim, other) in enumerate(self._pairs(beats + _WARM)):
            self._now += 1
            self._end_one(victim)
            self._now += 1
            busy, _ = self._beat(victim)
            idle, placed = self._beat(other)
            if count >= _WARM:
                self.busy.append(busy)
                if not placed:
                    self.idle.append(idle)

    def _pairs(self, count: int) -> Iterator[tuple[str, str]]:
        picks = self._draw.integers(0, len(self._nodes), (count, 2)).tolist()
        return ((self._nodes[victim], self._nodes[other]) for victim, other in picks)

    def _fill(self) -> None:
        """Until a whole round of beats has nothing more to give, twice: some look again only after a while."""
        barren = 0
        for _ in range(_ROUNDS):
            self._now += 1000
            placed = [self._beat(node)[1] for node in self._nodes]
            barren = 0 if any(placed) else barren + 1
            if barren == 2:
                return

    def _beat(self, node: str) -> tuple[float, int]:
        """CPU time of one heartbeat in µs, and how many containers it placed; these start at once."""
        event = Heartbeat(self._now, node)
        begun = time.thread_time_ns()
        decisions = self._scheduler.handle(event)
        taken = (time.thread_time_ns() - begun) / 1000
        return taken, self._start(decisions)

    def _start(self, decisions: list[Decision]) -> int:
        places = [decision for decision in decisions if isinstance(decision, Place)]
        for place in places:
            self._running[place.node][place.container] = place.job
            self._scheduler.handle(ContainerStarted(self._now, place.container))
        return len(places)

    def _end_one(self, node: str) -> None:
        """The oldest container of the node ends; a job of which that was the last is followed by another."""
        running = self._running[node]
        if not running:
            return
        container = next(iter(running))
        job = running.pop(container)
        self._scheduler.handle(ContainerEnded(self._now, container, 0, self._work[job]))
        if job not in self._scheduler.state.jobs:
            del self._work[job]
            self._submit()

    def _submit(self) -> None:
        number, size = self._made, self._size
        self._made += 1
        leaf = number % max(1, size.inner * size.leaves)
        stage = Stage(name="run", tasks=_TASKS, demand=_DEMANDS[number // 3 % len(_DEMANDS)])
        job = Job(
            id=f"j{number:06d}",
            stages=(stage,),
            user=f"user-{number % _USERS}",
            queue=_leaf(leaf // size.leaves, leaf % size.leaves) if size.leaves else "default",
        )
        self._work[job.id] = max(1, round(float(self._draw.lognormal(np.log(60_000), 1.5))))
        self._scheduler.handle(JobSubmitted(self._now, job))


def in_turns(clusters: dict[str, Callable[[], Steady]], beats: int, turns: int) -> dict[str, Steady]:
    """So many beats of each cluster, in turns: a machine that is shared slows all of them down alike."""
    made = {name: make() for name, make in clusters.items()}
    for _ in range(turns):
        for steady in made.values():
            steady.run(beats // turns)
    return made


def quantile(taken: list[float], part: float) -> float:
    """A quantile of times; 0 where nothing was timed."""
    return float(np.quantile(np.array(taken), part)) if taken else 0.0


def _config(policy: str) -> SchedulerConfig:
    needs = needs_estimates({"kind": policy})
    settings: dict[str, Any] = {"kind": policy}
    return SchedulerConfig(
        resources=("cpu", "memory"), policy=settings, predictor={"kind": "slearn"} if needs else None
    )


def _queues(size: Size, most: tuple[Limit, Limit]) -> Iterator[Queue]:
    for i in range(size.inner):
        yield Queue(name=_inner(i), weight=1.0 + i % 3, max=most[0])
        for k in range(size.leaves):
            yield Queue(name=_leaf(i, k), parent=_inner(i), weight=1.0 + k % 2, max=most[1])


def _inner(number: int) -> str:
    return f"q{number:02d}"


def _leaf(inner: int, number: int) -> str:
    return f"{_inner(inner)}-{number:02d}"
