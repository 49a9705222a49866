"""Pods of a Kubernetes cluster: `kubectl get pods -A -o json`, a List of Pod objects.

Source: Kubernetes API reference v1.33, Pod v1 core (PodSpec, PodStatus, ContainerStateTerminated).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from rm_emulator.workload.formats import Column, Trace, register
from rm_emulator.workload.model import RunTimes, WorkloadJob
from rm_emulator.workload.records import Left, LogParams, Once, entry, instant, item, items, runtimes, to_ms, trace
from rm_emulator.workload.tables import BadRow, BadRows
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


class _Found(msgspec.Struct):
    """The pods of one job that ran: (stage, demand) to their run times."""

    submit_ms: float
    user: str
    name: str
    queue: str
    stages: dict[tuple[str, Vector], list[int]]


@register("pods", source="Kubernetes API, Pod v1; kubectl get pods -A -o json")
class Pods:
    """Finished pods of a Kubernetes cluster, gathered into jobs by their owners."""

    columns = (
        Column("metadata.name", "the pod, a task", required=True),
        Column("metadata.creationTimestamp", "when it was made; the first of a job is its arrival", required=True),
        Column("metadata.ownerReferences", "the job that it belongs to; a pod without one is a job"),
        Column("metadata.namespace", "taken for the user, unless a label says one"),
        Column("metadata.labels", "queue (ours, Kueue's, Volcano's or YuniKorn's), user, recurring name, stage"),
        Column(
            "spec.containers", "what they request, by Kubernetes' rule; init containers and overhead too", required=True
        ),
        Column("status.phase", "Succeeded and Failed are read", required=True),
        Column("status.containerStatuses", "state.terminated: when the containers started and finished", required=True),
    )

    class Params(LogParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Settings of the reader."""

    @staticmethod
    def recognises(path: Path, head: bytes) -> bool:
        """A List of Pods."""
        return head.lstrip()[:1] == b"{" and b'"items"' in head and b'"Pod"' in head and b'"containers"' in head

    @staticmethod
    def read(path: Path, options: Params) -> Trace:
        """One job per owner, one task per pod; pods of a job that ask for different things are different stages."""
        bad, left, once = BadRows(skip=options.skip_bad_rows), Left(), Once("pod", "metadata.name")
        pods = []
        for number, raw in enumerate(items(path, "items"), start=1):
            try:
                pod = item(raw, _Pod)
                once.check(f"{pod.metadata.namespace}/{pod.metadata.name}", number)
                span = _span(pod, options, left)
                if span is not None:
                    pods.append((number, pod, span))
            except BadRow as error:
                bad.row(path, number, error)
        resources = Resources().extended({name for _, pod, _ in pods for name in _asked(pod.spec)} - set(_STANDARD))
        jobs: dict[str, _Found] = {}
        for number, pod, ms in pods:
            try:
                _gather(pod, ms, resources, jobs)
            except BadRow as error:
                bad.row(path, number, error)
        assumed = (
            "pods of one owner are one job, which arrives when its first pod was made",
            "node selectors, affinity and tolerations are not taken over",
            "a pod that was deleted before the list was made is not in it",
            "places in the file are numbers of pods, not lines",
        )
        made = [_job(ident, found) for ident, found in jobs.items()]
        source = "Kubernetes, list of pods"
        return trace(made, path, bad, left, limit=options.limit, source=source, assumed=assumed, resources=resources)


def _span(pod: _Pod, options: Pods.Params, left: Left) -> int | None:
    """How long its containers ran, in ms; None, and counted, where they did not or still do. Raises BadRow."""
    ended = [c.state.terminated for c in pod.status.containerStatuses if c.state.terminated is not None]
    starts = [instant(t.startedAt, "startedAt") for t in ended if t.startedAt]
    ends = [instant(t.finishedAt, "finishedAt") for t in ended if t.finishedAt]
    if pod.status.phase not in ("Succeeded", "Failed"):
        left.out(f"pods left out, not over when the list was made ({pod.status.phase or 'no phase'})")
    elif not starts or not ends:
        left.out("pods left out, no container says when it ran")
    elif options.only_completed and pod.status.phase == "Failed":
        left.out("pods left out, failed")
    elif max(ends) < min(starts):
        raise BadRow(f"pod {pod.metadata.name} finishes before it starts", "finishedAt")
    else:
        return to_ms((max(ends) - min(starts)) / 1000)
    return None


def _asked(spec: PodSpec) -> Iterator[str]:
    """Resources that it asks for."""
    for container in (*spec.containers, *spec.initContainers):
        yield from container.resources.requests
        yield from container.resources.limits


def _gather(pod: _Pod, ms: int, resources: Resources, jobs: dict[str, _Found]) -> None:
    """Puts a pod into the job of its owner. Raises BadRow."""
    meta, labels = pod.metadata, pod.metadata.labels or {}
    owner = labels.get(DAGJOB_LABEL) or (meta.ownerReferences[0].name if meta.ownerReferences else meta.name)
    made = instant(meta.creationTimestamp, "metadata.creationTimestamp")
    try:
        wanted = demand(pod.spec, resources)
    except (InvalidJob, InvalidQuantity) as error:
        raise BadRow(str(error), "spec.containers") from None
    found = jobs.setdefault(
        f"{meta.namespace}/{owner}",
        _Found(
            submit_ms=made,
            user=labels.get(USER_LABEL, meta.namespace),
            name=labels.get(RECURRING_LABEL) or f"{meta.namespace}/{_RUN.sub('', owner)}",
            queue=next((labels[label] for label in _QUEUES if labels.get(label)), "default"),
            stages={},
        ),
    )
    found.submit_ms = min(found.submit_ms, made)
    if not any(wanted):
        wanted = (1, *wanted[1:])
    found.stages.setdefault((labels.get(STAGE_LABEL, "pods"), wanted), []).append(ms)


def _job(ident: str, found: _Found) -> WorkloadJob:
    names = [stage for stage, _ in found.stages]
    stages, times = [], list[RunTimes]()
    for number, ((name, wanted), ms) in enumerate(found.stages.items()):
        unique = name if names.count(name) == 1 else f"{name}-{number}"
        stages.append(Stage(name=unique, tasks=len(ms), demand=wanted))
        times.append(runtimes(ms))
    job = Job(id=ident, stages=tuple(stages), name=found.name, user=found.user, queue=found.queue)
    return entry(job, found.submit_ms, times)
