"""One kind of object, kept as the API server has it: list, then watch, and list again when that breaks.

The loop of the Kubernetes API concepts page: LIST in pages, WATCH from the list's version with bookmarks;
410 or an ERROR event means LIST again, and what differs from the cache is told as if it had been watched.
A server that says nothing for longer than its bookmarks take is gone, whatever its socket says.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from operators.client import ApiError, Client, Gone, error_of
from schedulers.objects.meta import Meta

log = structlog.get_logger()

#: Bookmarks come about every minute.
READ_TIMEOUT_S: Final = 75.0
PAGE: Final = 1000
_FIRST_PAUSE_S: Final = 0.2
_LAST_PAUSE_S: Final = 15.0


class Stored(Protocol):
    """An object with metadata."""

    metadata: Meta

    @property
    def key(self) -> str:
        """`namespace/name`, or the name."""


T = TypeVar("T", bound=Stored)


class Kind(msgspec.Struct, frozen=True):
    """A kind of object to keep: its name, its struct, and the collection's path."""

    name: str
    type: type[Any]
    path: str
    selector: str = ""


class Change(msgspec.Struct, frozen=True):
    """An object was added (old None), changed, or is gone (new None)."""

    kind: str
    old: Any
    new: Any


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct):
    metadata: _ListMeta


class Reflector(Generic[T]):
    """Keeps `objects` (by key) in step with the API server and tells every difference to `hear`.

    relists, errors, events: counters. heard_at: monotonic time of the last sign of life.
    """

    def __init__(self, client: Client, kind: Kind, hear: Callable[[Change], None]) -> None:
        self.kind, self.objects = kind, dict[str, T]()
        self.synced = False
        self.relists = self.errors = self.events = 0
        self.heard_at = time.monotonic()
        self._client, self._hear = client, hear
        self._decode = msgspec.json.Decoder(kind.type).decode
        self._page = msgspec.json.Decoder(_page_type(kind.type)).decode
        self._version = ""

    async def run(self) -> None:
        """List and watch until cancelled."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                pause = _FIRST_PAUSE_S
            except Gone:
                self._version = ""
            except (ApiError, msgspec.DecodeError, UnicodeDecodeError) as error:
                self.errors += 1
                if not isinstance(error, ApiError):
                    self._version = ""  # something unreadable: trust nothing but a fresh list
                log.warning("watch interrupted", kind=self.kind.name, why=str(error), again_in_s=round(pause, 1))
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (jitter, not a secret)
                pause = min(2 * pause, _LAST_PAUSE_S)

    # -- list -----------------------------------------------------------------------------------

    async def _list(self) -> None:
        found: dict[str, T] = {}
        params = {"limit": str(PAGE)}
        if self.kind.selector:
            params["labelSelector"] = self.kind.selector
        while True:
            page = self._page(await self._client.get_raw(self.kind.path, **params))
            found.update((item.key, item) for item in page.items)
            await asyncio.sleep(0)  # others may want to answer between two pages
            if not page.metadata.continue_:
                break
            params["continue"] = page.metadata.continue_
        self.relists += 1
        self._version = page.metadata.resourceVersion
        self.heard_at = time.monotonic()
        self.take(found)
        self.synced = True

    def take(self, found: dict[str, T]) -> None:
        """Make `found` the truth, and tell what differs from what was known."""
        for key in [key for key in self.objects if key not in found]:
            self._gone(key)
        for key, item in found.items():
            self._put(key, item)

    # -- watch ----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        params = {
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(300, 600)),  # noqa: S311 (spread over time, not a secret)
        }
        if self.kind.selector:
            params["labelSelector"] = self.kind.selector
        async for line in self._client.watch(self.kind.path, read_timeout_s=READ_TIMEOUT_S, **params):
            self.heard_at = time.monotonic()
            if line:
                self.take_line(line)

    def take_line(self, line: bytes) -> None:
        """One line of a watch. Raises Gone or another ApiError for ERROR events, DecodeError for nonsense."""
        event = _EVENT.decode(line)
        if event.type == "ERROR":
            raise error_of(msgspec.json.decode(event.object))
        if event.type == "BOOKMARK":
            self._version = _VERSIONED.decode(event.object).metadata.resourceVersion
            return
        self.events += 1
        item: T = self._decode(event.object)
        if event.type == "DELETED":
            there = self.objects.get(item.key)
            if there is not None and there.metadata.uid == item.metadata.uid:
                self.objects[item.key] = item  # its last state: a pod may have ended and gone at once
                self._gone(item.key)
        else:
            self._put(item.key, item)
        self._version = item.metadata.resourceVersion

    def _put(self, key: str, item: T) -> None:
        there = self.objects.get(key)
        if there is not None and there.metadata.uid != item.metadata.uid:
            self._gone(key)  # deleted and made again under the same name
            there = None
        if there is not None and _number(item.metadata.resourceVersion) <= _number(there.metadata.resourceVersion):
            return  # a repetition, or late
        self.objects[key] = item
        self._hear(Change(self.kind.name, there, item))

    def _gone(self, key: str) -> None:
        self._hear(Change(self.kind.name, self.objects.pop(key), None))


def _page_type(item: type[Any]) -> Any:
    return msgspec.defstruct("Page", [("items", list[item]), ("metadata", _ListMeta)])  # type: ignore[valid-type]


def _number(version: str) -> int:
    """Versions of one kind are ordered numbers (kubernetes/enhancements KEP-5504); what is not one counts as new."""
    return int(version) if version.isdecimal() else 1 << 62


_EVENT: Final = msgspec.json.Decoder(_Event)
_VERSIONED: Final = msgspec.json.Decoder(_Versioned)


def staleness_s(reflectors: Iterable[Reflector[Any]]) -> float:
    """Seconds since the last sign of life of the most silent of them."""
    now = time.monotonic()
    return max((now - reflector.heard_at for reflector in reflectors), default=0.0)
