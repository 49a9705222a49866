"""The loop of the forecaster against an API server in memory that is slow, away, or without the job."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
import pytest
import structlog

from forecaster.answers import Answered, MemoryUnusable, NoAnswer, WentAstray
from forecaster.config import ForecasterConfig
from forecaster.process import WRITES_PER_S, ForecasterProcess
from operators import metrics
from operators.client import Client, Conflict, Forbidden, NotFound, Unreachable
from operators.extender.snapshots import Snapshots
from operators.serving.ports import ManagementPort
from schedulers.objects.dagjob import ExpectedStatus
from schedulers.objects.memory import LogPlace, Piece, read_index
from tests.kubernetes.store import Store, StoreClient, VirtualLoop, run_virtual
from tests.kubernetes.test_snapshots import noise

DAGJOBS = "/apis/rm-emulator.io/v1alpha1/dagjobs"
UNKNOWN = ExpectedStatus(known=False, asOf="2026-01-01T00:00:00Z")
CONFIG = ForecasterConfig(namespace="rm-system", management=ManagementPort(address="127.0.0.1", port=0))


class Api(StoreClient):
    """Lists so many DagJobs, and keeps when which status was written. away: each list or write fails, until then.

    busy: so many writes meet another writer. gone, again, over: jobs deleted, made anew, and ended, since they were
    listed. refused: each write is. lists: how often DagJobs were listed from the first.
    """

    def __init__(self, store: Store, jobs: int) -> None:
        super().__init__(store)
        self.jobs: list[dict[str, Any]] = [
            {"metadata": {"name": f"j{i}", "namespace": "n", "uid": f"uid-{i:04}-long"}} for i in range(jobs)
        ]
        self.written: list[tuple[float, str, Any]] = []
        self.away = 0
        self.busy = 0
        self.gone: set[str] = set()
        self.again: set[str] = set()
        self.over: set[str] = set()
        self.refused = False
        self.lists = 0

    def end(self, name: str) -> None:
        """The controllers have written that the job has succeeded."""
        (job,) = (job for job in self.jobs if job["metadata"]["name"] == name)
        job["status"] = {**job.get("status", {}), "phase": "Succeeded", "completionTime": "2026-01-01T00:00:01Z"}

    def uid_of(self, name: str) -> str:
        if name in self.gone:
            raise NotFound(404, "NotFound", name)
        (uid,) = (job["metadata"]["uid"] for job in self.jobs if job["metadata"]["name"] == name)
        return "another" if name in self.again else uid

    async def get(self, path: str, **params: str) -> Any:
        if "/dagjobs/" in path:
            name = path.rpartition("/")[2]
            phase = "Succeeded" if name in self.over else "Running"
            return {"metadata": {"uid": self.uid_of(name), "resourceVersion": "7"}, "status": {"phase": phase}}
        if path != DAGJOBS:
            return await super().get(path, **params)
        self._fail()
        first = int(params.get("continue", 0))
        self.lists += first == 0
        more = str(first + 2) if first + 2 < len(self.jobs) else ""
        return {"items": self.jobs[first : first + 2], "metadata": {"continue": more}}

    async def patch(self, path: str, body: Any, **how: Any) -> bytes:
        self._fail()
        assert (how["kind"], how["field_manager"], how["force"]) == ("apply", "rm-forecaster", True)
        assert body["metadata"]["resourceVersion"] == "7"
        name = body["metadata"]["name"]
        if self.refused:
            raise Forbidden(403, "Forbidden", f"{name} may not be written")
        if self.busy:
            self.busy -= 1
            raise Conflict(409, "Conflict", path)
        self.written.append((asyncio.get_running_loop().time(), name, body["status"]))
        return b"{}"

    def _fail(self) -> None:
        if self.away:
            self.away -= 1
            raise Unreachable("away")


def observed(
    jobs: int,
    seconds: float,
    *,
    plays_s: float = 1.0,
    error: Exception | None = None,
    before: Callable[[Api], None] = lambda api: None,
    later: Callable[[Snapshots], Awaitable[None]] | None = None,
) -> tuple[Api, int]:
    """The API server after so many seconds of a forecaster whose plays take so long, and how often they were asked."""
    asked = 0

    async def ask(config_maps: Sequence[dict[str, Any]], read_ms: int, *, whole: bool, within_s: float) -> Answered:
        nonlocal asked
        asked += 1
        await asyncio.sleep(plays_s)
        if error is not None:
            raise error
        return Answered({f"n/j{i}.uid-{i:04}"[:99]: UNKNOWN for i in range(jobs)}, LogPlace("", 0))

    async def main(_: VirtualLoop) -> Api:
        api = Api(Store(), jobs)
        brain = Snapshots(cast(Client, api), chunk_bytes=1000)
        await brain.store(noise(1))
        before(api)
        process = ForecasterProcess(CONFIG, cast(Client, api), "test", ask=ask)
        going = asyncio.ensure_future(process._go_on())
        await asyncio.sleep(seconds / 2)
        if later is not None:
            await later(brain)
        await asyncio.sleep(seconds / 2)
        going.cancel()
        return api

    return run_virtual(main), asked


def test_every_job_is_told_by_a_field_of_our_own() -> None:
    api, asked = observed(5, 30)
    assert asked == 1
    assert [name for _, name, _ in api.written] == ["j0", "j1", "j2", "j3", "j4"]
    assert [status for _, _, status in api.written] == [{"expected": UNKNOWN}] * 5


def test_plays_longer_than_a_round_are_written_all_the_same() -> None:
    api, _ = observed(5, 200, plays_s=60)
    assert len(api.written) == 5


def test_writes_keep_to_their_rate_and_all_come() -> None:
    api, asked = observed(250, 60)
    assert (len(api.written), asked) == (250, 1)
    times = [at_s for at_s, _, _ in api.written]
    for at_s in times:
        assert sum(at_s <= other < at_s + 1 - 1e-6 for other in times) <= WRITES_PER_S


@pytest.mark.parametrize(
    ("error", "wholes"),
    [
        (None, [True, False, False, True, False]),
        (WentAstray("line 7 would be another"), [True, False, True, False, True, False]),
        (NoAnswer("too long"), [True, False, False, True, False]),
    ],
)
def test_the_memory_is_read_whole_once_and_again_after_another_leader_or_an_error(
    error: Exception | None, wholes: list[bool]
) -> None:
    """For the second memory, or the third, the error is raised; before the fourth another leads."""
    asked: list[bool] = []
    astray = isinstance(error, WentAstray)

    async def ask(config_maps: Sequence[dict[str, Any]], read_ms: int, *, whole: bool, within_s: float) -> Answered:
        asked.append(whole)
        if error is not None and len(asked) == 3 - astray:
            raise error
        index = read_index(config_maps[0])
        return Answered({}, LogPlace(index.log, index.end))

    async def main(_: VirtualLoop) -> None:
        api = Api(Store(), 1)
        process = ForecasterProcess(CONFIG, cast(Client, api), "test", ask=ask)
        going = asyncio.ensure_future(process._go_on())
        for log, line in (("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)):
            wanted = len(asked) + 1 + (astray and (log, line) == ("a", 2))
            await Snapshots(cast(Client, api)).store(noise(line), Piece(log, line - 1, line, line, b"%d\n" % line))
            while len(asked) < wanted:
                await asyncio.sleep(1)
        going.cancel()

    run_virtual(main)
    assert asked == wholes


def test_an_api_server_that_is_away_costs_time_alone() -> None:
    api, _ = observed(5, 120, before=lambda api: setattr(api, "away", 4))
    assert sorted(name for _, name, _ in api.written) == ["j0", "j1", "j2", "j3", "j4"]


@pytest.mark.parametrize("what", ["gone", "again"])
def test_a_job_that_is_gone_is_left_and_so_is_its_namesake(what: str) -> None:
    api, _ = observed(3, 60, before=lambda api: getattr(api, what).add("j1"))
    assert [name for _, name, _ in api.written] == ["j0", "j2"]


def test_a_job_that_another_writer_changed_is_told_a_moment_later() -> None:
    api, _ = observed(3, 60, before=lambda api: setattr(api, "busy", 3))
    assert sorted(name for _, name, _ in api.written) == ["j0", "j1", "j2"]


@pytest.mark.parametrize("another", [False, True])
def test_a_memory_that_cannot_be_used_is_asked_once_and_counted(another: bool) -> None:
    counted = metrics.FORECAST_FAILURES.labels("memory")
    before = counted._value.get()

    async def later(brain: Snapshots) -> None:
        await brain.store(noise(2))

    api, asked = observed(3, 120, error=MemoryUnusable("another version"), later=later if another else None)
    assert (asked, api.written) == (1 + another, [])
    assert counted._value.get() - before == asked


@pytest.mark.parametrize("error", [None, MemoryUnusable("another version"), NoAnswer("too long")])
def test_an_answer_goes_when_its_job_ends_while_the_brain_stores_nothing_of_use(error: Exception | None) -> None:
    apis: list[Api] = []
    ended_s = math.inf

    def before(api: Api) -> None:
        apis.append(api)
        if error is not None:  # of the process before
            for job in api.jobs:
                job["status"] = {"phase": "Running", "expected": msgspec.to_builtins(UNKNOWN)}

    async def later(_: Snapshots) -> None:
        nonlocal ended_s
        ended_s = asyncio.get_running_loop().time()
        apis[0].end("j1")

    api, asked = observed(3, 60, before=before, later=later, error=error)
    assert asked == 1
    told = [] if error is not None else [(name, {"expected": UNKNOWN}) for name in ("j0", "j1", "j2")]
    assert [(name, status) for _, name, status in api.written] == [*told, ("j1", {})]
    assert ended_s <= api.written[-1][0] <= ended_s + CONFIG.every / 1000


def test_a_job_that_ended_during_the_plays_is_not_told_of_an_end_to_come() -> None:
    api, _ = observed(3, 60, before=lambda api: api.over.add("j1"))
    assert [name for _, name, _ in api.written] == ["j0", "j2"]


def test_dagjobs_without_an_answer_are_listed_for_another_memory_alone() -> None:
    listed: list[Api] = []
    observed(3, 120, error=NoAnswer("too long"), before=listed.append)
    assert listed[0].lists == 2


def test_refused_writes_have_a_line_a_minute_with_their_number() -> None:
    with structlog.testing.capture_logs() as lines:
        api, _ = observed(250, 130, before=lambda api: setattr(api, "refused", True))
    said = [line for line in lines if line["event"] == "answers cannot be written"]
    assert [line["writes"] for line in said] == [1, 249]
    assert said[0]["why"] == "Forbidden: j0 may not be written"
    assert api.written == []
