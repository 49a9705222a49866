"""Profile `events`."""

from __future__ import annotations

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
        if kept is not None:
            executors = KeptExecutors(engine, kept.moving_ms)
            self.launch, self.ended = executors.launch, executors.ended  # type: ignore[method-assign]
