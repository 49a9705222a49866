"""Reads the brain's memory, its snapshot and its finished jobs, whenever the brain has stored another."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from operators.client import Client, NotFound, path_of
from schedulers.objects.memory import HISTORY, SNAPSHOT, Damaged, read_index

#: The brain deletes replaced chunks: a reader begins anew if a chunk has gone meanwhile.
_ATTEMPTS: Final = 3


class Memory(NamedTuple):
    """ConfigMaps of the brain, and the resource versions of the two indexes."""

    version: tuple[str, ...]
    config_maps: list[dict[str, Any]]


async def read_memory(client: Client, namespace: str, before: tuple[str, ...] = ()) -> Memory | None:
    """The present memory; None if there is none, or none but that of version `before`. Raises ApiError, OSError.

    Reads by `get` alone: the names of all chunks stand in the indexes. A chunk that is missing still after some
    attempts is left out.
    """

    async def get(name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await client.get(path_of("ConfigMap", f"{namespace}/{name}"))
        except NotFound:
            return None
        return found

    for attempt in range(1, _ATTEMPTS + 1):
        snapshot, history = await get(SNAPSHOT), await get(HISTORY)
        indexes = [index for index in (snapshot, history) if index is not None]
        version = tuple(str(index["metadata"]["resourceVersion"]) for index in indexes)
        if snapshot is None or version == before:
            return None
        names = [name for index in indexes for name in _chunks(index)]
        chunks = [chunk for name in names if (chunk := await get(name)) is not None]
        if len(chunks) == len(names) or attempt == _ATTEMPTS:
            return Memory(version, [*indexes, *chunks])
    raise AssertionError("unreachable")


def _chunks(index: dict[str, Any]) -> tuple[str, ...]:
    try:
        return read_index(index).chunks
    except Damaged:
        return ()  # whoever unpacks the memory says so
