"""All that the brain and the controllers watch, in small structs, by key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from operators.cache.reflector import Change, Kind, Reflector
from operators.client import Client
from schedulers.objects.dagjob import DagJob
from schedulers.objects.names import GROUP, VERSION
from schedulers.objects.node import Node
from schedulers.objects.pod import Pod
from schedulers.objects.queue import Queue

__all__ = ["KINDS", "Cache", "Change"]

KINDS: Final = (
    Kind("Node", Node, "/api/v1/nodes"),
    Kind("Queue", Queue, f"/apis/{GROUP}/{VERSION}/queues"),
    Kind("DagJob", DagJob, f"/apis/{GROUP}/{VERSION}/dagjobs"),
    Kind("Pod", Pod, "/api/v1/pods"),
)


class Cache:
    """Watches every kind; `hear` is told each difference, in the order in which it is taken in.

    `nodes`, `pods`, `dagjobs`, `queues` are as the API server has them, up to the watch's delay. settings: of
    the reflectors (time-out and pauses, see Reflector).
    """

    def __init__(
        self, client: Client, hear: Callable[[Change], None], *, kinds: Sequence[Kind] = KINDS, **settings: float
    ) -> None:
        self.reflectors: dict[str, Reflector[Any]] = {
            kind.name: Reflector(client, kind, hear, **settings) for kind in kinds
        }

    @property
    def nodes(self) -> Mapping[str, Node]:
        """By name."""
        return self.reflectors["Node"].objects

    @property
    def pods(self) -> Mapping[str, Pod]:
        """By `namespace/name`."""
        return self.reflectors["Pod"].objects

    @property
    def dagjobs(self) -> Mapping[str, DagJob]:
        """By `namespace/name`."""
        return self.reflectors["DagJob"].objects

    @property
    def queues(self) -> Mapping[str, Queue]:
        """By name."""
        return self.reflectors["Queue"].objects

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed."""
        return all(reflector.synced for reflector in self.reflectors.values())

    def staleness_s(self) -> float:
        """Seconds since the last sign of life of the most silent kind."""
        now = time.monotonic()
        return max((now - reflector.heard_at for reflector in self.reflectors.values()), default=0.0)

    def not_ready(self, stale_s: float) -> str | None:
        """Why nothing should be built on it, or None. stale_s: a watch that is silent for longer is not believed."""
        if not self.synced:
            return "the first lists of the API server are not complete"
        stale = self.staleness_s()
        return f"nothing was heard of the API server for {stale:.0f} s" if stale > stale_s else None

    async def run(self) -> None:
        """Until cancelled. Faults of the API server are waited out."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors.values():
                group.create_task(reflector.run())
