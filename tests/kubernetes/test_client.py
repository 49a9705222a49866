"""The client of the API server: who it says it is, what it makes of answers, and of none."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from operators.client import (
    Access,
    AlreadyExists,
    ApiError,
    Client,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    InvalidKubeconfig,
    NotFound,
    Unreachable,
    in_cluster,
    read_kubeconfig,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, **access: Any) -> AsyncIterator[Client]:
    """A client of a server on loopback that answers everything with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        async with Client(Access(url=f"http://127.0.0.1:{port}", **access), timeout_s=5) as client:
            yield client
    finally:
        await runner.cleanup()


def answering(status: int, body: Any) -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    return handler


# -- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
    ],
)
def test_a_refusal_is_an_error_of_its_kind(code: int, reason: str, kind: type[ApiError]) -> None:
    async def ask() -> None:
        told = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
        async with serving(answering(code, told)) as client:
            with pytest.raises(kind, match=f"{reason}: no") as refused:
                await client.get("/api/v1/pods")
            assert (type(refused.value), refused.value.is_transient) == (kind, False)

    asyncio.run(ask())


@pytest.mark.parametrize("body", [[], {"error": "teapot"}, "text", {"reason": None, "code": "x"}])
def test_a_refusal_in_any_words_keeps_its_status(body: Any) -> None:
    async def ask() -> None:
        async with serving(answering(503, body)) as client:
            with pytest.raises(ApiError) as refused:
                await client.get("/api/v1/pods")
            assert (refused.value.status, refused.value.is_transient) == (503, True)

    asyncio.run(ask())


def test_a_redirection_is_not_followed_with_our_token() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async def ask() -> None:
        async with serving(handler, token="secret") as client:
            with pytest.raises(ApiError):
                await client.get("/api/v1/pods")
        assert asked == ["/api/v1/pods"]

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("json", "application/json-patch+json"),
        ("merge", "application/merge-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
def test_a_patch_says_which_kind_it_is(kind: Any, content_type: str) -> None:
    seen: list[tuple[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.content_type, request.query_string))
        return web.json_response({})

    async def ask() -> None:
        async with serving(handler) as client:
            await client.patch("/api/v1/x", {"a": 1}, kind=kind, field_manager="rm", force=True)
        assert seen == [(content_type, "fieldManager=rm&force=true")]

    asyncio.run(ask())


def test_nobody_there_is_unreachable() -> None:
    async def ask() -> None:
        async with Client(Access(url="http://127.0.0.1:9")) as client:
            with pytest.raises(Unreachable, match="GET /api/v1/pods"):
                await client.get("/api/v1/pods")

    asyncio.run(ask())


def test_a_line_of_a_watch_may_be_longer_than_any_buffer() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"a" * 3_000_000 + b"\nshort\n")
        return answer

    async def ask() -> list[int]:
        async with serving(handler) as client:
            return [len(line) async for line in client.watch("/api/v1/pods", read_timeout_s=5)]

    assert asyncio.run(ask()) == [3_000_000, 5]


# -- tokens -------------------------------------------------------------------------------------


def test_a_token_file_is_read_again_for_each_call(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({})

    async def ask() -> None:
        file = tmp_path / "token"
        async with serving(handler, token_file=file) as client:
            for token in ("first", "second\n"):
                file.write_text(token)
                await client.get("/api")

    asyncio.run(ask())
    assert seen == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"two\nlines", b"two words"])
def test_a_token_file_that_cannot_be_used_is_like_no_answer(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    async def ask() -> None:
        async with serving(answering(200, {}), token_file=file) as client:
            with pytest.raises(Unreachable, match="token"):
                await client.get("/api")
            with pytest.raises(Unreachable, match="token"):
                await anext(client.watch("/api", read_timeout_s=1))

    asyncio.run(ask())


# -- kubeconfig ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def data(content: bytes) -> str:
    return base64.b64encode(content).decode()


def kubeconfig(
    path: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **rest: Any
) -> Path:
    file = path / "kubeconfig"
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://localhost:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
    }
    file.write_text(yaml.safe_dump(content | rest))
    return file


def test_a_kubeconfig_with_inline_certificates(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    certificate, key = pair
    user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}
    access = read_kubeconfig(kubeconfig(tmp_path, {"certificate-authority-data": data(certificate)}, user))
    assert (access.url, access.namespace) == ("https://localhost:6443", "team")
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_REQUIRED


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path, pair: tuple[bytes, bytes]) -> None:
    for name, content in (("ca.crt", pair[0]), ("me.crt", pair[0]), ("me.key", pair[1]), ("token", b"abc")):
        (tmp_path / name).write_bytes(content)
    user = {"client-certificate": "me.crt", "client-key": "me.key", "tokenFile": "token"}
    access = read_kubeconfig(kubeconfig(tmp_path, {"certificate-authority": "ca.crt"}, user))
    assert access.headers() == {"Authorization": "Bearer abc"}


def test_a_context_without_user_is_anonymous(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, contexts=[{"name": "here", "context": {"cluster": "c"}}])
    assert read_kubeconfig(file).headers() == {}


BAD = data(b"no pem")


@pytest.mark.parametrize(
    ("cluster", "user", "rest", "said"),
    [
        ({"server": None}, {}, {}, "cluster 'c': server is 'None'"),
        ({"server": "localhost:6443"}, {}, {}, "cluster 'c': server is 'localhost:6443'"),
        ({"certificate-authority-data": BAD}, {}, {}, "certificate-authority holds no PEM certificate"),
        ({"certificate-authority-data": "%%%"}, {}, {}, "certificate-authority: "),
        ({"certificate-authority": "nowhere.crt"}, {}, {}, "certificate-authority: .*nowhere.crt"),
        ({}, {"client-certificate-data": BAD, "client-key-data": BAD}, {}, "client-certificate and client-key are no"),
        ({}, {"client-certificate-data": BAD}, {}, "are both needed"),
        ({}, {"tokenFile": "nowhere"}, {}, "tokenFile: there is no file"),
        ({}, {"exec": {"command": "aws"}}, {}, "logs in by a program"),
        ({}, {}, {"current-context": ""}, "no current-context is set"),
        ({}, {}, {"current-context": "there"}, r"no entry 'there' among contexts \(there are: here\)"),
        ({}, {}, {"contexts": [{"name": "here"}]}, "entry 'here' of contexts has no mapping called 'context'"),
        ({}, {}, {"contexts": "x"}, "no entry 'here' among contexts"),
        ({}, {}, {"clusters": [None]}, "no entry 'c' among clusters"),
        ({}, {}, {"users": None}, r"no entry 'u' among users \(there are: none\)"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_where(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], rest: dict[str, Any], said: str
) -> None:
    file = kubeconfig(tmp_path, cluster, user, **rest)
    with pytest.raises(InvalidKubeconfig, match=said) as refused:
        read_kubeconfig(file)
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("text", ["- a\n", "a: [", "\x00", ""])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text)
    with pytest.raises(InvalidKubeconfig, match="kubeconfig"):
        read_kubeconfig(tmp_path / "k")


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    key = serialization.load_pem_private_key(pair[1], None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    user = {"client-certificate-data": data(pair[0]), "client-key-data": data(key)}
    with pytest.raises(InvalidKubeconfig, match="the key is encrypted"):
        read_kubeconfig(kubeconfig(tmp_path, {}, user))


# -- in a pod -----------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[bytes, bytes]) -> Path:
    """The directory of a pod's ServiceAccount."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("RM_SERVICEACCOUNT_DIR", str(tmp_path))
    for name, content in (("token", b"abc"), ("ca.crt", pair[0]), ("namespace", b"rm-system\n")):
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.usefixtures("account")
def test_in_a_pod_the_service_account_says_who_we_are() -> None:
    access = in_cluster()
    assert (access.url, access.namespace) == ("https://[fd00::1]:443", "rm-system")
    assert access.headers() == {"Authorization": "Bearer abc"}


@pytest.mark.parametrize("content", [None, b"no pem"])
def test_in_a_pod_without_usable_authority_the_file_is_named(account: Path, content: bytes | None) -> None:
    (account / "ca.crt").unlink()
    if content is not None:
        (account / "ca.crt").write_bytes(content)
    with pytest.raises(InvalidKubeconfig, match=r"ca\.crt"):
        in_cluster()


def test_outside_a_pod_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidKubeconfig, match="set `kubeconfig`"):
        Client.find(None)
