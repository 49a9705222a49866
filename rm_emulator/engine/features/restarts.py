"""Restarts of the resource manager: for a while nothing is heard and nothing is decided.

Tasks go on where they run, and nodes break. Ends, starts, submissions, and calls of masters wait, and are told in their
order when the manager is back; offers come last. With recovery the manager knows what it knew before, as with Hadoop's
work-preserving restart, or as a leader that takes over from the objects. Without, it knows no job and nodes end all
containers; clients submit their unfinished jobs anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rm_emulator.engine.calendar import ASK, END, FIRST, START
from rm_emulator.engine.config import Restart
from rm_emulator.engine.containers import Container
from rm_emulator.engine.exit_codes import KILLED_BY_MANAGER
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.features.node_faults import NodeFaults
from rm_emulator.engine.preemptions import lose
from rm_emulator.engine.profile import Engine
from schedulers.core.events import ContainerEnded, ContainerStarted, JobCancelled


class Restarts(Feature):
    """A manager that is away at times; a restart that begins while the manager is away is left out."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        assert engine.config.faults is not None
        self._left_ms: int | None = None
        """Since when the manager is away, ms; None: it is there."""
        self._settles: Restart | None = None
        """The restart after which nothing is granted as yet."""
        # Replaced rather than hooked into: a run without restarts has no test for each start.
        self._started = engine.started
        engine.started = self._starts  # type: ignore[method-assign]
        self._nodes: NodeFaults | None = None
        for restart in engine.config.faults.restarts:
            engine.calendar.at(restart.at_ms, FIRST, 0, self._leave, restart)

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether the manager restarts."""
        return engine.config.faults is not None and bool(engine.config.faults.restarts)

    def facts_to_come(self) -> bool:
        """Whether the manager is yet to hear what has happened."""
        return self._left_ms is not None or (self._settles is not None and bool(self.engine.jobs))

    def _leave(self, restart: Restart) -> None:
        engine, now = self.engine, self.engine.calendar.now
        is_over = not (engine.jobs or engine.containers or engine.arrivals.are_left)
        if self._left_ms is not None or is_over:
            return
        self._left_ms, self._settles = now, restart
        self._nodes = engine.feature(NodeFaults)
        self._hear_end, engine.hear_end = engine.hear_end, self._keep
        engine.calendar.let_wait(self._waits)
        lasts = max(restart.lasts_ms, engine.profile.restart_ms)
        engine.record.restart(now, now + lasts)
        engine.calendar.at(now + lasts, FIRST, 0, self._return, restart)

    def _waits(self, rank: int, callback: Callable[[Any], object], about: Any) -> bool:
        """Whether an entry of the calendar tells something, instead of happening on a node."""
        if rank == FIRST:
            happens = [self._leave, self._return, *([self._nodes.begin] if self._nodes is not None else [])]
            return callback not in happens
        if rank == START and callback == self.engine.started:
            assert self._left_ms is not None
            return not self.engine.profile.has_reached(about, self._left_ms)
        return rank != END or callback in (self._tell_end, self.engine.tell_due)

    def _starts(self, container: Container) -> None:
        """Start a task now, of whose start the manager hears later."""
        engine, now = self.engine, self.engine.calendar.now
        if self._left_ms is None:
            self._started(container)
        elif engine.containers.get(container.container) is container and container.started_ms is None:
            engine.calendar.at(now, START, container.container, self._tell_start, container)
            engine.start(container, now)

    def _tell_start(self, container: Container) -> None:
        if self.engine.containers.get(container.container) is container:
            self.engine.handle(ContainerStarted(self.engine.calendar.now, container.container))

    def _keep(self, container: Container) -> bool:
        """Keep the end of a task for later, in place of `Engine.hear_end`."""
        self.engine.calendar.at(self.engine.calendar.now, END, container.container, self._tell_end, container)
        return False

    def _tell_end(self, container: Container) -> None:
        # Lost meanwhile, with its node.
        if self.engine.containers.get(container.container) is container and self.engine.hear_end(container):
            self.engine.carry_on()

    def _return(self, restart: Restart) -> None:
        engine = self.engine
        self._left_ms, engine.hear_end = None, self._hear_end
        engine.profile.back(recovered=restart.recovery)
        settles = engine.profile.settle_ms if restart.recovery else 0
        if restart.recovery:
            engine.calendar.wait_no_more()
        else:
            # Of jobs before, or ends of containers that are all told.
            engine.facts_to_come -= engine.calendar.wait_no_more(engine.tell_due)
            self._begin_anew()
        engine.calendar.catch_up()
        if self._nodes is not None and restart.recovery and not engine.profile.has_leaders:
            self._nodes.count_silence_anew()
        engine.carry_on()
        engine.calendar.at(engine.calendar.now + settles, ASK, 0, self._ready, restart)

    def _begin_anew(self) -> None:
        """Let nodes end all containers at their manager's word, and let clients submit all jobs anew."""
        engine, now = self.engine, self.engine.calendar.now
        jobs = sorted(engine.jobs.values(), key=lambda job: job.number)
        if self._nodes is not None:
            self._nodes.lose_silent()
        for job in jobs:
            engine.tell(JobCancelled(now, job.name, "the resource manager forgot it"))
        for container in list(engine.containers.values()):
            lose(engine, container, KILLED_BY_MANAGER)
        # By the scheduler's books: an end before the restart may be unheard.
        live = {job.name for job in jobs}
        for number, held in list(engine.control.containers.items()):
            # A master's own container ends with its job, and is reported later: this job is over, and begins not anew.
            is_over = held.job not in live and not held.copy and not engine.control.job(held.job).cancelled
            engine.tell(ContainerEnded(now, number, 0 if is_over else KILLED_BY_MANAGER))
        for job in jobs:
            for begins_anew in engine.begins_anew:
                begins_anew(job)
            engine.arrivals.submit_anew(job)

    def _ready(self, restart: Restart) -> None:
        """Let nodes be offered, unless the manager has gone away again."""
        if self._left_ms is None and self._settles is restart:
            self._settles = None
            self.engine.profile.ready()
            self.engine.carry_on()
