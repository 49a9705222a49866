"""The brain: changes of API objects become facts for the core, its decisions become gate releases.

One `Brain` lives for one term of leadership. It is synchronous and runs on the event loop's thread: `hear`
takes in a change, `cycle` lets the core decide, `filter` answers kube-scheduler. What it wants written goes
to an `Outbox`; nothing here waits for the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec
import structlog

from operators.cache.cache import Cache, Change
from operators.extender.app import FilterAnswer
from operators.extender.jobs import JobEntry, Jobs, plain_entry, plain_id
from operators.extender.ledger import Ledger, Task
from schedulers.core.decisions import Decision, Hold, Place
from schedulers.core.errors import InvalidJob, InvalidQuantity, InvalidQueue
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
    OfferAsked,
    QueueChanged,
    QueueRemoved,
    TaskFound,
    Tick,
)
from schedulers.core.model import PastJob
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ABORTED, GRANTED, ContainerState
from schedulers.objects.dagjob import DagJob
from schedulers.objects.names import DAGJOB_LABEL, SCHEDULER
from schedulers.objects.node import Node, core_node
from schedulers.objects.pod import Pod, demand, unmodelled
from schedulers.objects.queue import Queue, core_queue, unlimited

log = structlog.get_logger()

#: Exit code of a failed pod that does not tell one.
FAILED: Final = 1
#: A run time heard by watch is preferred to the object's own stamps (whole seconds) while both agree this well.
AGREE_MS: Final = 1500


class Outbox(Protocol):
    """What the brain wants written; carried out in the background, in this order per gang."""

    def release(self, pod: Pod, node: str | None) -> None:
        """Drop our gate; with a node, narrow the pod to it."""

    def release_gang(
        self, dagjob: str, stage: str, members: Sequence[tuple[Pod, str | None]], plan: dict[str, str]
    ) -> None:
        """Write the plan {index: node} on the DagJob, then release all members."""

    def wake(self, pod: Pod, node: str) -> None:
        """Make kube-scheduler try a pod without gate again: a node is reserved for it now."""

    def is_pending(self, uid: str) -> bool:
        """Whether something of this pod is still to be written."""

    def past(self, job: PastJob, queue: str) -> None:
        """A job of that queue is done: remember it."""


class Brain:
    """The core with all that ties it to a cluster, for one term of leadership.

    clock: wall clock in ms. After `take_over`, every change has to be given to `hear`.
    """

    def __init__(
        self, scheduler: Scheduler, cache: Cache, outbox: Outbox, *, clock: Callable[[], int], expire_ms: int = 30_000
    ) -> None:
        self.scheduler, self.cache, self.outbox = scheduler, cache, outbox
        self.resources = Resources(scheduler.config.resources)
        self.ledger, self.jobs = Ledger(), Jobs()
        self.dirty = False
        self.begins = True  # until it has taken over; pods are then heard after all nodes
        self.decisions: dict[str, int] = {}
        self._clock, self._expire_ms = clock, expire_ms
        self._orphans: dict[str, dict[str, None]] = {}  # DagJob uid -> keys of pods heard of before it
        self._foreign: dict[str, str] = {}  # pod key -> node on which its use is noted

    # -- facts ----------------------------------------------------------------------------------

    def now(self) -> int:
        """The core's time: the wall clock, never backwards."""
        return max(self.scheduler.state.now, self._clock())

    def tell(self, event: Event) -> list[Decision]:
        """One fact to the core; what it decides is carried out."""
        decisions = self.scheduler.handle(event)
        self.dirty = True
        self.carry_out(decisions)
        return decisions

    def hear(self, change: Change) -> None:
        """An API object was added, changed, or is gone."""
        match change.kind:
            case "Pod":
                self.hear_pod(change.old, change.new)
            case "Node":
                self.hear_node(change.old, change.new)
            case "DagJob":
                self.hear_dagjob(change.old, change.new)
            case "Queue":
                self.hear_queue(change.old, change.new)

    def hear_queue(self, old: Queue | None, new: Queue | None) -> None:
        """A queue was made, changed, or is gone; limits that cannot be read leave it as it was."""
        tree = self.scheduler.state.tree
        if new is None:
            if old is not None and old.metadata.name in tree.queues:
                self.lose_queue(old.metadata.name)
            return
        known = tree.queues.get(new.metadata.name)
        try:
            queue = core_queue(new, self.resources)
        except (InvalidQuantity, InvalidQueue):  # its condition says so
            queue = known or unlimited(new)
        if queue != known or queue.name in tree.removed:
            self.tell(QueueChanged(self.now(), queue))

    def lose_queue(self, name: str) -> None:
        """A queue is gone: jobs that came before go on."""
        if name not in self.scheduler.state.tree.removed:
            self.tell(QueueRemoved(self.now(), name))

    def hear_node(self, old: Node | None, new: Node | None) -> None:
        """A node joined, changed, or is gone with all that ran on it."""
        state = self.scheduler.state
        if new is None:
            if old is not None and old.metadata.name in state.nodes:
                self.lose_node(old.metadata.name)
            return
        node = core_node(new, self.resources)
        there = state.nodes.get(node.id)
        if there is None:
            self.tell(NodeAdded(self.now(), node))
            if not self.begins:
                self._hear_pods_of(node.id)
        elif there.spec != node:
            self.tell(NodeChanged(self.now(), node))

    def lose_node(self, name: str) -> None:
        """A node is gone; its tasks wait again."""
        lost = list(self.scheduler.state.nodes[name].containers)
        self.tell(NodeLost(self.now(), name))
        for container in lost:
            self.ledger.free(container)
        self._foreign = {key: node for key, node in self._foreign.items() if node != name}

    def _hear_pods_of(self, node: str) -> None:
        """Pods may have been heard of before their node."""
        for pod in list(self.cache.pods.values()):
            if pod.spec.nodeName == node:
                self.hear_pod(None, pod)

    # -- jobs -----------------------------------------------------------------------------------

    def hear_dagjob(self, old: DagJob | None, new: DagJob | None) -> None:
        """A DagJob was made, has ended, or is being deleted."""
        if new is None or new.metadata.deletionTimestamp or new.is_over:
            there = new if new is not None else old
            entry = self.jobs.of_owner(there.metadata.uid) if there is not None else None
            if entry is not None:
                # A job that succeeded ends by its own last task; its status may be heard first.
                if new is None or new.metadata.deletionTimestamp or not new.has_succeeded:
                    self.cancel(entry.id)
                if new is None:
                    self.jobs.drop(entry.id)
            return
        if self.jobs.of_owner(new.metadata.uid) is None:
            self.submit(new)

    def submit(self, dagjob: DagJob) -> None:
        """A DagJob that the brain has not met yet; pods that came before it are looked at now."""
        entry = self.jobs.make(dagjob, self.resources, self.now())
        if entry is None:
            return
        self.jobs.add(entry)
        self.tell(JobSubmitted(self.now(), entry.job, asks="asked"))
        for key in self._orphans.pop(dagjob.metadata.uid, ()):
            pod = self.cache.pods.get(key)
            if pod is not None:
                self.hear_pod(None, pod)

    def cancel(self, job: str) -> None:
        """Nothing of the job starts any more; containers that still await a pod are given up."""
        if job in self.scheduler.state.jobs:
            self.tell(JobCancelled(self.now(), job))
        for container in [c for c, uid in self.ledger.containers.items() if uid is None]:
            if self.ledger.tasks[container].job == job:
                self._give_up(container)

    def _give_up(self, container: int) -> None:
        """A grant comes to nothing: nothing has started on it."""
        self.ledger.free(container)
        self.tell(ContainerExpired(self.now(), container))

    # -- pods -----------------------------------------------------------------------------------

    def hear_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was made, changed, or is gone (`old` is then its last state)."""
        pod = new if new is not None else old
        assert pod is not None
        if pod.metadata.labels.get(DAGJOB_LABEL) and pod.owner_uid:
            self._hear_task_pod(pod, gone=new is None)
        elif pod.spec.schedulerName == SCHEDULER:
            self._hear_plain_pod(pod, gone=new is None)
        else:
            self._hear_foreign_pod(pod, gone=new is None)

    def _hear_foreign_pod(self, pod: Pod, *, gone: bool) -> None:
        """Use that is not ours: other schedulers' pods and daemons."""
        node = pod.spec.nodeName
        holds = bool(node) and not gone and not pod.is_terminal
        noted = self._foreign.get(pod.key)
        if noted is not None and (not holds or noted != node):
            del self._foreign[pod.key]
            self.tell(ContainerObserved(self.now(), noted, f"Pod/{pod.key}"))
            noted = None
        if holds and noted is None and node in self.scheduler.state.nodes:
            self._foreign[pod.key] = node
            self.tell(ContainerObserved(self.now(), node, f"Pod/{pod.key}", demand(pod.spec, self.resources)))

    def _hear_plain_pod(self, pod: Pod, *, gone: bool) -> None:
        """A pod that joined by label: a job of one task, which nobody but its owner tries again."""
        entry = self.jobs.of_owner(pod.metadata.uid)
        if entry is None:
            known = plain_id(pod) in self.scheduler.state.jobs
            if not known and (gone or pod.is_terminal or not (pod.is_gated or pod.spec.nodeName)):
                return  # over, or without gate and not placed: kube-scheduler will ask
            entry = self.submit_plain(pod)
        if gone or (pod.is_terminal and pod.exit_code != 0):
            self.cancel(entry.id)
        self._hear_pod_of(entry, Task(entry.id, 0, 0), pod, gone=gone)
        if gone:
            self.jobs.drop(entry.id)

    def submit_plain(self, pod: Pod) -> JobEntry:
        """A joining pod as a job of its own."""
        entry = self.jobs.add(plain_entry(pod, self.resources, self.now()))
        self.tell(JobSubmitted(self.now(), entry.job))
        return entry

    def _hear_task_pod(self, pod: Pod, *, gone: bool) -> None:
        entry = self.jobs.of_owner(pod.owner_uid)
        if entry is None:
            waiting = self._orphans.setdefault(pod.owner_uid, {})
            if gone:
                waiting.pop(pod.key, None)
            else:
                waiting[pod.key] = None
            return
        task = entry.task(pod)
        if task is None:
            log.warning("a pod names no task of its DagJob and is left alone", pod=pod.key)
            return
        self._hear_pod_of(entry, task, pod, gone=gone)

    def _hear_pod_of(self, entry: JobEntry, task: Task, pod: Pod, *, gone: bool) -> None:
        uid = pod.metadata.uid
        if gone:
            if pod.is_terminal and uid in self.ledger.pods:
                self._pod_ended(entry, task, pod)
            self._pod_gone(uid)
            return
        self.ledger.put(uid, pod.key, task, pod.attempt)
        self._ask(entry, task, pod)
        if pod.is_terminal:
            self._pod_ended(entry, task, pod)
        elif pod.is_gated:
            self._pod_waits(task, pod)
        elif pod.spec.nodeName:
            self._pod_bound(task, pod)
        elif pod.narrowed_to:
            self._pod_narrowed(task, pod, pod.narrowed_to)

    def _ask(self, entry: JobEntry, task: Task, pod: Pod) -> None:
        """A stage may start once all its pods are there (or, after a change of leaders, if any of them has started)."""
        if entry.is_asked(task.stage):
            return
        if entry.saw(task.stage, task.number) or not pod.is_gated:
            self._open(entry, task.stage)

    def _open(self, entry: JobEntry, stage: int) -> None:
        if not entry.is_asked(stage):
            entry.asked(stage)
            if not entry.plain:
                self.tell(JobChanged(self.now(), entry.id, (stage,)))

    def _pod_waits(self, task: Task, pod: Pod) -> None:
        container = self.ledger.awaiting(task)
        if container is not None and not pod.metadata.deletionTimestamp and self.ledger.is_current(pod.metadata.uid):
            self.ledger.assign(container, pod.metadata.uid)
            self._release(pod, self.scheduler.state.containers[container].node)

    def _pod_narrowed(self, task: Task, pod: Pod, node: str) -> None:
        """Narrowing is one-way: what holds is the node in the pod, whoever decided it."""
        container = self._container(self.ledger.pods[pod.metadata.uid].container)
        if container is not None and container.node != node:
            self.end(container.id)
            container = None
        if container is None:
            self._adopt(task, pod, node)

    def _pod_bound(self, task: Task, pod: Pod) -> None:
        there = self.ledger.pods[pod.metadata.uid]
        container = self._container(there.container)
        if container is not None and container.node != pod.spec.nodeName:
            log.warning(
                "a pod is on another node than decided", pod=pod.key, node=pod.spec.nodeName, not_on=container.node
            )
            self.end(container.id)
            container = None
        if container is None:
            container = self._adopt(task, pod, pod.spec.nodeName)
        if container is not None and container.status == GRANTED and pod.is_running:
            there.started = self.now()
            self.tell(ContainerStarted(there.started, container.id))

    def _pod_ended(self, entry: JobEntry, task: Task, pod: Pod) -> None:
        there = self.ledger.pods[pod.metadata.uid]
        if there.ended:
            return
        there.ended = True
        container, code = self._container(there.container), pod.exit_code
        if container is None and code == 0:  # granted before its pod was known, by us or in the snapshot
            container = self._container(self.ledger.awaiting(task))
            if container is not None:
                self.ledger.assign(container.id, pod.metadata.uid)
        runtime = self._runtime(there.started, pod)
        if code == 0:
            entry.ran(task.stage, runtime)
        if container is None:
            if code == 0:
                self.tell(TaskFound(self.now(), task.job, task.stage, task.number, runtime))
        else:
            if container.status == GRANTED and code == 0:
                self.tell(ContainerStarted(self.now(), container.id))
            self.end(container.id, code if code is not None else FAILED, runtime if code == 0 else 0)
        self._remember(entry)

    def hear_done(self, entry: JobEntry, stage: int, numbers: Iterable[int]) -> None:
        """Tasks that have succeeded, as their job's status remembers; who has heard it of their pods hears nothing new.

        How long they took is not remembered, so it is taken from others of their stage.
        """
        for number in numbers:
            job = self.scheduler.state.jobs.get(entry.id)
            if job is None or not job.stages[stage].is_waiting(number):
                continue
            self._open(entry, stage)
            self.tell(TaskFound(self.now(), entry.id, stage, number, entry.mean_ms(stage)))

    def _pod_gone(self, uid: str) -> None:
        there = self.ledger.drop(uid)
        container = self._container(there.container) if there is not None else None
        if container is not None:
            self.end(container.id)

    def end(self, container: int, code: int = ABORTED, runtime_ms: int = 0) -> None:
        """A container is over; by default because its pod is gone."""
        self.ledger.free(container)
        self.tell(ContainerEnded(self.now(), container, code, runtime_ms))

    def _adopt(self, task: Task, pod: Pod, node: str) -> ContainerState | None:
        """A pod that has its place by somebody else's decision: an earlier leader's, or a user's own hand."""
        number = self.scheduler.state.next_container
        self.tell(ContainerAdopted(self.now(), number, node, task.job, task.stage, task.number))
        container = self._container(number)
        if container is not None:
            self.ledger.grant(number, task)
            self.ledger.assign(number, pod.metadata.uid)
        return container

    def _container(self, number: int | None) -> ContainerState | None:
        return None if number is None else self.scheduler.state.containers.get(number)

    def _runtime(self, heard_start: int, pod: Pod) -> int:
        """How long the pod ran: as heard, unless the object's own stamps tell something else (we were away)."""
        start, finish = pod.started_ms, pod.finished_ms
        stamped = finish - start if start is not None and finish is not None else None
        heard = self.now() - heard_start if heard_start >= 0 else None
        if stamped is None:
            return max(0, heard or 0)
        if heard is not None and abs(heard - stamped) <= AGREE_MS:
            return heard
        return max(0, stamped)

    def _remember(self, entry: JobEntry) -> None:
        """Hand a finished job to history."""
        if not entry.done and entry.id not in self.scheduler.state.jobs and entry.all_ran:
            entry.done = True
            self.outbox.past(entry.past(self.now()), entry.job.queue)

    # -- decisions ------------------------------------------------------------------------------

    def cycle(self) -> None:
        """Let the core decide over all nodes, if anything has changed."""
        if self.dirty:
            self.dirty = False
            self.carry_out(self.scheduler.handle(Tick(self.now())))  # which may tell facts, so another one is due

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        """Turn decisions into releases; gangs go out as a whole, after their plan."""
        gangs: dict[tuple[str, int], list[Place]] = {}
        for decision in decisions:
            kind = type(decision).__name__
            self.decisions[kind] = self.decisions.get(kind, 0) + 1
            if isinstance(decision, Place):
                task = Task(decision.job, decision.stage, decision.task)
                self.ledger.grant(decision.container, task)
                entry = self.jobs.get(task.job)
                if entry is not None and entry.job.stages[task.stage].gang:
                    gangs.setdefault((task.job, task.stage), []).append(decision)
                else:
                    self._place(task, decision.container, decision.node)
            elif isinstance(decision, Hold):
                self.jobs.hold(decision.job, decision.reason)
        for (job, stage), places in gangs.items():
            self._place_gang(job, stage, places)

    def _place(self, task: Task, container: int, node: str) -> None:
        pod = self._waiting_pod(task)
        if pod is not None:
            self.ledger.assign(container, pod.metadata.uid)
            self._release(pod, node)
            return
        uid = self.ledger.current.get(task)
        entry = self.ledger.pods.get(uid) if uid is not None else None
        done = self.cache.pods.get(entry.key) if entry is not None else None
        if done is not None and done.metadata.uid == uid and done.exit_code == 0:
            log.error("a task that has succeeded was decided on again", pod=done.key)
            self.tell(ContainerStarted(self.now(), container))
            self.end(container, 0, self._runtime(-1, done))

    def know_foreign(self) -> None:
        """After a restore: what the core holds for others, so that what has ended meanwhile is noticed."""
        for node in self.scheduler.state.nodes.values():
            self._foreign |= dict.fromkeys((name.removeprefix("Pod/") for name in node.foreign), node.id)
        for key in [key for key in self._foreign if key not in self.cache.pods]:
            self.tell(ContainerObserved(self.now(), self._foreign.pop(key), f"Pod/{key}"))

    def place_as_planned(self, task: Task, node: str) -> None:
        """A task of a gang that has partly started goes where the plan says, if there is still room."""
        pod, state = self._waiting_pod(task), self.scheduler.state
        there = state.nodes.get(node)
        if pod is None or there is None or not there.fits(state.jobs[task.job].stages[task.stage]):
            return
        if self._adopt(task, pod, node) is not None:
            self._release(pod, node)

    def _waiting_pod(self, task: Task) -> Pod | None:
        """The task's pod, if it is there and still waits."""
        uid = self.ledger.current.get(task)
        entry = self.ledger.pods.get(uid) if uid is not None else None
        pod = self.cache.pods.get(entry.key) if entry is not None else None
        if pod is None or pod.metadata.uid != uid or pod.metadata.deletionTimestamp or pod.is_terminal:
            return None
        return pod if not pod.spec.nodeName else None

    def _release(self, pod: Pod, node: str) -> None:
        """Open the gate, or wake kube-scheduler for a pod that has none."""
        if pod.is_gated:
            self.outbox.release(pod, self._narrow(pod, node))
        else:
            self.outbox.wake(pod, node)

    def _narrow(self, pod: Pod, node: str) -> str | None:
        """Narrowing is one-way: only pods that we own, and only if the core knows all their constraints."""
        ours = DAGJOB_LABEL in pod.metadata.labels
        return node if ours and unmodelled(pod.spec, self.resources) is None else None

    def _place_gang(self, job: str, stage: int, places: list[Place]) -> None:
        entry = self.jobs.get(job)
        assert entry is not None
        members = []
        for place in places:
            pod = self._waiting_pod(Task(job, stage, place.task))
            if pod is not None:
                self.ledger.assign(place.container, pod.metadata.uid)
                members.append((pod, self._narrow(pod, place.node)))
        plan = {str(place.task): place.node for place in places}
        self.outbox.release_gang(entry.key, entry.job.stages[stage].name, members, plan)

    # -- time-outs ------------------------------------------------------------------------------

    def expire(self) -> None:
        """Give up grants whose pod has not come, and repeat releases that have not been seen to work."""
        limit = self.now() - self._expire_ms
        state = self.scheduler.state
        for number, uid in list(self.ledger.containers.items()):
            container = state.containers.get(number)
            if container is None:
                self.ledger.free(number)
            elif uid is not None and not self._is_there(uid):
                log.error("a container outlived its pod", container=state.story(number))
                self.end(number)
            elif container.status == GRANTED and container.granted < limit:
                self._expire(container, uid)

    def _is_there(self, uid: str) -> bool:
        entry = self.ledger.pods.get(uid)
        pod = self.cache.pods.get(entry.key) if entry is not None else None
        return pod is not None and pod.metadata.uid == uid

    def _expire(self, container: ContainerState, uid: str | None) -> None:
        entry = self.ledger.pods.get(uid) if uid is not None else None
        pod = self.cache.pods.get(entry.key) if entry is not None else None
        if pod is None or pod.metadata.uid != uid:
            self._give_up(container.id)
        elif self.outbox.is_pending(uid):
            return  # the API server is slow or away; its patch still comes
        elif pod.is_gated or (not pod.spec.nodeName and not pod.narrowed_to):
            log.warning("a release did not take effect and is taken back", pod=pod.key, node=container.node)
            self._give_up(container.id)

    # -- the extender ---------------------------------------------------------------------------

    def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        """Which of these nodes the pod may be bound to: the one that is reserved for it, or one chosen now."""
        uid = pod.metadata.uid
        there = self.ledger.pods.get(uid)
        container = self._container(there.container) if there is not None else None
        if container is not None and container.node in set(nodes):
            return _only(container.node)
        if pod.metadata.labels.get(DAGJOB_LABEL):
            return self._filter_task(pod, nodes, container)
        if container is not None:
            self._give_up(container.id)  # kube-scheduler rules its node out: choose again among these
        return self._filter_plain(pod, nodes)

    def _filter_task(self, pod: Pod, nodes: Sequence[str], container: ContainerState | None) -> FilterAnswer:
        if container is not None:
            return _none(nodes, f"reserved on {container.node}, which kube-scheduler rules out")
        entry = self.jobs.of_owner(pod.owner_uid)
        task = entry.task(pod) if entry is not None else None
        if entry is None or task is None:
            return FilterAnswer([], {}, {}, f"the DagJob of pod {pod.key} is not known yet; try again")
        self.ledger.put(pod.metadata.uid, pod.key, task, pod.attempt)
        self._ask(entry, task, pod)
        job = self.scheduler.state.jobs.get(task.job)
        state = self.scheduler.state
        if job is not None:
            for name in nodes:
                if name in state.nodes and state.nodes[name].fits(job.stages[task.stage]):
                    if self._adopt(task, pod, name) is not None:
                        return _only(name)
                    break
        return _none(nodes, "its gate was removed by somebody else, and there is no room for it")

    def _filter_plain(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        entry = self.jobs.of_owner(pod.metadata.uid)
        if entry is None:
            try:
                entry = self.submit_plain(pod)
            except InvalidJob as error:
                return _none(nodes, str(error))
        task = Task(entry.id, 0, 0)
        self.ledger.put(pod.metadata.uid, pod.key, task, 0)
        awaited = self._container(self.ledger.awaiting(task))
        if awaited is not None:  # decided before the pod was heard of
            if awaited.node in set(nodes):
                self.ledger.assign(awaited.id, pod.metadata.uid)
                return _only(awaited.node)
            self._give_up(awaited.id)
        everywhere = len(nodes) == len(self.scheduler.state.nodes)
        decisions = self.scheduler.handle(OfferAsked(self.now(), entry.id, 0, None if everywhere else tuple(nodes)))
        for decision in decisions:
            if isinstance(decision, Place):
                self.ledger.grant(decision.container, task)
                self.ledger.assign(decision.container, pod.metadata.uid)
                return _only(decision.node)
        self.carry_out(decisions)
        return self._refuse(entry, nodes)

    def _refuse(self, entry: JobEntry, nodes: Sequence[str]) -> FilterAnswer:
        """Say of every node why not."""
        job = self.scheduler.state.jobs.get(entry.id)
        if job is None:
            return _none(nodes, "the pod is over")
        said = self.scheduler.why_not(job.stages[0], nodes)
        # Labels and taints are no matter of preemption; lack of room is.
        final = {name: text for name, text in said.items() if text.startswith(("taint", "node labels", "too small"))}
        return FilterAnswer([], {name: text for name, text in said.items() if name not in final}, final)

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """10 for the reserved node; a node that is not named scores 0."""
        there = self.ledger.pods.get(pod.metadata.uid)
        container = self._container(there.container) if there is not None else None
        return [(container.node, 10)] if container is not None and container.node in set(nodes) else []

    def preempt(self, pod: Pod, victims: dict[str, tuple[list[str], int]]) -> dict[str, tuple[list[str], int]]:
        """Where kube-scheduler may preempt: only on the reserved node, if there is one."""
        there = self.ledger.pods.get(pod.metadata.uid)
        container = self._container(there.container) if there is not None else None
        if container is None:
            return victims
        return {name: found for name, found in victims.items() if name == container.node}

    # -- memory ---------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The core's snapshot, and which pod has which container (msgpack of `Saved`)."""
        return msgspec.msgpack.encode(Saved(self.scheduler.snapshot(), self.ledger.dump()))


class Saved(msgspec.Struct):
    """What `Brain.snapshot` wrote. pods: container -> uid of its pod."""

    core: bytes
    pods: dict[int, str]


def _only(node: str) -> FilterAnswer:
    """The chosen node. The others are not refused, so nothing is said of them: nobody would ever see it."""
    return FilterAnswer([node])


def _none(nodes: Sequence[str], why: str) -> FilterAnswer:
    return FilterAnswer([], {}, dict.fromkeys(nodes, why))
