"""The workload of LACHESIS: TPC-H jobs with data between stages, for executors of unlike speed.

Source: "LACHESIS", arXiv 2103.06980, section V-B: jobs out of 22 shapes and 6 sizes, 50 executors with speeds from a
table of Intel frequencies between 2.1 and 3.6 GHz, one speed of transfer for all pairs, batches of 1 to 20 and of 30 to
100 jobs, or a job at time 0 and the rest as a Poisson stream with 45 s between them. The shapes and the
measured durations come from the released simulator of Decima, the base of the paper's workload.

Left open by the paper, and chosen here:

- **Tasks.** The paper's tasks are atomic, the measured stages have many tasks. `reading: stage` makes a stage a single
  task with the work of all its tasks (as the paper's speedups, below 7 on 50 executors, suggest); `reading: tasks`
  keeps the tasks. The draws are the same, so both readings have the same work.
- **Data.** Neither sizes and their distribution nor the speed of transfer are given, and the measurements hold none.
  Data of an edge is drawn as in the HEFT literature (see `dags`): evenly from 0 to twice the mean of its job, with the
  mean such that the mean transfer of a stage's data takes `ccr` times as long as the mean stage as a single task. So a
  single number decides the worth of placement, and large queries move more than small queries. Both readings
  have the same data; where stages keep their tasks, the pairs of tasks share the data. `ccr` is 5, the HEFT paper's
  value nearest to the paper's figures (speedups of up to 6.8 with 20 jobs, SLR between 1 and 2 with many):
  over ten seeds HEFT's speedup with 20 jobs is 5.3 and HighRankUp-DEFT's SLR with 100 jobs 1.8. With 1 and below, the
  longest path of a large job is nearly all of the makespan under any planner (SLR 1.03), with 10 HEFT's SLR is above 3.
- **Units.** The durations hold for an executor at the middle of the range, 2.85 GHz; speeds are in GHz.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta

from rm_emulator.workload import tpch
from rm_emulator.workload.dags import RATE
from rm_emulator.workload.model import Fixed, PerTask, RunTimes, Workload, WorkloadJob
from rm_emulator.workload.profiles import TpchProfiles
from schedulers.core import keyed
from schedulers.core.model import Edge, Stage

#: GHz at which the measured durations are taken to hold.
MEASURED_GHZ: Final = 2.85
#: The frequencies that executors have, GHz.
FREQUENCIES: Final = tuple(tenth / 10 for tenth in range(21, 37))


class LachesisSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """LACHESIS's jobs. Defaults: its largest small batch."""

    jobs: Annotated[int, Meta(ge=1, description="number of jobs; the paper has 1 to 20 and 30 to 100")] = 20
    queries: Annotated[tuple[int, ...], Meta(description="numbers of the TPC-H queries to draw from, 1 to 22")] = (
        tpch.QUERIES
    )
    sizes: Annotated[
        tuple[int, ...], Meta(description="amounts of data to draw from, GB: 2, 5, 10, 20, 50, 80, 100")
    ] = (
        2,
        5,
        10,
        50,
        80,
        100,
    )
    arrivals: Annotated[
        Literal["batch", "poisson"],
        Meta(description="arrivals: batch all at time 0, poisson at random after the first job"),
    ] = "batch"
    interarrival_s: Annotated[float, Meta(gt=0, description="mean time between jobs, s, for poisson")] = 45.0
    reading: Annotated[
        Literal["stage", "tasks"],
        Meta(description="tasks of a stage: stage makes one task with all work, tasks keeps the measured number"),
    ] = "stage"
    ccr: Annotated[
        float, Meta(ge=0, description="mean transfer time of a stage's data / mean run time of a stage as one task")
    ] = 5.0
    level: Annotated[int, Meta(ge=1, description="number of executors of the measured durations")] = 50
    queue: Annotated[str, Meta(description="queue of all jobs")] = "default"
    demand: Annotated[
        dict[str, Any], Meta(description="resources of one task, as quantities", examples=[{"cpu": 1}])
    ] = msgspec.field(default_factory=lambda: {"cpu": 1})


def speeds(count: int = 50, *, seed: int) -> tuple[float, ...]:
    """The speeds of `count` executors in GHz, drawn from `FREQUENCIES`; more leave the first speeds unchanged."""
    draws = keyed.generator(seed, "lachesis speeds").random(count).tolist()
    return tuple(FREQUENCIES[int(draw * len(FREQUENCIES))] for draw in draws)


def generate(
    settings: LachesisSettings,
    *,
    seed: int,
    speeds: Sequence[float],
    rate: int = RATE,
    profiles: TpchProfiles | None = None,
) -> Workload:
    """The jobs of the settings and the seed, with run times at speed 1 (1 GHz).

    `speeds` of the executors and `rate`, bytes a second between two executors, turn `ccr` into amounts of data.
    `profiles`: the measurements, else the built-in summary. Raises InvalidParameters with the wrong setting.
    """
    drawn = tpch.generate(
        tpch.TpchSettings(
            jobs=settings.jobs,
            queries=settings.queries,
            sizes=settings.sizes,
            arrivals=settings.arrivals,
            interarrival_s=settings.interarrival_s,
            durations="per_task",
            level=settings.level,
            history=0,
            queue=settings.queue,
            demand=settings.demand,
        ),
        seed=seed,
        profiles=profiles,
    )
    bytes_per_ms = settings.ccr * float(np.mean(1 / np.array(speeds))) * rate / 1000
    jobs = tuple(_job(entry, settings.reading, bytes_per_ms, seed) for entry in drawn.jobs)
    source = f"{drawn.source}; as in LACHESIS, arXiv 2103.06980, section V-B"
    return msgspec.structs.replace(drawn, name="lachesis", jobs=jobs, source=source)


def _job(entry: WorkloadJob, reading: str, bytes_per_ms: float, seed: int) -> WorkloadJob:
    """The job with data; `bytes_per_ms` move in `ccr` times the mean time over the executors of 1 ms of work."""
    job = entry.job
    drawn = [times.ms for times in entry.runtimes if isinstance(times, PerTask)]  # all are, as asked for
    tasks = [tuple(max(1, round(ms * MEASURED_GHZ)) for ms in stage) for stage in drawn]
    stages = _with_data(job.id, job.stages, bytes_per_ms * sum(map(sum, tasks)) / len(tasks), seed)
    runtimes: tuple[RunTimes, ...] = tuple(map(PerTask, tasks))
    if reading == "stage":
        stages = tuple(msgspec.structs.replace(stage, tasks=1) for stage in stages)
        runtimes = tuple(Fixed(sum(ms)) for ms in tasks)
    return msgspec.structs.replace(entry, job=msgspec.structs.replace(job, stages=stages), runtimes=runtimes)


def _with_data(job_id: str, stages: Sequence[Stage], mean: float, seed: int) -> tuple[Stage, ...]:
    """The stages with data on their edges, `mean` bytes on average over the job."""
    count = sum(len(stage.above) for stage in stages)
    draws = keyed.generator(seed, "lachesis data", job_id).random(count)
    volumes = iter(np.rint(draws * (mean * count / max(float(draws.sum()), 2**-53))).astype(np.int64).tolist())

    def edges(stage: Stage) -> Iterator[int | Edge]:
        for parent, data in zip(stage.above, volumes, strict=False):
            yield Edge(parent=parent, data=data) if data else parent

    return tuple(msgspec.structs.replace(stage, parents=tuple(edges(stage))) for stage in stages)
