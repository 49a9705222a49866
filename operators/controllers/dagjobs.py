"""Brings DagJobs in line: carries out what `plan` says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from operators import metrics
from operators.cache.cache import Cache
from operators.client import AlreadyExists, ApiError, Client, Conflict, Invalid, NotFound
from operators.controllers.config import ControllersConfig
from operators.controllers.objects import DagJob, DagJobStatus
from operators.controllers.plan import CreatePod, DeletePod, Plan, Surroundings, Tell, plan
from schedulers.objects.names import API_VERSION, DAGJOB_LABEL, GROUP, VERSION
from schedulers.objects.pod import Condition, Pod

log = structlog.get_logger()

COMPONENT = "rm-controllers"


class DagJobs:
    """The DagJob controller. `reconcile` is level-triggered: it looks at the objects, not at what has changed."""

    def __init__(self, client: Client, cache: Cache, config: ControllersConfig, *, identity: str) -> None:
        self._client, self._cache, self._config, self._identity = client, cache, config, identity
        self._writes = asyncio.Semaphore(config.concurrency)
        self._pods: dict[str, dict[str, None]] = {}  # DagJob uid -> keys of its pods
        self._released: dict[str, int] = {}  # pod uid -> when first seen without gate
        self._written: dict[str, float] = {}  # DagJob uid -> monotonic time of the last status

    # -- what is there --------------------------------------------------------------------------

    def heard(self, old: Pod | None, new: Pod | None) -> str | None:
        """A pod was added, changed or is gone; returns the key of the DagJob that it concerns."""
        pod = new if new is not None else old
        assert pod is not None
        name = pod.metadata.labels.get(DAGJOB_LABEL)
        if not name or not pod.owner_uid:
            return None
        mine = self._pods.setdefault(pod.owner_uid, {})
        if new is None:
            mine.pop(pod.key, None)
            self._released.pop(pod.metadata.uid, None)
            if not mine:
                del self._pods[pod.owner_uid]
        else:
            mine[pod.key] = None
            if new.is_gated or new.spec.nodeName or new.is_terminal:
                self._released.pop(new.metadata.uid, None)
            else:
                self._released.setdefault(new.metadata.uid, _now_ms())
        return f"{pod.metadata.namespace}/{name}"

    def pods_of(self, job: DagJob) -> list[Pod]:
        """The job's pods, as far as heard."""
        keys = self._pods.get(job.metadata.uid, ())
        return [pod for key in keys if (pod := self._cache.pods.get(key)) is not None]

    # -- in line --------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> float | None:
        """See `work.Reconcile`."""
        job: Any = self._cache.dagjobs.get(key)
        if job is None or job.metadata.deletionTimestamp:
            return None  # its pods go with it, by their owner reference
        todo = plan(job, self.pods_of(job), self._surroundings())
        if todo.expired:
            await self._expire(job)
            return None
        await asyncio.gather(*(self._delete(job, delete) for delete in todo.deletes))
        refused = await self._create_all(job, todo.creates)
        if refused is not None:
            _mark_refused(todo.status, refused)
            todo.again_s = min(todo.again_s or 10.0, 10.0)
        wait = await self._write_status(job, todo)
        await asyncio.gather(*(self._tell(job, tell) for tell in todo.tells[:20]))
        due = [seconds for seconds in (todo.again_s, wait) if seconds is not None]
        return min(due) if due else None

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            now_ms=_now_ms(),
            nodes=self._cache.nodes,
            queues=self._cache.queues,
            released_ms=self._released,
            recreate_after_ms=self._config.recreate_after,
            stamp=_stamp,
        )

    async def _create_all(self, job: DagJob, creates: Iterable[CreatePod]) -> ApiError | None:
        """Create pods, `concurrency` at once; returns why the API server refused one for good, if it did."""
        refused: ApiError | None = None

        async def create(one: CreatePod) -> None:
            nonlocal refused
            async with self._writes:
                try:
                    await self._client.create(f"/api/v1/namespaces/{job.metadata.namespace}/pods", one.body)
                    metrics.PODS_CREATED.labels(cause="first" if one.attempt == 0 else "retry").inc()
                except AlreadyExists as error:
                    if not await self._is_mine(job, one.name):
                        refused = error
                except ApiError as error:
                    if error.is_transient:
                        raise
                    refused = error

        await asyncio.gather(*(create(one) for one in creates))
        return refused

    async def _is_mine(self, job: DagJob, name: str) -> bool:
        """Whether the pod that has the name already is one that was created before the watch told of it."""
        try:
            there = await self._client.get(f"/api/v1/namespaces/{job.metadata.namespace}/pods/{name}")
        except NotFound:
            return True  # just gone: the next look creates it
        owners = there["metadata"].get("ownerReferences") or ()
        return any(owner["uid"] == job.metadata.uid for owner in owners)

    async def _delete(self, job: DagJob, delete: DeletePod) -> None:
        path = f"/api/v1/namespaces/{job.metadata.namespace}/pods/{delete.name}"
        async with self._writes:
            try:
                # The uid makes sure that it is not a successor of the same name that goes.
                await self._client.delete(path, {"preconditions": {"uid": delete.uid}})
            except (NotFound, Conflict):
                return
        log.info("deleted a pod", pod=delete.name, dagjob=job.key, why=delete.why)

    async def _expire(self, job: DagJob) -> None:
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{job.metadata.namespace}/dagjobs/{job.metadata.name}"
        body = {"preconditions": {"uid": job.metadata.uid}, "propagationPolicy": "Background"}
        try:
            await self._client.delete(path, body)
        except (NotFound, Conflict):
            return
        log.info("deleted a finished job after its time", dagjob=job.key)

    async def _write_status(self, job: DagJob, todo: Plan) -> float | None:
        """Write what has changed; returns in how many seconds to come back when it is too early for that."""
        old, new = msgspec.to_builtins(job.status), msgspec.to_builtins(todo.status)
        patch = {name: value for name, value in new.items() if value != old.get(name)}
        if not patch:
            return None
        uid, now, pause = job.metadata.uid, time.monotonic(), self._config.status_every / 1000
        left = self._written.get(uid, -pause) + pause - now
        if left > 0 and "phase" not in patch:
            return left
        self._written[uid] = now
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{job.metadata.namespace}/dagjobs/{job.metadata.name}/status"
        try:
            await self._client.patch(path, {"status": patch}, kind="merge", field_manager=COMPONENT)
        except NotFound:
            self._written.pop(uid, None)
        return None

    async def _tell(self, job: DagJob, tell: Tell) -> None:
        """An event; that one gets lost is no reason to stop."""
        namespace = job.metadata.namespace
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{job.metadata.name[:40]}-", "namespace": namespace},
            "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "reportingController": f"{GROUP}/{COMPONENT}",
            "reportingInstance": self._identity,
            "action": "Reconcile",
            "reason": tell.reason,
            "note": tell.message[:1000],
            "type": "Warning" if tell.warning else "Normal",
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": "DagJob",
                "namespace": namespace,
                "name": job.metadata.name,
                "uid": job.metadata.uid,
            },
        }
        try:
            await self._client.create(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body)
        except ApiError as error:
            log.warning("an event is lost", dagjob=job.key, reason=tell.reason, why=str(error))


def _mark_refused(status: DagJobStatus, error: ApiError) -> None:
    """The API server does not want a pod: the template is wrong, a quota is used up, or a name is taken."""
    reason = "InvalidTemplate" if isinstance(error, Invalid) else error.reason or "Refused"
    there = next((c for c in status.conditions if c.type == "PodsRefused"), None)
    since = there.lastTransitionTime if there is not None else _stamp(_now_ms())
    kept = [c for c in status.conditions if c.type != "PodsRefused"]
    status.conditions = [*kept, Condition("PodsRefused", "True", reason, error.message[:1000], since)]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _stamp(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
