"""Application masters: how they call the resource manager."""

from __future__ import annotations

from collections.abc import Callable

from rm_emulator.engine.calendar import ASK
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.simulation import Simulation
from schedulers.core.events import JobChanged


class Masters:
    """Application masters that call the resource manager every interval since their job's submission.

    What they hear in a call takes effect `delay_ms` later. report(container) is called when one has ended.
    """

    def __init__(
        self, engine: Simulation, interval_ms: int, delay_ms: int, report: Callable[[Container], None]
    ) -> None:
        self._engine, self._interval, self._delay, self._report = engine, interval_ms, delay_ms, report

    def call(self, job: Master) -> int:
        """When its next call is, which is after now."""
        now = self._engine.calendar.now
        return now + self._interval - (now - job.source.submit_ms) % self._interval

    def answer(self, job: Master) -> int:
        """When what it hears in its next call takes effect."""
        return self.call(job) + self._delay

    def ask(self, job: Master, stages: list[int], at: int) -> None:
        """It asks for the tasks of these stages at that time, with all that it will have to ask for then."""
        if stages and not job.asks:
            self._engine.later(at, ASK, job.number, self._ask, job)
        job.asks += stages

    def _ask(self, job: Master) -> None:
        asked, job.asks = tuple(sorted(job.asks)), []
        self._engine.tell(JobChanged(self._engine.calendar.now, job.name, asked))

    def register(self, container: Container) -> None:
        """Its own container has started."""
        job = container.master
        job.container = container
        self.ask(job, job.roots, self.call(job))

    def unregister(self, job: Master) -> None:
        """When it has counted its last task, its job is done and its container is over."""
        if not any(job.left) and not job.unregisters:
            job.unregisters = True
            self._engine.later(self.answer(job), ASK, job.number, self._unregister, job)

    def _unregister(self, job: Master) -> None:
        container = job.container
        assert container is not None
        assert container.started_ms is not None
        self._engine.finish(job)
        container.runtime = self._engine.calendar.now - container.started_ms
        self._engine.leave(container)
        self._engine.note(container)
        self._report(container)
