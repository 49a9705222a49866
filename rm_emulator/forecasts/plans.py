"""Plans of plays as plain data, able to travel to other machines, and the player on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from rm_emulator.forecasts.arrivals import Recent
from rm_emulator.forecasts.changes import Takeover, taken_over
from rm_emulator.forecasts.moment import Paused
from rm_emulator.forecasts.plays import CORES, Courses, Play, plays
from rm_emulator.workload.model import WorkloadJob


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Plays of a run from a moment on, which differ in the draw alone."""

    at_ms: int
    draws: Sequence[int]
    """Numbers of the draws."""
    watched: tuple[str, ...]
    """Jobs whose end is the end of a play."""
    new: tuple[WorkloadJob, ...] = ()
    """Jobs that are submitted at the moment, or after."""
    arrivals_ms: int = 0
    """Jobs to come are drawn from those that arrived so long before the moment; 0: none come."""
    by: Takeover | None = None
    """Who takes the present over; None: nobody."""


class Player(Protocol):
    """Plays what is planned."""

    def play(self, plan: Plan) -> list[Courses]:
        """The courses of each draw, in order. Raises PlayFailed."""


class Here:
    """Plays a run on this machine. The run is at the moment of each plan. at_once: number of processes."""

    def __init__(self, run: Paused, at_once: int = CORES) -> None:
        self._run, self._at_once = run, at_once
        self._recent: tuple[tuple[int, int], Recent] | None = None

    def play(self, plan: Plan) -> list[Courses]:
        """See Player."""
        recent = self._recent_jobs(plan)
        whats = [self._play(plan, recent, draw) for draw in plan.draws]
        return list(plays(self._run.simulation, whats, self._at_once))

    def _recent_jobs(self, plan: Plan) -> Recent:
        key = plan.at_ms, plan.arrivals_ms
        if self._recent is None or self._recent[0] != key:
            self._recent = key, Recent(self._run, self._run.moment(), plan.arrivals_ms)
        return self._recent[1]

    def _play(self, plan: Plan, recent: Recent, draw: int) -> Callable[[], Play]:
        run, moment = self._run, self._run.moment()

        def made() -> Play:
            takeover = None if plan.by is None else partial(taken_over, run=run, by=plan.by)
            drawn = tuple(moment.arriving(job, draw) for job in plan.new) if moment is not None else ()
            future = moment.draw(draw) if moment is not None else None
            names = tuple(job.job.id for job in plan.new)
            # By submission alone, so that of equal times new jobs come first.
            coming = sorted((*drawn, *recent.jobs(draw)), key=lambda job: job.submit_ms)
            return Play(future, tuple(coming), plan.watched, names, draw, takeover)

        return made
