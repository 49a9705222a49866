"""Rehearses jobs for the policy in a thread of its own, while decisions go on, and tells the core the results."""

from __future__ import annotations

import asyncio
from typing import Final

from operators.extender.brain import Brain
from schedulers.core.abilities import Rehearses, ability
from schedulers.core.events import Rehearsed
from schedulers.planning.jockey.rehearsal import rehearse

#: Seconds between two looks at the policy's wishes.
_PERIOD_S: Final = 0.2


async def rehearse_all(brain: Brain) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(_PERIOD_S)
        await rehearse_once(brain)


async def rehearse_once(brain: Brain) -> None:
    """Rehearse every job that the policy asks for, one after the other, and tell the core each result at once.

    The result for a job that has gone meanwhile is dropped.
    """
    rehearses = ability(brain.scheduler.policy, Rehearses)
    for job, script in rehearses.new_scripts().items() if rehearses is not None else ():
        # A rehearsal plays a whole job many times: on the event loop no call would be answered in time.
        courses, table = await asyncio.to_thread(rehearse, script)
        if job in brain.scheduler.state.jobs:
            brain.driver.tell(Rehearsed(brain.driver.now(), job, courses, table))
