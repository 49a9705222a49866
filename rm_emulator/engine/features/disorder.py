"""Disorder: facts that are heard late or twice, decisions that take effect late, all seeded."""

from __future__ import annotations

import msgspec
import numpy as np

from rm_emulator.engine import config
from rm_emulator.engine.calendar import END
from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from schedulers.core import keyed
from schedulers.core.decisions import Decision
from schedulers.core.events import Event


class Disorder(Feature):
    """When facts are heard and decisions take effect, drawn in the order of the run."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        settings = engine.config.disorder
        assert settings is not None
        self._settings = settings
        self._draw = keyed.generator(engine.seed, "disorder", "delays")

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """See Feature."""
        return engine.config.disorder is not None

    def deliveries(self) -> list[int]:
        """Delays in ms at which a fact is heard; 0 is now, two entries a repetition."""
        settings, draw = self._settings, self._draw
        late = draw.random() < settings.delay
        twice = draw.random() < settings.duplicate
        delays = [int(draw.integers(1, settings.delay_ms + 1)) if late else 0]
        if twice:
            delays.append(delays[0] + int(draw.integers(1, settings.delay_ms + 1)))
        return delays

    def granted(self, container: Container, at: int) -> int:
        """See Feature. Some decisions take effect late."""
        if self._draw.random() >= self._settings.late:
            return at
        return at + int(self._draw.integers(1, self._settings.late_ms + 1))

    def completed(self, event: Event) -> list[Decision]:
        """See Feature. It is heard late, or twice."""
        engine = self.engine
        for delay in self.deliveries():
            if delay == 0:
                engine.tell(event)
            else:
                engine.later(engine.calendar.now + delay, END, 0, self._tell_late, event)
        return []

    def _tell_late(self, event: Event) -> None:
        engine = self.engine
        engine.tell(msgspec.structs.replace(event, at=engine.calendar.now))
        for job in list(engine.jobs.values()):
            engine.profile.finish_if_over(job)
        engine.profile.freed(None)


def shuffle(disorder: config.Disorder | None, seed: int) -> np.random.Generator | None:
    """What permutes facts of the same instant; None where they come in their order."""
    return keyed.generator(seed, "disorder", "order") if disorder is not None and disorder.permute else None
