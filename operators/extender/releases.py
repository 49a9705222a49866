"""Gate releases: one JSON patch per pod to drop our gate and, for pods of ours, to narrow the pod to its node.

Writes wait in memory, `concurrency` of them are on their way at once, and each is repeated until the API server has
given a final answer. Nothing here decides: impossible releases are reported to `settled`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import structlog

from operators import metrics
from operators.client import ApiError, Client, Forbidden, Invalid, NotFound, Unreachable, path_of
from operators.extender.window import Window
from schedulers.objects.names import GANG_PLAN, RESERVED_NODE
from schedulers.objects.pod import NodeSelector, Pod, PodSpec, SelectorTerm

log = structlog.get_logger()

#: Name of our writes in an object's managedFields.
FIELD_MANAGER: Final = "rm-brain"
#: Passing answers besides faults of the server: token being renewed, timed out, conflict.
PASSING: Final = frozenset({401, 408, 409})
#: Seconds before the second try, and at most between two.
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
#: Tries after which the log says so, over and over.
LOGGED_AFTER: Final = 8

_AFFINITY: Final = "/spec/affinity"
_NODE_AFFINITY: Final = f"{_AFFINITY}/nodeAffinity"
_REQUIRED_KEY: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = f"{_NODE_AFFINITY}/{_REQUIRED_KEY}"
_TERMS: Final = f"{_REQUIRED}/nodeSelectorTerms"

Operation = dict[str, Any]


class Outcome(enum.StrEnum):
    """How a release has ended. GONE: the pod is not there any more (or another pod has its name)."""

    OK = "ok"
    GONE = "gone"
    REFUSED = "refused"


#: Told once per release: the pod's uid, how it ended, and why if it was refused.
Settled = Callable[[str, Outcome, str], None]
#: Told once of a gang's plan: stored (None), or refused for good.
Stored = Callable[[ApiError | None], None]


def release_patch(pod: Pod, node: str | None) -> list[Operation] | None:
    """The JSON patch to release `pod`, narrowed to `node` if given; None if our gate is not there.

    Tests in the patch make the whole patch fail on any other pod of the name, on other gates, and on an affinity
    unknown to `pod`.
    """
    gate = pod.gate_index
    if gate is None:
        return None
    path = f"/spec/schedulingGates/{gate}"
    return [
        # A patch by index: the tests make sure that the gate at this index is still ours, of this pod.
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": f"{path}/name", "value": pod.spec.schedulingGates[gate].name},
        {"op": "remove", "path": path},
        *(_narrowing(pod.spec, node) if node is not None else ()),
    ]


def _narrowing(spec: PodSpec, node: str) -> list[Operation]:
    """Requirements can only be added while a pod is gated: to each term, or as the first of all."""
    requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
    if spec.affinity is None:
        return _first(_AFFINITY, {"nodeAffinity": {_REQUIRED_KEY: selector}})
    if spec.affinity.nodeAffinity is None:
        return _first(_NODE_AFFINITY, {_REQUIRED_KEY: selector})
    required = spec.affinity.nodeAffinity.required
    if required is None:
        return _first(_REQUIRED, selector)
    operations = []
    for index, term in enumerate(required.nodeSelectorTerms):
        if _names(term, node) or not (term.matchExpressions or term.matchFields):
            continue  # a term without requirements matches no node, and must stay so
        fields = f"{_TERMS}/{index}/matchFields"
        operations += [_add(f"{fields}/-", requirement)] if term.matchFields else _first(fields, [requirement])
    return operations


def _first(path: str, value: Any) -> list[Operation]:
    """Add a value that must not be there yet (`add` alone would replace an old value)."""
    return [{"op": "test", "path": path, "value": None}, _add(path, value)]


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _names(term: SelectorTerm, node: str) -> bool:
    return any(
        field.key == "metadata.name" and field.operator == "In" and field.values == (node,)
        for field in term.matchFields
    )


def is_narrowed(pod: Pod, node: str) -> bool:
    """Whether every term of the pod's required affinity with any matching node names `node`."""
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None and affinity.required is not None else NodeSelector()
    terms = [term for term in required.nodeSelectorTerms if term.matchExpressions or term.matchFields]
    return bool(terms) and all(_names(term, node) for term in terms)


class _Write(Protocol):
    """A write, repeated until there is a final answer."""

    tries: int

    async def send(self) -> None:
        """Try once; raises the API server's refusal."""

    def refused(self, error: ApiError) -> None:
        """The answer is final, and no."""


class ReleaseWriter:
    """All writes of the brain to let pods start.

    `concurrency` writes are on their way at once; `settled` hears once per release how the release has ended; `window`
    limits the pods released and not bound yet, and the others wait here, in the order of decisions. Nothing is sent
    before `run`; pending writes are dropped when `run` is cancelled (a new leader decides anew).
    """

    def __init__(
        self,
        client: Client,
        *,
        concurrency: int = 16,
        settled: Settled | None = None,
        window: Window | None = None,
    ) -> None:
        self._client, self._concurrency, self._settled = client, concurrency, settled
        self._window = window if window is not None else Window(time.monotonic)
        self._waiting: deque[Sequence[_Release]] = deque()  # for want of room in the window; a gang goes as one
        self._queue: asyncio.Queue[_Write] = asyncio.Queue()
        self._pods: dict[str, _Release] = {}
        self._plans: dict[str, _Plan] = {}
        self._partial = 0

    @property
    def pending(self) -> int:
        """Number of pods without a final answer, gangs with an unwritten plan included."""
        return len(self._pods)

    def is_pending(self, uid: str) -> bool:
        """Whether a release of this pod has no final answer yet."""
        return uid in self._pods

    def release(self, pod: Pod, node: str | None) -> None:
        """Drop our gate from `pod` as last seen; with a node, narrow the pod to the node.

        While a release of the same pod is pending, only its node is replaced.
        """
        release = self._pods.get(pod.metadata.uid)
        if release is None:
            release = self._enter(pod)
            self._await_window([release])
        release.node = node

    def waited_ms(self, uid: str) -> int | None:
        """Milliseconds since the pod's release without a binding; None: not released, or not awaited."""
        waited = self._window.waited_s(uid)
        return None if waited is None or uid in self._pods else round(1000 * waited)

    def bound(self, uid: str) -> None:
        """The pod was seen bound, so another pod may go."""
        self._window.bound(uid)
        self._fill_window()

    def stop_waiting(self, uid: str) -> None:
        """The pod is not going to be bound soon and holds up nobody."""
        if uid not in self._pods:
            self._window.drop(uid)
            self._fill_window()

    def _await_window(self, releases: Sequence[_Release]) -> None:
        self._waiting.append(releases)
        self._fill_window()

    def _fill_window(self) -> None:
        """Fill the window. A gang goes whole, however large: half a gang would wait for the rest."""
        while self._waiting and self._window.is_open:
            # The window counts each pod from here on, before the API server has answered.
            for release in self._waiting.popleft():
                self._window.sent(release.uid)
                self._queue.put_nowait(release)

    def release_gang(
        self, dagjob: str, stage: str, members: Sequence[tuple[Pod, str | None]], plan: Mapping[str, str] | None
    ) -> None:
        """Write the plan {index: node} on the DagJob, then release all members, then take the stage off the plan.

        Without a plan (of a PodGroup, an object of others) the members are released at once.

        dagjob: `namespace/name`. Gangs of one DagJob that are entered together share one write.
        """
        if not members:
            return
        gang = _Gang(members, lambda: self._all_out(dagjob, stage))
        waiting = []
        for pod, node in members:
            release = self._pods.get(pod.metadata.uid)
            if release is None:
                waiting.append(release := self._enter(pod))
            release.node = node
            release.gangs.append(gang)
        if plan is None:
            self._await_window(waiting)
            return
        plans = self._plans.get(dagjob)
        if plans is None:
            plans = _Plan(self._client, dagjob, self._queue.put_nowait, lambda key: self._plans.pop(key, None))
            self._plans[dagjob] = plans
        plans.uid = members[0][0].dagjob_uid
        plans.add(stage, plan, lambda error: self._planned(waiting, error))

    def _all_out(self, dagjob: str, stage: str) -> None:
        """Every member of the gang is out (or never will be): the plan is not needed any more."""
        if dagjob in self._plans:
            self._plans[dagjob].remove(stage)

    def wake(self, pod: Pod, node: str) -> None:
        """Tell a pod without gate the node reserved for it; the change makes kube-scheduler try the pod again."""
        self._queue.put_nowait(_Wake(self._client, pod, node))

    async def run(self) -> None:
        """Send, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def drained(self) -> None:
        """Returns when nothing is pending."""
        while self._pods or self._plans:
            await asyncio.sleep(0.01)

    async def _work(self) -> None:
        while True:
            write = await self._queue.get()
            try:
                await write.send()
            except ApiError as error:
                if not may_pass(error):
                    write.refused(error)
                    continue
                metrics.RELEASES.labels(outcome="retried").inc()
                pause = pause_s(write.tries)
                write.tries += 1
                if write.tries % LOGGED_AFTER == 0:
                    log.warning("a release is refused, and tried on", tries=write.tries, why=str(error))
                # Back to the queue after a pause: a refused write holds up no other.
                asyncio.get_running_loop().call_later(pause, self._queue.put_nowait, write)
                if isinstance(error, Unreachable):
                    await asyncio.sleep(pause)  # the next write would fare no better

    def _enter(self, pod: Pod) -> _Release:
        release = self._pods[pod.metadata.uid] = _Release(self._client, pod, self._end)
        metrics.RELEASES_WAITING.set(len(self._pods))
        return release

    def _planned(self, waiting: Sequence[_Release], error: ApiError | None) -> None:
        """A gang's plan is stored, and the members go; or the plan is refused, and no member does."""
        if error is None:
            self._await_window(waiting)
        else:
            outcome = Outcome.GONE if is_gone(error) else Outcome.REFUSED
            for release in waiting:
                self._end(release, outcome, f"the gang's plan cannot be written: {error.message}")

    def _end(self, release: _Release, outcome: Outcome, why: str) -> None:
        self._pods.pop(release.uid, None)
        if outcome is not Outcome.OK or len(release.pod.spec.schedulingGates) > 1:  # somebody else's gate is shut
            self._window.drop(release.uid)
            self._fill_window()
        elif release.uid in self._window:  # the watch may have told of its binding before
            self._window.sent(release.uid)
        for gang in release.gangs:
            # The last member's end takes the plan off the DagJob.
            self._partial += gang.out(release.uid)
        metrics.RELEASES.labels(outcome=outcome.value).inc()
        metrics.RELEASE_DURATION.observe(time.monotonic() - release.since)
        metrics.RELEASES_WAITING.set(len(self._pods))
        metrics.GANGS_PARTIAL.set(self._partial)
        if outcome is Outcome.REFUSED:
            log.warning("a pod cannot be released", pod=release.pod.key, why=why)
        if self._settled is not None:
            self._settled(release.uid, outcome, why)


def is_gone(error: ApiError) -> bool:
    """Whether the object of a refused write is gone, or another object has its name."""
    return isinstance(error, NotFound) or "metadata.uid" in error.message


def may_pass(error: ApiError) -> bool:
    """Whether the same request may be answered otherwise later.

    A request beyond our role may pass too: an API server just started knows no roles yet. Admission forbids in other
    words.
    """
    lacks_role = isinstance(error, Forbidden) and '" cannot ' in error.message
    return error.is_transient or error.status in PASSING or lacks_role


def pause_s(tries: int) -> float:
    """Seconds before the next try, doubled with each and spread, so that many writes do not come back at once."""
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries, 20))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class _Release:
    """One pod on its way out."""

    def __init__(self, client: Client, pod: Pod, end: Callable[[_Release, Outcome, str], None]) -> None:
        self._client, self._end = client, end
        self.pod, self.uid = pod, pod.metadata.uid
        self.node: str | None = None
        self.gangs: list[_Gang] = []
        self.tries, self.since = 0, time.monotonic()

    async def send(self) -> None:
        try:
            await self._send()
        except NotFound:
            self._end(self, Outcome.GONE, "")

    def refused(self, error: ApiError) -> None:
        self._end(self, Outcome.REFUSED, error.message)

    async def _send(self) -> None:
        """On a pod other than expected, look at a fresh copy; the same patch refused twice is final."""
        path = path_of("Pod", self.pod.key)
        while True:
            node = self.node
            # The node may be replaced while the patch is on its way, so one value serves the whole round.
            patch = release_patch(self.pod, node)
            if patch is None:
                self._gate_is_gone(node)
                return
            try:
                await self._client.patch(path, patch, kind="json", field_manager=FIELD_MANAGER)
            except Invalid as error:
                self.pod = msgspec.convert(await self._client.get(path), Pod)
                if self.pod.metadata.uid != self.uid:
                    raise NotFound(404, "NotFound", "another pod has its name") from error
                if release_patch(self.pod, node) == patch:
                    raise
            else:
                self._end(self, Outcome.OK, "")
                return

    def _gate_is_gone(self, node: str | None) -> None:
        """An answer was lost after our write, or somebody else has opened the gate."""
        if node is None or is_narrowed(self.pod, node):
            self._end(self, Outcome.OK, "")
        else:
            self._end(self, Outcome.REFUSED, f"its gate is gone, and it is not narrowed to node {node}")


class _Wake:
    """The annotation that wakes kube-scheduler for one pod."""

    def __init__(self, client: Client, pod: Pod, node: str) -> None:
        self._client, self._pod, self._node = client, pod, node
        self.tries = 0

    async def send(self) -> None:
        body = {"metadata": {"uid": self._pod.metadata.uid, "annotations": {RESERVED_NODE: self._node}}}
        with contextlib.suppress(NotFound):
            await self._client.patch(path_of("Pod", self._pod.key), body, kind="merge", field_manager=FIELD_MANAGER)

    def refused(self, error: ApiError) -> None:
        log.warning("a pod cannot be told of its reserved node", pod=self._pod.key, why=error.message)


class _Plan:
    """The plan of one DagJob's gangs: an annotation, always written as a whole."""

    def __init__(self, client: Client, key: str, put: Callable[[_Write], None], drop: Callable[[str], object]) -> None:
        self._client, self._key, self._put, self._drop = client, key, put, drop
        self._stages: dict[str, dict[str, str]] = {}
        self._waiting: list[Stored] = []
        self._queued = False
        self.uid, self.tries = "", 0

    def add(self, stage: str, plan: Mapping[str, str], stored: Stored) -> None:
        """Enter a gang; `stored` is called once the gang's plan is written (or never will be)."""
        self._stages[stage] = dict(plan)
        self._waiting.append(stored)
        self._enqueue()

    def remove(self, stage: str) -> None:
        """The gang is out."""
        if self._stages.pop(stage, None) is not None:
            self._enqueue()

    def _enqueue(self) -> None:
        if not self._queued:
            self._queued = True
            self._put(self)

    async def send(self) -> None:
        # Gangs entered while the write is on its way are not in this plan, and are settled by the next.
        plan, count = dict(self._stages), len(self._waiting)
        metadata: dict[str, Any] = {"annotations": {GANG_PLAN: msgspec.json.encode(plan).decode() if plan else None}}
        if self.uid:
            # The uid makes the API server refuse the write for a namesake of the DagJob.
            metadata["uid"] = self.uid
        await self._client.patch(
            path_of("DagJob", self._key), {"metadata": metadata}, kind="merge", field_manager=FIELD_MANAGER
        )
        self._settle(count, None)
        if self._stages != plan or self._waiting:
            self._put(self)
        else:
            self._over()

    def refused(self, error: ApiError) -> None:
        self._stages.clear()
        self._settle(len(self._waiting), error)
        self._over()

    def _settle(self, count: int, error: ApiError | None) -> None:
        settled, self._waiting = self._waiting[:count], self._waiting[count:]
        self.tries = 0
        for stored in settled:
            stored(error)

    def _over(self) -> None:
        self._queued = False
        if not self._stages:
            self._drop(self._key)


class _Gang:
    """Members to go out together, and the action due after the last."""

    def __init__(self, members: Sequence[tuple[Pod, str | None]], done: Callable[[], None]) -> None:
        self._left, self._done = {pod.metadata.uid for pod, _ in members}, done
        self._partial = False

    def out(self, uid: str) -> int:
        """A member's release has ended; returns the change of the number of partial gangs."""
        # A gang counts as partial from the end of its first member to the end of its last.
        self._left.discard(uid)
        before, self._partial = self._partial, bool(self._left)
        if not self._left:
            self._done()
        return self._partial - before
