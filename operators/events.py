"""Events on API objects, shown by `kubectl describe` below an object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from operators.client import ApiError, Client
from schedulers.objects.meta import Meta
from schedulers.objects.names import API_VERSION, GROUP

log = structlog.get_logger()

#: The API server takes longer notes, people do not.
_LONGEST_NOTE: Final = 1000
#: Namespace of events on objects without a namespace, as of Kubernetes' own events on Nodes.
_CLUSTER: Final = "default"
_API_VERSIONS: Final = {"Pod": "v1", "DagJob": API_VERSION, "Queue": API_VERSION}


class Event(msgspec.Struct, frozen=True):
    """An event."""

    reason: str
    """CamelCase."""
    message: str
    warning: bool = False
    """Whether the type is Warning instead of Normal."""


class Events:
    """Writes events for one component of ours, from the replica `identity`."""

    def __init__(self, client: Client, *, component: str, identity: str) -> None:
        self._client, self._component, self._identity = client, component, identity

    async def report(self, kind: str, meta: Meta, event: Event) -> None:
        """Write an event on an object of a kind (Pod, DagJob, Queue); a lost event is logged, never raised."""
        namespace = meta.namespace or _CLUSTER
        regarding = {"apiVersion": _API_VERSIONS[kind], "kind": kind, "name": meta.name, "uid": meta.uid}
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta.name[:40].rstrip('.-')}-", "namespace": namespace},
            "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "reportingController": f"{GROUP}/{self._component}",
            "reportingInstance": self._identity,
            "action": "Reconcile",
            "reason": event.reason,
            "note": event.message[:_LONGEST_NOTE],
            "type": "Warning" if event.warning else "Normal",
            "regarding": regarding | ({"namespace": meta.namespace} if meta.namespace else {}),
        }
        try:
            await self._client.create(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body)
        except ApiError as error:
            log.warning("an event is lost", kind=kind, name=meta.key, reason=event.reason, why=str(error))
