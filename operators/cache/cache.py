"""All objects watched by the brain and the controllers, in small structs, by key."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from operators.cache.hearing import BREAK_S, Hearing
from operators.cache.reflector import Change, Kind, Reflector
from operators.client import ApiError, Client, NotFound, path_of
from schedulers.objects.dagjob import DagJob
from schedulers.objects.namespace import Namespace
from schedulers.objects.node import NodeObject
from schedulers.objects.pod import Pod
from schedulers.objects.podgroup import PATHS, PodGroup
from schedulers.objects.queue import QueueObject

__all__ = ["KINDS", "Cache", "Change"]

log = structlog.get_logger()

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
#: Answers "forbidden" after which an optional kind is done without.
_REFUSALS: Final = 5


class Cache:
    """Watches every kind; `hear` is told each difference, in the order of arrival.

    Objects are as the API server has them, up to the watch's delay; a kind not watched has none. pod_groups: watch
    PodGroups as well, where the API server serves them. `settings` go to the reflectors (time-out and pauses, see
    Reflector).
    """

    def __init__(
        self,
        client: Client,
        hear: Callable[[Change], None],
        *,
        kinds: Sequence[Kind] = KINDS,
        pod_groups: bool = False,
        **settings: float,
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
        # Not among `reflectors`: an API server that stops serving an optional kind must not silence the brain.
        self._groups: Reflector[PodGroup] | None = None
        self._hear, self._settings = hear, settings
        self._looks_for_groups = pod_groups

    @property
    def pod_groups(self) -> Mapping[str, PodGroup] | None:
        """By `namespace/name`; None where the API server does not serve PodGroups."""
        return self._groups.objects if self._groups is not None else None

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed."""
        if self._looks_for_groups or (self._groups is not None and not self._groups.synced):
            return False
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
            if self._looks_for_groups:
                group.create_task(self._watch_groups())

    async def _watch_groups(self) -> None:
        """Find out whether the API server serves PodGroups to us, and watch them if so."""
        for path in PATHS:
            if await self._is_served(path):
                kind = Kind("PodGroup", PodGroup, path)
                self._groups = Reflector(self._client, kind, self._hear, **self._settings)
                break
        self._looks_for_groups = False
        if self._groups is not None:
            log.info("watches PodGroups", path=self._groups.kind.path)
            await self._groups.run()

    async def _is_served(self, path: str) -> bool:
        """Whether objects can be listed there: False without the kind, or without the right (of an older release)."""
        refusals = 0
        while refusals < _REFUSALS:
            try:
                await self._client.get_raw(path, limit="1")
            except NotFound:
                return False
            except ApiError as error:
                # An API server just started knows no roles yet.
                refusals += not error.is_transient
                await asyncio.sleep(PULSE_S)
            else:
                return True
        return False

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
