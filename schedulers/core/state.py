"""The only mutable object: nodes, jobs, containers, and the holdings of each.

Facts come in through `hear`, decisions through `apply`, or both at once through `go_on`; nothing else changes the
state. The work is done in rooms: `Work` (jobs and their tasks), `ClusterNodes`, `Executors` (all containers),
`Reservations`; a room changes its own objects, and asks other rooms for changes of theirs. `checks.validate` works out
every derived figure anew; `memory` writes the state down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from schedulers.core.admission import Admission
from schedulers.core.containers import ABORTED
from schedulers.core.copies import COPY, TaskCopies
from schedulers.core.decisions import Commit, Copy, Decision, Hold, Move, Place, Preempt, Release, Reserve, Resume, Run
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import (
    ClaimRefused,
    ContainerAdopted,
    ContainerEnded,
    ContainerExpired,
    ContainerObserved,
    ContainerStarted,
    CopyAsked,
    Event,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    LinksSet,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    NodesRefused,
    OthersSeen,
    PilotsNamed,
    QueueChanged,
    QueueRemoved,
    SizeEstimated,
    StageWithdrawn,
    TaskEnded,
    TaskFound,
)
from schedulers.core.executors import Executors, is_of
from schedulers.core.journal import Journal
from schedulers.core.live import GRANTED, IDLE, MOVING, RUNNING, ContainerState, Counts, JobState, NodeState, StageState
from schedulers.core.model import CopyRules, Links, Queue
from schedulers.core.nodes import ClusterNodes
from schedulers.core.queues import QueueTree, check_queue
from schedulers.core.reservations import Reservations
from schedulers.core.resources import Resources
from schedulers.core.sizes import Fitting, Sizes
from schedulers.core.ties import EARLY
from schedulers.core.vectors import dominant_share
from schedulers.core.work import Work

__all__ = [
    "ABORTED",
    "GRANTED",
    "IDLE",
    "MOVING",
    "RUNNING",
    "ClusterState",
    "ContainerState",
    "Fitting",
    "JobState",
    "NodeState",
    "StageState",
]

#: Facts that may lower the room of a node.
_OF_NODES: Final = frozenset({NodeAdded, NodeChanged, NodeLost, NodeRemoved, ContainerObserved, OthersSeen})


class ClusterState:
    """Nodes, jobs and containers of a cluster, with all derived figures.

    has_executors: containers outlive their tasks. first_container: the number of the first container. copies: limits on
    the policy's copies of tasks; None: it makes none.
    """

    # Slots: CPython reads them faster than an instance's dict, by 3 to 20 % of the core's throughput.
    __slots__ = (
        "_containers",
        "_hears",
        "_obeys",
        "admission",
        "capacity",
        "containers",
        "copies",
        "counts",
        "foreign",
        "has_executors",
        "idle",
        "jobs",
        "journal",
        "moving",
        "nodes",
        "now",
        "queues",
        "reservations",
        "resources",
        "sizes",
        "ties",
        "tree",
        "used",
        "waiting",
        "work",
    )

    def __init__(
        self,
        resources: Resources,
        *,
        has_executors: bool = False,
        first_container: int = 1,
        copies: CopyRules | None = None,
    ) -> None:
        self.resources, self.has_executors, width = resources, has_executors, len(resources)
        self.now = 0
        """Time of the last fact, in ms."""
        self.counts = Counts(next_container=first_container)
        """Changes, containers, jobs and nodes so far."""
        self.journal = Journal()
        """Changes for readers such as orders of jobs; from every change."""
        self.tree = QueueTree(width)
        """The queues, and the holdings of each; holdings from jobs and containers."""
        self.queues: dict[str, Queue] = self.tree.queues
        self.sizes = Sizes(self.tree, self.journal.sizes.note)
        """The sizes of tasks, and the nodes with room for each; from nodes and jobs."""
        self.admission = Admission(self.tree)
        """Jobs not let in, and the payers of containers; from jobs and containers."""
        self.reservations: Reservations | None = None
        """Nodes kept for work that cannot start piecemeal, None where nothing is reserved: see `keep_nodes`."""
        self.copies = TaskCopies(copies)
        """Containers besides the tasks' own."""
        self.work = Work(width, self.admission, self.sizes, self.tree, self.journal, self.counts)
        """Jobs, and their waiting tasks."""
        # The rooms' own dicts under short names: policies and the scheduler read them for every task.
        self.jobs, self.waiting, self.ties = self.work.jobs, self.work.waiting, self.work.ties
        nodes = ClusterNodes(width, self.counts, self.tree, self.sizes)
        self.nodes, self.capacity, self.foreign = nodes.by_id, nodes.capacity, nodes.foreign
        self._containers = Executors(nodes, self.work, self.copies)
        self.containers, self.used = self._containers.by_number, self._containers.used
        self.idle, self.moving = self._containers.idle, self._containers.moving
        self._hears = self._facts(nodes)
        self._obeys = self._decisions()

    def _facts(self, nodes: ClusterNodes) -> dict[type[Event], Callable[[Any], str | None]]:
        """The room's method for each fact; a method returns the reason of ignoring a fact."""
        work, containers = self.work, self._containers
        return {
            NodeAdded: nodes.added,
            NodeChanged: nodes.changed,
            NodeRemoved: nodes.removed,
            NodeLost: containers.node_lost,
            ContainerObserved: nodes.observed,
            OthersSeen: nodes.others_seen,
            LinksSet: work.links_set,
            JobSubmitted: work.submitted,
            JobChanged: work.changed,
            StageWithdrawn: work.withdrawn,
            CopyAsked: containers.copy_asked,
            NodesRefused: self._nodes_refused,
            JobCancelled: work.cancelled,
            PilotsNamed: work.pilots_named,
            SizeEstimated: work.size_estimated,
            TaskFound: work.found,
            QueueChanged: self._queue_changed,
            QueueRemoved: self._queue_removed,
            ContainerStarted: containers.started,
            ContainerEnded: containers.ended,
            ContainerExpired: containers.expired,
            ContainerAdopted: containers.adopted,
            ClaimRefused: containers.refused,
            TaskEnded: containers.task_ended,
        }

    def _decisions(self) -> dict[type[Decision], Callable[[Any, int], None]]:
        """The room's method for each decision, called with the time of the last fact."""
        containers = self._containers
        return {
            Place: containers.place,
            Copy: containers.copy,
            Preempt: containers.preempt,
            Run: containers.run,
            Move: containers.move,
            Commit: containers.commit,
            Release: containers.release,
            Hold: self.work.hold,
            Resume: self.work.resume,
        }

    def keep_nodes(self, after: int, estimate: Callable[[str, int], float | None], *, one_node: bool) -> None:
        """Reserve nodes for work that cannot start piecemeal; to be called before the first fact. See Reservations."""
        rooms = self.jobs, self.nodes, self.containers, self.sizes, self.journal, self.counts
        self.reservations = Reservations(after, *rooms, estimate=estimate, one_node=one_node)
        self._containers.reservations = self.reservations
        self._obeys[Reserve] = self.reservations.reserve

    # -- questions ------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number of changes so far. Callers on every fact read `counts`: a property is a call."""
        return self.counts.version

    @property
    def next_container(self) -> int:
        """Above every container there was."""
        return self.counts.next_container

    @property
    def links(self) -> Links | None:
        """Rates of data between nodes; None: data takes no time."""
        return self.work.links

    def describe_container(self, container: int) -> str:
        """A description of a container, for messages."""
        return self._containers.describe(container)

    def spare(self) -> list[int]:
        """Resources held by nobody, over all nodes."""
        return [c - u - o for c, u, o in zip(self.capacity, self.used, self.foreign, strict=True)]

    def share(self, job: JobState) -> float:
        """Dominant share of a job (DRF, section 4.1)."""
        return dominant_share(job.used, self.capacity)

    # -- facts ----------------------------------------------------------------------------------

    def hear(self, event: Event) -> str | None:
        """Apply a fact. Returns None, or the reason of ignoring the fact (duplicate, or late).

        Raises InvalidTransition when time runs backwards or a job makes no sense.
        """
        # Refused and not ignored: with time running backwards no replay could give the same decisions.
        if event.at < self.now:
            raise InvalidTransition(f"time runs backwards: {type(event).__name__} at {event.at} after {self.now}")
        self.now = event.at
        # A policy that never reads its changes must not let the journal grow with the run.
        changes = self.journal.orders
        if len(changes.entries) > changes.longest:
            self.journal.trim(self.jobs.__contains__)
        # Facts without a handler (a beat, a tick) change nothing but the time.
        handler = self._hears.get(type(event))
        why = handler(event) if handler is not None else None
        # After the fact, because a reservation may end by it.
        if self.reservations is not None:
            self.reservations.update(event.at, of_nodes=type(event) in _OF_NODES)
        return why

    def _queue_changed(self, event: QueueChanged) -> str | None:
        check_queue(event.queue, len(self.resources))
        self.tree.put(event.queue)
        self.recount()
        for name in self.jobs:  # its tasks may be of another size now
            self.journal.orders.note(name)
        self.work.admit_pending()
        self.counts.version += 1
        return None

    def _nodes_refused(self, event: NodesRefused) -> str | None:
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return "late"
        group, number = self.tree.path(job.spec.queue, job.spec.user).group, self.sizes.number
        # Tasks that may go to other nodes are of other sizes, so that whoever looks for room keeps to the list.
        sizes = [
            number(stage.demand, stage.places if stage.master else stage.places.apart_from(event.nodes), group)
            for stage in job.spec.stages
        ]
        if sizes == [stage.size for stage in job.stages]:
            return "duplicate"
        for stage, size in zip(job.stages, sizes, strict=True):
            waiting = stage.waiting if stage.index in job.open else 0
            self.sizes.count(stage.size, -waiting)
            stage.size = size
            self.sizes.count(size, waiting)
        self.journal.orders.note(job.id)
        self.journal.reasons.note(job.id)
        self.counts.version += 1
        if self.reservations is not None:
            self.reservations.end_all(job.id)
        return None

    def _queue_removed(self, event: QueueRemoved) -> str | None:
        if event.queue not in self.queues:
            return "unknown"
        if event.queue in self.tree.removed:
            return "duplicate"
        # By the number of the next job: jobs submitted earlier stay in the queue, later jobs stay out.
        self.tree.remove(event.queue, self.counts.next_job)
        self.counts.version += 1
        return None

    def recount(self) -> None:
        """Take in a changed tree: charge all containers anew, and bind sizes to limits anew."""
        self.admission.recount(self.jobs, self.containers.values(), self.sizes, self.capacity)
        self.sizes.bind(self.waiting.values())

    # -- decisions ------------------------------------------------------------------------------

    def apply(self, decision: Decision) -> None:
        """Apply a decision checked before. Raises InvalidTransition for an impossible decision."""
        obey = self._obeys.get(type(decision))
        if obey is not None:
            obey(decision, self.now)

    def pop_superfluous(self) -> list[tuple[int, str]]:
        """Containers to end now, each with the rule: early ones whose parents wait for room, and needless copies."""
        stages, held = self.work.stranded, self.containers.values()
        found = [(c.id, EARLY) for c in held if (c.job, c.stage) in stages and c.status in (GRANTED, RUNNING)]
        stages.clear()
        return found + [(number, COPY) for number in self.copies.unneeded(self.jobs)]

    # -- both -----------------------------------------------------------------------------------

    def go_on(self, event: TaskEnded) -> Run | None:
        """Do in a single step the work of `hear` and then `apply` for an executor going on with its stage.

        Figures lowered by the end of a task and raised again by the next task stay as they are. Returns the decision
        thereby applied; None: nothing was changed, and the fact is yet to be heard. The method stands here and not with
        `Executors`, because it is both doors at once, and a further call would be a call more for every task.
        """
        container = self.containers.get(event.container)
        job = self.jobs.get(event.job)
        if container is None or job is None or container.status != RUNNING or job.cancelled:
            return None
        # Only the plain case below: the last task, a late fact or a changed request takes the long way.
        stage = job.stages[event.stage]
        if (
            not stage.waiting
            or not stage.asked
            or (self.ties and event.job in self.ties)
            or event.at < self.now
            or not is_of(event, container)
        ):
            return None
        runtime, now = event.runtime_ms, event.at
        stage.finished += 1
        stage.done_ms += runtime * self.nodes[container.node].spec.speed
        job.left -= 1
        job.done_ms += runtime
        if container.pilot:
            job.pilots_left -= 1
        if stage.outputs is not None:
            stage.add_output(event.task, container.node, container.ended_at(runtime, now))
        job.started_sum += now - container.started
        task, attempt = stage.first_task()
        container.pilot = self.work.launch(job, stage, task)
        container.task, container.attempt, container.started = task, attempt, now
        self.now = now
        # By two: `hear` and `apply` would have counted a change each, and snapshots hold the number.
        self.counts.version += 2
        return Run(event.container, event.job, event.stage, task, attempt)
