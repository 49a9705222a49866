"""Services on Kubernetes: pods of Deployments, running until somebody takes them away."""

from __future__ import annotations

from typing import Final

from schedulers.core.errors import InvalidQuantity
from schedulers.core.model import Service
from schedulers.core.resources import parse_quantity
from schedulers.objects.meta import Meta
from schedulers.objects.names import PREEMPTIBLE, START_WITHIN

#: More than 30 years.
_LONGEST_S: Final = 1e9


def pod_service(meta: Meta) -> Service | None:
    """The service of a pod; None unless a ReplicaSet (of a Deployment) owns the pod, and replaces it after its end."""
    owner = meta.owner
    return service(meta.annotations) if owner is not None and owner.kind == "ReplicaSet" else None


def service(annotations: dict[str, str]) -> Service:
    """A service as its pods' annotations describe it; only a number of seconds above 0, to 1e9, is an objective."""
    return Service(
        start_within_ms=_ms(annotations.get(START_WITHIN, "")),
        preemptible=annotations.get(PREEMPTIBLE, "true") != "false",
    )


def _ms(text: str) -> int | None:
    try:
        seconds = float(parse_quantity(text))
    except InvalidQuantity:
        return None
    return round(1000 * seconds) or None if seconds <= _LONGEST_S else None
