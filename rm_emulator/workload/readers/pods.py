"""Pods of a Kubernetes cluster: `kubectl get pods -A -o json`, a List of Pod objects.

Source: Kubernetes API reference v1.33, Pod v1 core (PodSpec, PodStatus, ContainerStateTerminated).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from rm_emulator.workload.formats import Column, Contents, Trace, register
from rm_emulator.workload.model import WorkloadJob
from rm_emulator.workload.records import Log, LogParams, distinct, entry, instant, item, items, runtimes, to_ms
from rm_emulator.workload.tables import BadRow
from schedulers.core.errors import InvalidJob, InvalidQuantity
from schedulers.core.model import Job, Stage
from schedulers.core.resources import Resources, Vector
from schedulers.objects.names import DAGJOB_LABEL, QUEUE_LABEL, RECURRING_LABEL, STAGE_LABEL, USER_LABEL
from schedulers.objects.pod import PodSpec, demand

#: Labels that say which queue, by their owners: ours, Kueue's, Volcano's, YuniKorn's.
_QUEUES: Final = (QUEUE_LABEL, "kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "queue")
#: What controllers add to a name, run by run: a time (CronJob), five letters or a hash (pods, jobs).
_RUN: Final = re.compile(r"-(\d{8,}|[bcdfghjklmnpqrstvwxz2456789]{5})$")
_STANDARD: Final = ("cpu", "memory")
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class _Owner(msgspec.Struct):
    """A controller."""

    name: str
    kind: str = ""


class _Meta(msgspec.Struct):
    name: _Name
    creationTimestamp: str  # noqa: N815  # fields are called as in the API
    namespace: str = "default"
    labels: dict[str, str] | None = None
    ownerReferences: list[_Owner] = []  # noqa: N815


class _Times(msgspec.Struct):
    startedAt: str | None = None  # noqa: N815
    finishedAt: str | None = None  # noqa: N815


class _State(msgspec.Struct):
    terminated: _Times | None = None


class _ContainerStatus(msgspec.Struct):
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct):
    phase: str = ""
    startTime: str | None = None  # noqa: N815
    containerStatuses: list[_ContainerStatus] = []  # noqa: N815


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: PodSpec
    status: _Status = msgspec.field(default_factory=_Status)


class _Pods(msgspec.Struct):
    """The finished pods of a job; stages: run times in ms by (stage, demand)."""

    submit_ms: float
    user: str
    name: str
    queue: str
    stages: dict[tuple[str, Vector], list[int]]


@register("pods", source="Kubernetes API, Pod v1; kubectl get pods -A -o json")
class Pods:
    """Finished pods of a Kubernetes cluster, gathered into jobs by their owners.

    Pods of one owner (a Job; our DagJob by its label) are one job. A pod is a task, which runs from the start of its
    first container to the end of its last. Pods that ask for different resources, and pods with different stage labels,
    are different stages. Requests follow Kubernetes' rule: limits where there is no request, init containers, overhead.
    The user is the namespace, unless our label names one; the queue comes from our label, Kueue's, Volcano's or
    YuniKorn's; the name is the owner's without the suffix of its controller. Pods that are not over, and pods deleted
    before the list was made, are not read. Node selectors, affinity and tolerations are not read. Places in messages
    are numbers of pods.
    """

    columns = (
        Column("metadata.name", "the pod, a task", required=True),
        Column("metadata.creationTimestamp", "time of creation; the earliest of a job is its arrival", required=True),
        Column("metadata.ownerReferences", "job of the pod; a pod without an owner is a job"),
        Column("metadata.namespace", "user, unless a label names one"),
        Column("metadata.labels", "queue (ours, Kueue's, Volcano's or YuniKorn's), user, recurring name, stage"),
        Column("spec.containers", "requests, by Kubernetes' rule, with init containers and overhead", required=True),
        Column("status.phase", "Succeeded and Failed are read", required=True),
        Column("status.containerStatuses", "state.terminated: start and end of the containers", required=True),
    )

    contents = Contents.lacking("gangs", "dag")
    Params = LogParams

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A List of Pods."""
        return head.lstrip()[:1] == b"{" and b'"items"' in head and b'"Pod"' in head and b'"containers"' in head

    @staticmethod
    def read(path: Path, options: LogParams) -> Trace:
        """A job per owner, a task per pod; pods of a job with different demands are different stages."""
        log = Log(path, options)
        pods = log.each(enumerate(items(path, "items"), start=1), lambda raw: _ran(item(raw, _Pod), options, log))
        asked = {name for _, (pod, _) in pods for name in _asked(pod.spec)}
        resources = Resources().extended(asked - set(_STANDARD))
        jobs: dict[str, _Pods] = {}
        log.each(pods, lambda ran: _gather(*ran, resources, jobs))
        assumed = (
            "pods of one owner are one job, which arrives when its first pod was made",
            "node selectors, affinity and tolerations are not taken over",
            "a pod that was deleted before the list was made is not in it",
            "places in the file are numbers of pods, not lines",
        )
        made = [_job(ident, pods_of_job) for ident, pods_of_job in jobs.items()]
        return log.trace(made, source="Kubernetes, list of pods", assumed=assumed, resources=resources, epoch_ms=0)


def _ran(pod: _Pod, options: LogParams, log: Log) -> tuple[int | None, tuple[_Pod, int]] | None:
    """A pod's place in the file, the pod, and the run time of its containers in ms; None, and counted, if left out.

    Raises BadRow.
    """
    log.once("pod", f"{pod.metadata.namespace}/{pod.metadata.name}", "metadata.name")
    ended = [c.state.terminated for c in pod.status.containerStatuses if c.state.terminated is not None]
    starts = [instant(t.startedAt, "startedAt") for t in ended if t.startedAt]
    ends = [instant(t.finishedAt, "finishedAt") for t in ended if t.finishedAt]
    if pod.status.phase not in ("Succeeded", "Failed"):
        log.count(f"pods left out, not over when the list was made ({pod.status.phase or 'no phase'})")
    elif not starts or not ends:
        log.count("pods left out, no container says when it ran")
    elif options.only_completed and pod.status.phase == "Failed":
        log.count("pods left out, failed")
    elif max(ends) < min(starts):
        raise BadRow(f"pod {pod.metadata.name} finishes before it starts", "finishedAt")
    else:
        return log.line, (pod, to_ms((max(ends) - min(starts)) / 1000))
    return None


def _asked(spec: PodSpec) -> Iterator[str]:
    """Names of the resources in requests and limits."""
    for container in (*spec.containers, *spec.initContainers):
        yield from container.resources.requests
        yield from container.resources.limits


def _gather(pod: _Pod, ms: int, resources: Resources, jobs: dict[str, _Pods]) -> None:
    """Puts a pod into the job of its owner. Raises BadRow."""
    meta, labels = pod.metadata, pod.metadata.labels or {}
    owner = labels.get(DAGJOB_LABEL) or (meta.ownerReferences[0].name if meta.ownerReferences else meta.name)
    made = instant(meta.creationTimestamp, "metadata.creationTimestamp")
    try:
        wanted = demand(pod.spec, resources)
    except (InvalidJob, InvalidQuantity) as error:
        raise BadRow(str(error), "spec.containers") from None
    pods = jobs.setdefault(
        f"{meta.namespace}/{owner}",
        _Pods(
            submit_ms=made,
            user=labels.get(USER_LABEL, meta.namespace),
            name=labels.get(RECURRING_LABEL) or f"{meta.namespace}/{_RUN.sub('', owner)}",
            queue=next((labels[label] for label in _QUEUES if labels.get(label)), "default"),
            stages={},
        ),
    )
    pods.submit_ms = min(pods.submit_ms, made)
    if not any(wanted):
        wanted = (1, *wanted[1:])
    pods.stages.setdefault((labels.get(STAGE_LABEL, "pods"), wanted), []).append(ms)


def _job(ident: str, pods: _Pods) -> WorkloadJob:
    stages = [Stage(name=name, tasks=len(ms), demand=wanted) for (name, wanted), ms in pods.stages.items()]
    job = Job(id=ident, stages=distinct(stages), name=pods.name, user=pods.user, queue=pods.queue)
    return entry(job, pods.submit_ms, [runtimes(ms) for ms in pods.stages.values()])
