"""One kind of object, kept as the API server has it: list, then watch, and list again when the watch breaks.

The loop of the Kubernetes API concepts page: LIST in pages, WATCH from the list's version with bookmarks; 410 or an
ERROR event means LIST again, and differences from the cache are told as if watched. A server silent for longer than its
bookmarks take is gone, whatever its socket says.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
import structlog

from operators.client import ApiError, Client, Unreachable, error_of
from operators.metrics import RELISTS, UNHEARD, UNREADABLE, WATCH_ERRORS
from schedulers.objects.meta import Stored, without_nulls
from schedulers.objects.nesting import cut

log = structlog.get_logger()

#: Bookmarks come about every minute.
READ_TIMEOUT_S: Final = 75.0
#: Between two tries: at first, and at most while nothing is heard (doubled from try to try).
FIRST_PAUSE_S: Final = 0.2
LAST_PAUSE_S: Final = 15.0
#: Between two tries while the API server is away, at most: a refused connection burdens nobody, and everybody waits for
#: the first answer.
AWAY_PAUSE_S: Final = 1.0
#: Objects per page of a list; others get their turn on the event loop between two pages.
PAGE: Final = 500

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


class _RawPage(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Name(msgspec.Struct):
    """Name and version of an unreadable object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Named(msgspec.Struct):
    metadata: _Name


class Listing:
    """A list on its way in: the keys named by its pages, and the version from which a watch goes on."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.version = ""


class Reflector(Generic[T]):
    """Keeps `objects` (by key) in step with the API server and passes every difference on to `hear`.

    `relists`, `errors`, `events`, `unreadable` (objects left out, not typed as the API says) and `unheard` are
    counters. `heard_at` is the monotonic time of the last sign of life. `watching`: a watch is open (since
    `opened_at`), and goes on from a complete list. A `hear` that raises is our own mistake: logged and counted
    (`unheard`), and the cache itself stays right.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        hear: Callable[[Change], None],
        *,
        read_timeout_s: float = READ_TIMEOUT_S,
        first_pause_s: float = FIRST_PAUSE_S,
        last_pause_s: float = LAST_PAUSE_S,
    ) -> None:
        self.kind, self.objects = kind, dict[str, T]()
        self.synced = self.watching = False
        self.relists = self.errors = self.events = self.unreadable = self.unheard = 0
        self.heard_at = self.opened_at = time.monotonic()
        self._client, self._hear = client, hear
        self._read_timeout_s, self._first_pause_s, self._last_pause_s = read_timeout_s, first_pause_s, last_pause_s
        self._decode = msgspec.json.Decoder(kind.type).decode
        self._decode_page = msgspec.json.Decoder(_page_type(kind.type)).decode
        self._relists, self._watch_errors = RELISTS.labels(kind=kind.name), WATCH_ERRORS.labels(kind=kind.name)
        self._version = ""
        self._heard = self._answered = False
        self._open: asyncio.Timeout | None = None

    async def run(self) -> None:
        """List and watch until cancelled.

        Between any two tries there is a pause, doubled while no try brings an event or a bookmark: a server that closes
        every watch at once, or lists but refuses to watch, is not asked in a hot loop. A server without any answer is
        asked every second or sooner.
        """
        pause = self._first_pause_s
        while True:
            self._heard = self._answered = False
            began = time.monotonic()
            try:
                if not self._version:
                    await self._list()
                    began = time.monotonic()
                await self._watch()
            except (ApiError, msgspec.DecodeError, UnicodeDecodeError) as error:
                self._failed(error, silent=not self._heard and time.monotonic() - began >= self._read_timeout_s)
                is_away = isinstance(error, Unreachable) and not self._answered
            else:
                is_away = False
            if self._heard or is_away:
                pause = self._first_pause_s
            longest = min(AWAY_PAUSE_S, self._last_pause_s)
            await asyncio.sleep((longest if is_away else pause) * random.uniform(0.5, 1.5))  # noqa: S311 (jitter)
            pause = min(2 * pause, self._last_pause_s)

    def reopen(self) -> None:
        """Open the watch anew, from its version: after a break nobody may hear its connection any more."""
        if self.watching and self._open is not None:
            self.watching = False
            self._open.reschedule(asyncio.get_running_loop().time())

    def _failed(self, error: Exception, *, silent: bool) -> None:
        """After silence the watch goes on from its version; any other fault asks for a fresh list.

        A version unknown to the server (etcd was restored) is refused with many codes, not just with 410, or not at
        all: the API server then waits in silence, without bookmarks, until etcd has come as far.
        """
        self.errors += 1
        self._watch_errors.inc()
        patience = isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.status == 429)
        if silent or not patience:
            self._version = ""
        log.warning("watch interrupted", kind=self.kind.name, why=str(error), list_again=not self._version)

    def is_past(self, version: str) -> bool:
        """Whether the watch has come as far as this version: a readable write of the version has been told."""
        return bool(self._version) and _number(self._version) >= _number(version)

    # -- list -----------------------------------------------------------------------------------

    async def _list(self) -> None:
        listing, params = Listing(), self._params(limit=str(PAGE))
        if self.synced:
            self.relists += 1
            self._relists.inc()
        while True:
            page = await self._client.get_raw(self.kind.path, **params)
            self._answered = True
            params["continue"] = self.take_page(page, listing)
            if not params["continue"]:
                break
            await asyncio.sleep(0)
        await self.take_end(listing)

    def take_page(self, page: bytes, listing: Listing) -> str:
        """One page of a list; returns the token of the next, '' after the last. Raises DecodeError for nonsense.

        A list is the truth: any version other than the cached one counts, older ones too (etcd was restored).
        """
        items, meta = self._read_page(page, listing)
        listing.version = listing.version or meta.resourceVersion
        for item in items:
            key = item.key
            listing.seen.add(key)
            known = self.objects.get(key)
            if known is None or known.metadata.resourceVersion != item.metadata.resourceVersion:
                self._put(key, known, item)
        self.heard_at = time.monotonic()
        return meta.continue_

    async def take_end(self, listing: Listing) -> None:
        """The list is complete: objects without a name in the list are gone."""
        gone = [key for key in self.objects if key not in listing.seen]
        for number, key in enumerate(gone, 1):
            self._gone(key)
            if number % PAGE == 0:
                await asyncio.sleep(0)
        self._version = listing.version
        self.synced = True

    def _read_page(self, page: bytes, listing: Listing) -> tuple[list[T], _ListMeta]:
        try:
            whole = self._decode_page(page)
        except RecursionError:  # of one object, and all others must not pay
            return self._read_page(cut(page), listing)
        except msgspec.ValidationError:
            parts = _RAW_PAGE.decode(page)
            return [item for raw in parts.items or () if (item := self._read(raw, listing)) is not None], parts.metadata
        return whole.items or [], whole.metadata

    def _read(self, raw: msgspec.Raw, listing: Listing) -> T | None:
        """An object, or None if not typed as the API says; a copy known from before stays."""
        try:
            return self._object(raw)
        except msgspec.ValidationError as error:
            listing.seen.add(self._cannot_read(raw, error).key)
            return None

    def _object(self, raw: msgspec.Raw) -> T:
        try:
            return cast(T, self._decode(raw))
        except msgspec.ValidationError:
            return cast(T, msgspec.convert(without_nulls(msgspec.json.decode(raw)), self.kind.type))

    def _cannot_read(self, raw: msgspec.Raw, error: msgspec.ValidationError) -> _Name:
        self.unreadable += 1
        UNREADABLE.labels(kind=self.kind.name).inc()
        try:
            name = _NAMED.decode(raw).metadata
        except msgspec.ValidationError:
            name = _Name()
        log.error("an object cannot be read and is left out", kind=self.kind.name, name=name.key, why=str(error))
        return name

    # -- watch ----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        seconds = str(random.randint(300, 600))  # noqa: S311 (spread over time, not a secret)
        params = self._params(resourceVersion=self._version, timeoutSeconds=seconds)
        lines = self._client.watch(self.kind.path, read_timeout_s=self._read_timeout_s, **params)
        try:
            async with asyncio.timeout(None) as self._open:
                async for line in lines:
                    if not self.watching:
                        self.opened_at = time.monotonic()
                    self.watching = self._answered = True
                    if line:
                        self.take_line(line)
        except TimeoutError:
            log.info("the watch is opened anew after a break", kind=self.kind.name)
            self._heard = True
        finally:
            self.watching = False

    def take_line(self, line: bytes) -> None:
        """One line of a watch. Raises ApiError for an ERROR event, DecodeError for nonsense."""
        try:
            event = _EVENT.decode(line)
        except RecursionError:
            event = _EVENT.decode(cut(line))
        if event.type == "ERROR":
            self._version = ""
            raise error_of(msgspec.json.decode(event.object))
        if event.type == "BOOKMARK":
            version = _NAMED.decode(event.object).metadata.resourceVersion
        else:
            self.events += 1
            version = self._take_event(event)
        self._version = version or self._version
        self._heard, self.heard_at = True, time.monotonic()

    def _take_event(self, event: _Event) -> str:
        """Returns the event's version."""
        try:
            item = self._object(event.object)
        except msgspec.ValidationError as error:
            return self._take_unreadable(event, error)
        key, known = item.key, self.objects.get(item.key)
        if event.type == "DELETED":
            if known is not None and known.metadata.uid == item.metadata.uid:
                self.objects[key] = item  # its last state: a pod may have ended and gone at once
                self._gone(key)
        elif known is None or known.metadata.uid != item.metadata.uid or _is_later(item, known):
            self._put(key, known, item)
        return item.metadata.resourceVersion

    def _take_unreadable(self, event: _Event, error: msgspec.ValidationError) -> str:
        """The end of an object can be told without reading the object."""
        name = self._cannot_read(event.object, error)
        known = self.objects.get(name.key)
        if event.type == "DELETED" and known is not None and known.metadata.uid == name.uid:
            self._gone(name.key)
        return name.resourceVersion

    # -- differences ----------------------------------------------------------------------------

    def _put(self, key: str, known: T | None, item: T) -> None:
        if known is not None and known.metadata.uid != item.metadata.uid:
            self._gone(key)  # deleted and made again under the same name
            known = None
        self.objects[key] = item
        self._pass_on(known, item)

    def _gone(self, key: str) -> None:
        self._pass_on(self.objects.pop(key), None)

    def _pass_on(self, old: T | None, new: T | None) -> None:
        try:
            self._hear(Change(self.kind.name, old, new))
        except Exception:
            self.unheard += 1
            UNHEARD.labels(kind=self.kind.name).inc()
            item = new if new is not None else old
            log.exception("a change could not be taken in", kind=self.kind.name, name=item and item.key)

    def _params(self, **params: str) -> dict[str, str]:
        return {**params, "labelSelector": self.kind.selector} if self.kind.selector else params


def _page_type(item: type[Any]) -> Any:
    items = list[item] | None  # type: ignore[valid-type]
    return msgspec.defstruct("Page", [("metadata", _ListMeta), ("items", items, None)])


def _is_later(item: Stored, known: Stored) -> bool:
    """Versions of one kind are ordered numbers (kubernetes/enhancements KEP-5504); any other text counts as new."""
    return _number(item.metadata.resourceVersion) > _number(known.metadata.resourceVersion)


def _number(version: str) -> float:
    return int(version) if version.isdecimal() else float("inf")


_EVENT: Final = msgspec.json.Decoder(_Event)
_NAMED: Final = msgspec.json.Decoder(_Named)
_RAW_PAGE: Final = msgspec.json.Decoder(_RawPage)
