"""The tail of the event log beside the stored snapshot: no reader ever sees a line too many, too few, or of others."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.client import Client, Unreachable
from operators.extender import snapshots as module
from operators.extender.eventlog import EventLog
from operators.extender.snapshots import Snapshots, Superseded
from operators.lease import Term
from schedulers.core.events import Tick
from schedulers.core.log import SchedulerConfig
from schedulers.objects.memory import LABEL, SNAPSHOT, Damaged, Index, LogPlace, Piece, read_index, unpack, unpack_since
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, run_virtual

COLLECTION = "/api/v1/namespaces/rm-system/configmaps"


class Writer:
    """A leader whose log goes on, and who stores now the snapshot and now the log alone.

    The snapshot is the number of the line at which it stands. written: all lines so far. lose: whether requests, and
    deaf: whether answers get lost, of the next store.
    """

    def __init__(self, store: Store, number: int) -> None:
        self.client, self.name = StoreClient(store), f"log-{number}"
        term = Term("2026-01-01T00:00:00Z", number)
        self._snapshots = Snapshots(cast(Client, self.client), term=lambda: term, chunk_bytes=1000)
        self.written: list[bytes] = []
        self._cut = 0

    async def store(self, lines: int, *, whole: bool) -> None:
        self.written += [b"%s %d\n" % (self.name.encode(), len(self.written) + n) for n in range(lines)]
        first, self._cut = self._cut, len(self.written)
        piece = Piece(self.name, first, self._cut, 10 * self._cut, b"".join(self.written[first:]))
        with contextlib.suppress(Unreachable):
            if whole:
                await self._snapshots.store(b"%d" % self._cut, piece)
            else:
                await self._snapshots.extend(piece)


def read(store: Store) -> tuple[Index, dict[str, object]]:
    maps = {path.rpartition("/")[2]: item for path, item in store.objects.items()}
    return read_index(maps[SNAPSHOT]), maps


#: Lines, whole or not, whether requests and answers are lost, whether another leads.
STORES = st.lists(
    st.tuples(st.integers(0, 9), st.booleans(), st.sampled_from(["", "", "", "lose", "deaf"]), st.integers(0, 9)),
    min_size=1,
    max_size=25,
)


@given(STORES)
def test_whoever_follows_from_any_place_gets_the_lines_that_were_written_or_is_told_of_a_gap(
    stores: list[tuple[int, bool, str, int]],
) -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        logs: dict[str, list[bytes]] = {}
        writer = Writer(store, 0)
        for lines, whole, fault, other in stores:
            if other == 0:
                writer = Writer(store, len(logs) + 1)
            logs[writer.name] = writer.written
            setattr(writer.client, fault or "lose", bool(fault))
            await writer.store(lines, whole=whole)
            writer.client.lose = writer.client.deaf = False
            if f"{COLLECTION}/{SNAPSHOT}" not in store.objects:
                continue
            index, maps = read(store)
            own = logs[index.log]
            assert unpack(index, maps) == b"%d" % index.line
            for place in [LogPlace(index.log, line) for line in range(len(own) + 2)]:
                if index.since(place) is None:
                    with pytest.raises(Damaged, match="any more"):
                        unpack_since(index, place, maps)
                    continue
                pieces = unpack_since(index, place, maps)
                assert b"".join(piece.lines for piece in pieces) == b"".join(own[place.line : index.end])
                assert [piece.now for piece in pieces] == [10 * piece.last for piece in pieces]
            with pytest.raises(Damaged):
                unpack_since(index, LogPlace("another", index.line), maps)

    run_virtual(main)


def test_where_nothing_is_lost_the_log_is_followed_from_the_snapshot_on_and_nothing_is_left_over() -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        writer, draw = Writer(store, 1), random.Random(1)
        await writer.store(5, whole=True)
        place = LogPlace(writer.name, 5)
        for _n in range(3 * module.SEGMENTS):
            await writer.store(draw.randint(0, 3), whole=draw.random() < 0.3)
            index, maps = read(store)
            lines = b"".join(piece.lines for piece in unpack_since(index, place, maps))
            assert lines == b"".join(writer.written[place.line :])
            place = LogPlace(index.log, index.end)
        assert place.line == len(writer.written)
        assert len(index.tail) == module.SEGMENTS
        assert len(store.objects) == 1 + len(index.names)
        assert all(item["metadata"]["labels"] == {LABEL: SNAPSHOT} for item in store.objects.values())

    run_virtual(main)


def test_a_leader_of_the_past_puts_nothing_behind_the_tail_of_a_later_leader() -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        old, new = Writer(store, 1), Writer(store, 2)
        await old.store(3, whole=True)
        await new.store(4, whole=True)
        before = read(store)
        with pytest.raises(Superseded):
            await old.store(1, whole=False)
        assert read(store) == before

    run_virtual(main)


def test_a_tail_larger_than_its_limit_loses_its_oldest_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_: VirtualLoop) -> None:
        store = Store()
        writer = Writer(store, 1)
        for _n in range(20):
            await writer.store(3, whole=True)
        index, _maps = read(store)
        assert 1 < len(index.tail) < 19
        assert sum(segment.bytes for segment in index.tail) <= 100
        assert index.end == 60

    monkeypatch.setattr(module, "TAIL_BYTES", 100)
    run_virtual(main)


@pytest.mark.parametrize("keep", ["full", "decisions", "hash"])
def test_pieces_of_an_event_log_are_its_lines_whatever_is_kept_of_them(
    tmp_path: Path, keep: Literal["full", "decisions", "hash"]
) -> None:
    log = EventLog(tmp_path, keep, 1, max_bytes=1 << 20)
    log.log.header(SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}))
    pieces = [log.cut(0)]
    for at in range(1, 4):
        log.log.add(Tick(at), [])
        log.flush()
        log.log.add(Tick(at), [])
        pieces.append(log.cut(at))
    assert [(piece.first, piece.last, piece.now) for piece in pieces] == [(0, 1, 0), (1, 3, 1), (3, 5, 2), (5, 7, 3)]
    assert [piece.lines for piece in pieces[1:]] == [b'{"event":"Tick","at":%d}\n' % at * 2 for at in range(1, 4)]
    assert len({piece.log for piece in pieces}) == 1
    log.close()


def test_more_lines_than_are_kept_leave_a_gap_of_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("operators.extender.eventlog._KEPT_BYTES", 100)
    log = EventLog(tmp_path, "hash", 1, max_bytes=1)
    for at in range(1, 7):
        log.log.add(Tick(at), [])
        log.flush()
    log.log.add(Tick(7), [])
    assert log.cut(7)[1:] == (7, 7, 7, b"")
    log.log.add(Tick(8), [])
    assert log.cut(8)[1:] == (7, 8, 8, b'{"event":"Tick","at":8}\n')
