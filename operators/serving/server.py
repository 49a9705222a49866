"""The two ports of a process: the verbs for kube-scheduler, behind mutual TLS, and probes and metrics.

A client has to show a certificate of the configured authority, with a name on the list; the rest of the cluster's
network can reach the port and gets nothing. Certificates are read again when their files change, so a rotation needs no
restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog
import uvicorn
from cryptography import x509
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from operators import metrics
from operators.config import InvalidConfig
from operators.serving.ports import ExtenderPort, ManagementPort, Tls

log = structlog.get_logger()

#: Where the server leaves the time of a request's first byte (monotonic seconds), for the budget.
FIRST_BYTE: Final = "first_byte_s"
#: Where the server leaves the names of the client's certificate; absent without TLS.
CLIENT_NAMES: Final = "client_names"
#: Go's client keeps idle connections for 90 s; closing first would fail a call that is just being sent.
KEEP_ALIVE_S: Final = 120
#: How long the head of a request may take from its first byte, and how large it may be; kube-scheduler's has 200 bytes.
HEAD_S: Final = 5.0
HEAD_LIMIT: Final = 64 * 2**10
#: How long calls in flight may take once the process is told to stop.
DRAIN_S: Final = 10
#: From when on a certificate's end is worth a warning.
SOON_S: Final = 7 * 86_400
#: The media type of the metrics page.
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


class Certificates(ssl.SSLContext):
    """A TLS context with the newest good files for every connection.

    Raises InvalidConfig for files that cannot be used.
    """

    def __new__(cls, tls: Tls) -> Certificates:
        """The outer context makes no connection itself, so it needs no settings."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._seen = self._stamps()
        self._current, self.expires = _context(tls)
        self._warned: datetime | None = None
        metrics.CERTIFICATE_EXPIRY.set_function(self.left_s)
        self._warn()

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """As asyncio calls it for each connection."""
        return self._current.wrap_bio(*args, **kwargs)

    def left_s(self) -> float:
        """Seconds until the certificate in use expires."""
        return self.expires.timestamp() - time.time()

    async def watch(self) -> None:
        """Look at the files for ever."""
        while True:
            await asyncio.sleep(self._tls.reload_every / 1000)
            self.look()

    def look(self) -> None:
        """Read the files again if changed. A pair that cannot be used leaves the old pair in place."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            try:
                self._current, self.expires = _context(self._tls)
            except InvalidConfig as error:
                metrics.CERTIFICATE_RELOADS.labels("refused").inc()
                log.error("new certificate files cannot be used; the old ones stay", why=str(error))
            else:
                metrics.CERTIFICATE_RELOADS.labels("ok").inc()
                log.info("new certificate files are in use", expires=self.expires.isoformat())
        self._warn()

    def _warn(self) -> None:
        """Say once a day when the end is near, or has come."""
        now = datetime.now(UTC)
        due = self._warned is None or (now - self._warned).total_seconds() > 86_400
        if self.left_s() < SOON_S and due:
            self._warned = now
            log.warning("the certificate expires soon", file=self._tls.cert_file, expires=self.expires.isoformat())

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """Marks of a changed file, behind any links (a mounted Secret is a link to a link)."""
        return [_stamp(Path(name)) for name in (self._tls.cert_file, self._tls.key_file, self._tls.client_ca_file)]


class _Protocol(HttpToolsProtocol):
    """Notes facts of a request beyond HTTP for the app: the time of its beginning, and its sender.

    A connection without a complete next head in time, or within the limit, is closed. (uvicorn limits only the silence
    after an answer.)
    """

    _names: tuple[str, ...] | None = None
    _limit: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self._names = None if tls is None else certificate_names(tls.getpeercert() or {})
        self._expect_head(KEEP_ALIVE_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_head(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            if not self._head:
                self._expect_head(HEAD_S)
            self._head += len(data)
        super().data_received(data)
        if self._head > HEAD_LIMIT:
            self._cut("large")

    def on_headers_complete(self) -> None:
        self._expect_head(None)
        self._head = 0
        super().on_headers_complete()

    def _expect_head(self, seconds: float | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = None if seconds is None else self.loop.call_later(seconds, self._cut, "slow")

    def _cut(self, why: str) -> None:
        if not self.transport.is_closing():
            metrics.CUT_CONNECTIONS.labels(why).inc()
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        state = self.scope["state"]
        state[FIRST_BYTE] = time.monotonic()
        if self._names is not None:
            state[CLIENT_NAMES] = self._names


class _Server(uvicorn.Server):
    """Leaves signals to the process, and stops when its task is cancelled: calls in flight are answered first."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def run_until_cancelled(self, listener: socket.socket) -> None:
        serving = asyncio.ensure_future(self.serve([listener]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self.should_exit = True
            await serving
            raise


class Admission:
    """Lets calls of the named clients through to the app and answers all others with 403."""

    def __init__(self, app: Asgi, names: Iterable[str]) -> None:
        self._app, self._names = app, tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "http":
            shown = scope["state"].get(CLIENT_NAMES, ())
            if not set(shown) & set(self._names):
                await self._refusal(scope, shown)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, shown: Iterable[str]) -> Response:
        said = ", ".join(shown) or "nobody"
        metrics.REFUSED_CLIENTS.inc()
        log.warning("a call is refused", client=said, path=scope["path"])
        text = f"a certificate of {said} may not call here (accepted: {', '.join(self._names)})"
        return Response(text, 403, {"connection": "close"}, "text/plain")


def management(not_ready: Callable[[], str | None], stuck: Callable[[], str | None] = lambda: None) -> Starlette:
    """Probes and metrics: `/healthz` and `/readyz` (503 with the reason), `/metrics`.

    `not_ready` tells why the process must not be asked; `stuck` why the process has to be started anew. A turning event
    loop is shown by the answer itself.
    """

    async def healthz(request: Request) -> Response:
        return _probed("not alive", stuck())

    async def readyz(request: Request) -> Response:
        return _probed("not ready", not_ready())

    async def show(request: Request) -> Response:
        return Response(metrics.exposition(), media_type=METRICS_TYPE)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", show)])


def _probed(what: str, why: str | None) -> Response:
    return Response("ok") if why is None else Response(f"{what}: {why}", 503)


async def serve(
    app: Asgi,
    port: ExtenderPort,
    management_app: Asgi,
    management_port: ManagementPort,
    *,
    listening: Callable[[int, int], None] | None = None,
) -> None:
    """Serve both ports until cancelled; calls in flight are then answered before the return.

    `listening` is told the two port numbers once both are open, the verbs' first. Raises InvalidConfig for certificates
    that cannot be used, or an address that cannot be bound.
    """
    tls = port.tls
    certificates = Certificates(tls) if tls is not None else None
    guarded = Admission(app, tls.client_names) if tls is not None else app
    with _listen(port) as verbs, _listen(management_port) as management:
        if listening is not None:
            listening(verbs.getsockname()[1], management.getsockname()[1])
        async with asyncio.TaskGroup() as group:
            if certificates is not None:
                group.create_task(certificates.watch())
            group.create_task(_Server(_settings(guarded, certificates)).run_until_cancelled(verbs))
            group.create_task(_Server(_settings(management_app)).run_until_cancelled(management))


async def serve_management(
    app: Asgi, config: ManagementPort, *, listening: Callable[[int], None] | None = None
) -> None:
    """Serve probes and metrics alone, until cancelled. Raises InvalidConfig if the address cannot be bound."""
    with _listen(config) as listener:
        if listening is not None:
            listening(listener.getsockname()[1])
        await _Server(_settings(app)).run_until_cancelled(listener)


def certificate_names(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Common names, then alternative names (DNS, URI), of a certificate as `ssl` describes it."""
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    others = [value for key, value in certificate.get("subjectAltName", ()) if key in ("DNS", "URI")]
    return tuple(dict.fromkeys(common + others))


def _settings(app: Asgi, certificates: Certificates | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        ssl_context_factory=None if certificates is None else lambda _config, _default: certificates,
    )


def _listen(port: ExtenderPort | ManagementPort) -> socket.socket:
    family = socket.AF_INET6 if ":" in port.address else socket.AF_INET
    # With the protocol named, asyncio switches off Nagle's algorithm, which would hold back every answer for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((port.address, port.port))
        listener.listen(128)
    except (OSError, UnicodeError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or error
        raise InvalidConfig([f"{port.address}:{port.port} cannot be listened on: {why}"]) from None
    return listener


def _context(tls: Tls) -> tuple[ssl.SSLContext, datetime]:
    """A context of these files and when its certificate expires. Raises InvalidConfig."""
    expires = _expiry(Path(tls.cert_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would skip the check of a client's certificate against files that changed since.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InvalidConfig(
            [f"{tls.cert_file} and {tls.key_file} are no pair that can be used: {_why(error)}"]
        ) from None
    try:
        context.load_verify_locations(tls.client_ca_file)
    except OSError as error:
        raise InvalidConfig([f"{tls.client_ca_file} holds no usable authority's certificate: {_why(error)}"]) from None
    return context, expires


def _expiry(file: Path) -> datetime:
    """When the first certificate of a PEM file expires. Raises InvalidConfig if unreadable or not valid now."""
    try:
        certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
    except (OSError, ValueError) as error:
        raise InvalidConfig([f"{file} holds no certificate that can be read: {_why(error)}"]) from None
    now = datetime.now(UTC)
    if certificate.not_valid_after_utc <= now:
        when = certificate.not_valid_after_utc.isoformat()
        raise InvalidConfig([f"{file} has expired at {when}: no client would accept it (renew it)"])
    if certificate.not_valid_before_utc > now:
        when = certificate.not_valid_before_utc.isoformat()
        raise InvalidConfig([f"{file} is valid only from {when} on (is the clock of this machine right?)"])
    return certificate.not_valid_after_utc


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a password")


def _why(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
