"""Profile `events`."""

from __future__ import annotations

from rm_emulator.engine.containers import Container
from rm_emulator.engine.cycles import Cycles
from rm_emulator.engine.executors import KeptExecutors
from rm_emulator.engine.simulation import Simulation


class Events(Cycles):
    """A scheduler that is called at scheduling events, and whose decisions take effect at once.

    So do the simulators of the literature; with executors that outlive tasks it is Decima's (SIGCOMM 2019, section 6.2;
    hongzimao/decima-sim).
    """

    asks = "all"
    has_executors = True

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        kept = engine.config.executors
        self._executors = KeptExecutors(engine, kept.moving_ms) if kept is not None else None

    def launch(self, container: Container) -> int:
        """See Profile."""
        return super().launch(container) if self._executors is None else self._executors.launch(container)

    def ended(self, container: Container) -> bool:
        """See Profile."""
        return super().ended(container) if self._executors is None else self._executors.ended(container)
