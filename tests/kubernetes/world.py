"""A cluster as the brain sees it, driven step by step: objects, what happens to pods, and leaders that come and go.

It plays the API server's, controllers' and kube-scheduler's part just as far as the brain can tell; the tests on
the real control plane show that they behave so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from operators.cache.reflector import Change
from operators.extender.brain import Brain
from operators.extender.takeover import take_over
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import PastJob
from schedulers.core.scheduler import Scheduler
from schedulers.objects import names
from schedulers.objects.dagjob import (
    DagJob,
    DagJobSpec,
    DagJobStatus,
    StageSpec,
    StageStatus,
    read_indexes,
    show_indexes,
)
from schedulers.objects.memory import BrainSnapshot
from schedulers.objects.meta import Meta, OwnerReference
from schedulers.objects.node import NodeObject, NodeSpec, NodeStatus, NodeTaint, core_node
from schedulers.objects.pod import (
    Affinity,
    Condition,
    ContainerPhase,
    ContainerResources,
    ContainerStatus,
    Gate,
    NodeAffinity,
    NodeSelector,
    Pod,
    PodContainer,
    PodSpec,
    PodStatus,
    PodTemplate,
    Present,
    SchedulingGroup,
    SelectorRequirement,
    SelectorTerm,
    Terminated,
    Volume,
    demand,
)
from schedulers.objects.podgroup import Gang, GroupPolicy, PodGroup, PodGroupSpec
from schedulers.objects.queue import QueueObject, QueueSpec


class Lists:
    """The cache: what a watch has told so far."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeObject] = {}
        self.pods: dict[str, Pod] = {}
        self.dagjobs: dict[str, DagJob] = {}
        self.queues: dict[str, Any] = {}
        self.namespaces: dict[str, Any] = {}
        self.pod_groups: dict[str, PodGroup] | None = None
        self.heard: int | None = 10**9

    def heard_ms(self) -> int | None:
        return self.heard


class Writes:
    """What the brain wants written and has not been yet, oldest first."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.pending: list[tuple[str, Any]] = []
        self.released: dict[str, int] = {}  # uid -> when, of pods that were not seen bound
        self.history: list[PastJob] = []
        self._clock = clock

    def release(self, pod: Pod, node: str | None) -> None:
        self.pending.append(("release", (pod.key, pod.metadata.uid, node)))

    def release_gang(
        self, dagjob: str, stage: str, members: Sequence[tuple[Pod, str | None]], plan: dict[str, str] | None
    ) -> None:
        if plan is not None:
            self.pending.append(("plan", (dagjob, stage, plan)))
        for pod, node in members:
            self.release(pod, node)

    def wake(self, pod: Pod, node: str) -> None:
        self.pending.append(("wake", (pod.key, node)))

    def is_pending(self, uid: str) -> bool:
        return any(uid in data for what, data in self.pending if what == "release")

    def waited_ms(self, uid: str) -> int | None:
        released = self.released.get(uid)
        return None if released is None else self._clock() - released

    def bound(self, uid: str) -> None:
        self.released.pop(uid, None)

    def stop_waiting(self, uid: str) -> None:
        self.released.pop(uid, None)


class World:
    """One cluster. Every change is told to the leading brain at once."""

    def __init__(
        self,
        nodes: Sequence[int] = (4, 4),
        *,
        policy: str = "fifo",
        predictor: str | None = None,
        placement: str = "first_fit",
        reserve_after: int | None = None,
        **settings: Any,
    ) -> None:
        self.config = SchedulerConfig(
            resources=("cpu", "memory", "pods"),
            policy={"kind": policy, **settings},
            predictor={"kind": predictor} if predictor else None,
            placement={"kind": placement},
            offers="cycle",
            reserve_after=reserve_after,
        )
        self.lists, self.clock, self._numbers, self.reserved = Lists(), 1_000_000, 0, False
        self.snapshots: list[bytes] = []
        self.logs: list[bytearray] = []
        self.brain: Brain
        for index, cpus in enumerate(nodes):
            self.lists.nodes[f"n{index}"] = node(f"n{index}", cpus)
        self.new_leader()

    # -- leaders --------------------------------------------------------------------------------

    def new_leader(self, snapshot: bytes | None = None, history: Sequence[PastJob] = ()) -> None:
        """The leader before is gone with all that it had not written; the next begins.

        history: what its predictor starts from without a snapshot.
        """
        self.writes, lines = Writes(lambda: self.clock), bytearray()
        self.logs.append(lines)
        log = Log(lines.extend)
        pods: dict[int, str] = {}
        if snapshot is None:
            scheduler = Scheduler(self.config, log=log)
        else:
            saved = msgspec.msgpack.decode(snapshot, type=BrainSnapshot)
            scheduler, pods = Scheduler.restore(saved.core, log=log), saved.pods
        cache: Any = self.lists
        self.log = log
        past = self.writes.history
        self.brain = Brain(
            scheduler,
            cache,
            self.writes,
            clock=self.now,
            remember=past.append,
            reserved=self.reserved,
        )
        take_over(self.brain, identity="test", pods=pods, history=history)

    def now(self) -> int:
        self.clock += 1
        return self.clock

    def snapshot(self) -> bytes:
        self.snapshots.append(self.brain.snapshot())
        return self.snapshots[-1]

    # -- objects --------------------------------------------------------------------------------

    def submit(
        self,
        *stages: StageSpec,
        retries: int = 3,
        queue: str = "default",
        user: str = "",
        deadline: str | None = None,
    ) -> DagJob:
        spec = DagJobSpec(stages=stages, retries=retries, queue=queue, user=user, deadline=deadline)
        job = DagJob(metadata=self._meta("job"), spec=spec, status=DagJobStatus())
        self._put("DagJob", self.lists.dagjobs, job)
        return job

    def create_pods(self) -> None:
        """What the controllers do: the pods of runnable stages, and successors of failed or deleted ones."""
        for job in list(self.lists.dagjobs.values()):
            if job.is_over:
                continue
            for stage in job.spec.stages:
                if all(self._done(job, parent) for parent in stage.parents):
                    for index in range(stage.tasks):
                        self._create_pod(job, stage, index)

    def _create_pod(self, job: DagJob, stage: StageSpec, index: int) -> None:
        mine = [pod for pod in self.pods_of(job, stage.name) if pod.metadata.labels[names.INDEX_LABEL] == str(index)]
        if index in self._completed(job, stage.name) or any(pod.exit_code in (None, 0) for pod in mine):
            return
        attempt = self._numbers if mine else 0
        meta = self._meta(f"{job.metadata.name}-{stage.name}-{index}")
        meta.labels |= {
            names.DAGJOB_LABEL: job.metadata.name,
            names.STAGE_LABEL: stage.name,
            names.INDEX_LABEL: str(index),
            names.ATTEMPT_LABEL: str(attempt),
        }
        meta.ownerReferences = (OwnerReference("DagJob", job.metadata.name, job.metadata.uid, controller=True),)
        spec = msgspec.structs.replace(
            stage.template.spec, schedulerName=names.SCHEDULER, schedulingGates=(Gate("other"), Gate(names.GATE))
        )
        self._put("Pod", self.lists.pods, Pod(meta, spec))

    def _done(self, job: DagJob, stage: str) -> bool:
        wanted = next(s.tasks for s in job.spec.stages if s.name == stage)
        ended = {int(pod.metadata.labels[names.INDEX_LABEL]) for pod in self.pods_of(job, stage) if pod.exit_code == 0}
        return len(ended | self._completed(job, stage)) == wanted

    def _completed(self, job: DagJob, stage: str) -> set[int]:
        """Tasks that the job's status remembers."""
        stages = self.lists.dagjobs[job.key].status.stages
        return {
            index
            for status in stages
            if status.name == stage
            for index in read_indexes(status.completedIndexes, 100_000)
        }

    def collect(self, pod: Pod) -> None:
        """A pod that has succeeded is deleted, as kube-controller-manager does when there are many."""
        job = next(job for job in self.lists.dagjobs.values() if job.metadata.uid == pod.dagjob_uid)
        done = {stage.name: self._completed(job, stage.name) for stage in job.spec.stages}
        done[pod.metadata.labels[names.STAGE_LABEL]].add(int(pod.metadata.labels[names.INDEX_LABEL]))
        stages = [StageStatus(name, completedIndexes=show_indexes(indexes)) for name, indexes in done.items()]
        self._put("DagJob", self.lists.dagjobs, DagJob(job.metadata, job.spec, DagJobStatus(stages=stages)))
        self.delete(pod)

    def close_jobs(self) -> None:
        """The controllers write that a job has succeeded."""
        for job in list(self.lists.dagjobs.values()):
            if not job.is_over and all(self._done(job, stage.name) for stage in job.spec.stages):
                self.set_phase(job, "Succeeded")

    def set_phase(self, job: DagJob, phase: str) -> None:
        status = DagJobStatus(phase=phase, stages=job.status.stages)
        self._put("DagJob", self.lists.dagjobs, DagJob(job.metadata, job.spec, status))

    def plain(
        self,
        *,
        gated: bool = True,
        cpu: int = 1,
        scheduler: str = names.SCHEDULER,
        queue: str = "default",
        group: str = "",
    ) -> Pod:
        meta = self._meta("pod")
        meta.labels[names.QUEUE_LABEL] = queue
        gates = (Gate(names.GATE),) if gated else ()
        spec = PodSpec(
            schedulerName=scheduler,
            schedulingGates=gates,
            containers=[asks(cpu)],
            schedulingGroup=SchedulingGroup(group) if group else None,
        )
        pod = Pod(meta, spec)
        self._put("Pod", self.lists.pods, pod)
        return pod

    def put_group(self, name: str, size: int | None) -> PodGroup:
        """size: of a gang; None: each pod by itself."""
        policy = GroupPolicy(Gang(size) if size is not None else None)
        self.lists.pod_groups = self.lists.pod_groups or {}
        meta = msgspec.structs.replace(self._meta("group"), name=name)
        group = PodGroup(meta, PodGroupSpec(policy))
        self._put("PodGroup", self.lists.pod_groups, group)
        return group

    def remove_group(self, name: str) -> None:
        assert self.lists.pod_groups is not None
        self.brain.hear(Change("PodGroup", self.lists.pod_groups.pop(f"ns/{name}"), None))

    def put_queue(self, name: str, **spec: Any) -> None:
        self._put("Queue", self.lists.queues, QueueObject(Meta(name=name), QueueSpec(**spec)))

    def remove_queue(self, name: str) -> None:
        self.brain.hear(Change("Queue", self.lists.queues.pop(name), None))

    def add_node(self, name: str, cpus: int, *, reserved: bool = False, speed: str = "") -> None:
        self._put("Node", self.lists.nodes, node(name, cpus, reserved=reserved, speed=speed))

    def remove_node(self, name: str) -> None:
        node = self.lists.nodes.pop(name)
        self.brain.hear(Change("Node", node, None))
        for pod in list(self.lists.pods.values()):
            if (pod.spec.nodeName or pod.narrowed_to) == name and not pod.is_terminal:
                self.delete(pod)

    # -- what happens to pods -------------------------------------------------------------------

    def write(self, count: int | None = None) -> None:
        """The oldest of the brain's writes reach the API server."""
        todo, self.writes.pending = self.writes.pending[:count], self.writes.pending[len(self.writes.pending[:count]) :]
        for what, data in todo:
            if what == "release":
                self._release(*data)
            elif what == "plan":
                self._plan(*data)

    def _release(self, key: str, uid: str, to: str | None) -> None:
        pod = self.lists.pods.get(key)
        if pod is None or pod.metadata.uid != uid or not pod.is_gated:
            return
        self.writes.released[uid] = self.clock
        gates = tuple(gate for gate in pod.spec.schedulingGates if gate.name not in (names.GATE, "other"))
        affinity = only(to) if to is not None else None
        self.change(pod, spec=msgspec.structs.replace(pod.spec, schedulingGates=gates, affinity=affinity))

    def _plan(self, key: str, stage: str, plan: dict[str, str]) -> None:
        job = self.lists.dagjobs[key]
        text = msgspec.json.encode({stage: plan}).decode()
        meta = msgspec.structs.replace(job.metadata, annotations={**job.metadata.annotations, names.GANG_PLAN: text})
        self._put("DagJob", self.lists.dagjobs, DagJob(meta, job.spec, job.status))

    def bind(self) -> None:
        """What kube-scheduler does: pods without gates go where they may, if the extender lets them."""
        for pod in list(self.lists.pods.values()):
            if pod.spec.nodeName or pod.spec.schedulingGates or pod.spec.schedulerName != names.SCHEDULER:
                continue
            fits = [name for name in self.lists.nodes if self._fits(pod, name)]
            if fits:
                answer = self.brain.filter(pod, fits)
                for name in answer.nodes:
                    self.change(pod, spec=msgspec.structs.replace(pod.spec, nodeName=name))

    def _fits(self, pod: Pod, name: str) -> bool:
        free = self.free(name)[0]
        return pod.narrowed_to in (None, name) and demand(pod.spec, self.brain.resources)[0] <= free

    def start(self, pod: Pod) -> None:
        self.change(pod, status=PodStatus(phase="Running"))

    def finish(self, pod: Pod, code: int = 0) -> None:
        ended = Terminated(exitCode=code, startedAt="2026-01-01T00:00:00Z", finishedAt="2026-01-01T00:00:05Z")
        phase = "Failed" if code else "Succeeded"
        status = PodStatus(phase=phase, containerStatuses=[ContainerStatus("c", ContainerPhase(terminated=ended))])
        self.change(pod, status=status)

    def say(self, pod: Pod, verdict: str) -> Pod:
        """kube-scheduler cannot bind it, and says so."""
        said = Condition("PodScheduled", "False", "Unschedulable", verdict)
        return self.change(pod, status=PodStatus(conditions=[said]))

    def refuse(self, pod: Pod, reason: str = "OutOfcpu") -> Pod:
        """A kubelet does not let it in."""
        return self.change(pod, status=PodStatus(phase="Failed", reason=reason, message="not here"))

    def delete(self, pod: Pod) -> None:
        last = self.lists.pods.pop(pod.key)
        self.brain.hear(Change("Pod", last, None))

    def change(self, pod: Pod, *, spec: PodSpec | None = None, status: PodStatus | None = None) -> Pod:
        old = self.lists.pods[pod.key]
        new = Pod(old.metadata, spec or old.spec, status or old.status)
        self._put("Pod", self.lists.pods, new)
        return new

    # -- questions ------------------------------------------------------------------------------

    def pods_of(self, job: DagJob, stage: str | None = None) -> list[Pod]:
        return [
            pod
            for pod in self.lists.pods.values()
            if pod.dagjob_uid == job.metadata.uid and stage in (None, pod.metadata.labels[names.STAGE_LABEL])
        ]

    def gated(self, job: DagJob) -> list[Pod]:
        return [pod for pod in self.pods_of(job) if pod.is_gated]

    def bound(self) -> Iterator[Pod]:
        return (pod for pod in list(self.lists.pods.values()) if pod.spec.nodeName and not pod.is_terminal)

    def free(self, name: str) -> list[int]:
        """What the pods bound to a node, or narrowed to it, leave of it."""
        there = self.lists.nodes.get(name)
        left = list(core_node(there, self.brain.resources).capacity) if there is not None else [0, 0, 0]
        for pod in self.lists.pods.values():
            if pod.spec.nodeName == name and not pod.is_terminal:
                left = [a - b for a, b in zip(left, demand(pod.spec, self.brain.resources), strict=True)]
        return left

    def overcommitted(self) -> dict[str, list[int]]:
        return {name: left for name in self.lists.nodes if min(left := self.free(name)) < 0}

    def settle(self, rounds: int = 200) -> None:
        """Everybody does their part until nothing changes any more; pods run and succeed."""
        for _ in range(rounds):
            before = self._numbers, {key: (id(pod.spec), id(pod.status)) for key, pod in self.lists.pods.items()}
            self.create_pods()
            self.brain.cycle()
            self.write()
            self.bind()
            for pod in list(self.bound()):
                if pod.is_running:
                    self.finish(pod)
                else:
                    self.start(pod)
            self.close_jobs()
            if before == (self._numbers, {k: (id(p.spec), id(p.status)) for k, p in self.lists.pods.items()}):
                return

    def _meta(self, name: str) -> Meta:
        self._numbers += 1
        stamp = f"2026-01-01T{self._numbers // 3600:02}:{self._numbers // 60 % 60:02}:{self._numbers % 60:02}Z"
        return Meta(
            name=f"{name}-{self._numbers}",
            namespace="ns",
            uid=f"uid{self._numbers:06}",
            creationTimestamp=stamp,
            labels={},
        )

    def _put(self, kind: str, into: dict[str, Any], new: Any) -> None:
        old = into.get(new.key)
        into[new.key] = new
        self.brain.hear(Change(kind, old, new))


def asks(cpu: int) -> PodContainer:
    return PodContainer("c", ContainerResources(requests={"cpu": cpu}))


def node(name: str, cpus: int, *, reserved: bool = False, speed: str = "") -> NodeObject:
    spec = NodeSpec(taints=[NodeTaint(names.RESERVED_TAINT)] if reserved else [])
    status = NodeStatus(allocatable={"cpu": cpus, "memory": "64Gi", "pods": 110})
    labels = {names.SPEED_LABEL: speed} if speed else {}
    return NodeObject(Meta(name=name, uid=name, labels=labels), spec, status)


def stage(name: str, tasks: int, *parents: str, cpu: int = 1, gang: bool = False, claims: bool = False) -> StageSpec:
    """claims: its pods have a volume claim, so that kube-scheduler has the last word on their node."""
    volumes = [Volume(persistentVolumeClaim=Present())] if claims else []
    template = PodTemplate(spec=PodSpec(containers=[asks(cpu)], volumes=volumes))
    return StageSpec(name=name, tasks=tasks, parents=parents, gang=gang, template=template)


def only(name: str) -> Affinity:
    field = SelectorRequirement("metadata.name", "In", (name,))
    return Affinity(nodeAffinity=NodeAffinity(NodeSelector((SelectorTerm(matchFields=(field,)),))))
