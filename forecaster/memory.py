"""Reads the brain's memory: all of it once, and from then on what the brain has stored since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from operators.client import Client, NotFound, path_of
from schedulers.objects.memory import HISTORY, SNAPSHOT, Damaged, Index, LogPlace, read_index

#: The brain deletes replaced chunks: a reader begins anew if a chunk has gone meanwhile.
_ATTEMPTS: Final = 3

Why = Literal["", "first", "leader", "gap"]


class Memory(NamedTuple):
    """ConfigMaps of the brain, and the resource versions of the two indexes, the snapshot's first.

    whole: why all of the memory was read; empty for what was stored since a place alone.
    """

    version: tuple[str, ...]
    config_maps: list[dict[str, Any]]
    whole: Why


async def read_memory(
    client: Client, namespace: str, before: tuple[str, ...] = (), place: LogPlace | None = None
) -> Memory | None:
    """The present memory; None if there is none, or none but that of version `before`. Raises ApiError, OSError.

    place: where in the brain's event log a core of version `before` stands. Then the segments from there on are read,
    and the history if another is stored; all of the memory only where the log has another leader, or a gap.
    Reads by `get` alone: the names of all chunks stand in the indexes. A chunk that is missing still after some
    attempts is left out.
    """

    async def get(name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await client.get(path_of("ConfigMap", f"{namespace}/{name}"))
        except NotFound:
            return None
        return found

    whole: Why = ""
    for attempt in range(1, _ATTEMPTS + 1):
        snapshot, history = await get(SNAPSHOT), await get(HISTORY)
        indexes = [index for index in (snapshot, history) if index is not None]
        version = tuple(str(index["metadata"]["resourceVersion"]) for index in indexes)
        if snapshot is None or version == before:
            return None
        whole = whole or (_why_whole(_index(snapshot), place) if attempt == 1 else "gap")
        if not whole and version[1:] == before[1:]:
            indexes = [snapshot]
        names = [name for index in indexes for name in _names(_index(index), None if whole else place)]
        chunks = [chunk for name in names if (chunk := await get(name)) is not None]
        if len(chunks) == len(names) or attempt == _ATTEMPTS:
            return Memory(version, [*indexes, *chunks], whole)
    raise AssertionError("unreachable")


def _index(config_map: Mapping[str, Any]) -> Index | None:
    try:
        return read_index(config_map)
    except Damaged:
        return None  # whoever unpacks the memory says so


def _why_whole(index: Index | None, place: LogPlace | None) -> Why:
    if place is None:
        return "first"
    if index is None or index.log != place.log:
        return "leader"
    return "gap" if index.since(place) is None else ""


def _names(index: Index | None, place: LogPlace | None) -> tuple[str, ...]:
    """The ConfigMaps to be read besides the index; of a history all of them."""
    if index is None:
        return ()
    since = None if place is None else index.since(place)
    return index.names if since is None else tuple(segment.name for segment in since)
