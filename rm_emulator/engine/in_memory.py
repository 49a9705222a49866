"""A small run from its parts to its end, recording in memory: for known answers, studies and the tests of plug-ins."""

from __future__ import annotations

from typing import NamedTuple

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.control import Control, Scheduling
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import Workload


class MemoryRun(NamedTuple):
    """A finished run with its recording."""

    simulation: Simulation
    recording: MemoryRecording


def run_in_memory(
    config: EngineConfig,
    workload: Workload,
    control: Scheduling | Control,
    *,
    seed: int = 0,
    oracle: bool = False,
    attempts: bool = True,
) -> MemoryRun:
    """Run the workload on this cluster. `oracle` tells true means; `attempts`: see `MemoryRecording`.

    Raises as `Simulation`.
    """
    recording = MemoryRecording(attempts=attempts)
    simulation = Simulation(config, workload, control, recording, seed=seed, oracle=oracle)
    simulation.run()
    return MemoryRun(simulation, recording)
