"""The life of containers: placed or adopted, started, over; the room of each on its node, and the job of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schedulers.core.copies import COPY, TaskCopies, of_task
from schedulers.core.decisions import Commit, Copy, Place, Preempt
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import (
    ClaimRefused,
    ContainerAdopted,
    ContainerEnded,
    ContainerExpired,
    ContainerStarted,
    CopyAsked,
    NodeLost,
)
from schedulers.core.live import GRANTED, IDLE, MOVING, RUNNING, ContainerState, JobState, StageState
from schedulers.core.nodes import ClusterNodes
from schedulers.core.resources import Vector
from schedulers.core.work import Work

if TYPE_CHECKING:
    from schedulers.core.reservations import Reservations

#: Exit code of a container that went down with its node (YARN's ABORTED).
ABORTED: Final = -100


class Containers:
    """The containers of one cluster: room held on nodes, task and account of each."""

    __slots__ = (
        "_admission",
        "_copies",
        "_counts",
        "_jobs",
        "_nodes",
        "_queues",
        "_recheck_reason",
        "_sizes",
        "_touch",
        "_work",
        "by_number",
        "idle",
        "moving",
        "reservations",
        "used",
    )

    def __init__(self, nodes: ClusterNodes, work: Work, copies: TaskCopies) -> None:
        self._nodes, self._work, self._copies = nodes, work, copies
        self._jobs, self._sizes, self._admission = work.jobs, work.sizes, work.admission
        self._queues, self._counts = work.tree.queues, work.counts
        self._touch, self._recheck_reason = work.touch, work.recheck_reason
        self.by_number: dict[int, ContainerState] = {}
        """All of them."""
        self.idle: dict[int, ContainerState] = {}
        """Executors between tasks; from `by_number`, in the order of becoming idle."""
        self.moving: dict[int, ContainerState] = {}
        """Executors travelling to jobs without a task for them yet; from `by_number`."""
        self.used: list[int] = [0] * len(nodes.capacity)
        """Held by containers; from `by_number`."""
        self.reservations: Reservations | None = None
        """See ClusterState."""

    def describe(self, number: int) -> str:
        """A description of a container, for messages."""
        there = self.by_number.get(number)
        return there.description if there is not None else f"container {number} (unknown: never granted, or over)"

    # -- containers begin -----------------------------------------------------------------------

    def place(self, decision: Place, now: int) -> None:
        """A task starts in a container of its own."""
        job = self._jobs[decision.job]
        stage = job.stages[decision.stage]
        self.check_room(decision, job, stage)
        self._hold(decision, job, stage, now)

    def adopted(self, event: ContainerAdopted) -> str | None:
        """Take in a container decided on by another scheduler: limits and room do not stop an existing container."""
        job = self._jobs.get(event.job)
        if job is None or event.node not in self._nodes.by_id:
            return "unknown"
        if event.container < self._counts.next_container:
            return "duplicate"
        if not 0 <= event.stage < len(job.stages):
            raise InvalidTransition(f"job {job.id} has stages 0 to {len(job.stages) - 1}, not {event.stage}")
        stage = job.stages[event.stage]
        if not self._work.enter(job, stage, event.task):
            return "late"
        attempt = stage.attempts.get(event.task, 0)
        place = Place(event.container, event.node, job.id, stage.index, event.task, attempt)
        self._hold(place, job, stage, event.at)
        self._recheck_reason(job.id)
        return None

    def copy_asked(self, event: CopyAsked) -> str | None:
        """Let one more container of a task under way wait."""
        job = self._jobs.get(event.job)
        if job is None or job.cancelled:
            return "late"
        spec = job.spec.stages[event.stage] if 0 <= event.stage < len(job.stages) else None
        if spec is None or spec.gang or spec.master:
            raise InvalidTransition(f"job {job.id} has no stage {event.stage} whose tasks run twice")
        stage = job.stages[event.stage]
        there = of_task(self.by_number, job, stage, event.task)
        if event.task in stage.copies or len(there) > 1:
            return "duplicate"
        if not there or there[0].copy:
            return "late"  # the task has ended
        self._work.ask_copy(job, stage, event.task, (there[0].node, *event.apart))
        return None

    def copy(self, decision: Copy, now: int) -> None:
        """Start another container for a task under way or done."""
        job, copies = self._jobs[decision.job], self._copies
        stage = job.stages[decision.stage]
        if not copies.allows(self.by_number, job, stage, decision.task, decision.node):
            raise InvalidTransition(
                f"no copy of task {job.id}/{stage.index}/{decision.task} may be made on {decision.node}"
            )
        self.check_room(decision, job, stage)
        number, task, attempt = decision.container, decision.task, decision.attempt
        copy = ContainerState(
            number, decision.node, job.id, stage.index, task, attempt, False, stage.size, now, copy=True
        )
        asked = task in stage.copies
        if asked:
            self._work.end_ask(job, stage, task)
        self.occupy(copy, job, stage.demand)
        copies.add(copy, self.by_number)
        if asked and self.reservations is not None:
            self.reservations.task_started(job, stage, now)

    def check_room(self, decision: Place | Copy | Commit, job: JobState, stage: StageState) -> None:
        """Raises InvalidTransition when the node has no room for a new container, or a limit is in its way."""
        node = self._nodes.by_id[decision.node]
        if not node.fits(stage):
            raise InvalidTransition(
                f"node {node.id} has {node.free} free, container {decision.container} needs {stage.demand}"
            )
        if stage.size in self._sizes.bounds and not self._sizes.admits(stage.size):
            raise InvalidTransition(f"container {decision.container} of job {job.id} would exceed a limit of its queue")

    def _hold(self, decision: Place, job: JobState, stage: StageState, now: int) -> None:
        """Register a new container with its room."""
        # First of all, because `launch` refuses a task that does not wait, before anything has changed.
        pilot = self._work.launch(job, stage, decision.task)
        number, task, attempt = decision.container, decision.task, decision.attempt
        self.occupy(
            ContainerState(number, decision.node, job.id, stage.index, task, attempt, pilot, stage.size, now),
            job,
            stage.demand,
        )
        job.running += 1
        stage.running += 1
        # After the task counts as running, because a reservation ends with the first start.
        if self.reservations is not None:
            self.reservations.task_started(job, stage, now)

    def occupy(self, container: ContainerState, job: JobState, demand: Vector) -> None:
        """A new container takes its room on its node."""
        number, node, counts = container.id, self._nodes.by_id[container.node], self._counts
        self.by_number[number] = container
        if self._queues:
            self._admission.charge(number, job, demand)
        # An adopted container brings a number of its own, above every earlier number.
        if number >= counts.next_container:
            counts.next_container = number + 1
        node.containers[number] = None
        # Three sums in one loop, bound to locals: every task comes through here, and vectors have two or three entries.
        free, used, held = node.free, self.used, job.used
        for r, amount in enumerate(demand):
            free[r] -= amount
            used[r] += amount
            held[r] += amount
        job.executors += 1
        counts.version += 1
        self._sizes.room_changed(node, less=True)

    def started(self, event: ContainerStarted) -> str | None:
        """Note the start of a container's task, or the arrival of an executor at its job."""
        container = self.by_number.get(event.container)
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
        job = self._jobs[container.job]
        job.started += 1
        job.started_sum += event.at
        self._touch(container.job)
        return None

    def _arrive(self, container: ContainerState) -> None:
        del self.moving[container.id]
        self.idle[container.id] = container
        container.status = IDLE
        self._touch(container.job)
        self._counts.version += 1

    # -- containers end -------------------------------------------------------------------------

    def ended(self, event: ContainerEnded) -> str | None:
        """A container is over, well (code 0) or not."""
        container = self.by_number.get(event.container)
        if container is None:
            return "late"
        self.end(container, event.code, event.runtime_ms, event.at)
        return None

    def expired(self, event: ContainerExpired) -> str | None:
        """Take back a granted container not started in time."""
        container = self.by_number.get(event.container)
        if container is None or container.status != GRANTED:
            return "late"
        self.end(container, ABORTED, 0, event.at)
        return None

    def refused(self, event: ClaimRefused) -> str | None:
        """Undo a granted container claimed by others first: its task was not begun."""
        container = self.by_number.get(event.container)
        if container is None or container.status != GRANTED:
            return "late"
        self.end(container, ABORTED, 0, event.at)
        job = self._jobs.get(container.job)
        if job is not None:
            attempts = job.stages[container.stage].attempts
            # `end` counted one attempt more, but a refused task was never begun.
            attempts[container.task] = container.attempt
            if not container.attempt:
                del attempts[container.task]
        return None

    def node_lost(self, event: NodeLost) -> str | None:
        """Remove a lost node together with its containers."""
        node = self._nodes.by_id.get(event.node)
        if node is None:
            return "unknown"
        node.draining = False  # so that the end of its last container does not remove the node too early
        # By number: the order must not depend on the way to this state (a log, a snapshot).
        for number in sorted(node.containers):
            self.end(self.by_number[number], ABORTED, 0, event.at)
        self._nodes.forget(node)
        return None

    def preempt(self, decision: Preempt, now: int) -> None:
        """Order the end of a container; the room stays held until the end is heard."""
        if decision.container not in self.by_number:
            raise InvalidTransition(f"{self.describe(decision.container)}: not there to be preempted")
        # Remembered, so that no copy is ordered to end twice.
        if decision.rule == COPY:
            self._copies.leaving[decision.container] = None

    def end(self, container: ContainerState, code: int, runtime_ms: int, now: int) -> None:
        """Remove an ended container: give back its room, and count or requeue its task."""
        node = self._nodes.by_id[container.node]
        job = self._jobs.get(container.job)
        # Removed first: the code below must see only the containers left.
        del node.containers[container.id], self.by_number[container.id]
        free, used = node.free, self.used
        # A container may outlive its job (a copy, an idle executor); the throw-away vector spares the loop a branch.
        held = job.used if job is not None else [0] * len(used)
        demand = self._sizes.demands[container.size]
        for r, amount in enumerate(demand):
            free[r] += amount
            used[r] -= amount
            held[r] -= amount
        self._counts.version += 1
        self._sizes.room_changed(node)
        if self._queues and self._admission.discharge(container.id, demand):
            self._sizes.limits_changed()
        if job is not None:
            job.executors -= 1
            self._touch(container.job)
        if container.status == IDLE:
            del self.idle[container.id]
        elif container.status == MOVING:
            del self.moving[container.id]
        elif self._copies.live and not self._copies.settle(container, job, self.by_number, succeeded=code == 0):
            if code == 0 and job is not None and job.stages[container.stage].outputs is not None:
                job.stages[container.stage].add_output(
                    container.task, container.node, container.ended_at(runtime_ms, now)
                )
        elif job is not None:
            stage = job.stages[container.stage]
            self._work.stop(job, stage, container)
            if code == 0:
                if stage.outputs is not None:
                    stage.add_output(container.task, container.node, container.ended_at(runtime_ms, now))
                self._work.succeed(job, stage, container.task, runtime_ms, node.spec.speed, pilot=container.pilot)
            else:
                self._work.fail(job, stage, container)
        if node.draining and not node.containers:
            self._nodes.forget(node)
