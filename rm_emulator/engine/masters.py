"""Application masters and their calls to the resource manager."""

from __future__ import annotations

from collections.abc import Callable

from rm_emulator.engine.calendar import ASK
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.simulation import Simulation
from schedulers.core.events import JobChanged


class Masters:
    """Application masters that call the resource manager every interval since their job's submission.

    The news of a call takes effect `delay_ms` later. `report(container)` is called at the end of a master.
    """

    def __init__(
        self, engine: Simulation, interval_ms: int, delay_ms: int, report: Callable[[Container], None]
    ) -> None:
        self._engine, self._interval, self._delay, self._report = engine, interval_ms, delay_ms, report

    def call(self, job: Master, after: int | None = None) -> int:
        """Time of the master's next call, after now or after another time, ms."""
        now = self._engine.calendar.now if after is None else after
        return now + self._interval - (now - job.source.submit_ms) % self._interval

    def answer(self, job: Master, after: int | None = None) -> int:
        """Time at which the news of the call of `call` takes effect, ms."""
        return self.call(job, after) + self._delay

    def ask(self, job: Master, stages: list[int], at: int) -> None:
        """Ask for the tasks of these stages at time `at`, together with all asks up to then."""
        # A master that nobody hears asks for everything unasked when it registers again.
        if job.is_silent:
            return
        # One call carries all asks: stages that end before the call join the entry on the calendar.
        if stages and not job.stages_to_ask:
            self._enter(job, at, self._ask)
        job.stages_to_ask += stages

    def _enter(self, job: Master, at: int, act: Callable[[Master], None]) -> None:
        self._engine.later(at, ASK, job.number, self._make, (act, job, job.silences))

    def _make(self, call: tuple[Callable[[Master], None], Master, int]) -> None:
        act, job, silences = call
        # A call of a master that has fallen silent since is void: the calendar has no removal.
        if silences == job.silences:
            act(job)

    def _ask(self, job: Master) -> None:
        asked, job.stages_to_ask = tuple(sorted(job.stages_to_ask)), []
        self._engine.tell(JobChanged(self._engine.calendar.now, job.name, asked))

    def take_over(self, job: Master) -> None:
        """Call anew in place of the calls on their way in a paused run."""
        # The former entry on the calendar is gone, so that nobody would carry these asks out.
        job.stages_to_ask = []
        if job.source.am and job.container is None:
            return  # asks once its container runs
        self.ask(job, job.unasked_stages, self.answer(job))
        if job.is_unregistering:
            job.is_unregistering = False
            self.unregister(job)

    def register(self, container: Container) -> None:
        """Note the start of the master's own container, or that the master is heard again."""
        job = container.master
        job.container = container
        if not job.is_silent:
            self.ask(job, job.root_stages, self.call(job))
            return
        # A further attempt, or a master heard again: its job may have gone on, to the last task even.
        job.silent_since_ms = None
        self.ask(job, job.unasked_stages, self.call(job))
        self.unregister(job)

    def unregister(self, job: Master) -> None:
        """After the last counted task, end the job and the master's container."""
        if not any(job.tasks_left) and not job.is_unregistering and not job.is_silent:
            job.is_unregistering = True
            self._enter(job, self.answer(job), self._unregister)

    def _unregister(self, job: Master) -> None:
        container = job.container
        assert container is not None
        assert container.started_ms is not None
        # The job ends in this very call; the end of the container is reported later.
        self._engine.finish(job)
        container.runtime = self._engine.calendar.now - container.started_ms
        self._engine.tell_removal(container)
        self._engine.record_end(container)
        self._report(container)
