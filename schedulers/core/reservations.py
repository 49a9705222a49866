"""Reservations: nodes that are kept for what cannot start piecemeal, a large task or a gang.

Where smaller tasks take room as it frees, a large one would wait until they have run out. So the core keeps nodes for a
stage that has waited for `after` without room; others start there only beside it, or when by their estimates they end
before it starts (backfill: Lifka, "The ANL/IBM SP scheduling system", 1995). Who is next is the policy's to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from schedulers.core.decisions import Reserve

if TYPE_CHECKING:
    from schedulers.core.journal import Journal
    from schedulers.core.live import ContainerState, JobState, NodeState, StageState
    from schedulers.core.sizes import Sizes

#: A task without an estimate is expected to run as long again as it has run, and at least this long (ms).
UNKNOWN_MS: Final = 60_000

#: Job and stage.
Key = tuple[str, int]


class Reservations:
    """Since when stages wait, and which nodes are kept for whom. Changed by the state alone.

    after: ms without room until nodes are reserved. estimate: ms that a task of a stage takes at node speed 1, or None.
    one_node: nodes are offered one at a time, so that a gang starts on one or not at all.
    """

    __slots__ = (
        "_changes",
        "_containers",
        "_estimate",
        "_jobs",
        "_journal",
        "_nodes",
        "_one_node",
        "_open",
        "_sizes",
        "_young",
        "after",
        "by_node",
        "held",
        "made",
        "now",
        "since",
    )

    def __init__(
        self,
        after: int,
        jobs: Mapping[str, JobState],
        nodes: Mapping[str, NodeState],
        containers: Mapping[int, ContainerState],
        sizes: Sizes,
        journal: Journal,
        *,
        estimate: Callable[[str, int], float | None],
        one_node: bool,
    ) -> None:
        self.after, self._jobs, self._nodes, self._containers = after, jobs, nodes, containers
        self._sizes, self._journal = sizes, journal
        self._changes = journal.orders.cursor()
        self._estimate, self._one_node = estimate, one_node
        self.now = 0
        """Time of the last fact, in ms."""
        self.since: dict[Key, int] = {}
        """When each open stage opened, or last started a task; the earliest in front."""
        self._open: dict[str, tuple[int, ...]] = {}  # the stages of `since`, by job
        self._young: dict[Key, None] = {}  # those of `since` that were not due when that was asked last
        self.held: dict[Key, Reserve] = {}
        """The reservations, by whom they are for."""
        self.made: dict[Key, int] = {}
        """When each of them was made."""
        self.by_node: dict[str, Reserve] = {}
        """The reservation of each reserved node; from `held`."""

    # -- what the state tells -------------------------------------------------------------------

    def look(self, now: int) -> None:
        """A fact was heard: which stages wait since then, and which reservations are over by it."""
        self.now = now
        for name in self._changes.read():
            job = self._jobs.get(name)
            there = tuple(job.open) if job is not None else ()
            for index in self._open.pop(name, ()):
                if index not in there:
                    self._forget((name, index))
            for index in there:
                if (name, index) not in self.since:
                    self._wait((name, index))
            if there:
                self._open[name] = there
        self._end_some()

    def started(self, job: JobState, stage: StageState, now: int) -> None:
        """A task of the stage has started: its wait begins anew, and what was reserved for it is free again."""
        key = (job.id, stage.index)
        self.now = now
        if key in self.held:
            self._end(key)
        self._forget(key)
        if stage.waiting:
            self._wait(key)
        self._end_some()  # at once: a limit may be reached by this, and the next beat need not be heard

    def _end_some(self) -> None:
        for key in [key for key in self.held if not self._stands(*key)]:
            self._end(key)

    def make(self, decision: Reserve) -> None:
        """Keep the nodes that were decided on."""
        self._keep(decision, self.now)
        self._doubt()

    def _keep(self, decision: Reserve, at: int) -> None:
        key = (decision.job, decision.stage)
        self.held[key], self.made[key] = decision, at
        self.by_node.update((name, decision) for name, _ in decision.nodes)

    def _end(self, key: Key) -> None:
        del self.made[key]
        for name, _ in self.held.pop(key).nodes:
            del self.by_node[name]
        self._doubt()

    def _doubt(self) -> None:
        for job in self._jobs.values():
            if job.waiting:
                self._journal.reasons.note(job.id)

    def _wait(self, key: Key) -> None:
        self.since[key] = self.now
        self._young[key] = None

    def _forget(self, key: Key) -> None:
        self.since.pop(key, None)
        self._young.pop(key, None)

    def _stands(self, name: str, index: int) -> bool:
        """Whether the reservation makes sense by what is known now."""
        job, nodes = self._jobs.get(name), self.held[name, index].nodes
        if job is None or index not in job.open:
            return False
        stage = job.stages[index]
        if self._sizes.at_limit(job, stage) is not None:
            return False
        return all(
            node in self._nodes and _times(stage, self._nodes[node], _empty(self._nodes[node])) >= tasks
            for node, tasks in nodes
        )

    # -- who may start where --------------------------------------------------------------------

    def takes(self, node: NodeState, job: JobState, stage: StageState) -> bool:
        """Whether a node with room takes a task of the stage: not reserved for others, or it backfills there."""
        there = self.by_node.get(node.spec.id)
        if there is None or (there.job == job.id and there.stage == stage.index):
            return True
        if job.waits_whole(stage):
            return False
        kept = self._jobs[there.job].stages[there.stage].demand
        tasks = dict(there.nodes)[node.spec.id]
        if all(free - wanted >= tasks * k for free, wanted, k in zip(node.free, stage.demand, kept, strict=True)):
            return True
        # When what ran there at first is over, nothing but backfill is in the way: estimates may have been too long.
        made = self.made[there.job, there.stage]
        if not any(self._containers[number].granted < made for number in node.containers):
            return False
        takes_ms = self._estimate(job.id, stage.index)
        return takes_ms is not None and self.now + takes_ms / node.spec.speed <= there.starts

    def shows(self, job: JobState, stage: StageState, nodes: Iterable[NodeState] | None, *, asked: bool) -> bool:
        """Whether a task of the stage could start on these nodes, or on any, or nodes are due to it.

        asked: an outside scheduler asks for this very stage, which says nothing of who is next.
        """
        return next(self.allowed(job, stage, nodes), None) is not None or (not asked and self.is_due(job, stage))

    def keeps_out(self, job: JobState, stage: StageState) -> bool:
        """Whether all nodes with room for a task of the stage are reserved for others; it may backfill all the same."""
        mine = (job.id, stage.index)
        for node in self._sizes.fitting(stage.size):
            there = self.by_node.get(node.spec.id)
            if there is None or (there.job, there.stage) == mine:
                return False
        return True

    def has_room(self, job: JobState, stage: StageState, nodes: Iterable[NodeState] | None = None) -> bool:
        """Whether a task of the stage, or the whole gang, could start now on these nodes or on any."""
        allowed = self.allowed(job, stage, nodes)
        if job.waits_whole(stage):
            together = [[node] for node in allowed] if self._one_node else [list(allowed)]
            return any(self._sizes.has_room_for_all(stage, nodes) for nodes in together)
        return next(allowed, None) is not None

    def allowed(
        self, job: JobState, stage: StageState, nodes: Iterable[NodeState] | None = None
    ) -> Iterator[NodeState]:
        """Of these nodes, or of all, those that take a task of the stage now."""
        if nodes is None:
            nodes = self._sizes.fitting(stage.size)
        elif self._sizes.admits(stage.size):
            nodes = (node for node in nodes if node.fits(stage))
        else:
            nodes = ()
        return (node for node in nodes if self.takes(node, job, stage))

    # -- who is due -----------------------------------------------------------------------------

    def is_due(self, job: JobState, stage: StageState) -> bool:
        """Whether the stage has waited so long without room that nodes are to be reserved when the policy names it."""
        key = (job.id, stage.index)
        since = self.since.get(key)
        if since is None or since + self.after > self.now or key in self.held:
            return False
        if not stage.waiting or len(self.by_node) == len(self._nodes):
            return False
        return self._sizes.at_limit(job, stage) is None and not self.has_room(job, stage)

    def is_size_due(self, size: int) -> bool:
        """Whether a stage that waits for this size is due."""
        for (name, index), since in self.since.items():
            if since + self.after > self.now:
                return False
            job = self._jobs.get(name)
            if job is not None and job.stages[index].size == size and self.is_due(job, job.stages[index]):
                return True
        return False

    def next_due(self) -> int | None:
        """When the next stage has waited for `after`, in ms, or None."""
        while self._young:
            key = next(iter(self._young))
            due = self.since[key] + self.after
            if due > self.now:
                return due
            del self._young[key]
        return None

    def holding(self, stage: StageState) -> list[NodeState]:
        """The nodes that could be reserved for a task of the stage."""
        nodes = (node for node in self._nodes.values() if node.spec.id not in self.by_node)
        return [node for node in nodes if _times(stage, node, _empty(node))]

    # -- which nodes ----------------------------------------------------------------------------

    def plan(self, job: JobState, stage: StageState) -> Reserve | None:
        """The nodes on which, by the estimates of what runs there, a task or the whole gang starts earliest.

        None when those that are not reserved yet could not take it even if they were empty.
        """
        count = stage.waiting if job.waits_whole(stage) else 1
        ends: dict[Key, float | None] = {}
        free = [node for node in self._nodes.values() if node.spec.id not in self.by_node]
        openings = [list(self._openings(stage, node, count, ends)) for node in free]
        if self._one_node:
            openings = [
                min((there for there in openings if len(there) >= count), key=lambda there: there[-1], default=[])
            ]
        times = sorted(chain.from_iterable(openings))[:count]
        if len(times) < count:
            return None
        nodes = Counter(index for _, index in times)
        kept = tuple((self._sizes.nodes[index].id, tasks) for index, tasks in sorted(nodes.items()))
        return Reserve(job.id, stage.index, kept, times[-1][0])

    def _openings(
        self, stage: StageState, node: NodeState, count: int, known: dict[Key, float | None]
    ) -> Iterator[tuple[int, int]]:
        """For up to `count` tasks the times at which the node has room for one more, each with the node's index."""
        if _times(stage, node, _empty(node)) == 0:
            return
        free, room = list(node.free), 0
        ends = sorted((self._end_of(self._containers[number], node, known), number) for number in node.containers)
        for at, number in [(self.now, 0), *ends]:
            if number:
                for r, amount in enumerate(self._sizes.demands[self._containers[number].size]):
                    free[r] += amount
            more = min(count, _times(stage, node, free))
            for _ in range(more - room):
                yield at, node.index
            room = max(room, more)

    def _end_of(self, container: ContainerState, node: NodeState, known: dict[Key, float | None]) -> int:
        """When a container should end: by its stage's estimate, or as long again as it has run."""
        key = (container.job, container.stage)
        if key not in known:
            known[key] = self._estimate(*key)
        takes_ms, began = known[key], container.granted if container.started < 0 else container.started
        if takes_ms is None:
            return self.now + max(UNKNOWN_MS, self.now - began)
        return max(self.now, began + round(takes_ms / node.spec.speed))

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What is not derived, as plain data."""
        return {
            "since": [(*key, at) for key, at in self.since.items()],
            "held": [(self.made[key], reserve) for key, reserve in self.held.items()],
        }

    def load(self, now: int, since: Iterable[tuple[str, int, int]], held: Iterable[tuple[int, Reserve]]) -> None:
        """Take over what `dump` returned."""
        self.now = now
        self.since.update(((job, stage), at) for job, stage, at in since)
        self._young.update(dict.fromkeys(self.since))
        for name, index in self.since:
            self._open[name] = (*self._open.get(name, ()), index)
        for at, reserve in held:
            self._keep(reserve, at)

    def validate(self) -> None:
        """Raises AssertionError with what is wrong."""
        assert self.by_node == {name: r for r in self.held.values() for name, _ in r.nodes}, "reserved nodes"
        assert sum(len(r.nodes) for r in self.held.values()) == len(self.by_node), "a node is reserved twice"
        assert all(self._stands(*key) for key in self.held), "a reservation is over"
        assert list(self.since.values()) == sorted(self.since.values()), "the order of those that wait"
        for name, index in self.since:
            assert name in self._jobs, f"{name} waits and is gone"
            assert index in self._jobs[name].open, f"{name}/{index} waits and is not open"


def _times(stage: StageState, node: NodeState, free: Iterable[int]) -> int:
    """How many tasks of the stage the node could hold with so much free."""
    if node.draining or stage.size in node.barred:
        return 0
    return max(0, min((there // wanted for wanted, there in zip(stage.demand, free, strict=True) if wanted), default=1))


def _empty(node: NodeState) -> list[int]:
    """What a node has for containers: its room without what others hold."""
    free = list(node.spec.room)
    for vector in node.foreign.values():
        for r, amount in enumerate(vector):
            free[r] -= amount
    return free
