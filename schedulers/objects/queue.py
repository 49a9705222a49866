"""Queues: nodes of a weighted tree, cluster-wide."""

from __future__ import annotations

import msgspec

from schedulers.core import model
from schedulers.core.errors import InvalidQuantity, InvalidQueue
from schedulers.core.queues import UNLIMITED, parse_limit
from schedulers.core.resources import Resources
from schedulers.objects.meta import Stored
from schedulers.objects.pod import Condition, Quantities

#: A limit as it is written: resources, or a share of the cluster such as `25%` or 0.25.
Written = Quantities | str | float | None


class PerUser(msgspec.Struct):
    """Limits of each user inside a queue."""

    limit: Written = None
    maxRunning: int | None = None


class QueueSpec(msgspec.Struct):
    """What a queue may be. guaranteed and max are resource maps, or shares of the cluster such as `25%`."""

    parent: str = ""
    weight: float = 1.0
    guaranteed: Written = None
    max: Written = None
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


def core_queue(queue: Queue, resources: Resources) -> model.Queue:
    """What the core knows of a queue. Raises InvalidQuantity and InvalidQueue for limits that cannot be read."""
    spec, each = queue.spec, queue.spec.perUser
    per_user = None
    if each is not None:
        limit = parse_limit(each.limit, resources, UNLIMITED)
        per_user = model.PerUser(limit=limit, max_running=each.maxRunning)
    return model.Queue(
        name=queue.metadata.name,
        weight=float(spec.weight),
        parent=spec.parent,
        guaranteed=parse_limit(spec.guaranteed, resources, 0),
        max=parse_limit(spec.max, resources, UNLIMITED),
        per_user=per_user,
        max_running=spec.maxRunning,
        preemptible=spec.preemptible,
    )


def readable(queue: Queue, resources: Resources) -> model.Queue:
    """A queue with what can be read of its limits; what cannot be limits nothing."""
    spec, each = queue.spec, queue.spec.perUser
    if each is not None:
        each = PerUser(_readable(each.limit, resources), each.maxRunning)
    guaranteed, most = _readable(spec.guaranteed, resources), _readable(spec.max, resources)
    spec = msgspec.structs.replace(spec, guaranteed=guaranteed, max=most, perUser=each)
    return core_queue(Queue(queue.metadata, spec), resources)


def _readable(limit: Written, resources: Resources) -> Written:
    if isinstance(limit, dict):
        return {name: amount for name, amount in limit.items() if _reads({name: amount}, resources)} or None
    return limit if _reads(limit, resources) else None


def _reads(limit: Written, resources: Resources) -> bool:
    try:
        parse_limit(limit, resources, UNLIMITED)
    except (InvalidQuantity, InvalidQueue):
        return False
    return True
