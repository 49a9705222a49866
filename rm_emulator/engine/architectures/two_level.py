"""Architecture `two_level`."""

from __future__ import annotations

from collections.abc import Iterator

from rm_emulator.engine.config import Thinker
from rm_emulator.engine.config import TwoLevel as Settings
from rm_emulator.engine.profile import architectures
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.thinking import Thinking, ThinkingScheduler


@architectures.register("two_level", source="Omega (EuroSys 2013), section 3.3; Mesos (NSDI 2011)")
class TwoLevel(Thinking):
    """Mesos, as Omega is compared with it (EuroSys 2013, section 3.3): offers to frameworks, locked while they think.

    Whenever anything is free that nobody was offered, all of it is offered to one framework: of those that are idle and
    have a job, the one whose tasks hold the least (dominant share, DRF). The offer is all that it sees. What it has not
    used when it has thought is free again.
    """

    settings: Settings

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        self._locks: dict[int, dict[int, list[int]]] = {}  # by framework what it was offered, by node
        self._shown = [list(free) for free in self.free]  # by node what nobody holds or was offered
        self._open = {index: None for index in range(len(self.free)) if self._is_open(index)}

    @property
    def thinkers(self) -> tuple[Thinker, ...]:
        """See Thinking."""
        return self.settings.thinkers

    def next_to_think(self) -> Iterator[ThinkingScheduler]:
        """See Thinking."""
        while self._open and (wanting := [scheduler for scheduler in self.schedulers if scheduler.wants]):
            yield min(wanting, key=lambda scheduler: self.control.share(scheduler.number))

    def look(self, scheduler: ThinkingScheduler) -> None:
        """See Thinking. It is offered all that is free, and sees nothing else."""
        offer = {index: list(self._shown[index]) for index in self._open}
        nothing = [0] * len(self.free[0])
        seen = [offer.get(index, nothing) for index in range(len(self.free))]
        self.show(scheduler, range(len(self.free)), seen)
        self._locks[scheduler.number] = offer
        for index in offer:
            self.changed(index, scheduler.number)

    def finished(self, scheduler: ThinkingScheduler) -> None:
        """See Thinking. What it did not use is free again."""
        for index in self._locks.pop(scheduler.number):
            self.changed(index, scheduler.number)

    def changed(self, node: int, by: int) -> None:
        """See Thinking."""
        shown = list(self.free[node])
        for lock in self._locks.values():
            for r, amount in enumerate(lock.get(node, ())):
                shown[r] -= amount
        self._shown[node] = shown
        if self._is_open(node):
            self._open[node] = None
        else:
            self._open.pop(node, None)

    def _is_open(self, node: int) -> bool:
        """Whether some of each resource of the node is free, and nobody was offered it."""
        room = self.engine.config.nodes[node].room
        return all(there > 0 for there, most in zip(self._shown[node], room, strict=True) if most)
