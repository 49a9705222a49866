"""Architecture `two_level`."""

from __future__ import annotations

from collections.abc import Iterator

from rm_emulator.engine.config import Thinker
from rm_emulator.engine.config import TwoLevel as Settings
from rm_emulator.engine.profile import architectures
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.thinking import ThinkingProfile, ThinkingScheduler


@architectures.register("two_level", source="Omega (EuroSys 2013), section 3.3; Mesos (NSDI 2011)")
class TwoLevelProfile(ThinkingProfile):
    """Mesos, as Omega is compared with it (EuroSys 2013, section 3.3): offers to frameworks, locked while they think.

    All free room not on offer is offered to a single framework: of the idle frameworks with a job, the framework with
    the least held (dominant share, DRF). The framework sees the offer alone. Unused room is free again at the end of
    the attempt.
    """

    settings: Settings

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        self._offers: dict[int, dict[int, list[int]]] = {}  # offers by framework, then by node
        self._closed: set[int] = set()  # nodes that take no further tasks
        self._unoffered = [list(free) for free in self.free]  # by node the amounts neither held nor on offer
        self._available_nodes = {index: None for index in range(len(self.free)) if self._is_available(index)}

    @property
    def thinkers(self) -> tuple[Thinker, ...]:
        """The frameworks of the settings."""
        return self.settings.thinkers

    def next_to_think(self) -> Iterator[ThinkingScheduler]:
        """Frameworks in the order of dominant shares, while room is left to offer."""
        while self._available_nodes and (
            wanting := [scheduler for scheduler in self.schedulers if scheduler.can_begin]
        ):
            # A generator: each offer takes room, so the next framework is chosen after the offer.
            yield min(wanting, key=lambda scheduler: self.control.share(scheduler.number))

    def refresh_view(self, scheduler: ThinkingScheduler) -> None:
        """Offer all free room to the framework, and show nothing else."""
        offer = {index: list(self._unoffered[index]) for index in self._available_nodes}
        nothing = [0] * len(self.free[0])
        seen = [offer.get(index, nothing) for index in range(len(self.free))]
        self.set_foreign_use(scheduler, range(len(self.free)), seen)
        self._offers[scheduler.number] = offer
        # All that was on offer to nobody: nothing is left, so that no node has to be settled by itself.
        for index in offer:
            self._unoffered[index] = nothing
        self._available_nodes.clear()

    def attempt_ended(self, scheduler: ThinkingScheduler) -> None:
        """Free the unused room of the offer."""
        for index in self._offers.pop(scheduler.number):
            self.node_changed(index, scheduler.number)

    def node_changed(self, node: int, by: int) -> None:
        """Settle the room of the node held by nobody and offered to nobody."""
        unoffered = list(self.free[node])
        for lock in self._offers.values():
            for r, amount in enumerate(lock.get(node, ())):
                unoffered[r] -= amount
        self._unoffered[node] = unoffered
        if self._is_available(node):
            self._available_nodes[node] = None
        else:
            self._available_nodes.pop(node, None)

    def closed(self, node: int) -> None:
        """Offer the node no more, and take it out of open offers."""
        self._closed.add(node)
        for offer in self._offers.values():
            offer.pop(node, None)
        super().closed(node)

    def heard_again(self, node: int) -> None:
        """Offer the node again."""
        self._closed.discard(node)
        super().heard_again(node)

    def _is_available(self, node: int) -> bool:
        """Whether the node takes tasks, and some of each of its resources is free, and on offer to nobody."""
        if node in self._closed:
            return False
        room = self.engine.config.nodes[node].room
        return all(there > 0 for there, most in zip(self._unoffered[node], room, strict=True) if most)
