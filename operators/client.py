"""A small client of the API server: plain paths, JSON, list, watch and patch, over one aiohttp session.

Retrying is the callers' business, because only they know what a repetition means.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self

import aiohttp
import msgspec

from operators.access import Access, InvalidKubeconfig, Login
from schedulers.objects.names import API_VERSION
from schedulers.objects.nesting import cut

#: By kind: where the API server has the objects, and the plural of their name.
_ROOTS: Final = {
    "Node": ("/api/v1", "nodes"),
    "Namespace": ("/api/v1", "namespaces"),
    "Pod": ("/api/v1", "pods"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Queue": (f"/apis/{API_VERSION}", "queues"),
    "DagJob": (f"/apis/{API_VERSION}", "dagjobs"),
}
#: Media type of a write's answer: metadata instead of the whole object.
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_LINE_LIMIT: Final = 32 << 20
#: Seconds for connecting. A longer wait would not help either: the next try may meet another address.
_CONNECT_S: Final = 5.0
_RENEW_EARLY_S: Final = 60
_CONNECTIONS: Final = 64
_LOGIN_PAUSE_S = 5.0

PatchKind = Literal["json", "merge", "strategic", "apply"]


class ApiError(Exception):
    """The API server refused. `status` is the HTTP status, 0 without an answer; `reason` its short code."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status, self.reason, self.message = status, reason, message
        super().__init__(f"{reason or status}: {message}")

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (0, 429) or self.status >= 500


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: somebody else changed the object."""


class AlreadyExists(Conflict):
    """409: an object of this name is there."""


class Invalid(ApiError):
    """422: the object, or the patch's `test`, was refused."""


class Forbidden(ApiError):
    """403."""


class Unreachable(ApiError):
    """No answer: connection refused, reset, or timed out."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


_ERRORS: Final[dict[int, type[ApiError]]] = {403: Forbidden, 404: NotFound, 409: Conflict, 422: Invalid}


class Client:
    """One per process; an async context manager, with a login on entry. `timeout_s` limits every call but a watch.

    A login is repeated before its credentials end, and when the API server refuses them (401).
    """

    def __init__(self, access: Access | Login, *, timeout_s: float = 30) -> None:
        self._login: Login | None = access if isinstance(access, Login) else None
        self._access: Access | None = None if isinstance(access, Login) else access
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S)
        self._session: aiohttp.ClientSession | None = None
        self._former: aiohttp.ClientSession | None = None
        self._logging_in = asyncio.Lock()
        self._renewal: asyncio.Task[Access] | None = None
        self._renew_at, self._not_before, self._trouble = math.inf, 0.0, ""

    @classmethod
    def find(cls, kubeconfig: str | None, **settings: Any) -> Client:
        """By the kubeconfig if given, else by KUBECONFIG, else as the pod's ServiceAccount."""
        return cls(Login(kubeconfig=kubeconfig), **settings)

    async def __aenter__(self) -> Self:
        """Raises InvalidKubeconfig."""
        await self._logged_in()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, path: str, **params: str) -> Any:
        """Parsed JSON. Raises ApiError."""
        content = await self.get_raw(path, **params)
        try:
            return msgspec.json.decode(content)
        except RecursionError:  # a tenant's object, among others in a list
            return msgspec.json.decode(cut(content))

    async def get_raw(self, path: str, **params: str) -> bytes:
        """As `get`, not parsed."""
        return await self._call("GET", path, params=params)

    async def create(self, path: str, body: Any, **params: str) -> Any:
        """POST to a collection. Raises ApiError."""
        return msgspec.json.decode(await self._call("POST", path, body, params=params))

    async def replace(self, path: str, body: Any, **params: str) -> Any:
        """PUT an object. Raises ApiError."""
        return msgspec.json.decode(await self._call("PUT", path, body, params=params))

    async def patch(
        self, path: str, body: Any, *, kind: PatchKind, field_manager: str | None = None, force: bool = False
    ) -> bytes:
        """PATCH an object; only its metadata come back, because nobody looks at the answer. Raises ApiError."""
        params = {"fieldManager": field_manager} if field_manager else {}
        if force:
            params["force"] = "true"
        return await self._call("PATCH", path, body, params=params, content_type=_TYPES[kind], accept=_METADATA)

    async def delete(self, path: str, body: Any = None, **params: str) -> Any:
        """DELETE an object. Raises ApiError."""
        return msgspec.json.decode(await self._call("DELETE", path, body, params=params))

    async def watch(self, path: str, *, read_timeout_s: float, **params: str) -> AsyncIterator[bytes]:
        """Lines of a watch as they come, until the server ends the watch; an empty line first, as soon as open.

        A server silent for `read_timeout_s` (without even a bookmark) counts as gone. Raises ApiError.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=read_timeout_s)
        query = {**params, "watch": "true", "allowWatchBookmarks": "true"}
        try:
            async with self._answer("GET", path, params=query, timeout=timeout) as answer:
                if answer.status != 200:
                    raise _error(answer.status, await answer.read())
                yield b""
                async for line in _lines(answer.content):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"the watch of {path} broke: {error or type(error).__name__}") from None

    async def close(self) -> None:
        """Close all connections."""
        if self._renewal is not None:
            self._renewal.cancel()
        for _ in ("current", "former"):
            await self._replace_session()

    async def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str],
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        headers, data = {"Accept": accept}, None
        if body is not None:
            data, headers["Content-Type"] = msgspec.json.encode(body), content_type
        try:
            async with self._answer(method, path, data=data, params=params, headers=headers) as answer:
                content = await answer.read()
                if answer.status >= 300:
                    raise _error(answer.status, content)
                return content
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from None

    @contextlib.asynccontextmanager
    async def _answer(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to one request; asked once more after a 401 with newer credentials by now.

        Raises Unreachable for a 401 after a failed login, ValueError for an unusable token file.
        """
        access, is_last = await self._logged_in(), False
        while True:
            async with self._open().request(
                method,
                self._url(path),
                headers={**(headers or {}), **access.headers()},
                server_hostname=access.server_name,
                allow_redirects=False,
                **options,
            ) as answer:
                newer = await self._renewed(access) if answer.status == 401 and not is_last else access
                if newer is access:
                    if answer.status == 401 and self._trouble:
                        raise Unreachable(f"{method} {path}: {self._trouble}")
                    yield answer
                    return
            access, is_last = newer, True

    def _url(self, path: str) -> str:
        assert self._access is not None
        return self._access.url + path

    def _open(self) -> aiohttp.ClientSession:
        access = self._access
        if self._session is None:
            assert access is not None
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=access.tls() or True)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=self._timeout, trust_env=False, read_bufsize=1 << 20, proxy=access.proxy
            )
        return self._session

    async def _replace_session(self) -> None:
        """Use new connections from now on. Requests under way finish on the present ones; earlier ones are closed."""
        closing, self._former, self._session = self._former, self._session, None
        if closing is not None:
            await closing.close()

    # -- credentials ----------------------------------------------------------------------------

    async def _logged_in(self) -> Access:
        """Nobody waits for a renewal before the credentials have ended. Raises InvalidKubeconfig at the first login."""
        if self._access is None:
            return await self._renewed(None)
        if time.time() >= self._renew_at and not self._logging_in.locked():
            self._renew_at = time.time() + _LOGIN_PAUSE_S
            self._renewal = asyncio.create_task(self._renewed(self._access))
        return self._access

    async def _renewed(self, old: Access | None) -> Access:
        """The successor of `old`, or `old` itself if there is nothing newer.

        One caller logs in for all, and not at once after another, whose login may have failed or been in vain.
        """
        async with self._logging_in:
            if self._login is not None and self._access is old and time.monotonic() >= self._not_before:
                try:
                    await self._take(await self._login())
                except InvalidKubeconfig as error:
                    if old is None:
                        raise
                    self._trouble = str(error)
                self._not_before = time.monotonic() + _LOGIN_PAUSE_S
        assert self._access is not None
        return self._access

    async def _take(self, access: Access) -> None:
        old, self._access, self._trouble = self._access, access, ""
        left = access.expires - time.time() if access.expires is not None else math.inf
        self._renew_at = time.time() + max(_LOGIN_PAUSE_S, left - _RENEW_EARLY_S, left * 0.8)
        if old is not None and not access.is_reached_as(old):
            await self._replace_session()  # a connection speaks for the certificate that it began with


def path_of(kind: str, key: str) -> str:
    """Path of the object `namespace/name` (or `name`) of a kind; the collection's for `namespace/`."""
    root, plural = _ROOTS[kind]
    namespace, slash, name = key.rpartition("/")
    return (f"{root}/namespaces/{namespace}/{plural}/{name}" if slash else f"{root}/{plural}/{name}").rstrip("/")


def wall_ms() -> int:
    """The wall clock, ms since the epoch."""
    return time.time_ns() // 1_000_000


def stamp(ms: int | None = None) -> str:
    """A time (ms since the epoch; now by default) as the API server writes it."""
    return datetime.fromtimestamp((wall_ms() if ms is None else ms) // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines, however long (a line of aiohttp's own reader is limited to its buffer)."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > _LINE_LIMIT:
            raise ValueError(f"a line of more than {_LINE_LIMIT} bytes")
    if rest:
        yield rest


def _error(status: int, content: bytes) -> ApiError:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        told = msgspec.json.decode(content)
        if isinstance(told, dict) and ("reason" in told or "message" in told):
            return error_of(told, status)
    return _ERRORS.get(status, ApiError)(status, "", content[:300].decode(errors="replace"))


def error_of(status: Any, code: int = 0) -> ApiError:
    """The error told by a `Status` object."""
    told = status if isinstance(status, dict) else {}
    code = said if isinstance(said := told.get("code"), int) else code
    reason, message = str(told.get("reason", "")), str(told.get("message", ""))
    kind = AlreadyExists if reason == "AlreadyExists" else _ERRORS.get(code, ApiError)
    return kind(code, reason, message)
