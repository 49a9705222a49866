"""A small client of the API server: plain paths, JSON, list, watch and patch, over one aiohttp session.

Retrying is the callers' business, because only they know what a repetition means.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import aiohttp
import msgspec
import yaml

_TYPES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LINE_LIMIT: Final = 32 << 20

PatchKind = Literal["json", "merge", "strategic", "apply"]


class ApiError(Exception):
    """The API server refused. status: HTTP status, 0 when there was no answer. reason: its short code."""

    def __init__(self, status: int, reason: str, message: str, details: Any = None) -> None:
        self.status, self.reason, self.message, self.details = status, reason, message, details
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


class Gone(ApiError):
    """410: the resource version is too old."""


class Invalid(ApiError):
    """422: the object, or the patch's `test`, was refused."""


class Forbidden(ApiError):
    """403."""


class Unreachable(ApiError):
    """No answer: connection refused, reset, or timed out."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class InvalidKubeconfig(Exception):
    """The kubeconfig, or the ServiceAccount's directory, cannot be used; the message says what to do."""


_ERRORS: Final[dict[int, type[ApiError]]] = {403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 422: Invalid}


class Access(msgspec.Struct, kw_only=True):
    """How to reach the API server and who we are. token_file is read again before it can have expired."""

    url: str
    tls: ssl.SSLContext | None = None
    token: str = ""
    token_file: Path | None = None
    namespace: str = "default"

    def headers(self) -> dict[str, str]:
        """Authorization, if we are a token.

        Raises Unreachable while the token file cannot be used: the kubelet may be about to write it anew.
        """
        token = self.token
        if self.token_file is not None:
            try:
                token = self.token_file.read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise Unreachable(f"the token file {self.token_file} cannot be read: {error}") from None
            if not token.isprintable() or not token or " " in token:
                raise Unreachable(f"the token file {self.token_file} holds no token (one word of text)")
        return {"Authorization": f"Bearer {token}"} if token else {}


class Client:
    """One per process; an async context manager. timeout_s: of every call but a watch."""

    def __init__(self, access: Access, *, connections: int = 64, timeout_s: float = 30) -> None:
        self.access = access
        self._connections, self._timeout = connections, aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_kubeconfig(cls, path: Path | str, *, context: str | None = None, **settings: Any) -> Client:
        """Raises InvalidKubeconfig."""
        return cls(read_kubeconfig(Path(path), context), **settings)

    @classmethod
    def in_cluster(cls, **settings: Any) -> Client:
        """As the pod's ServiceAccount. Raises InvalidKubeconfig outside a pod."""
        return cls(in_cluster(), **settings)

    @classmethod
    def find(cls, kubeconfig: str | None, **settings: Any) -> Client:
        """The kubeconfig if one is given, else the pod's ServiceAccount. Raises InvalidKubeconfig."""
        return cls.from_kubeconfig(kubeconfig, **settings) if kubeconfig else cls.in_cluster(**settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, path: str, **params: str) -> Any:
        """Parsed JSON. Raises ApiError."""
        return msgspec.json.decode(await self.get_raw(path, **params))

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
        """PATCH an object; the answer is not parsed, because few look at it. Raises ApiError."""
        params = {"fieldManager": field_manager} if field_manager else {}
        if force:
            params["force"] = "true"
        return await self._call("PATCH", path, body, params=params, content_type=_TYPES[kind])

    async def delete(self, path: str, body: Any = None, **params: str) -> Any:
        """DELETE an object. Raises ApiError."""
        return msgspec.json.decode(await self._call("DELETE", path, body, params=params))

    async def watch(self, path: str, *, read_timeout_s: float, **params: str) -> AsyncIterator[bytes]:
        """Lines of a watch as they come, until the server ends it. Raises ApiError.

        read_timeout_s: a server that says nothing for so long (not even a bookmark) counts as gone.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=read_timeout_s)
        query = {**params, "watch": "true", "allowWatchBookmarks": "true"}
        try:
            async with self._open().get(
                self._url(path), params=query, headers=self.access.headers(), timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    raise _error(answer.status, await answer.read())
                async for line in _lines(answer.content):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"the watch of {path} broke: {error or type(error).__name__}") from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self._connections, ssl=self.access.tls or True)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=self._timeout, trust_env=False, read_bufsize=1 << 20
            )
        return self._session

    def _url(self, path: str) -> str:
        return self.access.url + path

    async def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str],
        content_type: str = "application/json",
    ) -> bytes:
        headers = self.access.headers()
        data = None
        if body is not None:
            data, headers["Content-Type"] = msgspec.json.encode(body), content_type
        try:
            async with self._open().request(
                method, self._url(path), data=data, params=params, headers=headers, allow_redirects=False
            ) as answer:
                content = await answer.read()
                if answer.status >= 300:
                    raise _error(answer.status, content)
                return content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from None


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
    """The error that a `Status` object tells of."""
    told = status if isinstance(status, dict) else {}
    code = found if isinstance(found := told.get("code"), int) else code
    reason, message = str(told.get("reason", "")), str(told.get("message", ""))
    kind = AlreadyExists if reason == "AlreadyExists" else _ERRORS.get(code, ApiError)
    return kind(code, reason, message, told.get("details"))


# -- who we are ---------------------------------------------------------------------------------


def in_cluster() -> Access:
    """The pod's ServiceAccount; RM_SERVICEACCOUNT_DIR overrides where its files are. Raises InvalidKubeconfig."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    directory = Path(os.environ.get("RM_SERVICEACCOUNT_DIR", _SERVICE_ACCOUNT))
    if not host or not (directory / "token").exists():
        raise InvalidKubeconfig("not in a pod, and no kubeconfig is named: set `kubeconfig` in the configuration file")
    host = f"[{host}]" if ":" in host else host
    authority, space = directory / "ca.crt", directory / "namespace"
    try:
        tls = ssl.create_default_context(cafile=str(authority))
        namespace = space.read_text().strip() if space.exists() else "default"
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise InvalidKubeconfig(f"{directory}: ca.crt (PEM) or namespace cannot be read: {error}") from None
    return Access(url=f"https://{host}:{port}", tls=tls, token_file=directory / "token", namespace=namespace)


def read_kubeconfig(path: Path, context: str | None = None) -> Access:
    """One context of a kubeconfig. Raises InvalidKubeconfig with what is wrong and where."""
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidKubeconfig(f"{path}: cannot be read as a kubeconfig: {error}") from None
    if not isinstance(config, dict):
        raise InvalidKubeconfig(f"{path}: not a kubeconfig (no mapping)")
    name = context or config.get("current-context")
    if not name:
        raise InvalidKubeconfig(f"{path}: no current-context is set, and none is named")
    chosen = _named(path, config, "context", name)
    cluster = _named(path, config, "cluster", chosen.get("cluster"))
    user = _named(path, config, "user", chosen["user"]) if chosen.get("user") else {}
    if "exec" in user or "auth-provider" in user:
        raise InvalidKubeconfig(
            f"{path}: user '{chosen.get('user')}' logs in by a program, which is not supported: "
            "use a ServiceAccount's token (kubectl create token NAME)"
        )
    url = str(cluster.get("server", ""))
    if not url.startswith(("https://", "http://")):
        raise InvalidKubeconfig(
            f"{path}: cluster '{chosen.get('cluster')}': server is '{url}' (an address such as https://host:6443)"
        )
    return Access(
        url=url.rstrip("/"),
        tls=_tls(path, cluster, user) if url.startswith("https:") else None,
        token=str(user.get("token") or ""),
        token_file=_token_file(path, user.get("tokenFile")),
        namespace=str(chosen.get("namespace") or "default"),
    )


def _named(path: Path, config: Mapping[str, Any], kind: str, name: Any) -> dict[str, Any]:
    """What the entry `name` of the list `kind`s holds under `kind`."""
    there = config.get(f"{kind}s") or []
    entries = [entry for entry in there if isinstance(entry, dict)] if isinstance(there, list) else []
    found = next((entry for entry in entries if entry.get("name") == name), None)
    if found is None:
        known = ", ".join(str(entry.get("name")) for entry in entries) or "none"
        raise InvalidKubeconfig(f"{path}: no entry '{name}' among {kind}s (there are: {known})")
    content = found.get(kind)
    if not isinstance(content, dict):
        raise InvalidKubeconfig(f"{path}: entry '{name}' of {kind}s has no mapping called '{kind}'")
    return content


def _token_file(path: Path, name: Any) -> Path | None:
    if not name:
        return None
    file = path.parent / str(name)
    if not file.is_file():
        raise InvalidKubeconfig(f"{path}: tokenFile: there is no file {file}")
    return file


def _tls(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _content(path, cluster, "certificate-authority")
    try:
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidKubeconfig(f"{path}: certificate-authority holds no PEM certificate: {error}") from None
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _content(path, user, "client-certificate"), _content(path, user, "client-key")
    if certificate is not None or key is not None:
        _present(path, tls, certificate, key)
    return tls


def _present(path: Path, tls: ssl.SSLContext, certificate: bytes | None, key: bytes | None) -> None:
    if not certificate or not key:
        raise InvalidKubeconfig(f"{path}: client-certificate and client-key are both needed, or neither")
    with tempfile.TemporaryDirectory() as directory:  # ssl reads files only
        pair = Path(directory) / "pair.pem"
        pair.touch(0o600)
        pair.write_bytes(certificate + b"\n" + key)
        try:
            tls.load_cert_chain(str(pair), password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidKubeconfig(f"{path}: client-certificate and client-key are no PEM pair: {error}") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _content(path: Path, entry: Mapping[str, Any], name: str) -> bytes | None:
    """`name-data` inline, or the file that `name` names."""
    inline, file = entry.get(f"{name}-data"), entry.get(name)
    try:
        if inline:
            return base64.b64decode(str(inline), validate=True)
        return (path.parent / str(file)).read_bytes() if file else None
    except (OSError, ValueError) as error:
        raise InvalidKubeconfig(f"{path}: {name}: {error}") from None
