"""Rehearses jobs for the policy in a thread of its own, while decisions go on, and tells the core the results."""

from __future__ import annotations

import asyncio
from typing import Final

from operators.extender.brain import Brain
from schedulers.core.abilities import Rehearses, ability
from schedulers.core.events import Rehearsed
from schedulers.planning.jockey.rehearsal import rehearse

#: Seconds between two looks at what is wished for.
_PERIOD_S: Final = 0.2


class Rehearsals:
    """The rehearsals of one term of leadership. The result for a job that has gone meanwhile is dropped."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self.play()

    async def play(self) -> None:
        """Rehearse every job that the policy asks for, one after the other, and tell the core each result at once."""
        decisions = self._brain.decisions
        rehearses = ability(self._brain.scheduler.policy, Rehearses)
        if rehearses is None:
            return
        for job, script in rehearses.new_scripts().items():
            courses, table = await asyncio.to_thread(rehearse, script)
            if job in self._brain.scheduler.state.jobs:
                decisions.tell(Rehearsed(decisions.now(), job, courses, table))
