"""The core's decisions, turned into releases of pods; the core's containers are kept in step with the pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import structlog

from operators import metrics
from operators.cache.cache import Cache
from operators.extender.backoffs import Stage, StageBackoffs
from operators.extender.jobs import Jobs
from operators.extender.ledger import Ledger, Task, runtime_ms
from operators.extender.releases import ReleaseWriter
from schedulers.core.decisions import Decision, Hold, Place
from schedulers.core.events import (
    ContainerAdopted,
    ContainerEnded,
    ContainerExpired,
    ContainerStarted,
    Event,
    JobChanged,
    StageWithdrawn,
    Tick,
)
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ABORTED, GRANTED, ContainerState
from schedulers.objects.pod import Pod, unmodelled

log = structlog.get_logger()

#: How long room is kept for a pod that kube-scheduler could not bind before: a second refusal need not be told.
DOUBTFUL_MS: Final = 5_000


class CoreDriver:
    """The core, told of facts, with the ledger and the writer of releases for its decisions.

    `clock` is the wall clock in ms; after `expire_ms` without its pod a grant is given up.
    """

    def __init__(
        self, scheduler: Scheduler, cache: Cache, releases: ReleaseWriter, *, clock: Callable[[], int], expire_ms: int
    ) -> None:
        self.scheduler, self.cache, self.releases = scheduler, cache, releases
        self.resources = Resources(scheduler.config.resources)
        self.ledger, self.jobs = Ledger(), Jobs()
        self.backoffs = StageBackoffs(self._withdraw, self._ask)
        self.dirty = False
        """Whether a fact was told since the last cycle."""
        self._due: int | None = None
        self._clock, self._expire_ms = clock, expire_ms

    def now(self) -> int:
        """The core's time: the wall clock, never backwards."""
        return max(self.scheduler.state.now, self._clock())

    def tell(self, event: Event) -> list[Decision]:
        """Tell the core one fact, and carry out the decisions that follow."""
        # Before the decisions are carried out: carrying out may tell further facts.
        decisions = self.scheduler.handle(event)
        self.dirty = True
        self.carry_out(decisions)
        return decisions

    def cycle(self) -> None:
        """Let the core decide over all nodes, if anything has changed or time alone changes the decisions."""
        if self.dirty or self.pause_ms() == 0:
            # Cleared before the decision: a fact told on the way asks for another cycle.
            self.dirty = False
            self.carry_out(self.scheduler.handle(Tick(self.now())))  # may tell facts, and another cycle is then due
            self._due = self.scheduler.next_change()

    def pause_ms(self) -> int | None:
        """Milliseconds for which nothing is decided unless something changes; None: for ever."""
        return None if self._due is None else max(0, self._due - self._clock())

    def carry_out(self, decisions: Iterable[Decision], *, asking: str | None = None) -> None:
        """Turn decisions into releases; gangs go out as a whole, after their plan.

        `asking` is the uid of a pod in question at kube-scheduler now: the pod's place is the answer, and nothing is
        written.
        """
        gangs: dict[tuple[str, int], list[Place]] = {}
        for decision in decisions:
            metrics.DECISIONS.labels(type(decision).__name__).inc()
            if isinstance(decision, Place):
                task = Task(decision.job, decision.stage, decision.task)
                self.ledger.grant(decision.container, task)
                entry = self.jobs.get(task.job)
                if entry is not None and entry.job.stages[task.stage].gang:
                    gangs.setdefault((task.job, task.stage), []).append(decision)
                elif asking is not None and self.ledger.current.get(task) == asking:
                    self.ledger.assign(decision.container, asking)
                else:
                    self._place(task, decision.container, decision.node)
            elif isinstance(decision, Hold):
                self.jobs.hold(decision.job, decision.reason)
        # Gangs come last: a plan is written once, with all places of this round.
        for (job, stage), places in gangs.items():
            self._place_gang(job, stage, places)

    def _place(self, task: Task, container: int, node: str) -> None:
        pod = self._waiting_pod(task)
        if pod is not None:
            self.ledger.assign(container, pod.metadata.uid)
            self.release(pod, node)
            return
        done = self._pod(self.ledger.current.get(task))
        # A success that the core missed is told now, or the same task would be decided on for ever.
        if done is not None and done.exit_code == 0:
            log.error("a task that has succeeded was decided on again", pod=done.key)
            self.tell(ContainerStarted(self.now(), container))
            self.end(container, 0, runtime_ms(-1, done, self.now()))

    def _place_gang(self, job: str, stage: int, places: list[Place]) -> None:
        entry = self.jobs.get(job)
        assert entry is not None
        members = []
        for place in places:
            pod = self._waiting_pod(Task(job, stage, place.task))
            if pod is not None:
                self.ledger.assign(place.container, pod.metadata.uid)
                members.append((pod, self._narrow(pod, place.node)))
        plan = None if entry.is_pod_group else {str(place.task): place.node for place in places}
        self.releases.release_gang(entry.key, entry.job.stages[stage].name, members, plan)

    def _waiting_pod(self, task: Task) -> Pod | None:
        """The task's pod, if there and still waiting."""
        pod = self._pod(self.ledger.current.get(task))
        if pod is None or pod.metadata.deletionTimestamp or pod.is_terminal or pod.spec.nodeName:
            return None
        return pod

    def _pod(self, uid: str | None) -> Pod | None:
        """The pod of a uid as last heard of, while the pod is there."""
        entry = self.ledger.pods.get(uid) if uid is not None else None
        pod = self.cache.pods.get(entry.key) if entry is not None else None
        return pod if pod is not None and pod.metadata.uid == uid else None

    def release(self, pod: Pod, node: str) -> None:
        """Open the gate, or wake kube-scheduler for a pod that has none."""
        if pod.is_gated:
            self.releases.release(pod, self._narrow(pod, node))
        else:
            self.releases.wake(pod, node)

    def _narrow(self, pod: Pod, node: str) -> str | None:
        """Narrowing is one-way: only our own pods, and only if the core knows all their constraints."""
        return node if pod.dagjob_uid and unmodelled(pod.spec, self.resources) is None else None

    def place_as_planned(self, task: Task, node: str) -> None:
        """A task of a partly started gang goes where the plan says, if there is still room."""
        pod, state = self._waiting_pod(task), self.scheduler.state
        planned = state.nodes.get(node)
        if pod is None or planned is None or not planned.fits(state.jobs[task.job].stages[task.stage]):
            return
        if self.adopt(task, pod, node) is not None:
            self.release(pod, node)

    # -- containers -----------------------------------------------------------------------------

    def container(self, number: int | None) -> ContainerState | None:
        """The live container of a number, if any."""
        return None if number is None else self.scheduler.state.containers.get(number)

    def container_of(self, uid: str) -> ContainerState | None:
        """The container held for the pod of a uid."""
        entry = self.ledger.pods.get(uid)
        return self.container(entry.container) if entry is not None else None

    def end(self, container: int, code: int = ABORTED, runtime_ms: int = 0) -> None:
        """A container is over; by default because its pod is gone."""
        self.ledger.free(container)
        self.tell(ContainerEnded(self.now(), container, code, runtime_ms))

    def _ask(self, stage: Stage) -> None:
        """A stage may start (again), unless the core knows so already."""
        job = self.scheduler.state.jobs.get(stage[0])
        if job is not None and not job.cancelled and not job.stages[stage[1]].asked:
            self.tell(JobChanged(self.now(), job.id, (stage[1],)))

    def _withdraw(self, stage: Stage) -> None:
        if stage[0] in self.scheduler.state.jobs:
            self.tell(StageWithdrawn(self.now(), *stage))

    def back_off(self, task: Task, placed: int, why: str) -> None:
        """A pod of the task could not start where placed at time `placed`: the stage waits for a while."""
        self.backoffs.note((task.job, task.stage), why, placed=placed, now=self.now())
        entry = self.jobs.get(task.job)
        if entry is not None:
            self.jobs.to_report[entry.id] = None

    def give_up(self, container: int) -> None:
        """A grant comes to nothing: nothing has started on it."""
        uid = self.ledger.containers.get(container)
        if uid is not None:
            self.releases.stop_waiting(uid)
        self.ledger.free(container)
        self.tell(ContainerExpired(self.now(), container))

    def adopt(self, task: Task, pod: Pod, node: str) -> ContainerState | None:
        """A pod placed by somebody else: an earlier leader, or a user's own hand."""
        self.backoffs.resume((task.job, task.stage), self.now())
        # The number is known in advance: the fact names the container that the core is about to make.
        number = self.scheduler.state.next_container
        self.tell(ContainerAdopted(self.now(), number, node, task.job, task.stage, task.number))
        container = self.container(number)
        if container is not None:
            self.ledger.grant(number, task)
            self.ledger.assign(number, pod.metadata.uid)
        return container

    def expire(self) -> None:
        """Give up grants whose pod has not come, and repeat releases not seen to work.

        A pod may be there unheard of: the time counts from the last break on (see `Hearing`).
        """
        now, heard = self.now(), self.cache.heard_ms() or 0
        # Forgotten first: a stage of a job that is gone must not be asked for.
        self.backoffs.forget(self.scheduler.state.jobs.__contains__)
        self.backoffs.ask_due(now)
        state = self.scheduler.state
        for number, uid in list(self.ledger.containers.items()):
            container = state.containers.get(number)
            if container is None:
                self.ledger.free(number)
            elif uid is not None and self._pod(uid) is None:
                log.error("a container outlived its pod", container=state.describe_container(number))
                self.end(number)
            elif container.status == GRANTED:
                self._expire(container, self._pod(uid), min(now - container.granted, heard))

    def _expire(self, container: ContainerState, pod: Pod | None, waited_ms: int) -> None:
        if pod is not None:
            if self.releases.is_pending(pod.metadata.uid):
                return  # others go before it, or the API server is slow or away; its patch still comes
            released = self.releases.waited_ms(pod.metadata.uid)
            # Room in the window may have come long after the grant: kube-scheduler's time begins with the release.
            waited_ms = waited_ms if released is None else min(waited_ms, released)
        # A narrowed pod has no other node, so a verdict is no reason for haste.
        is_doubtful = pod is not None and pod.verdict is not None and not pod.narrowed_to
        if waited_ms <= (min(DOUBTFUL_MS, self._expire_ms) if is_doubtful else self._expire_ms):
            return
        if pod is None:
            self.give_up(container.id)
        elif pod.is_gated or (not pod.spec.nodeName and not pod.narrowed_to):
            log.warning("a release did not take effect and is taken back", pod=pod.key, node=container.node)
            self.give_up(container.id)
            if not pod.is_gated:
                why = pod.verdict or f"kube-scheduler has not bound it for {self._expire_ms // 1000} s"
                self.back_off(Task(container.job, container.stage, container.task), container.granted, why)
        else:
            self.releases.stop_waiting(
                pod.metadata.uid
            )  # a narrowed pod is bound there or nowhere: others need not wait
