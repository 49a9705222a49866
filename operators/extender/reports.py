"""Reports on the objects why they wait: a condition on pods, six status fields on DagJobs, Events on some of both.

Queues' figures go the same way. All share one allowance of writes.

Only people read the reports, so a report may come late but not dear: a limited number of writes a second, the newest
word on each object only, and no write of a word already there. Lanes (see `Lane`) take turns; an object already told,
with nothing new but other numbers, comes when no other has anything to hear.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog

from operators import metrics
from operators.client import ApiError, Client, path_of, stamp
from operators.events import Event, Events
from operators.extender.releases import FIELD_MANAGER, is_gone, may_pass, pause_s
from schedulers.objects.dagjob import PlanStatus, PromiseStatus
from schedulers.objects.meta import Meta
from schedulers.objects.names import WAITING_CONDITION
from schedulers.objects.pod import Condition, Pod
from schedulers.objects.queue import QueueObject

log = structlog.get_logger()

#: Reason of the condition once the gate is open.
RELEASED: Final = "Released"
#: Its reason when the pod has ended without having been released to a node.
ENDED: Final = "Ended"
#: The API server takes longer messages, people do not.
LONGEST_MESSAGE: Final = 1024
#: Of how many words the last is remembered.
REMEMBERED: Final = 80_000
#: Mark the words on a DagJob's plan and promise, separate from the word on its wait.
_PLAN: Final = "/plan"
_PROMISE: Final = "/promise"
#: Marks the Event on an object.
_EVENT: Final = "/event"
#: Seconds between two Events of one reason on one object. The API server keeps Events for an hour, so a longer wait
#: always shows an Event.
_EVENT_AGAIN_S: Final = 1800.0

Write = Callable[[], Awaitable[None]]


class Lane(enum.IntEnum):
    """Words to be written, by kind of object, and by whether the object was told anything before.

    The lanes of the first tuple of `_TURNS` write in turns; the lanes of the second write when the first have nothing.
    """

    POD_OVER = 0
    POD_FIRST = 1
    DAGJOB = 2
    EVENT = 3
    QUEUE = 4
    POD_AGAIN = 5
    DAGJOB_AGAIN = 6


_TURNS: Final = (
    (Lane.POD_OVER, Lane.POD_FIRST, Lane.DAGJOB, Lane.EVENT, Lane.QUEUE),
    (Lane.POD_AGAIN, Lane.DAGJOB_AGAIN),
)


class PendingReport(msgspec.Struct, frozen=True, gc=False):
    """A word not written yet."""

    write: Write
    since: str = ""
    """Sort key within a lane: the smallest goes first, then the first spoken of."""


class ReportWriter:
    """The writer of one term of leadership, with at most `per_second` writes a second.

    `identity` names the replica in Events. Nothing is sent before `run`; unsaid words are dropped when `run` is
    cancelled. Raises ValueError for a rate of 0 or less.
    """

    def __init__(self, client: Client, *, per_second: float = 20.0, identity: str = "brain") -> None:
        if not per_second > 0:
            raise ValueError(f"conditions per second: {per_second} (above 0)")
        self._client, self._period_s = client, 1.0 / per_second
        # By uid (with _PLAN or _PROMISE behind it) what is not written yet, and when each lane last had its turn.
        self._lanes: dict[Lane, dict[str, PendingReport]] = {lane: {} for lane in Lane}
        self._last_turn: dict[Lane, int] = {lane: lane - len(Lane) for lane in Lane}
        self._written: dict[str, Any] = {}  # the same: the last word; a watch may not have brought it back yet
        self._events = Events(client, component="brain", identity=identity)
        self._has_pending = asyncio.Event()

    @property
    def pending(self) -> int:
        """Number of objects with something unsaid."""
        return sum(map(len, self._lanes.values()))

    def report_pod(self, pod: Pod, reason: str, message: str) -> None:
        """The pod waits, for a reason (CamelCase) and with a message."""
        self._queue_pod(pod, Condition(WAITING_CONDITION, "True", reason, message[:LONGEST_MESSAGE]))

    def report_released(self, pod: Pod, node: str | None) -> None:
        """The pod waits no longer: its condition, if any, becomes False, so that `kubectl wait` can see the end.

        A pod never told to wait is left alone: a quick start costs no second write.
        """
        # An Event is about the wait alone, so an unwritten Event is dropped.
        self._drop(pod.metadata.uid + _EVENT)
        if self._waiting(pod) is None:
            self._drop(pod.metadata.uid)
        elif node is None and pod.is_terminal:
            self._queue_pod(pod, Condition(WAITING_CONDITION, "False", ENDED, "the pod has ended"))
        else:
            message = f"released to node {node}" if node is not None else "released"
            self._queue_pod(pod, Condition(WAITING_CONDITION, "False", RELEASED, message))

    def forget_pod(self, uid: str) -> None:
        """The pod is gone."""
        self._drop(uid)
        self._drop(uid + _EVENT)
        self._written.pop(uid, None)

    def report_dagjob(
        self,
        key: str,
        *,
        uid: str,
        reason: str = "",
        message: str = "",
        position: int | None = None,
        estimate_s: float | None = None,
    ) -> None:
        """Why the DagJob `namespace/name` waits; an empty text or None takes the field away."""
        fields: dict[str, Any] = {
            "reason": reason or None,
            "message": message[:LONGEST_MESSAGE] or None,
            "position": position,
            "estimateSeconds": round(estimate_s, 3) if estimate_s is not None else None,
        }
        if not reason:
            self._drop(uid + _EVENT)
        self._queue_dagjob(uid, key, fields)

    def report_event(self, kind: str, meta: Meta, reason: str, message: str) -> None:
        """An Event on a waiting Pod or DagJob, unless an Event of the same reason was written there lately."""
        word, now = f"{meta.uid} {reason}", time.monotonic()
        if now - self._written.get(word, -_EVENT_AGAIN_S) < _EVENT_AGAIN_S:
            self._drop(meta.uid + _EVENT)
            return
        write = functools.partial(self._write_event, word, kind, meta, Event(reason, message, warning=True))
        self._queue(Lane.EVENT, meta.uid + _EVENT, PendingReport(write))

    def report_queue(self, queue: QueueObject, fields: dict[str, Any]) -> None:
        """The figures of a Queue: all fields of the status but the conditions."""
        uid = queue.metadata.uid or queue.metadata.name
        before = self._written.get(uid) or msgspec.to_builtins(queue.status)
        if all(before.get(name) == value for name, value in fields.items()):
            self._drop(uid)
            return
        path = f"{path_of('Queue', queue.key)}/status"
        self._queue(Lane.QUEUE, uid, PendingReport(functools.partial(self._write_fields, uid, path, fields)))

    def report_plan(self, key: str, *, uid: str, plan: PlanStatus) -> None:
        """How the DagJob `namespace/name` is planned: a word of its own, not written again with each reason."""
        self._queue_dagjob(uid + _PLAN, key, {"plan": msgspec.to_builtins(plan)})

    def report_promise(self, key: str, *, uid: str, promise: PromiseStatus) -> None:
        """When the DagJob `namespace/name` will be done: a word of its own as well."""
        self._queue_dagjob(uid + _PROMISE, key, {"promise": msgspec.to_builtins(promise)})

    def _queue_dagjob(self, word: str, key: str, fields: dict[str, Any]) -> None:
        before = self._written.get(word)
        if before == fields:
            self._drop(word)
            return
        # A new reason is news; another position or estimate of the same reason is not.
        is_news = before is None or before.get("reason") != fields.get("reason")
        path = f"{path_of('DagJob', key)}/status"
        write = PendingReport(functools.partial(self._write_fields, word, path, fields))
        self._queue(Lane.DAGJOB if is_news else Lane.DAGJOB_AGAIN, word, write)

    def forget_dagjob(self, uid: str) -> None:
        """The DagJob is gone."""
        for word in (uid, uid + _PLAN, uid + _PROMISE, uid + _EVENT):
            self._drop(word)
            self._written.pop(word, None)

    def _queue(self, lane: Lane, uid: str, report: PendingReport) -> None:
        """Enter the newest word on an object; an overwritten word's place in the lane is kept."""
        # A word stands in one lane at most: an older word in another lane would be written after the newer.
        for other, words in self._lanes.items():
            if other is not lane:
                words.pop(uid, None)
        self._lanes[lane][uid] = report
        self._has_pending.set()

    def _drop(self, uid: str) -> None:
        for words in self._lanes.values():
            words.pop(uid, None)

    async def run(self) -> None:
        """Write, until cancelled. Faults of the API server cost time, never a word."""
        tries = 0
        while True:
            await self._has_pending.wait()
            if not self.pending:
                self._has_pending.clear()
                continue
            began = time.monotonic()
            lane, uid = self._next()
            unsaid = self._lanes[lane].pop(uid)
            try:
                await unsaid.write()
            except ApiError as error:
                if may_pass(error):
                    if not any(uid in words for words in self._lanes.values()):  # no newer word
                        self._lanes[lane][uid] = unsaid
                    self._written.pop(uid, None)
                    await asyncio.sleep(pause_s(tries))
                    tries += 1
                else:
                    _refused(error)
            else:
                tries = 0
                metrics.CONDITIONS.labels(outcome="ok").inc()
            # The pause is measured from the write's beginning, so a slow API server does not lower the rate further.
            await asyncio.sleep(max(0.0, began + self._period_s - time.monotonic()))

    def _next(self) -> tuple[Lane, str]:
        """Of the lanes with something to say, the lane whose turn is longest ago, and the first word in that lane."""
        lanes = next(waiting for turn in _TURNS if (waiting := [lane for lane in turn if self._lanes[lane]]))
        lane = min(lanes, key=self._last_turn.__getitem__)
        # Round robin without a list of turns: the highest number was served last.
        self._last_turn[lane] = max(self._last_turn.values()) + 1
        words = self._lanes[lane]
        return lane, min(words, key=lambda uid: words[uid].since)

    # -- pods -----------------------------------------------------------------------------------

    def _waiting(self, pod: Pod) -> Condition | None:
        """The pod's condition: as last written by us, else as last seen."""
        return self._written.get(pod.metadata.uid) or pod.waiting

    def _queue_pod(self, pod: Pod, condition: Condition) -> None:
        uid, before = pod.metadata.uid, self._waiting(pod)
        if before is not None and _content(before) == _content(condition):
            self._drop(uid)
            return
        lane = Lane.POD_AGAIN if before is not None else Lane.POD_FIRST
        if before is not None and before.status != condition.status:
            lane = Lane.POD_OVER if condition.status == "False" else Lane.POD_FIRST
        write = functools.partial(self._write_pod, pod.metadata, condition.after(before, stamp()))
        self._queue(
            lane, uid, PendingReport(write, pod.metadata.creationTimestamp or "" if lane is Lane.POD_FIRST else "")
        )

    async def _write_pod(self, meta: Meta, condition: Condition) -> None:
        """Server-side apply: conditions are merged by type, and conditions of others stay."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "status": {"conditions": [condition]},
        }
        self._remember(meta.uid, condition)
        path = f"{path_of('Pod', meta.key)}/status"
        await self._client.patch(path, body, kind="apply", field_manager=FIELD_MANAGER, force=True)

    # -- everything else ------------------------------------------------------------------------

    async def _write_fields(self, word: str, path: str, fields: dict[str, Any]) -> None:
        """A merge patch of our fields of a status alone; the others belong to the controllers."""
        self._remember(word, fields)
        await self._client.patch(path, {"status": fields}, kind="merge", field_manager=FIELD_MANAGER)

    async def _write_event(self, word: str, kind: str, meta: Meta, event: Event) -> None:
        self._remember(word, time.monotonic())
        await self._events.report(kind, meta, event)

    def _remember(self, word: str, content: Any) -> None:
        """Keep the newest word; a forgotten one costs a superfluous write at worst."""
        self._written.pop(word, None)
        # Popped first, so that the word moves to the end: the dict's first entry is the oldest.
        self._written[word] = content
        if len(self._written) > REMEMBERED:
            del self._written[next(iter(self._written))]


def _content(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _refused(error: ApiError) -> None:
    """The object is gone (or another object has its name), or the write is refused for good."""
    gone = is_gone(error)
    metrics.CONDITIONS.labels(outcome="gone" if gone else "error").inc()
    if not gone:
        log.warning("a condition cannot be written", why=str(error))
