"""What the brain hears: changes of API objects become facts for the core."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from operators.cache.cache import Change
from operators.extender.decisions import Decisions
from operators.extender.jobs import JobEntry, plain_entry, plain_id
from operators.extender.ledger import Task
from operators.extender.taskpods import TaskPods
from schedulers.core.errors import InvalidQuantity, InvalidQueue
from schedulers.core.events import (
    ContainerObserved,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    QueueChanged,
    QueueRemoved,
)
from schedulers.core.model import PastJob
from schedulers.objects.dagjob import DagJob
from schedulers.objects.names import DAGJOB_LABEL, SCHEDULER
from schedulers.objects.node import Node, core_node
from schedulers.objects.pod import Pod, demand
from schedulers.objects.queue import Queue, core_queue, unlimited

log = structlog.get_logger()


class Facts:
    """Tells the core of queues, nodes, jobs and pods.

    remember: told of each finished job and its queue. taking_over: until what was there before has been heard; pods are
    then heard after all nodes.
    """

    def __init__(self, decisions: Decisions, remember: Callable[[PastJob, str], None]) -> None:
        self.scheduler, self.cache, self.resources = decisions.scheduler, decisions.cache, decisions.resources
        self.ledger, self.jobs = decisions.ledger, decisions.jobs
        self.pods = TaskPods(decisions, remember)
        self.taking_over = True
        self.tell, self.now = decisions.tell, decisions.now
        self._decisions = decisions
        self._orphans: dict[str, dict[str, None]] = {}  # DagJob uid -> keys of pods heard of before it
        self._foreign: dict[str, str] = {}  # pod key -> node on which its use is noted

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
            queue = known or unlimited(new, self.resources)
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
        known = state.nodes.get(node.id)
        if known is None:
            self.tell(NodeAdded(self.now(), node))
            if not self.taking_over:
                self._hear_pods_of(node.id)
        elif known.spec != node:
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
            dagjob = new if new is not None else old
            entry = self.jobs.of_owner(dagjob.metadata.uid) if dagjob is not None else None
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
                self._decisions.give_up(container)

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

    def know_foreign(self) -> None:
        """After a restore: what the core holds for others, so that what has ended meanwhile is noticed."""
        for node in self.scheduler.state.nodes.values():
            self._foreign |= dict.fromkeys((name.removeprefix("Pod/") for name in node.foreign), node.id)
        for key in [key for key in self._foreign if key not in self.cache.pods]:
            self.tell(ContainerObserved(self.now(), self._foreign.pop(key), f"Pod/{key}"))

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
        self.pods.hear(entry, Task(entry.id, 0, 0), pod, gone=gone)
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
        self.pods.hear(entry, task, pod, gone=gone)
