"""A small run from its parts to its end, kept in memory: for known answers, studies and the tests of plug-ins."""

from __future__ import annotations

from typing import NamedTuple

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.control import Control, Scheduling
from rm_emulator.engine.recording import Kept
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import Workload


class PlayedRun(NamedTuple):
    """A finished run with its recording."""

    simulation: Simulation
    kept: Kept


def played(
    config: EngineConfig,
    workload: Workload,
    control: Scheduling | Control,
    *,
    seed: int = 0,
    oracle: bool = False,
    attempts: bool = True,
) -> PlayedRun:
    """Run the workload on this cluster. `oracle` tells true means; `attempts`: see `Kept`. Raises as `Simulation`."""
    kept = Kept(attempts=attempts)
    simulation = Simulation(config, workload, control, kept, seed=seed, oracle=oracle)
    simulation.run()
    return PlayedRun(simulation, kept)
