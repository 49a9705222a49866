"""Baselines of a run: each queue alone, a single giant node, ideal water-filling; a cell each.

alone
    for every queue a run of its own jobs only: same cluster, policy, queues with their limits, and history.
one_node
    a single node with the total capacity, the mean speed and as many heartbeats as all nodes together; `places` and
    `hosts` of stages do not count. Same policy, same workload.
ideal
    the fluid of `experiments.fluid`, without policy, nodes and heartbeats.

Run times are the same in all baselines. A cell keeps the submission and the end of each job, and no event log.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl

from rm_emulator.engine.config import Decentralised, EngineConfig
from rm_emulator.engine.execution import Execution, ListedTimes, StageTimes
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.experiments.assembly import assemble, cluster_of, waves_of
from rm_emulator.experiments.call import Call, CallPlace
from rm_emulator.experiments.cell import Cell, complete, identity, inputs_of, run_cell
from rm_emulator.experiments.fluid import FluidJob, FluidStage, finish_times
from rm_emulator.experiments.status import Progress, Status
from rm_emulator.files import replacing
from rm_emulator.results.record import JOB_SCHEMA
from rm_emulator.results.water_filling import scenario_tree
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.workload import Built
from rm_emulator.version import __version__
from rm_emulator.workload.model import PerNode, PerTask, RunTimes, WorkloadJob
from schedulers.core.log import Log
from schedulers.core.model import Node, Stage
from schedulers.core.places import ANYWHERE

#: The columns of a baseline's jobs.parquet.
SCHEMA: Mapping[str, pl.DataType] = {name: JOB_SCHEMA[name] for name in ("id", "queue", "submit_ms", "finish_ms")}


def compute(cell: Cell, directory: Path, progress: Progress) -> None:
    """Compute any cell into `directory`; see `run_cell`."""
    if cell.baseline:
        run_baseline(cell, directory, progress)
    else:
        run_cell(cell, directory, progress)


def call_of(cell: Cell) -> Call:
    """The call that computes a cell into the folder of its place. Cells of a point and a seed share their workload."""
    return Call(f"{cell.title} seed {cell.seed}", _compute_at, cell, group=f"{cell.point} {cell.seed}")


def _compute_at(cell: Cell, place: CallPlace) -> None:
    compute(replace(cell, moved=place.moved), place.directory, place.progress)


def run_baseline(cell: Cell, directory: Path, progress: Progress) -> None:
    """Compute a baseline and write its jobs.parquet and cell.json into `directory`, cell.json last."""
    scenario, built = inputs_of(cell)
    config = msgspec.structs.replace(cluster_of(scenario, built), faults=None)
    begun = time.perf_counter()
    progress(Status(0, built.workload.tasks))
    if cell.baseline == "ideal":
        rows, sha256 = _ideal(cell, config, built, progress), None
    elif cell.baseline == "one_node":
        rows, sha256 = _emulated(cell, scenario, one_node(config), {"": anywhere(built)}, progress)
    else:
        rows, sha256 = _emulated(cell, scenario, config, dict(by_queue(built)), progress)
    progress(Status(built.workload.tasks, built.workload.tasks))
    with replacing(directory / "jobs.parquet") as path:
        pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("submit_ms", "id").write_parquet(path)
    counters = {
        **identity(cell),
        "baseline": cell.baseline,
        "version": __version__,
        "wall_s": round(time.perf_counter() - begun, 3),
        "log_sha256": sha256,
    }
    complete(directory, counters)


Row = tuple[str, str, int, int | None]


def _emulated(
    cell: Cell, scenario: Scenario, config: EngineConfig, parts: Mapping[str, Built], progress: Progress
) -> tuple[list[Row], str]:
    """The jobs of each part in a run of its own, and the hash of all their logs."""
    total, before = sum(part.workload.tasks for part in parts.values()), 0
    entry, times, logs = cell.scenario["spec"]["policies"][0], MemoryRecording(attempts=False), hashlib.sha256()
    for part in parts.values():

        def told(done: int, before: int = before) -> None:
            progress(Status(before + done, total))

        run = assemble(scenario, entry, cell.seed, part, times, config=config, log=lambda _: Log(), progress=told)
        run.simulation.run(scenario.spec.until)
        logs.update(run.deciders.sha256.encode())
        before += part.workload.tasks
    return [(row.id, row.queue, row.submit_ms, row.finish_ms) for row in times.jobs], logs.hexdigest()


def by_queue(built: Built) -> Iterator[tuple[str, Built]]:
    """The workload of each queue alone, in the order of their names; history is everybody's."""
    for name in sorted({entry.job.queue for entry in built.workload.jobs}):
        jobs = tuple(entry for entry in built.workload.jobs if entry.job.queue == name)
        yield name, _with_jobs(built, jobs)


def one_node(config: EngineConfig) -> EngineConfig:
    """The cluster as a single node, with the shorter heartbeat interval of all nodes together."""
    slack = tuple(sum(node.room[r] - node.capacity[r] for node in config.nodes) for r in range(len(config.resources)))
    capacity = capacity_of(config)
    node = Node(id="one", capacity=capacity, speed=mean_speed(config), slack=slack if any(slack) else ())
    beat = max(1, round(config.heartbeat_ms / len(config.nodes)))
    who = config.architecture
    if isinstance(who, Decentralised) and who.slots_per_worker is not None:
        who = msgspec.structs.replace(who, slots_per_worker=who.slots_per_worker * len(config.nodes))
    return msgspec.structs.replace(config, nodes=(node,), heartbeat_ms=beat, architecture=who)


def anywhere(built: Built) -> Built:
    """The workload without wishes for nodes, since none of the named nodes is left."""
    return _with_jobs(built, tuple(_moved(entry) for entry in built.workload.jobs))


def _moved(entry: WorkloadJob) -> WorkloadJob:
    stages: tuple[Stage, ...] = tuple(
        msgspec.structs.replace(stage, places=ANYWHERE, hosts=()) for stage in entry.job.stages
    )
    runtimes = tuple(map(_anywhere, entry.runtimes, (stage.tasks for stage in stages)))
    return msgspec.structs.replace(entry, job=msgspec.structs.replace(entry.job, stages=stages), runtimes=runtimes)


def _anywhere(times: RunTimes, tasks: int) -> RunTimes:
    """Run times by node as their mean over the nodes, since none of the named nodes is left."""
    if not isinstance(times, PerNode):
        return times
    rows = times.ms if len(times.ms) > 1 else times.ms * tasks
    return PerTask(tuple(round(sum(row) / len(row)) for row in rows))


def _with_jobs(built: Built, jobs: tuple[WorkloadJob, ...]) -> Built:
    return msgspec.structs.replace(built, workload=msgspec.structs.replace(built.workload, jobs=jobs))


def capacity_of(config: EngineConfig) -> tuple[int, ...]:
    """Capacity of all nodes together."""
    return tuple(sum(node.capacity[r] for node in config.nodes) for r in range(len(config.resources)))


def mean_speed(config: EngineConfig) -> float:
    """Mean speed of the nodes, weighted by their capacity in the first resource with any capacity."""
    at = next((r for r, amount in enumerate(capacity_of(config)) if amount), None)
    weights = [1 if at is None else node.capacity[at] for node in config.nodes]
    return math.fsum(w * node.speed for w, node in zip(weights, config.nodes, strict=True)) / sum(weights)


def _ideal(cell: Cell, config: EngineConfig, built: Built, progress: Progress) -> list[Row]:
    execution = Execution(config, cell.seed, waves_of(built))
    entries, total = built.workload.jobs, built.workload.tasks
    capacity = dict(zip(config.resources, capacity_of(config), strict=True))
    leaves = sorted({entry.job.queue for entry in entries})
    tree, resources = scenario_tree(cell.scenario["spec"].get("queues") or (), capacity, leaves)
    where = [config.resources.index(name) for name in resources]
    done = finish_times(
        [_fluid(entry, execution.stage_times(entry), where) for entry in entries],
        tree,
        [capacity[name] for name in resources],
        speed=mean_speed(config),
        progress=lambda tasks: progress(Status(tasks, total)),
    )
    return [
        (entry.job.id, entry.job.queue, entry.submit_ms, None if at is None else round(at))
        for entry, at in zip(entries, done, strict=True)
    ]


def _fluid(entry: WorkloadJob, times: list[StageTimes], where: list[int]) -> FluidJob:
    stages = tuple(
        FluidStage(tuple(entry.uses(index)[r] for r in where), _times(each, stage.tasks), stage.above)
        for index, (stage, each) in enumerate(zip(entry.job.stages, times, strict=True))
    )
    job = entry.job
    return FluidJob(queue=job.queue, submit_ms=entry.submit_ms, stages=stages, weight=job.weight)


def _times(times: StageTimes, tasks: int) -> tuple[float, ...]:
    """True run times; of measured waves their mean, as wave times depend on the executors of the moment."""
    return tuple(map(float, times.first)) if isinstance(times, ListedTimes) else (float(times.mean_ms),) * tasks
