"""Openings: places and times of room to come on nodes, by the estimates of running tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from schedulers.core.decisions import Reserve
from schedulers.core.vectors import times_in

if TYPE_CHECKING:
    from schedulers.core.live import ContainerState, JobState, NodeState, StageState
    from schedulers.core.sizes import Sizes

#: A task without an estimate is expected to run as long again as so far, and at least for this time (ms).
UNKNOWN_MS: Final = 60_000

#: Run time (ms) of a task of a stage (job and index) at node speed 1, or None.
Estimate = Callable[[str, int], float | None]
#: What was asked of an `Estimate` while one plan is made.
_Known = dict[tuple[str, int], float | None]


class Opening(NamedTuple):
    """Room for a task."""

    at: int
    """When, in ms."""
    node: int
    """The node's number."""
    guessed: bool
    """Whether `at` depends on the end of a task without an estimate."""


class Openings:
    """Openings of all nodes.

    one_node: nodes are offered singly, so that a gang starts on a single node or not at all.
    """

    __slots__ = ("_containers", "_estimate", "_sizes", "one_node")

    def __init__(
        self, containers: Mapping[int, ContainerState], sizes: Sizes, estimate: Estimate, *, one_node: bool
    ) -> None:
        self._containers, self._sizes, self._estimate, self.one_node = containers, sizes, estimate, one_node

    def earliest(self, job: JobState, stage: StageState, nodes: Iterable[NodeState], now: int) -> Reserve | None:
        """The nodes, among the given ones, with the earliest start of a task of the stage, or of the whole gang.

        None when the given nodes could not take the task or gang even when empty.
        """
        count = stage.waiting if job.is_waiting_gang(stage) else 1
        # Asked once per plan: thousands of containers share a few stages, and an estimate may cost a walk through
        # history.
        known: _Known = {}
        openings = [list(self._on(node, job, stage, count, now, known)) for node in nodes]
        if self.one_node:
            openings = [
                min((there for there in openings if len(there) >= count), key=lambda there: there[-1], default=[])
            ]
        # A total order (time, node, guess), so that equal openings lead to the same plan in every replay.
        first = sorted(chain.from_iterable(openings))[:count]
        if len(first) < count:
            return None
        taken = Counter(opening.node for opening in first)
        kept = tuple((self._sizes.nodes[index].id, tasks) for index, tasks in sorted(taken.items()))
        guessed = any(opening.guessed for opening in first)
        return Reserve(job.id, stage.index, kept, first[-1].at, guessed)

    def _on(
        self, node: NodeState, job: JobState, stage: StageState, count: int, now: int, known: _Known
    ) -> Iterator[Opening]:
        """Openings of a node for up to `count` tasks of a stage, in order of time.

        Running members of a gang end only after its missing member has come, so no room is expected of them.
        """
        if tasks_in(empty(node), node, stage) == 0:
            return
        free, room, guessed = list(node.free), 0, False
        mine = (job.id, stage.index) if job.spec.stages[stage.index].gang else None
        there = (self._containers[number] for number in node.containers)
        ends = sorted((self._end_of(c, node, now, known), c.id) for c in there if (c.job, c.stage) != mine)
        for at, number in [(now, 0), *ends]:
            if number:
                container = self._containers[number]
                # From here on, because every later opening needs this end as well.
                guessed |= known[container.job, container.stage] is None
                for r, amount in enumerate(self._sizes.demands[container.size]):
                    free[r] += amount
            more = min(count, tasks_in(free, node, stage))
            for _ in range(more - room):
                yield Opening(at, node.index, guessed)
            room = max(room, more)

    def _end_of(self, container: ContainerState, node: NodeState, now: int, known: _Known) -> int:
        """Expected end of a container, ms: by its stage's estimate, or as long again as its time so far."""
        key = (container.job, container.stage)
        if key not in known:
            known[key] = self._estimate(*key)
        takes_ms, began = known[key], container.granted if container.started < 0 else container.started
        if takes_ms is None:
            return now + max(UNKNOWN_MS, now - began)
        # Never in the past: an estimate that was too short says only that the end is near.
        return max(now, began + round(takes_ms / node.spec.speed))


def tasks_in(free: Iterable[int], node: NodeState, stage: StageState) -> int:
    """How many tasks of the stage the node could hold with so much free."""
    if node.draining or stage.size in node.barred:
        return 0
    return times_in(stage.demand, free)


def empty(node: NodeState) -> list[int]:
    """Room of a node for containers: its whole room without foreign use."""
    free = list(node.spec.room)
    for vector in node.foreign.values():
        for r, amount in enumerate(vector):
            free[r] -= amount
    return free
