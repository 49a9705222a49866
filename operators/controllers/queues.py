"""What Queues show: jobs, tasks, share of the cluster, and whether their place in the tree is sound."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from operators.cache.cache import Cache
from operators.client import Client, NotFound, stamp
from schedulers.core.errors import InvalidJob, InvalidQuantity, InvalidQueue
from schedulers.core.resources import Resources, Vector, dominant_share
from schedulers.objects.names import DEFAULT_QUEUE, GROUP, NAMESPACE, QUEUE_LABEL, VERSION
from schedulers.objects.node import core_node
from schedulers.objects.pod import Condition, Pod, demand
from schedulers.objects.queue import Queue, core_queue

#: The ConfigMap whose keys are the names of all queues; admission looks a DagJob's queue up in it.
NAMES = "rm-queues"


class _Count(msgspec.Struct):
    jobs: int = 0
    pending: int = 0
    running: int = 0
    held: list[int] = []


class Queues:
    """Counts over the cache; writes what has changed, and nothing else. reserved: only such nodes are the cluster."""

    def __init__(self, client: Client, cache: Cache, resources: tuple[str, ...], *, reserved: bool = False) -> None:
        self._client, self._cache, self._resources, self._reserved = client, cache, Resources(resources), reserved
        self._names: set[str] | None = None

    async def go_round(self) -> None:
        """Bring every Queue's status up to date, and the list of names that admission uses."""
        await self._write_names()
        counts, capacity = self._counts(), self._capacity()
        for name, queue in list(self._cache.queues.items()):
            count = counts.get(name, _Count(held=[0] * len(self._resources)))
            await self._write(queue, count, capacity)

    def _counts(self) -> dict[str, _Count]:
        counts: dict[str, _Count] = {}
        for pod in self._cache.pods.values():
            if pod.is_terminal:
                continue
            queue = pod.metadata.labels.get(QUEUE_LABEL, DEFAULT_QUEUE)
            count = counts.setdefault(queue, _Count(held=[0] * len(self._resources)))
            if pod.spec.nodeName:
                count.running += 1
                count.held = [a + b for a, b in zip(count.held, self._demand(pod), strict=True)]
            else:
                count.pending += 1
        for job in self._cache.dagjobs.values():
            if not job.is_over:
                counts.setdefault(job.spec.queue, _Count(held=[0] * len(self._resources))).jobs += 1
        return counts

    def _demand(self, pod: Pod) -> Vector:
        try:
            return demand(pod.spec, self._resources)
        except InvalidJob:  # a quantity that only the API server can read must not stop all queues' status
            return (0,) * len(self._resources)

    def _capacity(self) -> list[int]:
        total = [0] * len(self._resources)
        for node in self._cache.nodes.values():
            if self._reserved and not node.is_reserved:
                continue
            with contextlib.suppress(InvalidQuantity):  # as above
                total = [a + b for a, b in zip(total, core_node(node, self._resources).capacity, strict=True)]
        return total

    async def _write(self, queue: Queue, count: _Count, capacity: list[int]) -> None:
        wanted: dict[str, Any] = {
            "jobs": count.jobs,
            "pending": count.pending,
            "running": count.running,
            "share": f"{100 * dominant_share(count.held, capacity):.1f}%",
            "conditions": msgspec.to_builtins([_condition(queue, self._cache.queues, self._resources)]),
        }
        before = msgspec.to_builtins(queue.status)
        patch = {name: value for name, value in wanted.items() if value != before.get(name)}
        if not patch:
            return
        path = f"/apis/{GROUP}/{VERSION}/queues/{queue.metadata.name}/status"
        try:
            await self._client.patch(path, {"status": patch}, kind="merge", field_manager="rm-controllers")
        except NotFound:
            return

    async def _write_names(self) -> None:
        names = set(self._cache.queues)
        if names == self._names:
            return
        known = self._names if self._names is not None else await self._known()
        # null takes a key away (RFC 7386).
        data = {**dict.fromkeys(sorted(known - names)), **dict.fromkeys(sorted(names), "")}
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAMES}"
        await self._client.patch(path, {"data": data}, kind="merge", field_manager="rm-controllers")
        self._names = names

    async def _known(self) -> set[str]:
        written = await self._client.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAMES}")
        return set(written.get("data") or ())


def _condition(queue: Queue, queues: Mapping[str, Queue], resources: Resources) -> Condition:
    """Whether its limits can be read, and the way up from it ends at a root."""
    seen, at = [queue.metadata.name], queue
    status, reason, message = "True", "InTree", ""
    try:
        core_queue(queue, resources)
    except (InvalidQuantity, InvalidQueue) as error:
        status, reason, message = "False", "LimitUnreadable", str(error)
    while at.spec.parent:
        parent = queues.get(at.spec.parent)
        if parent is None:
            status, reason = "False", "ParentMissing"
            message = f"queue '{at.metadata.name}' names parent '{at.spec.parent}', which does not exist"
            break
        if parent.metadata.name in seen:
            status, reason, message = "False", "Cycle", " -> ".join([*seen, parent.metadata.name])
            break
        seen.append(parent.metadata.name)
        at = parent
    before = next((c for c in queue.status.conditions if c.type == "Ready"), None)
    return Condition("Ready", status, reason, message).after(before, stamp())
