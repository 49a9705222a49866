"""For how long everything is heard: what breaks it, and who waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from operators.cache import cache as module
from operators.cache.cache import Cache
from operators.cache.hearing import BREAK_S, Hearing
from operators.cache.reflector import Kind
from schedulers.objects.pod import Pod
from schedulers.objects.queue import QueueObject
from tests.kubernetes.test_cache import END_AT_ONCE, SILENCE, Server
from tests.kubernetes.world import World, stage

KINDS = (Kind("Pod", Pod, "/api/v1/pods"), Kind("Queue", QueueObject, "/apis/queues"))


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_heard_before_the_first_sign_of_life() -> None:
    assert Hearing(Clock()).for_ms() is None


def test_what_is_heard_again_and_again_is_heard_for_longer_and_longer() -> None:
    clock = Clock()
    hearing = Hearing(clock)
    for _ in range(20):
        hearing.heard()
        clock.now += BREAK_S / 2
    assert hearing.for_ms() == 1000 * 20 * BREAK_S / 2


def test_a_break_ends_it_and_what_comes_then_counts_from_then_on() -> None:
    clock = Clock()
    hearing = Hearing(clock)
    hearing.heard()
    clock.now += BREAK_S
    assert hearing.for_ms() is None
    hearing.heard()
    clock.now += 1
    assert hearing.for_ms() == 1000


def listening(server: Server, until: Callable[[Cache], bool]) -> bool:
    """Whether a cache of these lists comes to that within a second."""

    async def run() -> bool:
        async with server.run() as client:
            cache = Cache(client, lambda change: None, kinds=KINDS, first_pause_s=0.3, last_pause_s=0.3)
            task = asyncio.create_task(cache.run())
            try:
                async with asyncio.timeout(1):
                    while not until(cache):
                        await asyncio.sleep(0.01)
            except TimeoutError:
                return False
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            return True

    return asyncio.run(run())


def test_everything_is_heard_once_all_watches_are_open() -> None:
    assert listening(Server(), lambda cache: cache.heard_ms() is not None)


def test_nothing_is_heard_while_a_watch_does_not_open() -> None:
    server = Server()
    server.watches = [SILENCE, END_AT_ONCE]
    server.refuse_lists = [500] * 100
    assert not listening(server, lambda cache: cache.heard_ms() is not None)


def test_a_server_that_hangs_is_not_heard_although_its_watches_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULSE_S", 0.02)
    monkeypatch.setattr(module, "BREAK_S", 0.05)
    monkeypatch.setattr("operators.cache.hearing.BREAK_S", 0.2)
    heard: list[Cache] = []

    def hangs_then(cache: Cache) -> bool:
        if not heard and cache.heard_ms() is not None:
            heard.append(cache)
            monkeypatch.setattr(cache._client, "get_raw", never)
        return bool(heard) and cache.heard_ms() is None

    async def never(path: str, **params: str) -> bytes:
        await asyncio.sleep(60)
        raise AssertionError

    assert listening(Server(), hangs_then)


def test_watches_that_were_open_all_through_a_break_are_opened_anew_before_anything_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PULSE_S", 0.02)
    monkeypatch.setattr(module, "BREAK_S", 0.05)
    monkeypatch.setattr("operators.cache.hearing.BREAK_S", 0.2)
    opened: list[float] = []
    broken: list[bool] = []

    def hears_again(cache: Cache) -> bool:
        """After a break in which the connections stayed open and brought nothing."""
        if not opened and cache.heard_ms() is not None:
            opened.extend(reflector.opened_at for reflector in cache.reflectors.values())
            answering, until = cache._client.get_raw, time.monotonic() + 0.3

            async def hangs(path: str, **params: str) -> bytes:
                await asyncio.sleep(max(0.0, until - time.monotonic()))
                return await answering(path, **params)

            monkeypatch.setattr(cache._client, "get_raw", hangs)
        broken.append(bool(opened) and cache.heard_ms() is None)
        if not any(broken) or broken[-1]:
            return False
        assert all(r.opened_at > old for r, old in zip(cache.reflectors.values(), opened, strict=True))
        return True

    server = Server()
    server.watches = [SILENCE]
    assert listening(server, hears_again)


@pytest.mark.parametrize(("heard", "held"), [(None, 1), (20_000, 1), (40_000, 0)])
def test_a_grant_is_taken_back_only_if_its_pod_was_not_seen_to_come_for_so_long(heard: int | None, held: int) -> None:
    world = World()
    job = world.submit(stage("a", 1))
    world.create_pods()
    world.brain.cycle()
    world.writes.pending.clear()  # the release has gone out, and nothing is heard of it
    (pod,) = world.pods_of(job)
    world.clock += 40_000
    world.lists.heard = heard
    world.brain.expire()
    assert len(world.brain.scheduler.state.containers) == held
    assert pod.is_gated
