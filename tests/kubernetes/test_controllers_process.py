"""The controllers' process: whom a change wakes, and what happens when one of its loops breaks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from operators.cache.reflector import Change
from operators.client import Unreachable
from operators.controllers import __main__ as main
from operators.controllers import process as module
from operators.controllers.config import ControllersConfig
from operators.controllers.dagjobs import _JobMemory
from operators.controllers.process import ControllersProcess
from operators.controllers.workqueue import WorkQueue
from operators.serving import program
from operators.serving.watchdog import LoopWatchdog
from schedulers.objects.dagjob import StageSpec
from schedulers.objects.meta import Meta
from schedulers.objects.queue import QueueObject
from tests.kubernetes.store import until
from tests.kubernetes.test_plan import TEMPLATE, job


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> ControllersProcess:
    """One that has just heard everything, and reaches nobody."""
    client: Any = None
    made = ControllersProcess(ControllersConfig(leader_election=None), client, identity="test")
    for reflector in made.cache.reflectors.values():
        reflector.synced = True
    made.cache._hearing.heard()

    async def for_ever(*_: Any) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(made.cache, "run", for_ever)
    monkeypatch.setattr(module, "serve_management", for_ever)
    return made


def fail_with(monkeypatch: pytest.MonkeyPatch, process: ControllersProcess, error: Exception) -> list[int]:
    """The status of queues fails, each time; returns the times."""
    times: list[int] = []

    async def go_round() -> None:
        times.append(1)
        raise error

    monkeypatch.setattr(process.queues, "go_round", go_round)
    return times


def test_a_loop_that_breaks_ends_the_process(process: ControllersProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, process, KeyError("a mistake of ours"))
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(asyncio.wait_for(process.run(), 10))
    assert caught.group_contains(KeyError)
    assert process.work is None


@pytest.mark.parametrize("error", [Unreachable("away"), OSError("no token"), TimeoutError()])
@pytest.mark.slow
def test_what_is_to_be_expected_does_not(
    process: ControllersProcess, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    times = fail_with(monkeypatch, process, error)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(process.run(), 1.5))
    assert len(times) == 2


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The program, of which a part breaks; returns the file of its termination message, empty as a kubelet makes it."""

    async def broken(config: Any, process: Any) -> None:
        raise ExceptionGroup("parts", [ExceptionGroup("loops", [KeyError("a mistake of ours")])])

    file, message = tmp_path / "config.yaml", tmp_path / "termination-log"
    file.write_text("{}")
    message.touch()
    monkeypatch.setattr(program, "_run", broken)
    monkeypatch.setattr("sys.argv", ["controllers", "--config", str(file)])
    monkeypatch.setenv(program.MESSAGE_FILE, str(message))
    return message


def test_the_program_then_says_why_in_its_log_and_to_the_kubelet(
    breaking: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main() == 1
    assert breaking.read_text() == "KeyError: 'a mistake of ours'"
    assert "a part has failed; the process ends" in capfd.readouterr().err


def test_without_a_kubelet_no_file_is_made_for_it(breaking: Path) -> None:
    breaking.unlink()
    assert main.main() == 1
    assert not breaking.exists()


def test_a_loop_of_the_leader_that_hangs_is_seen_by_the_liveness_probe(
    process: ControllersProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs() -> None:
        await asyncio.sleep(3600)

    async def hear() -> None:
        while True:
            process.cache._hearing.heard()
            await asyncio.sleep(0.1)

    async def main() -> None:
        running = [asyncio.ensure_future(process.run()), asyncio.ensure_future(hear())]
        await until(lambda: process.work is not None)
        assert process.stuck() is None
        await until(lambda: process.stuck() is not None)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    monkeypatch.setattr(module, "STUCK_S", 0.5)
    process.watchdog = LoopWatchdog(0.5)
    monkeypatch.setattr(process.queues, "go_round", hangs)
    asyncio.run(main())


def test_a_round_that_waits_for_the_api_server_is_none_that_hangs(process: ControllersProcess) -> None:
    now = [0.0]
    process.watchdog = LoopWatchdog(60, clock=lambda: now[0])
    process.watchdog.begin("queues")
    now[0] = 600.0
    assert process.watchdog.stuck() == "loop 'queues' has not turned for 600 s"
    assert process.stuck() is None  # nothing was heard for so long, either


@pytest.mark.parametrize("comes", [True, False])
def test_a_queue_that_comes_or_goes_wakes_its_jobs(process: ControllersProcess, comes: bool) -> None:
    woken: list[str] = []

    async def reconcile(key: str) -> None:
        woken.append(key)

    async def hear() -> None:
        process.work = WorkQueue(reconcile)
        for name, queue in (("one", "q"), ("two", "other")):
            made = job(StageSpec("a", TEMPLATE), queue=queue)
            made.metadata.name = name
            process.cache.reflectors["DagJob"].objects[made.key] = made
        queue = QueueObject(Meta(name="q"))
        process._hear(Change("Queue", None if comes else queue, queue if comes else None))
        process._hear(Change("Queue", QueueObject(Meta(name="other")), QueueObject(Meta(name="other"))))  # only changed
        running = asyncio.ensure_future(process.work.run())
        await asyncio.sleep(0.05)
        running.cancel()

    asyncio.run(hear())
    assert woken == ["ns/one"]


def test_a_job_that_is_gone_is_forgotten(process: ControllersProcess) -> None:
    gone = job()
    process.dagjobs._known["uid-j"] = _JobMemory()
    process._hear(Change("DagJob", gone, None))
    assert process.dagjobs._known == {}
