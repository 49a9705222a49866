"""What Queues show: jobs, tasks, share of the cluster, and whether their place in the tree is sound."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from operators import metrics
from operators.cache.cache import Cache
from operators.client import Client, NotFound, stamp
from schedulers.core.errors import InvalidJob, InvalidQuantity, InvalidQueue
from schedulers.core.queues import mistakes
from schedulers.core.resources import Resources, Vector, dominant_share
from schedulers.objects.names import DEFAULT_QUEUE, GROUP, QUEUE_LABEL, VERSION
from schedulers.objects.node import core_node
from schedulers.objects.pod import Condition, Pod, demand
from schedulers.objects.queue import Queue, core_queue, readable


class _Count(msgspec.Struct):
    jobs: int = 0
    pending: int = 0
    running: int = 0
    held: list[int] = []
    share: float = 0.0


class Queues:
    """Counts over the cache; writes what has changed, and nothing else. reserved: only such nodes are the cluster."""

    def __init__(self, client: Client, cache: Cache, resources: tuple[str, ...], *, reserved: bool = False) -> None:
        self._client, self._cache, self._resources, self._reserved = client, cache, Resources(resources), reserved

    async def go_round(self) -> None:
        """Bring every Queue's status up to date."""
        capacity = self._capacity()
        counts, wrong = self._counts(capacity), self._contradictions(capacity)
        metrics.show_queues({name: (count.pending, count.running, count.share) for name, count in counts.items()})
        for name, queue in list(self._cache.queues.items()):
            if name in counts:  # else it came meanwhile
                await self._write(queue, counts[name], _condition(queue, self._cache.queues, self._resources, wrong))

    def _counts(self, capacity: list[int]) -> dict[str, _Count]:
        """Of each queue with those below it; the default one is always there."""
        counts = {name: _Count(held=[0] * len(capacity)) for name in {DEFAULT_QUEUE, *self._cache.queues}}
        ups = {name: [counts[above] for above in self._up(name)] for name in counts}
        for pod in self._cache.pods.values():
            if pod.is_terminal:
                continue
            demand = self._demand(pod) if pod.spec.nodeName else None
            for count in ups.get(pod.metadata.labels.get(QUEUE_LABEL, DEFAULT_QUEUE), ()):
                if demand is None:
                    count.pending += 1
                else:
                    count.running += 1
                    count.held = [a + b for a, b in zip(count.held, demand, strict=True)]
        for job in self._cache.dagjobs.values():
            for count in ups.get(job.spec.queue, ()) if not job.is_over else ():
                count.jobs += 1
        for count in counts.values():
            count.share = dominant_share(count.held, capacity)
        return counts

    def _up(self, name: str) -> list[str]:
        """A queue and those above it; a parent that is missing, and a cycle, end the way."""
        way, queue = [name], self._cache.queues.get(name)
        while queue is not None and queue.spec.parent in self._cache.queues and queue.spec.parent not in way:
            way.append(queue.spec.parent)
            queue = self._cache.queues[queue.spec.parent]
        return way

    def _contradictions(self, capacity: list[int]) -> dict[str, str]:
        """By queue, what its limits promise that they cannot all hold. A cluster without nodes is one to come."""
        if not any(capacity):
            return {}
        queues = [readable(self._cache.queues[name], self._resources) for name in sorted(self._cache.queues)]
        found = list(mistakes(queues, self._resources, capacity))
        return {one.queue: one.message for one in reversed(found)}

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

    async def _write(self, queue: Queue, count: _Count, ready: Condition) -> None:
        wanted: dict[str, Any] = {
            "jobs": count.jobs,
            "pending": count.pending,
            "running": count.running,
            "share": f"{100 * count.share:.1f}%",
            "conditions": msgspec.to_builtins([ready]),
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


def _condition(queue: Queue, queues: Mapping[str, Queue], resources: Resources, wrong: Mapping[str, str]) -> Condition:
    """Whether its limits can be read, and held (wrong: by queue why not), and the way up from it ends at a root."""
    seen, at = [queue.metadata.name], queue
    status, reason, message = "True", "InTree", ""
    if queue.metadata.name in wrong:
        status, reason, message = "False", "LimitsContradict", wrong[queue.metadata.name]
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
