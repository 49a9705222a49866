"""Copies: tasks that run in several containers at once."""

from __future__ import annotations

from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from schedulers.core.decisions import Copy


class Copies(Feature):
    """Tasks with several containers; the first end counts."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        engine.actions[Copy] = self._copy

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether tasks may have several containers."""
        return may_copy(engine)

    def _copy(self, decision: Copy) -> None:
        """Grant a further container to a task."""
        engine = self.engine
        container = engine.make_container(decision.container, decision.node, decision.job)
        container.take(decision, container.master, engine.calendar.now, False)
        # `take` leaves `copy` alone. The record names copies, and their work does not count.
        container.copy = True
        engine.launch(container)

    def counts(self, container: Container) -> bool:
        """Whether the task was not counted before."""
        task, counted = (container.stage, container.task), container.master.counted_tasks
        # The end of a second copy may be heard before the scheduler has preempted the copy.
        if task in counted:
            return False
        counted.add(task)
        return True


def may_copy(engine: Engine) -> bool:
    """Whether tasks may have several containers: a policy makes copies, or masters ask for copies."""
    faults = engine.config.faults
    return engine.control.copies or (faults is not None and faults.speculation is not None)
