"""The stored snapshot is the old one or the new one, whatever dies when, and a later leader's is never overwritten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from operators.client import Client, Unreachable
from operators.extender.snapshots import Snapshots, Superseded
from operators.lease import Term
from schedulers.objects.memory import LABEL, SNAPSHOT

pytestmark = pytest.mark.controlplane

CHUNK = 1000


def noise(seed: int, size: int = 3500) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


class Here:
    """A namespace of a cluster with snapshots in it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"

    def snapshots(
        self, transitions: int = 1, *, client: Any = None, created: str = "2026-01-01T00:00:00Z"
    ) -> Snapshots:
        term = Term(created, transitions)
        return Snapshots(client or self.client, namespace=self.namespace, term=lambda: term, chunk_bytes=CHUNK)

    async def maps(self) -> list[dict[str, Any]]:
        return list((await self.client.get(self.path, labelSelector=f"{LABEL}={SNAPSHOT}"))["items"])

    async def chunks(self) -> list[str]:
        return [item["metadata"]["name"] for item in await self.maps() if item["metadata"]["name"] != SNAPSHOT]


class Dying:
    """A client whose process dies after so many writes."""

    def __init__(self, client: Client, writes: int) -> None:
        self.client, self.left = client, writes

    async def get(self, path: str, **params: str) -> Any:
        return await self.client.get(path, **params)

    async def create(self, path: str, body: Any, **params: str) -> Any:
        return await self._write(lambda: self.client.create(path, body, **params))

    async def replace(self, path: str, body: Any) -> Any:
        return await self._write(lambda: self.client.replace(path, body))

    async def delete(self, path: str, body: Any = None, **params: str) -> Any:
        return await self._write(lambda: self.client.delete(path, body, **params))

    async def _write(self, write: Callable[[], Awaitable[Any]]) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Unreachable("dead")
        return await write()


def here(devcluster: Any, main: Callable[[Here], Awaitable[None]]) -> None:
    async def run() -> None:
        async with devcluster.client() as client:
            await main(Here(client, devcluster.namespace()))

    asyncio.run(run())


def test_what_is_stored_is_loaded(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        await place.snapshots().store(noise(1))
        assert await place.snapshots(2).load() == noise(1)
        assert len(await place.chunks()) == 4

    here(devcluster, main)


def test_a_snapshot_of_several_mib_is_cut_to_what_a_configmap_holds(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        snapshots = Snapshots(place.client, namespace=place.namespace)
        await snapshots.store(noise(1, 3 << 20))
        assert await snapshots.load() == noise(1, 3 << 20)
        assert len(await place.chunks()) == 4

    here(devcluster, main)


def test_where_nothing_is_stored_there_is_no_snapshot(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        assert await place.snapshots().load() is None

    here(devcluster, main)


def test_the_chunks_of_the_last_snapshot_are_deleted(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        snapshots = place.snapshots()
        for seed in range(3):
            await snapshots.store(noise(seed))
        assert await snapshots.load() == noise(2)
        assert len(await place.chunks()) == 4

    here(devcluster, main)


def test_whenever_a_writer_dies_the_snapshot_is_the_old_or_the_new_one(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        await place.snapshots().store(noise(0))
        before = noise(0)
        for writes in range(9):
            new = noise(10 + writes)
            done = True
            try:
                await place.snapshots(2 + writes, client=Dying(place.client, writes)).store(new)
            except Unreachable:
                done = False
            loaded = await place.snapshots(99).load()
            assert loaded == (new if done else before)
            before = cast(bytes, loaded)

    here(devcluster, main)


def test_what_a_dead_writer_left_over_is_swept_by_the_next_leader(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        with pytest.raises(Unreachable):
            await place.snapshots(1, client=Dying(place.client, 3)).store(noise(1))
        assert len(await place.chunks()) == 3
        await place.snapshots(2).store(noise(2))
        assert len(await place.chunks()) == 4

    here(devcluster, main)


def test_a_stale_leader_is_refused_and_changes_nothing(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        old, new = place.snapshots(1), place.snapshots(2)
        await old.store(noise(1))
        await new.store(noise(2))
        with pytest.raises(Superseded):
            await old.store(noise(3))
        assert await new.load() == noise(2)
        assert len(await place.chunks()) == 4

    here(devcluster, main)


def test_a_leader_that_grows_stale_while_it_writes_is_refused(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        new = place.snapshots(2)

        class Slow(Dying):
            """The next leader stores its snapshot just before this one writes the index."""

            async def _write(self, write: Callable[[], Awaitable[Any]]) -> Any:
                self.left -= 1
                if self.left == 0:
                    await new.store(noise(2))
                return await write()

        await place.snapshots(1).store(noise(0))
        with pytest.raises(Superseded):
            await place.snapshots(1, client=Slow(place.client, 5)).store(noise(1))
        assert await new.load() == noise(2)

    here(devcluster, main)


def test_a_lease_that_begins_to_count_anew_stops_nobody(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        await place.snapshots(7).store(noise(1))
        await place.snapshots(0, created="2026-02-01T00:00:00Z").store(noise(2))
        assert await place.snapshots().load() == noise(2)

    here(devcluster, main)


def test_without_a_lease_nothing_is_refused(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        await place.snapshots(7).store(noise(1))
        alone = Snapshots(place.client, namespace=place.namespace)
        await alone.store(noise(2))
        assert await alone.load() == noise(2)

    here(devcluster, main)


def test_a_lost_chunk_makes_the_snapshot_absent(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        await place.snapshots().store(noise(1))
        await place.client.delete(f"{place.path}/{(await place.chunks())[1]}")
        assert await place.snapshots().load() is None

    here(devcluster, main)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"sha256":"', '"sha256":"0'), ("zlib/1", "zlib/9"), ("{", "["), ('"generation":1', '"generation":{}')],
)
def test_an_index_that_is_wrong_makes_the_snapshot_absent_but_not_for_ever(devcluster: Any, old: str, new: str) -> None:
    async def main(place: Here) -> None:
        await place.snapshots().store(noise(1))
        index = await place.client.get(f"{place.path}/{SNAPSHOT}")
        index["data"]["index"] = index["data"]["index"].replace(old, new, 1)
        await place.client.replace(f"{place.path}/{SNAPSHOT}", index)
        assert await place.snapshots().load() is None
        await place.snapshots().store(noise(2))
        assert await place.snapshots().load() == noise(2)

    here(devcluster, main)


def test_an_api_server_that_does_not_answer_is_not_an_absent_snapshot(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        class Deaf(Dying):
            async def get(self, path: str, **params: str) -> Any:
                raise Unreachable("dead")

        with pytest.raises(Unreachable):
            await place.snapshots(client=Deaf(place.client, 0)).load()

    here(devcluster, main)


def test_a_snapshot_replaced_while_it_is_read_is_read_again(devcluster: Any) -> None:
    async def main(place: Here) -> None:
        writer = place.snapshots()
        await writer.store(noise(1))

        class Slow(Dying):
            async def get(self, path: str, **params: str) -> Any:
                if not path.endswith(SNAPSHOT) and self.left == 0:
                    self.left = 1
                    await writer.store(noise(2))
                return await super().get(path, **params)

        assert await place.snapshots(2, client=Slow(place.client, 0)).load() == noise(2)

    here(devcluster, main)
