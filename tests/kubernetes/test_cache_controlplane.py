"""The cache beside a real API server: after whatever happens it equals a fresh list."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kubernetes.recorded import feed, record
from operators.cache.cache import Cache, Change
from operators.cache.reflector import Kind
from operators.client import ApiError, Client
from schedulers.objects.names import GATE, QUEUE_LABEL, RUN_SECONDS, SCHEDULER
from schedulers.objects.node import NodeObject
from schedulers.objects.pod import Pod

pytestmark = pytest.mark.controlplane

KINDS = (Kind("Node", NodeObject, "/api/v1/nodes"), Kind("Pod", Pod, "/api/v1/pods"))


def pod(name: str) -> dict[str, Any]:
    """Gated, so that nobody binds or runs it."""
    return {
        "metadata": {"name": name, "labels": {QUEUE_LABEL: "default"}, "annotations": {RUN_SECONDS: "123.75"}},
        "spec": {
            "schedulerName": SCHEDULER,
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }


class Heard:
    """What a hearer knows that trusts nothing but the changes it is told."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}

    def hear(self, change: Change) -> None:
        item = change.new if change.new is not None else change.old
        key = (change.kind, item.key)
        assert (change.old is None) == (key not in self.known)
        if change.new is None:
            del self.known[key]
        else:
            self.known[key] = item.metadata.resourceVersion


@asynccontextmanager
async def caching(client: Client, hear: Callable[[Change], None], **settings: float) -> AsyncIterator[Cache]:
    cache = Cache(client, hear, kinds=KINDS, **{"first_pause_s": 0.05, "last_pause_s": 0.5} | settings)
    task = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(30):
            while not cache.synced:
                await asyncio.sleep(0.02)
        yield cache
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def fresh(client: Client) -> dict[tuple[str, str], str]:
    """What the API server lists, by kind and key: the version."""
    versions = {}
    for kind in KINDS:
        for item in (await client.get(kind.path))["items"]:
            meta = item["metadata"]
            key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
            versions[kind.name, key] = meta["resourceVersion"]
    return versions


def held(cache: Cache) -> dict[tuple[str, str], str]:
    return {
        (name, key): item.metadata.resourceVersion
        for name, reflector in cache.reflectors.items()
        for key, item in reflector.objects.items()
    }


async def equal(client: Client, cache: Cache, heard: Heard) -> None:
    """Cache, hearer and API server agree within 30 s."""
    async with asyncio.timeout(30):
        while not (held(cache) == heard.known == await fresh(client)):
            await asyncio.sleep(0.1)


async def stir(client: Client, space: str, seed: int, count: int) -> None:
    """Creates, changes and deletes pods."""
    draw, names, number = random.Random(seed), list[str](), 0
    path = f"/api/v1/namespaces/{space}/pods"
    for _ in range(count):
        what = draw.choice(("create", "create", "change", "delete")) if names else "create"
        if what == "create":
            names.append(f"p{seed}-{number}")
            number += 1
            await client.create(path, pod(names[-1]))
        elif what == "change":
            label = {"metadata": {"labels": {"turn": str(draw.randrange(1000))}}}
            await client.patch(f"{path}/{draw.choice(names)}", label, kind="merge")
        else:
            await client.delete(f"{path}/{names.pop(draw.randrange(len(names)))}", gracePeriodSeconds="0")


async def stir_at_last(client: Client, space: str, seed: int, count: int) -> None:
    """As `stir`, as soon as an API server that has just started lets us."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await stir(client, space, seed, count)
            except ApiError:
                seed += 100  # names that are free in any case
                await asyncio.sleep(0.2)


def test_the_cache_equals_a_fresh_list_after_creations_changes_and_deletions(devcluster: Any) -> None:
    async def run() -> None:
        heard, space = Heard(), devcluster.namespace()
        async with devcluster.client() as client:
            await stir(client, space, 1, 40)
            async with caching(client, heard.hear) as cache:
                await equal(client, cache, heard)
                await asyncio.gather(stir(client, space, 2, 80), stir(client, space, 3, 80))
                await equal(client, cache, heard)
                assert all(kind.relists == kind.unreadable == kind.unheard == 0 for kind in cache.reflectors.values())
                assert "123.75" not in repr(cache.pods)

    asyncio.run(run())


def test_the_cache_equals_a_fresh_list_after_the_api_server_has_restarted(devcluster: Any) -> None:
    async def run() -> None:
        heard, space = Heard(), devcluster.namespace()
        async with devcluster.client() as client, caching(client, heard.hear) as cache:
            await stir(client, space, 4, 40)
            await asyncio.to_thread(devcluster.restart, "apiserver")
            await stir_at_last(client, space, 5, 40)
            await equal(client, cache, heard)
            assert cache.reflectors["Pod"].errors > 0

    asyncio.run(run())


def test_a_watch_from_a_version_of_long_ago_brings_the_cache_up_to_date(devcluster: Any) -> None:
    async def run() -> None:
        heard, space = Heard(), devcluster.namespace()
        async with devcluster.client() as client:
            async with caching(client, heard.hear) as cache:
                pods = cache.reflectors["Pod"]
                await stir(client, space, 6, 20)
                await equal(client, cache, heard)
            pods._version = "1"
            pods.objects.clear()  # it has missed all there was
            heard.known = {key: version for key, version in heard.known.items() if key[0] != "Pod"}
            task = asyncio.create_task(cache.run())
            try:
                await equal(client, cache, heard)
                assert pods.relists > 0 or pods.events > 0
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_a_version_that_etcd_does_not_know_yet_leads_to_a_fresh_list(devcluster: Any) -> None:
    """As after a restore from an older backup. The API server does not refuse it: it says nothing at all."""

    async def run() -> None:
        heard, space = Heard(), devcluster.namespace()
        async with devcluster.client() as client:
            async with caching(client, heard.hear, read_timeout_s=3) as cache:
                await stir(client, space, 7, 20)
                await equal(client, cache, heard)
            pods = cache.reflectors["Pod"]
            pods._version = str(int(pods._version) + 1_000_000)
            task = asyncio.create_task(cache.run())
            try:
                await stir(client, space, 8, 20)
                await equal(client, cache, heard)
                assert pods.relists > 0
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_what_was_recorded_of_a_cluster_is_what_a_cache_holds(devcluster: Any, tmp_path: Path) -> None:
    async def run() -> None:
        space = devcluster.namespace()
        async with devcluster.client() as client:
            await stir(client, space, 9, 30)
            await record(client, tmp_path / "recording", kinds=KINDS)
            listed = await fresh(client)
            cache = Cache(client, lambda _: None, kinds=KINDS)
            await feed(cache, tmp_path / "recording")
            mine = {key: version for key, version in held(cache).items() if key[1].startswith(f"{space}/")}
            assert mine == {key: version for key, version in listed.items() if key[1].startswith(f"{space}/")}
            assert mine

    asyncio.run(run())
