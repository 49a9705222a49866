"""Decima's batch of 20 jobs on 50 executors, run once per policy and seed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.simulation import Simulation
from rm_emulator.experiments.assembly import waves_of
from rm_emulator.scenario.cluster import engine_config
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.workload import build
from rm_emulator.testing import MemoryRecording
from schedulers.core.log import SchedulerConfig
from schedulers.core.resources import Resources
from schedulers.core.scheduler import Scheduler
from schedulers.learned.dispatch import Dispatch
from studies import decima


class Episode(NamedTuple):
    """Jobs that ended, their mean completion time in s, how often a policy in Decima's form was asked (0: another)."""

    jobs: int
    mean_s: float
    asked: int


@cache
def _setting(seed: int) -> Any:
    scenario = Scenario.model_validate(decima.scenario([seed, seed + 1]))
    return scenario, build(scenario, Path(), seed)


def episode(policy: dict[str, Any], seed: int) -> Episode:
    """One run under the oracle."""
    scenario, built = _setting(seed)
    config = engine_config(scenario, Resources(built.workload.resources))
    made = Scheduler(
        SchedulerConfig(
            resources=config.resources,
            policy=policy,
            predictor={"kind": "oracle"},
            placement={"kind": "first_fit"},
            offers=timing(config).offers,
            executors=True,
            seed=seed,
        )
    )
    kept = MemoryRecording()
    Simulation(config, built.workload, made, kept, seed=seed, waves_of=waves_of(built), oracle=True).run()
    assert isinstance(made.policy, Dispatch) or policy["kind"] != "dispatch"
    spans = [job.finish_ms - job.submit_ms for job in kept.jobs if job.finish_ms is not None]
    return Episode(
        len(spans), fmean(spans) / 1000, made.policy.question_count if isinstance(made.policy, Dispatch) else 0
    )
