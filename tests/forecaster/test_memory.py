"""The brain's memory as the forecaster reads it, while real writers replace it."""

from __future__ import annotations

from typing import cast

import pytest

from forecaster.memory import Memory, read_memory
from operators.client import Client
from operators.extender.snapshots import Snapshots
from schedulers.objects.memory import HISTORY, SNAPSHOT, LogPlace, Piece, read_index, unpack
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, run_virtual
from tests.kubernetes.test_snapshots import noise

SPACE = "rm-system"


def writer(store: Store, name: str = SNAPSHOT) -> Snapshots:
    return Snapshots(cast(Client, StoreClient(store)), name=name, chunk_bytes=1000)


def contents(config_maps: list[dict[str, object]]) -> dict[str, bytes]:
    maps = {str(cast(dict[str, object], one["metadata"])["name"]): one for one in config_maps}
    return {name: unpack(read_index(maps[name]), maps) for name in (SNAPSHOT, HISTORY) if name in maps}


def test_a_memory_is_read_once() -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        client = cast(Client, StoreClient(store))
        assert await read_memory(client, SPACE) is None
        await writer(store).store(noise(1))
        first = await read_memory(client, SPACE)
        assert first is not None
        assert contents(first.config_maps) == {SNAPSHOT: noise(1)}
        assert await read_memory(client, SPACE, first.version) is None
        await writer(store, HISTORY).store(noise(2))
        second = await read_memory(client, SPACE, first.version)
        assert second is not None
        assert contents(second.config_maps) == {SNAPSHOT: noise(1), HISTORY: noise(2)}

    run_virtual(main)


def piece(log: str, first: int, last: int) -> Piece:
    return Piece(log, first, last, last, b"".join(b"%s %d\n" % (log.encode(), line) for line in range(first, last)))


def names(memory: Memory | None) -> list[str]:
    assert memory is not None
    return [str(one["metadata"]["name"]) for one in memory.config_maps]


def test_who_follows_reads_the_new_segments_alone_and_a_history_that_is_another() -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        client, brain, history = cast(Client, StoreClient(store)), writer(store), writer(store, HISTORY)
        await history.store(noise(2))
        await brain.store(noise(1), piece("a", 0, 3))
        memory = await read_memory(client, SPACE)
        assert memory is not None
        assert memory.whole == "first"
        await brain.store(noise(3), piece("a", 3, 5))
        await brain.extend(piece("a", 5, 9))
        news = await read_memory(client, SPACE, memory.version, LogPlace("a", 3))
        assert news is not None
        assert (news.whole, names(news)) == ("", [SNAPSHOT, f"{SNAPSHOT}-a-5", f"{SNAPSHOT}-a-9"])
        assert await read_memory(client, SPACE, news.version, LogPlace("a", 9)) is None
        await history.store(noise(4))
        more = await read_memory(client, SPACE, news.version, LogPlace("a", 9))
        assert more is not None
        assert (more.whole, names(more)[:2], len(more.config_maps)) == ("", [SNAPSHOT, HISTORY], 5)

    run_virtual(main)


@pytest.mark.parametrize(("place", "why"), [(None, "first"), (LogPlace("b", 3), "leader"), (LogPlace("a", 2), "gap")])
def test_where_the_log_cannot_be_followed_the_memory_is_read_whole(place: LogPlace | None, why: str) -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        await writer(store).store(noise(1), piece("a", 0, 3))
        await writer(store).store(noise(2), piece("a", 3, 5))
        memory = await read_memory(cast(Client, StoreClient(store)), SPACE, ("before",), place)
        assert memory is not None
        assert (memory.whole, contents(memory.config_maps)) == (why, {SNAPSHOT: noise(2)})
        assert f"{SNAPSHOT}-a-5" in names(memory)

    run_virtual(main)


def test_a_segment_that_goes_while_it_is_read_has_the_memory_read_whole() -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        brain = writer(store)
        await brain.store(noise(1), piece("a", 0, 3))
        await brain.store(noise(2), piece("a", 3, 5))
        del store.objects[f"/api/v1/namespaces/{SPACE}/configmaps/{SNAPSHOT}-a-5"]
        memory = await read_memory(cast(Client, StoreClient(store)), SPACE, ("before",), LogPlace("a", 3))
        assert memory is not None
        assert (memory.whole, contents(memory.config_maps)) == ("gap", {SNAPSHOT: noise(2)})

    run_virtual(main)


class Interrupted(StoreClient):
    """Another memory is stored just before the get of this number, from 0."""

    def __init__(self, store: Store, number: int) -> None:
        super().__init__(store)
        self._number, self._brain = number, writer(store)

    async def get(self, path: str, **params: str) -> object:
        if len(self.calls) == self._number:
            await self._brain.store(noise(2))
        return await super().get(path, **params)


@pytest.mark.parametrize("number", range(5))
def test_a_memory_replaced_while_it_is_read_is_read_whole(number: int) -> None:
    """Gets 0 and 1 are of the indexes, 2 to 4 of the chunks."""

    async def main(_: VirtualLoop) -> None:
        store = Store()
        await writer(store).store(noise(1))
        memory = await read_memory(cast(Client, Interrupted(store, number)), SPACE)
        assert memory is not None
        assert contents(memory.config_maps) == {SNAPSHOT: noise(2)}

    run_virtual(main)


def test_half_a_memory_is_handed_on_for_its_reader_to_refuse() -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        await writer(store).store(noise(1))
        lost = next(path for path in store.objects if path.endswith("-1"))
        del store.objects[lost]
        memory = await read_memory(cast(Client, StoreClient(store)), SPACE)
        assert memory is not None
        assert lost.rpartition("/")[2] not in {one["metadata"]["name"] for one in memory.config_maps}

    run_virtual(main)
