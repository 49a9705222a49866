"""Reasons of the job's tasks without a container."""

from __future__ import annotations

from typing import Final

from rm_emulator.results.chapters.data import DataChapter, waits_for
from rm_emulator.results.chapters.diary import FOR_DATA, ON_DEAD_NODE, STARTING, Part, Stretches, plural
from rm_emulator.results.chapters.outages import Outages
from rm_emulator.results.chapters.tasks import Tasks
from schedulers.core.reasons import Reason
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import JobState
from schedulers.decentralised.decider import Decentraliser

#: How often a waiting job is looked at, at first; the interval doubles after `_LOOKS` looks.
_LOOK_MS: Final = 1000
_LOOKS: Final = 512


class Reasons:
    """Asks the scheduler for the job's reason of waiting, at news of the job and from time to time during a wait."""

    def __init__(
        self,
        scheduler: Scheduler | Decentraliser,
        state: JobState,
        tasks: Tasks,
        data: DataChapter,
        outages: Outages,
        stretches: Stretches,
    ) -> None:
        self._scheduler, self._state, self._tasks, self._data = scheduler, state, tasks, data
        self._outages, self._stretches = outages, stretches
        self._looked = self._looks = 0
        self._every = _LOOK_MS

    def due(self, at: int) -> bool:
        """Whether the next look is due.

        Of several facts at an instant the last counts: states in between lasted no time.
        """
        return at - self._looked >= self._every or at == self._looked

    def look(self, at: int) -> None:
        """Ask the scheduler why the job waits now."""
        self._looked, self._looks = at, self._looks + 1
        if self._looks % _LOOKS == 0:
            self._every *= 2
        stretches, reason = self._stretches, self._scheduler.reason(self._state)
        if reason is not None:
            stretches.reason = reason.value
        elif self._tasks.run:
            stretches.reason = None
            return
        elif self._data.awaited(at):
            stretches.reason = FOR_DATA
        else:
            stretches.reason = ON_DEAD_NODE if self._tasks.on_dead_nodes else STARTING
        if stretches.reason not in stretches:
            stretches.note(self._part(stretches.reason, at))

    def _part(self, reason: str, at: int) -> Part:
        if reason == STARTING:
            return Part(reason, 0, "its containers are starting")
        if reason == FOR_DATA:
            return Part(reason, 0, waits_for(self._data.awaited(at)[-1]))
        if reason == ON_DEAD_NODE:
            first, *more = self._tasks.on_dead_nodes
            who = f"{self._tasks.called(first)}{f' (and {len(more)} more)' if more else ''}"
            return Part(reason, 0, f"{who} seems to run on {self._outages.named(first.node)} and is not given up yet")
        job, waiting = self._state.spec.id, self._scheduler.state.waiting
        said = next((why for why in self._scheduler.explain(job).reasons if why.reason == reason), None)
        if said is None:
            return Part(reason, 0, reason.replace("_", " "))
        others = len(waiting) - (job in waiting)
        also = f"; {others} other {plural(others, 'job waits', 'jobs wait')}" if others else ""
        off = self._tasks.losses.backing_off(said.data["stage"]) if said.reason is Reason.WAITS_FOR_ASK else ""
        return Part(reason, 0, (off or said.sentence + self._outages.lacking(self._state, reason)) + also)

    def in_words(self) -> str:
        """The scheduler's present sentences, after a colon."""
        job = self._state.spec.id
        if job not in self._scheduler.state.jobs:
            return ""
        sentences = [reason.sentence for reason in self._scheduler.explain(job).reasons]
        return f": {'; '.join(sentences)}" if sentences else ""
