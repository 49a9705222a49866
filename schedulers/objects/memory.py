"""The memory of the brain as ConfigMaps: how data is cut into chunks, named and read back; the same in both worlds.

The data is compressed and cut into chunks, each a ConfigMap of its own; the index is a ConfigMap with the chunks' names
and their hash. Beside the snapshot the index names the newest segments of the event log, the *tail*: whoever has
restored a snapshot goes on by segments alone (`schedulers.core.following`).
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from schedulers.objects.names import GROUP

#: Name of the index of the snapshot, and how the names of its chunks begin.
SNAPSHOT: Final = "rm-brain-snapshot"
#: The same of the newest finished jobs (msgpack list of `PastJob`, oldest first).
HISTORY: Final = "rm-brain-history"
#: Label of all these ConfigMaps; its value is the name of the index.
LABEL: Final = f"{GROUP}/snapshot"
#: Format of the chunks' content.
FORMAT: Final = "zlib/1"
#: Jobs in the stored history, at most.
PAST_JOBS: Final = 2000


class LogPlace(NamedTuple):
    """A place in an event log."""

    log: str
    """Name of the log, another for each term; empty: not known."""
    line: int
    """Lines before the place."""


class Piece(NamedTuple):
    """Lines of an event log."""

    log: str
    """Name of the log."""
    first: int
    """Lines of the log before the piece."""
    last: int
    """Lines of the log up to the piece's end."""
    now: int
    """Time of the core at the piece's end, ms since the epoch."""
    lines: bytes


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the event log, compressed, in a ConfigMap of its own."""

    name: str
    """Name of the ConfigMap."""
    first: int
    """As of the piece, like `last` and `now`."""
    last: int
    now: int
    bytes: int
    """Size of the compressed lines."""
    sha256: str
    """Hash of the compressed lines."""


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the index."""

    format: str
    generation: int
    created: str
    transitions: int
    chunks: tuple[str, ...]
    """Names of the chunks, in order."""
    bytes: int
    """Size of the compressed data."""
    sha256: str
    """Hash of the compressed data."""
    log: str = ""
    """Name of the event log, another for each term; empty: not known."""
    line: int = 0
    """Lines of the log before the snapshot."""
    tail: tuple[Segment, ...] = ()
    """The newest segments, without a gap; the oldest may stand before the snapshot."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all ConfigMaps of the memory but the index."""
        return (*self.chunks, *(segment.name for segment in self.tail))

    @property
    def end(self) -> int:
        """Lines of the log up to the end of the tail."""
        return self.tail[-1].last if self.tail else self.line

    def since(self, place: LogPlace) -> tuple[Segment, ...] | None:
        """The segments from a place on; None where the log is another, or segments are not there any more."""
        found = tuple(segment for segment in self.tail if segment.last > place.line)
        begins = found[0].first if found else self.end
        return found if place == (self.log, begins) and self.log else None


class BrainSnapshot(msgspec.Struct):
    """The content of the snapshot (msgpack)."""

    core: bytes
    """`Scheduler.snapshot`."""
    pods: dict[int, str]
    """Uid of the pod by container."""


class Damaged(Exception):
    """Stored data is not whole; the message says how."""


def read_index(config_map: Mapping[str, Any]) -> Index:
    """The content of an index. Raises Damaged."""
    try:
        return msgspec.json.decode(config_map["data"]["index"], type=Index)
    except (LookupError, TypeError, msgspec.DecodeError) as error:
        raise Damaged(f"the index makes no sense ({type(error).__name__}: {error})") from None


def unpack(index: Index, chunks: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The data of an index. chunks: ConfigMaps by name. Raises Damaged."""
    if index.format != FORMAT:
        raise Damaged(f"format '{index.format}' (known: {FORMAT})")
    return _joined(index.chunks, index.sha256, chunks)


def unpack_since(index: Index, place: LogPlace, chunks: Mapping[str, Mapping[str, Any]]) -> tuple[Piece, ...]:
    """The log from a place on. chunks: ConfigMaps by name. Raises Damaged, also for a gap."""
    segments = index.since(place)
    if segments is None:
        raise Damaged(f"the log has no line {place.line + 1} any more, or is another")
    return tuple(
        Piece(index.log, each.first, each.last, each.now, _joined((each.name,), each.sha256, chunks))
        for each in segments
    )


def _joined(names: tuple[str, ...], sha256: str, chunks: Mapping[str, Mapping[str, Any]]) -> bytes:
    parts = []
    for name in names:
        if name not in chunks:
            raise Damaged(f"chunk '{name}' is not there")
        try:
            parts.append(base64.b64decode(chunks[name]["binaryData"]["data"], validate=True))
        except (LookupError, TypeError, ValueError):
            raise Damaged(f"chunk '{name}' holds no data") from None
    packed = b"".join(parts)
    digest = hashlib.sha256(packed).hexdigest()
    if digest != sha256:
        raise Damaged(f"SHA-256 is {digest}, the index says {sha256}")
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise Damaged(str(error)) from None
