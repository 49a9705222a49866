"""Profile `events`."""

from __future__ import annotations

from rm_emulator.engine.cycles import Cycles
from rm_emulator.engine.profile import profiles


@profiles.register("events", source="Decima (SIGCOMM 2019), section 6.2; hongzimao/decima-sim")
class Events(Cycles):
    """A scheduler that is called at scheduling events, and whose decisions take effect at once.

    So do the simulators of the literature; with executors that outlive tasks it is Decima's (SIGCOMM 2019, section 6.2;
    hongzimao/decima-sim).
    """

    asks = "all"
    has_executors = True
