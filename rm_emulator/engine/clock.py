"""Effects of time alone: a policy's own period, and the times at which the decisions would change."""

from __future__ import annotations

from rm_emulator.engine.calendar import ASK, TICK
from rm_emulator.engine.control import PATIENCE
from rm_emulator.engine.profile import Engine
from schedulers.core.events import Tick


class Clock:
    """Asks the policy again at its times; not for ever when nothing changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next_change = engine.control.next_change
        self._due: int | None = None  # the policy's last answer, ms
        self._idle_turns = self._idle_periods = 0  # in a row

    @property
    def is_set(self) -> bool:
        """Whether the policy will be asked again by time alone, with a chance of a change."""
        return self._due is not None and self._idle_turns <= PATIENCE

    def begin(self) -> None:
        """Enter the end of the present period on the calendar."""
        if (period := self._engine.control.triggers.period_ms) is not None:
            calendar = self._engine.calendar
            # At multiples of the period, so that a run that was taken over keeps to the same times.
            calendar.at(calendar.now - calendar.now % period + period, TICK, 1, self._period, period)

    def _period(self, period: int) -> None:
        """Ask the policy in its own period, up to the last job, or to many periods without a change."""
        engine = self._engine
        version = engine.control.version
        engine.tell(Tick(engine.calendar.now))
        busy = engine.control.version != version or engine.is_busy
        self._idle_periods = 0 if busy else self._idle_periods + 1
        if engine.arrivals.are_left or (engine.jobs and self._idle_periods <= PATIENCE):
            self.begin()
        engine.carry_on()

    def enter_next_change(self) -> None:
        """Enter the time at which time alone changes the decisions, unless an earlier time is entered."""
        assert self._next_change is not None
        due, now = self._next_change(), self._engine.calendar.now
        # A later time need not be entered: the policy is asked again after the earlier time.
        if due is not None and now < due and (self._due is None or due < self._due):
            self._due = due
            self._engine.calendar.at(due, ASK, 0, self._offer_anew, (due, self._engine.control.version))

    def _offer_anew(self, entered: tuple[int, int]) -> None:
        """Offer all refused room anew, as if the room were given back."""
        engine, (due, version) = self._engine, entered
        if due != self._due:
            return
        self._due = None
        busy = engine.control.version != version or engine.is_busy
        # Counted, so that a policy with an ever later answer ends as stalled instead of running for ever.
        self._idle_turns = 0 if busy else self._idle_turns + 1
        if self._idle_turns <= PATIENCE:
            engine.profile.freed(None)
            engine.carry_on()
