"""Mesos (NSDI 2011): frameworks that share a cluster beside frameworks with a part each, and input found by waiting.

Frameworks and jobs are made up after the sorts of the paper's sections 6.1 and 6.3, on about as many machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from rm_emulator import api
from rm_emulator.workload.model import Drawn, Remote, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.model import Job, Stage
from schedulers.core.places import Places, Requirement
from studies.kept import measured
from studies.steady import marked, quarters
from studies.tables import document, over_seeds, table

#: Machines of the frameworks, of so many cores.
MACHINES, CORES = 24, 4
#: Jobs of the first half hour do not count: a cycle of all frameworks, hundreds of task times.
WARM_S: Final = 1800
#: Frameworks have their busy quarter of each cycle one after another.
_CYCLE_S: Final = 1800.0
_BUSY: Final = 4.0
_QUIET: Final = 1 / 3
FAIR: Final = {"kind": "fair", "placement": {"kind": "random_fit"}}


class Framework(NamedTuple):
    """Jobs of a framework: chains of equal stages. tasks: mean number, exponential. gap_s: mean, over a cycle."""

    stages: int
    tasks: float
    task_s: float
    gap_s: float
    fixed: bool = False


#: By the names of the paper's frameworks: a quarter of the cluster has work for half of its time.
FRAMEWORKS: Final = {
    "small Hadoop jobs": Framework(1, 4, 20, 6.67),
    "large Hadoop jobs": Framework(1, 75, 30, 187.5, fixed=True),
    "Spark": Framework(8, 15, 6, 60, fixed=True),
    "MPI": Framework(1, 4, 90, 30, fixed=True),
}


class Shared(msgspec.Struct, frozen=True):
    """One run. jct_s, quarters_s, jobs: mean, means of quarters and number by framework.

    waited, used: part of the time in which any task waited anywhere, and part of the cluster that tasks held then.
    """

    jct_s: dict[str, float]
    quarters_s: dict[str, tuple[float, ...]]
    jobs: dict[str, int]
    waited: float
    used: float


def frameworks(seed: int, end_s: float) -> Workload:
    """Jobs of all frameworks; each framework's queue has its name."""
    made = [job for name in FRAMEWORKS for job in _stream(name, seed, end_s)]
    return Workload(name=f"mesos-{seed}", jobs=_sorted(made), resources=("cpu",))


def _stream(name: str, seed: int, end_s: float) -> Iterator[WorkloadJob]:
    """Arrivals by thinning: busy in the framework's quarter of a cycle, quiet otherwise."""
    of, quarter = FRAMEWORKS[name], list(FRAMEWORKS).index(name) / len(FRAMEWORKS)
    random, at, number = keyed.generator(seed, "mesos", name), 0.0, 0
    mean = (_BUSY + 3 * _QUIET) / 4
    while (at := at + float(random.exponential(of.gap_s * mean / _BUSY))) < end_s:
        busy = 0 <= at / _CYCLE_S % 1 - quarter < 1 / len(FRAMEWORKS)
        if random.random() < (1 if busy else _QUIET / _BUSY):
            tasks = int(of.tasks) if of.fixed else max(1, round(float(random.exponential(of.tasks))))
            yield _job(f"{name}-{number:05}", name, tasks, of, at)
            number += 1


def _job(id_: str, queue: str, tasks: int, of: Framework, at_s: float) -> WorkloadJob:
    stages = tuple(
        Stage(name=f"s{index}", tasks=tasks, demand=(1000,), parents=(index - 1,) if index else ())
        for index in range(of.stages)
    )
    times = (Drawn(1000 * of.task_s, 0.3),) * of.stages
    job = Job(id=id_.replace(" ", "-"), stages=stages, queue=queue)
    return WorkloadJob(job=job, submit_ms=round(1000 * at_s), runtimes=times)


def _sorted(jobs: Sequence[WorkloadJob]) -> tuple[WorkloadJob, ...]:
    return tuple(sorted(jobs, key=lambda each: (each.submit_ms, each.job.id)))


def measure_sharing(shared: bool, counted_s: int, seed: int) -> Shared:
    """All frameworks on the whole cluster under offers by DRF, or each by itself on a quarter."""
    end_s = WARM_S + counted_s
    jobs = frameworks(seed, end_s)
    if shared:
        runs = [_offered(jobs, tuple(FRAMEWORKS), MACHINES, seed)]
    else:
        parts = {name: tuple(each for each in jobs.jobs if each.job.queue == name) for name in FRAMEWORKS}
        machines = MACHINES // len(FRAMEWORKS)
        runs = [
            _offered(msgspec.structs.replace(jobs, jobs=part), (name,), machines, seed) for name, part in parts.items()
        ]
    ended = pl.concat([ran.jobs.select("id", "queue", "submit_ms", "finish_ms") for ran in runs])
    counted = {
        name: ended.filter((pl.col("queue") == name) & (pl.col("submit_ms") >= 1000 * WARM_S)) for name in FRAMEWORKS
    }
    tasks = pl.concat([ran.tasks.select("job", "stage", "started_ms", "ended_ms") for ran in runs])
    waited, used = _use_while_waiting(tasks, ended, end_s)
    return Shared(
        jct_s={name: fmean(_jcts_s(part)) for name, part in counted.items()},
        quarters_s={name: quarters(_jcts_s(part)) for name, part in counted.items()},
        jobs={name: len(part) for name, part in counted.items()},
        waited=waited,
        used=used / (CORES * MACHINES),
    )


def _jcts_s(jobs: pl.DataFrame) -> list[float]:
    """In order of submission."""
    found: list[float] = (
        jobs.sort("submit_ms").select((pl.col("finish_ms") - pl.col("submit_ms")) / 1000).to_series().to_list()
    )
    return found


def _use_while_waiting(tasks: pl.DataFrame, jobs: pl.DataFrame, end_s: int) -> tuple[float, float]:
    """Part of the seconds of the counted time with a waiting task, and mean number of tasks that ran in these."""
    ends = tasks.group_by("job", stage=pl.col("stage") + 1).agg(ready_ms=pl.col("ended_ms").max())
    known = tasks.join(ends, on=("job", "stage"), how="left").join(jobs, left_on="job", right_on="id")
    ready = pl.coalesce("ready_ms", "submit_ms")
    waiting = _each_second(known.select(ready, "started_ms").to_numpy(), end_s)
    running = _each_second(known.select("started_ms", "ended_ms").to_numpy(), end_s)
    anybody = waiting[WARM_S:end_s] > 0
    return float(anybody.mean()), float(running[WARM_S:end_s][anybody].mean())


def _each_second(spans: np.ndarray, end_s: int) -> np.ndarray:
    """Number of spans (ms, begin and end) that hold each second's first instant."""
    first, last = np.minimum(-(-spans // 1000), end_s).T
    return np.cumsum(np.bincount(first, minlength=end_s + 1) - np.bincount(last, minlength=end_s + 1))


def _offered(jobs: Workload, names: Sequence[str], machines: int, seed: int) -> api.Played:
    frameworks = [{"name": name.replace(" ", "-"), "queues": [name], "t_job": "0ms", "t_task": "0ms"} for name in names]
    nodes = [{"name": "m", "count": machines, "capacity": {"cpu": CORES}}]
    architecture = {"kind": "two_level", "schedulers": frameworks}
    cluster = {"nodes": nodes, "profile": "events", "architecture": architecture}
    return api.play(document("mesos", [seed], {"fair": FAIR}, cluster=cluster, workload=jobs))


# -- Locality --------------------------------------------------------------------------------------------------------

#: Hadoop instances, and the nodes of each under a static partition.
INSTANCES, NODES = 16, 96
#: Tasks of a job, mean time of a task whose input is there, slots of a node, factor where it is elsewhere, load.
_TASKS, _TASK_S, _SLOTS, _AFAR, _LOAD = 20, 30.0, 2, 1.5, 0.5
_COPIES: Final = 3
WAYS: Final[Mapping[str, float | None]] = {
    "static partition": None,
    "sharing, no delay": 0.0,
    "sharing, 1 s delay": 1.0,
    "sharing, 5 s delay": 5.0,
}


class Local(msgspec.Struct, frozen=True):
    """local: share of tasks on a node with their input. jct_s, quarters_s: mean, and means of quarters."""

    local: float
    jct_s: float
    quarters_s: tuple[float, ...]
    jobs: int


def instances(seed: int, end_s: float, *, static: bool) -> Workload:
    """Jobs of all instances. static: each may use nodes of its own only; input is spread over all nodes either way."""
    random, at, made = keyed.generator(seed, "mesos locality"), 0.0, list[WorkloadJob]()
    nodes, each = [f"m-{number + 1:02}" for number in range(NODES)], NODES // INSTANCES
    gap_s = _TASKS * _TASK_S / (_LOAD * NODES * _SLOTS)
    while (at := at + float(random.exponential(gap_s))) < end_s:
        instance, number = int(random.integers(INSTANCES)), len(made)
        hosts = tuple(
            tuple(nodes[index] for index in random.choice(NODES, _COPIES, replace=False)) for _ in range(_TASKS)
        )
        own = Requirement("metadata.name", "In", tuple(nodes[instance * each : (instance + 1) * each]), field=True)
        places = Places(terms=((own,),)) if static else Places()
        stage = Stage(name="map", tasks=_TASKS, demand=(1000,), hosts=hosts, places=places)
        job = Job(id=f"j{number:05}", stages=(stage,), user=f"hadoop-{instance}")
        made.append(WorkloadJob(job=job, submit_ms=round(1000 * at), runtimes=(Drawn(1000 * _TASK_S, 0.3),)))
    return Workload(name=f"locality-{seed}", jobs=tuple(made), resources=("cpu",), remote=Remote(off=_AFAR))


def measure_locality(way: str, counted_s: int, seed: int) -> Local:
    """One of WAYS: jobs take a node with their input where one is free, and wait for one as long as the way says."""
    wait_s = WAYS[way]
    jobs = instances(seed, WARM_S + counted_s, static=wait_s is None)
    policy = {"kind": "delay", "form": "time", "node_wait_s": wait_s or 0.0, "rack_wait_s": 0.0}
    nodes = [{"name": "m-", "count": NODES, "capacity": {"cpu": _SLOTS}}]
    ran = api.play(
        document("locality", [seed], {"delay": policy}, cluster={"nodes": nodes, "profile": "events"}, workload=jobs)
    )
    counted = {each.job.id: each.job.stages[0] for each in jobs.jobs if each.submit_ms >= 1000 * WARM_S}
    tasks = ran.tasks.select("job", "task", "node").iter_rows()
    local = [node in counted[job].hosts_of(task) for job, task, node in tasks if job in counted]
    jcts = _jcts_s(ran.jobs.filter(pl.col("submit_ms") >= 1000 * WARM_S))
    return Local(float(np.mean(local)), fmean(jcts), quarters(jcts), len(counted))


# -- Tables ----------------------------------------------------------------------------------------------------------

COUNTED_S: Final = 4 * 3600
LOCALITY_S: Final = 3600


def sharing_table(runs: Mapping[bool, Sequence[Shared]]) -> str:
    """Mean run times of each framework's jobs by itself and together, and their ratio. runs: by whether shared."""
    lines = []
    for name in FRAMEWORKS:
        alone, together = ([one.jct_s[name] for one in runs[shared]] for shared in (False, True))
        cells = [
            marked(over_seeds(jcts, 1), [one.quarters_s[name] for one in runs[shared]])
            for shared, jcts in ((False, alone), (True, together))
        ]
        ratio = [one / other for one, other in zip(alone, together, strict=True)]
        jobs = over_seeds([one.jobs[name] for one in runs[True]])
        lines.append([name, jobs, *cells, over_seeds(ratio, 2)])
    return table(("framework", "jobs", "with a quarter, s", "sharing, s", "speed-up"), lines)


def used_table(runs: Mapping[bool, Sequence[Shared]]) -> str:
    """How much of the cluster is used while a task waits. runs: by whether shared."""
    lines = []
    for shared, name in ((False, "a quarter each"), (True, "sharing")):
        figures = ([100 * one.waited for one in runs[shared]], [100 * one.used for one in runs[shared]])
        lines.append([name, *(over_seeds(each, 1) for each in figures)])
    return table(("cluster", "time in which a task waits, %", "cores used in this time, %"), lines)


def locality_table(runs: Mapping[str, Sequence[Local]]) -> str:
    """Local tasks and mean run times. runs: by way."""
    base = [one.jct_s for one in runs["static partition"]]
    lines = []
    for way, seeds in runs.items():
        ratio = [alone / one.jct_s for alone, one in zip(base, seeds, strict=True)]
        local = over_seeds([100 * one.local for one in seeds], 1)
        speedup = over_seeds(ratio, 2) if seeds is not runs["static partition"] else "-"
        mean = marked(over_seeds([one.jct_s for one in seeds], 1), [one.quarters_s for one in seeds])
        lines.append([way, local, mean, speedup])
    return table(("way", "local tasks, %", "mean run time of a job, s", "speed-up"), lines)


def tables(out: Path, seeds: int, jobs: int) -> dict[str, Any]:
    """What the page of results shows of Mesos, by its names there."""
    numbers = range(1, seeds + 1)
    cells = [(shared, COUNTED_S, seed) for seed in numbers for shared in (False, True)]
    parts = dict(zip(cells, measured(out, Shared, measure_sharing, cells, jobs), strict=True))
    shared = {each: [parts[each, COUNTED_S, seed] for seed in numbers] for each in (False, True)}
    others = [(way, LOCALITY_S, seed) for seed in numbers for way in WAYS]
    found = dict(zip(others, measured(out, Local, measure_locality, others, jobs), strict=True))
    local = {way: [found[way, LOCALITY_S, seed] for seed in numbers] for way in WAYS}
    return {
        "sharing": sharing_table(shared),
        "used": used_table(shared),
        "locality": locality_table(local),
        "locality_jobs": over_seeds([one.jobs for one in local["static partition"]]),
    }
