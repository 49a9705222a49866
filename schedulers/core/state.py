"""The one mutable object: what is where, who waits, who holds what.

Facts come in through `hear`, decisions through `apply`; nobody else changes anything. Tasks that
have not started are counts, not objects. `validate` recomputes every derived figure from scratch;
it is slow and meant for tests.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappush
from typing import Any, Final

import msgspec

from schedulers.core.decisions import Commit, Decision, Move, Place, Preempt, Release, Run
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import (
    ContainerAdopted,
    ContainerEnded,
    ContainerExpired,
    ContainerObserved,
    ContainerStarted,
    Event,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    QueueChanged,
    QueueRemoved,
    TaskEnded,
    TaskFound,
)
from schedulers.core.model import Job, Node, Queue, check_job
from schedulers.core.places import ANYWHERE, Places
from schedulers.core.predictor import SamplePlan
from schedulers.core.queues import Account, Group, QueueTree, check_queue
from schedulers.core.reasons import Reason
from schedulers.core.resources import Resources, Vector, dominant_share, fits

GRANTED, RUNNING, IDLE, MOVING = 0, 1, 2, 3
#: Finished jobs remembered so that a repeated submission is not run again.
REMEMBERED: Final = 10_000
#: Changes of nodes remembered for the lists of fitting nodes before these are made anew.
JOURNAL: Final = 100_000
#: Exit code of a container that went down with its node (YARN's ABORTED).
ABORTED: Final = -100


class StageState(msgspec.Struct, eq=False):
    """One stage of a live job. Tasks below `next` (and those in `taken`) were launched at least once.

    waiting: tasks that are not launched, the pilots among them and those that came back included.
    pilots: waiting pilot indexes, sorted. returned: heap of indexes that must run again.
    attempts: only of tasks that ran before. done_ms: run time of its finished tasks, at node speed 1.
    """

    index: int
    demand: Vector
    size: int
    tasks: int
    waiting: int
    parents_left: int
    asked: bool
    next: int = 0
    running: int = 0
    finished: int = 0
    taken: dict[int, None] = {}
    pilots: list[int] = []
    returned: list[int] = []
    attempts: dict[int, int] = {}
    done_ms: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether its tasks may start: parents done, and asked for."""
        return self.parents_left == 0 and self.asked

    @property
    def others(self) -> int:
        """Waiting tasks that are not pilots."""
        return self.waiting - len(self.pilots)


class JobState(msgspec.Struct, eq=False):
    """A live job.

    open: stages that have launchable tasks, lowest index first. waiting: launchable tasks in them.
    used: resources held now. running: tasks granted or running. left: tasks not yet finished.
    done_ms: run time of its finished tasks. started_sum: sum of start times of its running tasks
    (with `started` of them), so that attained service at any instant is O(1).
    admitted: False while its queue is full of jobs, or was removed: none of its stages is open.
    size_ms: estimated total work, None while there is no estimate; size_source: where from.
    """

    spec: Job
    seq: int
    submitted: int
    stages: list[StageState]
    left: int
    used: list[int]
    children: list[list[int]]
    open: list[int] = []
    waiting: int = 0
    running: int = 0
    executors: int = 0
    done_ms: int = 0
    started: int = 0
    started_sum: int = 0
    plan: SamplePlan | None = None
    pilots_left: int = 0
    size_ms: float | None = None
    size_source: str = ""
    hold: Reason | None = None
    cancelled: bool = False
    admitted: bool = True

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.id

    def attained_ms(self, now: int) -> int:
        """Run time given so far to all its tasks, running ones included."""
        return self.done_ms + self.started * now - self.started_sum

    def open_stages(self) -> Iterator[StageState]:
        """Stages with launchable tasks, lowest index first."""
        return map(self.stages.__getitem__, tuple(self.open))


class ContainerState(msgspec.Struct, eq=False):
    """A hold on a node.

    status: GRANTED (decided, not heard running), RUNNING, IDLE (an executor between tasks), or MOVING (an executor on
    its way to a job that has no task for it yet: stage and task are -1).
    """

    id: int
    node: str
    job: str
    stage: int
    task: int
    attempt: int
    pilot: bool
    size: int
    granted: int
    started: int = -1
    status: int = GRANTED


class NodeState(msgspec.Struct, eq=False):
    """A node: what is free, who is on it. version counts its changes; draining: takes no new containers.

    free: what is left of its room, slack included. barred: size numbers whose tasks its labels or taints keep away.
    """

    spec: Node
    index: int
    free: list[int]
    containers: dict[int, None] = {}
    foreign: dict[str, Vector] = {}
    version: int = 0
    draining: bool = False
    barred: dict[int, None] = {}

    @property
    def id(self) -> str:
        """The node's id."""
        return self.spec.id

    def fits(self, stage: StageState) -> bool:
        """Whether a task of this stage could start here now."""
        return not self.draining and stage.size not in self.barred and fits(stage.demand, self.free)

    def room_for(self, stage: StageState) -> int:
        """How many tasks of this stage could start here now."""
        if self.draining or stage.size in self.barred:
            return 0
        return max(0, min([free // wanted for wanted, free in zip(stage.demand, self.free, strict=True) if wanted]))


class Fitting(Sequence[NodeState]):
    """Nodes on which a demand fits now, in order of arrival; a view, valid until the next change."""

    __slots__ = ("_indexes", "_nodes")

    def __init__(self, indexes: list[int], nodes: dict[int, NodeState]) -> None:
        self._indexes, self._nodes = indexes, nodes

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def indexes(self) -> Sequence[int]:
        """The nodes' numbers, ascending."""
        return self._indexes

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self._nodes[i] for i in self._indexes[position]]
        return self._nodes[self._indexes[position]]


_NOTHING: Final = Fitting([], {})


class _Room(msgspec.Struct, eq=False):
    """Which nodes fit one demand size: sorted node indexes, true up to `seen` entries of the change journal."""

    fitting: list[int]
    seen: int


class ClusterState:
    """Nodes, jobs and containers of one cluster, with the figures derived from them.

    kept: containers outlive tasks (executors) instead of ending with them.
    """

    # Slots: an instance of more than 30 attributes loses CPython's fast look-up of them.
    __slots__ = (
        "_barred",
        "_by_index",
        "_charged",
        "_ever",
        "_finished",
        "_journal",
        "_rooms",
        "_size_of",
        "active_sizes",
        "bounds",
        "capacity",
        "containers",
        "ended",
        "foreign",
        "idle",
        "jobs",
        "kept",
        "moving",
        "next_container",
        "next_node",
        "next_seq",
        "nodes",
        "now",
        "pending",
        "queues",
        "resources",
        "size_groups",
        "size_places",
        "size_waiting",
        "sizes",
        "stirred",
        "touched",
        "tree",
        "used",
        "version",
        "waiting",
        "woken",
    )

    def __init__(self, resources: Resources, *, kept: bool = False) -> None:
        self.resources, self.kept = resources, kept
        self.now = 0
        self.nodes: dict[str, NodeState] = {}
        self.jobs: dict[str, JobState] = {}
        self.waiting: dict[str, JobState] = {}
        self.containers: dict[int, ContainerState] = {}
        self.idle: dict[int, ContainerState] = {}
        self.moving: dict[int, ContainerState] = {}
        self.tree = QueueTree(len(resources))
        self.queues: dict[str, Queue] = self.tree.queues
        self.capacity: list[int] = [0] * len(resources)
        self.used: list[int] = [0] * len(resources)
        self.foreign: list[int] = [0] * len(resources)  # held on the nodes by others
        self.sizes: list[Vector] = []  # demand by size number; a size is a distinct (demand, places, limits on it)
        self.size_places: list[Places] = []  # places by size number
        self.size_groups: list[Group | None] = []  # who shares its limits, by size number
        self.bounds: dict[int, tuple[Account, ...]] = {}  # the limits on each size that has any
        self.pending: dict[tuple[str, str], dict[str, JobState]] = {}  # by queue and user: jobs that were not let in
        self.size_waiting: list[int] = []  # launchable tasks of each size
        self.active_sizes: dict[int, None] = {}  # sizes with launchable tasks
        self.touched: dict[str, None] = {}  # jobs whose place in an order may have changed
        self.woken: dict[int, None] = {}  # sizes that had no launchable task and then had one; for a shell to clear
        self.stirred: dict[str, None] = {}  # jobs whose reason to wait may be another now; the scheduler clears it
        self.ended: tuple[ContainerState, JobState] | None = None  # what the last TaskEnded was about
        self.version = 0  # counts changes
        self.next_container = 1
        self.next_seq = 0
        self.next_node = 0
        self._finished: dict[str, None] = {}
        self._size_of: dict[tuple[Vector, Places, Group | None], int] = {}
        self._charged: dict[int, tuple[str, str]] = {}  # queue and user that pay for a container, once there are queues
        self._barred: dict[int, None] = {}  # sizes that were found to be at a limit
        self._by_index: dict[int, NodeState] = {}
        self._rooms: dict[int, _Room] = {}
        self._journal: list[int] = []
        self._ever: dict[int, bool] = {}  # whether a size fits some empty node

    # -- questions ------------------------------------------------------------------------------

    def could_place(self, node: NodeState) -> bool:
        """Whether any launchable task fits this node now."""
        if node.draining:
            return False
        free, sizes, barred, bounds = node.free, self.sizes, node.barred, self.bounds
        for size in self.active_sizes:
            if fits(sizes[size], free) and size not in barred and (size not in bounds or self.admits(size)):
                return True
        return False

    def admits(self, size: int) -> bool:
        """Whether the limits of queues and users let one more container of this size start."""
        if size not in self.bounds:
            return True
        for account in self.bounds[size]:
            if not account.takes(self.sizes[size]):
                self._barred[size] = None  # so that whoever sleeps is woken when this changes
                return False
        return True

    def at_limit(self, job: JobState, stage: StageState) -> Account | None:
        """The account whose limit the stage's next task (all tasks of a gang) would exceed, or None."""
        bounds = self.bounds.get(stage.size)
        if bounds is None:
            return None
        count = stage.waiting if self.waits_whole(job, stage) else 1
        return next((account for account in bounds if not account.takes(stage.demand, count)), None)

    def spare(self) -> list[int]:
        """What nobody holds, over all nodes."""
        return [c - u - o for c, u, o in zip(self.capacity, self.used, self.foreign, strict=True)]

    def has_room(self) -> bool:
        """Whether any launchable task fits any node now."""
        return any(self.fitting(size) for size in self.active_sizes)

    def with_room(self) -> list[NodeState]:
        """The nodes that any launchable task fits now, in order of arrival."""
        found: set[int] = set()
        for size in self.active_sizes:
            found.update(self.fitting(size).indexes)
            if len(found) == len(self._by_index):
                break
        return [self._by_index[index] for index in sorted(found)]

    def fits_ever(self, size: int) -> bool:
        """Whether a task of this size would fit some node if the node were empty."""
        there = self._ever.get(size)
        if there is None:
            demand = self.sizes[size]
            there = any(size not in n.barred and fits(demand, n.spec.room) for n in self.nodes.values())
            self._ever[size] = there
        return there

    def fitting(self, size: int) -> Fitting:
        """Nodes that fit this demand size now, in order of arrival; none when it is at a limit."""
        if size in self.bounds and not self.admits(size):
            return _NOTHING
        room = self._rooms.get(size)
        changes = len(self._journal)
        if room is None or changes - room.seen > len(self.nodes):
            room = self._look_around(size)
        elif room.seen < changes:
            self._catch_up(room, size)
        return Fitting(room.fitting, self._by_index)

    def _look_around(self, size: int) -> _Room:
        """Ask every node."""
        indexes = [n.index for n in self._by_index.values() if self._fits(n, size)]
        room = self._rooms[size] = _Room(indexes, len(self._journal))
        return room

    def _fits(self, node: NodeState, size: int) -> bool:
        return not node.draining and size not in node.barred and fits(self.sizes[size], node.free)

    def _catch_up(self, room: _Room, size: int) -> None:
        fitting = room.fitting
        for index in self._journal[room.seen :]:
            node = self._by_index.get(index)
            at = bisect_left(fitting, index)
            there = at < len(fitting) and fitting[at] == index
            if (node is not None and self._fits(node, size)) != there:
                if there:
                    del fitting[at]
                else:
                    fitting.insert(at, index)
        room.seen = len(self._journal)

    def waits_whole(self, job: JobState, stage: StageState) -> bool:
        """Whether the stage is a gang of which nothing has started: all its tasks start together or none."""
        return stage.waiting == stage.tasks and job.spec.stages[stage.index].gang

    def has_room_for_all(self, stage: StageState, nodes: Iterable[NodeState] | None = None) -> bool:
        """Whether all waiting tasks of the stage could start now, on these nodes or on any.

        They are equal, so it is enough to count.
        """
        left = stage.waiting
        for node in self.fitting(stage.size) if nodes is None else nodes:
            left -= node.room_for(stage)
            if left <= 0:
                return True
        return False

    def share(self, job: JobState) -> float:
        """Dominant share of a job (DRF, section 4.1)."""
        return dominant_share(job.used, self.capacity)

    # -- facts ----------------------------------------------------------------------------------

    def hear(self, event: Event) -> str | None:
        """Apply a fact. Returns None, or why it was ignored (duplicate, or late).

        Raises InvalidTransition when time runs backwards or a job makes no sense.
        """
        if event.at < self.now:
            raise InvalidTransition(f"time runs backwards: {type(event).__name__} at {event.at} after {self.now}")
        self.now = event.at
        handler = _HEARS.get(type(event))
        return handler(self, event) if handler is not None else None

    def _node_added(self, event: NodeAdded) -> str | None:
        spec = event.node
        if spec.id in self.nodes:
            return "duplicate"
        self._check_width(spec.capacity, f"node {spec.id}")
        self._check_slack(spec)
        node = NodeState(spec, self.next_node, list(spec.room))
        self._bar(node)
        self.next_node += 1
        self.nodes[spec.id] = self._by_index[node.index] = node
        self._add_capacity(spec.capacity, 1)
        self._node_changed_room(node)
        return None

    def _node_changed(self, event: NodeChanged) -> str | None:
        node = self.nodes.get(event.node.id)
        if node is None:
            return "unknown"
        self._check_width(event.node.capacity, f"node {node.id}")
        self._check_slack(event.node)
        for r, (old, new) in enumerate(zip(node.spec.room, event.node.room, strict=True)):
            node.free[r] += new - old
        self._add_capacity(node.spec.capacity, -1)
        self._add_capacity(event.node.capacity, 1)
        node.spec = event.node
        self._bar(node)
        self._node_changed_room(node)
        return None

    def _bar(self, node: NodeState) -> None:
        """Note which of the known sizes the node's labels and taints keep away."""
        spec = node.spec
        bars = (places.bars(spec.id, spec.labels, spec.taints) for places in self.size_places)
        node.barred = {size: None for size, why in enumerate(bars) if why is not None}

    def _check_slack(self, spec: Node) -> None:
        if spec.slack:
            self._check_width(spec.slack, f"slack of node {spec.id}")

    def _check_width(self, vector: Vector, what: str) -> None:
        if len(vector) != len(self.resources):
            raise InvalidTransition(f"{what} has {len(vector)} resources, not {len(self.resources)}")

    def _node_lost(self, event: NodeLost) -> str | None:
        node = self.nodes.get(event.node)
        if node is None:
            return "unknown"
        node.draining = False  # so that its last container does not take it away before its turn
        for container in sorted(node.containers):
            self._end(self.containers[container], ABORTED, 0)
        self._forget_node(node)
        return None

    def _node_removed(self, event: NodeRemoved) -> str | None:
        node = self.nodes.get(event.node)
        if node is None:
            return "unknown"
        if node.draining:
            return "duplicate"
        node.draining = True
        self._node_changed_room(node)
        if not node.containers:
            self._forget_node(node)
        return None

    def _job_submitted(self, event: JobSubmitted) -> str | None:
        spec = event.job
        if spec.id in self.jobs or spec.id in self._finished:
            return "duplicate"
        check_job(spec, len(self.resources))
        children: list[list[int]] = [[] for _ in spec.stages]
        group = self.tree.path(spec.queue, spec.user).group
        stages = []
        for index, stage in enumerate(spec.stages):
            for parent in stage.parents:
                children[parent].append(index)
            stages.append(
                StageState(
                    index=index,
                    demand=stage.demand,
                    size=self._size(stage.demand, stage.places, group),
                    tasks=stage.tasks,
                    waiting=stage.tasks,
                    parents_left=len(stage.parents),
                    asked=event.asks == "all" or (event.asks == "roots" and not stage.parents),
                )
            )
        job = JobState(spec, self.next_seq, event.at, stages, spec.tasks, [0] * len(self.resources), children)
        self.next_seq += 1
        self.jobs[spec.id] = job
        self.touched[spec.id] = None
        self.stirred[spec.id] = None
        if self.queues and not self._may_enter(job):
            job.admitted = False
            self.pending.setdefault((spec.queue, spec.user), {})[spec.id] = job
        else:
            self._admit(job)
        self.version += 1
        return None

    def _job_changed(self, event: JobChanged) -> str | None:
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return "late"
        if not all(0 <= index < len(job.stages) for index in event.asked):
            raise InvalidTransition(f"job {job.id} has stages 0 to {len(job.stages) - 1}, asked for {event.asked}")
        fresh = [i for i in event.asked if not job.stages[i].asked]
        if not fresh:
            return "duplicate"
        for index in fresh:
            stage = job.stages[index]
            stage.asked = True
            if stage.is_open:
                self._open(job, stage)
        self.touched[job.id] = None
        self.stirred[job.id] = None
        self.version += 1
        return None

    def _job_cancelled(self, event: JobCancelled) -> str | None:
        job = self.jobs.get(event.job)
        if job is None:
            return "unknown"
        if job.cancelled:
            return "duplicate"
        job.cancelled = True
        for index in list(job.open):
            self._close(job, job.stages[index])
        self.touched[job.id] = None
        self.version += 1
        self._forget_if_over(job)
        return None

    def _queue_changed(self, event: QueueChanged) -> str | None:
        check_queue(event.queue, len(self.resources))
        self.tree.put(event.queue)
        self._recount()
        self._admit_pending()
        self.version += 1
        return None

    def _queue_removed(self, event: QueueRemoved) -> str | None:
        if event.queue not in self.queues:
            return "unknown"
        if event.queue in self.tree.removed:
            return "duplicate"
        self.tree.remove(event.queue, self.next_seq)
        self.version += 1
        return None

    # -- queues ---------------------------------------------------------------------------------

    def _may_enter(self, job: JobState) -> bool:
        spec = job.spec
        return self.tree.full(spec.queue, spec.user) is None and self.tree.closed(spec.queue, job.seq) is None

    def _admit(self, job: JobState) -> None:
        """Let a job in: from now on it counts as one that its queue runs, and its stages open."""
        job.admitted = True
        self.tree.count(job.spec.queue, job.spec.user, 1)
        for stage in job.stages:
            if stage.is_open and stage.waiting:
                self._open(job, stage)

    def _admit_pending(self) -> None:
        """Let in who may enter now, first come first served (YARN's maximum of running applications)."""
        while self.pending:
            first = [next(iter(jobs.values())) for jobs in self.pending.values()]
            able = [job for job in first if self._may_enter(job)]
            if not able:
                return
            job = min(able, key=lambda job: job.seq)
            self._leave_pending(job)
            self._admit(job)

    def _leave_pending(self, job: JobState) -> None:
        where = (job.spec.queue, job.spec.user)
        jobs = self.pending.get(where)
        if jobs is not None and jobs.pop(job.id, None) is not None and not jobs:
            del self.pending[where]

    def _enter(self, job: JobState) -> None:
        """Something of the job runs already by another's decision: it is in, whatever the limits say."""
        if not job.admitted:
            self._leave_pending(job)
            self._admit(job)

    def _recount(self) -> None:
        """The tree is another: charge every container and count every job anew, and sort sizes by their limits."""
        tree = self.tree
        tree.resize(self.capacity)
        for job in self.jobs.values():
            if job.admitted:
                tree.count(job.spec.queue, job.spec.user, 1)
            group = tree.path(job.spec.queue, job.spec.user).group
            for stage in job.stages:
                stage.size = self._size(stage.demand, self.size_places[stage.size], group)
        for container in self.containers.values() if self.queues else ():
            if container.id not in self._charged:
                spec = self.jobs[container.job].spec
                self._charged[container.id] = spec.queue, spec.user
            payer, demand = self._charged[container.id], self.sizes[container.size]
            tree.charge(*payer, demand, 1)
            container.size = self._size(demand, self.size_places[container.size], tree.path(*payer).group)
        self._bind_sizes()

    def _bind_sizes(self) -> None:
        """Which limits hold for which size, and who waits for it."""
        found = ((size, self.tree.bounds(group)) for size, group in enumerate(self.size_groups) if group is not None)
        self.bounds = {size: bounds for size, bounds in found if bounds}
        self.size_waiting = [0] * len(self.sizes)
        for job in self.waiting.values():
            for stage in job.open_stages():
                self.size_waiting[stage.size] += stage.waiting
        there = self.active_sizes
        self.active_sizes = {size: None for size in there if self.size_waiting[size]}
        self.active_sizes |= {size: None for size, count in enumerate(self.size_waiting) if count}
        self.woken |= self.active_sizes

    def _unbar(self) -> None:
        """Sizes that were at a limit and are no more: whoever sleeps must hear of it."""
        for size in list(self._barred):
            if self.admits(size):
                del self._barred[size]
                if size in self.active_sizes:
                    self.woken[size] = None

    def _container_started(self, event: ContainerStarted) -> str | None:
        container = self.containers.get(event.container)
        if container is None:
            return "late"
        if container.status == MOVING:
            self._arrive(container)
            return None
        if container.status != GRANTED:
            return "duplicate"
        container.status = RUNNING
        container.started = event.at
        job = self.jobs[container.job]
        job.started += 1
        job.started_sum += event.at
        self.touched[container.job] = None
        return None

    def _arrive(self, container: ContainerState) -> None:
        """An executor that was brought to a job is there."""
        del self.moving[container.id]
        self.idle[container.id] = container
        container.status = IDLE
        self.touched[container.job] = None
        self.version += 1

    def _task_ended(self, event: TaskEnded) -> str | None:
        container = self.containers.get(event.container)
        if (
            container is None
            or container.status == IDLE
            or container.task != event.task
            or container.stage != event.stage
            or container.attempt != event.attempt
            or container.job != event.job
        ):
            return "late"
        job = self.jobs[event.job]
        self.ended = container, job
        self.idle[event.container] = container
        self._succeed(job, container, event.runtime_ms)
        container.status = IDLE
        self.touched[event.job] = None
        self.version += 1
        return None

    def _container_ended(self, event: ContainerEnded) -> str | None:
        container = self.containers.get(event.container)
        if container is None:
            return "late"
        self._end(container, event.code, event.runtime_ms)
        return None

    def _container_expired(self, event: ContainerExpired) -> str | None:
        container = self.containers.get(event.container)
        if container is None or container.status != GRANTED:
            return "late"
        self._end(container, ABORTED, 0)
        return None

    def _container_adopted(self, event: ContainerAdopted) -> str | None:
        job = self.jobs.get(event.job)
        if job is None or event.node not in self.nodes:
            return "unknown"
        if event.container < self.next_container:
            return "duplicate"
        if not 0 <= event.stage < len(job.stages):
            raise InvalidTransition(f"job {job.id} has stages 0 to {len(job.stages) - 1}, not {event.stage}")
        stage = job.stages[event.stage]
        if not job.cancelled:
            self._enter(job)
        if job.cancelled or stage.index not in job.open or not self.is_waiting(stage, event.task):
            return "late"
        attempt = stage.attempts.get(event.task, 0)
        self._hold(Place(event.container, event.node, job.id, stage.index, event.task, attempt), job, stage)
        self.stirred[job.id] = None
        return None

    def _task_found(self, event: TaskFound) -> str | None:
        job = self.jobs.get(event.job)
        if job is None or not 0 <= event.stage < len(job.stages):
            return "unknown"
        stage = job.stages[event.stage]
        if not job.cancelled:
            self._enter(job)
        if job.cancelled or stage.index not in job.open or not self.is_waiting(stage, event.task):
            return "late"
        pilot = self._launch(job, stage, event.task)
        stage.done_ms += event.runtime_ms
        self._count_success(job, stage, event.runtime_ms, pilot=pilot)
        self.version += 1
        return None

    def _container_observed(self, event: ContainerObserved) -> str | None:
        node = self.nodes.get(event.node)
        if node is None:
            return "unknown"
        old = node.foreign.get(event.name)
        if old == event.demand:
            return "duplicate"
        if event.demand is not None:
            self._check_width(event.demand, f"use '{event.name}' of node {node.id}")
        for sign, vector in ((1, old), (-1, event.demand)):
            for r, amount in enumerate(vector or ()):
                node.free[r] += sign * amount
                self.foreign[r] -= sign * amount
        if event.demand is None:
            del node.foreign[event.name]
        else:
            node.foreign[event.name] = event.demand
        self._node_changed_room(node)
        return None

    # -- decisions ------------------------------------------------------------------------------

    def apply(self, decision: Decision) -> None:
        """Apply a decision that was checked before. Raises InvalidTransition when it is impossible."""
        obey = _OBEYS.get(type(decision))
        if obey is not None:
            obey(self, decision)

    def _release(self, decision: Release) -> None:
        container = self.containers.get(decision.container)
        if container is None or container.status not in (IDLE, MOVING):
            raise InvalidTransition(f"{self.story(decision.container)}: not an idle executor, cannot be released")
        self._end(container, 0, 0)

    def _preempt(self, decision: Preempt) -> None:
        if decision.container not in self.containers:
            raise InvalidTransition(f"{self.story(decision.container)}: not there to be preempted")

    def take(self, job: JobState, stage: StageState, pilots: bool | None = None) -> tuple[int, int]:
        """The task that would start next: (index, attempt). pilots: only those, none of those, or first those."""
        if stage.pilots and pilots is not False:
            index = stage.pilots[0]
        elif stage.returned:
            index = stage.returned[0]
        else:
            index = stage.next
            while index in stage.taken:
                index += 1
        return index, stage.attempts.get(index, 0)

    @staticmethod
    def is_waiting(stage: StageState, task: int) -> bool:
        """Whether this very task has not started, or must start again."""
        if task in stage.pilots or task in stage.returned:
            return True
        return stage.next <= task < stage.tasks and task not in stage.taken

    def _place(self, decision: Place) -> None:
        job = self.jobs[decision.job]
        stage = job.stages[decision.stage]
        self._check_room(decision, job, stage)
        self._hold(decision, job, stage)

    def _check_room(self, decision: Place | Commit, job: JobState, stage: StageState) -> None:
        node = self.nodes[decision.node]
        if not node.fits(stage):
            raise InvalidTransition(
                f"node {node.id} has {node.free} free, container {decision.container} needs {stage.demand}"
            )
        if stage.size in self.bounds and not self.admits(stage.size):
            raise InvalidTransition(f"container {decision.container} of job {job.id} would exceed a limit of its queue")

    def _hold(self, decision: Place, job: JobState, stage: StageState) -> None:
        """The container is there now, and holds what it needs."""
        pilot = self._launch(job, stage, decision.task)
        number, task, attempt = decision.container, decision.task, decision.attempt
        self._occupy(
            ContainerState(number, decision.node, job.id, stage.index, task, attempt, pilot, stage.size, self.now),
            job,
            stage.demand,
        )
        job.running += 1
        stage.running += 1

    def _occupy(self, container: ContainerState, job: JobState, demand: Vector) -> None:
        """A new container takes its room on its node."""
        number, node = container.id, self.nodes[container.node]
        self.containers[number] = container
        if self.queues:
            self._charge(number, job, demand)
        if number >= self.next_container:
            self.next_container = number + 1
        node.containers[number] = None
        free, used, held = node.free, self.used, job.used
        for r, amount in enumerate(demand):
            free[r] -= amount
            used[r] += amount
            held[r] += amount
        job.executors += 1
        self._node_changed_room(node)

    def _run(self, decision: Run) -> None:
        container = self.containers[decision.container]
        if container.status != IDLE or container.job != decision.job:
            raise InvalidTransition(f"{self.story(container.id)}: not an idle executor of job {decision.job}")
        job = self.jobs[decision.job]
        stage = job.stages[decision.stage]
        container.pilot = self._launch(job, stage, decision.task)
        self._bind(container, decision)
        now = self.now
        container.status = RUNNING
        container.started = now
        job.started += 1
        job.started_sum += now
        job.running += 1
        stage.running += 1
        self.version += 1

    def _move(self, decision: Move) -> None:
        container = self.containers[decision.container]
        if container.status != IDLE:
            raise InvalidTransition(f"{self.story(container.id)}: not idle, cannot move to job {decision.job}")
        job = self.jobs[decision.job]
        stage = job.stages[decision.stage]
        container.pilot = self._launch(job, stage, decision.task)
        self._hand_over(container, job)
        self._bind(container, decision)
        container.status = GRANTED
        job.running += 1
        stage.running += 1
        self.version += 1

    def _hand_over(self, container: ContainerState, job: JobState) -> None:
        """An idle executor belongs to this job from now on."""
        giver = self.jobs.get(container.job)
        for r, amount in enumerate(self.sizes[container.size]):
            job.used[r] += amount
            if giver is not None:
                giver.used[r] -= amount
        if giver is not None:
            giver.executors -= 1
            self.touched[giver.id] = None
        if self.queues:
            self._discharge(container.id, self.sizes[container.size])
            self._charge(container.id, job, self.sizes[container.size])
        container.job = job.id
        container.granted = self.now
        container.started = -1
        job.executors += 1

    def _commit(self, decision: Commit) -> None:
        job = self.jobs[decision.job]
        stage = job.stages[decision.stage]
        if decision.node:
            self._check_room(decision, job, stage)
            number = decision.container
            container = ContainerState(number, decision.node, job.id, -1, -1, 0, False, stage.size, self.now)
            self._occupy(container, job, stage.demand)
        else:
            container = self.containers[decision.container]
            if container.status != IDLE or container.size != stage.size:
                raise InvalidTransition(f"{self.story(container.id)}: not idle, or not of the size of {decision}")
            del self.idle[container.id]
            self._hand_over(container, job)
            container.stage = container.task = -1
        container.status = MOVING
        self.moving[container.id] = container
        self.touched[job.id] = None
        self.version += 1

    def _charge(self, container: int, job: JobState, demand: Vector) -> None:
        """Whoever the container is now for pays for it."""
        payer = self._charged[container] = job.spec.queue, job.spec.user
        self.tree.charge(*payer, demand, 1)

    def _discharge(self, container: int, demand: Vector) -> None:
        if self.tree.charge(*self._charged.pop(container), demand, -1):
            self._unbar()

    def _bind(self, container: ContainerState, decision: Run | Move) -> None:
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        del self.idle[container.id]

    def _launch(self, job: JobState, stage: StageState, task: int) -> bool:
        """Take one task out of the waiting ones; returns whether it is a pilot."""
        pilot = False
        if task == stage.next and not stage.taken and not stage.pilots and not stage.returned:
            stage.next += 1  # by far the most frequent case
        else:
            pilot = self._take_out(job, stage, task)
        stage.waiting -= 1
        job.waiting -= 1
        self.touched[job.spec.id] = None
        waiting = self.size_waiting
        waiting[stage.size] -= 1
        if not waiting[stage.size]:
            del self.active_sizes[stage.size]
        if not stage.waiting:
            job.open.remove(stage.index)
            if not job.waiting:
                del self.waiting[job.spec.id]
        return pilot

    def _take_out(self, job: JobState, stage: StageState, task: int) -> bool:
        if task in stage.pilots:
            stage.pilots.remove(task)
            return True
        if task in stage.returned:
            stage.returned.remove(task)
            heapify(stage.returned)
        elif task == stage.next:
            stage.next += 1
            self._skip_taken(stage)
        elif task > stage.next and task not in stage.taken and task < stage.tasks:
            stage.taken[task] = None
        else:
            raise InvalidTransition(f"task {job.id}/{stage.index}/{task} is not waiting")
        return False

    @staticmethod
    def _skip_taken(stage: StageState) -> None:
        while stage.next in stage.taken:
            del stage.taken[stage.next]
            stage.next += 1

    # -- consequences ---------------------------------------------------------------------------

    def plan_pilots(self, job: JobState, plan: SamplePlan) -> None:
        """Set a job's pilot tasks, before anything of it has started."""
        job.plan = plan
        for index, task in plan.pilots:
            stage = job.stages[index]
            if not 0 <= task < stage.tasks or task in stage.taken:
                raise InvalidTransition(f"job {job.id}: no task {task} in stage {index} to be a pilot")
            stage.taken[task] = None
            insort(stage.pilots, task)
        for stage in job.stages:
            self._skip_taken(stage)
        job.pilots_left = len(plan.pilots)

    def _end(self, container: ContainerState, code: int, runtime_ms: int) -> None:
        """A container is gone: give back what it held, and count or requeue its task."""
        node = self.nodes[container.node]
        job = self.jobs.get(container.job)
        del node.containers[container.id], self.containers[container.id]
        free, used = node.free, self.used
        held = job.used if job is not None else [0] * len(used)
        for r, amount in enumerate(self.sizes[container.size]):
            free[r] += amount
            used[r] -= amount
            held[r] -= amount
        self._node_changed_room(node)
        if self.queues:
            self._discharge(container.id, self.sizes[container.size])
        if job is not None:
            job.executors -= 1
            self.touched[container.job] = None
        if container.status == IDLE:
            del self.idle[container.id]
        elif container.status == MOVING:
            del self.moving[container.id]
        elif job is not None:
            if code == 0:
                self._succeed(job, container, runtime_ms)
            else:
                self._fail(job, container)
        if node.draining and not node.containers:
            self._forget_node(node)

    @staticmethod
    def _stop(job: JobState, stage: StageState, container: ContainerState) -> None:
        """A task is not under way any more."""
        job.running -= 1
        stage.running -= 1
        if container.status == RUNNING:
            job.started -= 1
            job.started_sum -= container.started

    def _succeed(self, job: JobState, container: ContainerState, runtime_ms: int) -> None:
        stage = job.stages[container.stage]
        self._stop(job, stage, container)
        stage.done_ms += runtime_ms * self.nodes[container.node].spec.speed
        self._count_success(job, stage, runtime_ms, pilot=container.pilot)

    def _count_success(self, job: JobState, stage: StageState, runtime_ms: int, *, pilot: bool) -> None:
        stage.finished += 1
        job.left -= 1
        job.done_ms += runtime_ms
        if pilot:
            job.pilots_left -= 1
        if stage.finished == stage.tasks:
            self._open_children(job, stage)
        if not job.left or job.cancelled:
            self._forget_if_over(job)

    def _open_children(self, job: JobState, stage: StageState) -> None:
        for child in job.children[stage.index]:
            below = job.stages[child]
            below.parents_left -= 1
            self.stirred[job.spec.id] = None
            if below.is_open and not job.cancelled:
                self._open(job, below)

    def _fail(self, job: JobState, container: ContainerState) -> None:
        stage = job.stages[container.stage]
        self._stop(job, stage, container)
        self._requeue(job, stage, container)

    def _requeue(self, job: JobState, stage: StageState, container: ContainerState) -> None:
        task = container.task
        stage.attempts[task] = container.attempt + 1
        if container.pilot:
            insort(stage.pilots, task)
        else:
            heappush(stage.returned, task)
        stage.waiting += 1
        if job.cancelled:
            self._forget_if_over(job)
            return
        if stage.index not in job.open:
            insort(job.open, stage.index)
        self.stirred[job.id] = None
        job.waiting += 1
        self.waiting[job.id] = job
        self._count_waiting(stage.size, 1)

    def _open(self, job: JobState, stage: StageState) -> None:
        if not job.admitted:
            return
        insort(job.open, stage.index)
        job.waiting += stage.waiting
        self.waiting[job.id] = job
        self.touched[job.id] = None
        self.stirred[job.id] = None
        self._count_waiting(stage.size, stage.waiting)

    def _close(self, job: JobState, stage: StageState) -> None:
        job.open.remove(stage.index)
        job.waiting -= stage.waiting
        self._count_waiting(stage.size, -stage.waiting)
        if not job.waiting:
            self.waiting.pop(job.id, None)

    def _forget_if_over(self, job: JobState) -> None:
        if job.left and not (job.cancelled and not job.running):
            return
        del self.jobs[job.id]
        if self.queues:
            self._let_go(job)
        self._finished[job.id] = None
        if len(self._finished) > REMEMBERED:
            del self._finished[next(iter(self._finished))]

    def _let_go(self, job: JobState) -> None:
        """A job is over: its queue may run another."""
        if job.admitted:
            self.tree.count(job.spec.queue, job.spec.user, -1)
            self._admit_pending()
        else:
            self._leave_pending(job)

    def _forget_node(self, node: NodeState) -> None:
        del self.nodes[node.id], self._by_index[node.index]
        self._add_capacity(node.spec.capacity, -1)
        for vector in node.foreign.values():
            for r, amount in enumerate(vector):
                self.foreign[r] -= amount
        self._journal.append(node.index)
        self.version += 1

    def _size(self, demand: Vector, places: Places, group: Group | None) -> int:
        size = self._size_of.get((demand, places, group))
        if size is None:
            size = self._size_of[demand, places, group] = len(self.sizes)
            self.sizes.append(demand)
            self.size_places.append(places)
            self.size_groups.append(group)
            if group is not None:
                self.bounds[size] = self.tree.bounds(group)
            self.size_waiting.append(0)
            for node in self.nodes.values():
                spec = node.spec
                if (spec.taints or places is not ANYWHERE) and places.bars(spec.id, spec.labels, spec.taints):
                    node.barred[size] = None
        return size

    def _count_waiting(self, size: int, by: int) -> None:
        there = self.size_waiting[size] + by
        self.size_waiting[size] = there
        if there == 0:
            self.active_sizes.pop(size, None)
        elif size not in self.active_sizes:
            self.active_sizes[size] = None
            self.woken[size] = None

    def _add_capacity(self, vector: Vector, sign: int) -> None:
        self._ever.clear()
        for r, amount in enumerate(vector):
            self.capacity[r] += sign * amount
        if self.queues:
            self.tree.resize(self.capacity)
            self._unbar()

    def _node_changed_room(self, node: NodeState) -> None:
        node.version += 1
        self.version += 1
        self._journal.append(node.index)
        if len(self._journal) > JOURNAL:
            self._journal.clear()
            self._rooms.clear()

    # -- checks, memory ----------------------------------------------------------------

    def story(self, container: int) -> str:
        """What is known of a container, for messages."""
        there = self.containers.get(container)
        if there is None:
            return f"container {container} (unknown: never granted, or over)"
        status = ("granted", "running", "idle", "moving")[there.status]
        return (
            f"container {there.id} of job {there.job} (stage {there.stage}, task {there.task}, "
            f"attempt {there.attempt}), granted at {there.granted} ms on {there.node}, {status}"
        )

    def validate(self) -> None:
        """Recompute every derived figure; raises AssertionError with the figure that is wrong. Slow."""
        used = [0] * len(self.resources)
        for node in self.nodes.values():
            held = [0] * len(self.resources)
            for container in node.containers:
                for r, amount in enumerate(self.sizes[self.containers[container].size]):
                    held[r] += amount
            foreign = [sum(v[r] for v in node.foreign.values()) for r in range(len(held))]
            for r, room in enumerate(node.spec.room):
                assert node.free[r] == room - held[r] - foreign[r], f"free room of {node.id}: {node.free}"
                used[r] += held[r]
        assert used == self.used, f"used {self.used}, containers hold {used}"
        assert self.capacity == [sum(n.spec.capacity[r] for n in self.nodes.values()) for r in range(len(used))]
        assert sum(len(n.containers) for n in self.nodes.values()) == len(self.containers)
        waiting = [0] * len(self.sizes)
        for job in self.jobs.values():
            self._validate_job(job, waiting)
        assert waiting == self.size_waiting, f"waiting by size {self.size_waiting}, not {waiting}"
        assert set(self.active_sizes) == {s for s, n in enumerate(waiting) if n}
        assert set(self.waiting) == {j.id for j in self.jobs.values() if j.waiting}
        assert set(self.idle) == {c.id for c in self.containers.values() if c.status == IDLE}
        assert set(self.moving) == {c.id for c in self.containers.values() if c.status == MOVING}
        for size in list(self._rooms):
            there = [n.index for n in self._by_index.values() if self._fits(n, size)]
            there = there if self.admits(size) else []
            assert [n.index for n in self.fitting(size)] == there, f"nodes that fit {self.sizes[size]}"
        foreign = [sum(v[r] for n in self.nodes.values() for v in n.foreign.values()) for r in range(len(used))]
        assert foreign == self.foreign, f"held by others {foreign}, not {self.foreign}"
        self._validate_queues()

    def _validate_queues(self) -> None:
        tree, other = self.tree, QueueTree(len(self.resources))
        other.queues, other.removed = tree.queues, tree.removed
        other.resize(self.capacity)
        for container in self.containers.values() if self.queues else ():
            other.charge(*self._charged[container.id], self.sizes[container.size], 1)
        pending = {}
        for job in self.jobs.values():
            if job.admitted:
                other.count(job.spec.queue, job.spec.user, 1)
            else:
                pending[job.id] = job
                assert not job.open, f"{job.id} was not let in and has open stages"
                assert not self._may_enter(job) or job.cancelled, f"{job.id} could be let in"
            group = tree.path(job.spec.queue, job.spec.user).group
            assert all(self.size_groups[stage.size] == group for stage in job.stages), f"{job.id}: limits"
        assert {name for jobs in self.pending.values() for name in jobs} == set(pending), "jobs that were not let in"
        for account in tree.accounts():
            assert tuple(account.used) == other.used(account.queue, account.user), f"use of {account}"
        mine = {(a.queue, a.user): (a.jobs, a.most) for a in tree.accounts()}
        for account in other.accounts():
            assert mine[account.queue, account.user] == (account.jobs, account.most), f"jobs of {account}"

    def _validate_job(self, job: JobState, waiting: list[int]) -> None:
        mine = [c for c in self.containers.values() if c.job == job.id]
        assert job.executors == len(mine), f"{job.id}: {job.executors} containers, not {len(mine)}"
        busy = [c for c in mine if c.status in (GRANTED, RUNNING)]
        assert job.running == len(busy), f"{job.id}: {job.running} running, not {len(busy)}"
        running = [c for c in busy if c.status == RUNNING]
        assert (job.started, job.started_sum) == (len(running), sum(c.started for c in running))
        assert job.used == [sum(self.sizes[c.size][r] for c in mine) for r in range(len(job.used))]
        assert job.left == sum(s.tasks - s.finished for s in job.stages) > 0
        assert len({(c.stage, c.task) for c in busy}) == len(busy), f"{job.id}: a task runs twice"
        for stage in job.stages:
            there = sum(1 for c in busy if c.stage == stage.index)
            assert stage.running == there
            assert stage.waiting == stage.tasks - stage.finished - stage.running, f"{job.id}/{stage.index}"
            undone = [job.spec.stages[p].tasks - job.stages[p].finished for p in job.spec.stages[stage.index].parents]
            assert stage.parents_left == sum(1 for n in undone if n), f"{job.id}/{stage.index}: barrier"
            assert stage.parents_left == 0 or stage.running == 0, f"{job.id}/{stage.index} runs before its parents"
            is_open = stage.is_open and stage.waiting > 0 and not job.cancelled and job.admitted
            assert (stage.index in job.open) == is_open
            if is_open:
                waiting[stage.size] += stage.waiting
        assert job.open == sorted(job.open)
        assert job.waiting == (0 if job.cancelled else sum(job.stages[i].waiting for i in job.open))

    def dump(self) -> dict[str, Any]:
        """Everything that is not derived, as plain data."""
        return {
            "now": self.now,
            "nodes": list(self.nodes.values()),
            "jobs": list(self.jobs.values()),
            "waiting": list(self.waiting),
            "containers": list(self.containers.values()),
            "idle": list(self.idle),
            "queues": list(self.queues.values()),
            "removed": self.tree.removed,
            "sizes": list(zip(self.sizes, self.size_places, strict=True)),
            "groups": self.size_groups if self.bounds else [],
            "active_sizes": list(self.active_sizes),
            "touched": list(self.touched),
            "next": [self.next_container, self.next_seq, self.next_node, self.version],
            "finished": list(self._finished),
        }

    def load(self, data: Any) -> None:
        """Take over what `dump` returned (after a round trip through msgpack)."""
        saved = msgspec.convert(data, _Saved)
        self.now = saved.now
        self.nodes = {n.id: n for n in saved.nodes}
        self._by_index = {n.index: n for n in sorted(saved.nodes, key=lambda n: n.index)}
        self.jobs = {j.id: j for j in saved.jobs}
        self.waiting = {j: self.jobs[j] for j in saved.waiting}
        self.containers = {c.id: c for c in saved.containers}
        self.idle = {c: self.containers[c] for c in saved.idle}
        self.moving = {c.id: c for c in saved.containers if c.status == MOVING}
        self.sizes = [demand for demand, _ in saved.sizes]
        self.size_places = [places for _, places in saved.sizes]
        self.size_groups = list(saved.groups) or [None] * len(saved.sizes)
        sizes = zip(self.sizes, self.size_places, self.size_groups, strict=True)
        self._size_of = {size: number for number, size in enumerate(sizes)}
        self.active_sizes = dict.fromkeys(saved.active_sizes)
        self.touched = dict.fromkeys(saved.touched)
        self._finished = dict.fromkeys(saved.finished)
        self.next_container, self.next_seq, self.next_node, self.version = saved.next
        self.capacity = [sum(n.spec.capacity[r] for n in saved.nodes) for r in range(len(self.resources))]
        self.used = [0] * len(self.resources)
        for container in saved.containers:
            for r, amount in enumerate(self.sizes[container.size]):
                self.used[r] += amount
        self.foreign = [sum(v[r] for n in saved.nodes for v in n.foreign.values()) for r in range(len(self.used))]
        self._load_queues(saved)
        self._rooms.clear()
        self._journal.clear()
        self._ever.clear()

    def _load_queues(self, saved: _Saved) -> None:
        self.tree = QueueTree(len(self.resources))
        self.queues = self.tree.queues
        for queue in saved.queues:
            self.tree.put(queue)
        self.tree.removed = saved.removed
        self.pending, self._charged = {}, {}
        for job in self.jobs.values():
            if not job.admitted:
                self.pending.setdefault((job.spec.queue, job.spec.user), {})[job.id] = job
        self._recount()
        for size in self.bounds:
            self.admits(size)  # notes those that are at a limit
        self.woken = {}


class _Saved(msgspec.Struct):
    now: int
    nodes: list[NodeState]
    jobs: list[JobState]
    waiting: list[str]
    containers: list[ContainerState]
    idle: list[int]
    queues: list[Queue]
    sizes: list[tuple[Vector, Places]]
    active_sizes: list[int]
    touched: list[str]
    next: tuple[int, int, int, int]
    finished: list[str]
    removed: dict[str, int] = {}
    groups: list[Group | None] = []


_HEARS: Final[dict[type[Event], Callable[[ClusterState, Any], str | None]]] = {
    NodeAdded: ClusterState._node_added,
    NodeChanged: ClusterState._node_changed,
    NodeLost: ClusterState._node_lost,
    NodeRemoved: ClusterState._node_removed,
    JobSubmitted: ClusterState._job_submitted,
    JobChanged: ClusterState._job_changed,
    JobCancelled: ClusterState._job_cancelled,
    QueueChanged: ClusterState._queue_changed,
    QueueRemoved: ClusterState._queue_removed,
    ContainerStarted: ClusterState._container_started,
    TaskEnded: ClusterState._task_ended,
    ContainerEnded: ClusterState._container_ended,
    ContainerExpired: ClusterState._container_expired,
    ContainerAdopted: ClusterState._container_adopted,
    ContainerObserved: ClusterState._container_observed,
    TaskFound: ClusterState._task_found,
}
_OBEYS: Final[dict[type[Decision], Callable[[ClusterState, Any], None]]] = {
    Place: ClusterState._place,
    Run: ClusterState._run,
    Move: ClusterState._move,
    Commit: ClusterState._commit,
    Release: ClusterState._release,
    Preempt: ClusterState._preempt,
}
