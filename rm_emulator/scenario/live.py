"""A live cluster as a file of objects for `rm-emulator run`: nodes, queues, jobs, and use by other schedulers' pods.

kubectl reads the objects, because kubectl logs in wherever its user can. Nothing is written to the cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
import yaml

from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario import kueue
from rm_emulator.scenario.document import read_documents
from rm_emulator.scenario.objects import LIVE, MEMORY, NOTES
from rm_emulator.scenario.observed import PastRuns, RunTimes, age_s, controller
from rm_emulator.scenario.schema import API_VERSION
from schedulers.core.resources import Resources
from schedulers.objects.dagjob import DagJob, core_job
from schedulers.objects.meta import to_ms
from schedulers.objects.names import (
    AGE_SECONDS,
    DAGJOB_LABEL,
    GROUP,
    NAMESPACE,
    QUEUE_LABEL,
    RUN_SECONDS,
    SCHEDULER,
    STAGE_LABEL,
)
from schedulers.objects.nesting import cut
from schedulers.objects.node import NodeObject, core_node
from schedulers.objects.pod import Pod, demand
from schedulers.objects.queue import QueueObject

_ENDED: Final = ("Succeeded", "Failed")
_TIMEOUT_S: Final = 120
#: Of a whole number; more than enough for any amount.
_DIGITS: Final = 100
#: The ConfigMap with the brain's configuration.
_CONFIG: Final = "rm-brain"
#: Kinds that a cluster may lack or keep to itself, and the names by which kubectl knows them.
_OTHERS: Final = {"ConfigMap": "configmaps", "Job": "jobs.batch", "JobSet": "jobsets.jobset.x-k8s.io", **kueue.KINDS}
#: Of these an amount must be readable for the object to be of any use.
_RESOURCES: Final = Resources(("cpu", "memory", "pods"))


class Snapshot(NamedTuple):
    """Result of `take`: the objects, and notes on missing parts."""

    objects: list[dict[str, Any]]
    notes: list[str]

    def text(self) -> str:
        """As a YAML file of many documents; the last has the notes."""
        notes = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NOTES}}
        notes["data"] = {"notes": "\n".join(" ".join(note.split()) for note in self.notes)}
        told = [notes] if self.notes else []
        return str(yaml.safe_dump_all([*self.objects, *told], sort_keys=False, allow_unicode=True))


def asked(kubeconfig: Path | None, files: Sequence[Path], *, context: str | None, kubectl: str) -> Snapshot:
    """A snapshot of a cluster or of files, whichever is named. Raises InvalidInput."""
    if (kubeconfig is None) == (not files):
        given = f", got --kubeconfig {kubeconfig} and --from-files {files[0]}" if files else ""
        raise InvalidInput(f"expected either --kubeconfig or --from-files{given}")
    return from_files(files) if kubeconfig is None else take(LiveCluster(kubeconfig, context, kubectl))


def refuse_existing(files: Iterable[Path], *, overwrite: bool) -> None:
    """Raise InvalidInput for files that are there and are not to be replaced; before the cluster is asked."""
    if taken := [file for file in files if not overwrite and os.path.lexists(file)]:
        why = "is there already (expected another --out, or --overwrite to replace the file)"
        raise InvalidInput(Issue(str(file), why) for file in taken)


class LiveCluster(NamedTuple):
    """A live cluster, as kubectl reaches it."""

    kubeconfig: Path
    context: str | None = None
    kubectl: str = "kubectl"

    def ask(self, *words: str, into: BinaryIO | None = None) -> subprocess.CompletedProcess[str]:
        """What kubectl answers. Raises InvalidInput when there is no kubectl, or no answer in time.

        into: takes the bytes of standard output, which is kept as text otherwise.
        """
        if shutil.which(self.kubectl) is None:
            raise InvalidInput(f"no program '{self.kubectl}': install kubectl, or name it by --kubectl")
        context = ["--context", self.context] if self.context else []
        command = [self.kubectl, "--kubeconfig", str(self.kubeconfig), *context, *words]
        try:
            return subprocess.run(  # noqa: S603
                command,
                stdout=subprocess.PIPE if into is None else into,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InvalidInput(f"kubectl {words[0]} {words[1]}: no answer within {_TIMEOUT_S} s") from None

    def get(self, what: str, *where: str) -> list[dict[str, Any]]:
        """The objects of a kind, those of an unknown kind are none. Raises InvalidInput, with kubectl's own message."""
        done = self.ask("get", what, *(where or ("--all-namespaces",)), "-o", "json")
        if done.returncode:
            if "the server doesn't have a resource type" in done.stderr:
                return []  # our objects have never been installed there
            raise InvalidInput(f"kubectl get {what}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        try:
            return listed(done.stdout)
        except (LookupError, TypeError, ValueError):
            raise InvalidInput(f"kubectl get {what}: the answer is no list of objects") from None


def take(cluster: LiveCluster) -> Snapshot:
    """Read a cluster. Raises InvalidInput when there is no kubectl, or with kubectl's own message."""
    nodes = cluster.get("nodes")
    if not nodes:
        raise InvalidInput("the cluster has no nodes")
    ours = (cluster.get(f"queues.{GROUP}"), cluster.get(f"dagjobs.{GROUP}"), cluster.get("pods"))
    others: dict[str, list[dict[str, Any]]] = {}
    notes = []
    for kind, name in _OTHERS.items():
        try:
            others[kind] = cluster.get(name, *(("--namespace", NAMESPACE) if kind == "ConfigMap" else ()))
        except InvalidInput as error:  # an RBAC role may leave these kinds out
            notes.append(f"objects of kind {kind} are left out: {error}")
    taken = of(nodes, *ours, others=others, now_ms=time.time_ns() // 1_000_000)
    return Snapshot(taken.objects, [*notes, *taken.notes])


def from_files(paths: Sequence[Path]) -> Snapshot:
    """As `take`, from files that kubectl wrote (`kubectl get KIND -A -o yaml`). Raises InvalidInput.

    The time of the snapshot is the latest time in the files.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        for document in read_documents(path):
            data = document.data
            several = isinstance(data, dict) and str(data.get("kind", "")).endswith("List")
            items = data.get("items") if isinstance(data, dict) and several else [data]
            if not isinstance(items, list):
                raise InvalidInput([document.issue(("items",), "expected a list of objects")])
            for number, item in enumerate(items):
                if not isinstance(item, dict) or not isinstance(item.get("metadata"), dict) or "kind" not in item:
                    at = ("items", number) if several else ()
                    raise InvalidInput([document.issue(at, "expected an object with kind and metadata")])
                found.setdefault(str(item["kind"]), []).append(item)
    nodes, queues, dagjobs, pods = (found.pop(kind, []) for kind in ("Node", "Queue", "DagJob", "Pod"))
    if not nodes:
        raise InvalidInput([Issue(str(paths[0]), "no file has Node objects: add those of `kubectl get nodes -o yaml`")])
    stamps = list(_stamps([nodes, queues, dagjobs, pods, found]))
    taken = of(nodes, queues, dagjobs, pods, others=found, now_ms=max(stamps, default=0))
    said = "the time of the snapshot is the latest time in the files"
    return Snapshot(taken.objects, [*([said] if stamps else []), *taken.notes])


def _stamps(value: Any) -> Iterator[int]:
    """All times in objects, ms since the epoch."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list):
        stamp = to_ms(value) if isinstance(value, str) and value[:1].isdecimal() else None
        yield from () if stamp is None else (stamp,)
        return
    for each in value:
        yield from _stamps(each)


def of(
    nodes: list[dict[str, Any]],
    queues: list[dict[str, Any]],
    dagjobs: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    *,
    others: Mapping[str, list[dict[str, Any]]] | None = None,
    now_ms: int = 0,
) -> Snapshot:
    """The objects of a cluster, in the API server's form. Unreadable objects are left out, with a note each.

    others: objects of further kinds. now_ms: the time of the snapshot, ms since the epoch.
    """
    others = others or {}
    history = list[str]()
    reader = _Reader(RunTimes(pods), now_ms, PastRuns(others.get("ConfigMap", ()), history))
    made = kueue.read(others, pods, reader.times, now_ms)
    found: list[dict[str, Any]] = _scenario(others.get("ConfigMap", ()), made.notes)
    rest = [pod for pod in pods if id(pod) not in made.pods]
    dagjobs = sorted(dagjobs, key=lambda item: str((item.get("metadata") or {}).get("creationTimestamp")))
    notes = made.notes + history
    reads = ((nodes, reader.node), (queues, reader.queue), (dagjobs, reader.dagjob), (rest, reader.pod))
    for items, read in (*reads, (made.objects, lambda item, _: item)):
        for item in items:
            told: list[str] = []
            try:
                known = read(item, told)
                _check(known)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                notes.append(f"{_who(item)} cannot be read and is left out ({type(error).__name__}: {error})")
                continue
            notes += told
            if known is not None:
                found.append(known)
    if told_by := len(reader.past.used):
        notes.append(f"the brain's history tells the run times of {told_by} job{'s' if told_by > 1 else ''}")
    return Snapshot(found + _memory(others.get("ConfigMap", ())), notes)


def _memory(configmaps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ConfigMaps of the brain's memory, word for word but for what an API server adds."""
    kept = []
    for item in configmaps:
        meta = item.get("metadata") or {}
        if str(meta.get("name", "")).startswith(MEMORY):
            told = {name: meta[name] for name in ("name", "namespace", "labels") if meta.get(name)}
            data = {name: item[name] for name in ("data", "binaryData") if item.get(name)}
            kept.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": told, **data})
    return kept


def _scenario(configmaps: Iterable[dict[str, Any]], notes: list[str]) -> list[dict[str, Any]]:
    """A Scenario with the policy of the cluster's brain; none where no brain's configuration can be read."""
    for item in configmaps:
        if (item.get("metadata") or {}).get("name") != _CONFIG:
            continue
        try:
            config = yaml.safe_load(item["data"]["config.yaml"])
            policy = dict(config["policy"])
            policy |= {name: dict(config[name]) for name in ("predictor", "placement") if config.get(name)}
            reserve = {"reserve_after": config["reserveAfter"]} if config.get("reserveAfter") else {}
        except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            notes.append(f"the brain's configuration cannot be read ({type(error).__name__}): its policy is unknown")
            continue
        notes.append(f"policy {policy.get('kind')} is the cluster's own policy")
        spec = {"cluster": {"profile": "kubernetes", **reserve}, "policies": [policy]}
        return [{"apiVersion": API_VERSION, "kind": "Scenario", "metadata": {"name": LIVE}, "spec": spec}]
    return []


def _check(item: dict[str, Any] | None) -> None:
    """Raise ValueError for objects that `rm-emulator run` could not read either; limits are checked there."""
    match item and item["kind"]:
        case "Node":
            core_node(msgspec.convert(item, NodeObject, strict=False), _RESOURCES)
        case "Queue":
            msgspec.convert(item, QueueObject, strict=False)
        case "DagJob":
            core_job(msgspec.convert(item, DagJob, strict=False), _RESOURCES)
        case "Pod":
            demand(msgspec.convert(item, Pod, strict=False).spec, _RESOURCES)


def _who(item: Any) -> str:
    """Kind, namespace and name of an object, as far as given."""
    meta = item.get("metadata") if isinstance(item, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    name = "/".join(str(meta[part]) for part in ("namespace", "name") if meta.get(part))
    return f"{item.get('kind', 'object') if isinstance(item, dict) else 'object'} {name or '(without a name)'}"


def listed(text: str) -> list[dict[str, Any]]:
    """The objects of a list in the API server's form."""
    # Objects nested too deeply for any parser, and too long numbers, matter to no scheduler.
    items: list[dict[str, Any]] = json.loads(cut(text.encode()), parse_int=_whole)["items"]
    return items


def _whole(digits: str) -> float:
    """A number without a point; with too many digits for Python, infinity, which all readers here refuse."""
    return int(digits) if len(digits) < _DIGITS else inf


def _meta(item: Mapping[str, Any], *, dated: bool = True) -> dict[str, Any]:
    """Name, namespace, creation time (dated), labels and our own annotations of an object."""
    meta, wanted = item["metadata"], ("name", "namespace", *(["creationTimestamp"] if dated else []), "labels")
    known = {name: meta[name] for name in wanted if meta.get(name)}
    ours = {k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith(f"{GROUP}/")}
    return known | ({"annotations": ours} if ours else {})


class _Reader:
    """Reads nodes, queues, DagJobs and pods; the file has each of them under its own kind."""

    def __init__(self, times: RunTimes, now_ms: int, past: PastRuns) -> None:
        self.times, self.past, self._now_ms = times, past, now_ms

    @staticmethod
    def node(item: Mapping[str, Any], _notes: list[str]) -> dict[str, Any]:
        """A node with its capacity."""
        spec, status = item.get("spec", {}), item.get("status", {})
        ready = [c for c in status.get("conditions", ()) if c["type"] == "Ready"]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _meta(item, dated=False),
            "spec": {name: spec[name] for name in ("taints", "unschedulable") if spec.get(name)},
            "status": {
                "allocatable": status.get("allocatable", {}),
                "conditions": [{"type": "Ready", "status": c["status"]} for c in ready],
            },
        }

    @staticmethod
    def queue(item: Mapping[str, Any], _notes: list[str]) -> dict[str, Any]:
        """A queue as it is."""
        spec = item.get("spec", {})
        return {"apiVersion": item["apiVersion"], "kind": "Queue", "metadata": _meta(item, dated=False), "spec": spec}

    def dagjob(self, item: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
        """A job with its progress so far, None for a job that is over.

        Run times come from pods, else from the brain's history, else from hints.
        """
        if item.get("status", {}).get("phase") in _ENDED:
            return None
        stages, core = item["spec"]["stages"], core_job(msgspec.convert(item, DagJob, strict=False), _RESOURCES)
        for number, stage in enumerate(stages):
            meta = stage["template"].setdefault("metadata", {})
            if RUN_SECONDS in (meta.get("annotations") or {}):
                continue
            where = f"{item['metadata']['namespace']}/{item['metadata']['name']} stage {stage['name']}"
            job = item["metadata"]
            known = self.times.of(job["namespace"], job["name"], stage["name"])
            if known is None and (known := self.past.of(core.user, core.name, len(stages), number)) is not None:
                self.past.used.add(f"{job['namespace']}/{job['name']}")
            hint = (stage.get("hints") or {}).get("durationSeconds")
            if known is not None:
                meta["annotations"] = {**(meta.get("annotations") or {}), RUN_SECONDS: known[0]}
                notes.append(f"{where}: run time {known[0]} s from {known[1]}")
            elif hint:
                meta.setdefault("annotations", {})[RUN_SECONDS] = str(hint)
                notes.append(f"{where}: its hint of {hint} s is taken for its run time")
            else:
                notes.append(f"{where}: nothing says how long a task runs; add the annotation {RUN_SECONDS}")
        done = [
            {"name": s["name"], "succeeded": s.get("succeeded", 0)} for s in item.get("status", {}).get("stages", ())
        ]
        return {
            "apiVersion": item["apiVersion"],
            "kind": "DagJob",
            "metadata": self._aged(item),
            "spec": item["spec"],
            "status": {"stages": done},
        }

    def pod(self, item: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
        """A pod bound by another scheduler, or a pod of ours outside any DagJob; None for all other pods."""
        spec, labels = item["spec"], item["metadata"].get("labels") or {}
        if item.get("status", {}).get("phase") in _ENDED:
            return None
        if DAGJOB_LABEL in labels:
            return self._task(item, notes) if spec.get("nodeName") else None
        ours = spec.get("schedulerName") == SCHEDULER or QUEUE_LABEL in labels
        if not ours and not spec.get("nodeName"):
            return None
        owners = [o for o in item["metadata"].get("ownerReferences") or () if o["kind"] == "ReplicaSet"]
        metadata = self._aged(item) if ours else _meta(item)
        if ours and spec.get("nodeName"):
            metadata["annotations"][AGE_SECONDS] = f"{age_s(item, self._now_ms, notes):.3f}"
        if ours and not owners and RUN_SECONDS not in metadata["annotations"]:
            space, name = metadata["namespace"], metadata["name"]
            if known := self.times.of(space, controller(item).get("name") or name):
                metadata["annotations"][RUN_SECONDS] = known[0]
                notes.append(f"pod {space}/{name}: run time {known[0]} s from {known[1]}")
            else:
                notes.append(f"pod {space}/{name}: nothing says how long it runs; add the annotation {RUN_SECONDS}")
        told = ("nodeName", "schedulerName", "nodeSelector", "affinity", "tolerations", "overhead")
        parts = ("containers", *(["initContainers"] if "initContainers" in spec else []))
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata | ({"ownerReferences": owners} if owners else {}),
            "spec": {
                **{name: spec[name] for name in told if spec.get(name)},
                **{part: [_container(c) for c in spec[part]] for part in parts},
            },
        }

    def _task(self, item: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
        """A task of a DagJob on its node, with its age; its demand stands in the DagJob."""
        meta, labels = item["metadata"], item["metadata"]["labels"]
        told = {DAGJOB_LABEL: labels[DAGJOB_LABEL], STAGE_LABEL: labels[STAGE_LABEL]}
        age = age_s(item, self._now_ms, notes)
        return kueue.task(meta["name"], meta["namespace"], told, item["spec"]["nodeName"], age)

    def _aged(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Metadata of a job, with its age."""
        meta = _meta(item)
        created = to_ms(meta.get("creationTimestamp"))
        age = 0.0 if created is None else max(0, self._now_ms - created) / 1000
        return meta | {"annotations": {**meta.get("annotations", {}), AGE_SECONDS: f"{age:.3f}"}}


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return {name: container[name] for name in ("name", "resources", "restartPolicy") if container.get(name)}
