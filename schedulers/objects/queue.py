"""Queues: nodes of a weighted tree, cluster-wide."""

from __future__ import annotations

import msgspec

from schedulers.core import model
from schedulers.objects.meta import Stored
from schedulers.objects.pod import Condition, Quantities


class PerUser(msgspec.Struct):
    """Limits of each user inside a queue."""

    limit: Quantities | str | None = None
    maxRunning: int | None = None


class QueueSpec(msgspec.Struct):
    """What a queue may be. guaranteed and max are resource maps, or shares of the cluster such as `25%`."""

    parent: str = ""
    weight: float = 1.0
    guaranteed: Quantities | str | None = None
    max: Quantities | str | None = None
    perUser: PerUser | None = None
    maxRunning: int | None = None
    preemptible: bool = True


class QueueStatus(msgspec.Struct):
    """As its controller writes it."""

    conditions: list[Condition] = []
    pending: int = 0
    running: int = 0
    jobs: int = 0
    share: str = ""


class Queue(Stored):
    """A queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


def core_queue(queue: Queue) -> model.Queue:
    """What the core knows of a queue; limits are enforced once it knows queue trees."""
    return model.Queue(name=queue.metadata.name, weight=float(queue.spec.weight), parent=queue.spec.parent)
