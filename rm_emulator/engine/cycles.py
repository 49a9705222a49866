"""Profiles without heartbeats: facts are gathered, then a single round decides on all nodes."""

from __future__ import annotations

from rm_emulator.engine.calendar import TICK
from rm_emulator.engine.control import OneScheduler
from rm_emulator.engine.profile import Profile
from rm_emulator.engine.simulation import Simulation
from schedulers.core.events import Tick


class Cycles(Profile):
    """All nodes are on offer in each cycle.

    `gather_ms`: time from the first fact to the round, ms; 0: all facts of an instant.
    """

    offers = "cycle"

    engine: Simulation

    def __init__(self, engine: Simulation, *, gather_ms: int = 0) -> None:
        super().__init__(engine)
        control = engine.control
        assert isinstance(control, OneScheduler)  # nodes are offered to nobody else
        self.control = control
        self._gather_ms = gather_ms
        self._is_due = self._is_due_again = False  # a cycle after facts; one for what was refused

    def offer(self) -> None:
        """Enter a cycle after the facts, if a waiting task could start."""
        # Facts of one gathering share a cycle; without takers a cycle would decide nothing.
        if not self._is_due and self.control.has_startable_task():
            self._is_due = True
            calendar = self.engine.calendar
            calendar.at(calendar.now + self._gather_ms, TICK, 0, self._cycle)

    def _cycle(self, _: None) -> None:
        self._is_due = False
        control = self.control
        version = control.version
        self.engine.ask(Tick(self.engine.calendar.now))
        if control.triggers.every_offer and not self._is_due_again:
            self._offer_again(changed=control.version != version)

    def _offer_again(self, *, changed: bool) -> None:
        """Offer the refused room once more, an interval later."""
        if self.control.has_startable_task() and self.is_patient(changed=changed):
            self._is_due_again = True
            calendar = self.engine.calendar
            # Key 2: after the cycle for new facts of the same instant.
            calendar.at(calendar.now + self.engine.config.heartbeat_ms, TICK, 2, self._cycle_again)

    def _cycle_again(self, _: None) -> None:
        self._is_due_again = False
        self._cycle(None)
