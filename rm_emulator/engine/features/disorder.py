"""Disorder: facts heard late or twice, decisions with a late effect, all seeded."""

from __future__ import annotations

import msgspec
import numpy as np

from rm_emulator.engine import config
from rm_emulator.engine.calendar import END
from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.early import EarlyContainers
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from schedulers.core import keyed
from schedulers.core.decisions import Decision
from schedulers.core.events import ContainerEnded, Event, TaskEnded


class DisorderFeature(Feature):
    """Delays of facts and decisions, drawn in the order of the run."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        settings = engine.config.disorder
        assert settings is not None
        self._settings = settings
        self._draw = keyed.generator(engine.seed, "disorder", "delays")
        self._unheard: dict[int, TaskEnded | ContainerEnded] = {}  # by container, before the first hearing

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether the cluster has disorder."""
        return engine.config.disorder is not None

    def deliveries(self) -> list[int]:
        """Delays of the hearings of a fact, ms; 0 is now, two entries are a repetition."""
        settings, draw = self._settings, self._draw
        # Both draws always, so that a probability of 0 leaves the draws of the other as they are.
        late = draw.random() < settings.delay
        twice = draw.random() < settings.duplicate
        delays = [int(draw.integers(1, settings.delay_ms + 1)) if late else 0]
        if twice:
            delays.append(delays[0] + int(draw.integers(1, settings.delay_ms + 1)))
        return delays

    def granted(self, container: Container, at: int) -> int:
        """Delay the effect of some decisions."""
        if self._draw.random() >= self._settings.late:
            return at
        return at + int(self._draw.integers(1, self._settings.late_ms + 1))

    def completed(self, event: Event) -> list[Decision]:
        """Tell a completion late, or twice."""
        assert isinstance(event, TaskEnded | ContainerEnded)
        engine, delays = self.engine, self.deliveries()
        if delays[0]:
            self._unheard[event.container] = event
        for delay in delays:
            # Told now instead of entered without delay: undisturbed facts keep their order.
            if delay == 0:
                engine.tell(event)
            else:
                engine.later(engine.calendar.now + delay, END, 0, self._tell_late, event)
        return []

    def hear_all(self, node: str) -> None:
        """Tell all completions reported by the node; facts told later repeat these completions."""
        # The application counted these tasks: a loss heard before would make the scheduler run the tasks again.
        held = self.engine.control.containers
        for number, event in list(self._unheard.items()):
            if number in held and held[number].node == node:
                self._tell_late(event)

    def _tell_late(self, event: TaskEnded | ContainerEnded) -> None:
        engine = self.engine
        if self._unheard.get(event.container) is event:
            del self._unheard[event.container]
        engine.tell(msgspec.structs.replace(event, at=engine.calendar.now))
        early = engine.feature(EarlyContainers)
        # The late fact may be the last of any job: which job is not told with the fact.
        for job in list(engine.jobs.values()):
            if early is not None:
                early.end_heard(job)
            engine.profile.finish_if_over(job)
        engine.profile.freed(None)


def shuffle(disorder: config.Disorder | None, seed: int) -> np.random.Generator | None:
    """The generator for permutations of facts of the same instant; None for facts in their order."""
    return keyed.generator(seed, "disorder", "order") if disorder is not None and disorder.permute else None
