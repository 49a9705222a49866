"""Reservations: nodes kept for work that cannot start piecemeal, a large task or a gang.

Where smaller tasks take room as it frees, a large task would wait until they have run out. So the core keeps nodes for
a stage after `after` ms of waiting without room; different tasks start there only beside the stage, or when they end,
by their estimates, before its start (backfill: Lifka, "The ANL/IBM SP scheduling system", 1995). The policy alone
decides on the order.

Of the stages waiting for the same room only the first few have reservations (in Lifka's paper the first alone; in Maui:
RESERVATIONDEPTH). So with thousands of waiting jobs only a few plans are made. `Waits` holds the beginning of each
wait, `Openings` the earliest start.
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
    """Nodes kept for stages. Changed by the state alone.

    after: ms without room until nodes are reserved. one_node: nodes are offered singly, so that a gang starts on a
    single node or not at all.
    """

    __slots__ = (
        "_containers",
        "_counts",
        "_estimate",
        "_jobs",
        "_journal",
        "_nodes",
        "_open_nodes_by_size",
        "_open_nodes_version",
        "_openings",
        "_sizes",
        "_waits",
        "by_node",
        "by_stage",
        "class_counts",
        "made_at",
        "now",
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
        estimate: Estimate,
        one_node: bool,
    ) -> None:
        self._jobs, self._nodes, self._containers = jobs, nodes, containers
        self._sizes, self._journal, self._counts, self._estimate = sizes, journal, counts, estimate
        self._waits = Waits(after, jobs, journal)
        self._openings = Openings(containers, sizes, estimate, one_node=one_node)
        self.now = 0
        """Time of the last fact, in ms."""
        self.by_stage: dict[Key, Reserve] = {}
        """The reservations, by job and stage."""
        self.made_at: dict[Key, int] = {}
        """When each of them was made."""
        self.class_counts: Counter[Class] = Counter()
        """How many reservations there are for each class; from `by_stage`."""
        self.by_node: dict[str, Reserve] = {}
        """The reservation of each reserved node; from `by_stage`."""
        self._open_nodes_by_size: dict[
            int, list[tuple[NodeState, float]]
        ] = {}  # see `_takers`, while the state is of this version
        self._open_nodes_version = -1

    # -- told by the state ----------------------------------------------------------------------

    def update(self, now: int, *, of_nodes: bool) -> None:
        """Take in a fact: some stages wait from now on, and some reservations are over."""
        self.now = now
        self._waits.update(now)
        if self.by_stage:
            self._end_invalid(of_nodes=of_nodes)

    def task_started(self, job: JobState, stage: StageState, now: int) -> None:
        """Take in the start of a task of the stage: its wait begins anew, and its reservation is over."""
        key = (job.id, stage.index)
        self.now = now
        if key in self.by_stage:
            self._end(key)
        else:
            self._waits.last_start[stage.size] = now
        self._waits.begin_anew(key, now, more=stage.waiting > 0)
        self._end_invalid(
            of_nodes=False
        )  # at once: a limit may be reached by this, and the next beat need not be heard

    def end_all(self, job: str) -> None:
        """End the reservations of a job, whose tasks are of other sizes now."""
        for key in [key for key in self.by_stage if key[0] == job]:
            self._end(key)

    def _end_invalid(self, *, of_nodes: bool) -> None:
        for key in [key for key in self.by_stage if not self._is_valid(*key, of_nodes=of_nodes)]:
            self._end(key)

    def reserve(self, decision: Reserve, now: int) -> None:
        """Keep the nodes of a decision."""
        self._enter(decision, now)
        self._recheck_reasons(decision.job)
        self._counts.version += 1

    def _enter(self, decision: Reserve, at: int) -> None:
        key = (decision.job, decision.stage)
        self.by_stage[key], self.made_at[key] = decision, at
        self.class_counts[self._waits.class_of(key)] += 1
        self.by_node.update((name, decision) for name, _ in decision.nodes)

    def _end(self, key: Key) -> None:
        del self.made_at[key]
        for name, _ in self.by_stage.pop(key).nodes:
            del self.by_node[name]
        # Counted anew: the class of a job that is gone cannot be looked up, and reservations are few.
        self.class_counts = Counter(self._waits.class_of(each) for each in self.by_stage if each[0] in self._jobs)
        self._recheck_reasons(key[0])

    def _recheck_reasons(self, holder: str) -> None:
        """Doubt the reasons of the holder, of jobs kept waiting by reservations, and of jobs finding room."""
        self._journal.reasons.note(holder)
        # By size first, so that each job costs a look into a set and no walk over nodes.
        fitting = {size for size in self._sizes.active if self._sizes.fitting(size)}
        for job in self._jobs.values():
            if job.waiting and (
                job.hold in _OF_RESERVATIONS
                or (fitting and any(job.stages[index].size in fitting for index in job.open))
            ):
                self._journal.reasons.note(job.id)

    def _is_valid(self, name: str, index: int, *, of_nodes: bool) -> bool:
        """Whether a reservation makes sense in the present state. of_nodes: nodes may have changed."""
        job, nodes = self._jobs.get(name), self.by_stage[name, index].nodes
        if job is None or index not in job.open:
            return False
        stage = job.stages[index]
        if self._sizes.blocking_account(job, stage) is not None:
            return False
        return not of_nodes or all(
            node in self._nodes and tasks_in(empty(self._nodes[node]), self._nodes[node], stage) >= tasks
            for node, tasks in nodes
        )

    # -- places to start ------------------------------------------------------------------------

    def takes(self, node: NodeState, job: JobState, stage: StageState) -> bool:
        """Whether a node with room takes a task of the stage: not reserved for other stages, or by backfill."""
        there = self.by_node.get(node.spec.id)
        if there is None or (there.job == job.id and there.stage == stage.index):
            return True
        if job.is_waiting_gang(stage):
            return False
        return self._ends_by(job, stage, node, self._latest_end(node, there, stage.demand))

    def _ends_by(self, job: JobState, stage: StageState, node: NodeState, until: float) -> bool:
        """Whether a task of the stage, started on the node now, ends in time, by its estimate."""
        if until == math.inf:
            return True
        if until <= self.now:
            return False
        takes_ms = self._estimate(job.id, stage.index)
        return takes_ms is not None and self.now + takes_ms / node.spec.speed <= until

    def _latest_end(self, node: NodeState, there: Reserve, demand: Sequence[int]) -> float:
        """Latest end on a reserved node for different tasks of the demand; inf: any, -inf: none may start."""
        kept = self._jobs[there.job].stages[there.stage].demand
        tasks = dict(there.nodes)[node.spec.id]
        if all(free - wanted >= tasks * k for free, wanted, k in zip(node.free, demand, kept, strict=True)):
            return math.inf
        if there.guessed:  # the stage may start long before `starts`, and its room must be free then
            return -math.inf
        # Once the containers older than the reservation are over, only backfill is in the way: estimates were too long.
        made = self.made_at[there.job, there.stage]
        return there.starts if any(self._containers[number].granted < made for number in node.containers) else -math.inf

    def _open_nodes(self, size: int) -> list[tuple[NodeState, float]]:
        """Nodes with room for the size and open to different tasks at all, each with the time of `_until`."""
        # Kept while the state is of the same version: a round asks for each waiting job, and most share a size.
        version = self._counts.version
        if version != self._open_nodes_version:
            self._open_nodes_version, self._open_nodes_by_size = version, {}
        takers = self._open_nodes_by_size.get(size)
        if takers is None:
            takers = self._open_nodes_by_size[size] = []
            demand = self._sizes.demands[size]
            for node in self._sizes.fitting(size):
                there = self.by_node.get(node.spec.id)
                until = math.inf if there is None else self._latest_end(node, there, demand)
                # -inf: the node takes nobody, so backfill need not look at the node again.
                if until > 0:
                    takers.append((node, until))
        return takers

    def is_offer_useful(self) -> bool:
        """Whether the policy could have a use for the present room, or for a reservation."""
        if not self.by_node:
            return any(map(self._sizes.fitting, self._sizes.active))
        for name, index in self.by_stage:
            job = self._jobs[name]
            if self.has_room(job, job.stages[index]):
                return True
        # A due stage may be given nodes with room for others, so any room is reason enough for a round.
        if any(self._is_class_due(each) for each in self._waits.by_class):
            return self._sizes.has_room()
        return any(until > self.now for size in self._sizes.active for _, until in self._open_nodes(size))

    def is_offer_useful_to(
        self, job: JobState, stage: StageState, nodes: Iterable[NodeState] | None, *, asked: bool
    ) -> bool:
        """Whether a task of the stage could start on the given nodes, or on any, or nodes are due to the stage.

        asked: an outside scheduler asks for the stage, whatever its turn.
        """
        return next(self.allowed(job, stage, nodes), None) is not None or (not asked and self.is_due(job, stage))

    def keeps_out(self, job: JobState, stage: StageState) -> bool:
        """Whether all nodes with room for a task of the stage are reserved for other stages, backfill apart."""
        mine = (job.id, stage.index)
        for node in self._sizes.fitting(stage.size):
            there = self.by_node.get(node.spec.id)
            if there is None or (there.job, there.stage) == mine:
                return False
        return True

    def has_room(self, job: JobState, stage: StageState, nodes: Iterable[NodeState] | None = None) -> bool:
        """Whether a task of the stage, or the whole gang, could start now on the given nodes or on any."""
        allowed = self.allowed(job, stage, nodes)
        if job.is_waiting_gang(stage):
            together = [[node] for node in allowed] if self._openings.one_node else [list(allowed)]
            return any(self._sizes.has_room_for_all(stage, nodes) for nodes in together)
        return next(allowed, None) is not None

    def allowed(
        self, job: JobState, stage: StageState, nodes: Iterable[NodeState] | None = None
    ) -> Iterator[NodeState]:
        """Nodes, of the given nodes or of all, that take a task of the stage now."""
        if nodes is None:
            if not self.by_node:
                return iter(self._sizes.fitting(stage.size))
            if (job.id, stage.index) not in self.by_stage and not job.is_waiting_gang(stage):
                # The common case in a long queue: the list of the size serves all jobs of the size.
                takers = self._open_nodes(stage.size)
                return (node for node, until in takers if self._ends_by(job, stage, node, until))
            nodes = self._sizes.fitting(stage.size)
        elif self._sizes.admits(stage.size):
            nodes = (node for node in nodes if node.fits(stage))
        else:
            nodes = ()
        return (node for node in nodes if self.takes(node, job, stage))

    # -- due stages ----------------------------------------------------------------------------

    def is_due(self, job: JobState, stage: StageState) -> bool:
        """Whether the stage has waited so long without room that its suggestion is to reserve nodes."""
        waits, key = self._waits, (job.id, stage.index)
        since = waits.since.get(key)
        if since is None or since + waits.after > self.now or key in self.by_stage or not stage.waiting:
            return False
        # The cheap questions first: the last one looks for room on every node.
        if len(self.by_node) == len(self._nodes) or not self._is_class_due(waits.class_by_stage[key]):
            return False
        return self._sizes.blocking_account(job, stage) is None and not self.has_room(job, stage)

    def is_size_due(self, size: int) -> bool:
        """Whether a stage waiting for the size is due."""
        for each in ((size, False), (size, True)):
            if each in self._waits.by_class and self._is_class_due(each):
                for name, index in self._waits.due_stages(each, self.now):
                    if self.is_due(self._jobs[name], self._jobs[name].stages[index]):
                        return True
        return False

    def _is_class_due(self, each: Class) -> bool:
        """Whether the first stage of a class has waited long enough, and few of the class have reservations."""
        return self.class_counts[each] < DEPTH and self._waits.due_at(each) <= self.now

    def next_due(self) -> int | None:
        """When the next stage has waited for `after`, in ms, or None."""
        waits, now, dues = self._waits, self.now, []
        for each in waits.by_class:
            first = waits.due_at(each)
            if first > now:
                dues.append(first)
            elif self.class_counts[each] < DEPTH and (more := waits.next_due_at(each, now)) is not None:
                dues.append(more)
        return min(dues, default=None)

    # -- nodes ------------------------------------------------------------------------------------

    def _unreserved_nodes(self) -> list[NodeState]:
        """Nodes without a reservation."""
        return [node for node in self._nodes.values() if node.spec.id not in self.by_node]

    def reservable_nodes(self, stage: StageState) -> list[NodeState]:
        """Nodes that could be reserved for a task of the stage."""
        return [node for node in self._unreserved_nodes() if tasks_in(empty(node), node, stage)]

    def plan(self, job: JobState, stage: StageState) -> Reserve | None:
        """The nodes with the earliest start of a task or the whole gang, by the estimates of running tasks.

        None when the unreserved nodes could not take it even if empty.
        """
        return self._openings.earliest(job, stage, self._unreserved_nodes(), self.now)

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Everything underived, as plain data."""
        since, served = self._waits.dump(self.now)
        held = [(self.made_at[key], reserve) for key, reserve in self.by_stage.items()]
        return {"since": since, "held": held, "served": served}

    def load(
        self,
        now: int,
        since: Iterable[tuple[str, int, int]],
        held: Iterable[tuple[int, Reserve]],
        served: Iterable[tuple[int, int]],
    ) -> None:
        """Take over the data of `dump`."""
        self._waits.load(since, served)
        self.now = now
        for at, reserve in held:
            self._enter(reserve, at)

    def validate(self) -> None:
        """Raise AssertionError with the first mistake."""
        assert self.by_node == {name: r for r in self.by_stage.values() for name, _ in r.nodes}, "reserved nodes"
        assert sum(len(r.nodes) for r in self.by_stage.values()) == len(self.by_node), "a node is reserved twice"
        assert all(self._is_valid(*key, of_nodes=True) for key in self.by_stage), "a reservation is over"
        assert self.class_counts == Counter(map(self._waits.class_of, self.by_stage)), "for whom nodes are reserved"
        self._waits.validate()
