"""The brain's process: every replica watches and answers probes; the leader decides.

A term of leadership begins with the stored snapshot and the objects of the API server, and ends with the loss of the
Lease, or with a break. After a fact refused by the core a new term begins from the objects alone; after any other break
too, but only once: when the new term breaks soon as well, the Lease is given back and the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import structlog

from operators import lease, metrics
from operators.cache.cache import Cache, Change
from operators.client import ApiError, Client, path_of, wall_ms
from operators.extender.app import Extender
from operators.extender.brain import Brain
from operators.extender.config import BrainConfig, setup_of
from operators.extender.eventlog import EventLog
from operators.extender.figures import QueueFigures, show_figures
from operators.extender.history import History, HistoryUnavailable
from operators.extender.intake import Breaks, Broken
from operators.extender.leader_label import LeaderLabel
from operators.extender.rehearsals import rehearse_all
from operators.extender.releases import ReleaseWriter, may_pass
from operators.extender.reports import ReportWriter
from operators.extender.snapshots import Snapshots, Superseded
from operators.extender.status import StatusWriter
from operators.extender.takeover import take_over
from operators.extender.wire import FilterAnswer, Victims
from operators.lease import Lease
from operators.serving.program import cause_of
from operators.serving.server import management, serve
from operators.serving.watchdog import LoopWatchdog
from schedulers.core.compatible import clashes
from schedulers.core.errors import SchedulerError
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import PastJob
from schedulers.core.policy import policies
from schedulers.core.scheduler import Scheduler
from schedulers.objects.memory import HISTORY, PAST_JOBS, BrainSnapshot
from schedulers.objects.meta import Stored
from schedulers.objects.pod import Pod

log = structlog.get_logger()

#: Seconds between two looks at a watch that lags behind.
LAG_S: Final = 0.2
#: Seconds between the end of a term that broke and the next.
ANEW_S: Final = 1.0
#: Two terms that break within so long, for anything but a fact, are followed by no third, s.
STEADY_S: Final = 60.0
#: How long a takeover may wait for the API server's answers once everything is heard, s. Without the snapshot it need
#: not wait at all.
TAKE_OVER_S: Final = 30.0
#: Seconds without a turn of one of a term's loops after which the process is not alive. The loops turn each second; a
#: cycle over a large cluster may take a few.
STUCK_S: Final = 15.0
#: A snapshot stops all decisions: for each second of making one, so many go by before the next.
REST: Final = 20


class Leadership(NamedTuple):
    """The parts of one term of leadership."""

    brain: Brain
    events: EventLog
    releases: ReleaseWriter
    reports: ReportWriter
    broken: asyncio.Future[Broken]
    """Set to the reason as soon as the brain cannot be trusted any more."""

    async def until_broken(self) -> None:
        """Raises Broken as soon as the brain breaks."""
        raise await self.broken


class BrainProcess:
    """Ties cache, leadership, core, releases and the extender together; `ExtenderBackend` of the HTTP app."""

    def __init__(self, config: BrainConfig, client: Client, identity: str) -> None:
        self.config, self.client, self.identity = config, client, identity
        self.cache = Cache(client, self._hear, pod_groups=True)
        self.term: Leadership | None = None
        election = config.leader_election
        self.lease = Lease.of(client, election, namespace=config.namespace, identity=identity) if election else None
        self._label = LeaderLabel(client, config.namespace, os.environ.get("POD_NAME"), self._holds_lease)
        self.snapshots = Snapshots(client, namespace=config.namespace, term=self._lease_term)
        self.stored_history = Snapshots(client, namespace=config.namespace, name=HISTORY, term=self._lease_term)
        self.history = History(Path(config.storage.dir) / "history.sqlite")
        self.watchdog = LoopWatchdog(STUCK_S)
        self._breaks = Breaks()
        self._changed = asyncio.Event()
        self._taking_over: float | None = None  # since when, in monotonic seconds

    # -- the extender's questions ---------------------------------------------------------------

    def not_ready(self) -> str | None:
        """See ExtenderBackend: the process leads, has taken over, and hears the API server."""
        why = self.cache.not_ready(self.config.cache.stale_s)
        return why or (self._no_term() if self.term is None else None)

    def not_able(self) -> str | None:
        """Why this replica is not Ready, or None: a standby that could take over is, and a leader that decides."""
        why = self.cache.not_ready(self.config.cache.stale_s)
        if why is None and self.lease is not None:
            why = self.lease.unreadable()
        if why is None and self.term is None and (self._taking_over is not None or self.lease is None):
            why = self._no_term()
        return why

    def _holds_lease(self) -> bool:
        """Without an election the only replica always does."""
        return self.lease is None or self.lease.leads

    def _no_term(self) -> str:
        """Why nothing is decided here, as far as this replica knows."""
        if self._taking_over is not None:
            return f"has been taking over for {time.monotonic() - self._taking_over:.0f} s"
        theirs = self.lease is not None and self.lease.holder not in ("", self.lease.identity)
        return "another replica leads" if theirs else "nobody leads yet"

    def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        """See ExtenderBackend."""
        term = self.term
        if term is None:
            return FilterAnswer([], {}, {}, self._no_term())
        try:
            return term.brain.filter(pod, nodes)
        except Exception as error:  # after any error the pod must be tried again by a sound core
            self._end_broken_term(term, Broken(Change("Pod", pod, pod), error))
            return FilterAnswer([], {}, {}, f"the scheduler starts anew: {error}")

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """See ExtenderBackend."""
        return self.term.brain.prioritize(pod, nodes) if self.term is not None else []

    def preempt(self, pod: Pod, victims: Victims) -> Victims:
        """See ExtenderBackend."""
        return self.term.brain.preempt(pod, victims) if self.term is not None else {}

    # -- changes --------------------------------------------------------------------------------

    def _hear(self, change: Change) -> None:
        term = self.term
        if term is None:
            return
        try:
            term.brain.hear(change)
        except Exception as error:  # the fact is lost, so the state built on it cannot be trusted
            self._end_broken_term(term, error if isinstance(error, Broken) else Broken(change, error))
        self._changed.set()

    def _end_broken_term(self, term: Leadership, broken: Broken) -> None:
        """End a term whose brain has broken. Nothing is told to the broken brain, or asked of it, from here on."""
        self.term, self._taking_over = None, time.monotonic()
        term.broken.set_result(broken)

    # -- terms ----------------------------------------------------------------------------------

    async def gained(self) -> None:
        """This replica leads from now on, term after term, until cancelled.

        A term that breaks is followed by a term built from the objects alone: an impossible fact is our mistake, not
        the cluster's. Raises errors beyond the mending of another term: anything but a fact, twice within STEADY_S.
        """
        self._label.look()
        use_snapshot, broke_at = True, -math.inf
        try:
            while True:
                self._taking_over = time.monotonic()
                try:
                    await self._lead(use_snapshot=use_snapshot)
                except Exception as error:
                    why = cause_of(error)
                    metrics.RESTORES.labels(cause=type(why.__cause__ or why).__name__).inc()
                    if isinstance(why, Broken):
                        self._breaks.note(why)
                    else:
                        if time.monotonic() - broke_at < STEADY_S:
                            raise
                        broke_at = time.monotonic()
                    log.error("the brain broke; it is rebuilt from the API server's objects", exc_info=why)
                use_snapshot = False
                await asyncio.sleep(ANEW_S)
        finally:
            self._taking_over = None

    async def lost(self) -> None:
        """This replica does not lead any more; `gained` has been cancelled by now, and the term is over."""
        self._label.look()

    async def _lead(self, *, use_snapshot: bool) -> None:
        """One term, until cancelled. Raises the error that breaks the term."""
        # The loops start only once all objects are told: before, a decision would be made on half a cluster.
        term = await self._take_over(use_snapshot=use_snapshot)
        loops: list[Callable[[Leadership], Coroutine[Any, Any, None]]] = [self._cycles, self._every_second, self._save]
        try:
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(loop(term))
                for part in (
                    term.releases,
                    term.reports,
                    StatusWriter(term.brain, term.reports),
                    QueueFigures(term.brain, term.reports),
                ):
                    group.create_task(part.run())
                group.create_task(rehearse_all(term.brain))
                group.create_task(term.until_broken())
                # Last, so that no call reaches a brain whose writes nobody sends yet.
                self._begin(term)
        finally:
            self._end(term)

    def _begin(self, term: Leadership) -> None:
        self.term, self._taking_over = term, None
        self.watchdog.begin("cycles", "every_second")
        self._changed.set()
        metrics.LEADER.set(1)

    def _end(self, term: Leadership) -> None:
        """Nothing of the term is written after this call."""
        self.term = None
        self.watchdog.end()
        metrics.LEADER.set(0)
        show_figures({})
        term.events.close()
        log.info("leads no more", log_sha256=term.events.log.sha256)

    async def _take_over(self, *, use_snapshot: bool) -> Leadership:
        """A term with knowledge of all objects of the API server. Raises TimeoutError when hearing takes too long."""
        await self.cache.until_heard()
        async with asyncio.timeout(TAKE_OVER_S):
            data = await self._stored() if use_snapshot else None
            scheduler, saved, events = self._scheduler(data)
            try:
                # No change is told to the brain while waiting here: the cache alone moves on.
                for job in list(scheduler.state.jobs):
                    await self._until_heard_of(job)
            except BaseException:
                events.discard()
                raise
        try:
            term = self._new_leadership(scheduler, saved, events)
        except BaseException:
            events.close()  # the log names the fact
            raise
        # Objects of now stay for the whole term: the collector need not look at them again with every call.
        gc.collect()
        gc.freeze()
        state = scheduler.state
        log.info("leads", jobs=len(state.jobs), nodes=len(state.nodes), restored=saved is not None)
        return term

    def _new_leadership(self, scheduler: Scheduler, saved: BrainSnapshot | None, events: EventLog) -> Leadership:
        """The term whose brain has been told of all objects. No change may come in between."""
        releases = ReleaseWriter(self.client, concurrency=self.config.releases.concurrency)
        brain = Brain(
            scheduler,
            self.cache,
            releases,
            clock=wall_ms,
            remember=self.history.add,
            expire_ms=int(1000 * self.config.releases.expire_s),
            reserved=self.config.nodes == "reserved",
            breaks=self._breaks,
        )
        past: Sequence[PastJob] = () if saved is not None else self.history.recent(self.config.storage.history)
        take_over(brain, identity=self.identity, pods=saved.pods if saved is not None else {}, history=past)
        conditions = ReportWriter(self.client, per_second=self.config.conditions.per_second, identity=self.identity)
        return Leadership(brain, events, releases, conditions, asyncio.get_running_loop().create_future())

    async def _stored(self) -> bytes | None:
        """The stored snapshot. Silence is not "no snapshot": the question is repeated until answered."""
        while True:
            try:
                return await self.snapshots.load()
            except ApiError as error:
                if not may_pass(error):
                    raise
                log.warning("the snapshot cannot be read yet", why=str(error))
            await asyncio.sleep(LAG_S)

    async def _until_heard_of(self, job: str) -> None:
        """Wait until the watch has told of a job in the snapshot, unless the API server has lost the job too.

        The watch may lag behind the snapshot, whose leader heard more: taken for gone, the job would be given up.
        """
        key, _, uid = job.rpartition(".")
        kinds = (self.cache.dagjobs, self.cache.pods, self.cache.pod_groups or {})
        while not any(_has_uid(objects.get(key), uid) for objects in kinds):
            if not await self._is_to_come(key, uid):
                return
            await asyncio.sleep(LAG_S)

    async def _is_to_come(self, key: str, uid: str) -> bool:
        """Whether the API server has this DagJob or pod, and the watch is not as far; True while there is no answer.

        A watch already as far and silent on the object will never tell of it: such an object cannot be read.
        """
        namespace, _, name = key.partition("/")
        try:
            for kind in ("DagJob", "Pod"):
                listed = await self.client.get(path_of(kind, f"{namespace}/"), fieldSelector=f"metadata.name={name}")
                for meta in (item["metadata"] for item in listed["items"]):
                    if meta["uid"].startswith(uid):
                        return not self.cache.reflectors[kind].is_past(meta["resourceVersion"])
        except ApiError as error:
            if not may_pass(error):
                raise
            return True
        return False

    def _scheduler(self, data: bytes | None) -> tuple[Scheduler, BrainSnapshot | None, EventLog]:
        """The scheduler from a snapshot of this configuration, otherwise a fresh scheduler."""
        storage = self.config.storage
        events = EventLog(Path(storage.dir) / "log", storage.log, wall_ms(), max_bytes=storage.max_log_bytes)
        wanted = scheduler_config(self.config)
        if data is not None:
            try:
                saved = msgspec.msgpack.decode(data, type=BrainSnapshot)
                scheduler = Scheduler.restore(saved.core, log=events.log)
                # Other settings decide otherwise, so a snapshot of theirs is of no use.
                if scheduler.config == wanted:
                    return scheduler, saved, events
                log.info("the configuration has changed: the snapshot is not used")
            except (msgspec.DecodeError, SchedulerError, LookupError, TypeError, ValueError) as error:
                log.warning("the snapshot cannot be used", why=str(error))
                metrics.RESTORES.labels(cause="snapshot").inc()
            events.discard()
            return self._scheduler(None)
        return Scheduler(wanted, log=events.log), None, events

    # -- loops of a term ------------------------------------------------------------------------

    async def _cycles(self, term: Leadership) -> None:
        """After a change, gather the changes close behind, then decide; likewise when time alone changes decisions."""
        pause_s: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause_s)
            # A gang's pods come as many changes: gathered, they cost one decision.
            await asyncio.sleep(self.config.cycle_ms / 1000)
            # Cleared before the cycle: a change told meanwhile asks for the next.
            self._changed.clear()
            term.brain.cycle()
            self.watchdog.note_turn("cycles")
            pause_ms = term.brain.driver.pause_ms()
            pause_s = None if pause_ms is None else pause_ms / 1000

    async def _every_second(self, term: Leadership) -> None:
        """Once a second: time-outs, the log, figures."""
        while True:
            await asyncio.sleep(1)
            term.brain.expire()
            term.events.flush()
            self._measure(term.brain)
            self.watchdog.note_turn("every_second")
            self._changed.set()

    def _measure(self, brain: Brain) -> None:
        state = brain.scheduler.state
        metrics.STALENESS.set(self.cache.staleness_s())
        metrics.RESERVATIONS.set(len(state.containers))
        # Queues without waiting jobs show 0, not a gap.
        pending: dict[str, int] = dict.fromkeys((name for name in state.queues if name not in state.tree.removed), 0)
        holds: dict[str, int] = {}
        for job in state.waiting.values():
            pending[job.spec.queue] = pending.get(job.spec.queue, 0) + job.waiting
            if job.hold is not None:
                holds[job.hold.value] = holds.get(job.hold.value, 0) + 1
        metrics.show(metrics.PENDING, pending)
        metrics.show(metrics.HOLDS, holds)

    async def _save(self, term: Leadership) -> None:
        """Store what is new every few seconds: the snapshot, or between large snapshots the log alone."""
        told = whole = -1  # versions of the state: up to which the log is stored, and of the snapshot
        jobs, every, whole_s = 0, self.config.snapshot.every_s, 0.0
        while True:
            left = whole_s - time.monotonic()
            await asyncio.sleep(left if every <= left < 2 * every else every)
            jobs = await self._save_history(jobs)
            state, is_due = term.brain.scheduler.state, time.monotonic() >= whole_s
            version = state.version
            if version == (whole if is_due else told):
                continue
            began = time.perf_counter()
            data = term.brain.snapshot() if is_due else None
            piece = term.events.cut(state.now)
            try:
                if data is not None:
                    whole_s = time.monotonic() + REST * (time.perf_counter() - began)
                    metrics.SNAPSHOT_BYTES.set(len(data))
                    await self.snapshots.store(data, piece)
                    told = whole = version
                elif await self.snapshots.extend(piece):
                    told = version
                else:
                    whole_s = 0.0
            except Superseded:
                log.warning("a later leader has stored its snapshot; this replica stores none any more")
                return
            except ApiError as error:
                log.warning("the snapshot is stored later", why=str(error))
                whole_s = 0.0

    async def _save_history(self, before: int) -> int:
        """Store the newest finished jobs if any job was added after the first `before`; returns the jobs added so far.

        Only forecasts need these: a failure is told, and costs the term nothing.
        """
        added = self.history.added
        if added == before:
            return before
        try:
            await self.stored_history.store(msgspec.msgpack.encode(self.history.recent(PAST_JOBS)))
        except (ApiError, HistoryUnavailable, OSError, Superseded) as error:
            log.warning("the history is stored later", why=str(error))
            return before
        return added

    def _lease_term(self) -> lease.Term:
        """This process's term, so that a leader of the past cannot overwrite a later leader's snapshot."""
        return self.lease.term if self.lease is not None else lease.Term()

    async def run(self) -> None:
        """Until cancelled: watch, lead in turn, serve."""
        port = self.config.extender
        verbs = Extender(self, budget_s=port.budget_s).app()
        probes = management(self.not_able, self.watchdog.stuck)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.cache.run())
                group.create_task(serve(verbs, port, probes, self.config.management))
                group.create_task(self._label.run())
                group.create_task(self._campaign())
        finally:
            self.history.close()

    async def _campaign(self) -> None:
        """Lead in turn; without an election, at once."""
        if self.lease is None:
            await self.gained()
        else:
            await self.lease.run(self.gained, self.lost)


def _has_uid(item: Stored | None, uid: str) -> bool:
    return item is not None and item.metadata.uid.startswith(uid)


def scheduler_config(config: BrainConfig) -> SchedulerConfig:
    """The core's configuration. Policies with reservations of their own, as YARN's, get none from the core."""
    cls, params = policies.parse(config.policy)
    setup = setup_of(config, cls(params), reserve_after=True)
    after = None if "reserve_after" in clashes(setup) else config.reserve_after_ms
    return SchedulerConfig(
        resources=tuple(config.resources),
        policy=config.policy,
        predictor=config.predictor,
        placement=config.placement,
        offers="cycle",
        seed=config.seed,
        reserve_after=None if after is None else int(after),
    )
