"""All objects watched by the brain and the controllers, in small structs, by key."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from operators.cache.hearing import BREAK_S, Hearing
from operators.cache.reflector import Change, Kind, Reflector
from operators.client import ApiError, Client, path_of
from schedulers.objects.dagjob import DagJob
from schedulers.objects.namespace import Namespace
from schedulers.objects.node import NodeObject
from schedulers.objects.pod import Pod
from schedulers.objects.queue import QueueObject

__all__ = ["KINDS", "Cache", "Change"]

KINDS: Final = (
    Kind("Node", NodeObject, path_of("Node", "")),
    Kind("Namespace", Namespace, path_of("Namespace", "")),
    Kind("Queue", QueueObject, path_of("Queue", "")),
    Kind("DagJob", DagJob, path_of("DagJob", "")),
    Kind("Pod", Pod, path_of("Pod", "")),
)

#: Seconds between two questions whether the API server still answers: a watch with nothing to tell is as silent as a
#: watch of a server that hangs.
PULSE_S: Final = 1.0
#: Seconds between two looks whether all watches are open again.
_LOOK_S: Final = 0.1


class Cache:
    """Watches every kind; `hear` is told each difference, in the order of arrival.

    Objects are as the API server has them, up to the watch's delay; a kind not watched has none. `settings` go to the
    reflectors (time-out and pauses, see Reflector).
    """

    def __init__(
        self, client: Client, hear: Callable[[Change], None], *, kinds: Sequence[Kind] = KINDS, **settings: float
    ) -> None:
        self.reflectors: dict[str, Reflector[Any]] = {
            kind.name: Reflector(client, kind, hear, **settings) for kind in kinds
        }
        objects: dict[str, Mapping[str, Any]] = {name: each.objects for name, each in self.reflectors.items()}
        self.nodes: Mapping[str, NodeObject] = objects.get("Node", {})
        """By name, as namespaces and queues."""
        self.namespaces: Mapping[str, Namespace] = objects.get("Namespace", {})
        self.queues: Mapping[str, QueueObject] = objects.get("Queue", {})
        self.pods: Mapping[str, Pod] = objects.get("Pod", {})
        """By `namespace/name`, as DagJobs."""
        self.dagjobs: Mapping[str, DagJob] = objects.get("DagJob", {})
        self._client, self._hearing = client, Hearing()

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed."""
        return all(reflector.synced for reflector in self.reflectors.values())

    def heard_ms(self) -> int | None:
        """For how long everything has been heard without a break; None during one (see `Hearing`)."""
        return self._hearing.for_ms()

    async def until_heard(self) -> None:
        """Returns once everything is heard."""
        while self.heard_ms() is None:
            await asyncio.sleep(_LOOK_S / 2)

    def staleness_s(self) -> float:
        """Seconds since the last sign of life of the most silent kind."""
        now = time.monotonic()
        return max((now - reflector.heard_at for reflector in self.reflectors.values()), default=0.0)

    def not_ready(self, stale_s: float) -> str | None:
        """Why nothing should be built on the cache, or None. A watch silent for more than `stale_s` is not believed."""
        if not self.synced:
            return "the first lists of the API server are not complete"
        stale = self.staleness_s()
        return f"nothing was heard of the API server for {stale:.0f} s" if stale > stale_s else None

    def _answered(self, reflectors: Sequence[Reflector[Any]]) -> None:
        """The API server answers. Watches open all through a break may hear nothing any more."""
        if self.heard_ms() is None:
            for reflector in reflectors:
                if reflector.opened_at <= self._hearing.last:
                    reflector.reopen()
        if all(reflector.watching for reflector in reflectors):
            self._hearing.heard()

    async def run(self) -> None:
        """Until cancelled. Faults of the API server are waited out."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors.values():
                group.create_task(reflector.run())
            group.create_task(self._listen())

    async def _listen(self) -> None:
        """Ask for one object of the first kind, again and again."""
        reflectors = list(self.reflectors.values())
        while True:
            while not all(reflector.watching for reflector in reflectors):
                await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(ApiError, TimeoutError):
                async with asyncio.timeout(BREAK_S):
                    await self._client.get_raw(reflectors[0].kind.path, limit="1")
                self._answered(reflectors)
            await asyncio.sleep(PULSE_S)
