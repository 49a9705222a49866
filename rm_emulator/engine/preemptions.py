"""Containers that end before their task: preempted ones end at once, and the scheduler is told afterwards."""

from __future__ import annotations

from typing import Final

from rm_emulator.engine.calendar import END
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.exit_codes import KILLED, KILLED_BY_MANAGER, PREEMPTED, TERMINATED
from rm_emulator.engine.profile import Engine
from schedulers.core.copies import COPY
from schedulers.core.decisions import Preempt
from schedulers.core.events import ContainerEnded, JobCancelled

#: Rules of the end of a container whose job has failed, whose gang has lost a member, or whose master is lost; no
#: scheduler decides by them.
JOB_FAILED: Final = "job failed"
GANG_PARTED: Final = "gang parted"
MASTER_LOST: Final = "master lost"
_CODES: Final = {JOB_FAILED: KILLED, GANG_PARTED: TERMINATED, MASTER_LOST: KILLED_BY_MANAGER}


def lose(engine: Engine, container: Container, code: int) -> None:
    """Lose a container that is gone without its own word; the scheduler is to be told."""
    # With a member of a gang the others may have left before their turn comes.
    if engine.containers.pop(container.container, None) is None:
        return
    engine.tell_removal(container)
    engine.profile.removed(container)
    # An idle executor, or one on its way, has no attempt to lose.
    if container.stage >= 0 and not container.has_ended:
        container.master.failed_attempts += 1
        engine.record_end(container, code)


class Preemptions:
    """Carries out the decisions `Preempt` of a run."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def end(self, decision: Preempt) -> None:
        """End a preempted container at once; the task will run again, unless the container was a copy."""
        engine, number = self._engine, decision.container
        container = engine.containers.get(number)
        if container is None or container.has_ended:
            return  # ended by itself; the end is yet to be heard
        del engine.containers[number]
        engine.tell_removal(container)
        # A superfluous copy did not fail.
        if decision.rule != COPY:
            container.master.failed_attempts += 1
        engine.record_end(container, _CODES.get(decision.rule, PREEMPTED))
        # Not told at once: the other decisions of the same list are not carried out yet.
        engine.later(engine.calendar.now + 1, END, number, self._tell, container)

    def _tell(self, container: Container) -> None:
        self._engine.profile.removed(container)
        self._engine.tell(ContainerEnded(self._engine.calendar.now, container.container, container.code))
        self._engine.profile.freed(container.index)


def fail_job(engine: Engine, job: Master, why: str, last: Container | None = None) -> None:
    """Fail a job now, with the end of all its containers but `last`, whose end is being heard."""
    engine.tell(JobCancelled(engine.calendar.now, job.name, why))
    for container in [each for each in engine.containers.values() if each.master is job and each is not last]:
        engine.actions[Preempt](Preempt(container.container, JOB_FAILED, job.name))
    job.failed_ms = engine.calendar.now
    engine.finish(job)
