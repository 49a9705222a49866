"""The cache against a server on loopback that does what API servers do on bad days."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from benchmarks.kubernetes.recorded import InvalidRecording, Page, build, feed, load, record, write
from operators.access import Access
from operators.cache.cache import Cache
from operators.cache.reflector import AWAY_PAUSE_S, Change, Kind, Listing, Reflector
from operators.client import ApiError, Client, Unreachable
from schedulers.objects.node import NodeObject
from schedulers.objects.pod import Pod

PODS = Kind("Pod", Pod, "/api/v1/pods")
NODES = Kind("Node", NodeObject, "/api/v1/nodes")
NOWHERE = Access(url="http://127.0.0.1:9")


def pod(name: str, version: int, *, uid: str = "", node: str = "") -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"nodeName": node}}


def event(kind: str, item: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item}) + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def error(code: int, reason: str = "") -> bytes:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "as scripted"})


Script = Callable[["Server", web.Request], Awaitable[web.StreamResponse]]


def saying(*lines: bytes, then: Callable[[], Awaitable[None]] | None = None) -> Script:
    """A watch that says these lines and ends cleanly, or does something else then."""

    async def script(_server: Server, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for line in lines:
            await answer.write(line)
        if then is not None:
            await then()
        return answer

    return script


async def for_ever() -> None:
    await asyncio.sleep(60)


def refusing(status: int, reason: str = "") -> Script:
    async def script(_server: Server, _request: web.Request) -> web.StreamResponse:
        return refusal(status, reason)

    return script


END_AT_ONCE: Script = saying()
SILENCE: Script = saying(then=for_ever)


class Server:
    """Lists `items`, in pages of `page`; each watch follows the next of `watches`, the last one again and again."""

    def __init__(self, *items: dict[str, Any], page: int = 500) -> None:
        self.items, self.page, self.version = list(items), page, 100
        self.watches: list[Script] = [SILENCE]
        self.asked: list[str] = []
        self.on_page: Callable[[int], None] = lambda _number: None
        self.refuse_lists: list[int] = []
        self.later: list[dict[str, Any]] = []  # what is there after the first list

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Client]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            async with Client(Access(url=f"http://127.0.0.1:{runner.addresses[0][1]}"), timeout_s=5) as client:
                yield client
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return self._list(request)
        self.asked.append(f"watch {request.query['resourceVersion']}")
        script = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0]
        return await script(self, request)

    def _list(self, request: web.Request) -> web.Response:
        start = int(request.query.get("continue", "0"))
        if not start:
            self.asked.append("list")
        if self.refuse_lists:
            return refusal(self.refuse_lists.pop(0))
        self.on_page(start // self.page)
        items, following = self.items[start : start + self.page], start + self.page
        meta = {"resourceVersion": str(self.version)}
        if following < len(self.items):
            meta["continue"] = str(following)
        if self.later:
            self.items, self.later, self.version = self.later, [], self.version + 100
        return web.json_response({"kind": "PodList", "metadata": meta, "items": items})


def refusal(status: int, reason: str = "") -> web.Response:
    body = {"kind": "Status", "code": status, "reason": reason, "message": "as scripted"}
    return web.json_response(body, status=status)


class Watched:
    """A reflector of pods and all that it told."""

    def __init__(self, client: Client, **settings: float) -> None:
        self.told: list[tuple[str, str]] = []
        self.reflector: Reflector[Pod] = Reflector(
            client,
            PODS,
            self.hear,
            **{"read_timeout_s": 5, "first_pause_s": 0.01, "last_pause_s": 0.05} | settings,
        )

    def hear(self, change: Change) -> None:
        what = "added" if change.old is None else "gone" if change.new is None else "changed"
        self.told.append((what, (change.new or change.old).metadata.name))

    @property
    def names(self) -> list[str]:
        return sorted(item.metadata.name for item in self.reflector.objects.values())

    @property
    def versions(self) -> dict[str, str]:
        return {item.metadata.name: item.metadata.resourceVersion for item in self.reflector.objects.values()}


def follow(server: Server, until: Callable[[Watched], bool], **settings: float) -> Watched:
    """Runs a reflector against the server until something holds. Fails after 5 s."""

    async def run() -> Watched:
        async with server.run() as client:
            watched = Watched(client, **settings)
            task = asyncio.create_task(watched.reflector.run())
            try:
                async with asyncio.timeout(5):
                    while not until(watched):
                        assert not task.done()
                        await asyncio.sleep(0.005)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return watched

    return asyncio.run(run())


# -- the ordinary course ------------------------------------------------------------------------


def test_what_is_listed_and_watched_is_kept_and_told() -> None:
    server = Server(pod("a", 1), pod("b", 2))
    server.watches = [
        saying(
            event("ADDED", pod("c", 101)),
            event("MODIFIED", pod("a", 102, node="n")),
            event("DELETED", pod("b", 103)),
            then=for_ever,
        )
    ]
    watched = follow(server, lambda w: w.reflector.events == 3)
    assert watched.names == ["a", "c"]
    assert watched.told == [("added", "a"), ("added", "b"), ("added", "c"), ("changed", "a"), ("gone", "b")]
    assert server.asked == ["list", "watch 100"]


def test_a_list_of_many_pages_is_taken_page_by_page() -> None:
    server = Server(*(pod(f"p{i}", i) for i in range(25)), page=10)
    known: list[int] = []
    watched_by: list[Watched] = []

    def until(watched: Watched) -> bool:
        watched_by[:] = [watched]
        return watched.reflector.synced

    server.on_page = lambda _number: known.append(len(watched_by[0].reflector.objects))
    watched = follow(server, until)
    assert known == [0, 10, 20]
    assert len(watched.names) == 25


def test_a_watch_that_ended_goes_on_from_its_last_version() -> None:
    server = Server(pod("a", 1))
    server.watches = [saying(event("ADDED", pod("b", 105)), bookmark(120)), SILENCE]
    follow(server, lambda _: len(server.asked) == 3)
    assert server.asked == ["list", "watch 100", "watch 120"]


def test_an_object_made_again_under_its_name_is_told_as_gone_and_added() -> None:
    server = Server(pod("a", 1))
    server.watches = [
        saying(event("MODIFIED", pod("a", 101, uid="another")), event("DELETED", pod("a", 99)), then=for_ever)
    ]
    watched = follow(server, lambda w: w.reflector.events == 2)
    assert watched.told == [("added", "a"), ("gone", "a"), ("added", "a")]


def test_a_late_event_changes_nothing() -> None:
    server = Server(pod("a", 50))
    server.watches = [saying(event("MODIFIED", pod("a", 49)), event("MODIFIED", pod("a", 50)), then=for_ever)]
    watched = follow(server, lambda w: w.reflector.events == 2)
    assert (watched.versions, watched.told) == ({"a": "50"}, [("added", "a")])


def test_the_last_state_of_what_is_gone_is_told() -> None:
    changes: list[Change] = []
    watched: Reflector[Pod] = Reflector(Client(NOWHERE), PODS, changes.append)
    watched.take_line(event("ADDED", pod("a", 1)))
    watched.take_line(event("DELETED", pod("a", 2, node="n1")))
    assert changes[-1].old.spec.nodeName == "n1"


# -- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        refusing(410, "Expired"),
        saying(error(410, "Expired")),
        saying(error(500, "InternalError")),
        saying(error(504, "Timeout")),
        saying(error(429, "TooManyRequests")),
        saying(event("ERROR", [])),  # type: ignore[arg-type]
        refusing(504, "Timeout"),
        refusing(400, "BadRequest"),
        saying(b'{"type": "ADDED", "object": {"met\n', then=for_ever),
        saying(b'{"type": "ADDED", "object": {"met'),
        saying(b"\xff\xff\n"),
        saying(b"null\n"),
    ],
    ids=lambda _: "",
)
def test_after_a_fault_the_cache_equals_a_fresh_list_and_tells_the_differences(fault: Script) -> None:
    server = Server(pod("a", 1), pod("b", 2))
    server.watches, server.later = [fault, SILENCE], [pod("b", 3), pod("c", 4)]
    watched = follow(server, lambda _: server.asked[-1:] == ["watch 200"])
    assert watched.versions == {"b": "3", "c": "4"}
    assert sorted(watched.told[2:]) == [("added", "c"), ("changed", "b"), ("gone", "a")]
    assert (watched.reflector.relists, watched.reflector.errors) == (1, 1)


@pytest.mark.parametrize("status", [429])
def test_a_server_that_asks_for_patience_is_not_made_to_list(status: int) -> None:
    server = Server(pod("a", 1))
    server.watches = [refusing(status), SILENCE]
    follow(server, lambda _: len(server.asked) == 3)
    assert server.asked == ["list", "watch 100", "watch 100"]


def test_a_connection_that_breaks_is_taken_up_where_it_was() -> None:
    async def abort(_server: Server, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(event("ADDED", pod("b", 101)) + b'{"type": "MODI')
        await asyncio.sleep(0.05)
        assert isinstance(request.transport, asyncio.Transport)
        request.transport.abort()
        return answer

    server = Server(pod("a", 1))
    server.watches = [abort, SILENCE]
    watched = follow(server, lambda _: len(server.asked) == 3)
    assert (watched.names, server.asked[-1]) == (["a", "b"], "watch 101")


def test_a_watch_that_says_nothing_for_longer_than_bookmarks_take_is_given_up_for_a_fresh_list() -> None:
    """The socket may be half open, or the version one that the server waits for in silence (etcd was restored)."""
    server = Server(pod("a", 1))
    server.later = [pod("b", 2)]
    watched = follow(server, lambda _: len(server.asked) >= 3, read_timeout_s=0.1)
    assert (watched.reflector.errors, server.asked[:3]) == (1, ["list", "watch 100", "list"])


def test_bookmarks_alone_keep_a_watch_alive_and_fresh() -> None:
    async def bookmarks(_server: Server, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for number in range(101, 150):
            await answer.write(bookmark(number))
            await asyncio.sleep(0.05)
        return answer

    server = Server(pod("a", 1))
    server.watches = [bookmarks, SILENCE]
    began = time.monotonic()
    watched = follow(server, lambda w: w.reflector.heard_at > began + 0.8, read_timeout_s=0.4)
    assert (watched.reflector.errors, server.asked) == (0, ["list", "watch 100"])


def tries(script: Script, seconds: float) -> int:
    """How often a server that always does so is asked."""
    server, end = Server(pod("a", 1)), time.monotonic() + seconds
    server.watches = [script]
    follow(server, lambda _: time.monotonic() > end, first_pause_s=0.05, last_pause_s=10)
    return len(server.asked)


@pytest.mark.parametrize(
    "script",
    [END_AT_ONCE, refusing(410), refusing(500), saying(error(410)), saying(b"{\n")],
    ids=["ends at once", "410", "500", "ERROR 410", "nonsense"],
)
def test_a_server_that_says_nothing_is_asked_less_and_less(script: Script) -> None:
    # Pauses of 50, 100, 200, 400 ms, each up to half as long or half again: at most 5 tries of 2 requests in 1 s.
    assert tries(script, 1.0) <= 12


def test_a_server_that_is_away_is_found_again_soon_however_long_it_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, paused = [], []

    class Away:
        async def get_raw(self, path: str, **params: str) -> bytes:
            asked.append(path)
            raise Unreachable("connection refused")

    async def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 20:
            raise asyncio.CancelledError

    async def run() -> None:
        monkeypatch.setattr("operators.cache.reflector.asyncio.sleep", pause)
        watched: Reflector[Pod] = Reflector(cast(Client, Away()), PODS, lambda change: None)
        with contextlib.suppress(asyncio.CancelledError):
            await watched.run()

    asyncio.run(run())
    assert len(asked) == 20
    assert max(paused) <= 1.5 * AWAY_PAUSE_S


def test_a_server_that_says_something_is_asked_again_soon() -> None:
    server, end = Server(pod("a", 1)), time.monotonic() + 1
    server.watches = [saying(bookmark(100))]
    follow(server, lambda _: time.monotonic() > end, first_pause_s=0.02, last_pause_s=10)
    assert 15 <= len(server.asked) <= 105


def test_a_list_whose_continue_token_expires_begins_again() -> None:
    server = Server(*(pod(f"p{i}", i) for i in range(25)), page=10)

    def expire(number: int) -> None:
        if number == 1 and server.asked == ["list"]:
            server.refuse_lists.append(410)

    server.on_page = expire
    watched = follow(server, lambda w: w.reflector.synced)
    assert server.asked[:2] == ["list", "list"]
    assert len(watched.names) == 25


def test_nothing_is_synced_before_the_list_is_complete() -> None:
    server = Server(pod("a", 1))
    server.refuse_lists = [500, 403]
    watched = follow(server, lambda w: w.reflector.synced)
    assert (watched.reflector.errors, watched.reflector.relists, watched.names) == (2, 0, ["a"])


def test_a_list_wins_over_the_cache_even_with_older_versions() -> None:
    server = Server(pod("a", 90, node="n1"))
    server.later = [pod("a", 7)]
    server.watches = [saying(error(410)), saying(event("MODIFIED", pod("a", 11, node="n2")), then=for_ever)]
    watched = follow(server, lambda w: w.reflector.events == 1)
    assert watched.told == [("added", "a"), ("changed", "a"), ("changed", "a")]
    assert watched.reflector.objects["ns/a"].spec.nodeName == "n2"


# -- objects that cannot be read ----------------------------------------------------------------


def broken(name: str, version: int) -> dict[str, Any]:
    made = pod(name, version)
    made["spec"]["nodeName"] = 17
    return made


def test_an_object_that_cannot_be_read_does_not_keep_others_out() -> None:
    watched = follow(Server(pod("a", 1), broken("b", 2), pod("c", 3)), lambda w: w.reflector.synced)
    assert (watched.names, watched.reflector.unreadable) == (["a", "c"], 1)


def test_an_event_that_cannot_be_read_does_not_end_the_watch() -> None:
    server = Server(pod("a", 1))
    server.watches = [
        saying(event("MODIFIED", broken("a", 101)), event("ADDED", pod("b", 102))),
        SILENCE,
    ]
    watched = follow(server, lambda _: len(server.asked) == 3)
    assert (watched.names, watched.reflector.unreadable) == (["a", "b"], 1)
    assert server.asked == ["list", "watch 100", "watch 102"]


def test_what_cannot_be_read_any_more_stays_as_it_was_known_until_it_is_gone() -> None:
    watched = Watched(Client(NOWHERE))
    watched.reflector.take_line(event("ADDED", pod("a", 1)))
    page = {"metadata": {"resourceVersion": "9"}, "items": [broken("a", 5)]}
    listing = Listing()
    watched.reflector.take_page(msgspec.json.encode(page), listing)
    asyncio.run(watched.reflector.take_end(listing))
    assert watched.names == ["a"]
    watched.reflector.take_line(event("DELETED", broken("a", 10)))
    assert watched.told == [("added", "a"), ("gone", "a")]


@pytest.mark.parametrize("nameless", [{}, {"metadata": {"name": 1}}, {"metadata": None}])
def test_an_object_without_even_a_name_is_left_out(nameless: Any) -> None:
    watched = follow(Server(pod("a", 1), nameless, pod("c", 3)), lambda w: w.reflector.synced)
    assert watched.names == ["a", "c"]


def test_null_is_as_good_as_nothing() -> None:
    nulls = pod("a", 1)
    nulls["spec"] |= {"tolerations": None, "affinity": None, "containers": [{"name": "c", "ports": None}]}
    watched = follow(Server(nulls), lambda w: w.reflector.synced)
    assert (watched.names, watched.reflector.unreadable) == (["a"], 0)


def test_an_empty_list_may_be_null() -> None:
    watched = Watched(Client(NOWHERE))
    assert watched.reflector.take_page(b'{"metadata": {"resourceVersion": "1"}, "items": null}', Listing()) == ""


# -- who hears ----------------------------------------------------------------------------------


def test_a_hearer_that_breaks_stops_neither_watch_nor_cache() -> None:
    def hear(_change: Change) -> None:
        raise TypeError("a mistake")

    async def run() -> tuple[list[str], int]:
        server = Server(pod("a", 1))
        server.watches = [saying(event("ADDED", pod("b", 101)), then=for_ever)]
        async with server.run() as client:
            cache = Cache(client, hear, kinds=[PODS])
            task = asyncio.create_task(cache.run())
            async with asyncio.timeout(5):
                while len(cache.pods) < 2:
                    await asyncio.sleep(0.005)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return sorted(cache.pods), cache.reflectors["Pod"].unheard

    assert asyncio.run(run()) == (["ns/a", "ns/b"], 2)


def test_others_get_their_turn_while_a_long_list_is_taken_in() -> None:
    turns: list[int] = []

    async def run() -> None:
        cache = Cache(Client(NOWHERE), lambda _: None)
        listing, pods = Listing(), cache.reflectors["Pod"]
        for page in build(0, 2000):
            if page.kind == "Pod":
                pods.take_page(page.text, listing)
        await pods.take_end(listing)

        async def other() -> None:
            while True:
                turns.append(len(cache.pods))
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await pods.take_end(Listing())
        task.cancel()

    asyncio.run(run())
    assert len([count for count in turns if 0 < count < 2000]) >= 3


def test_the_most_silent_kind_says_how_stale_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(Client(NOWHERE), lambda _: None, kinds=[PODS, NODES])
    cache.reflectors["Pod"].heard_at, cache.reflectors["Node"].heard_at = 100.0, 90.0
    monkeypatch.setattr(time, "monotonic", lambda: 130.0)
    assert cache.staleness_s() == 40.0


# -- recordings ---------------------------------------------------------------------------------


def take(path: Path, cache: Cache | None = None) -> Cache:
    cache = cache or Cache(Client(NOWHERE), lambda _: None)
    asyncio.run(feed(cache, path))
    return cache


def test_a_made_up_cluster_is_taken_in_whole(tmp_path: Path) -> None:
    write(tmp_path / "r", build(7, 30, page=10))
    cache = take(tmp_path / "r")
    assert (len(cache.nodes), len(cache.pods), len(cache.dagjobs), cache.synced) == (7, 30, 0, True)
    assert {one.spec.nodeName for one in cache.pods.values()} - {""} <= set(cache.nodes)
    assert not any(kind.unreadable for kind in cache.reflectors.values())


def test_the_same_numbers_make_the_same_recording(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, build(3, 20))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_was_recorded_of_a_server_is_what_its_cache_holds(tmp_path: Path) -> None:
    async def run() -> dict[str, Any]:
        server = Server(*(pod(f"p{i}", i) for i in range(25)), page=10)
        async with server.run() as client:
            assert await record(client, tmp_path / "r", kinds=[PODS]) == 3
        return {item["metadata"]["name"]: item for item in server.items}

    items = asyncio.run(run())
    assert sorted(take(tmp_path / "r").pods) == sorted(f"ns/{name}" for name in items)
    assert [page.kind for page in load(tmp_path / "r")] == ["Pod"] * 3


def test_what_a_second_recording_lacks_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "a", build(3, 20))
    write(tmp_path / "b", build(2, 10))
    assert len(take(tmp_path / "b", take(tmp_path / "a")).pods) == 10


def test_a_recording_is_for_its_owner_alone(tmp_path: Path) -> None:
    write(tmp_path / "r", build(0, 1))
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600


def test_a_recording_that_fails_half_way_leaves_the_one_before(tmp_path: Path) -> None:
    write(tmp_path / "r", build(1, 0))

    async def run() -> None:
        server = Server(pod("a", 1))
        server.refuse_lists = [500]
        async with server.run() as client:
            with pytest.raises(ApiError):
                await record(client, tmp_path / "r", kinds=[PODS])

    asyncio.run(run())
    with pytest.raises(msgspec.DecodeError):
        write(tmp_path / "r", [Page("Pod", b"{")])
    assert [file.name for file in tmp_path.iterdir()] == ["r"]
    assert len(take(tmp_path / "r").nodes) == 1


@pytest.mark.parametrize("damage", [lambda b: b[:-20], lambda b: b"text", lambda _: gzip.compress(b"{}\n")])
def test_a_damaged_recording_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "r"
    write(file, build(1, 5))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InvalidRecording, match="r: no recording, or cut short after line"):
        take(file)
