"""The DAGs that planners are compared on: real ones from a trace, with drawn demands for four resources.

The trace has cores and memory only, and nearly all of its stages ask for the same. So demands are drawn as Decima
(SIGCOMM 2019, section 7.3) draws the memory of its TPC-H stages: uniformly from (0, 1], here for each of the four
resources that Graphene (OSDI 2016) packs. A machine has UNITS of each: with one unit there would be nothing to pack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rm_emulator import api
from rm_emulator.workload.model import RunTimes, Workload, WorkloadJob, mean_ms
from schedulers.core import keyed
from schedulers.core.model import Stage
from schedulers.core.resources import Resources, Vector

#: Alibaba's 3,690 DAGs, where they are there; not the project's own to ship.
TRACE: Final = Path("../shared/data/alibaba-2018-dags-batch_task.csv.gz")
RESOURCES: Final = ("cpu", "memory", "disk", "network")
#: What a draw of 1 stands for, and how many of it a machine has.
UNIT: Final[Mapping[str, Any]] = {"cpu": 1, "memory": "1Gi", "disk": "1Gi", "network": "1Gi"}
UNITS: Final = 4
#: A DAG's machines hold this part of its tasks at once, so that there is something to decide.
SHARE: Final = 0.25
#: A machine's capacity in a scenario.
MACHINE: Final[Mapping[str, Any]] = {"cpu": UNITS, **dict.fromkeys(RESOURCES[1:], f"{UNITS}Gi")}
#: Jobs of `production_dags` that are planned alone, and the machines of each: 2,200 tasks on average.
PRODUCTION: Final = 40
MACHINES: Final = 20


class Sample(msgspec.Struct, frozen=True):
    """One DAG to plan. runtimes_ms: true mean per stage; machines: equal ones of `capacity`."""

    id: str
    stages: tuple[Stage, ...]
    runtimes_ms: tuple[float, ...]
    capacity: Vector
    machines: int


def drawn(workload: Workload, seed: int) -> Workload:
    """The same jobs with demands for RESOURCES drawn per stage, the same for a stage whatever else is there."""
    kinds = Resources().extended(UNIT)
    unit = kinds.demand(UNIT)
    jobs = tuple(
        msgspec.structs.replace(entry, job=msgspec.structs.replace(entry.job, stages=_stages(entry, unit, seed)))
        for entry in workload.jobs
    )
    return msgspec.structs.replace(
        workload, jobs=jobs, resources=kinds.names, source=f"{workload.source}; drawn demands"
    )


def _stages(entry: WorkloadJob, unit: Vector, seed: int) -> tuple[Stage, ...]:
    return tuple(
        msgspec.structs.replace(stage, demand=_demand(unit, seed, entry.job.id, index))
        for index, stage in enumerate(entry.job.stages)
    )


def _demand(unit: Vector, seed: int, job: str, stage: int) -> Vector:
    """Uniform from (0, 1] of each unit, rounded up to a step."""
    draws = keyed.generator(seed, "dag-demand", job, stage).random(len(unit))
    return tuple(max(1, math.ceil((1 - u) * amount)) for u, amount in zip(draws, unit, strict=True))


def read(path: Path, seed: int) -> Workload:
    """All jobs of a trace in Alibaba's format of 2018, with drawn demands. Raises TraceError."""
    return drawn(api.read_trace("alibaba2018", path), seed)


def tpch(seed: int) -> Workload:
    """Every TPC-H query at each size once, with drawn demands; the built-in profiles."""
    block = {"kind": "tpch", "jobs": None, "arrivals": "batch", "durations": "per_task", "history": 0}
    cluster = {"nodes": [{"capacity": dict(UNIT)}]}
    return api.generated({**block, "demand": dict(UNIT), "drawn": dict(UNIT)}, seed=seed, cluster=cluster)


def write(path: Path, trace: Path, seed: int) -> Path:
    """The same as a workload file that scenarios can read, made once."""
    if not path.exists():
        api.save_workload(read(trace, seed), path)
    return path


def samples(workload: Workload, seed: int, part: float = SHARE) -> list[Sample]:
    """Every job as a DAG to plan, in an order drawn by the seed: the first n are a sample of n. part: see `share`."""
    machine = capacity()
    order = sorted(workload.jobs, key=lambda entry: keyed.digest(seed, "dag-sample", entry.job.id))
    return [_sample(entry, machine, share(entry.job.stages, machine, part)) for entry in order]


def capacity() -> Vector:
    """What a machine has of RESOURCES."""
    return tuple(UNITS * amount for amount in Resources().extended(UNIT).demand(UNIT))


def production(seed: int) -> list[Sample]:
    """Jobs of `production_dags`, with MACHINES each: their work takes as long there as their critical path."""
    cluster = {"nodes": [{"count": MACHINES, "capacity": MACHINE}]}
    workload = api.generated({"kind": "production_dags", "jobs": PRODUCTION, "share": 1}, seed=seed, cluster=cluster)
    return [_sample(entry, capacity(), MACHINES) for entry in workload.jobs]


def _sample(entry: WorkloadJob, machine: Vector, machines: int) -> Sample:
    times = tuple(_mean_ms(times) for times in entry.runtimes)
    return Sample(entry.job.id, entry.job.stages, times, machine, machines)


def _mean_ms(times: RunTimes) -> float:
    mean = mean_ms(times)
    assert mean is not None, "these workloads have known times"
    return mean


def share(stages: Sequence[Stage], capacity: Vector, part: float = SHARE) -> int:
    """Machines that hold this part of the DAG's tasks at once, by the resource that they need most of; at least 1."""
    asked: Iterable[float] = (
        sum(stage.tasks * stage.demand[r] for stage in stages) / full for r, full in enumerate(capacity)
    )
    return max(1, math.ceil(part * max(asked)))
