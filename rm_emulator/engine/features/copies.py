"""Copies: tasks that run in several containers at once."""

from __future__ import annotations

from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from schedulers.core.decisions import Copy


class Copies(Feature):
    """Tasks that may have several containers; the first that ends counts."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        engine.obeys[Copy] = self._copy

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """See Feature."""
        return engine.control.copies

    def _copy(self, decision: Copy) -> None:
        """One more container is granted to a task."""
        engine = self.engine
        container = engine.contain(decision.container, decision.node, decision.job)
        container.take(decision, container.master, engine.calendar.now, False)
        container.copy = True
        engine.launch(container)

    def counts(self, container: Container) -> bool:
        """See Feature."""
        task, counted = (container.stage, container.task), container.master.counted
        if task in counted:
            return False
        counted.add(task)
        return True
