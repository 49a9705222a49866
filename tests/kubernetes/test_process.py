"""The brain's process: a part that breaks is made anew once, and never missing in silence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from operators.cache.cache import Change
from operators.cache.reflector import Reflector
from operators.client import ApiError, Client, Unreachable
from operators.extender import process as module
from operators.extender.config import BrainConfig, Snapshot, Storage
from operators.extender.process import LAG_S, BrainProcess, Broken
from operators.extender.snapshots import Snapshots
from operators.lease import LeaderElection
from operators.serving.ports import ExtenderPort
from operators.serving.program import cause_of
from schedulers.core.events import NodeAdded
from schedulers.core.following import Follower
from schedulers.core.model import Node, PastJob
from schedulers.objects.memory import (
    HISTORY,
    SNAPSHOT,
    BrainSnapshot,
    Index,
    LogPlace,
    read_index,
    unpack,
    unpack_since,
)
from schedulers.objects.meta import Meta
from schedulers.objects.node import NodeObject
from schedulers.objects.pod import Pod
from tests.kubernetes.store import Store, StoreClient, until

CONFIG = BrainConfig(extender=ExtenderPort(tls=None), policy={"kind": "fifo"})
LEASE = "/apis/coordination.k8s.io/v1/namespaces/rm-system/leases/rm-brain-leader"


class Mistake(Exception):
    """One of ours."""


def fails(times: int, after: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """What raises so many times, and is `after` from then on."""
    left = [times]

    def act(*args: Any, **settings: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise Mistake
        return after(*args, **settings) if after is not None else None

    return act


class Candidate:
    """A brain that hears of nothing but what a test tells it, and its campaign."""

    def __init__(self, store: Store, folder: Path, name: str = "brain-0") -> None:
        storage = Storage(dir=str(folder / name), log="hash")
        config = BrainConfig(
            extender=ExtenderPort(tls=None),
            policy={"kind": "fifo"},
            snapshot=Snapshot(every_s=0.2),
            storage=storage,
            leader_election=LeaderElection(),
        )
        self.process = BrainProcess(config, cast(Client, StoreClient(store)), identity=name)
        self.process.cache._looks_for_groups = False
        for reflector in self.process.cache.reflectors.values():
            reflector.synced = True
        self.campaign = asyncio.ensure_future(self.process._campaign())

    async def hear(self) -> None:
        while True:
            self.process.cache._hearing.heard()
            for reflector in self.process.cache.reflectors.values():
                reflector.heard_at = asyncio.get_running_loop().time()
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def campaigning(store: Store, folder: Path, name: str = "brain-0") -> AsyncIterator[Candidate]:
    candidate = Candidate(store, folder, name)
    hearing = asyncio.ensure_future(candidate.hear())
    try:
        yield candidate
    finally:
        for task in (candidate.campaign, hearing):
            task.cancel()
        await asyncio.gather(candidate.campaign, hearing, return_exceptions=True)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken term is followed by the next at once."""
    monkeypatch.setattr(module, "ANEW_S", 0.0)


def ending(folder: Path) -> tuple[BaseException, str]:
    """With what a campaign ends by itself, and who then holds the Lease."""

    async def main() -> tuple[BaseException, str]:
        store = Store()
        async with campaigning(store, folder) as candidate:
            await asyncio.wait({candidate.campaign}, timeout=10)
            error = candidate.campaign.exception()
            assert error is not None
            return cause_of(error), store.objects[LEASE]["spec"]["holderIdentity"]

    return asyncio.run(main())


def test_a_takeover_that_fails_twice_gives_the_lease_back_and_is_raised(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "take_over", fails(2))
    error, holder = ending(tmp_path)
    assert isinstance(error, Mistake)
    assert holder == ""


@pytest.mark.parametrize("loop", ["_cycles", "_every_second", "_save"])
def test_a_loop_that_breaks_in_two_terms_gives_the_lease_back_and_is_raised(
    loop: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(self: BrainProcess, term: Any) -> None:
        raise Mistake

    monkeypatch.setattr(BrainProcess, loop, breaks)
    error, holder = ending(tmp_path)
    assert isinstance(error, Mistake)
    assert holder == ""


def led_after(folder: Path, breaks: Callable[[BrainProcess], None] = lambda process: None) -> list[bool]:
    """Whether each takeover until a term lasts may use the snapshot. breaks: done once the first term is there."""
    asked: list[bool] = []

    async def main() -> None:
        async with campaigning(Store(), folder) as candidate:
            process = candidate.process
            begins = process._take_over

            async def take_over(*, use_snapshot: bool) -> Any:
                asked.append(use_snapshot)
                return await begins(use_snapshot=use_snapshot)

            cast(Any, process)._take_over = take_over
            await until(lambda: process.term is not None)
            first = process.term
            breaks(process)
            await until(lambda: process.term is not None and (len(asked) > 1 or process.term is first))
            assert not candidate.campaign.done()

    asyncio.run(main())
    return asked


def test_a_takeover_that_fails_once_is_made_again_without_the_snapshot(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "take_over", fails(1, module.take_over))
    assert led_after(tmp_path) == [True, False]


def test_a_fact_that_breaks_the_brain_ends_the_term_and_a_new_one_begins_without_the_snapshot(
    tmp_path: Path, quick: None
) -> None:
    def breaks(process: BrainProcess) -> None:
        assert process.term is not None
        process.term.brain.hear = fails(1)
        process._hear(Change("Node", None, NodeObject(metadata=Meta(name="n0"))))
        assert process.term is None

    assert led_after(tmp_path, breaks) == [True, False]


def test_a_fact_that_breaks_every_term_ends_no_process(tmp_path: Path, quick: None) -> None:
    async def main() -> None:
        async with campaigning(Store(), tmp_path) as candidate:
            for _ in range(5):
                await until(lambda: candidate.process.term is not None)
                term = candidate.process.term
                assert term is not None
                term.brain.filter = fails(1)
                candidate.process.filter(Pod(metadata=Meta(name="p", namespace="ns")), ["n0"])
            await until(lambda: candidate.process.term is not None)

    asyncio.run(main())


def test_what_broke_a_term_is_told_with_its_fact() -> None:
    pod = Pod(metadata=Meta(name="p", namespace="ns"))
    broken = Broken(Change("Pod", pod, None), ValueError("no number"))
    assert broken.change.old is pod
    assert str(broken) == "Pod ns/p: ValueError: no number"


# -- probes -------------------------------------------------------------------------------------


def test_a_holder_of_the_lease_never_says_that_another_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str | None] = []

    async def main() -> None:
        async with campaigning(Store(), tmp_path) as candidate:
            process = candidate.process

            async def slow() -> None:
                said.append(process.not_ready())
                await asyncio.sleep(0.2)
                said.append(process.not_ready())

            monkeypatch.setattr(process.snapshots, "load", slow)
            await until(lambda: process.term is not None)
            said.append(process.not_ready())

    asyncio.run(main())
    assert said == ["has been taking over for 0 s", "has been taking over for 0 s", None]


def test_one_that_stands_by_says_who_leads(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store()
        async with campaigning(store, tmp_path) as first:
            await until(lambda: first.process.term is not None)
            async with campaigning(store, tmp_path, "brain-1") as second:
                await until(lambda: second.process.not_ready() == "another replica leads")
                assert second.process.filter(Pod(metadata=Meta(name="p")), ["n0"]).error == "another replica leads"

    asyncio.run(main())


def test_one_that_stands_by_is_ready(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store()
        async with campaigning(store, tmp_path) as first:
            await until(lambda: first.process.term is not None)
            async with campaigning(store, tmp_path, "brain-1") as second:
                await until(lambda: second.process.not_able() is None)
                assert second.process.not_ready() == "another replica leads"

    asyncio.run(main())


def test_one_that_cannot_read_the_lease_is_not_ready(tmp_path: Path) -> None:
    async def main() -> None:
        candidate = Candidate(Store(), tmp_path)
        cast(StoreClient, candidate.process.client).lose = True
        hearing = asyncio.ensure_future(candidate.hear())
        await asyncio.sleep(0.2)
        assert candidate.process.not_able() == "the Lease rm-brain-leader has not been read yet"
        for task in (candidate.campaign, hearing):
            task.cancel()

    asyncio.run(main())


def test_one_that_takes_over_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str | None] = []

    async def main() -> None:
        async with campaigning(Store(), tmp_path) as candidate:
            process = candidate.process

            async def slow() -> None:
                said.append(process.not_able())

            monkeypatch.setattr(process.snapshots, "load", slow)
            await until(lambda: process.term is not None)
            said.append(process.not_able())

    asyncio.run(main())
    assert said == ["has been taking over for 0 s", None]


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["_cycles", "_every_second"])
def test_a_loop_of_the_leader_that_hangs_is_seen_by_the_liveness_probe(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(self: BrainProcess, term: Any) -> None:
        await asyncio.sleep(3600)

    async def main() -> None:
        async with campaigning(Store(), tmp_path) as candidate:
            await until(lambda: candidate.process.term is not None)
            assert candidate.process.watchdog.stuck() is None
            await until(lambda: str(candidate.process.watchdog.stuck()).startswith(f"loop '{loop[1:]}' has not turned"))

    monkeypatch.setattr(BrainProcess, loop, hangs)
    monkeypatch.setattr(module, "STUCK_S", 2.0)
    asyncio.run(main())


@pytest.mark.slow
def test_loops_that_turn_are_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with campaigning(Store(), tmp_path) as candidate:
            await until(lambda: candidate.process.term is not None)
            await asyncio.sleep(3)
            assert candidate.process.watchdog.stuck() is None

    monkeypatch.setattr(module, "STUCK_S", 2.0)
    asyncio.run(main())


# -- jobs of the snapshot -----------------------------------------------------------------------


class Server:
    """An API server with objects by key (`namespace/name`) of one kind; `errors` are its first answers."""

    def __init__(self, kind: str, objects: dict[str, str], *errors: ApiError) -> None:
        self.kind, self.objects, self.errors = kind, objects, list(errors)

    async def get(self, path: str, fieldSelector: str) -> Any:  # noqa: N803 (the API's word)
        if self.errors:
            raise self.errors.pop()
        *_, namespace, kind = path.split("/")
        uid = self.objects.get(f"{namespace}/{fieldSelector.removeprefix('metadata.name=')}")
        return {
            "items": [{"metadata": {"uid": uid, "resourceVersion": "70"}}]
            if uid is not None and kind == self.kind
            else []
        }


def waits_for(job: str, server: Server, told: dict[str, str] | None = None) -> bool:
    """Whether a new leader waits for this job of its snapshot; told: keys and uids of what the watch tells at last."""

    async def main() -> bool:
        process = BrainProcess(CONFIG, cast(Client, server), identity="brain-0")
        waiting = asyncio.ensure_future(process._until_heard_of(job))
        await asyncio.sleep(3 * LAG_S)
        waits = not waiting.done()
        for key, uid in (told or {}).items():
            namespace, _, name = key.partition("/")
            pod = Pod(metadata=Meta(name=name, namespace=namespace, uid=uid))
            process.cache.reflectors["Pod"].objects[key] = pod
        if told is None:
            waiting.cancel()
        else:
            await asyncio.wait_for(waiting, 5)
        return waits

    return asyncio.run(main())


def test_a_new_leader_waits_for_jobs_that_its_watch_has_yet_to_tell_of() -> None:
    assert waits_for("ns/p.12345678", Server("pods", {"ns/p": "12345678-9"}), {"ns/p": "12345678-9"})


@pytest.mark.parametrize(
    "server",
    [Server("dagjobs", {"ns/j": "12345678-9"}), Server("dagjobs", {"ns/j": "12345678-9"}, Unreachable("away"))],
    ids=["there", "away at first"],
)
def test_it_waits_for_dagjobs_that_the_api_server_has(server: Server) -> None:
    assert waits_for("ns/j.12345678", server)


@pytest.mark.parametrize(("heard", "waits"), [("69", True), ("70", False)])
def test_it_does_not_wait_for_what_the_watch_has_passed_and_cannot_tell_of(
    heard: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = Reflector.__init__

    def told(self: Any, *args: Any, **settings: Any) -> None:
        init(self, *args, **settings)
        self._version = heard

    monkeypatch.setattr(Reflector, "__init__", told)
    assert waits_for("ns/p.12345678", Server("pods", {"ns/p": "12345678-9"})) == waits


@pytest.mark.parametrize("objects", [{}, {"ns/j": "another"}], ids=["none", "another of its name"])
def test_it_does_not_wait_for_what_is_gone(objects: dict[str, str]) -> None:
    assert not waits_for("ns/j.12345678", Server("dagjobs", objects), {})


@pytest.mark.parametrize("fault", [False, True])
def test_the_history_is_stored_once_after_jobs_have_ended_and_a_fault_ends_no_term(
    fault: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = Store()
        async with campaigning(store, tmp_path) as candidate:
            process, stored = candidate.process, list[bytes]()
            put = process.stored_history.store

            async def store_it(data: bytes) -> None:
                stored.append(data)
                if fault and len(stored) == 1:
                    raise ApiError(500, "InternalError", "away")
                await put(data)

            monkeypatch.setattr(process.stored_history, "store", store_it)
            assert await process._save_history(0) == 0
            assert not stored
            job = PastJob(name="report", submitted=0, finished=60_000, stages=((2, 30_000.0),))
            process.history.add(job)
            jobs = await process._save_history(0)
            assert jobs == (0 if fault else 1)
            assert await process._save_history(jobs) == 1
            assert len(stored) == 1 + fault
            read = await Snapshots(process.client, name=HISTORY).load()
            assert read is not None
            assert msgspec.msgpack.decode(read, type=list[PastJob]) == [job]

    asyncio.run(main())


@pytest.mark.parametrize("large", [False, True])
def test_between_large_snapshots_the_log_alone_is_stored(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = Store()
        async with campaigning(store, tmp_path) as candidate:
            process = candidate.process
            await until(lambda: process.term is not None)
            term = process.term
            assert term is not None
            path = f"/api/v1/namespaces/rm-system/configmaps/{SNAPSHOT}"

            def stored() -> Index | None:
                return read_index(store.objects[path]) if path in store.objects else None

            def holds(lines: int) -> bool:
                return (index := stored()) is not None and index.end >= lines

            before: Index | None = None
            for number in range(3):
                fact = NodeAdded(term.brain.driver.now(), Node(id=f"n{number}", capacity=(1000, 1 << 30, 10)))
                term.brain.driver.tell(fact)
                lines = term.events.log.lines
                await until(partial(holds, lines))
                index = stored()
                assert index is not None
                assert before is None or (index.chunks == before.chunks) == large
                before = index
            maps = {name.rpartition("/")[2]: item for name, item in store.objects.items()}
            assert before is not None
            saved = msgspec.msgpack.decode(unpack(before, maps), type=BrainSnapshot)
            follower = Follower(saved.core, before.line)
            for piece in unpack_since(before, LogPlace(before.log, before.line), maps):
                follower.hear(piece.lines, piece.now)
            assert follower.scheduler.snapshot() == term.brain.scheduler.snapshot()
            assert set(follower.scheduler.state.nodes) == {"n0", "n1", "n2"}
            # Of a state that changes no more the snapshot is stored, too, for the next leader.
            later_s.append(1e12)
            await until(lambda: (now := stored()) is not None and now.line >= lines)

    later_s = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later_s[-1], perf_counter=time.perf_counter)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "REST", 10**9 if large else 0)
    asyncio.run(main())
