"""What a round of the forecaster costs: with the brain's core kept from the round before, against a core read anew.

The brain's core, its log and its stored memory are real, the API server is a dict. CPU time counts, of the process of
the plays with all its forks, so a busy machine does little harm; both answer the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, cast

import msgspec

from benchmarks.rows import Row
from forecaster.answers import Answered, Plays
from forecaster.memory import read_memory
from operators.client import AlreadyExists, Client, NotFound
from operators.extender.eventlog import EventLog
from operators.extender.snapshots import Snapshots
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, ContainerStarted, Event, HistoryPrimed, JobSubmitted, NodeAdded, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, PastJob, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.objects.memory import HISTORY, BrainSnapshot
from schedulers.objects.names import NAMESPACE

_GIB: Final = 1 << 30
#: A moment, ms since the epoch.
_BEGIN_MS: Final = 1_800_000_000_000
_TASK_MS: Final = 60_000
_PAST_JOBS: Final = 2000
_WITHIN_S: Final = 300.0


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """A round over 5,000 nodes with 100 live DagJobs, 1,000 facts after the round before."""
    nodes, jobs, facts, rounds = (20, 5, 50, 2) if tiny else (5000, 100, 1000, 7)
    kept, anew, read, whole = asyncio.run(_measured(_Brain(nodes, jobs), facts, rounds))
    note = (
        f"CPU time of a round of plays with the core kept, against a core read anew in a new process; {nodes} nodes, "
        f"{jobs} live DagJobs, {facts} facts a round, median of {rounds}; read from the API server: "
        f"{read / 1e3:.0f} kB against {whole / 1e3:.0f} kB"
    )
    yield Row(name="forecaster_round", value=kept, unit="s", reference=anew, ratio=kept / anew, note=note)


class _Objects:
    """An API server with ConfigMaps; `read` counts the bytes of those that were asked for."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {}
        self._version = self.read = 0

    async def get(self, path: str, **params: str) -> Any:
        if "labelSelector" in params:
            return {"items": []}  # nothing is left over from earlier leaders
        if path not in self._objects:
            raise NotFound(404, "NotFound", path)
        self.read += len(msgspec.json.encode(self._objects[path]))
        return self._objects[path]

    async def create(self, path: str, body: dict[str, Any]) -> Any:
        path = f"{path}/{body['metadata']['name']}"
        if path in self._objects:
            raise AlreadyExists(409, "AlreadyExists", path)
        return await self.replace(path, body)

    async def replace(self, path: str, body: dict[str, Any]) -> Any:
        self._version += 1
        self._objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        return self._objects[path]

    async def delete(self, path: str) -> Any:
        return self._objects.pop(path)


class _Brain:
    """A brain whose jobs recur; a job that ends is followed by the next."""

    def __init__(self, nodes: int, jobs: int) -> None:
        self.api, self.now, self._jobs, self._submitted = _Objects(), _BEGIN_MS, jobs, 0
        self._log = EventLog(Path(), "hash", 0, max_bytes=1)
        config = SchedulerConfig(resources=("cpu", "memory", "pods"), policy={"kind": "gs"}, offers="cycle")
        config = msgspec.structs.replace(config, predictor={"kind": "slearn"}, reserve_after=30_000)
        self._core = Scheduler(config, log=self._log.log)
        for number in range(nodes):
            self._tell(NodeAdded(self.now, Node(id=f"node-{number:05}", capacity=(64_000, 256 * _GIB, 110))))
        self._past = tuple(map(self._past_job, range(_PAST_JOBS)))
        self._tell(HistoryPrimed(self.now, self._past))
        self._snapshots = Snapshots(cast(Client, self.api))

    @staticmethod
    def _past_job(number: int) -> PastJob:
        ended, ms = _BEGIN_MS - 1000 * (_PAST_JOBS - number), _TASK_MS + 10.0 * number
        stages = ((10, ms), (10, ms))
        return PastJob(name=f"job-{number % 100}", user="u", submitted=ended - 300_000, finished=ended, stages=stages)

    def _tell(self, event: Event) -> None:
        for decision in self._core.handle(event):
            if isinstance(decision, Place):
                self._core.handle(ContainerStarted(event.at, decision.container))

    def go_on(self, facts: int) -> None:
        """Tell so many facts, at least: tasks end, and others start."""
        state, until = self._core.state, self._log.log.lines + facts
        while self._log.log.lines < until:
            while len(state.jobs) < self._jobs:
                self._submitted += 1
                parts = tuple(
                    Stage(name=name, tasks=10, demand=(1000, _GIB, 1), parents=parents)
                    for name, parents in (("map", ()), ("reduce", (0,)))
                )
                job = Job(id=f"n/j.{self._submitted:08}", name=f"job-{self._submitted % 100}", user="u", stages=parts)
                self._tell(JobSubmitted(self.now, job))
            self._tell(Tick(self.now))
            for container in list(state.containers)[:20]:
                self.now += 100
                self._tell(ContainerEnded(self.now, container, 0, _TASK_MS))

    async def store(self) -> None:
        """Store the memory."""
        snapshot = msgspec.msgpack.encode(BrainSnapshot(self._core.snapshot(), {}))
        await self._snapshots.store(snapshot, self._log.cut(self.now))

    async def store_history(self) -> None:
        """Store the history."""
        await Snapshots(cast(Client, self.api), name=HISTORY).store(msgspec.msgpack.encode(self._past))


class _Round(NamedTuple):
    version: tuple[str, ...]
    answered: Answered
    cpu_s: float
    read: int


async def _round(plays: Plays, brain: _Brain, before: _Round | None) -> _Round:
    used_s, read = _cpu_s(plays), brain.api.read
    version, place = ((), None) if before is None else (before.version, before.answered.place)
    memory = await read_memory(cast(Client, brain.api), NAMESPACE, version, place)
    assert memory is not None
    whole = bool(memory.whole)
    assert whole == (before is None)
    read = brain.api.read - read
    answered = await plays(memory.config_maps, brain.now, whole=whole, within_s=_WITHIN_S)
    return _Round(memory.version, answered, _cpu_s(plays) - used_s, read)


async def _measured(brain: _Brain, facts: int, rounds: int) -> tuple[float, float, float, float]:
    """Medians: CPU seconds of a round with the core kept, and with a core read anew; bytes read for each."""
    kept, figures = Plays(), list[tuple[float, float, int, int]]()
    await brain.store_history()
    warm: _Round | None = None
    try:
        for number in range(rounds + 1):
            brain.go_on(facts)
            await brain.store()
            warm = await _round(kept, brain, warm)
            if number:
                anew = Plays()
                cold = await _round(anew, brain, None)
                await anew.end()
                assert cold.answered == warm.answered
                figures.append((warm.cpu_s, cold.cpu_s, warm.read, cold.read))
    finally:
        await kept.end()
    warm_s, cold_s, read, whole = (float(median(each)) for each in zip(*figures, strict=True))
    return warm_s, cold_s, read, whole


def _cpu_s(plays: Plays) -> float:
    """CPU seconds of the process of the plays and of all its processes that have ended."""
    if plays.pid is None:
        return 0.0
    fields = Path(f"/proc/{plays.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
