"""The memory of the brain as ConfigMaps: how data is cut into chunks, named and read back; the same in both worlds.

The data is compressed and cut into chunks, each a ConfigMap of its own; the index is a ConfigMap with the chunks' names
and their hash.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any, Final

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
    parts = []
    for name in index.chunks:
        if name not in chunks:
            raise Damaged(f"chunk '{name}' is not there")
        try:
            parts.append(base64.b64decode(chunks[name]["binaryData"]["data"], validate=True))
        except (LookupError, TypeError, ValueError):
            raise Damaged(f"chunk '{name}' holds no data") from None
    packed = b"".join(parts)
    digest = hashlib.sha256(packed).hexdigest()
    if digest != index.sha256:
        raise Damaged(f"SHA-256 is {digest}, the index says {index.sha256}")
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise Damaged(str(error)) from None
