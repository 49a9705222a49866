"""Who decides, as the engine sees it."""

from __future__ import annotations

from typing import Protocol

from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.explain import Explanation
from schedulers.core.policy import Policy
from schedulers.core.state import ClusterState


class Stalled(RuntimeError):
    """Nothing can happen any more and jobs are unfinished; the message says which and why."""


class Control(Protocol):
    """Who decides. `Scheduler` is the default."""

    state: ClusterState

    @property
    def policy(self) -> Policy:
        """Whose triggers say what it wants to hear of."""

    def handle(self, event: Event) -> list[Decision]:
        """Take in a fact, return decisions."""

    def explain(self, job: str) -> Explanation:
        """Why a live job waits."""
