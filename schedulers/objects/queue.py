"""Queues: nodes of a weighted tree, cluster-wide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from schedulers.core import model
from schedulers.core.errors import InvalidQuantity, InvalidQueue
from schedulers.core.queues import UNLIMITED, parse_limit
from schedulers.core.resources import Resources
from schedulers.objects.meta import Stored
from schedulers.objects.pod import Condition

#: A limit as it is written: resources, or a share of the cluster such as `25%` or 0.25. The CRD lets anything stand
#: there, so anything is read; `core_queue` reports mistakes.
Written = Any
#: Weights and numbers of jobs, least and most, as in the CRD.
_WEIGHT: Final = (1e-6, 1e6)
_RUNNING: Final = (1, 2**31 - 1)


Number = TypeVar("Number", int, float)


class PerUserLimits(msgspec.Struct):
    """Limits of each user inside a queue."""

    limit: Written = None
    maxRunning: int | None = None


class NamespaceRequirement(msgspec.Struct):
    """A requirement of a selector of labels."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement; none meet an unknown operator."""
        there = labels.get(self.key)
        match self.operator:
            case "In":
                return there in self.values
            case "NotIn":
                return there not in self.values
            case "Exists":
                return there is not None
        return self.operator == "DoesNotExist" and there is None


class NamespaceSelector(msgspec.Struct):
    """Users of a queue, by labels of namespaces; a selector without any requirement lets all in."""

    matchLabels: dict[str, str] = {}
    matchExpressions: tuple[NamespaceRequirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a namespace with such labels may use the queue."""
        given = all(labels.get(key) == value for key, value in self.matchLabels.items())
        return given and all(requirement.holds(labels) for requirement in self.matchExpressions)


class QueueSpec(msgspec.Struct):
    """Settings of a queue. guaranteed and max are resource maps, or shares of the cluster such as `25%`."""

    parent: str = ""
    namespaces: NamespaceSelector | None = None
    weight: float = 1.0
    guaranteed: Written = None
    max: Written = None
    perUser: PerUserLimits | None = None
    maxRunning: int | None = None
    preemptible: bool = True


class QueueStatus(msgspec.Struct):
    """As its controller writes it."""

    conditions: list[Condition] = []
    pending: int = 0
    running: int = 0
    jobs: int = 0
    share: str = ""


class QueueObject(Stored):
    """A queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


def core_queue(queue: QueueObject, resources: Resources) -> model.Queue:
    """A queue for the core. Raises InvalidQuantity and InvalidQueue for unreadable limits."""
    spec, each = queue.spec, queue.spec.perUser
    per_user = None
    for what, number, (least, most) in (
        ("weight", spec.weight, _WEIGHT),
        ("maxRunning", spec.maxRunning, _RUNNING),
        ("perUser.maxRunning", each.maxRunning if each is not None else None, _RUNNING),
    ):
        if number is not None and not least <= number <= most:
            raise InvalidQueue(f"{what} is {number:.10g} ({least:g} to {most:.10g})")
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


def readable(queue: QueueObject, resources: Resources) -> model.Queue:
    """A queue with the readable part of its limits; the unreadable part limits nothing."""
    spec, each = queue.spec, queue.spec.perUser
    if each is not None:
        each = PerUserLimits(_readable(each.limit, resources), _within(each.maxRunning, _RUNNING))
    spec = msgspec.structs.replace(
        spec,
        weight=_within(spec.weight, _WEIGHT) or 1.0,
        guaranteed=_readable(spec.guaranteed, resources),
        max=_readable(spec.max, resources),
        perUser=each,
        maxRunning=_within(spec.maxRunning, _RUNNING),
    )
    return core_queue(QueueObject(queue.metadata, spec), resources)


def _within(number: Number | None, bounds: tuple[Number, Number]) -> Number | None:
    return number if number is not None and bounds[0] <= number <= bounds[1] else None


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
