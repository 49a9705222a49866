"""Logins by a credential plug-in to a real API server: tokens and certificates, that end while we are logged in."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from operators.access import Login
from operators.client import Client, Forbidden
from tests.kubernetes.kubeconfigs import Plugin, kubeconfig

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("pauseless")]

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def login(cluster: Devcluster, plugin: Plugin) -> Login:
    reached = {"server": cluster.url, "certificate-authority": str(cluster.authority.ca)}
    return Login(kubeconfig=str(kubeconfig(plugin.file.parent, reached, plugin.user())))


async def name(client: Client) -> Any:
    """Who the API server takes us for."""
    review = await client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", REVIEW)
    return review["status"]["userInfo"]["username"]


def test_a_token_that_ends_is_followed_by_the_plugins_next(devcluster: Devcluster, plugin: Plugin) -> None:
    namespace = devcluster.namespace()
    for account in ("first", "second"):
        devcluster.kubectl("create", "serviceaccount", account, "-n", namespace)
    plugin.says(token=devcluster.token(namespace, "first"))

    async def main() -> None:
        async with Client(login(devcluster, plugin)) as client:
            assert await name(client) == f"system:serviceaccount:{namespace}:first"
            plugin.says(token=devcluster.token(namespace, "second"))
            devcluster.kubectl("delete", "serviceaccount", "first", "-n", namespace)
            while await name(client) != f"system:serviceaccount:{namespace}:second":
                await asyncio.sleep(0.5)  # the API server remembers good tokens for some seconds

    asyncio.run(asyncio.wait_for(main(), 60))
    assert plugin.calls == 2


def test_a_certificate_that_ends_is_followed_by_the_plugins_next(devcluster: Devcluster, plugin: Plugin) -> None:
    def says(user: str, **more: Any) -> None:
        certificate, key = devcluster.authority.issue(user, user)
        plugin.says(clientCertificateData=certificate.read_text(), clientKeyData=key.read_text(), **more)

    says("morning", expirationTimestamp=datetime.now(UTC).isoformat())

    async def main() -> None:
        async with Client(login(devcluster, plugin)) as client:
            says("evening")
            assert await name(client) == "morning"
            while await name(client) != "evening":
                await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert plugin.calls == 2


def test_a_watch_survives_a_renewal_of_the_token(devcluster: Devcluster, plugin: Plugin) -> None:
    namespace = devcluster.namespace()
    devcluster.kubectl("create", "serviceaccount", "w", "-n", namespace)
    devcluster.kubectl("create", "role", "w", "--verb=list,watch", "--resource=configmaps", "-n", namespace)
    devcluster.kubectl("create", "rolebinding", "w", "--role=w", f"--serviceaccount={namespace}:w", "-n", namespace)
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    async def version(client: Client) -> str:
        while True:
            with contextlib.suppress(Forbidden):  # a role counts a moment after it was made
                return str((await client.get(path))["metadata"]["resourceVersion"])
            await asyncio.sleep(0.1)

    async def main() -> None:
        async with Client(login(devcluster, plugin)) as client:
            watch = client.watch(path, read_timeout_s=30, resourceVersion=await version(client))
            assert await anext(watch) == b""  # it is open
            devcluster.kubectl("create", "configmap", "old", "-n", namespace)
            assert b'"old"' in await anext(watch)
            plugin.says(token=devcluster.token(namespace, "w"))
            client._renew_at = 0
            await version(client)
            assert client._renewal is not None
            await client._renewal
            devcluster.kubectl("create", "configmap", "new", "-n", namespace)
            assert b'"new"' in await anext(watch)

    plugin.says(token=devcluster.token(namespace, "w"))
    asyncio.run(asyncio.wait_for(main(), 60))
    assert plugin.calls == 2
