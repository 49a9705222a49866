"""True run times and work of jobs, and the load that they make: what `check` and the generators need of a workload.

Without polars, whose import takes a fifth of a command that only reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rm_emulator.workload.model import Drawn, Fixed, PerNode, PerTask, RunTimes, Workload, WorkloadJob
from schedulers.core.model import Job, Stage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Gives the run times (ms) of the tasks of a stage for models without run times, such as `Waves`.
Sampler = Callable[[Job, int, RunTimes], Sequence[float] | None]

WINDOW_MS: Final = 1_000_000
STEP_MS: Final = 100_000


class StageMoments(msgspec.Struct, frozen=True):
    """Number of tasks of a stage, mean and population standard deviation (ms) of their run times."""

    tasks: int
    mean: float
    std: float | None
    """None where a single run time stands for several tasks."""


def stage_times(job: WorkloadJob, stage: int, sampler: Sampler | None) -> StageMoments | None:
    """Run times of a stage by its model; None for a mean known to a profile alone."""
    times, tasks = job.runtimes[stage], job.job.stages[stage].tasks
    if isinstance(times, Fixed):
        return StageMoments(tasks, float(times.ms), 0.0)
    if isinstance(times, Drawn):
        cov = 1.0 if times.kind == "exponential" else times.cov
        return StageMoments(tasks, times.mean_ms, times.mean_ms * cov)
    values = _values(job, stage, sampler)
    return None if values is None else StageMoments(tasks, float(values.mean()), float(values.std()))


def mean_task_ms(job: WorkloadJob, stage: int = 0, sampler: Sampler | None = None) -> float | None:
    """True mean run time of a task of a stage, ms at node speed 1; None for a mean known to a profile alone."""
    times = job.runtimes[stage]
    if isinstance(times, Fixed):
        return float(times.ms)
    if isinstance(times, Drawn):
        return times.mean_ms
    values = _values(job, stage, sampler)
    return None if values is None else float(values.mean())


def _values(job: WorkloadJob, stage: int, sampler: Sampler | None) -> Floats | None:
    """Single run times of a stage, ms; None where they are known to a profile alone."""
    times = job.runtimes[stage]
    drawn: Sequence[float] | None = None
    if isinstance(times, PerNode):
        drawn = [sum(row) / len(row) for row in times.ms]
    elif isinstance(times, PerTask):
        drawn = times.ms
    elif sampler is not None:
        drawn = sampler(job.job, stage, times)
    return np.asarray(drawn, dtype=np.float64) if drawn else None


def work_ms(job: WorkloadJob, sampler: Sampler | None = None) -> float | None:
    """True run time of all tasks of a job together, ms at node speed 1; None for run times known to a profile alone."""
    works = []
    for index, stage in enumerate(job.job.stages):
        if (mean := mean_task_ms(job, index, sampler)) is None:
            return None
        works.append(mean * stage.tasks)
    return math.fsum(works)


def slots_for(
    workload: Workload, capacity: Mapping[str, float], sampler: Sampler | None = None
) -> tuple[float, str] | None:
    """Number of average tasks (weighted by run time) that fit at once, and the resource that allows no more.

    `capacity`: of the whole cluster by resource, in steps; a node of speed 2 counts twice. None for unknown run times,
    no asks, or asks for an absent resource.
    """
    areas, total = dict.fromkeys(workload.resources, 0.0), 0.0
    for stage, mean in _all_stages(workload, sampler):
        if mean is None:
            return None
        total += mean * stage.tasks
        for name, wanted in zip(workload.resources, stage.demand, strict=True):
            areas[name] += mean * stage.tasks * wanted
    held = [(capacity.get(name, 0.0) * total / area, name) for name, area in areas.items() if area]
    least = min(held, default=(0.0, ""))
    return least if least[0] > 0 else None


def mean_task(workload: Workload, resource: str | None, sampler: Sampler | None = None) -> float | None:
    """Mean run time of a task, ms, weighted by the asks for `resource`; None for unknown run times."""
    place = None if resource is None else list(workload.resources).index(resource)
    total = weight = 0.0
    for stage, mean in _all_stages(workload, sampler):
        if mean is None:
            return None
        each = stage.tasks * (1 if place is None else stage.demand[place])
        total, weight = total + each * mean, weight + each
    return total / weight if weight else None


def offered_load(workload: Workload, slots: float, sampler: Sampler | None = None) -> float | None:
    """All work over slots x arrival span (last minus first arrival); None for a span of 0 or unknown run times."""
    works = [work_ms(job, sampler) for job in workload.jobs]
    if not works or None in works:
        return None
    span = workload.jobs[-1].submit_ms - workload.jobs[0].submit_ms
    return math.fsum(w for w in works if w is not None) / (slots * span) if span > 0 else None


def window_loads(
    submit_ms: Ints, work: Floats, slots: float, *, window_ms: int = WINDOW_MS, step_ms: int = STEP_MS
) -> Floats:
    """Load of every window [t, t + window) from the first arrival on, slid by `step_ms` (paper, Table 5).

    submit_ms: arrivals in ascending order, shape (jobs,). work: ms of run time each brings, same shape.
    The last window ends with the last arrival; a workload shorter than a window is a single window.
    """
    first, last = int(submit_ms[0]), int(submit_ms[-1])
    starts = np.arange(first, max(last - window_ms, first) + 1, step_ms, dtype=np.int64)
    sums = np.concatenate(([0.0], np.cumsum(work)))
    upto = np.searchsorted(submit_ms, starts + window_ms, side="left")
    since = np.searchsorted(submit_ms, starts, side="left")
    loads: Floats = (sums[upto] - sums[since]) / (slots * window_ms)
    return loads


def _all_stages(workload: Workload, sampler: Sampler | None) -> Iterator[tuple[Stage, float | None]]:
    """Every stage of the workload's jobs with its mean run time; None where only a profile knows its run times."""
    for job in workload.jobs:
        for index, stage in enumerate(job.job.stages):
            yield stage, mean_task_ms(job, index, sampler)
