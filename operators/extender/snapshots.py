"""The core's snapshot as API objects, so that a new leader begins at the last leader's state.

The form is that of `schedulers.objects.memory`; the index is written last, so there is always either the old snapshot
or the new. A leader unaware of its end is stopped by the index: the index names the writer's term, is replaced only as
it was read, and a later term is not overwritten. Beside the snapshot stands the tail of the event log, for those who
follow.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import zlib
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from operators.client import AlreadyExists, ApiError, Client, Conflict, NotFound
from operators.lease import Term
from schedulers.objects.memory import FORMAT, LABEL, SNAPSHOT, Damaged, Index, Piece, Segment, read_index, unpack
from schedulers.objects.names import NAMESPACE

log = structlog.get_logger()

#: Bytes of one chunk: a ConfigMap holds at most 1 MiB.
CHUNK_BYTES: Final = 880 * 1024
#: Segments of the tail, and their bytes, at most: whoever was away for longer reads the snapshot.
SEGMENTS: Final = 64
TAIL_BYTES: Final = 4 << 20
_LEVEL: Final = 3
_ATTEMPTS: Final = 3
replace = msgspec.structs.replace


class Superseded(Exception):
    """A later leader has stored a snapshot, so the caller leads no more. Nothing was overwritten."""


class Snapshots:
    """The only stored snapshot, or other data of the brain under a name of its own.

    `term` gives the caller's present term of leadership (`Lease.term`); None for a brain without a Lease, stopped by
    nobody. Faults of the API server are raised as they come (ApiError): silence is not "no snapshot".
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str = NAMESPACE,
        name: str = SNAPSHOT,
        term: Callable[[], Term] | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._client, self._namespace, self._name, self._term = client, namespace, name, term
        self._chunk_bytes = chunk_bytes
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._writer = secrets.token_hex(4)  # two writers never share the name of a chunk
        self._generation = 0
        self._left_over: set[str] = set()  # chunks without an index (any more)
        self._swept = False

    async def store(self, data: bytes, piece: Piece | None = None) -> None:
        """Replace the stored snapshot, atomically. Raises Superseded, ApiError; then the old snapshot is untouched.

        piece: of the log, up to the snapshot; goes to the tail.
        """
        # In a thread: compressing a large cluster's state takes longer than a call may wait.
        packed = await asyncio.to_thread(zlib.compress, data, _LEVEL)
        _, before = await self._read_index()
        term = self._checked_term(before)
        self._generation = max(self._generation, before.generation if before is not None else 0) + 1
        index = await self._write_chunks(packed, term)
        if piece is not None:
            tail = await self._tail(before, piece, term)
            index = replace(index, log=piece.log, line=piece.last, tail=tail)
        await self._change_index(index, term)

    async def extend(self, piece: Piece) -> bool:
        """Put a piece of the log behind the stored tail; False where there is a gap. Raises Superseded, ApiError."""
        _, before = await self._read_index()
        term = self._checked_term(before)
        if before is None or not (tail := await self._tail(before, piece, term)):
            return False
        self._generation = max(self._generation, before.generation) + 1
        await self._change_index(replace(before, generation=self._generation, tail=tail), term)
        return True

    async def _change_index(self, index: Index, term: Term) -> None:
        # Only after all chunks: until here, readers find the old snapshot whole.
        old = await self._write_index(index)
        self._left_over |= {*old.names} if old is not None else set()
        self._left_over -= {*index.names}
        with contextlib.suppress(ApiError):  # chunks left now are tried again after the next snapshot
            await self._sweep(term)
            await self._delete_left_over()

    async def _tail(self, before: Index | None, piece: Piece, term: Term) -> tuple[Segment, ...]:
        """The stored tail with the piece behind; empty where the tail has to begin anew."""
        if before is None or (before.log, before.end) != (piece.log, piece.first):
            return ()
        if not piece.lines:
            return before.tail
        packed = await asyncio.to_thread(zlib.compress, piece.lines, _LEVEL)
        if len(packed) > self._chunk_bytes:
            return ()
        name = f"{self._name}-{piece.log}-{piece.last}"
        await self._write_chunk(name, packed, term)
        made = Segment(
            name=name,
            first=piece.first,
            last=piece.last,
            now=piece.now,
            bytes=len(packed),
            sha256=hashlib.sha256(packed).hexdigest(),
        )
        kept, room = list[Segment](), TAIL_BYTES
        for segment in (made, *before.tail[:-SEGMENTS:-1]):
            room -= segment.bytes
            if room < 0:
                break
            kept.insert(0, segment)
        return tuple(kept)

    async def load(self) -> bytes | None:
        """The stored snapshot; None if there is none, or (with a log line) none that is whole. Raises ApiError."""
        before: Index | None = None
        for _ in range(_ATTEMPTS):
            _, index = await self._read_index()
            if index is None:
                return None
            try:
                return await self._read(index)
            except Damaged as damage:
                if index == before:
                    log.warning("the stored snapshot is not whole; it counts as absent", why=str(damage))
                    return None
            before = index  # perhaps replaced during the reading: look once more
        log.warning("the stored snapshot changes faster than it can be read; it counts as absent")
        return None

    # -- chunks ---------------------------------------------------------------------------------

    async def _write_chunks(self, packed: bytes, term: Term) -> Index:
        parts = [packed[at : at + self._chunk_bytes] for at in range(0, len(packed), self._chunk_bytes)]
        names = tuple(f"{self._name}-{self._generation}-{self._writer}-{number}" for number in range(len(parts)))
        for name, part in zip(names, parts, strict=True):
            await self._write_chunk(name, part, term)
        return Index(
            format=FORMAT,
            generation=self._generation,
            created=term.created,
            transitions=term.transitions,
            chunks=names,
            bytes=len(packed),
            sha256=hashlib.sha256(packed).hexdigest(),
        )

    async def _write_chunk(self, name: str, part: bytes, term: Term) -> None:
        self._left_over.add(name)  # until an index names the chunk
        body = {
            **self._object(name),
            "immutable": True,
            "data": {"term": msgspec.json.encode(term).decode()},
            "binaryData": {"data": base64.b64encode(part).decode()},
        }
        with contextlib.suppress(AlreadyExists):  # by this very call, repeated by the client: the name is ours alone
            await self._client.create(self._collection, body)

    async def _read(self, index: Index) -> bytes:
        chunks = {}
        for name in index.chunks:
            try:
                chunks[name] = await self._client.get(f"{self._collection}/{name}")
            except NotFound:
                break  # the chunk is missed by name
        return await asyncio.to_thread(unpack, index, chunks)

    async def _sweep(self, term: Term) -> None:
        """Once per writer: find chunks of earlier leaders' unfinished snapshots; a later leader's stay."""
        if self._swept:
            return
        _, index = await self._read_index()
        listed = await self._client.get(self._collection, labelSelector=f"{LABEL}={self._name}")
        for item in listed["items"]:
            name, text = item["metadata"]["name"], (item.get("data") or {}).get("term")
            with contextlib.suppress(msgspec.DecodeError):
                if text is not None and msgspec.json.decode(text, type=Term) < term and index is not None:
                    self._left_over |= {name} - {*index.names}
        self._swept = True

    async def _delete_left_over(self) -> None:
        for name in sorted(self._left_over):
            with contextlib.suppress(NotFound):
                await self._client.delete(f"{self._collection}/{name}")
            self._left_over.discard(name)

    # -- the index ------------------------------------------------------------------------------

    async def _read_index(self) -> tuple[dict[str, Any] | None, Index | None]:
        """The ConfigMap and its content; an unreadable index counts as absent, but is replaced."""
        try:
            stored: dict[str, Any] = await self._client.get(f"{self._collection}/{self._name}")
        except NotFound:
            return None, None
        try:
            return stored, read_index(stored)
        except Damaged as error:
            log.warning("the index of the stored snapshot makes no sense", why=str(error))
            return stored, None

    def _checked_term(self, index: Index | None) -> Term:
        """Our term. Raises Superseded for an index of a later term."""
        theirs = Term(index.created, index.transitions) if index is not None else Term()
        if self._term is None:
            return theirs
        if theirs > self._term():
            raise Superseded(f"term {theirs} has stored a snapshot, and this is term {self._term()}")
        return self._term()

    async def _write_index(self, index: Index) -> Index | None:
        """Replace the present index; returns the replaced one. Raises Superseded."""
        data = {"index": msgspec.json.encode(index).decode()}
        for attempt in range(_ATTEMPTS):
            stored, before = await self._read_index()
            self._checked_term(before)
            try:
                if stored is None:
                    await self._client.create(self._collection, {**self._object(self._name), "data": data})
                else:
                    await self._client.replace(f"{self._collection}/{self._name}", {**stored, "data": data})
            except Conflict:  # somebody was faster: look who
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return before
        raise AssertionError("unreachable")

    def _object(self, name: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": self._namespace, "labels": {LABEL: self._name}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
