"""Workloads of recurring TPC-H jobs with measured Spark task durations (see `profiles`).

The name of a job is its query, and the amount of data differs from run to run: a predictor on history
has to generalise, a predictor on samples does not. The summary of the measurements in the package is made from the full
profiles by

    python -m rm_emulator.workload.tpch PROFILES [OUTPUT]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
import typer

from rm_emulator.workload.model import PerTask, RunTimes, Waves, Workload, WorkloadJob
from rm_emulator.workload.profile_files import load_profiles, summarise
from rm_emulator.workload.profiles import BUILTIN, JobProfile, TpchProfiles, profile_key
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.resources import Resources, Vector

QUERIES: Final = tuple(range(1, 23))
SIZES_GB: Final = (2, 5, 10, 20, 50, 80, 100)
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class TpchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workload of recurring TPC-H jobs. Defaults: the stream of Decima's released experiments."""

    jobs: Annotated[
        AtLeastOne | None, msgspec.Meta(description="number of jobs; null: every query at every size once, in order")
    ] = 200
    queries: Annotated[
        tuple[int, ...], msgspec.Meta(description="numbers of the TPC-H queries to draw from, 1 to 22")
    ] = QUERIES
    sizes: Annotated[
        tuple[int, ...], msgspec.Meta(description="amounts of data to draw from, GB: 2, 5, 10, 20, 50, 80, 100")
    ] = SIZES_GB
    arrivals: Annotated[
        Literal["poisson", "batch"], msgspec.Meta(description="arrivals: poisson at random, batch all at time 0")
    ] = "poisson"
    initial: Annotated[int, msgspec.Meta(ge=1, description="number of jobs at time 0, for poisson")] = 1
    interarrival_s: Annotated[float, msgspec.Meta(gt=0, description="mean time between jobs, s, for poisson")] = 25.0
    draws: Annotated[
        Literal["own", "released"],
        msgspec.Meta(
            description="source of queries, sizes and arrivals: own draws, or the draws that Decima's released "
            "simulator draws from the seed"
        ),
    ] = "own"
    load: Annotated[
        Annotated[float, msgspec.Meta(gt=0)] | None,
        msgspec.Meta(
            description="total work / (slots x arrival span), met exactly; overrides `interarrival_s`", examples=[0.8]
        ),
    ] = None
    slots: Annotated[
        AtLeastOne | None, msgspec.Meta(description="number of slots (or executors) that `load` is measured against")
    ] = None
    durations: Annotated[
        Literal["waves", "per_task"],
        msgspec.Meta(
            description="waves: by wave and number of executors, for clusters with executors; "
            "per_task: one draw per task at `level`, for plain containers"
        ),
    ] = "waves"
    level: Annotated[
        int, msgspec.Meta(ge=1, description="number of executors of the measurements that per_task and `history` use")
    ] = 50
    history: Annotated[int, msgspec.Meta(ge=0, description="number of earlier runs, over all queries")] = 200
    history_sizes: Annotated[
        tuple[int, ...], msgspec.Meta(description="amounts of data of the earlier runs, GB; empty: as `sizes`")
    ] = ()
    users: Annotated[int, msgspec.Meta(ge=1, description="number of users; each query belongs to one user")] = 4
    queue: Annotated[str, msgspec.Meta(description="queue of all jobs")] = "default"
    demand: Annotated[
        dict[str, Any],
        msgspec.Meta(description="resources of one task, as quantities", examples=[{"cpu": 1, "memory": "2Gi"}]),
    ] = msgspec.field(default_factory=lambda: {"cpu": 1, "memory": "2Gi"})
    drawn: Annotated[
        dict[str, Any],
        msgspec.Meta(
            description="resources of which each stage demands a random part, (0, 1] of these quantities, instead of "
            "the quantities in `demand` (Decima, section 7.3)",
            examples=[{"memory": "8Gi"}],
        ),
    ] = msgspec.field(default_factory=dict)
    profiles: Annotated[
        str | None, msgspec.Meta(description="path of the full profiles; null: the built-in summary")
    ] = None


def generate(settings: TpchSettings, *, seed: int, profiles: TpchProfiles | None = None) -> Workload:
    """The workload of the settings and the seed.

    `profiles`: loaded profiles; by default loaded from `settings.profiles`. The engine needs the same profiles to run
    `waves` (`load_profiles(settings.profiles)`).
    Raises InvalidParameters with the wrong setting, and TraceError for unreadable profiles.
    """
    measured = load_profiles(settings.profiles) if profiles is None else profiles
    _check(settings, measured)
    most = {**settings.demand, **settings.drawn}
    kinds = Resources().extended(most)
    demand = kinds.demand(most)
    draws = tuple(i for i, name in enumerate(kinds.names) if name in settings.drawn)
    runs, arrivals = _released_runs(settings, seed) if settings.draws == "released" else (_runs(settings, seed), None)
    width = len(str(len(runs) - 1))
    ids = [f"tpch-{number:0{width}d}" for number in range(len(runs))]
    profiles_of = [measured.job(profile_key(query, size)) for query, size in runs]
    runtimes = [_runtimes(settings, seed, measured, ids[i], job) for i, job in enumerate(profiles_of)]
    work = sum(_work_ms(job, times) for job, times in zip(profiles_of, runtimes, strict=True))
    submits = _submits(settings, seed, len(runs), work) if arrivals is None else arrivals
    jobs = tuple(
        WorkloadJob(job=_job(settings, seed, job_id, profile, demand, draws), submit_ms=submit, runtimes=times)
        for job_id, profile, submit, times in zip(ids, profiles_of, submits, runtimes, strict=True)
    )
    gap_ms = submits[-1] / max(1, len(runs) - 1) or settings.interarrival_s * 1000
    return Workload(
        name="tpch",
        jobs=jobs,
        history=_history(settings, seed, measured, demand, gap_ms),
        resources=kinds.names,
        source=measured.source if measured.exact else f"{measured.source}; summarised as quantiles",
    )


def _check(settings: TpchSettings, profiles: TpchProfiles) -> None:
    """Raise InvalidParameters for mistakes beyond the types."""
    if settings.jobs is not None and settings.jobs < 1:
        raise InvalidParameters(f"tpch: jobs is {settings.jobs} (at least 1, or null for every query and size once)")
    for name in ("queries", "sizes"):
        if not getattr(settings, name):
            raise InvalidParameters(f"tpch: {name} is empty (name at least one)")
    known = {job.key: job for job in profiles.jobs}
    for size in (*settings.sizes, *settings.history_sizes):
        for query in settings.queries:
            if profile_key(query, size) not in known:
                raise InvalidParameters(
                    f"tpch: there is no query {query} at {size} GB "
                    f"(queries: {_span({job.query for job in known.values()})}; "
                    f"sizes: {_span({job.size_gb for job in known.values()})})"
                )
    if settings.load is not None:
        if settings.load <= 0:
            raise InvalidParameters(f"tpch: load is {settings.load} (above 0)")
        if settings.slots is None or settings.slots < 1:
            raise InvalidParameters(
                "tpch: load needs slots, at least 1: set `slots` (unless given, they are the tasks of `demand` that "
                "the cluster runs at once)"
            )
        if settings.arrivals == "batch" or (settings.jobs is not None and settings.jobs <= settings.initial):
            raise InvalidParameters("tpch: load needs poisson arrivals and more jobs than `initial`")
    if settings.draws == "released" and (settings.jobs is None or settings.load is not None):
        unusable = "jobs: null" if settings.jobs is None else f"load (it is {settings.load})"
        raise InvalidParameters(f"tpch: draws 'released' cannot be had with {unusable} (that simulator has none)")


def _span(numbers: Iterable[int]) -> str:
    return " ".join(map(str, sorted(numbers)))


def _runs(settings: TpchSettings, seed: int) -> list[tuple[int, int]]:
    """(query, size in GB) of each job."""
    if settings.jobs is None:
        return [(query, size) for query in settings.queries for size in settings.sizes]
    return _drawn_runs(settings.queries, settings.sizes, settings.jobs, keyed.generator(seed, "tpch-jobs"))


def _released_runs(settings: TpchSettings, seed: int) -> tuple[list[tuple[int, int]], list[int]]:
    """(query, size in GB) and arrival in ms of each job as the released simulator draws them, order of draws and all.

    Source: hongzimao/decima-sim, spark_env/job_generator.py.
    """
    drawn = np.random.RandomState(seed)
    count = settings.jobs or 0
    initial = count if settings.arrivals == "batch" else min(settings.initial, count)

    def one_of(values: Sequence[int]) -> int:
        return values[drawn.randint(len(values))]

    runs = [(one_of(settings.queries), one_of(settings.sizes)) for _ in range(initial)]
    submits = [0] * initial
    for _ in range(count - initial):
        submits.append(submits[-1] + int(drawn.exponential(settings.interarrival_s * 1000)))
        size = one_of(settings.sizes)  # before the query here, after it above
        runs.append((one_of(settings.queries), size))
    return runs, submits


def _drawn_runs(
    queries: Sequence[int], sizes: Sequence[int], count: int, generator: np.random.Generator
) -> list[tuple[int, int]]:
    # One row per run, so that asking for more runs leaves the earlier ones as they are.
    rows = generator.random((count, 2)).tolist()
    return [(queries[int(u * len(queries))], sizes[int(v * len(sizes))]) for u, v in rows]


def _runtimes(
    settings: TpchSettings, seed: int, profiles: TpchProfiles, job_id: str, job: JobProfile
) -> tuple[RunTimes, ...]:
    if settings.durations == "waves":
        return tuple(Waves(job.key, stage) for stage in range(len(job.stages)))
    return tuple(
        PerTask(tuple(_draw(profiles, job, stage, settings.level, keyed.generator(seed, "tpch-tasks", job_id, stage))))
        for stage in range(len(job.stages))
    )


def _draw(profiles: TpchProfiles, job: JobProfile, stage: int, level: int, generator: np.random.Generator) -> list[int]:
    """A duration per task of a stage, ms.

    Every task draws from all waves alike: with the slow durations of the first wave for the first tasks, pilots (the
    first tasks) would mislead.
    """
    pool = profiles.pooled(job.key, stage, level)
    picks = (generator.random(job.stages[stage].tasks) * len(pool)).astype(np.int64)
    drawn: list[int] = pool[picks].tolist()
    return drawn


def _work_ms(job: JobProfile, runtimes: Sequence[RunTimes]) -> float:
    total = 0.0
    for stage, times in zip(job.stages, runtimes, strict=True):
        total += sum(times.ms) if isinstance(times, PerTask) else stage.tasks * stage.rough_ms
    return total


def _submits(settings: TpchSettings, seed: int, count: int, work_ms: float) -> list[int]:
    """Arrival times in ms, ascending, the first at 0."""
    if settings.arrivals == "batch" or count <= settings.initial:
        return [0] * count
    gaps = keyed.generator(seed, "tpch-arrivals").exponential(1.0, count - settings.initial)
    times = np.concatenate([np.zeros(settings.initial), np.cumsum(gaps)])
    unit = settings.interarrival_s * 1000
    if settings.load is not None and settings.slots is not None:
        unit = work_ms / (settings.slots * settings.load) / float(times[-1])
    submits: list[int] = np.rint(times * unit).astype(np.int64).tolist()
    return submits


def _job(
    settings: TpchSettings, seed: int, job_id: str, profile: JobProfile, demand: Vector, draws: Sequence[int]
) -> Job:
    stages = tuple(
        Stage(
            name=f"s{index}",
            tasks=stage.tasks,
            demand=_drawn(demand, draws, seed, job_id, index),
            parents=stage.parents,
        )
        for index, stage in enumerate(profile.stages)
    )
    name, user = _identity(settings, profile.query)
    return Job(id=job_id, stages=stages, name=name, user=user, app="tpch", queue=settings.queue)


def _drawn(demand: Vector, draws: Sequence[int], seed: int, job_id: str, stage: int) -> Vector:
    """The demand with the resources of `draws` drawn from (0, 1] of their amounts, in whole steps."""
    parts = list(demand)
    for resource in draws:
        part = 1 - keyed.uniform(seed, "tpch-demand", job_id, stage, resource)
        parts[resource] = max(1, math.ceil(part * demand[resource]))
    return tuple(parts)


def _identity(settings: TpchSettings, query: int) -> tuple[str, str]:
    return f"tpch-q{query}", f"user{(query - 1) % settings.users + 1}"


def _history(
    settings: TpchSettings, seed: int, profiles: TpchProfiles, demand: Vector, gap_ms: float
) -> tuple[PastJob, ...]:
    """Earlier runs, oldest first, all finished before time 0 and as far apart as the jobs to come."""
    sizes = settings.history_sizes or settings.sizes
    runs = _drawn_runs(settings.queries, sizes, settings.history, keyed.generator(seed, "tpch-history"))
    past = []
    for number, (query, size) in enumerate(runs):
        job = profiles.job(profile_key(query, size))
        means = [
            float(np.mean(_draw(profiles, job, i, settings.level, keyed.generator(seed, "tpch-past", number, i))))
            for i in range(len(job.stages))
        ]
        finished = -1 - round((len(runs) - 1 - number) * gap_ms)
        name, user = _identity(settings, query)
        past.append(
            PastJob(
                name=name,
                submitted=finished - _critical_path_ms(job, means, settings.level),
                finished=finished,
                stages=tuple((stage.tasks, mean) for stage, mean in zip(job.stages, means, strict=True)),
                user=user,
                app="tpch",
                demand=demand,
            )
        )
    return tuple(sorted(past, key=lambda job: (job.submitted, job.name)))


def _critical_path_ms(job: JobProfile, means: Sequence[float], level: int) -> int:
    """How long a run took with `level` executors of its own, at least 1 ms."""
    ends: dict[int, float] = {}

    def end(index: int) -> float:
        if index not in ends:
            stage = job.stages[index]
            waves = -(-stage.tasks // level)
            ends[index] = max((end(parent) for parent in stage.parents), default=0.0) + waves * means[index]
        return ends[index]

    return max(1, round(max(end(index) for index in range(len(job.stages)))))


def _main(profiles: Path, output: Path | None = None) -> None:
    """Summarise full TPC-H profiles (the released folder or a JSON file of them).

    Without OUTPUT, the summary in the package is written.
    """
    target = output or Path(str(resources.files("rm_emulator.workload"))) / "data" / BUILTIN
    summary = summarise(profiles, target)
    stages = sum(len(job.stages) for job in summary.jobs)
    typer.echo(f"{target}: {len(summary)} jobs, {stages:,} stages, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    typer.run(_main)
