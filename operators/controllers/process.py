"""The controllers' process: watches in every replica, acts in the one that leads."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from operators import metrics
from operators.cache.cache import KINDS, Cache, Change
from operators.cache.reflector import Kind
from operators.client import ApiError, Client
from operators.controllers.config import ControllersConfig
from operators.controllers.dagjobs import DagJobs
from operators.controllers.queues import Queues
from operators.controllers.workqueue import WorkQueue
from operators.lease import Lease
from operators.serving.server import management, serve_management
from operators.serving.watchdog import LoopWatchdog
from schedulers.objects.dagjob import WholeDagJob
from schedulers.objects.names import QUEUE_LABEL
from schedulers.objects.pod import Pod

log = structlog.get_logger()

#: Seconds of silence after which a watch is not believed any more.
STALE_S: Final = 120.0
#: Seconds without a turn of the leader's loops, while the API server was heard, after which the process is not alive.
#: A round writes the status of every queue, and each write may take its time-out.
STUCK_S: Final = 60.0


def _kinds() -> list[Kind]:
    """The brain's kinds, with whole DagJobs, and only pods that have joined a queue."""
    by_name = {kind.name: kind for kind in KINDS}
    return [
        by_name["Node"],
        by_name["Queue"],
        Kind("DagJob", WholeDagJob, by_name["DagJob"].path),
        Kind("Pod", Pod, by_name["Pod"].path, selector=QUEUE_LABEL),
    ]


class ControllersProcess:
    """Ties cache, work queue and leadership together."""

    def __init__(self, config: ControllersConfig, client: Client, identity: str) -> None:
        self.config, self.client, self.identity = config, client, identity
        self.cache = Cache(client, self._hear, kinds=_kinds())
        self.dagjobs = DagJobs(client, self.cache, config, identity=identity)
        self.queues = Queues(client, self.cache, config.resources, reserved=config.nodes == "reserved")
        self.watchdog = LoopWatchdog(STUCK_S)
        self.work: WorkQueue | None = None

    def stuck(self) -> str | None:
        """Why the process is not alive. While the API server is away a round may take any time."""
        heard_ms = self.cache.heard_ms()
        return self.watchdog.stuck() if heard_ms is not None and heard_ms > 1000 * STUCK_S else None

    def not_ready(self) -> str | None:
        """Why the process must not be believed to work; a replica standing by is ready to take over."""
        return self.cache.not_ready(STALE_S)

    def _hear(self, change: Change) -> None:
        key: str | None = None
        if change.kind == "Pod":
            key = self.dagjobs.hear(change.old, change.new)
        elif change.kind == "DagJob" and change.new is not None:
            key = change.new.key
        elif change.kind == "DagJob":
            self.dagjobs.forget(change.old.metadata.uid)
        elif change.kind == "Node" and change.new is None:
            self._look_at_all()
        elif change.kind == "Queue" and (change.old is None or change.new is None):
            self._look_at_all(queue=(change.old or change.new).metadata.name)
        if key is not None and self.work is not None:
            self.work.add(key)

    def _look_at_all(self, *, queue: str | None = None) -> None:
        """Look at all DagJobs, or at a queue's."""
        if self.work is not None:
            for key, job in self.cache.dagjobs.items():
                if queue in (None, job.spec.queue):
                    self.work.add(key)

    async def run(self) -> None:
        """Until cancelled."""
        election = self.config.leader_election
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.cache.run())
                group.create_task(serve_management(management(self.not_ready, self.stuck), self.config.management))
                if election is None:
                    await self.gained()
                else:
                    lease = Lease.of(self.client, election, namespace=self.config.namespace, identity=self.identity)
                    group.create_task(lease.run(self.gained, self.lost))
        finally:
            await self.lost()

    async def gained(self) -> None:
        """Act from now on, until cancelled. Raises impossible errors: the process ends with them."""
        await self.cache.until_heard()
        self.dagjobs.begin()
        self.work = WorkQueue(self._reconcile)
        self._look_at_all()
        self.watchdog.begin("queues")
        metrics.LEADER.set(1)
        log.info("leads", dagjobs=len(self.cache.dagjobs))
        await self._act(self.work)

    async def lost(self) -> None:
        """Act no more; `gained` has been cancelled by now."""
        self.work = None
        self.watchdog.end()
        metrics.LEADER.set(0)

    async def _act(self, work: WorkQueue) -> None:
        """Half a leader is worse than none: when a loop breaks, the process ends, and another replica does better."""
        async with asyncio.TaskGroup() as group:
            group.create_task(work.run())
            group.create_task(self._show_queues(work))

    async def _show_queues(self, work: WorkQueue) -> None:
        while True:
            try:
                await self.queues.go_round()
            except (ApiError, OSError) as error:  # OSError: time-outs, a token that cannot be read just now
                log.warning("the queues' status is late", why=str(error))
            metrics.WORK_QUEUE.labels(kind="DagJob").set(work.length)
            metrics.STALENESS.set(self.cache.staleness_s())
            self.watchdog.note_turn("queues")
            await asyncio.sleep(1)

    async def _reconcile(self, key: str) -> float | None:
        with metrics.RECONCILE_DURATION.labels(kind="DagJob").time():
            try:
                again: Any = await self.dagjobs.reconcile(key)
            except BaseException:
                metrics.RECONCILES.labels(kind="DagJob", outcome="error").inc()
                raise
        metrics.RECONCILES.labels(kind="DagJob", outcome="ok").inc()
        return again  # type: ignore[no-any-return]
