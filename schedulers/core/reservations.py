"""Reservations: nodes that are kept for what cannot start piecemeal, a large task or a gang.

Where smaller tasks take room as it frees, a large one would wait until they have run out. So the core keeps nodes for a
stage that has waited for `after` without room; others start there only beside it, or when by their estimates they end
before it starts (backfill: Lifka, "The ANL/IBM SP scheduling system", 1995). Who is next is the policy's to say.

Tasks of a size of which others have started within `after` find room as it is, and wait for their turn; of those that
do not, the first few have reservations (that paper: the first alone; Maui: RESERVATIONDEPTH). So where thousands of
jobs wait, plans are made for a few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schedulers.core.decisions import Reserve
from schedulers.core.reasons import Reason

if TYPE_CHECKING:
    from schedulers.core.journal import Journal
    from schedulers.core.live import ContainerState, Counts, JobState, NodeState, StageState
    from schedulers.core.sizes import Sizes

#: A task without an estimate is expected to run as long again as it has run, and at least this long (ms).
UNKNOWN_MS: Final = 60_000

#: Reasons that follow from reservations.
_OF_RESERVATIONS: Final = (Reason.RESERVED, Reason.HAS_RESERVATION)

#: Reservations at once for tasks of one size, or for gangs of them.
DEPTH: Final = 8

#: Job and stage.
Key = tuple[str, int]
#: A size, and whether it is that of a gang's tasks: who waits for the same.
Class = tuple[int, bool]


class _Opening(NamedTuple):
    """Room for one task. at: ms; guessed: something has to end before, of which nobody knows how long it takes."""

    at: int
    node: int
    guessed: bool


class Reservations:
    """Since when stages wait, and which nodes are kept for whom. Changed by the state alone.

    after: ms without room until nodes are reserved. estimate: ms that
    a task of a stage takes at node speed 1, or None. one_node: nodes are offered one at a time, so that a gang starts
    on one or not at all.
    """

    __slots__ = (
        "_changes",
        "_classes",
        "_containers",
        "_counts",
        "_estimate",
        "_jobs",
        "_journal",
        "_known",
        "_known_at",
        "_nodes",
        "_one_node",
        "_open",
        "_sizes",
        "_waiting",
        "after",
        "by_node",
        "held",
        "kept",
        "made",
        "now",
        "served",
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
        counts: Counts,
        *,
        estimate: Callable[[str, int], float | None],
        one_node: bool,
    ) -> None:
        self.after, self._jobs, self._nodes, self._containers = after, jobs, nodes, containers
        self._sizes, self._journal = sizes, journal
        self._changes = journal.orders.cursor()
        self._counts, self._estimate, self._one_node = counts, estimate, one_node
        self.now = 0
        """Time of the last fact, in ms."""
        self.since: dict[Key, int] = {}
        """When each open stage opened, or last started a task; the earliest in front."""
        self._open: dict[str, tuple[int, ...]] = {}  # the stages of `since`, by job
        self._classes: dict[Key, Class] = {}  # of the stages of `since`
        self._waiting: dict[Class, dict[Key, None]] = {}  # the stages of `since`, the earliest in front
        self.served: dict[int, int] = {}
        """When a task of each size started last without a reservation, of those sizes of which one has."""
        self.held: dict[Key, Reserve] = {}
        """The reservations, by whom they are for."""
        self.made: dict[Key, int] = {}
        """When each of them was made."""
        self.kept: Counter[Class] = Counter()
        """How many reservations there are for each class; from `held`."""
        self.by_node: dict[str, Reserve] = {}
        """The reservation of each reserved node; from `held`."""
        self._known: dict[int, list[tuple[NodeState, float]]] = {}  # see `_takers`, while the state is of this version
        self._known_at = -1

    # -- what the state tells -------------------------------------------------------------------

    def look(self, now: int, *, of_nodes: bool) -> None:
        """A fact was heard, of nodes or not: which stages wait since then, and which reservations are over by it."""
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
        self._end_some(of_nodes=of_nodes)

    def started(self, job: JobState, stage: StageState, now: int) -> None:
        """A task of the stage has started: its wait begins anew, and what was reserved for it is free again."""
        key = (job.id, stage.index)
        self.now = now
        if key in self.held:
            self._end(key)
        else:
            self.served[stage.size] = now
        self._forget(key)
        if stage.waiting:
            self._wait(key)
        self._end_some(of_nodes=False)  # at once: a limit may be reached by this, and the next beat need not be heard

    def _end_some(self, *, of_nodes: bool) -> None:
        for key in [key for key in self.held if not self._stands(*key, of_nodes=of_nodes)]:
            self._end(key)

    def make(self, decision: Reserve, now: int) -> None:
        """Keep the nodes that were decided on."""
        self._keep(decision, now)
        self._doubt(decision.job)
        self._counts.version += 1

    def _keep(self, decision: Reserve, at: int) -> None:
        key = (decision.job, decision.stage)
        self.held[key], self.made[key] = decision, at
        self.kept[self._class(key)] += 1
        self.by_node.update((name, decision) for name, _ in decision.nodes)

    def _end(self, key: Key) -> None:
        del self.made[key]
        for name, _ in self.held.pop(key).nodes:
            del self.by_node[name]
        self.kept = Counter(self._class(each) for each in self.held if each[0] in self._jobs)
        self._doubt(key[0])

    def _doubt(self, holder: str) -> None:
        """Other nodes are reserved now: for whom, whom that kept waiting, and whoever finds room on some node."""
        self._journal.reasons.note(holder)
        fitting = {size for size in self._sizes.active if self._sizes.fitting(size)}
        for job in self._jobs.values():
            if job.waiting and (
                job.hold in _OF_RESERVATIONS
                or (fitting and any(job.stages[index].size in fitting for index in job.open))
            ):
                self._journal.reasons.note(job.id)

    def _class(self, key: Key) -> Class:
        job = self._jobs[key[0]]
        return job.stages[key[1]].size, job.spec.stages[key[1]].gang

    def _wait(self, key: Key) -> None:
        self.since[key] = self.now
        mine = self._classes[key] = self._class(key)
        self._waiting.setdefault(mine, {})[key] = None

    def _forget(self, key: Key) -> None:
        if self.since.pop(key, None) is not None:
            mine = self._classes.pop(key)
            del self._waiting[mine][key]
            if not self._waiting[mine]:
                del self._waiting[mine]

    def _stands(self, name: str, index: int, *, of_nodes: bool) -> bool:
        """Whether the reservation makes sense by what is known now. of_nodes: something of nodes may be another."""
        job, nodes = self._jobs.get(name), self.held[name, index].nodes
        if job is None or index not in job.open:
            return False
        stage = job.stages[index]
        if self._sizes.at_limit(job, stage) is not None:
            return False
        return not of_nodes or all(
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
        return self._in_time(job, stage, node, self._until(node, there, stage.demand))

    def _in_time(self, job: JobState, stage: StageState, node: NodeState, until: float) -> bool:
        """Whether a task of the stage that starts on the node now is over by then, by its estimate."""
        if until == math.inf:
            return True
        if until <= self.now:
            return False
        takes_ms = self._estimate(job.id, stage.index)
        return takes_ms is not None and self.now + takes_ms / node.spec.speed <= until

    def _until(self, node: NodeState, there: Reserve, demand: Sequence[int]) -> float:
        """By when others' tasks of this demand have to be over on a reserved node; inf: whenever, -inf: none starts."""
        kept = self._jobs[there.job].stages[there.stage].demand
        tasks = dict(there.nodes)[node.spec.id]
        if all(free - wanted >= tasks * k for free, wanted, k in zip(node.free, demand, kept, strict=True)):
            return math.inf
        if there.guessed:  # it may start long before `starts`, and nobody else's task should be in its way then
            return -math.inf
        # When what ran there at first is over, nothing but backfill is in the way: estimates may have been too long.
        made = self.made[there.job, there.stage]
        return there.starts if any(self._containers[number].granted < made for number in node.containers) else -math.inf

    def _takers(self, size: int) -> list[tuple[NodeState, float]]:
        """The nodes that have room for this size and take others' tasks at all, each with the time of `_until`."""
        version = self._counts.version
        if version != self._known_at:
            self._known_at, self._known = version, {}
        takers = self._known.get(size)
        if takers is None:
            takers = self._known[size] = []
            demand = self._sizes.demands[size]
            for node in self._sizes.fitting(size):
                there = self.by_node.get(node.spec.id)
                until = math.inf if there is None else self._until(node, there, demand)
                if until > 0:
                    takers.append((node, until))
        return takers

    def has_takers(self) -> bool:
        """Whether the policy could have a use for the room that there is, or for a reservation."""
        if not self.by_node:
            return any(map(self._sizes.fitting, self._sizes.active))
        for name, index in self.held:
            job = self._jobs[name]
            if self.has_room(job, job.stages[index]):
                return True
        if any(self._is_class_due(each) for each in self._waiting):
            return self._sizes.has_room()
        return any(until > self.now for size in self._sizes.active for _, until in self._takers(size))

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
            if not self.by_node:
                return iter(self._sizes.fitting(stage.size))
            if (job.id, stage.index) not in self.held and not job.waits_whole(stage):
                takers = self._takers(stage.size)
                return (node for node, until in takers if self._in_time(job, stage, node, until))
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
        if since is None or since + self.after > self.now or key in self.held or not stage.waiting:
            return False
        if len(self.by_node) == len(self._nodes) or not self._is_class_due(self._classes[key]):
            return False
        return self._sizes.at_limit(job, stage) is None and not self.has_room(job, stage)

    def is_size_due(self, size: int) -> bool:
        """Whether a stage that waits for this size is due."""
        for each in ((size, False), (size, True)):
            if each in self._waiting and self._is_class_due(each):
                for name, index in self._waiting[each]:
                    if self.since[name, index] + self.after > self.now:
                        break
                    if self.is_due(self._jobs[name], self._jobs[name].stages[index]):
                        return True
        return False

    def _is_class_due(self, each: Class) -> bool:
        """Whether the first that waits for the same has done so for long enough, and few of them are provided for."""
        return self.kept[each] < DEPTH and self._due(each) <= self.now

    def _due(self, each: Class) -> int:
        """When the first that waits for the same is due; a gang is, even if tasks of its size start one by one."""
        size, gang = each
        since = self.since[next(iter(self._waiting[each]))]
        return self.after + (since if gang else max(since, self.served.get(size, since)))

    def next_due(self) -> int | None:
        """When the next stage has waited for `after`, in ms, or None."""
        dues = [due for each in self._waiting if (due := self._next_due(each)) is not None]
        return min(dues, default=None)

    def _next_due(self, each: Class) -> int | None:
        """When the next that waits for the same is due, in ms, or None."""
        first, due = self._due(each), None
        if first > self.now:
            return first
        for key in reversed(self._waiting[each]) if self.kept[each] < DEPTH else ():
            if self.since[key] + self.after <= self.now:
                break
            due = self.since[key] + self.after
        return due

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
        known: dict[Key, float | None] = {}
        free = [node for node in self._nodes.values() if node.spec.id not in self.by_node]
        openings = [list(self._openings(job, stage, node, count, known)) for node in free]
        if self._one_node:
            openings = [
                min((there for there in openings if len(there) >= count), key=lambda there: there[-1], default=[])
            ]
        first = sorted(chain.from_iterable(openings))[:count]
        if len(first) < count:
            return None
        nodes = Counter(opening.node for opening in first)
        kept = tuple((self._sizes.nodes[index].id, tasks) for index, tasks in sorted(nodes.items()))
        guessed = any(opening.guessed for opening in first)
        return Reserve(job.id, stage.index, kept, first[-1].at, guessed)

    def _openings(
        self, job: JobState, stage: StageState, node: NodeState, count: int, known: dict[Key, float | None]
    ) -> Iterator[_Opening]:
        """For up to `count` tasks when the node has room for one more.

        What runs of a gang is not over before its missing member has come, so no room is expected of that.
        """
        if _times(stage, node, _empty(node)) == 0:
            return
        free, room, guessed = list(node.free), 0, False
        mine = (job.id, stage.index) if job.spec.stages[stage.index].gang else None
        there = (self._containers[number] for number in node.containers)
        ends = sorted((self._end_of(c, node, known), c.id) for c in there if (c.job, c.stage) != mine)
        for at, number in [(self.now, 0), *ends]:
            if number:
                container = self._containers[number]
                guessed |= known[container.job, container.stage] is None
                for r, amount in enumerate(self._sizes.demands[container.size]):
                    free[r] += amount
            more = min(count, _times(stage, node, free))
            for _ in range(more - room):
                yield _Opening(at, node.index, guessed)
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
            "served": [(size, at) for size, at in self.served.items() if at + self.after > self.now],
        }

    def load(
        self,
        now: int,
        since: Iterable[tuple[str, int, int]],
        held: Iterable[tuple[int, Reserve]],
        served: Iterable[tuple[int, int]],
    ) -> None:
        """Take over what `dump` returned."""
        self.served.update(served)
        for name, index, at in since:
            self.now = at
            self._wait((name, index))
        self.now = now
        for name, index in self.since:
            self._open[name] = (*self._open.get(name, ()), index)
        for at, reserve in held:
            self._keep(reserve, at)

    def validate(self) -> None:
        """Raises AssertionError with what is wrong."""
        assert self.by_node == {name: r for r in self.held.values() for name, _ in r.nodes}, "reserved nodes"
        assert sum(len(r.nodes) for r in self.held.values()) == len(self.by_node), "a node is reserved twice"
        assert all(self._stands(*key, of_nodes=True) for key in self.held), "a reservation is over"
        assert self.kept == Counter(map(self._class, self.held)), "for whom nodes are reserved"
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
