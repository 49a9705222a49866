"""A run put together from workload, cluster, deciders and recording, for cells, environments and training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.execution import WavesOf
from rm_emulator.engine.recording import Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.experiments.deciders import Deciders, Entry
from rm_emulator.scenario.cluster import engine_config
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.workload import Built, build
from schedulers.core.log import Log
from schedulers.core.policy import Policy
from schedulers.core.resources import Resources

_last: list[tuple[str, Built]] = []


class AssembledRun(NamedTuple):
    """A simulation ready to run, and its deciders."""

    simulation: Simulation
    deciders: Deciders


def assemble(
    scenario: Scenario,
    entry: Entry,
    seed: int,
    built: Built,
    recording: Recording,
    *,
    config: EngineConfig | None = None,
    log: Callable[[str], Log] | None = None,
    policy: Policy | None = None,
    progress: Callable[[int], None] | None = None,
) -> AssembledRun:
    """The run of a seed under one entry of the scenario's `policies`, as resolved.

    built: the seed's workload, or a part of the workload. config: the cluster, by default the scenario's. log: makes
    the log of a scheduler from its name, '' for a single scheduler; None: no log is kept. policy: decides in place of
    the entry's policy, with the entry's predictor and placement. progress: hears the number of finished tasks.
    """
    config = config or cluster_of(scenario, built)
    who = Deciders(entry, seed, scenario, config, built.workload, log, policy)
    simulation = Simulation(
        config,
        built.workload,
        who.control,
        recording,
        seed=seed,
        waves_of=waves_of(built),
        oracle=who.is_clairvoyant,
        progress=progress,
    )
    return AssembledRun(simulation, who)


def cluster_of(scenario: Scenario, built: Built) -> EngineConfig:
    """The scenario's cluster, with the resources of the workload."""
    return engine_config(scenario, Resources(built.workload.resources))


def workload_of(scenario: Scenario, seed: int) -> Built:
    """The workload of a seed, kept for the next run: policies are compared on the very same jobs."""
    key = _key(scenario, seed)
    if not _last or _last[0][0] != key:
        # Paths in a resolved scenario are absolute, so the folder they are relative to does not matter.
        _last[:] = [(key, build(scenario, Path(), seed))]
    return _last[0][1]


def keep(scenario: Scenario, seed: int, built: Built) -> None:
    """Let `workload_of` find a workload that was built before, of a resolved scenario."""
    _last[:] = [(_key(scenario, seed), built)]


def forget() -> None:
    """Keep no workload: a million run times take 80 MB."""
    _last.clear()


def _key(scenario: Scenario, seed: int) -> str:
    spec = scenario.spec
    basis = {"cluster": spec.cluster.model_dump(mode="json"), "workload": spec.workload.model_dump(mode="json")}
    return json.dumps([basis, seed], sort_keys=True)


def waves_of(built: Built) -> WavesOf | None:
    """Function that looks up measured profiles of a workload, None for a workload without profiles."""
    profiles = built.profiles
    if profiles is None:
        return None
    return lambda times, executors: profiles.waves_of(
        times, warmup_ms=executors.warmup_ms, inverted=executors.inverted_levels
    )
