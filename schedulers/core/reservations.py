"""Reservations: nodes that are kept for what cannot start piecemeal, a large task or a gang.

Where smaller tasks take room as it frees, a large one would wait until they have run out. So the core keeps nodes for a
stage that has waited for `after` without room; others start there only beside it, or when by their estimates they end
before it starts (backfill: Lifka, "The ANL/IBM SP scheduling system", 1995). Who is next is the policy's to say.

Of those that wait for the same the first few have reservations (that paper: the first alone; Maui: RESERVATIONDEPTH).
So where thousands of jobs wait, plans are made for a few. `Waits` says since when each waits, `Openings` where it would
start earliest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from schedulers.core.decisions import Reserve
from schedulers.core.openings import Estimate, Openings, empty, tasks_in
from schedulers.core.reasons import Reason
from schedulers.core.waits import Class, Key, Waits

if TYPE_CHECKING:
    from schedulers.core.journal import Journal
    from schedulers.core.live import ContainerState, Counts, JobState, NodeState, StageState
    from schedulers.core.sizes import Sizes

#: Reasons that follow from reservations.
_OF_RESERVATIONS: Final = (Reason.RESERVED, Reason.HAS_RESERVATION)

#: Reservations at once for tasks of one size, or for gangs of them.
DEPTH: Final = 8


class Reservations:
    """Which nodes are kept for whom. Changed by the state alone.

    after: ms without room until nodes are reserved. one_node: nodes are offered one at a time, so that a gang starts on
    one or not at all.
    """

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
        estimate: Estimate,
        one_node: bool,
    ) -> None:
        self._jobs, self._nodes, self._containers = jobs, nodes, containers
        self._sizes, self._journal, self._counts, self._estimate = sizes, journal, counts, estimate
        self._waits = Waits(after, jobs, journal)
        self._openings = Openings(containers, sizes, estimate, one_node=one_node)
        self.now = 0
        """Time of the last fact, in ms."""
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
        self._waits.look(now)
        if self.held:
            self._end_some(of_nodes=of_nodes)

    def started(self, job: JobState, stage: StageState, now: int) -> None:
        """A task of the stage has started: its wait begins anew, and what was reserved for it is free again."""
        key = (job.id, stage.index)
        self.now = now
        if key in self.held:
            self._end(key)
        else:
            self._waits.served[stage.size] = now
        self._waits.begin_anew(key, now, more=stage.waiting > 0)
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
        self.kept[self._waits.class_of(key)] += 1
        self.by_node.update((name, decision) for name, _ in decision.nodes)

    def _end(self, key: Key) -> None:
        del self.made[key]
        for name, _ in self.held.pop(key).nodes:
            del self.by_node[name]
        self.kept = Counter(self._waits.class_of(each) for each in self.held if each[0] in self._jobs)
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

    def _stands(self, name: str, index: int, *, of_nodes: bool) -> bool:
        """Whether the reservation makes sense by what is known now. of_nodes: something of nodes may be another."""
        job, nodes = self._jobs.get(name), self.held[name, index].nodes
        if job is None or index not in job.open:
            return False
        stage = job.stages[index]
        if self._sizes.at_limit(job, stage) is not None:
            return False
        return not of_nodes or all(
            node in self._nodes and tasks_in(empty(self._nodes[node]), self._nodes[node], stage) >= tasks
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
        if any(self._is_class_due(each) for each in self._waits.by_class):
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
            together = [[node] for node in allowed] if self._openings.one_node else [list(allowed)]
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
        waits, key = self._waits, (job.id, stage.index)
        since = waits.since.get(key)
        if since is None or since + waits.after > self.now or key in self.held or not stage.waiting:
            return False
        if len(self.by_node) == len(self._nodes) or not self._is_class_due(waits.classes[key]):
            return False
        return self._sizes.at_limit(job, stage) is None and not self.has_room(job, stage)

    def is_size_due(self, size: int) -> bool:
        """Whether a stage that waits for this size is due."""
        for each in ((size, False), (size, True)):
            if each in self._waits.by_class and self._is_class_due(each):
                for name, index in self._waits.due_stages(each, self.now):
                    if self.is_due(self._jobs[name], self._jobs[name].stages[index]):
                        return True
        return False

    def _is_class_due(self, each: Class) -> bool:
        """Whether the first that waits for the same has done so for long enough, and few of them are provided for."""
        return self.kept[each] < DEPTH and self._waits.due(each) <= self.now

    def next_due(self) -> int | None:
        """When the next stage has waited for `after`, in ms, or None."""
        waits, now, dues = self._waits, self.now, []
        for each in waits.by_class:
            first = waits.due(each)
            if first > now:
                dues.append(first)
            elif self.kept[each] < DEPTH and (more := waits.due_after(each, now)) is not None:
                dues.append(more)
        return min(dues, default=None)

    # -- which nodes ----------------------------------------------------------------------------

    def _free(self) -> list[NodeState]:
        """The nodes that are kept for nobody."""
        return [node for node in self._nodes.values() if node.spec.id not in self.by_node]

    def holding(self, stage: StageState) -> list[NodeState]:
        """The nodes that could be reserved for a task of the stage."""
        return [node for node in self._free() if tasks_in(empty(node), node, stage)]

    def plan(self, job: JobState, stage: StageState) -> Reserve | None:
        """The nodes on which, by the estimates of what runs there, a task or the whole gang starts earliest.

        None when those that are not reserved yet could not take it even if they were empty.
        """
        return self._openings.earliest(job, stage, self._free(), self.now)

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """What is not derived, as plain data."""
        since, served = self._waits.dump(self.now)
        held = [(self.made[key], reserve) for key, reserve in self.held.items()]
        return {"since": since, "held": held, "served": served}

    def load(
        self,
        now: int,
        since: Iterable[tuple[str, int, int]],
        held: Iterable[tuple[int, Reserve]],
        served: Iterable[tuple[int, int]],
    ) -> None:
        """Take over what `dump` returned."""
        self._waits.load(since, served)
        self.now = now
        for at, reserve in held:
            self._keep(reserve, at)

    def validate(self) -> None:
        """Raises AssertionError with what is wrong."""
        assert self.by_node == {name: r for r in self.held.values() for name, _ in r.nodes}, "reserved nodes"
        assert sum(len(r.nodes) for r in self.held.values()) == len(self.by_node), "a node is reserved twice"
        assert all(self._stands(*key, of_nodes=True) for key in self.held), "a reservation is over"
        assert self.kept == Counter(map(self._waits.class_of, self.held)), "for whom nodes are reserved"
        self._waits.validate()
