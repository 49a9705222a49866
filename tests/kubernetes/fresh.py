"""A control plane is made as it was when it was fresh, in less time than a new one takes.

Which kinds there are comes from the API server, so none is listed here: whatever has come since is deleted, whatever
is gone or changed is put back. Nodes are made anew, because kubelets write to them all the time.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from devcluster.cluster import PARTS, Devcluster
from devcluster.reading import Kind
from operators.client import ApiError, Client

#: By the path of each.
Objects = dict[str, dict[str, Any]]

#: At once and not by whoever else would have to agree.
_AT_ONCE: Final = {
    "kind": "DeleteOptions",
    "apiVersion": "v1",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
}
#: Nothing has come for so long: what the control plane makes for itself is there.
_SETTLED_S: Final = 1.0
_LONGEST_S: Final = 60.0
#: Written again and again by the control plane: only whether they are there is looked at.
_RENEWED: Final = "/leases/"
_NODES: Final = "/api/v1/nodes/"
#: The same objects by another name.
_TWICE: Final = "/apis/events.k8s.io/"


class Fresh:
    """Remembers what a control plane holds, and makes it so again."""

    def __init__(self, cluster: Devcluster, *, nodes: int) -> None:
        self.cluster, self._nodes = cluster, nodes
        self.objects = settled(cluster)
        self._parts = {part for part, pid in cluster.status().items() if pid is not None}
        self._files = {file.name for file in cluster.folder.iterdir()}

    def restore(self) -> None:
        """Parts that run, objects, nodes, and files of the folder."""
        for part in reversed(PARTS):
            if part not in self._parts:
                self.cluster.stop(part)
        for part in PARTS:
            if part in self._parts and self.cluster.processes[part].pid() is None:
                self.cluster.start(part)
        asyncio.run(self._objects_as_before())
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        self.cluster.add_nodes(self._nodes, reserved=True)
        for file in self.cluster.folder.iterdir():
            if file.name not in self._files:
                shutil.rmtree(file) if file.is_dir() else file.unlink()

    async def _objects_as_before(self) -> None:
        async with self.cluster.client() as client:
            until = time.monotonic() + _LONGEST_S
            while later := [path for path in await self._listed(client) if self._is_later(path)]:
                assert time.monotonic() < until, f"they do not go: {sorted(later)}"
                await asyncio.gather(*(_delete(client, path) for path in later))
                await asyncio.sleep(0.1)
            await self._put_back(client, await self._listed(client))

    async def _listed(self, client: Client) -> Objects:
        return await listed(client, listable(self.cluster))

    def _is_later(self, path: str) -> bool:
        return path not in self.objects or path.startswith(_NODES)

    async def _put_back(self, client: Client, there: Objects) -> None:
        """What is gone or changed; namespaces before what is in them."""
        for path, item in sorted(self.objects.items(), key=lambda entry: entry[0].count("/")):
            if path.startswith(_NODES):
                continue
            if path not in there:
                await _create(client, path, {**item, "metadata": _given(item["metadata"])})
            elif content(path, item) != content(path, there[path]):
                meta = _given(item["metadata"]) | {"resourceVersion": there[path]["metadata"]["resourceVersion"]}
                await client.replace(path, {**item, "metadata": meta})


def settled(cluster: Devcluster) -> Objects:
    """All objects, once no more come: the control plane makes some for itself, a moment after it answers."""
    found, until = objects(cluster), time.monotonic() + _LONGEST_S
    while time.monotonic() < until:
        time.sleep(_SETTLED_S)
        before, found = found, objects(cluster)
        if before.keys() == found.keys():
            return found
    raise AssertionError(f"more come all the time: {sorted(found)}")


def objects(cluster: Devcluster) -> Objects:
    """All that can be listed and deleted."""

    async def do() -> Objects:
        async with cluster.client() as client:
            return await listed(client, listable(cluster))

    return asyncio.run(do())


async def listed(client: Client, kinds: Iterable[Kind]) -> Objects:
    """As `objects`."""
    found: Objects = {}
    for each in await asyncio.gather(*(_list(client, kind) for kind in kinds)):
        found |= each
    return found


def listable(cluster: Devcluster) -> list[Kind]:
    """The kinds that can be listed and deleted; Events once, not by their other name too."""
    kinds = [kind for kind in cluster.reader.kinds() if {"list", "delete"} <= kind.verbs]
    return [kind for kind in kinds if not kind.base.startswith(_TWICE)]


async def _list(client: Client, kind: Kind) -> Objects:
    found = {}
    for item in await _items(client, kind):
        meta = item["metadata"]
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **item}
        found[kind.path(meta.get("namespace"), meta["name"])] = whole
    return found


async def _items(client: Client, kind: Kind) -> list[dict[str, Any]]:
    """None of a kind whose definition has gone; of one that has just come the API server asks for patience."""
    until = time.monotonic() + _LONGEST_S
    while True:
        try:
            items: list[dict[str, Any]] = (await client.get(kind.path(None, None)))["items"]
        except ApiError as error:
            if error.status == 404:
                return []
            if not error.is_transient or time.monotonic() > until:
                raise
            await asyncio.sleep(0.2)
        else:
            return items


async def _create(client: Client, path: str, item: dict[str, Any]) -> None:
    """Some come by themselves with others, as the entry of a definition's group does."""
    try:
        await client.create(path.rpartition("/")[0], item)
    except ApiError as error:
        if error.status != 409:
            raise


async def _delete(client: Client, path: str) -> None:
    """What cannot be deleted yet is tried again: our rules protect some objects as long as they are in force."""
    with suppress(ApiError):
        await client.delete(path, _AT_ONCE)


def content(path: str, item: Mapping[str, Any]) -> Any:
    """What was given, not what the API server and the controllers add to it; of what is renewed, nothing."""
    if _RENEWED in path:
        return None
    return {name: value for name, value in item.items() if name not in ("status", "metadata")}, _given(item["metadata"])


def _given(meta: Mapping[str, Any]) -> dict[str, Any]:
    added = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
    return {name: value for name, value in meta.items() if name not in added}
