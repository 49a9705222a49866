"""Profile `events`."""

from __future__ import annotations

from rm_emulator.engine.cycles import Cycles
from rm_emulator.engine.profile import profiles


@profiles.register("events", source="Decima (SIGCOMM 2019), section 6.2; hongzimao/decima-sim")
class Events(Cycles):
    """A scheduler called at scheduling events, with decisions that take effect at once.

    As in the simulators of the literature; with kept executors, the simulator of Decima (SIGCOMM 2019, section 6.2;
    hongzimao/decima-sim).
    """

    asks = "all"
    has_executors = True
