"""The controllers' process: whom a change wakes, and what happens when one of its loops breaks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from operators.cache.reflector import Change
from operators.client import Unreachable
from operators.controllers import __main__ as main
from operators.controllers import process as module
from operators.controllers.config import ControllersConfig
from operators.controllers.process import Process
from operators.controllers.work import Work
from operators.serving import program
from schedulers.objects.dagjob import StageSpec
from schedulers.objects.meta import Meta
from schedulers.objects.queue import Queue
from tests.kubernetes.test_plan import TEMPLATE, job


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    """One that has just heard everything, and reaches nobody."""
    client: Any = None
    made = Process(ControllersConfig(leader_election=None), client, identity="test")
    for reflector in made.cache.reflectors.values():
        reflector.synced = True
    made.cache._hearing.heard()

    async def for_ever(*_: Any) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(made.cache, "run", for_ever)
    monkeypatch.setattr(module, "serve_management", for_ever)
    return made


def fail_with(monkeypatch: pytest.MonkeyPatch, process: Process, error: Exception) -> list[int]:
    """The status of queues fails, each time; returns the times."""
    times: list[int] = []

    async def go_round() -> None:
        times.append(1)
        raise error

    monkeypatch.setattr(process.queues, "go_round", go_round)
    return times


def test_a_loop_that_breaks_ends_the_process(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, process, KeyError("a mistake of ours"))
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(asyncio.wait_for(process.run(), 10))
    assert caught.group_contains(KeyError)
    assert process.work is None


@pytest.mark.parametrize("error", [Unreachable("away"), OSError("no token"), TimeoutError()])
@pytest.mark.slow
def test_what_is_to_be_expected_does_not(process: Process, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    times = fail_with(monkeypatch, process, error)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(process.run(), 1.5))
    assert len(times) == 2


def test_the_program_does_not_end_well_after_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    async def broken(config: Any, process: Any) -> None:
        raise ExceptionGroup("loops", [KeyError("a mistake of ours")])

    file = tmp_path / "config.yaml"
    file.write_text("{}")
    monkeypatch.setattr(program, "_run", broken)
    monkeypatch.setattr("sys.argv", ["controllers", "--config", str(file)])
    with pytest.raises(ExceptionGroup):
        main.main()


@pytest.mark.parametrize("comes", [True, False])
def test_a_queue_that_comes_or_goes_wakes_its_jobs(process: Process, comes: bool) -> None:
    woken: list[str] = []

    async def reconcile(key: str) -> None:
        woken.append(key)

    async def hear() -> None:
        process.work = Work(reconcile)
        for name, queue in (("one", "q"), ("two", "other")):
            made = job(StageSpec("a", TEMPLATE), queue=queue)
            made.metadata.name = name
            process.cache.reflectors["DagJob"].objects[made.key] = made
        queue = Queue(Meta(name="q"))
        process._hear(Change("Queue", None if comes else queue, queue if comes else None))
        process._hear(Change("Queue", Queue(Meta(name="other")), Queue(Meta(name="other"))))  # only changed
        running = asyncio.ensure_future(process.work.run())
        await asyncio.sleep(0.05)
        running.cancel()

    asyncio.run(hear())
    assert woken == ["ns/one"]


def test_a_job_that_is_gone_is_forgotten(process: Process) -> None:
    gone = job()
    process.dagjobs._written["uid-j"] = 1.0
    process._hear(Change("DagJob", gone, None))
    assert process.dagjobs._written == {}
