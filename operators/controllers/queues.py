"""Whether the place of Queues in the tree, and their limits, are sound; the brain writes their figures."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from operators.cache.cache import Cache
from operators.client import Client, NotFound, path_of, stamp
from schedulers.core.errors import InvalidQuantity, InvalidQueue
from schedulers.core.queues import mistakes
from schedulers.core.resources import Resources
from schedulers.objects.node import core_node
from schedulers.objects.pod import Condition
from schedulers.objects.queue import QueueObject, core_queue, readable


class Queues:
    """Looks over the cache; writes changes, and nothing else. `reserved`: only reserved nodes make up the cluster."""

    def __init__(self, client: Client, cache: Cache, resources: tuple[str, ...], *, reserved: bool = False) -> None:
        self._client, self._cache, self._resources, self._reserved = client, cache, Resources(resources), reserved

    async def go_round(self) -> None:
        """Bring every Queue's condition up to date."""
        for queue, condition in self.conditions():
            await self._write(queue, condition)

    def conditions(self) -> list[tuple[QueueObject, Condition]]:
        """Every Queue with its condition as due now."""
        wrong, queues = self._contradictions(self._capacity()), self._cache.queues
        return [(queue, _condition(queue, queues, self._resources, wrong)) for queue in queues.values()]

    def _contradictions(self, capacity: list[int]) -> dict[str, str]:
        """By queue, promises of its limits that cannot all be held. A cluster without nodes is still to come."""
        if not any(capacity):
            return {}
        queues = [readable(self._cache.queues[name], self._resources) for name in sorted(self._cache.queues)]
        found = list(mistakes(queues, self._resources, capacity))
        return {one.queue: one.message for one in reversed(found)}

    def _capacity(self) -> list[int]:
        total = [0] * len(self._resources)
        for node in self._cache.nodes.values():
            if self._reserved and not node.is_reserved:
                continue
            with contextlib.suppress(InvalidQuantity):
                total = [a + b for a, b in zip(total, core_node(node, self._resources).capacity, strict=True)]
        return total

    async def _write(self, queue: QueueObject, ready: Condition) -> None:
        if queue.status.conditions == [ready]:
            return
        path, patch = f"{path_of('Queue', queue.key)}/status", {"status": {"conditions": [ready]}}
        with contextlib.suppress(NotFound):
            await self._client.patch(path, patch, kind="merge", field_manager="rm-controllers")


def _condition(
    queue: QueueObject, queues: Mapping[str, QueueObject], resources: Resources, wrong: Mapping[str, str]
) -> Condition:
    """Whether the limits can be read, and held (`wrong`: by queue why not), and the way up ends at a root."""
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
