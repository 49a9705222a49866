"""Brings DagJobs in line by carrying out `plan`."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any, Final

import msgspec
import structlog

from operators.cache.cache import Cache
from operators.client import Client, Conflict, NotFound, path_of, stamp, wall_ms
from operators.controllers.config import ControllersConfig
from operators.controllers.plan import Plan, PlanContext, plan
from operators.controllers.pods import CreateResult, PodWriter, Refusal
from operators.events import Event, Events
from schedulers.objects.dagjob import DagJobStatus, Progress, WholeDagJob
from schedulers.objects.names import DAGJOB_LABEL, PODS_REFUSED
from schedulers.objects.pod import Condition, Pod

log = structlog.get_logger()

COMPONENT: Final = "rm-controllers"
#: When refused pods are tried again, and pods whose name another pod has for a moment.
_REFUSED_S: Final = 10.0
_WAITS_S: Final = 1.0
#: When to look again while nothing is heard of the API server.
_DEAF_S: Final = 1.0
#: When a status too late for its version is written.
_CHANGED_S: Final = 0.2
#: A job of thousands of tasks is planned for long, and each change of its pods asks for another plan: a job rests so
#: many times as long as its plan took, if that was long, and so long at most: time for others and for the API server.
_LONG_S: Final = 0.01
_RESTS: Final = 4
_LONGEST_REST_S: Final = 1.0
#: Events at most of one look at one job.
_EVENTS: Final = 20


class _JobMemory(msgspec.Struct):
    """Memory of one DagJob, for the present term."""

    status: DagJobStatus | None = None
    """The status as last planned."""
    gone: list[Pod] = []
    """Pods ended and gone since that plan."""
    written_at: float = -math.inf
    """Monotonic time of the last status."""
    paused_until: float = -math.inf
    """Monotonic time before which the job is not planned again."""


class DagJobs:
    """The DagJob controller. `reconcile` is level-triggered: objects count, not their changes.

    The memory of a DagJob's status is kept here too, because the watch of DagJobs may come later than the watch of
    pods: a count taken from a pod gone by now must not be forgotten in between.
    """

    def __init__(self, client: Client, cache: Cache, config: ControllersConfig, *, identity: str) -> None:
        self._client, self._cache, self._config = client, cache, config
        self._events = Events(client, component=COMPONENT, identity=identity)
        self._writer = PodWriter(client, config.concurrency)
        self._pods: dict[str, dict[str, None]] = {}  # DagJob uid -> keys of its pods
        self._unschedulable: dict[str, int] = {}  # pod uid -> since when kube-scheduler finds no node for it, ms
        self._known: dict[str, _JobMemory] = {}  # by the DagJob's uid

    # -- what is there --------------------------------------------------------------------------

    def hear(self, old: Pod | None, new: Pod | None) -> str | None:
        """A pod was added, changed or is gone; returns the key of the pod's DagJob."""
        pod = new if new is not None else old
        assert pod is not None
        if new is None:
            self._forget_pod(pod)
        name = pod.metadata.labels.get(DAGJOB_LABEL)
        if not name or not pod.dagjob_uid:
            return None
        if new is not None:
            self._pods.setdefault(pod.dagjob_uid, {})[pod.key] = None
            if new.is_unschedulable:
                self._unschedulable.setdefault(new.metadata.uid, wall_ms())
            else:
                self._unschedulable.pop(new.metadata.uid, None)
        return f"{pod.metadata.namespace}/{name}"

    def _forget_pod(self, pod: Pod) -> None:
        self._unschedulable.pop(pod.metadata.uid, None)
        mine = self._pods.get(pod.dagjob_uid, {})
        mine.pop(pod.key, None)
        if not mine:
            self._pods.pop(pod.dagjob_uid, None)
        known = self._known.get(pod.dagjob_uid)
        if pod.is_terminal and known is not None and known.status is not None:
            known.gone.append(pod)

    def forget(self, job_uid: str) -> None:
        """This DagJob is gone; its pods follow one by one."""
        self._known.pop(job_uid, None)

    def begin(self) -> None:
        """This replica leads from now on: knowledge of an earlier term may be out of date."""
        self._known.clear()

    def pods_of(self, job: WholeDagJob) -> list[Pod]:
        """The job's pods, as far as heard."""
        keys = self._pods.get(job.metadata.uid, ())
        return [pod for key in keys if (pod := self._cache.pods.get(key)) is not None]

    # -- in line --------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> float | None:
        """See `work.Reconcile`."""
        heard_ms = self._cache.heard_ms()
        if heard_ms is None:
            return _DEAF_S  # the cache may be long out of date
        job: Any = self._cache.dagjobs.get(key)
        if job is None or job.metadata.deletionTimestamp:
            return None  # its pods go with it, by their owner reference
        known = self._known.setdefault(job.metadata.uid, _JobMemory())
        if (left := known.paused_until - time.monotonic()) > 0:
            return left
        began = time.thread_time()  # of this thread alone: on a busy CPU, too, a short plan counts as short
        remembered = msgspec.structs.replace(job, status=known.status or job.status)
        todo = plan(remembered, [*known.gone, *self.pods_of(job)], self._context(heard_ms))
        seen, took = len(known.gone), time.thread_time() - began
        if took > _LONG_S:
            known.paused_until = time.monotonic() + min(_LONGEST_REST_S, _RESTS * took)
        if todo.expired:
            await self._expire(job)
            return None
        deleted = await self._writer.delete(job, todo.deletes)
        made = await self._writer.create(job, todo.creates)
        show_refusal(todo, made.refusal, stamp())
        known.status = todo.status
        del known.gone[:seen]  # these are counted in the status now
        told = [*(one.event for one in deleted.pods), *(one.event for one in made.pods)]
        events = [*todo.events, *(event for event in told if event is not None)]
        await asyncio.gather(*(self._events.report("DagJob", job.metadata, event) for event in events[:_EVENTS]))
        wait = await self._write_status(job, todo, known)
        again = _WAITS_S if deleted.must_wait else _requeue_after_s(made)
        due = [seconds for seconds in (todo.requeue_after_s, again, wait) if seconds is not None]
        return min(due) if due else None

    def _context(self, heard_ms: int) -> PlanContext:
        return PlanContext(
            now_ms=wall_ms(),
            heard_ms=heard_ms,
            nodes=self._cache.nodes,
            queues=self._cache.queues,
            unschedulable_since=self._unschedulable,
            recreate_after_ms=self._config.recreate_after,
            stamp=stamp,
            resources=self._config.resources if self._config.unknown_resources == "refuse" else None,
        )

    async def _expire(self, job: WholeDagJob) -> None:
        seen = {"uid": job.metadata.uid, "resourceVersion": job.metadata.resourceVersion}
        body = {"preconditions": seen, "propagationPolicy": "Background"}
        try:
            await self._client.delete(path_of("DagJob", job.key), body)
        except (NotFound, Conflict):
            return  # changed by now: the watch will tell
        log.info("deleted a finished job after its time", dagjob=job.key)

    async def _write_status(self, job: WholeDagJob, todo: Plan, known: _JobMemory) -> float | None:
        """Write the changes of our part; returns in how many seconds to come back when too early."""
        old, new = msgspec.to_builtins(job.status), msgspec.to_builtins(todo.status)
        patch = {name: new[name] for name in Progress.__struct_fields__ if new[name] != old[name]}
        if not patch:
            return None
        now = time.monotonic()
        left = known.written_at + self._config.status_every / 1000 - now
        if left > 0 and "phase" not in patch:
            return left
        # The version makes sure that a namesake made meanwhile is not written to (a uid would not).
        body = {"metadata": {"resourceVersion": job.metadata.resourceVersion}, "status": patch}
        try:
            await self._client.patch(
                f"{path_of('DagJob', job.key)}/status", body, kind="merge", field_manager=COMPONENT
            )
        except NotFound:
            self.forget(job.metadata.uid)
        except Conflict:
            return _CHANGED_S
        else:
            known.written_at = now
        return None


def show_refusal(todo: Plan, refusal: Refusal | None, stamp: str) -> None:
    """The present condition PodsRefused, with an event when true for the first time or for another reason."""
    status = todo.status
    before = next((c for c in status.conditions if c.type == PODS_REFUSED), None)
    if refusal is None and (before is None or before.status == "False"):
        return
    condition = Condition(PODS_REFUSED, "False", "Accepted", "the API server refuses no pod any more")
    if refusal is not None:
        condition = Condition(PODS_REFUSED, "True", refusal.reason, refusal.message[:1000])
        if before is None or (before.status, before.reason) != ("True", refusal.reason):
            todo.events.append(Event(PODS_REFUSED, condition.message, warning=True))
    others = [c for c in status.conditions if c.type != PODS_REFUSED]
    # Made anew: of a job that is over, the plan's status is the one in the cache.
    todo.status = msgspec.structs.replace(status, conditions=[*others, condition.after(before, stamp)])


def _requeue_after_s(made: CreateResult) -> float | None:
    if made.must_wait:
        return _WAITS_S
    return _REFUSED_S if made.refusal is not None else None
