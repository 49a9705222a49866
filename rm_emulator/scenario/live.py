"""A live cluster as a file of objects for `rm-emulator run`: nodes, queues, jobs, and use by other schedulers' pods.

kubectl reads the objects, because kubectl logs in wherever its user can. Nothing is written to the cluster.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from rm_emulator.issues import InvalidInput
from schedulers.core.resources import Resources
from schedulers.objects.dagjob import DagJob, core_job
from schedulers.objects.names import DAGJOB_LABEL, GROUP, QUEUE_LABEL, RUN_SECONDS, SCHEDULER
from schedulers.objects.nesting import cut
from schedulers.objects.node import NodeObject, core_node
from schedulers.objects.pod import Pod, demand
from schedulers.objects.queue import QueueObject

_ENDED: Final = ("Succeeded", "Failed")
_TIMEOUT_S: Final = 120
#: Of a whole number; more than enough for any amount.
_DIGITS: Final = 100
#: Of these an amount must be readable for the object to be of any use.
_RESOURCES: Final = Resources(("cpu", "memory", "pods"))


class Snapshot(NamedTuple):
    """Result of `take`: the objects, and notes on missing parts."""

    objects: list[dict[str, Any]]
    notes: list[str]

    def text(self) -> str:
        """As a YAML file of many documents."""
        return str(yaml.safe_dump_all(self.objects, sort_keys=False, allow_unicode=True))


def take(kubeconfig: Path, *, context: str | None = None, kubectl: str = "kubectl") -> Snapshot:
    """Read a cluster. Raises InvalidInput when there is no kubectl, or with kubectl's own message."""
    if shutil.which(kubectl) is None:
        raise InvalidInput(f"no program '{kubectl}': install kubectl, or name it by --kubectl")
    command = [kubectl, "--kubeconfig", str(kubeconfig), *(["--context", context] if context else [])]
    nodes = _get(command, "nodes")
    if not nodes:
        raise InvalidInput("the cluster has no nodes")
    return of(nodes, _get(command, f"queues.{GROUP}"), _get(command, f"dagjobs.{GROUP}"), _get(command, "pods"))


def of(
    nodes: list[dict[str, Any]],
    queues: list[dict[str, Any]],
    dagjobs: list[dict[str, Any]],
    pods: list[dict[str, Any]],
) -> Snapshot:
    """The objects of a cluster, in the API server's form. Unreadable objects are left out, with a note each."""
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    for items, read in ((nodes, _node), (queues, _queue), (dagjobs, _dagjob), (pods, _pod)):
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
    return Snapshot(found, notes)


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


def _get(command: list[str], what: str) -> list[dict[str, Any]]:
    asked = [*command, "get", what, "--all-namespaces", "-o", "json"]
    try:
        done = subprocess.run(  # noqa: S603
            asked, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"kubectl get {what}: no answer within {_TIMEOUT_S} s") from None
    if done.returncode:
        if "the server doesn't have a resource type" in done.stderr:
            return []  # our objects have never been installed there
        raise InvalidInput(f"kubectl get {what}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return listed(done.stdout)


def listed(text: str) -> list[dict[str, Any]]:
    """The objects of a list in the API server's form."""
    # What is nested too deeply for any parser, or too long a number, matters to no scheduler.
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


def _node(item: Mapping[str, Any], _notes: list[str]) -> dict[str, Any]:
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


def _queue(item: Mapping[str, Any], _notes: list[str]) -> dict[str, Any]:
    spec = item.get("spec", {})
    return {"apiVersion": item["apiVersion"], "kind": "Queue", "metadata": _meta(item, dated=False), "spec": spec}


def _dagjob(item: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
    """A job with its progress so far, None for a job that is over; a stage without a run time gets its hint, if any."""
    if item.get("status", {}).get("phase") in _ENDED:
        return None
    stages = item["spec"]["stages"]
    for stage in stages:
        meta = stage["template"].setdefault("metadata", {})
        if RUN_SECONDS in (meta.get("annotations") or {}):
            continue
        where = f"{item['metadata']['namespace']}/{item['metadata']['name']} stage {stage['name']}"
        hint = (stage.get("hints") or {}).get("durationSeconds")
        if hint:
            meta.setdefault("annotations", {})[RUN_SECONDS] = str(hint)
            notes.append(f"{where}: its hint of {hint} s is taken for its run time")
        else:
            notes.append(f"{where}: nothing says how long a task runs; add the annotation {RUN_SECONDS}")
    done = [{"name": s["name"], "succeeded": s.get("succeeded", 0)} for s in item.get("status", {}).get("stages", ())]
    return {
        "apiVersion": item["apiVersion"],
        "kind": "DagJob",
        "metadata": _meta(item),
        "spec": item["spec"],
        "status": {"stages": done},
    }


def _pod(item: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
    """A pod bound by another scheduler, or a pod of ours outside any DagJob; None for all other pods."""
    spec, labels = item["spec"], item["metadata"].get("labels") or {}
    if item.get("status", {}).get("phase") in _ENDED or DAGJOB_LABEL in labels:
        return None
    ours = spec.get("schedulerName") == SCHEDULER or QUEUE_LABEL in labels
    if not ours and not spec.get("nodeName"):
        return None
    owners = [o for o in item["metadata"].get("ownerReferences") or () if o["kind"] == "ReplicaSet"]
    if ours and not owners and RUN_SECONDS not in (item["metadata"].get("annotations") or {}):
        name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        notes.append(f"pod {name}: nothing says how long it runs; add the annotation {RUN_SECONDS}")
    told = ("nodeName", "schedulerName", "nodeSelector", "affinity", "tolerations", "overhead")
    parts = ("containers", *(["initContainers"] if "initContainers" in spec else []))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(item) | ({"ownerReferences": owners} if owners else {}),
        "spec": {
            **{name: spec[name] for name in told if spec.get(name)},
            **{part: [_container(c) for c in spec[part]] for part in parts},
        },
    }


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return {name: container[name] for name in ("name", "resources", "restartPolicy") if container.get(name)}
