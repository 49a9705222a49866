"""The HTTP side of the extender: reads kube-scheduler's calls, asks the brain, and answers in time.

kube-scheduler drops the body of any answer but 200, so a failing filter gives the reason in its `Error` field, and the
pod's events show the reason. A late answer is worse than none (room would be reserved for nobody), so every call has a
budget from its first byte; after the budget the answer is an error at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from operators import metrics
from operators.extender.wire import (
    BadRequest,
    ExtenderPreemptionArgs,
    FilterAnswer,
    TooLarge,
    Victims,
    filter_reply,
    preempt_reply,
    prioritize_reply,
    read_args,
    read_preemption_args,
)
from operators.serving.server import FIRST_BYTE
from schedulers.objects.pod import Pod

log = structlog.get_logger()
T = TypeVar("T")

#: Room for 65,000 of the longest names, or for 5,000 whole nodes (11 MB; with 50 images each they would be 54 MB).
BODY_LIMIT: Final = 16 * 2**20
#: Reason given for a node without a word from the brain, in an answer without any node.
UNEXPLAINED: Final = "not among the nodes that rm-scheduler considers"


class ExtenderBackend(Protocol):
    """The brain as the app sees it. All calls are synchronous, quick, and made on the event loop's thread."""

    def not_ready(self) -> str | None:
        """None while it leads and hears the API server, otherwise why it must not be asked."""

    def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        """Which of these nodes the pod may be bound to."""

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """(node, score from 0 to 10) of each node on which the brain has an opinion."""

    def preempt(self, pod: Pod, victims: Victims) -> Victims:
        """Where these victims may go: nodes left out are vetoed, uids may be added."""


class _Refused(Exception):
    """A call without an answer.

    outcome is the metric's label, status the HTTP status for verbs without a field for errors.
    """

    def __init__(self, outcome: str, message: str, *, status: int = 500, close: bool = False) -> None:
        super().__init__(message)
        self.outcome, self.status, self.close = outcome, status, close


class _Answer(NamedTuple):
    body: bytes
    outcome: str
    status: int = 200


class Extender:
    """The three verbs over one brain.

    A call may take budget_s seconds from its first byte; clock gives monotonic seconds.
    """

    def __init__(
        self,
        backend: ExtenderBackend,
        *,
        budget_s: float,
        body_limit: int = BODY_LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend, self._budget_s, self._body_limit, self._clock = backend, budget_s, body_limit, clock

    def app(self) -> Starlette:
        """The ASGI application, with `/v1` before the verbs."""
        verbs = {"filter": self._filter, "prioritize": self._prioritize, "preempt": self._preempt}
        return Starlette(
            routes=[Route(f"/v1/{verb}", self._endpoint(verb, act), methods=["POST"]) for verb, act in verbs.items()],
            exception_handlers={404: _not_found, 405: _wrong_method},
        )

    def _endpoint(self, verb: str, act: Callable[[bytes, _Call], _Answer]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            # The first byte's time comes from the server: time spent in its queue counts against the budget.
            began = request.scope.get("state", {}).get(FIRST_BYTE) or self._clock()
            call = _Call(began, self._budget_s, self._clock)
            headers = {}
            try:
                answer = act(await self._body(request, call), call)
            except _Refused as refused:
                answer = _refusal(verb, refused)
                if refused.close:
                    headers["connection"] = "close"
            metrics.REQUESTS.labels(verb, answer.outcome).inc()
            metrics.REQUEST_DURATION.labels(verb).observe(self._clock() - began)
            kind = "application/json" if answer.status == 200 else "text/plain; charset=utf-8"
            return Response(answer.body, answer.status, headers, kind)

        return endpoint

    async def _body(self, request: Request, call: _Call) -> bytes:
        """All of the body, within its limits in type, size and time."""
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":
            message = f"content type {kind!r} is not accepted (send application/json)"
            raise _Refused("bad", message, status=415, close=True)
        # The announced length is checked first: a body too large is refused before a byte of the body is read.
        length = request.headers.get("content-length", "")
        self._check_size(int(length) if length.isdecimal() else 0)
        try:
            async with asyncio.timeout(call.left_s()):
                parts, size = [], 0
                async for part in request.stream():
                    size += len(part)
                    self._check_size(size)
                    parts.append(part)
        except TimeoutError:
            raise _Refused(
                "late", call.timeout_message("while the body was still coming"), status=503, close=True
            ) from None
        except ClientDisconnect:
            raise _Refused("bad", "the connection ended before the body did", status=400, close=True) from None
        return b"".join(parts)

    def _check_size(self, size: int) -> None:
        if size > self._body_limit:
            message = (
                f"the body has more than {self._body_limit} bytes ({size}); "
                "set nodeCacheCapable: true for this extender, so that names are sent instead of whole nodes"
            )
            raise _Refused("large", message, status=413, close=True)

    # -- verbs ----------------------------------------------------------------------------------

    def _filter(self, body: bytes, call: _Call) -> _Answer:
        asked = self._read(read_args, body)
        answer: FilterAnswer = self._decide(call, lambda: self._backend.filter(asked.pod, asked.names))
        if answer.error:
            return _Answer(filter_reply(asked, FilterAnswer([], error=answer.error)), "error")
        names = set(asked.names)
        nodes = _known("filter", list(dict.fromkeys(answer.nodes)), names)
        failed, unresolvable = _known_reasons(answer.failed, names), _known_reasons(answer.unresolvable, names)
        if not nodes:
            # A node without a word is no candidate of preemption, and its reason would be missing in the event.
            silent = [name for name in asked.names if name not in failed and name not in unresolvable]
            unresolvable = {**unresolvable, **dict.fromkeys(silent, UNEXPLAINED)}
        return _Answer(filter_reply(asked, FilterAnswer(nodes, failed, unresolvable)), "ok" if nodes else "none")

    def _prioritize(self, body: bytes, call: _Call) -> _Answer:
        asked = self._read(read_args, body)
        # A dict, so that a node scored twice counts once.
        scores = self._decide(call, lambda: dict(self._backend.prioritize(asked.pod, asked.names)))
        hosts = _known("prioritize", scores, set(asked.names))
        return _Answer(prioritize_reply((host, scores[host]) for host in hosts), "ok")

    def _preempt(self, body: bytes, call: _Call) -> _Answer:
        asked: ExtenderPreemptionArgs = self._read(read_preemption_args, body)
        victims = self._decide(call, lambda: self._backend.preempt(asked.pod, asked.victims))
        nodes = _known("preempt", victims, asked.victims.keys())
        return _Answer(preempt_reply({node: victims[node] for node in nodes}), "ok" if nodes else "none")

    def _read(self, read: Callable[[bytes], T], body: bytes) -> T:
        try:
            return read(body)
        except TooLarge as error:
            raise _Refused("large", str(error), status=413) from None
        except BadRequest as error:
            raise _Refused("bad", str(error), status=400) from None

    def _decide(self, call: _Call, ask: Callable[[], T]) -> T:
        """Ask the brain, if ready and in time; an answer after the budget is dropped."""
        why = self._backend.not_ready()
        if why is not None:
            # Closed, because the next call belongs to the leader: a connection that stays open always leads here.
            raise _Refused("not_ready", f"not ready: {why}", status=503, close=True)
        if call.left_s() <= 0:
            raise _Refused("late", call.timeout_message("before the decision"), status=503)
        try:
            answer = ask()
        except Exception as error:
            # Any mistake of ours becomes an answer: without one, kube-scheduler would wait for its time-out.
            log.exception("a call failed", why=str(error))
            raise _Refused("error", f"internal error: {type(error).__name__}: {error}") from error
        if call.left_s() <= 0:
            raise _Refused("late", call.timeout_message("after the decision"), status=503)
        return answer


class _Call:
    """The time budget of one call, which began at the monotonic second `began`."""

    def __init__(self, began: float, budget_s: float, clock: Callable[[], float]) -> None:
        self._began, self._budget_s, self._clock = began, budget_s, clock

    def left_s(self) -> float:
        """Seconds until the answer is due; below zero when too late."""
        return self._began + self._budget_s - self._clock()

    def timeout_message(self, when: str) -> str:
        """The message of a call that cannot be answered in time."""
        return f"the call's budget of {self._budget_s:g} s was used up {when}; the pod will be tried again"


def _refusal(verb: str, refused: _Refused) -> _Answer:
    """The refusal in each verb's form: filter has a field for errors, prioritize none, preempt only the status."""
    log.warning("a call is not answered", verb=verb, outcome=refused.outcome, why=str(refused))
    if verb == "filter":
        return _Answer(filter_reply(None, FilterAnswer([], error=str(refused))), refused.outcome)
    if verb == "prioritize":
        return _Answer(prioritize_reply(()), refused.outcome)
    return _Answer(str(refused).encode(), refused.outcome, refused.status)


def _known(verb: str, names: Iterable[str], asked: Collection[str]) -> list[str]:
    """Names from the question; a single unknown name would fail kube-scheduler's whole attempt."""
    answered = list(names)
    known = [name for name in answered if name in asked]
    if unknown := len(answered) - len(known):
        metrics.DROPPED_NAMES.labels(verb).inc(unknown)
        log.error("an answer names nodes that were not asked about", verb=verb, count=unknown)
    return known


def _known_reasons(reasons: dict[str, str], asked: AbstractSet[str]) -> dict[str, str]:
    # The usual case costs no copy of thousands of reasons.
    if reasons.keys() <= asked:
        return reasons
    return {name: why for name, why in reasons.items() if name in asked}


async def _not_found(request: Request, error: Exception) -> Response:
    return _plain(404, f"no such path: {request.url.path} (POST /v1/filter, /v1/prioritize or /v1/preempt)")


async def _wrong_method(request: Request, error: Exception) -> Response:
    response = _plain(405, f"method {request.method} is not accepted (send POST)")
    response.headers["allow"] = "POST"
    return response


def _plain(status: int, text: str) -> Response:
    return Response(text, status, {"connection": "close"}, "text/plain")
