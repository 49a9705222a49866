"""Two leaders that store at once, in every order in which their requests can arrive (a real API server has one)."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.client import Client, Unreachable
from operators.extender.snapshots import Snapshots, Superseded
from operators.lease import Term
from schedulers.objects.memory import HISTORY, SNAPSHOT, Damaged, read_index, unpack
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, run_virtual

COLLECTION = "/api/v1/namespaces/rm-system/configmaps"
PAUSES = st.lists(st.sampled_from([0.1, 1.0, 3.0, 10.0]), max_size=40)


def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(2500)


def snapshots(client: StoreClient, transitions: int) -> Snapshots:
    term = Term("2026-01-01T00:00:00Z", transitions)
    return Snapshots(cast(Client, client), term=lambda: term, chunk_bytes=1000)


async def stores(client: StoreClient, transitions: int, seeds: list[int]) -> list[int]:
    """Store one after the other; returns those that went through."""
    writer, done = snapshots(client, transitions), []
    for seed in seeds:
        try:
            await writer.store(noise(seed))
            done.append(seed)
        except Superseded:
            break
        except Unreachable:
            continue
    return done


@settings(max_examples=60)
@given(PAUSES, PAUSES, st.integers(0, 30))
def test_the_later_leaders_snapshot_stands_whole_however_requests_interleave(
    old: list[float], new: list[float], head_start: int
) -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        first, second = StoreClient(store), StoreClient(store)
        first.pauses, second.pauses = iter(old), iter(new)

        async def later() -> list[int]:
            await asyncio.sleep(head_start)
            return await stores(second, 2, [10, 11])

        _, done = await asyncio.gather(stores(first, 1, [1, 2, 3]), later())
        assert done == [10, 11]
        assert await snapshots(StoreClient(store), 3).load() == noise(11)

    run_virtual(main)


@settings(max_examples=40)
@given(PAUSES, PAUSES)
def test_a_reader_beside_a_writer_gets_one_that_was_stored_or_none(read: list[float], write: list[float]) -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        await stores(StoreClient(store), 1, [0])
        reader, writer = StoreClient(store), StoreClient(store)
        reader.pauses, writer.pauses = iter(read), iter(write)
        loaded, _done = await asyncio.gather(snapshots(reader, 2).load(), stores(writer, 1, [1, 2, 3]))
        assert loaded in (None, *(noise(seed) for seed in range(4)))

    run_virtual(main)


@pytest.mark.parametrize("stalls", [1, 2])
def test_chunks_of_one_leader_are_safe_from_another_that_stores_meanwhile(stalls: int) -> None:
    """The one that stalls has written its chunks, and its index not yet."""

    async def main(_: VirtualLoop) -> None:
        store = Store()
        clients = {number: StoreClient(store) for number in (1, 2)}
        clients[stalls].pauses = iter([0.01] * 4 + [50.0])
        clients[3 - stalls].slow_s = 0.1
        await asyncio.gather(*(stores(clients[number], number, [number]) for number in (1, 2)))
        assert await snapshots(StoreClient(store), 3).load() == noise(2)

    run_virtual(main)


def test_a_lost_answer_is_repaired_by_the_next_snapshot() -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        client = StoreClient(store)
        writer = snapshots(client, 1)
        await writer.store(noise(0))
        client.deaf = True
        with pytest.raises(Unreachable):
            await writer.store(noise(1))
        client.deaf = False
        await writer.store(noise(2))
        assert await writer.load() == noise(2)

    run_virtual(main)


def test_nothing_is_left_over_after_faults() -> None:
    async def main(loop: VirtualLoop) -> None:
        store = Store()
        client = StoreClient(store)
        writer = snapshots(client, 1)

        async def cut() -> None:
            for _ in range(20):
                await asyncio.sleep(0.7)
                client.lose = not client.lose

        client.slow_s = 0.1
        cutting = asyncio.ensure_future(cut())
        for seed in range(30):
            try:
                await writer.store(noise(seed))
            except Unreachable:
                await asyncio.sleep(0.1)
        await cutting
        client.lose = False
        await writer.store(noise(99))
        assert len(store.objects) == 1 + 3
        assert f"{COLLECTION}/{SNAPSHOT}" in store.objects

    run_virtual(main)


def test_the_history_and_the_snapshot_leave_each_others_chunks_alone() -> None:
    async def main(_: VirtualLoop) -> None:
        client = StoreClient(Store())
        named = {name: [1, 2, 3] for name in (SNAPSHOT, HISTORY)}
        for term in (1, 2):  # the second writer of each sweeps
            for name, seeds in named.items():
                stored = Snapshots(
                    cast(Client, client), name=name, term=lambda at=term: Term("2026", at), chunk_bytes=1000
                )
                for seed in seeds:
                    await stored.store(noise(seed + len(name) * term))
        for name in named:
            assert await Snapshots(cast(Client, client), name=name).load() == noise(3 + len(name) * 2)

    run_virtual(main)


@given(st.binary(max_size=3000), st.integers(0, 10), st.binary(max_size=50))
def test_data_with_any_chunk_changed_is_damaged(data: bytes, at: int, other: bytes) -> None:
    store = Store()

    async def main(_: VirtualLoop) -> None:
        await Snapshots(cast(Client, StoreClient(store)), chunk_bytes=300).store(data)

    run_virtual(main)
    maps = {path.rpartition("/")[2]: item for path, item in store.objects.items()}
    index = read_index(maps[SNAPSHOT])
    assert unpack(index, maps) == data
    name = index.chunks[at % len(index.chunks)]
    told = base64.b64encode(other).decode()
    if told != maps[name]["binaryData"]["data"]:
        with pytest.raises(Damaged, match="SHA-256"):
            unpack(index, {**maps, name: {"binaryData": {"data": told}}})
    with pytest.raises(Damaged, match=f"'{name}' is not there"):
        unpack(index, {key: item for key, item in maps.items() if key != name})
