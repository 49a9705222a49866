"""The ports as others meet them, over real sockets: who gets in, what happens when certificates change, draining."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from operators import metrics
from operators.config import InvalidConfig, Millis
from operators.extender.app import Extender
from operators.extender.config import BrainConfig
from operators.serving import server
from operators.serving.ports import ExtenderPort, ManagementPort, Tls
from operators.serving.server import _listen, management, serve, serve_management
from tests.kubernetes.calls import POD, Authority, Recorder

ASKED = {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}


def config(tls: Tls | None) -> BrainConfig:
    return BrainConfig(
        policy={"kind": "fifo"},
        extender=ExtenderPort(port=0, tls=tls),
        management=ManagementPort(address="127.0.0.1", port=0),
    )


class Site:
    """A served extender with its authority and brain."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ca, self.brain = folder, Authority(folder), Recorder()
        self.certificate, self.key = self.ca.issue("server", "extender", server=True)
        self.verbs = self.management = 0
        self.budget_s = 4.0

    def tls(self, **changes: Any) -> Tls:
        files = {"cert_file": self.certificate, "key_file": self.key, "client_ca_file": self.ca.file}
        return Tls(**{**{k: str(v) for k, v in files.items()}, "reload_every": Millis(20), **changes})

    @contextlib.asynccontextmanager
    async def served(self, **changes: Any) -> AsyncIterator[asyncio.Task[None]]:
        open_ = asyncio.Event()

        def listening(verbs: int, management: int) -> None:
            self.verbs, self.management = verbs, management
            open_.set()

        app = Extender(self.brain, budget_s=self.budget_s).app()
        settings = config(self.tls(**changes))
        probes = management(self.brain.not_ready)
        task = asyncio.ensure_future(serve(app, settings.extender, probes, settings.management, listening=listening))
        await asyncio.wait([task, asyncio.ensure_future(open_.wait())], return_when=asyncio.FIRST_COMPLETED)
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def client(self, pair: tuple[Path, Path] | None, *, trusts: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(trusts or self.ca.file))
        if pair is not None:
            context.load_cert_chain(*pair)
        return context

    async def ask(self, context: ssl.SSLContext) -> tuple[int, bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"https://127.0.0.1:{self.verbs}/v1/filter", json=ASKED, ssl=context) as reply,
        ):
            return reply.status, await reply.read()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(work(), 30)

    return asyncio.run(limited())


def asked_by(site: Site, pair: tuple[Path, Path] | None, **changes: Any) -> tuple[int, bytes]:
    async def work() -> tuple[int, bytes]:
        async with site.served(**changes):
            return await site.ask(site.client(pair))

    answer: tuple[int, bytes] = run(work)
    return answer


def test_the_scheduler_gets_an_answer(site: Site) -> None:
    status, body = asked_by(site, site.ca.issue("scheduler", "system:kube-scheduler"))
    assert (status, msgspec.json.decode(body)["NodeNames"]) == (200, ["a"])


def test_a_client_without_certificate_gets_no_answer(site: Site) -> None:
    with pytest.raises(aiohttp.ClientError):
        asked_by(site, None)
    assert site.brain.calls == []


def test_a_client_of_another_authority_gets_no_answer(site: Site, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other-ca")
    with pytest.raises(aiohttp.ClientError):
        asked_by(site, other.issue("scheduler", "system:kube-scheduler"))
    assert site.brain.calls == []


def test_a_clients_expired_certificate_gets_no_answer(site: Site) -> None:
    with pytest.raises(aiohttp.ClientError):
        asked_by(site, site.ca.issue("scheduler", "system:kube-scheduler", days=-1))
    assert site.brain.calls == []


def test_a_servers_certificate_does_not_make_a_client(site: Site) -> None:
    with pytest.raises(aiohttp.ClientError):
        asked_by(site, site.ca.issue("fake", "system:kube-scheduler", server=True))
    assert site.brain.calls == []


def test_a_client_of_another_name_is_told_so(site: Site) -> None:
    status, body = asked_by(site, site.ca.issue("kubelet", "system:node:n1"))
    assert (status, b"system:node:n1 may not call here" in body) == (403, True)
    assert site.brain.calls == []


def test_a_client_may_be_named_by_an_alternative_name(site: Site) -> None:
    pair = site.ca.issue("client", "", alternative=["scheduler.rm-system.svc"])
    assert asked_by(site, pair, client_names=("scheduler.rm-system.svc",))[0] == 200


def test_tls_below_1_2_is_refused(site: Site) -> None:
    async def work() -> None:
        context = site.client(site.ca.issue("scheduler", "system:kube-scheduler"))
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("DEFAULT@SECLEVEL=0")  # or the client itself would refuse
        async with site.served():
            with pytest.raises(aiohttp.ClientError):
                await site.ask(context)

    with pytest.warns(DeprecationWarning, match="TLS"):
        run(work)


async def shown(site: Site, context: ssl.SSLContext) -> bytes:
    """The certificate that the server shows to a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", site.verbs, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return bytes(certificate)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.02)


def test_a_new_certificate_is_used_without_a_restart(site: Site) -> None:
    async def work() -> None:
        context = site.client(site.ca.issue("scheduler", "system:kube-scheduler"))
        async with site.served():
            before = await shown(site, context)
            site.ca.issue("server", "extender", server=True)

            async def changed() -> bool:
                return await shown(site, context) != before

            await until(changed)
            assert (await site.ask(context))[0] == 200

    run(work)


def mounted(folder: Path, pair: tuple[Path, Path], ca: Path) -> dict[str, str]:
    """A Secret as the kubelet mounts it: files are links through `..data`, which is renamed over for each version."""
    keys, names = ("cert_file", "key_file", "client_ca_file"), ("tls.crt", "tls.key", "ca.crt")
    folder.mkdir(exist_ok=True)
    version = folder / f"..{len(list(folder.glob('..[0-9]*')))}"
    version.mkdir()
    for file, name in zip((*pair, ca), names, strict=True):
        (version / name).write_bytes(file.read_bytes())
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data_tmp").symlink_to(version.name)
    (folder / "..data_tmp").rename(folder / "..data")
    return {key: str(folder / name) for key, name in zip(keys, names, strict=True)}


def test_no_call_is_refused_while_certificates_are_renewed(site: Site, tmp_path: Path) -> None:
    """As cert-manager renews them, by the same authority: calls on new connections, and on one that stays."""
    mount, refused = tmp_path / "mount", reloads("refused")
    files = mounted(mount, (site.certificate, site.key), site.ca.file)
    answers: list[int] = []

    async def calls(context: ssl.SSLContext, connector: aiohttp.TCPConnector) -> None:
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                async with session.post(f"https://127.0.0.1:{site.verbs}/v1/filter", json=ASKED, ssl=context) as reply:
                    answers.append(reply.status)
                    await reply.read()

    async def work() -> None:
        old = site.client(site.ca.issue("scheduler", "system:kube-scheduler"))
        async with site.served(**files):
            calling = [
                asyncio.ensure_future(calls(old, aiohttp.TCPConnector(force_close=True))),
                asyncio.ensure_future(calls(old, aiohttp.TCPConnector(limit=1))),
            ]
            for number in range(10):
                before = await shown(site, old)
                mounted(mount, site.ca.issue(f"server{number}", "extender", server=True), site.ca.file)

                async def changed(seen: bytes = before) -> bool:
                    return await shown(site, old) != seen

                await until(changed)
            assert (await site.ask(site.client(site.ca.issue("renewed", "system:kube-scheduler"))))[0] == 200
            assert not any(call.done() for call in calling)
            for call in calling:
                call.cancel()
            await asyncio.gather(*calling, return_exceptions=True)

    run(work)
    assert set(answers) == {200}
    assert reloads("refused") == refused


def reloads(outcome: str) -> float:
    return metrics.REGISTRY.get_sample_value("rm_certificate_reloads_total", {"outcome": outcome}) or 0.0


@pytest.mark.parametrize("damage", ["garbage", "no pair", "gone", "expired"])
def test_new_files_that_cannot_be_used_leave_the_old_ones(site: Site, damage: str) -> None:
    async def work() -> None:
        context = site.client(site.ca.issue("scheduler", "system:kube-scheduler"))
        async with site.served():
            before, refused = await shown(site, context), reloads("refused")
            if damage == "garbage":
                site.certificate.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
            elif damage == "no pair":
                other, _ = site.ca.issue("other", "extender", server=True)
                site.certificate.write_bytes(other.read_bytes())
            elif damage == "gone":
                site.certificate.unlink()
            else:
                site.ca.issue("server", "extender", server=True, days=-1)

            async def counted() -> bool:
                return reloads("refused") > refused

            await until(counted)
            assert await shown(site, context) == before
            assert (await site.ask(context))[0] == 200

    run(work)


def test_an_authority_that_is_replaced_no_longer_lets_its_clients_in(site: Site, tmp_path: Path) -> None:
    (tmp_path / "next").mkdir()
    after = Authority(tmp_path / "next", "next-ca")
    clients = tmp_path / "clients.crt"
    clients.write_bytes(site.ca.file.read_bytes())

    async def work() -> None:
        old = site.client(site.ca.issue("old", "system:kube-scheduler"))
        new = site.client(after.issue("new", "system:kube-scheduler"))
        async with site.served(client_ca_file=str(clients)):
            assert (await site.ask(old))[0] == 200
            done = reloads("ok")
            clients.write_bytes(after.file.read_bytes())

            async def counted() -> bool:
                return reloads("ok") > done

            await until(counted)
            assert (await site.ask(new))[0] == 200
            with pytest.raises(aiohttp.ClientError):
                await site.ask(old)

    run(work)


async def serve_with(site: Site, tls: Tls) -> None:
    settings = config(tls)
    app = Extender(site.brain, budget_s=4).app()
    await serve(app, settings.extender, management(lambda: None), settings.management)


def test_an_expired_certificate_is_refused_at_the_start(site: Site) -> None:
    site.ca.issue("server", "extender", server=True, days=-1)
    with pytest.raises(InvalidConfig, match=r"server\.crt has expired at 2"):
        run(lambda: serve_with(site, site.tls()))


def test_a_certificate_and_another_ones_key_are_refused_at_the_start(site: Site) -> None:
    _, key = site.ca.issue("other", "extender", server=True)
    with pytest.raises(InvalidConfig, match=r"server\.crt and .*other\.key are no pair"):
        run(lambda: serve_with(site, site.tls(key_file=str(key))))


def test_the_expiry_is_a_metric(site: Site) -> None:
    site.ca.issue("server", "extender", server=True, days=3)

    async def work() -> float:
        async with (
            site.served(),
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{site.management}/metrics") as reply,
        ):
            line = next(x for x in (await reply.text()).splitlines() if x.startswith("rm_certificate_expiry_seconds "))
            return float(line.split()[1])

    assert run(work) == pytest.approx(3 * 86_400, abs=60)


def test_probes_answer_without_tls(site: Site) -> None:
    site.brain.why_not = "another replica leads"

    async def work() -> list[tuple[int, str]]:
        replies = []
        async with site.served(), aiohttp.ClientSession() as session:
            for path in ("healthz", "readyz"):
                async with session.get(f"http://127.0.0.1:{site.management}/{path}") as reply:
                    replies.append((reply.status, await reply.text()))
        return replies

    assert run(work) == [(200, "ok"), (503, "not ready: another replica leads")]


def test_a_call_in_flight_is_answered_before_the_server_ends(site: Site) -> None:
    """The body's second half comes only after the server was told to stop."""

    async def work() -> bytes:
        context = site.client(site.ca.issue("scheduler", "system:kube-scheduler"))
        body = msgspec.json.encode(ASKED)
        async with site.served() as serving:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.verbs, ssl=context)
            head = f"POST /v1/filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            writer.write(head + body[:10])
            await asyncio.sleep(0.1)
            serving.cancel()
            await asyncio.sleep(0.2)
            assert not serving.done()
            writer.write(body[10:])
            reply = await reader.read()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            writer.close()
            return reply

    assert b'"NodeNames":["a"]' in run(work)


def test_the_budget_begins_with_the_first_byte(site: Site) -> None:
    """A head that dribbles in has used up the budget before the app is called at all."""

    async def work() -> bytes:
        context = site.client(site.ca.issue("scheduler", "system:kube-scheduler"))
        site.budget_s = 0.3
        body = msgspec.json.encode(ASKED)
        async with site.served():
            reader, writer = await asyncio.open_connection("127.0.0.1", site.verbs, ssl=context)
            writer.write(b"POST /v1/filter HTTP/1.1\r\n")
            await asyncio.sleep(0.4)
            writer.write(f"Host: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            reply = await reader.read()
            writer.close()
            return reply

    assert b"budget of 0.3 s was used up" in run(work)
    assert site.brain.calls == []


def cut(why: str) -> float:
    return metrics.REGISTRY.get_sample_value("rm_cut_connections_total", {"why": why}) or 0.0


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """All that is still said; a reset is an end too."""
    with contextlib.suppress(ConnectionResetError):
        return await reader.read()
    return b""


@pytest.mark.parametrize("port", ["verbs", "management"])
@pytest.mark.parametrize(
    "first", [b"", b"POST /v1/filter HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"], ids=["first", "second"]
)
def test_a_head_that_dribbles_in_ends_the_connection(
    site: Site, monkeypatch: pytest.MonkeyPatch, port: str, first: bytes
) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.2)
    before = cut("slow")

    async def work() -> bytes:
        context = site.client(site.ca.issue("scheduler", "system:kube-scheduler")) if port == "verbs" else None
        async with site.served():
            reader, writer = await asyncio.open_connection("127.0.0.1", getattr(site, port), ssl=context)
            if first:
                writer.write(first)
                await reader.readuntil(b"\r\n\r\n")
            writer.write(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            closed = asyncio.ensure_future(until_closed(reader))
            while not closed.done():
                writer.write(b"x")  # it is never silent
                await asyncio.sleep(0.02)
            return closed.result()

    assert b"HTTP/1.1" not in run(work)
    assert cut("slow") == before + 1


def test_a_connection_that_says_nothing_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 0.2)

    async def work() -> bytes:
        async with site.served():
            reader, _ = await asyncio.open_connection("127.0.0.1", site.management)
            return await until_closed(reader)

    assert run(work) == b""


def test_a_head_without_end_ends_the_connection(site: Site) -> None:
    before = cut("large")

    async def work() -> bytes:
        async with site.served():
            reader, writer = await asyncio.open_connection("127.0.0.1", site.management)
            writer.write(b"GET /healthz HTTP/1.1\r\nX-Large: " + 4 * server.HEAD_LIMIT * b"x")
            return await until_closed(reader)

    assert run(work) == b""
    assert cut("large") == before + 1


def test_a_body_may_come_later_than_a_head(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.2)

    async def work() -> bytes:
        body = msgspec.json.encode(ASKED)
        context = site.client(site.ca.issue("scheduler", "system:kube-scheduler"))
        async with site.served():
            reader, writer = await asyncio.open_connection("127.0.0.1", site.verbs, ssl=context)
            head = f"POST /v1/filter HTTP/1.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode())
            await asyncio.sleep(0.5)
            writer.write(body)
            return await reader.read()

    assert b'"NodeNames":["a"]' in run(work)


def test_answers_are_not_held_back_by_nagles_algorithm() -> None:
    """Asyncio switches it off only for sockets that name their protocol; 44 ms a call otherwise."""
    with _listen(ManagementPort(address="127.0.0.1", port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_without_tls_only_a_loopback_address_is_accepted() -> None:
    assert ExtenderPort(address="127.0.0.1", tls=None).tls is None
    with pytest.raises(ValueError, match=r"0\.0\.0\.0.*can be reached from elsewhere"):
        ExtenderPort(address="0.0.0.0", tls=None)


def test_an_address_that_is_taken_is_one_clear_message() -> None:
    async def work() -> None:
        port: list[int] = []
        first = asyncio.ensure_future(
            serve_management(
                management(lambda: None), ManagementPort(address="127.0.0.1", port=0), listening=port.append
            )
        )
        while not port:
            await asyncio.sleep(0.01)
        try:
            with pytest.raises(InvalidConfig, match="cannot be listened on: Address already in use"):
                await serve_management(management(lambda: None), ManagementPort(address="127.0.0.1", port=port[0]))
        finally:
            first.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await first

    run(work)
