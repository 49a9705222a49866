"""Deciders: facts in, decisions out, and a state with the standing of each job."""

from __future__ import annotations

from typing import Protocol

from schedulers.core.decisions import Decision
from schedulers.core.events import Event
from schedulers.core.explain import Explanation
from schedulers.core.state import ClusterState


class Decider(Protocol):
    """A single scheduler, or all schedulers and workers of a cluster together."""

    state: ClusterState

    def handle(self, event: Event) -> list[Decision]:
        """Take in a fact, return decisions."""

    def explain(self, job: str) -> Explanation:
        """Why a live job waits. Raises KeyError if the job is not live."""
