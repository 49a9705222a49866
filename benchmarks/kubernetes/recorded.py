"""Recorded lists: what the API server answered, in a file, to be taken in again without one.

A recording is gzip of JSON lines, one `{"kind": "Pod", "page": {...}}` per page of a list, the page being the
answer itself. It holds whole objects, environment variables of pods included: its file is the owner's alone.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Final, NamedTuple

import msgspec
import yaml

from operators.cache.cache import KINDS, Cache
from operators.cache.reflector import PAGE, Kind, Listing
from operators.client import Client
from schedulers.objects.names import API_VERSION


class Page(NamedTuple):
    """One answer to a LIST: the kind's name, and the JSON as it came."""

    kind: str
    text: bytes


class InvalidRecording(ValueError):
    """A file that is no recording, or was cut short; the message says where."""


class _Line(msgspec.Struct):
    kind: str
    page: msgspec.Raw


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class _Continued(msgspec.Struct):
    metadata: _ListMeta


async def record(client: Client, path: Path, *, kinds: Iterable[Kind] = KINDS) -> int:
    """Write all objects of these kinds to `path`; returns the number of pages. Raises ApiError and OSError.

    Nothing is left at `path` if it fails half-way. Several kinds are listed one after the other, so a recording
    of a busy cluster is not of one moment.
    """
    pages = [page for kind in kinds for page in await _list(client, kind)]
    write(path, pages)
    return len(pages)


async def _list(client: Client, kind: Kind) -> list[Page]:
    params = {"limit": str(PAGE)} | ({"labelSelector": kind.selector} if kind.selector else {})
    pages: list[Page] = []
    while True:
        pages.append(Page(kind.name, await client.get_raw(kind.path, **params)))
        params["continue"] = _CONTINUED.decode(pages[-1].text).metadata.continue_
        if not params["continue"]:
            return pages


def write(path: Path, pages: Iterable[Page]) -> None:
    """Pages to a file, which is there as a whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # readable by its owner only
    try:
        with os.fdopen(handle, "wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
            for page in pages:
                line = _Line(page.kind, msgspec.Raw(msgspec.json.format(page.text, indent=-1)))
                file.write(msgspec.json.encode(line) + b"\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: Path) -> Iterator[Page]:
    """The pages of a recording, one after the other. Raises InvalidRecording, and OSError for no such file."""
    number = 0
    try:
        with gzip.open(path) as file:
            for text in file:
                line = _LINE.decode(text)
                number += 1
                yield Page(line.kind, bytes(line.page))
    except (gzip.BadGzipFile, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRecording(f"{path}: no recording, or cut short after line {number}: {error}") from None


async def feed(cache: Cache, path: Path) -> None:
    """Take a recording in as if it had just been listed. Raises InvalidRecording and OSError.

    The same code as for lists of the API server decodes it, holds it against what the cache has and tells the
    differences; of kinds that the recording lacks there are no objects.
    """
    listings = {kind: Listing() for kind in cache.reflectors}
    for page in load(path):
        if page.kind in listings:
            cache.reflectors[page.kind].take_page(page.text, listings[page.kind])
            await asyncio.sleep(0)
    for kind, listing in listings.items():
        await cache.reflectors[kind].take_end(listing)


_LINE: Final = msgspec.json.Decoder(_Line)
_CONTINUED: Final = msgspec.json.Decoder(_Continued)


# -- made up ------------------------------------------------------------------------------------

#: A node, a waiting pod, and what is more in one that runs.
_OBJECTS: Final = Path(__file__).with_name("objects.yaml")


def build(nodes: int, pods: int, *, page: int = PAGE) -> Iterator[Page]:
    """The lists of a cluster that never was: objects as large and as full of what we skip as real ones.

    Pods belong to Jobs of 100; nine in ten run on a node each, evenly; the rest is pending. The same numbers
    always give the same text.
    """
    node, pod, running = yaml.safe_load_all(_OBJECTS.read_text("utf-8"))
    node["status"]["images"] = [
        {"names": [f"registry.example.com/team/image-{n}@sha256:{n:064x}"], "sizeBytes": 10**8 + n} for n in range(50)
    ]
    pod["spec"]["containers"][0]["env"] = [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(12)]
    running = pod | {"spec": pod["spec"] | running["spec"], "status": running["status"]}
    one_node, pending, bound = (Template(msgspec.json.encode(part).decode()) for part in (node, pod, running))

    def pod_text(index: int) -> str:
        return (bound if nodes and index % 10 != 9 else pending).substitute(_pod(index, nodes))

    yield from _pages("Node", "v1", nodes, lambda index: one_node.substitute(_node(index)), page)
    yield from _pages("Queue", API_VERSION, 0, str, page)
    yield from _pages("DagJob", API_VERSION, 0, str, page)
    yield from _pages("Pod", "v1", pods, pod_text, page)


def _pages(kind: str, version: str, count: int, text_of: Callable[[int], str], size: int) -> Iterator[Page]:
    """An empty list is a page too."""
    for start in range(0, max(1, count), size):
        end = min(count, start + size)
        meta = {"resourceVersion": "900000"} | ({"continue": "next"} if end < count else {})
        items = [msgspec.Raw(text_of(index).encode()) for index in range(start, end)]
        text = {"kind": f"{kind}List", "apiVersion": version, "metadata": meta, "items": items}
        yield Page(kind, msgspec.json.encode(text))


def _uid(kind: int, index: int) -> str:
    return f"{kind:08x}-0000-4000-8000-{index:012x}"


def _node(index: int) -> dict[str, str]:
    return {
        "name": f"node-{index:05}",
        "uid": _uid(1, index),
        "version": str(100_000 + index),
        "machine": ("m6i.16xlarge", "c6i.16xlarge")[index % 2],
        "zone": "abc"[index % 3],
        "net": f"{index >> 8 & 255}.{index & 255}",
    }


def _pod(index: int, nodes: int) -> dict[str, str]:
    job = index // 100
    return {
        "job": f"report-{job:05}",
        "number": f"{index:05}",
        "namespace": f"team-{job % 40}",
        "uid": _uid(3, index),
        "owner": _uid(2, job),
        "version": str(200_000 + index),
        "cpu": str(250 * (1 + index % 8)),
        "memory": str(1 + index % 4),
        "node": f"node-{index % max(1, nodes):05}",
        "net": f"{64 + (index >> 16)}.{index >> 8 & 255}.{index & 255}",
        "container": f"{index:064x}",
    }
