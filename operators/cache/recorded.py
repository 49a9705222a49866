"""Recorded lists: what the API server answered, in a file, to be taken in again without one.

A recording is gzip of JSON lines, one `{"kind": "Pod", "page": {...}}` per page of a list, the page being the
answer itself. It holds whole objects, environment variables of pods included: its file is the owner's alone.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from operators.cache.cache import KINDS, Cache
from operators.cache.reflector import PAGE, Kind, Listing
from operators.client import Client


class Page(NamedTuple):
    """One answer to a LIST: the kind's name, and the JSON as it came."""

    kind: str
    text: bytes


class InvalidRecording(ValueError):
    """A file that is no recording, or was cut short; the message says where."""


class _Line(msgspec.Struct):
    kind: str
    page: msgspec.Raw


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Continued(msgspec.Struct):
    metadata: _ListMeta


async def record(client: Client, path: Path, *, kinds: Iterable[Kind] = KINDS) -> int:
    """Write all objects of these kinds to `path`; returns the number of pages. Raises ApiError and OSError.

    Nothing is left at `path` if it fails half-way. Several kinds are listed one after the other, so a recording
    of a busy cluster is not of one moment.
    """
    pages = [page for kind in kinds for page in await _list(client, kind)]
    write(path, pages)
    return len(pages)


async def _list(client: Client, kind: Kind) -> list[Page]:
    params = {"limit": str(PAGE)} | ({"labelSelector": kind.selector} if kind.selector else {})
    pages: list[Page] = []
    while True:
        pages.append(Page(kind.name, await client.get_raw(kind.path, **params)))
        params["continue"] = _CONTINUED.decode(pages[-1].text).metadata.continue_
        if not params["continue"]:
            return pages


def write(path: Path, pages: Iterable[Page]) -> None:
    """Pages to a file, which is there as a whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # readable by its owner only
    try:
        with os.fdopen(handle, "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
            for page in pages:
                line = _Line(page.kind, msgspec.Raw(msgspec.json.format(page.text, indent=-1)))
                file.write(msgspec.json.encode(line) + b"\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: Path) -> Iterator[Page]:
    """The pages of a recording, one after the other. Raises InvalidRecording, and OSError for no such file."""
    number = 0
    try:
        with gzip.open(path) as file:
            for text in file:
                line = _LINE.decode(text)
                number += 1
                yield Page(line.kind, bytes(line.page))
    except (gzip.BadGzipFile, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRecording(f"{path}: no recording, or cut short after line {number}: {error}") from None


async def feed(cache: Cache, path: Path) -> None:
    """Take a recording in as if it had just been listed. Raises InvalidRecording and OSError.

    The same code as for lists of the API server decodes it, holds it against what the cache has and tells the
    differences; of kinds that the recording lacks there are no objects.
    """
    listings = {kind: Listing() for kind in cache.reflectors}
    for page in load(path):
        if page.kind in listings:
            cache.reflectors[page.kind].take_page(page.text, listings[page.kind])
            await asyncio.sleep(0)
    for kind, listing in listings.items():
        await cache.reflectors[kind].take_end(listing)


_LINE: Final = msgspec.json.Decoder(_Line)
_CONTINUED: Final = msgspec.json.Decoder(_Continued)


# -- made up ------------------------------------------------------------------------------------


def build(nodes: int, pods: int, *, page: int = PAGE) -> Iterator[Page]:
    """The lists of a cluster that never was: objects as large and as full of what we skip as real ones.

    Pods belong to Jobs of 100; nine in ten run on a node each, evenly; the rest is pending. The same numbers
    always give the same text.
    """
    yield from _pages("Node", "v1", (_node(index) for index in range(nodes)), page)
    yield from _pages("Queue", "rm-emulator.io/v1alpha1", iter(()), page)
    yield from _pages("DagJob", "rm-emulator.io/v1alpha1", iter(()), page)
    yield from _pages("Pod", "v1", (_pod(index, nodes) for index in range(pods)), page)


def _pages(kind: str, version: str, items: Iterator[dict[str, Any]], size: int) -> Iterator[Page]:
    following = next(items, None)
    while True:
        some: list[dict[str, Any]] = []
        while following is not None and len(some) < size:
            some.append(following)
            following = next(items, None)
        meta = {"resourceVersion": "900000"} | ({"continue": "next"} if following is not None else {})
        text = {"kind": f"{kind}List", "apiVersion": version, "metadata": meta, "items": some}
        yield Page(kind, msgspec.json.encode(text))
        if following is None:
            return


_BORN: Final = "2026-03-01T08:00:00Z"
_STARTED: Final = "2026-03-01T08:00:04Z"


def _uid(kind: int, index: int) -> str:
    return f"{kind:08x}-0000-4000-8000-{index:012x}"


def _managed(manager: str, fields: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _BORN, "fieldsType": "FieldsV1"}
    return entry | {"fieldsV1": fields} | ({"subresource": subresource} if subresource else {})


def _condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    told = {"type": kind, "status": status, "reason": reason, "message": message}
    return told | {"lastHeartbeatTime": _STARTED, "lastTransitionTime": _STARTED}


def _node(index: int) -> dict[str, Any]:
    name = f"node-{index:05}"
    offered = {
        "cpu": "64",
        "memory": "263856112Ki",
        "pods": "110",
        "ephemeral-storage": "959786032Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": ("m6i.16xlarge", "c6i.16xlarge")[index % 2],
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": f"eu-west-1{'abc'[index % 3]}",
    }
    meta = {
        "name": name,
        "uid": _uid(1, index),
        "resourceVersion": str(100_000 + index),
        "creationTimestamp": _BORN,
        "labels": labels,
        "annotations": {
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        },
        "managedFields": [
            _managed("kubelet", {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}}),
            _managed("kubelet", {"f:status": {"f:allocatable": {f"f:{key}": {} for key in offered}}}, "status"),
        ],
    }
    conditions = [
        _condition(kind, "False", f"KubeletHas{reason}", f"kubelet has {reason}")
        for kind, reason in (
            ("MemoryPressure", "SufficientMemory"),
            ("DiskPressure", "NoDiskPressure"),
            ("PIDPressure", "SufficientPID"),
        )
    ]
    status = {
        "capacity": offered,
        "allocatable": offered,
        "conditions": [*conditions, _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")],
        "addresses": [
            {"type": "InternalIP", "address": f"10.{index >> 8 & 255}.{index & 255}.1"},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {"kernelVersion": "6.12.0", "osImage": "Debian 13", "kubeletVersion": "v1.36.3"},
        "images": [
            {
                "names": [f"registry.example.com/team/image-{number}@sha256:{number:064x}"],
                "sizeBytes": 10**8 + number,
            }
            for number in range(50)
        ],
    }
    spec = {"podCIDR": f"10.{index >> 8 & 255}.{index & 255}.0/24", "providerID": f"aws:///{_uid(1, index)}"}
    return {"metadata": meta, "spec": spec, "status": status}


def _pod(index: int, nodes: int) -> dict[str, Any]:
    runs = nodes > 0 and index % 10 != 9
    job = index // 100
    name = f"report-{job:05}-{index:05}-x7k2p"
    labels = {
        "batch.kubernetes.io/controller-uid": _uid(2, job),
        "batch.kubernetes.io/job-name": f"report-{job:05}",
        "controller-uid": _uid(2, job),
        "job-name": f"report-{job:05}",
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"report-{job:05}", "uid": _uid(2, job)}
    fields: dict[str, Any] = {
        "f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}},
        "f:spec": {"f:containers": {"f:env": {}}},
    }
    meta = {
        "name": name,
        "generateName": f"report-{job:05}-",
        "namespace": f"team-{job % 40}",
        "uid": _uid(3, index),
        "resourceVersion": str(200_000 + index),
        "creationTimestamp": _BORN,
        "labels": labels,
        "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        "managedFields": [
            _managed("kube-controller-manager", fields),
            _managed("kubelet", {"f:status": {f"f:{key}": {} for key in ("conditions", "phase", "podIP")}}, "status"),
        ],
    }
    spec: dict[str, Any] = {
        "volumes": [{"name": "kube-api-access-x7k2p", "projected": {"sources": [], "defaultMode": 420}}],
        "containers": [_container(index)],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if not runs:
        return {"metadata": meta, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}
    spec["nodeName"] = f"node-{index % nodes:05}"
    return {"metadata": meta, "spec": spec, "status": _running(index)}


def _container(index: int) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "registry.example.com/team/report:1.42.0",
        "command": ["python", "-m", "report"],
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(12)],
        "resources": {
            "requests": {"cpu": f"{250 * (1 + index % 8)}m", "memory": f"{1 + index % 4}Gi"},
            "limits": {"memory": f"{1 + index % 4}Gi"},
        },
        "volumeMounts": [
            {
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _running(index: int) -> dict[str, Any]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    address = f"10.{64 + (index >> 16)}.{index >> 8 & 255}.{index & 255}"
    container = {
        "name": "main",
        "state": {"running": {"startedAt": _STARTED}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "registry.example.com/team/report:1.42.0",
        "imageID": f"registry.example.com/team/report@sha256:{7:064x}",
        "containerID": f"containerd://{index:064x}",
        "started": True,
    }
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _STARTED} for kind in kinds
        ],
        "hostIP": "10.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _STARTED,
        "containerStatuses": [container],
        "qosClass": "Burstable",
    }
