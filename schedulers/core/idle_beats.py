"""Beats without any change, for a policy that counts beats: such beats go to the log together, without a call."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core.abilities import PassesBeats, Remembers, Searches, WantsNodes, ability
from schedulers.core.events import Heartbeat
from schedulers.core.journal import Cursor
from schedulers.core.log import Log
from schedulers.core.policy import ClusterView, Policy
from schedulers.core.state import ClusterState


class IdleBeats:
    """Beats of a scheduler that change nothing. to_check: jobs with a possibly changed reason (`Holds`)."""

    def __init__(
        self, state: ClusterState, policy: Policy, view: ClusterView, to_check: Cursor[str], log: Log | None
    ) -> None:
        self._state, self._view, self._to_check, self.log = state, view, to_check, log
        # Policies with one of the other abilities may decide, or remember, at any fact.
        moved = any(ability(policy, kind) is not None for kind in (WantsNodes, Searches, Remembers))
        may_pass = policy.triggers.every_beat and state.copies.settings is None and not moved
        self._passes = ability(policy, PassesBeats) if may_pass else None

    @property
    def exist(self) -> bool:
        """Whether there may ever be such beats."""
        return self._passes is not None

    @property
    def may_pass(self) -> bool:
        """Whether beats change nothing before the next fact of another kind."""
        state, to_check = self._state, self._to_check
        if self._passes is None or state.waiting or state.reservations is not None:
            return False
        return to_check.at >= len(to_check.entries) and self._passes.beats_pass(self._view)

    def take_in(self, beats: Sequence[Heartbeat]) -> None:
        """Take in beats, in order of time, while they `may_pass`: the log keeps each of them."""
        self._state.now = beats[-1].at
        if self.log is not None:
            self.log.add_all(beats)
