"""Seeded draws of `Disorder`, in the order of the run."""

from __future__ import annotations

from rm_emulator.engine.config import Disorder
from schedulers.core import keyed


class DisorderDraws:
    """When facts are heard and decisions take effect, where there is disorder."""

    def __init__(self, settings: Disorder, seed: int) -> None:
        self._settings = settings
        self._draw = keyed.generator(seed, "disorder", "delays")

    def deliveries(self) -> list[int]:
        """Delays in ms at which a fact is heard; 0 is now, two entries a repetition."""
        settings, draw = self._settings, self._draw
        late = draw.random() < settings.delay
        twice = draw.random() < settings.duplicate
        delays = [int(draw.integers(1, settings.delay_ms + 1)) if late else 0]
        if twice:
            delays.append(delays[0] + int(draw.integers(1, settings.delay_ms + 1)))
        return delays

    def lateness(self) -> int:
        """By how many ms a decision takes effect late."""
        if self._draw.random() >= self._settings.late:
            return 0
        return int(self._draw.integers(1, self._settings.late_ms + 1))
