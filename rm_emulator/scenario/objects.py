"""A file of Kubernetes objects as a scenario: what would the cluster do with the objects?

`Node` objects are the cluster, `Queue`s the queues, `DagJob`s, joining `Pod`s, batch `Job`s and, as services,
`Deployment`s the workload; the same file, applied with kubectl, runs. A Scenario document in front gives policies,
seeds and cluster; the objects are then the jobs (and the nodes, unless the Scenario lists nodes).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
import yaml

from rm_emulator.issues import InvalidInput, Issue, did_you_mean, show_value
from rm_emulator.scenario.document import Document, parse_documents
from rm_emulator.scenario.schema import API_VERSION
from rm_emulator.scenario.schema.structs import as_written
from schedulers.core.errors import InvalidJob, InvalidQuantity, nearest
from schedulers.core.model import FASTEST, SLOWEST, Job, Service
from schedulers.core.places import Places
from schedulers.core.resources import Resources, Vector, parse_quantity
from schedulers.objects.dagjob import DagJob, Hints, core_job
from schedulers.objects.memory import HISTORY, SNAPSHOT
from schedulers.objects.meta import Meta, ours
from schedulers.objects.names import (
    AGE_SECONDS,
    DAGJOB_LABEL,
    QUEUE_LABEL,
    RECURRING_LABEL,
    RUN_SECONDS,
    SCHEDULER,
    SPEED_LABEL,
    STAGE_LABEL,
    TYPE_LABEL,
    USER_LABEL,
    ZONE_LABEL,
)
from schedulers.objects.node import NodeObject, core_node
from schedulers.objects.pod import Pod, PodSpec, PodTemplate, demand, places
from schedulers.objects.queue import QueueObject
from schedulers.objects.service import pod_service, service

T = TypeVar("T", bound=msgspec.Struct)

#: Kinds that say nothing about scheduling and often stand in the same file.
IGNORED: Final = frozenset(
    {"Namespace", "ConfigMap", "Secret", "ServiceAccount", "Service", "Role", "RoleBinding", "PriorityClass"}
)
#: Name of the ConfigMap in which the file of a snapshot keeps its notes, one a line.
NOTES: Final = "rm-emulator-snapshot-notes"
#: Name of the Scenario with the cluster's own policy in the file of a snapshot; a Scenario in front takes its place.
LIVE: Final = "live"
#: How the names of the ConfigMaps begin that hold a brain's memory, for `rm-emulator simulate`.
MEMORY: Final = (SNAPSHOT, HISTORY)
_OURS: Final = ("Scenario", "Queue", "DagJob")
_DISTRIBUTION = re.compile(r"([a-z]+)\(\s*(?:mean\s*=\s*)?([0-9.]+)\s*,\s*(?:cov\s*=\s*)?([0-9.]+)\s*\)")
_KINDS: Final = ("lognormal", "gamma", "exponential", "uniform", "normal")
_ROOT_3: Final = math.sqrt(3)


class _BatchSpec(msgspec.Struct):
    template: PodTemplate
    completions: int | None = None
    parallelism: int | None = None


class _BatchJob(msgspec.Struct):
    metadata: Meta
    spec: _BatchSpec


class _DeploymentSpec(msgspec.Struct):
    template: PodTemplate
    replicas: int = 1


class _Deployment(msgspec.Struct):
    metadata: Meta
    spec: _DeploymentSpec


class _Object(msgspec.Struct):
    """An object with its document and its path inside the document (a `List` holds several objects)."""

    document: Document
    at: tuple[str | int, ...]
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.data.get("kind"))

    def issue(self, path: Iterable[str | int], message: str, hint: str = "") -> Issue:
        return self.document.issue((*self.at, *path), message, hint)


def is_objects(documents: Iterable[Document]) -> bool:
    """Whether a file holds objects: several documents, or a single document of a known kind other than Scenario."""
    kinds = [d.data.get("kind") if isinstance(d.data, dict) else None for d in documents]
    known = {"Queue", "DagJob", "Node", "Pod", "Job", "Deployment", "List", *IGNORED}
    return len(kinds) > 1 or (bool(kinds) and isinstance(kinds[0], str) and kinds[0] in known)


def as_scenario(documents: list[Document], path: Path) -> tuple[Document, list[str]]:
    """The scenario of the file, and notes on omitted objects. Raises InvalidInput."""
    return _Reader(documents, path).read()


def _written(known: msgspec.Struct) -> dict[str, Any]:
    """A struct of the core in the scenario's form, without defaults."""
    return as_written(known).model_dump(mode="json", exclude_defaults=True)


def _unknown(item: _Object, spec: Any) -> Iterator[Issue]:
    """Fields missing in the CRDs: an API server would drop such fields silently."""
    stages: Iterable[Any] = getattr(spec, "stages", ())
    for path, struct in [((), spec), *((("stages", i), stage) for i, stage in enumerate(stages))]:
        given: Any = item.data.get("spec") or {}
        for part in path:
            given = given[part]
        known = [field.encode_name for field in msgspec.structs.fields(type(struct))]
        for name in given:
            if name not in known:
                message = f"there is no such field (accepted: {', '.join(known)})"
                yield item.issue(("spec", *path, name), message, did_you_mean(nearest(str(name), known)))
    if getattr(spec, "retries", 0) < 0:
        yield item.issue(("spec", "retries"), f"{spec.retries} is not accepted (expected at least 0)")


def _asked(
    pods: Iterable[PodSpec], dagjobs: Iterable[tuple[_Object, DagJob]], batch: Iterable[tuple[_Object, _BatchJob]]
) -> Resources:
    """cpu, memory, pods, and whatever else is asked for."""
    specs = [*pods, *(s.template.spec for _, d in dagjobs for s in d.spec.stages)]
    specs += [job.spec.template.spec for _, job in batch]
    asked = {
        name
        for spec in specs
        for container in (*spec.containers, *spec.initContainers)
        for name in (*container.resources.requests, *container.resources.limits)
    }
    return Resources(("cpu", "memory", "pods")).extended(asked)


class _Reader:
    def __init__(self, documents: list[Document], path: Path) -> None:
        self._path, self._issues = path, list[Issue]()
        self._notes: dict[str, None] = {}
        self._running: dict[tuple[str, str], list[dict[str, Any]]] = {}  # by job and stage
        self._arrived = 0  # jobs of a snapshot without running tasks
        self._objects = [item for document in documents for item in self._in(document)]

    def read(self) -> tuple[Document, list[str]]:
        """See `as_scenario`."""
        scenarios = [item for item in self._objects if item.kind == "Scenario"]
        for own in [item for item in scenarios[1:] if (item.data.get("metadata") or {}).get("name") == LIVE]:
            scenarios.remove(own)
            self._notes[f"{self._path}: the file begins with a Scenario, so the cluster's own policy is left out"] = (
                None
            )
        for extra in scenarios[1:]:
            self._issues.append(extra.issue(("kind",), "a second Scenario: one a file is accepted"))
        nodes, queues = self._all("Node", NodeObject), self._all("Queue", QueueObject)
        dagjobs, pods, batch = self._all("DagJob", DagJob), self._all("Pod", Pod), self._all("Job", _BatchJob)
        services = [(item, d) for item, d in self._all("Deployment", _Deployment) if self._joins(item, d)]
        specs = [*(pod.spec for _, pod in pods), *(each.spec.template.spec for _, each in services)]
        self._resources = _asked(specs, dagjobs, batch)
        groups = self._nodes(nodes, [pod for _, pod in pods])
        self._find_running(pods, {group["name"] for group in groups})
        jobs = [*self._jobs(dagjobs, pods, batch), *self._services(services, pods)]
        if not self._issues and not jobs:
            self._issues.append(Issue(str(self._path), "nothing to run: expected DagJobs, or Pods that join a queue"))
        if not self._issues and not scenarios and not groups:
            message = "no Node objects: add them (kubectl get nodes -o yaml), or begin with a Scenario"
            self._issues.append(Issue(str(self._path), message))
        if self._issues:
            raise InvalidInput(self._issues)
        data = self._data(scenarios[0].data if scenarios else None, groups, queues, jobs)
        if data["spec"]["cluster"].get("nodes") is groups:
            self._note_wishes(jobs, groups)
        # Through text, so that a mistake in the scenario has a place.
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True).encode()
        return parse_documents(text, f"{self._path} (as a scenario)")[0], list(self._notes)

    # -- documents ------------------------------------------------------------------------------

    def _in(self, document: Document) -> list[_Object]:
        data = document.data
        if not isinstance(data, dict):
            self._issues.append(document.issue((), f"{show_value(data)} is not an object (a mapping with a kind)"))
            return []
        if str(data.get("kind", "")).endswith("List"):
            listed = data.get("items")
            if not isinstance(listed, list):
                self._issues.append(document.issue(("items",), "expected a list of objects"))
                return []
            for i, each in enumerate(listed):
                if not isinstance(each, dict):
                    message = f"{show_value(each)} is not an object (a mapping with a kind)"
                    self._issues.append(document.issue(("items", i), message))
            items = [_Object(document, ("items", i), each) for i, each in enumerate(listed) if isinstance(each, dict)]
        else:
            items = [_Object(document, (), data)]
        return [item for item in items if self._accepts(item)]

    def _accepts(self, item: _Object) -> bool:
        kind, group = item.kind, str(item.data.get("apiVersion", ""))
        if group.startswith("rm-emulator.io/"):
            if kind in _OURS and group == API_VERSION:
                return True
            hint = did_you_mean(nearest(kind, _OURS)) if kind not in _OURS else f"apiVersion is {API_VERSION}"
            self._issues.append(item.issue(("kind",), f"unknown kind {show_value(kind)} of {group}", hint))
            return False
        if (kind, group) in (("Node", "v1"), ("Pod", "v1"), ("Job", "batch/v1"), ("Deployment", "apps/v1")):
            return True
        if kind == "Scenario" or (not group and kind in _OURS):
            self._issues.append(item.issue((), f"apiVersion is missing (expected {API_VERSION})"))
            return False
        if (kind, group) == ("ConfigMap", "v1") and self._is_of_snapshot(item):
            return False
        self._notes[f"{self._path}: objects of kind {kind} say nothing about scheduling and are left out"] = None
        return False

    def _is_of_snapshot(self, item: _Object) -> bool:
        """Whether a ConfigMap is a part of a snapshot; the snapshot's notes are taken over."""
        meta, data = item.data.get("metadata"), item.data.get("data")
        name = str(meta.get("name", "")) if isinstance(meta, dict) else ""
        if name == NOTES and isinstance(data, dict):
            self._notes.update(dict.fromkeys(str(data.get("notes", "")).splitlines()))
        return name == NOTES or name.startswith(MEMORY)

    def _all(self, kind: str, type_: type[T]) -> list[tuple[_Object, T]]:
        read = []
        for item in self._objects:
            if item.kind != kind:
                continue
            try:
                read.append((item, msgspec.convert(item.data, type_, strict=False)))
                if kind in _OURS:
                    self._issues += _unknown(item, cast(Any, read[-1][1]).spec)
            except msgspec.ValidationError as error:
                message, _, where = str(error).partition(" - at `$")
                path = [int(part) if part.isdecimal() else part for part in re.findall(r"\w+", where)]
                self._issues.append(item.issue(path, f"{message[:1].lower()}{message[1:]}"))
        return read

    # -- nodes and queues -----------------------------------------------------------------------

    def _nodes(self, nodes: list[tuple[_Object, NodeObject]], pods: list[Pod]) -> list[dict[str, Any]]:
        """Nodes without the resources of other schedulers' pods, which are assumed to run to the end."""
        resources = self._resources
        used: dict[str, list[int]] = {}
        for pod in pods:
            if pod.spec.nodeName and not pod.is_terminal and pod.spec.schedulerName != SCHEDULER:
                held = used.setdefault(pod.spec.nodeName, [0] * len(resources))
                for r, amount in enumerate(demand(pod.spec, resources)):
                    held[r] += amount
        groups: list[dict[str, Any]] = []
        for item, node in nodes:
            if any(node.metadata.name == group["name"] for group in groups):
                self._issues.append(item.issue(("metadata", "name"), f"node '{node.metadata.name}' is there already"))
            try:
                core = core_node(node, resources)
            except InvalidQuantity as error:
                self._issues.append(item.issue(("status", "allocatable"), str(error)))
                continue
            if not core.capacity or not core.capacity[0]:
                wanted = "expected status.allocatable (as `kubectl get nodes -o yaml` prints)"
                message = f"node {core.id} offers no cpu: {wanted}"
                self._issues.append(item.issue(("status",), message))
                continue
            if node.speed is None:
                wanted = f"expected a number from {SLOWEST:g} to {FASTEST:g}"
                message = f"{show_value(node.said_speed)} is not a speed ({wanted})"
                self._issues.append(item.issue(("metadata", "labels", SPEED_LABEL), message))
                continue
            taken = used.get(core.id, [0] * len(resources))
            left = tuple(max(0, c - u) for c, u in zip(core.capacity, taken, strict=True))
            told = {key: value for key, value in _written(core).items() if key not in ("id", "capacity")}
            groups.append({"name": core.id, "capacity": resources.show(left) or {"cpu": 0}, **told})
        return groups

    # -- the present ----------------------------------------------------------------------------

    def _find_running(self, pods: list[tuple[_Object, Pod]], nodes: set[str]) -> None:
        """Note the pods that a snapshot saw running, by job and stage."""
        for item, pod in pods:
            meta, node = pod.metadata, pod.spec.nodeName
            if AGE_SECONDS not in meta.annotations or not node or pod.is_terminal or not _joins(pod):
                continue
            if node not in nodes:
                self._notes[f"{self._path}: pod {meta.key} runs on node {node}, which is not there, and waits"] = None
                continue
            job = meta.labels.get(DAGJOB_LABEL, meta.name)
            key = f"{meta.namespace}/{job}", meta.labels.get(STAGE_LABEL, "pod")
            age = self._age_ms(item, meta)
            self._running.setdefault(key, []).append({"node": node, "elapsed": f"{age or 0}ms"})

    def _age_ms(self, item: _Object, meta: Meta) -> int | None:
        """Age of an object of a snapshot, ms; None for an object of any other file."""
        text = meta.annotations.get(AGE_SECONDS)
        try:
            age = None if text is None else round(1000 * float(text))
            if age is not None and age < 0:
                raise ValueError(text)
        except (ValueError, OverflowError):
            message = f"{show_value(text)} is not an age (expected seconds from 0)"
            self._issues.append(item.issue(("metadata", "annotations", AGE_SECONDS), message))
            return None
        return age

    def _submit(self, item: _Object, meta: Meta, begin: int, *, runs: bool) -> str:
        """Arrival: a snapshot's job with running tasks at 0, its others behind in their order; else by creation."""
        if AGE_SECONDS not in meta.annotations:
            return f"{(meta.created_ms or begin) - begin}ms"
        self._age_ms(item, meta)
        if runs:
            return "0ms"
        self._arrived += 1
        return f"{self._arrived}ms"

    # -- jobs -----------------------------------------------------------------------------------

    def _jobs(
        self,
        dagjobs: list[tuple[_Object, DagJob]],
        pods: list[tuple[_Object, Pod]],
        batch: list[tuple[_Object, _BatchJob]],
    ) -> list[dict[str, Any]]:
        metas = [(d.metadata, "DagJob") for _, d in dagjobs] + [(p.metadata, "Pod") for _, p in pods if _joins(p)]
        stamps = [ms for meta, _ in metas if (ms := meta.created_ms) is not None]
        begin = min(stamps, default=0)
        jobs = [job for item, d in dagjobs if (job := self._dagjob(item, d, begin)) is not None]
        for item, pod in pods:
            meta, made = pod.metadata, pod_service(pod.metadata)
            of_job = DAGJOB_LABEL in meta.labels and AGE_SECONDS in meta.annotations
            if not _joins(pod) or pod.is_terminal or of_job or (meta.owner is not None and made is None):
                continue
            jobs.append(self._one(item, ("metadata",), meta, pod.spec, begin, meta.name, made))
        for item, many in batch:
            at, template = ("spec", "template", "metadata"), many.spec.template
            labels = {**many.metadata.labels, **template.metadata.labels}
            meta = msgspec.structs.replace(many.metadata, labels=labels)
            count = many.spec.completions or many.spec.parallelism or 1
            names = (f"{meta.name}-{number}" for number in range(count))
            jobs += [self._one(item, at, meta, template.spec, begin, name) for name in names]
        return jobs

    def _joins(self, item: _Object, deployment: _Deployment) -> bool:
        """Whether the pods of a Deployment join a queue."""
        template = deployment.spec.template
        if QUEUE_LABEL in template.metadata.labels or template.spec.schedulerName == SCHEDULER:
            return True
        self._notes[f"{self._path}: Deployments whose pods join no queue are left out"] = None
        return False

    def _services(
        self, deployments: list[tuple[_Object, _Deployment]], pods: list[tuple[_Object, Pod]]
    ) -> Iterator[dict[str, Any]]:
        """A job for each replica, as in a cluster, unless its pods are in the file as well."""
        owners = [
            (pod.metadata.namespace, pod.metadata.owner.name) for _, pod in pods if pod.metadata.owner is not None
        ]
        for item, each in deployments:
            meta, template = each.metadata, each.spec.template
            if any(space == meta.namespace and name.rpartition("-")[0] == meta.name for space, name in owners):
                continue
            whole = msgspec.structs.replace(meta, labels={**meta.labels, **template.metadata.labels})
            made = service(ours(template.metadata.annotations))
            for number in range(each.spec.replicas):
                yield self._one(item, (), whole, template.spec, 0, f"{meta.name}-{number}", made)

    def _dagjob(self, item: _Object, job: DagJob, begin: int) -> dict[str, Any] | None:
        """A DagJob without its finished tasks and stages; None for a job that is over."""
        if job.is_over:
            return None
        try:
            core = core_job(job, self._resources, id=job.key)
        except InvalidJob as error:
            self._issues.append(item.issue(("spec", "stages"), str(error)))
            return None
        running = {stage.name: self._running.get((job.key, stage.name), []) for stage in job.spec.stages}
        done = {stage.name: stage.succeeded for stage in job.status.stages}
        over = {stage.name for stage in job.spec.stages if done.get(stage.name, 0) >= stage.tasks}
        stages = []
        for index, (written, stage) in enumerate(zip(job.spec.stages, core.stages, strict=True)):
            if stage.name in over:
                continue
            at = ("spec", "stages", index, "template", "metadata")
            entry = {
                "name": stage.name,
                "tasks": stage.tasks - done.get(stage.name, 0),
                "parents": [_parent(parent, written.hints) for parent in written.parents if parent not in over],
                **self._task(stage.demand, stage.places),
                "duration": self._run_time(item, at),
            }
            if stage.gang:
                entry["gang"] = True
            if running[stage.name] and not entry["parents"]:
                entry["running"] = running[stage.name][: entry["tasks"]]
            if stage.hint_ms is not None:
                entry["hint"] = f"{stage.hint_ms}ms"
            stages.append(entry)
        return {
            "name": core.name,
            **_due(core, job.metadata.created_ms, self._age_ms(item, job.metadata) or 0),
            "id": job.key,
            "user": core.user,
            "queue": core.queue,
            "submit": self._submit(item, job.metadata, begin, runs=any("running" in stage for stage in stages)),
            **({} if core.wishes is None else {"wishes": _written(core.wishes)}),
            "stages": stages,
        }

    def _one(
        self,
        item: _Object,
        at: tuple[str | int, ...],
        meta: Meta,
        spec: PodSpec,
        begin: int,
        name: str,
        made: Service | None = None,
    ) -> dict[str, Any]:
        """A pod with our label, as a job of a single task. made: the pod's service, if any."""
        wanted = demand(spec, self._resources)
        timed = {} if made is not None else {"duration": self._run_time(item, at)}
        running = self._running.get((meta.key, "pod"), []) if item.kind == "Pod" and made is None else []
        timed |= {"running": running} if running else {}
        return {
            **({} if made is None else {"service": _written(made)}),
            "name": meta.labels.get(RECURRING_LABEL) or meta.name,
            "id": f"{meta.namespace}/{name}" if meta.namespace else name,
            "user": meta.labels.get(USER_LABEL, ""),
            "queue": meta.labels.get(QUEUE_LABEL, "default"),
            "submit": self._submit(item, meta, begin, runs=bool(running)),
            "stages": [{"name": "pod", **self._task(wanted, places(spec)), **timed}],
        }

    def _task(self, wanted: Vector, where: Places) -> dict[str, Any]:
        entry: dict[str, Any] = {"demand": self._resources.show(wanted)}
        if where.terms or where.tolerations:
            entry["places"] = msgspec.to_builtins(where)
        return entry

    def _run_time(self, item: _Object, at: tuple[str | int, ...]) -> Any:
        """The annotation for emulation and fake kubelets only, from the text of the file itself."""
        data: Any = item.data
        for part in (*at, "annotations"):
            data = (data or {}).get(part) if not isinstance(part, int) else data[part]
        text = (data or {}).get(RUN_SECONDS) if isinstance(data, dict) else None
        if text is None:
            message = f"annotation {RUN_SECONDS} is missing: how long does a task of it run?"
            hint = f'write {RUN_SECONDS}: "30", or "lognormal(30, 0.5)" (mean in seconds, coefficient of variation)'
            self._issues.append(item.issue(at, message, hint))
            return "1s"
        try:
            return read_run_seconds(str(text))
        except ValueError as error:
            self._issues.append(item.issue((*at, "annotations", RUN_SECONDS), str(error)))
            return "1s"

    def _note_wishes(self, jobs: list[dict[str, Any]], groups: list[dict[str, Any]]) -> None:
        """Note wishes without any matching node: no mistake, as such nodes may come."""
        there = {key: {group.get(key) for group in groups} for key in ("kind", "rack")}
        for job in jobs:
            for wish in job.get("wishes", {}).get("prefer", ()):
                for key, label, name in (("kind", TYPE_LABEL, wish["device"]), ("rack", ZONE_LABEL, wish["rack"])):
                    if name and name not in there[key]:
                        said = f"{self._path}: no node has the label {label}: {name} that {job['id']} wishes for"
                        self._notes[f"{said}; that way is left out"] = None

    # -- the scenario ---------------------------------------------------------------------------

    def _data(
        self,
        scenario: Mapping[str, Any] | None,
        groups: list[dict[str, Any]],
        queues: list[tuple[_Object, QueueObject]],
        jobs: list[dict[str, Any]],
    ) -> dict[str, Any]:
        data: dict[str, Any] = (
            dict(scenario) if scenario is not None else {"apiVersion": API_VERSION, "kind": "Scenario"}
        )
        if (data.get("metadata") or {}).get("name") == LIVE:
            del data["metadata"]  # changed copies of a snapshot have their results apart
        data.setdefault("metadata", {"name": re.sub(r"[^A-Za-z0-9._-]", "-", self._path.stem)})
        spec = data["spec"] = dict(data.get("spec") or {})
        cluster = spec["cluster"] = dict(spec.get("cluster") or {"profile": "kubernetes"})
        if groups:
            cluster.setdefault("nodes", groups)
        if queues:
            spec["queues"] = [*(spec.get("queues") or ()), *(_queue(queue) for _, queue in queues)]
        spec.setdefault("workload", {"kind": "jobs", "jobs": jobs})
        spec.setdefault("policies", [{"label": "gs", "kind": "gs", "predictor": {"kind": "slearn"}}])
        return data


def _due(job: Job, created_ms: int | None, age_ms: int) -> dict[str, Any]:
    """Deadline of a job from its arrival on, at such an age; a deadline before the arrival is missed at once."""
    if job.deadline is None or created_ms is None:
        return {}
    return {"deadline": f"{max(1, job.deadline - created_ms - age_ms)}ms"}


def _parent(name: str, hints: Hints | None) -> str | dict[str, Any]:
    """A parent in the form of a written-out job, with the data that the parent hands over."""
    data = hints.data.get(name) if hints is not None else None
    return name if data is None else {"stage": name, "data": data}


def _queue(queue: QueueObject) -> dict[str, Any]:
    spec, each = queue.spec, queue.spec.perUser
    limits: dict[str, Any] = {"parent": spec.parent or None, "guaranteed": spec.guaranteed, "max": spec.max}
    limits["max_running"] = spec.maxRunning
    if each is not None:
        per_user = {"limit": each.limit, "max_running": each.maxRunning}
        limits["per_user"] = {key: value for key, value in per_user.items() if value is not None}
    entry: dict[str, Any] = {"name": queue.metadata.name, "weight": float(spec.weight)}
    entry |= {key: value for key, value in limits.items() if value is not None}
    return entry if spec.preemptible else entry | {"preemptible": False}


def _joins(pod: Pod) -> bool:
    return pod.spec.schedulerName == SCHEDULER or QUEUE_LABEL in pod.metadata.labels


def read_run_seconds(text: str) -> Any:
    """A run time in the scenario's form: `30` (seconds), or a distribution by mean (s) and coefficient of variation.

    The numbers of `uniform(20, 40)` are the ends instead. Raises ValueError.
    """
    match = _DISTRIBUTION.fullmatch(text.strip())
    try:
        if match is None:
            ms = round(1000 * float(parse_quantity(text.strip())))
            if ms < 1:
                raise ValueError(text)
            return f"{ms}ms"
        kind, first, second = match[1], float(match[2]), float(match[3])
    except (ValueError, InvalidQuantity):
        raise ValueError(_not_a_run_time(text)) from None
    if kind == "uniform":
        if not 0 <= first < second:
            raise ValueError(_not_a_run_time(text))
        mean, cov = (first + second) / 2, (second - first) / (2 * _ROOT_3) / ((first + second) / 2)
    else:
        mean, cov = first, second
    if kind not in _KINDS or mean <= 0:
        raise ValueError(_not_a_run_time(text))
    return {"kind": kind, "mean": f"{round(1000 * mean)}ms", "cov": cov}


def _not_a_run_time(text: str) -> str:
    return (
        f"{show_value(text)} is not a run time: expected seconds above 0 such as 30, or one of "
        "lognormal(30, 0.5), gamma(30, 0.5), normal(30, 0.2), exponential(30, 1), uniform(20, 40)"
    )
