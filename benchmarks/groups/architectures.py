"""Group `architectures`: who decides where no single scheduler decides at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from benchmarks.reference import paired
from benchmarks.rows import Row, benchmark
from benchmarks.setups import SEED
from rm_emulator.engine.config import Decentralised, EngineConfig, SharedState, Thinker
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers, assign_jobs, first_container
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.workers import Workers
from rm_emulator.workload.mixed import MixedSettings, generate
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.decentralised.decider import Decentraliser
from schedulers.decentralised.settings import Probing

_REPETITIONS: Final = 3
_TASKS: Final = 100
_MEAN_MS: Final = 200
_SLOTS: Final = 4
_LOAD: Final = 0.8


class _Ran(msgspec.Struct, frozen=True):
    tasks_per_s: float
    tasks: int
    facts: int


@benchmark("sparrow_10000_workers", "architectures")
def sparrow_10000_workers(tiny: bool) -> Iterator[Row]:
    """Sparrow's late binding on 10,000 workers of 4 slots at load 0.8, as in the paper's simulator."""
    workers, jobs = (50, 20) if tiny else (10_000, 3_000)
    workload = _workload(workers, jobs)
    runs: list[_Ran] = []

    def measure() -> float:
        runs.append(_run(workers, workload))
        return runs[-1].tasks_per_s

    found = paired(measure, repetitions=1 if tiny else _REPETITIONS, facts=lambda: runs[-1].facts)
    yield Row(
        name="sparrow_10000_workers",
        value=found.measured,
        unit="tasks/s",
        reference=found.reference,
        ratio=found.ratio,
        target=">= 0.02",
        note=f"{runs[-1].tasks} tasks, {runs[-1].facts} facts; reference: bare SimPy events/s, as many events",
    )


@benchmark("omega_10000_nodes_day", "architectures")
def omega_10000_nodes_day(tiny: bool) -> Iterator[Row]:
    """A day of the example cell of Omega's simulator: 10,000 machines, services beside batch jobs, shared state."""
    machines, span_s = (50, 120.0) if tiny else (10_000, 86_400.0)
    # Services do not end here, so they come at half the rate: in the evening they hold half of the cell.
    workload = generate(MixedSettings(span_s=span_s, service_interarrival_s=40.0), seed=SEED)
    there = (Thinker(name="service", kinds=("service",), t_job_ms=1000), Thinker(name="batch"))
    nodes = tuple(Node(id=f"m{number:05d}", capacity=(4000, 16 * 1024)) for number in range(machines))
    config = EngineConfig(nodes=nodes, profile="events", architecture=SharedState(schedulers=there))
    schedulers = [Scheduler(_thinks(number), log=Log()) for number in range(len(there))]
    simulation = Simulation(
        config, workload, MultipleSchedulers(schedulers, assign_jobs(workload.jobs, there)), seed=SEED
    )
    begun = time.process_time()
    simulation.run(round(1000 * span_s))
    taken = time.process_time() - begun
    note = f"CPU time; {len(workload.jobs)} jobs, {workload.tasks} tasks, {simulation.facts} facts, logs hashed"
    yield Row(name="omega_10000_nodes_day", value=taken, unit="s", target="<= 120", note=note)


def _thinks(number: int) -> SchedulerConfig:
    return SchedulerConfig(
        resources=("cpu", "memory"),
        policy={"kind": "fifo"},
        placement={"kind": "random_fit"},
        offers="thought",
        seed=SEED,
        first_container=first_container(number),
    )


def _run(workers: int, workload: Workload) -> _Ran:
    """One run; only the run itself is timed."""
    settings = Probing(schedulers=10)
    nodes = tuple(Node(id=f"w{number:05d}", capacity=(1000 * _SLOTS, 1024 * _SLOTS)) for number in range(workers))
    architecture = Decentralised(message_ms=1, slots_per_worker=_SLOTS, **msgspec.structs.asdict(settings))
    config = SchedulerConfig(
        resources=("cpu", "memory"),
        policy={"kind": "fifo"},
        offers="cycle",
        seed=SEED,
        decentralised=msgspec.to_builtins(settings),
    )
    who = Workers(Decentraliser(config, log=Log()))
    simulation = Simulation(EngineConfig(nodes=nodes, architecture=architecture), workload, who, seed=SEED)
    begun = time.process_time()
    simulation.run()
    taken = time.process_time() - begun
    return _Ran(simulation.finished_tasks / taken, simulation.finished_tasks, simulation.facts)


def _workload(workers: int, jobs: int) -> Workload:
    """Jobs of 100 tasks of 200 ms on average, exponential; a message takes 1 ms: the paper's ratio in whole ms."""
    gap = _TASKS * _MEAN_MS / (workers * _SLOTS * _LOAD)
    arrivals = np.cumsum(keyed.generator(SEED, "bench", "sparrow").exponential(gap, jobs)).astype(int).tolist()
    stage = Stage(name="run", tasks=_TASKS, demand=(1000, 1024))
    times = Drawn(mean_ms=_MEAN_MS, kind="exponential")
    return Workload(
        name="sparrow",
        jobs=tuple(
            WorkloadJob(job=Job(id=f"j{number:06d}", stages=(stage,)), submit_ms=at, runtimes=(times,))
            for number, at in enumerate(arrivals)
        ),
    )
