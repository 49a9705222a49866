"""Start-up: the time between a container's launch and its task's first instant."""

from __future__ import annotations

from rm_emulator.engine.containers import Container
from rm_emulator.engine.execution import draw
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from rm_emulator.workload.model import Drawn, Fixed
from schedulers.core import keyed


class Startup(Feature):
    """Start-up times of containers, fixed or drawn for each attempt."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._startup, self._seed = engine.config.startup, engine.seed

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether start-up takes time."""
        return engine.config.startup != Fixed(0)

    def granted(self, container: Container, at: int) -> int:
        """Add the start-up time of the attempt."""
        # Keyed by attempt, so that two policies meet the same start-up times.
        key = container.job, container.stage, container.task, container.attempt
        return at + startup_ms(self._startup, self._seed, *key)


def startup_ms(startup: Fixed | Drawn, seed: int, job: str, stage: int, task: int, attempt: int) -> int:
    """Start-up time of an attempt, ms."""
    if isinstance(startup, Fixed):
        return startup.ms
    return draw(startup, keyed.generator(seed, "startup", job, stage, task, attempt), 1)[0]
