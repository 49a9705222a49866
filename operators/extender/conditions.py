"""Reports on the objects why they wait: a condition on pods, five status fields on DagJobs.

People read these, so they may come late but not dear: a limited number of writes a second, the newest word on
each object only, and no write for what the object says already. Pods and DagJobs take turns, and among
themselves go in the order in which they were first spoken of.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
import structlog

from operators import metrics
from operators.client import ApiError, Client, NotFound, stamp
from operators.extender.releases import FIELD_MANAGER, may_pass, pause_s
from schedulers.objects.dagjob import PlanStatus
from schedulers.objects.meta import Meta
from schedulers.objects.names import API_VERSION, WAITING_CONDITION
from schedulers.objects.pod import Condition, Pod

log = structlog.get_logger()

#: Reason of the condition once the gate is open.
RELEASED: Final = "Released"
#: The API server takes longer messages, people do not.
LONGEST_MESSAGE: Final = 1024
#: Of how many objects of each kind the last word is remembered.
REMEMBERED: Final = 20_000
#: Marks the word on a DagJob's plan, which stands beside the word on its wait.
_PLAN: Final = "/plan"

Write = Callable[[], Awaitable[None]]
Word = TypeVar("Word")


class Conditions:
    """The writer of one term of leadership.

    per_second: writes at most. Nothing is sent before `run`; what is unsaid when `run` is cancelled is dropped.
    """

    def __init__(self, client: Client, *, per_second: float = 20.0) -> None:
        if not per_second > 0:
            raise ValueError(f"conditions per second: {per_second} (above 0)")
        self._client, self._period_s = client, 1.0 / per_second
        self._pods: dict[str, Write] = {}  # by uid: what is not written yet
        self._dagjobs: dict[str, Write] = {}  # by uid, with _PLAN for plans
        self._written_pods: dict[str, Condition] = {}  # by uid: the last word; a watch may not have brought it back yet
        self._written_dagjobs: dict[str, dict[str, Any]] = {}
        self._news = asyncio.Event()
        self._dagjobs_next = False

    @property
    def pending(self) -> int:
        """Objects that have something unsaid."""
        return len(self._pods) + len(self._dagjobs)

    def report_pod(self, pod: Pod, reason: str, message: str) -> None:
        """The pod waits, and why. reason: CamelCase."""
        self._queue_pod(pod, Condition(WAITING_CONDITION, "True", reason, message[:LONGEST_MESSAGE]))

    def report_released(self, pod: Pod, node: str | None) -> None:
        """The pod waits no longer: a condition that it has becomes False, so that `kubectl wait` can see it.

        A pod that was never told to wait is left alone: a quick start costs no second write.
        """
        if self._waiting(pod) is None:
            self._pods.pop(pod.metadata.uid, None)
        else:
            message = f"released to node {node}" if node is not None else "released"
            self._queue_pod(pod, Condition(WAITING_CONDITION, "False", RELEASED, message))

    def forget_pod(self, uid: str) -> None:
        """The pod is gone."""
        self._pods.pop(uid, None)
        self._written_pods.pop(uid, None)

    def report_dagjob(
        self, key: str, *, uid: str, reason: str, message: str, position: int | None, estimate_s: float | None
    ) -> None:
        """Why the DagJob `namespace/name` waits; an empty text or None takes the field away."""
        fields: dict[str, Any] = {
            "reason": reason or None,
            "message": message[:LONGEST_MESSAGE] or None,
            "position": position,
            "estimateSeconds": round(estimate_s, 3) if estimate_s is not None else None,
        }
        self._queue_dagjob(uid, key, fields)

    def report_plan(self, key: str, *, uid: str, plan: PlanStatus) -> None:
        """How the DagJob `namespace/name` is planned: a word of its own, not written again with each reason."""
        self._queue_dagjob(uid + _PLAN, key, {"plan": msgspec.to_builtins(plan)})

    def _queue_dagjob(self, word: str, key: str, fields: dict[str, Any]) -> None:
        if self._written_dagjobs.get(word) == fields:
            self._dagjobs.pop(word, None)
        else:
            self._dagjobs[word] = functools.partial(self._write_dagjob, word, key, fields)
            self._news.set()

    def forget_dagjob(self, uid: str) -> None:
        """The DagJob is gone."""
        for word in (uid, uid + _PLAN):
            self._dagjobs.pop(word, None)
            self._written_dagjobs.pop(word, None)

    async def run(self) -> None:
        """Write, until cancelled. Faults of the API server cost time, never a word."""
        tries = 0
        while True:
            await self._news.wait()
            if not self.pending:
                self._news.clear()
                continue
            began = time.monotonic()
            words, uid = self._next()
            write = words.pop(uid)
            try:
                await write()
            except ApiError as error:
                if may_pass(error):
                    words.setdefault(uid, write)  # unless there is a newer word
                    (self._written_pods if words is self._pods else self._written_dagjobs).pop(uid, None)
                    await asyncio.sleep(pause_s(tries))
                    tries += 1
                else:
                    _refused(error)
            else:
                tries = 0
                metrics.CONDITIONS.labels(outcome="ok").inc()
            await asyncio.sleep(max(0.0, began + self._period_s - time.monotonic()))

    def _next(self) -> tuple[dict[str, Write], str]:
        """Pods and DagJobs take turns while there are both."""
        self._dagjobs_next = not self._dagjobs_next
        words = self._dagjobs if self._dagjobs and (self._dagjobs_next or not self._pods) else self._pods
        return words, next(iter(words))

    # -- pods -----------------------------------------------------------------------------------

    def _waiting(self, pod: Pod) -> Condition | None:
        """The pod's condition: as last written by us, else as it was last seen."""
        written = self._written_pods.get(pod.metadata.uid)
        return written or next((seen for seen in pod.status.conditions if seen.type == WAITING_CONDITION), None)

    def _queue_pod(self, pod: Pod, condition: Condition) -> None:
        uid, before = pod.metadata.uid, self._waiting(pod)
        if before is not None and _content(before) == _content(condition):
            self._pods.pop(uid, None)
            return
        self._pods[uid] = functools.partial(self._write_pod, pod.metadata, condition.after(before, stamp()))
        self._news.set()

    async def _write_pod(self, meta: Meta, condition: Condition) -> None:
        """Server-side apply: conditions are merged by type, and those of others stay."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "status": {"conditions": [condition]},
        }
        _remember(self._written_pods, meta.uid, condition)
        path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/status"
        await self._client.patch(path, body, kind="apply", field_manager=FIELD_MANAGER, force=True)

    # -- DagJobs --------------------------------------------------------------------------------

    async def _write_dagjob(self, word: str, key: str, fields: dict[str, Any]) -> None:
        """A merge patch of our fields alone; the others belong to the controllers."""
        namespace, name = key.split("/", 1)
        _remember(self._written_dagjobs, word, fields)
        path = f"/apis/{API_VERSION}/namespaces/{namespace}/dagjobs/{name}/status"
        await self._client.patch(path, {"status": fields}, kind="merge", field_manager=FIELD_MANAGER)


def _content(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _remember(newest: dict[str, Word], uid: str, word: Word) -> None:
    """Keep the newest; who is forgotten costs a superfluous write at worst."""
    newest.pop(uid, None)
    newest[uid] = word
    if len(newest) > REMEMBERED:
        del newest[next(iter(newest))]


def _refused(error: ApiError) -> None:
    """The object is gone (or another has its name), or the write is refused for good."""
    gone = isinstance(error, NotFound) or "metadata.uid" in error.message
    metrics.CONDITIONS.labels(outcome="gone" if gone else "error").inc()
    if not gone:
        log.warning("a condition cannot be written", why=str(error))
