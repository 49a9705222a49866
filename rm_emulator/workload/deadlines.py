"""Deadlines for jobs without a deadline."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rm_emulator.workload.model import RunTimes, Workload, WorkloadJob, mean_ms
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.fields import Probability, written
from schedulers.core.resources import Vector
from schedulers.kit.paths import to_output


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines for jobs without a deadline of their own, for policies that follow deadlines."""

    part: Probability = 1.0
    """Part of the jobs with a deadline, drawn by job, e.g. `0.5`."""
    factor: Annotated[tuple[float, float], written("factors")] = (1.5, 3.0)
    """Time to the deadline over the longest time of the job alone on the cluster, [lowest, highest], drawn by job, e.g.
    `[1.5, 3]`.
    """


def with_deadlines(workload: Workload, capacity: Vector, settings: Deadlines, seed: int) -> Workload:
    """The workload with a deadline for a part of its jobs; jobs with a deadline keep their own.

    A job is given a multiple of its longest time alone on the cluster (ms): the longest path, plus the work over the
    tasks that fit at once, by true mean run times. `capacity`: of the cluster.
    Raises InvalidParameters for measured waves.
    """
    replace, jobs = msgspec.structs.replace, []
    for entry in workload.jobs:
        made, (lowest, highest) = entry, settings.factor
        if entry.job.deadline is None and keyed.uniform(seed, "has deadline", entry.job.id) < settings.part:
            drawn = lowest + (highest - lowest) * keyed.uniform(seed, "deadline", entry.job.id)
            due = entry.submit_ms + max(1, round(drawn * _alone_ms(entry, capacity)))
            made = replace(entry, job=replace(entry.job, deadline=due))
        jobs.append(made)
    return replace(workload, jobs=tuple(jobs))


def _alone_ms(entry: WorkloadJob, capacity: Vector) -> float:
    """Graham's bound on any schedule that leaves no room idle: the longest path, and all work at full width."""
    stages, means = entry.job.stages, [_mean_ms(times, entry.job.id) for times in entry.runtimes]
    work = sum(stage.tasks * mean / _at_once(stage.demand, capacity) for stage, mean in zip(stages, means, strict=True))
    return max(to_output(stages, means.__getitem__)) + work


def _at_once(demand: Vector, capacity: Vector) -> int:
    return max(1, min(whole // wanted for whole, wanted in zip(capacity, demand, strict=True) if wanted))


def _mean_ms(times: RunTimes, job: str) -> float:
    mean = mean_ms(times)
    if mean is None:
        raise InvalidParameters(f"job '{job}' has run times by wave, which say nothing of how long it takes by itself")
    return mean
