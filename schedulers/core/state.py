"""The one mutable object: what is where, who waits, who holds what.

Facts come in through `hear`, decisions through `apply`, or both at once through `go_on`; nobody else changes anything.
What is kept in rooms of its own is changed from here alone: `work` (jobs and their tasks), `sizes`, `admission`.
`checks.validate` works out every derived figure anew; `memory` writes it all down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from schedulers.core.admission import Admission
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
    Event,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    LinksSet,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    OthersSeen,
    PilotsNamed,
    QueueChanged,
    QueueRemoved,
    SizeEstimated,
    StageWithdrawn,
    TaskEnded,
    TaskFound,
)
from schedulers.core.foreign import container_observed, others_seen
from schedulers.core.journal import Journal
from schedulers.core.live import GRANTED, IDLE, MOVING, RUNNING, ContainerState, JobState, NodeState, StageState
from schedulers.core.model import Job, Links, Queue, check_job, check_links
from schedulers.core.queues import QueueTree, check_queue
from schedulers.core.reservations import Reservations
from schedulers.core.resources import Resources, Vector, dominant_share
from schedulers.core.sizes import Fitting, Sizes
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

#: Exit code of a container that went down with its node (YARN's ABORTED).
ABORTED: Final = -100


class ClusterState:
    """Nodes, jobs and containers of one cluster, with what follows. has_executors: containers outlive their tasks."""

    # Slots: an instance of more than 30 attributes loses CPython's fast look-up of them.
    __slots__ = (
        "_doubt",
        "_touch",
        "admission",
        "capacity",
        "containers",
        "copies",
        "foreign",
        "has_executors",
        "idle",
        "jobs",
        "journal",
        "links",
        "moving",
        "next_container",
        "next_node",
        "next_seq",
        "nodes",
        "now",
        "queues",
        "reservations",
        "resources",
        "sizes",
        "tree",
        "used",
        "version",
        "waiting",
        "work",
    )

    def __init__(self, resources: Resources, *, has_executors: bool = False) -> None:
        self.resources, self.has_executors = resources, has_executors
        self.now = 0
        """Time of the last fact, in ms."""
        self.version = 0
        """Counts changes."""
        self.nodes: dict[str, NodeState] = {}
        """By id, in order of arrival."""
        self.containers: dict[int, ContainerState] = {}
        """By number."""
        self.idle: dict[int, ContainerState] = {}
        """Executors between tasks; from `containers`, in the order in which they became idle."""
        self.moving: dict[int, ContainerState] = {}
        """Executors on their way to jobs that have no task for them yet; from `containers`."""
        self.capacity: list[int] = [0] * len(resources)
        """Of the whole cluster; from the nodes."""
        self.used: list[int] = [0] * len(resources)
        """Held by containers; from `containers`."""
        self.foreign: list[int] = [0] * len(resources)
        """Held on the nodes by others; from the nodes."""
        self.next_container = 1
        """Above every container there was."""
        self.next_seq = 0
        """Jobs so far."""
        self.next_node = 0
        """Nodes so far."""
        self.journal = Journal()
        """Who has to look again; from every change."""
        self._touch, self._doubt = self.journal.orders.note, self.journal.reasons.note
        self.tree = QueueTree(len(resources))
        """The queues, and what each holds; the latter from jobs and containers."""
        self.queues: dict[str, Queue] = self.tree.queues
        self.sizes = Sizes(self.tree, self.journal.sizes.note)
        """The sizes of tasks, and which nodes fit them; from nodes and jobs."""
        self.admission = Admission(self.tree)
        """Who was not let in, and who pays for what; from jobs and containers."""
        self.work = Work(self.admission, self.sizes, self.journal)
        """Jobs, and which of their tasks wait."""
        self.jobs, self.waiting = self.work.jobs, self.work.waiting
        self.reservations: Reservations | None = None
        """Nodes kept for what cannot start piecemeal; set before anything is heard, None where nothing is reserved."""
        self.copies: TaskCopies | None = None
        """Containers beside those that are tasks; set before anything is heard, None where there are no copies."""
        self.links: Links | None = None
        """How fast data goes between nodes; None: it takes no time."""

    # -- questions ------------------------------------------------------------------------------

    def spare(self) -> list[int]:
        """What nobody holds, over all nodes."""
        return [c - u - o for c, u, o in zip(self.capacity, self.used, self.foreign, strict=True)]

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
        changes = self.journal.orders
        if len(changes.entries) > changes.longest:
            self.journal.trim(self.jobs.__contains__)
        handler = _HEARS.get(type(event))
        why = handler(self, event) if handler is not None else None
        if self.reservations is not None:
            self.reservations.look(event.at, of_nodes=type(event) in _OF_NODES)
        return why

    def _node_added(self, event: NodeAdded) -> str | None:
        spec = event.node
        if spec.id in self.nodes:
            return "duplicate"
        _check_width(self, spec.capacity, f"node {spec.id}")
        _check_width(self, spec.slack or spec.capacity, f"slack of node {spec.id}")
        node = NodeState(spec, self.next_node, list(spec.room))
        self.sizes.bar(node)
        self.next_node += 1
        self.nodes[spec.id] = self.sizes.nodes[node.index] = node
        self._add_capacity(spec.capacity, 1)
        self.version += 1
        self.sizes.room_changed(node)
        return None

    def _node_changed(self, event: NodeChanged) -> str | None:
        node = self.nodes.get(event.node.id)
        if node is None:
            return "unknown"
        _check_width(self, event.node.capacity, f"node {node.id}")
        _check_width(self, event.node.slack or event.node.capacity, f"slack of node {node.id}")
        for r, (old, new) in enumerate(zip(node.spec.room, event.node.room, strict=True)):
            node.free[r] += new - old
        self._add_capacity(node.spec.capacity, -1)
        self._add_capacity(event.node.capacity, 1)
        node.spec = event.node
        self.sizes.bar(node)
        self.version += 1
        self.sizes.room_changed(node)
        return None

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
        self.version += 1
        self.sizes.room_changed(node)
        if not node.containers:
            self._forget_node(node)
        return None

    def _job_submitted(self, event: JobSubmitted) -> str | None:
        spec = event.job
        if spec.id in self.jobs or spec.id in self.work.finished:
            return "duplicate"
        check_job(spec, len(self.resources))
        children: list[list[int]] = [[] for _ in spec.stages]
        group = self.tree.path(spec.queue, spec.user).group
        stages = []
        for index, stage in enumerate(spec.stages):
            for parent in stage.above:
                children[parent].append(index)
            stages.append(
                StageState(
                    index=index,
                    demand=stage.demand,
                    size=self.sizes.number(stage.demand, stage.places, group),
                    tasks=stage.tasks,
                    waiting=stage.tasks,
                    parents_left=len(stage.parents),
                    asked=event.asks == "all" or (event.asks == "roots" and not stage.parents),
                )
            )
        if self.links is not None:
            for index in _feeding(spec):
                stages[index].outputs = {}
        job = JobState(spec, self.next_seq, event.at, stages, spec.tasks, [0] * len(self.resources), children)
        self.next_seq += 1
        self.work.add(job)
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
            self.work.ask(job, job.stages[index])
        self._touch(job.id)
        self._doubt(job.id)
        self.version += 1
        return None

    def _stage_withdrawn(self, event: StageWithdrawn) -> str | None:
        job = self.jobs.get(event.job)
        if job is None or job.cancelled:
            return "late"
        if not 0 <= event.stage < len(job.stages):
            raise InvalidTransition(f"job {job.id} has stages 0 to {len(job.stages) - 1}, not {event.stage}")
        stage = job.stages[event.stage]
        if not stage.asked:
            return "duplicate"
        self.work.withdraw(job, stage)
        self.version += 1
        return None

    def _job_cancelled(self, event: JobCancelled) -> str | None:
        job = self.jobs.get(event.job)
        if job is None:
            return "unknown"
        if job.cancelled:
            return "duplicate"
        self.work.cancel(job)
        self.version += 1
        return None

    def _queue_changed(self, event: QueueChanged) -> str | None:
        check_queue(event.queue, len(self.resources))
        self.tree.put(event.queue)
        self.recount()
        for name in self.jobs:  # its tasks may be of another size now
            self._touch(name)
        self.work.admit_pending()
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

    def recount(self) -> None:
        """The tree is another: work out anew who pays for what, and which limits hold for what."""
        self.admission.recount(self.jobs, self.containers.values(), self.sizes, self.capacity)
        self.sizes.bind(self.waiting.values())

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
        if container.copy:
            return None
        job = self.jobs[container.job]
        job.started += 1
        job.started_sum += event.at
        self._touch(container.job)
        return None

    def _arrive(self, container: ContainerState) -> None:
        """An executor that was brought to a job is there."""
        del self.moving[container.id]
        self.idle[container.id] = container
        container.status = IDLE
        self._touch(container.job)
        self.version += 1

    def _task_ended(self, event: TaskEnded) -> str | None:
        container = self.containers.get(event.container)
        if container is None or container.status == IDLE or not _is_of(event, container):
            return "late"
        job = self.jobs[event.job]
        stage = job.stages[event.stage]
        self.idle[event.container] = container
        if stage.outputs is not None:
            stage.made(event.task, container.node, container.over(event.runtime_ms, event.at))
        self.work.stop(job, stage, container)
        self.work.succeed(job, stage, event.runtime_ms, self.nodes[container.node].spec.speed, pilot=container.pilot)
        container.status = IDLE
        self._touch(event.job)
        self.version += 1
        return None

    def go_on(self, event: TaskEnded) -> Run | None:
        """What `hear` and then `apply` do where an executor goes on with its stage, in one step.

        What the end of a task lowers and the next one raises again stays as it is. Returns the decision that was
        thereby applied; None: nothing was changed, and the fact is yet to be heard.
        """
        container = self.containers.get(event.container)
        job = self.jobs.get(event.job)
        if container is None or job is None or container.status != RUNNING or job.cancelled:
            return None
        stage = job.stages[event.stage]
        if not stage.waiting or not stage.asked or event.at < self.now or not _is_of(event, container):
            return None
        runtime, now = event.runtime_ms, event.at
        stage.finished += 1
        stage.done_ms += runtime * self.nodes[container.node].spec.speed
        job.left -= 1
        job.done_ms += runtime
        if container.pilot:
            job.pilots_left -= 1
        if stage.outputs is not None:
            stage.made(event.task, container.node, container.over(runtime, now))
        job.started_sum += now - container.started
        task, attempt = stage.first_task()
        container.pilot = self.work.launch(job, stage, task)
        container.task, container.attempt, container.started = task, attempt, now
        self.now = now
        self.version += 2
        return Run(event.container, event.job, event.stage, task, attempt)

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

    def _claim_refused(self, event: ClaimRefused) -> str | None:
        container = self.containers.get(event.container)
        if container is None or container.status != GRANTED:
            return "late"
        self._end(container, ABORTED, 0)
        job = self.jobs.get(container.job)
        if job is not None:
            attempts = job.stages[container.stage].attempts
            attempts[container.task] = container.attempt
            if not container.attempt:
                del attempts[container.task]
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
            self.work.enter(job)
        if job.cancelled or stage.index not in job.open or not stage.is_waiting(event.task):
            return "late"
        attempt = stage.attempts.get(event.task, 0)
        self._hold(Place(event.container, event.node, job.id, stage.index, event.task, attempt), job, stage)
        self._doubt(job.id)
        return None

    def _task_found(self, event: TaskFound) -> str | None:
        job = self.jobs.get(event.job)
        if job is None or not 0 <= event.stage < len(job.stages):
            return "unknown"
        stage = job.stages[event.stage]
        if not job.cancelled:
            self.work.enter(job)
        if job.cancelled or stage.index not in job.open or not stage.is_waiting(event.task):
            return "late"
        pilot = self.work.launch(job, stage, event.task)
        self.work.succeed(job, stage, event.runtime_ms, 1.0, pilot=pilot)
        self.version += 1
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
        if decision.rule == COPY and self.copies is not None:
            self.copies.leaving[decision.container] = None

    def _said(self, decision: Hold) -> None:
        self.jobs[decision.job].hold = decision.reason

    def _resume(self, decision: Resume) -> None:
        self.jobs[decision.job].hold = None

    def _place(self, decision: Place) -> None:
        job = self.jobs[decision.job]
        stage = job.stages[decision.stage]
        self._check_room(decision, job, stage)
        self._hold(decision, job, stage)

    def _check_room(self, decision: Place | Copy | Commit, job: JobState, stage: StageState) -> None:
        node = self.nodes[decision.node]
        if not node.fits(stage):
            raise InvalidTransition(
                f"node {node.id} has {node.free} free, container {decision.container} needs {stage.demand}"
            )
        if stage.size in self.sizes.bounds and not self.sizes.admits(stage.size):
            raise InvalidTransition(f"container {decision.container} of job {job.id} would exceed a limit of its queue")

    def _hold(self, decision: Place, job: JobState, stage: StageState) -> None:
        """The container is there now, and holds what it needs."""
        pilot = self.work.launch(job, stage, decision.task)
        number, task, attempt = decision.container, decision.task, decision.attempt
        self._occupy(
            ContainerState(number, decision.node, job.id, stage.index, task, attempt, pilot, stage.size, self.now),
            job,
            stage.demand,
        )
        job.running += 1
        stage.running += 1
        if self.reservations is not None:
            self.reservations.started(job, stage, self.now)

    def _reserve(self, decision: Reserve) -> None:
        assert self.reservations is not None
        self.reservations.make(decision)
        self.version += 1

    def _occupy(self, container: ContainerState, job: JobState, demand: Vector) -> None:
        """A new container takes its room on its node."""
        number, node = container.id, self.nodes[container.node]
        self.containers[number] = container
        if self.queues:
            self.admission.charge(number, job, demand)
        if number >= self.next_container:
            self.next_container = number + 1
        node.containers[number] = None
        free, used, held = node.free, self.used, job.used
        for r, amount in enumerate(demand):
            free[r] -= amount
            used[r] += amount
            held[r] += amount
        job.executors += 1
        self.version += 1
        self.sizes.room_changed(node)

    def _run(self, decision: Run) -> None:
        container = self.containers[decision.container]
        if container.status != IDLE or container.job != decision.job:
            raise InvalidTransition(f"{self.story(container.id)}: not an idle executor of job {decision.job}")
        job = self.jobs[decision.job]
        stage = job.stages[decision.stage]
        container.pilot = self.work.launch(job, stage, decision.task)
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        del self.idle[decision.container]
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
        container.pilot = self.work.launch(job, stage, decision.task)
        self._hand_over(container, job)
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        del self.idle[decision.container]
        container.status = GRANTED
        job.running += 1
        stage.running += 1
        self.version += 1

    def _hand_over(self, container: ContainerState, job: JobState) -> None:
        """An idle executor belongs to this job from now on."""
        giver, demand = self.jobs.get(container.job), self.sizes.demands[container.size]
        for r, amount in enumerate(demand):
            job.used[r] += amount
            if giver is not None:
                giver.used[r] -= amount
        if giver is not None:
            giver.executors -= 1
            self._touch(giver.id)
        if self.queues:
            if self.admission.discharge(container.id, demand):
                self.sizes.limits_changed()
            self.admission.charge(container.id, job, demand)
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
        self._touch(job.id)
        self.version += 1

    # -- consequences ---------------------------------------------------------------------------

    def _end(self, container: ContainerState, code: int, runtime_ms: int) -> None:
        """A container is gone: give back what it held, and count or requeue its task."""
        node = self.nodes[container.node]
        job = self.jobs.get(container.job)
        del node.containers[container.id], self.containers[container.id]
        free, used = node.free, self.used
        held = job.used if job is not None else [0] * len(used)
        demand = self.sizes.demands[container.size]
        for r, amount in enumerate(demand):
            free[r] += amount
            used[r] -= amount
            held[r] -= amount
        self.version += 1
        self.sizes.room_changed(node)
        if self.queues and self.admission.discharge(container.id, demand):
            self.sizes.limits_changed()
        if job is not None:
            job.executors -= 1
            self._touch(container.job)
        if container.status == IDLE:
            del self.idle[container.id]
        elif container.status == MOVING:
            del self.moving[container.id]
        elif self.copies is not None and not self.copies.settle(container, job, self.containers, succeeded=code == 0):
            if code == 0 and job is not None and job.stages[container.stage].outputs is not None:
                job.stages[container.stage].made(container.task, container.node, container.over(runtime_ms, self.now))
        elif job is not None:
            stage = job.stages[container.stage]
            self.work.stop(job, stage, container)
            if code == 0:
                if stage.outputs is not None:
                    stage.made(container.task, container.node, container.over(runtime_ms, self.now))
                self.work.succeed(job, stage, runtime_ms, node.spec.speed, pilot=container.pilot)
            else:
                self.work.fail(job, stage, container)
        if node.draining and not node.containers:
            self._forget_node(node)

    def _forget_node(self, node: NodeState) -> None:
        del self.nodes[node.id], self.sizes.nodes[node.index]
        self._add_capacity(node.spec.capacity, -1)
        for vector in node.foreign.values():
            for r, amount in enumerate(vector):
                self.foreign[r] -= amount
        self.version += 1
        self.sizes.room_changed(node)

    def _add_capacity(self, vector: Vector, sign: int) -> None:
        self.sizes.cluster_changed()
        for r, amount in enumerate(vector):
            self.capacity[r] += sign * amount
        if self.queues:
            self.tree.resize(self.capacity)
            self.sizes.limits_changed()

    def story(self, container: int) -> str:
        """What is known of a container, for messages."""
        there = self.containers.get(container)
        return there.story if there is not None else f"container {container} (unknown: never granted, or over)"


def _copy(state: ClusterState, decision: Copy) -> None:
    job, copies = state.jobs[decision.job], state.copies
    stage = job.stages[decision.stage]
    if copies is None or not copies.allows(state.containers, job, stage, decision.task, decision.node):
        raise InvalidTransition(
            f"no copy of task {job.id}/{stage.index}/{decision.task} may be made on {decision.node}"
        )
    state._check_room(decision, job, stage)
    number, task, attempt = decision.container, decision.task, decision.attempt
    copy = ContainerState(
        number, decision.node, job.id, stage.index, task, attempt, False, stage.size, state.now, copy=True
    )
    state._occupy(copy, job, stage.demand)
    copies.add(copy, state.containers)


# -- facts that concern one thing alone -----------------------------------------------------------


def _links_set(state: ClusterState, event: LinksSet) -> str | None:
    if event.links == state.links:
        return "duplicate"
    check_links(event.links)
    if state.next_seq:
        raise InvalidTransition("links are set once, before the first job")
    state.links = event.links
    return None


def _pilots_named(state: ClusterState, event: PilotsNamed) -> None:
    job = state.jobs[event.job]
    for index, task in event.plan.pilots:
        stage = job.stages[index]
        if not 0 <= task < stage.tasks or task in stage.taken:
            raise InvalidTransition(f"job {job.id}: no task {task} in stage {index} to be a pilot")
        stage.set_apart(task)
    for stage in job.stages:
        stage.skip_taken()
    job.plan, job.pilots_left = event.plan, len(event.plan.pilots)


def _size_estimated(state: ClusterState, event: SizeEstimated) -> None:
    event.job.size_ms, event.job.size_source = event.size_ms, event.source
    state._touch(event.job.id)


def _is_of(event: TaskEnded, container: ContainerState) -> bool:
    """Whether it is the container's task that has ended."""
    return (
        container.task == event.task
        and container.stage == event.stage
        and container.attempt == event.attempt
        and container.job == event.job
    )


def _feeding(job: Job) -> set[int]:
    """Stages of which others take data."""
    return {edge.parent for stage in job.stages for edge in stage.edges if edge.data}


def _check_width(state: ClusterState, vector: Vector, what: str) -> None:
    if len(vector) != len(state.resources):
        raise InvalidTransition(f"{what} has {len(vector)} resources, not {len(state.resources)}")


#: Facts after which a node may take less than before.
_OF_NODES: Final = frozenset({NodeAdded, NodeChanged, NodeLost, NodeRemoved, ContainerObserved, OthersSeen})
_HEARS: Final[dict[type[Event], Callable[[ClusterState, Any], str | None]]] = {
    NodeAdded: ClusterState._node_added,
    NodeChanged: ClusterState._node_changed,
    NodeLost: ClusterState._node_lost,
    NodeRemoved: ClusterState._node_removed,
    JobSubmitted: ClusterState._job_submitted,
    JobChanged: ClusterState._job_changed,
    StageWithdrawn: ClusterState._stage_withdrawn,
    JobCancelled: ClusterState._job_cancelled,
    QueueChanged: ClusterState._queue_changed,
    QueueRemoved: ClusterState._queue_removed,
    LinksSet: _links_set,
    ContainerStarted: ClusterState._container_started,
    TaskEnded: ClusterState._task_ended,
    ContainerEnded: ClusterState._container_ended,
    ContainerExpired: ClusterState._container_expired,
    ClaimRefused: ClusterState._claim_refused,
    ContainerAdopted: ClusterState._container_adopted,
    ContainerObserved: container_observed,
    OthersSeen: others_seen,
    TaskFound: ClusterState._task_found,
    PilotsNamed: _pilots_named,
    SizeEstimated: _size_estimated,
}
_OBEYS: Final[dict[type[Decision], Callable[[ClusterState, Any], None]]] = {
    Place: ClusterState._place,
    Copy: _copy,
    Run: ClusterState._run,
    Move: ClusterState._move,
    Commit: ClusterState._commit,
    Release: ClusterState._release,
    Preempt: ClusterState._preempt,
    Reserve: ClusterState._reserve,
    Hold: ClusterState._said,
    Resume: ClusterState._resume,
}
