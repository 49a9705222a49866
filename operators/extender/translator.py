"""Changes of API objects, turned into facts for the core."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from operators.cache.cache import Change
from operators.extender.driver import CoreDriver
from operators.extender.intake import BROKE_THE_BRAIN, UNREADABLE, Breaks, Broken, Intake, SetAside, item_of
from operators.extender.jobs import JobEntry, plain_entry, plain_id
from operators.extender.ledger import Task
from operators.extender.podgroups import PodGroups
from operators.extender.taskpods import TaskPods
from schedulers.core.errors import InvalidJob, InvalidQuantity, InvalidQueue
from schedulers.core.events import (
    ContainerObserved,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    QueueChanged,
    QueueRemoved,
)
from schedulers.core.model import PastJob
from schedulers.core.resources import Vector
from schedulers.objects.dagjob import DagJob
from schedulers.objects.meta import Meta
from schedulers.objects.names import DEFAULT_QUEUE, SCHEDULER
from schedulers.objects.node import NodeObject, core_node
from schedulers.objects.pod import Pod, demand
from schedulers.objects.podgroup import PodGroup
from schedulers.objects.queue import QueueObject, core_queue, readable

log = structlog.get_logger()


class ChangeTranslator:
    """Tells the core of queues, nodes, jobs and pods.

    `remember` hears of each finished job, `breaks` is explained in `Intake`. With `reserved`, the
    core hears only of nodes with our taint.
    """

    def __init__(
        self,
        driver: CoreDriver,
        remember: Callable[[PastJob], None],
        breaks: Breaks,
        *,
        reserved: bool = False,
    ) -> None:
        self.scheduler, self.cache, self.resources = driver.scheduler, driver.cache, driver.resources
        self.ledger, self.jobs = driver.ledger, driver.jobs
        self.pods = TaskPods(driver, remember)
        self.intake, self._breaks = Intake(driver.cache), breaks
        self.groups = PodGroups(driver, self.intake)
        self.taking_over, self.reserved = True, reserved
        """Whether earlier objects are still being heard; pods are then heard after all nodes."""
        self.tell, self.now = driver.tell, driver.now
        self._driver = driver
        self._orphans: dict[str, dict[str, None]] = {}  # uid of an unknown DagJob -> keys of its pods
        self._foreign: dict[str, tuple[str, Vector]] = {}  # pod key -> node, and the use noted there

    def hear(self, change: Change) -> None:
        """An API object was added, changed, or is gone; a malformed object is set aside.

        Raises Broken when the core, or the code around the core, cannot take the change in: nothing built on the brain
        can be trusted then.
        """
        # One way in for every object, at takeover as later: no object can break the brain unseen.
        item = item_of(change)
        try:
            if change.new is not None:
                self._breaks.check(item)
            self._hear(change)
        except (SetAside, InvalidQuantity, InvalidJob, InvalidQueue) as error:
            why = error if isinstance(error, SetAside) else SetAside(UNREADABLE, str(error))
            self.intake.set_aside(change.kind, item, why)
            if why.reason == BROKE_THE_BRAIN and change.kind == "Pod":
                self._note_use(
                    change.new, gone=False
                )  # the core hears nothing else of the pod, but the pod's room is not free
        except Broken:
            raise  # of another object, heard because of this change
        except Exception as error:
            raise Broken(change, error) from error
        else:
            # Only after success: an object half told stays aside, with its reason.
            self.intake.take(item)

    def _hear(self, change: Change) -> None:
        match change.kind:
            case "Pod":
                self.hear_pod(change.old, change.new)
            case "Node":
                self.hear_node(change.old, change.new)
            case "DagJob":
                self.hear_dagjob(change.old, change.new)
            case "Queue":
                self.hear_queue(change.old, change.new)
                self._look_at_asides()
            case "Namespace":
                self._look_at_asides()
            case "PodGroup":
                self._hear_pod_group(change.old, change.new)

    def _look_at_asides(self) -> None:
        """Jobs waiting for their queue may be let in by the present state of a queue or namespace."""
        for aside in self.intake.waiting_for_queues():
            objects = self.cache.dagjobs if aside.kind == "DagJob" else self.cache.pods
            item = objects.get(aside.meta.key)
            if item is not None:
                self.hear(Change(aside.kind, None, item))

    def hear_queue(self, old: QueueObject | None, new: QueueObject | None) -> None:
        """A queue was made, changed, or is gone; unreadable limits leave the queue as before."""
        tree = self.scheduler.state.tree
        if new is None:
            if old is not None and old.metadata.name in tree.queues:
                self.lose_queue(old.metadata.name)
            return
        known = tree.queues.get(new.metadata.name)
        try:
            queue = core_queue(new, self.resources)
        except (InvalidQuantity, InvalidQueue):  # its condition says so
            queue = known or readable(new, self.resources)
        if queue != known or queue.name in tree.removed:
            self.tell(QueueChanged(self.now(), queue))

    def lose_queue(self, name: str) -> None:
        """A queue is gone: earlier jobs go on. The default queue is always there, with or without an object."""
        tree = self.scheduler.state.tree
        if name == DEFAULT_QUEUE:
            plain = core_queue(QueueObject(Meta(name=name)), self.resources)
            if tree.queues.get(name) != plain or name in tree.removed:
                self.tell(QueueChanged(self.now(), plain))
        elif name not in tree.removed:
            self.tell(QueueRemoved(self.now(), name))

    def hear_node(self, old: NodeObject | None, new: NodeObject | None) -> None:
        """A node joined, changed, or is gone with everything running there."""
        state = self.scheduler.state
        if new is None:
            if old is not None and old.metadata.name in state.nodes:
                self.lose_node(old.metadata.name)
            return
        node = core_node(new, self.resources)
        known = state.nodes.get(node.id)
        if new.speed is None and (old is None or old.said_speed != new.said_speed):
            log.warning(
                "a node's speed is no number from 0.001 to 1000 and counts as 1", node=node.id, speed=new.said_speed
            )
        if self.reserved and not new.is_reserved:
            if known is not None:
                self.tell(NodeRemoved(self.now(), node.id))  # tasks running there go on
        elif known is None:
            # A node of the same name may have gone unheard, with the use noted on it.
            self._forget_use_of(node.id)
            self.tell(NodeAdded(self.now(), node))
            # At takeover every pod is heard after all nodes, in a fixed order.
            if not self.taking_over:
                self._hear_pods_of(node.id)
        elif known.draining:
            self.tell(NodeAdded(self.now(), node))  # back before its last task has ended
        elif known.spec != node:
            self.tell(NodeChanged(self.now(), node))

    def lose_node(self, name: str) -> None:
        """A node is gone; its tasks wait again."""
        # Listed before the core is told: afterwards the node is unknown.
        lost = list(self.scheduler.state.nodes[name].containers)
        self.tell(NodeLost(self.now(), name))
        for container in lost:
            self.ledger.free(container)
        self._forget_use_of(name)

    def _forget_use_of(self, node: str) -> None:
        self._foreign = {key: use for key, use in self._foreign.items() if use[0] != node}

    def _hear_pods_of(self, node: str) -> None:
        """Pods may have been heard of before their node."""
        for pod in list(self.cache.pods.values()):
            if pod.spec.nodeName == node:
                self.hear(Change("Pod", None, pod))

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
        entry = self.jobs.of_owner(new.metadata.uid)
        if entry is None:
            self.submit(new)
        elif old is not None and old.refused != new.refused:
            self.jobs.to_report[entry.id] = None

    def submit(self, dagjob: DagJob) -> None:
        """Submit a DagJob new to the brain, and look at pods that came before their DagJob."""
        entry = self.jobs.make(dagjob, self.resources, self.now())  # raises InvalidJob: `hear` sets the job aside
        if entry.id not in self.scheduler.state.jobs:
            self._check_queue(dagjob)
        self.jobs.add(entry)
        self.tell(JobSubmitted(self.now(), entry.job, asks="asked"))
        for key in self._orphans.pop(dagjob.metadata.uid, ()):
            pod = self.cache.pods.get(key)
            if pod is not None:
                self.hear(Change("Pod", None, pod))

    def pods_kept_back(self, dagjob_uid: str) -> Iterable[str]:
        """Keys of the pods of a DagJob that is not known, or was set aside."""
        return self._orphans.get(dagjob_uid, ())

    def _check_queue(self, dagjob: DagJob) -> None:
        """Raises SetAside for a job to which its queue is closed, unless a pod of the job has been released before."""
        try:
            self.intake.check_queue(dagjob.metadata.namespace, dagjob.spec.queue)
        except SetAside:
            uid = dagjob.metadata.uid
            if not any(pod.dagjob_uid == uid and not pod.is_gated for pod in self.cache.pods.values()):
                raise

    def cancel(self, job: str) -> None:
        """Nothing of the job starts any more; containers still without a pod are given up."""
        if job in self.scheduler.state.jobs:
            self.tell(JobCancelled(self.now(), job))
        for container in [c for c, uid in self.ledger.containers.items() if uid is None]:
            if self.ledger.tasks[container].job == job:
                self._driver.give_up(container)

    # -- pods -----------------------------------------------------------------------------------

    def hear_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod was made, changed, or is gone (`old` is then its last state)."""
        pod = new if new is not None else old
        assert pod is not None
        if pod.dagjob_uid:
            self._hear_task_pod(pod, gone=new is None)
        elif pod.spec.schedulerName == SCHEDULER:
            self._hear_plain_pod(pod, gone=new is None)
        # The fast path: most changes of a pod change neither its node nor its requests.
        if old is None or new is None or old.is_terminal != new.is_terminal or not self._is_accounted(old, new):
            self._note_use(pod, gone=new is None)

    def _is_accounted(self, old: Pod, new: Pod) -> bool:
        """Whether the pod's requests are unchanged and noted, as foreign use or as a container's: the usual case."""
        is_ours = self._driver.container_of(new.metadata.uid) is not None
        return old.spec == new.spec and is_ours != (new.key in self._foreign)

    def _note_use(self, pod: Pod, *, gone: bool) -> None:
        """Resources held by a pod beyond any container of ours count as use by others, whatever the pod's labels."""
        node, noted = pod.spec.nodeName, self._foreign.get(pod.key)
        holds = node in self.scheduler.state.nodes and not gone and not pod.is_terminal
        rest = self._unaccounted(pod) if holds else ()
        if noted is not None and (noted[0] != node or not any(rest)):
            del self._foreign[pod.key]
            self.tell(ContainerObserved(self.now(), noted[0], f"Pod/{pod.key}"))
        if any(rest) and noted != (node, rest):
            self._foreign[pod.key] = node, rest
            self.tell(ContainerObserved(self.now(), node, f"Pod/{pod.key}", rest))

    def _unaccounted(self, pod: Pod) -> Vector:
        asked, container = demand(pod.spec, self.resources), self._driver.container_of(pod.metadata.uid)
        if container is None or container.node != pod.spec.nodeName:
            return asked
        held = self.scheduler.state.sizes.demands[container.size]
        return tuple(max(0, amount - ours) for amount, ours in zip(asked, held, strict=True))

    def know_foreign(self) -> None:
        """After a restore: the core's notes of use by others, so that an end in the meantime is noticed."""
        for node in self.scheduler.state.nodes.values():
            self._foreign |= {name.removeprefix("Pod/"): (node.id, use) for name, use in node.foreign.items()}
        # The keys are listed first, because the dict shrinks on the way.
        for key in [key for key in self._foreign if key not in self.cache.pods]:
            node_id, _ = self._foreign.pop(key)
            self.tell(ContainerObserved(self.now(), node_id, f"Pod/{key}"))

    def _hear_pod_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """A PodGroup is there, so that its pods may start; or is gone, with its job unless pods are left."""
        if new is not None:
            self._hear_members(new.key)
        elif old is not None and ((entry := self.jobs.of_owner(old.metadata.uid)) is None or not entry.members):
            self._end_gang(plain_id(old))

    def _end_gang(self, job: str) -> None:
        self.cancel(job)
        self.jobs.drop(job)

    def _hear_members(self, group: str, but: str = "") -> None:
        for pod in self.groups.pods_of(group):
            if pod.metadata.uid != but:
                self.hear(Change("Pod", None, pod))

    def _hear_plain_pod(self, pod: Pod, *, gone: bool) -> None:
        """A pod that joined by label: a task of its PodGroup's gang, or a job of one task."""
        entry = self.jobs.of_owner(pod.metadata.uid)
        if pod.group_key:
            self.groups.note(pod, gone=gone)
            if entry is None and not gone and (entry := self.groups.join(pod)) is not None:
                # The pods that came before the last, and waited for it.
                self._hear_members(pod.group_key, but=pod.metadata.uid)
        if entry is not None and entry.is_pod_group:
            self._hear_member(entry, pod, gone=gone)
        else:
            self._hear_single_pod(entry, pod, gone=gone)

    def _hear_member(self, entry: JobEntry, pod: Pod, *, gone: bool) -> None:
        """A pod of a gang: another pod that its owner makes takes the place of a failed one."""
        # A failed pod has been heard to its end, and its task may have another pod by now.
        if pod.metadata.uid in entry.failed and not gone:
            return
        task = Task(entry.id, 0, entry.members[pod.metadata.uid])
        self.pods.hear(entry, task, pod, gone=gone)
        is_lost = gone or (pod.is_terminal and pod.exit_code != 0)
        if is_lost and self.groups.lose(entry, pod, gone=gone):
            self._end_gang(entry.id)

    def _hear_single_pod(self, entry: JobEntry | None, pod: Pod, *, gone: bool) -> None:
        """A pod as a job of one task, tried again by nobody but its owner."""
        if entry is None:
            known = plain_id(pod) in self.scheduler.state.jobs
            if not known and (gone or pod.is_terminal or not (pod.is_gated or pod.spec.nodeName)):
                return  # over, or without gate and not placed: kube-scheduler will ask
            entry = self.submit_plain(pod)
        # Cancelled before the pod's end is told, or the core would plan another attempt.
        if gone or (pod.is_terminal and pod.exit_code != 0):
            self.cancel(entry.id)
        self.pods.hear(entry, Task(entry.id, 0, 0), pod, gone=gone)
        if gone:
            self.jobs.drop(entry.id)

    def submit_plain(self, pod: Pod) -> JobEntry:
        """A joining pod as a job of its own. Raises SetAside and InvalidJob."""
        entry = plain_entry(pod, self.resources, self.now())
        if entry.id not in self.scheduler.state.jobs and not pod.spec.nodeName:
            self.intake.check_queue(pod.metadata.namespace, entry.job.queue)
        self.jobs.add(entry)
        self.tell(JobSubmitted(self.now(), entry.job))
        return entry

    def _hear_task_pod(self, pod: Pod, *, gone: bool) -> None:
        entry = self.jobs.of_owner(pod.dagjob_uid)
        if entry is None:
            self._hear_orphan(pod, gone=gone)
            return
        task = entry.task(pod)
        if task is None:
            log.warning("a pod names no task of its DagJob and is left alone", pod=pod.key)
            return
        self.pods.hear(entry, task, pod, gone=gone)

    def _hear_orphan(self, pod: Pod, *, gone: bool) -> None:
        """A pod whose DagJob is gone already, or comes later, or never was."""
        if gone or pod.is_terminal:
            self.pods.lose(pod.metadata.uid)
        waiting = self._orphans.setdefault(pod.dagjob_uid, {})
        waiting[pod.key] = None
        if gone:
            del waiting[pod.key]
        if not waiting:
            del self._orphans[pod.dagjob_uid]
