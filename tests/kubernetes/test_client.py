"""The client of the API server: what it makes of answers, and of none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devcluster.pki import Authority
from operators.access import Access, InvalidKubeconfig, Login
from operators.client import (
    AlreadyExists,
    ApiError,
    Client,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unreachable,
)
from tests.kubernetes.kubeconfigs import Plugin, kubeconfig

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
        (410, "Expired", ApiError),
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
        async with serving(handler, authorization="Bearer secret") as client:
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

    assert asyncio.run(ask()) == [0, 3_000_000, 5]


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


# -- logins that end ----------------------------------------------------------------------------


@asynccontextmanager
async def logging_in(plugin: Plugin, good: list[str]) -> AsyncIterator[Client]:
    """A client that logs in by `plugin` to a server that takes the token in `good`."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {good[0]}":
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        return web.json_response({"token": good[0]})

    async with serving(handler) as first:
        access = first._access
        assert access is not None
        file = kubeconfig(plugin.file.parent, {"server": access.url}, plugin.user())
        async with Client(Login(kubeconfig=str(file)), timeout_s=5) as client:
            yield client


@pytest.mark.usefixtures("pauseless")
def test_a_refused_token_is_replaced_by_one_login_for_all_callers(plugin: Plugin) -> None:
    async def ask() -> None:
        plugin.says(token="first")
        good = ["first"]
        async with logging_in(plugin, good) as client:
            assert await client.get("/api") == {"token": "first"}
            plugin.says(token="second")
            good[0] = "second"
            answers = await asyncio.gather(*(client.get("/api") for _ in range(20)))
            assert answers == [{"token": "second"}] * 20
            lines = [line async for line in client.watch("/api", read_timeout_s=5)]
            assert lines == [b"", b'{"token": "second"}']

    asyncio.run(ask())
    assert plugin.calls == 2


@pytest.mark.usefixtures("pauseless")
def test_a_watch_of_a_refused_token_begins_with_a_new_one(plugin: Plugin) -> None:
    async def ask() -> None:
        plugin.says(token="first")
        good = ["second"]
        async with logging_in(plugin, good) as client:
            plugin.says(token="second")
            assert [line async for line in client.watch("/api", read_timeout_s=5)] == [b"", b'{"token": "second"}']

    asyncio.run(ask())


@pytest.mark.usefixtures("pauseless")
def test_a_token_is_renewed_before_it_ends_and_nobody_waits_for_it(plugin: Plugin) -> None:
    async def ask() -> None:
        plugin.says(token="first", expirationTimestamp=datetime.now(UTC).isoformat())
        good = ["first"]
        async with logging_in(plugin, good) as client:
            plugin.says(token="second")
            assert await client.get("/api") == {"token": "first"}
            assert client._renewal is not None
            await client._renewal
            good[0] = "second"
            assert await client.get("/api") == {"token": "second"}

    asyncio.run(ask())
    assert plugin.calls == 2


@pytest.mark.usefixtures("pauseless")
def test_a_renewal_that_fails_is_told_and_tried_again(plugin: Plugin) -> None:
    async def ask() -> None:
        plugin.says(token="first")
        good = ["first"]
        async with logging_in(plugin, good) as client:
            good[0] = "second"
            plugin.prints("rubbish")
            with pytest.raises(Unreachable, match=r"GET /api: .*exec plug-in.*failed to decode"):
                await client.get("/api")
            plugin.says(token="second")
            assert await client.get("/api") == {"token": "second"}

    asyncio.run(ask())


def test_after_a_login_in_vain_comes_a_pause(plugin: Plugin) -> None:
    async def ask() -> None:
        plugin.says(token="never good")
        async with logging_in(plugin, ["good"]) as client:
            for _ in range(3):
                with pytest.raises(ApiError) as refused:
                    await client.get("/api")
                assert refused.value.status == 401

    asyncio.run(ask())
    assert plugin.calls == 1


def test_a_client_that_cannot_log_in_does_not_begin(plugin: Plugin) -> None:
    async def ask() -> None:
        plugin.prints("rubbish")
        with pytest.raises(InvalidKubeconfig, match="failed to decode"):
            async with logging_in(plugin, ["good"]):
                raise AssertionError

    asyncio.run(ask())


@pytest.mark.usefixtures("pauseless")
def test_a_new_certificate_gets_new_connections_and_the_old_ones_finish(plugin: Plugin, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")

    def says(name: str) -> None:
        certificate, key = authority.issue(name, name)
        plugin.says(clientCertificateData=certificate.read_text(), clientKeyData=key.read_text())

    good, began, answering = ["first"], asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        name = request.transport.get_extra_info("peercert")["subject"][-1][0][1]
        if "slow" in request.query:
            began.set()
            await answering.wait()
        elif name != good[0]:
            return web.json_response({}, status=401)
        return web.json_response({"name": name})

    async def ask() -> None:
        app = web.Application()
        app.router.add_get("/api", handler)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.ca)
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_cert_chain(*authority.issue("server", "server", hosts=("127.0.0.1",)))
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        cluster = {"server": f"https://127.0.0.1:{runner.addresses[0][1]}", "certificate-authority": str(authority.ca)}
        async with Client(Login(kubeconfig=str(kubeconfig(tmp_path, cluster, plugin.user())))) as client:
            slow = asyncio.ensure_future(client.get("/api", slow=""))
            await began.wait()
            says("second")
            good[0] = "second"
            assert await client.get("/api") == {"name": "second"}
            answering.set()
            assert await slow == {"name": "first"}
        await runner.cleanup()

    says("first")
    asyncio.run(ask())
