"""Scenarios for the fast simulator: jobs, measured run times and the engine's draws as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rm_emulator.engine.config import Central, EngineConfig, kind
from rm_emulator.experiments.assembly import cluster_of, waves_of, workload_of
from rm_emulator.scenario.schema import Scenario
from rm_emulator.workload.model import Waves, WorkloadJob
from rm_emulator.workload.waves import StageWaves, TaskDraws, run_times_of
from schedulers.core.vectors import times_in
from schedulers.planning.replan.kernel import Floats
from schedulers.planning.replan.obstacles import NUMBERS_AT_MOST, PLACES_AT_MOST
from schedulers.planning.replan.plays import FastRun, Unsuitable, durations_of, jobs_of
from schedulers.planning.replan.seen import LONGEST_MS, course_of


class FastSetting(NamedTuple):
    """A scenario's seed for the fast simulator."""

    play: FastRun
    workload: tuple[WorkloadJob, ...]
    told: list[list[float]]
    """Mean run time by job and stage, ms, as the predictor `oracle` tells it."""
    draws: Floats
    """The engine's own."""


def setting_of(scenario: Scenario, seed: int) -> FastSetting:
    """A seed of a scenario. Raises Unsuitable for a workload or a cluster that the fast simulator does not play."""
    built = workload_of(scenario, seed)
    jobs, config, looked_up = built.workload.jobs, cluster_of(scenario, built), waves_of(built)
    executors = _executors(config, jobs)
    settings = config.executors
    if settings is None or looked_up is None:
        raise Unsuitable("a workload without measured waves, or a cluster without `executors`")

    def waves(times: Waves) -> StageWaves:
        return looked_up(times, settings)

    play = play_of(jobs, waves, executors, settings.moving_ms)
    told = [[float(round(waves(times).rough_ms)) for times in _measured(each)] for each in jobs]
    return FastSetting(play, jobs, told, draws_of(jobs, seed))


def _executors(config: EngineConfig, jobs: Sequence[WorkloadJob]) -> int:
    """Number of executors of the cluster. Raises Unsuitable for a cluster with anything else."""
    plain = EngineConfig(
        nodes=config.nodes, resources=config.resources, profile="events", executors=config.executors,
        architecture=config.architecture,
    )  # fmt: skip
    other = [name for name in EngineConfig.__struct_fields__ if getattr(config, name) != getattr(plain, name)]
    if other or any(node.speed != 1 for node in config.nodes) or kind(config.architecture or Central()) != "central":
        raise Unsuitable(
            f"a cluster beyond profile `events` with executors on equal nodes ({', '.join(other) or 'speed'})"
        )
    demand = jobs[0].job.stages[0].demand if jobs else ()
    return sum(times_in(demand, node.capacity) for node in config.nodes)


def _measured(job: WorkloadJob) -> list[Waves]:
    """Run times of a job's stages. Raises Unsuitable for others than measured waves."""
    if not all(isinstance(times, Waves) for times in job.runtimes):
        raise Unsuitable(f"job '{job.job.id}' has run times that were not measured in waves")
    return [times for times in job.runtimes if isinstance(times, Waves)]


def play_of(
    workload: Sequence[WorkloadJob], waves_of: Callable[[Waves], StageWaves], executors: int, moving_ms: int
) -> FastRun:
    """The episode of a workload's jobs.

    waves_of: measured run times of a stage. executors: of the cluster, one size for all tasks.
    Raises Unsuitable for a workload or cluster beyond the fast simulator.
    """
    _check(workload, executors)
    measured = [[waves_of(times) for times in _measured(each)] for each in workload]
    tables = (waves.tables.values() for stages in measured for waves in stages)
    longest = max(max(times) for lists in tables for levels in lists for times in levels)
    if longest > LONGEST_MS:
        raise Unsuitable(f"a run time of {longest} ms (at most {LONGEST_MS})")
    courses = [course_of([run_times_of(waves) for waves in stages]) for stages in measured]
    durations = durations_of(courses, measured[0][0].choices)
    return FastRun(jobs_of([(each.submit_ms, each.job) for each in workload]), durations, executors, moving_ms)


def _check(workload: Sequence[WorkloadJob], executors: int) -> None:
    """Raise Unsuitable for jobs with anything that the fast simulator does not know."""
    most, numbers = PLACES_AT_MOST, NUMBERS_AT_MOST
    if not workload:
        raise Unsuitable("a workload without jobs")
    if not 1 <= executors <= most or executors * (len(workload) + 1) >= numbers:
        raise Unsuitable(
            f"{executors} executors for {len(workload)} jobs (1 to {most}, and executors x jobs below {numbers})"
        )
    if len({stage.demand for each in workload for stage in each.job.stages}) > 1:
        raise Unsuitable("tasks of several sizes (the fast simulator plays one size of executors)")
    for each in workload:
        plain = all(stage.above == stage.parents and not stage.gang for stage in each.job.stages)
        if each.job.kind != "batch" or each.am or each.running or not plain:
            raise Unsuitable(
                f"job '{each.job.id}' is a service, or has a gang, a master, running tasks, data on edges, "
                "or edges that are no barriers"
            )


def draws_of(workload: Iterable[WorkloadJob], seed: int) -> Floats:
    """The engine's own draws for a seed: each task has the run time that the engine gives it under the seed."""
    drawn = [
        TaskDraws(seed, each.job.id, index, stage.tasks)
        for each in workload
        for index, stage in enumerate(each.job.stages)
    ]
    both = [np.concatenate([getattr(each, name) for each in drawn]) for name in ("level", "pick")]
    return np.ascontiguousarray(np.transpose(both))
