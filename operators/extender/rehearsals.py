"""Plays the jobs that the policy wishes to be rehearsed, beside the deciding, and tells the core what came of it."""

from __future__ import annotations

import asyncio
from typing import Final

from operators.extender.brain import Brain
from schedulers.core.events import Rehearsed
from schedulers.planning.rehearsal import rehearse

#: Seconds between two looks at what is wished for.
_PERIOD_S: Final = 0.2


class Rehearsals:
    """The player of one term of leadership. Of a job that is gone when its play ends nothing is told."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self.play()

    async def play(self) -> None:
        """All that is wished for now, one after the other: what comes of it is told as soon as it is there."""
        decisions = self._brain.decisions
        for job, script in self._brain.scheduler.policy.new_scripts().items():
            courses, table = await asyncio.to_thread(rehearse, script)
            if job in self._brain.scheduler.state.jobs:
                decisions.tell(Rehearsed(decisions.now(), job, courses, table))
