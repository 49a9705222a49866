"""`GET /v1/expected` over real sockets: who gets in, and what is answered."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from devcluster.cluster import free_ports
from forecaster.config import ForecasterConfig
from forecaster.process import ForecasterProcess
from operators.client import Client
from operators.serving.ports import ExtenderPort, ManagementPort, Tls
from schedulers.objects.dagjob import ExpectedStatus, ExpectedTimes
from tests.kubernetes.calls import Authority
from tests.kubernetes.store import Store, StoreClient

ANSWERS = {
    "n/pod.12345678": ExpectedStatus(True, "2026-01-01T00:00:00Z", None, ExpectedTimes("a", "b", None)),
    "n/job.12345678": ExpectedStatus(False, "2026-01-01T00:00:00Z"),
}


def asked(folder: Path, name: str | None, *, answers: bool = True) -> tuple[int, str]:
    """Status and text for a client with a certificate of this name."""
    ca = Authority(folder)
    certificate, key = ca.issue("server", "rm-forecaster", server=True)
    tls = Tls(cert_file=str(certificate), key_file=str(key), client_ca_file=str(ca.file), client_names=("portal",))
    (port,) = free_ports(1)
    config = ForecasterConfig(
        answers=ExtenderPort(port=port, tls=tls), management=ManagementPort(address="127.0.0.1", port=0)
    )
    context = ssl.create_default_context(cafile=str(ca.file))
    if name is not None:
        context.load_cert_chain(*ca.issue("client", name))

    async def main() -> tuple[int, str]:
        process = ForecasterProcess(config, cast(Client, StoreClient(Store())), "test")
        process.answers = ANSWERS if answers else None
        running = asyncio.ensure_future(process.run())
        try:
            async with asyncio.timeout(20), aiohttp.ClientSession() as session:
                while True:
                    try:
                        async with session.get(f"https://127.0.0.1:{port}/v1/expected", ssl=context) as reply:
                            return reply.status, await reply.text()
                    except aiohttp.ClientConnectorError:  # not open yet
                        await asyncio.sleep(0.02)
        finally:
            running.cancel()
            await asyncio.wait([running])

    return asyncio.run(main())


def test_a_named_client_reads_the_answers_for_plain_pods_too(tmp_path: Path) -> None:
    assert asked(tmp_path, "portal") == (
        200,
        '{"n/pod.12345678":{"known":true,"asOf":"2026-01-01T00:00:00Z","finish":{"p10":"a","p50":"b"}},'
        '"n/job.12345678":{"known":false,"asOf":"2026-01-01T00:00:00Z"}}',
    )


def test_another_client_is_refused(tmp_path: Path) -> None:
    status, text = asked(tmp_path, "somebody")
    assert (status, text) == (403, "a certificate of somebody may not call here (accepted: portal)")


def test_a_client_without_a_certificate_gets_nothing(tmp_path: Path) -> None:
    with pytest.raises(aiohttp.ClientError):
        asked(tmp_path, None)


def test_before_the_first_round_there_is_no_answer(tmp_path: Path) -> None:
    assert asked(tmp_path, "portal", answers=False)[0] == 503
