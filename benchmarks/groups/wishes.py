"""Group `architectures`: how long one plan of TetriSched takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Final

from benchmarks.reference import quiet
from benchmarks.rows import Row, benchmark
from schedulers.core import keyed
from schedulers.core.events import ContainerAdopted, Estimated, JobSubmitted, NodeAdded, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage, Wish, Wishes
from schedulers.core.scheduler import Scheduler

_CYCLE_MS: Final = 4_000
_CYCLES: Final = 3
#: Tasks on each node, as many as fit.
_RUNNING: Final = 8


@benchmark("milp_cycle", "architectures")
def milp_cycle(tiny: bool) -> Iterator[Row]:
    """A cycle of `tetrisched` with 100 pending jobs, half of them with wishes, on 1,000 nodes that are full."""
    nodes, jobs = (20, 5) if tiny else (1000, 100)
    scheduler = _filled(nodes, jobs)
    took = []
    for cycle in range(1, 2 if tiny else 1 + _CYCLES):
        with quiet():
            begun = time.process_time()
            scheduler.handle(Tick(cycle * _CYCLE_MS))
            took.append(time.process_time() - begun)
    waiting = len(scheduler.state.waiting)
    yield Row(
        name="milp_cycle",
        value=median(took),
        unit="s",
        target="<= 1",
        note=f"{jobs} jobs of 1 to 32 tasks, {waiting} jobs pending to the end, "
        f"{nodes} nodes of 2 kinds in 20 racks, 24 slices, gap 10 %; CPU time, median of {len(took)} cycles",
    )


def _filled(nodes: int, jobs: int) -> Scheduler:
    """A cluster on which tasks end over the next two minutes, and jobs that have just come."""
    policy = {"kind": "tetrisched"}
    scheduler = Scheduler(
        SchedulerConfig(resources=("cpu",), policy=policy, predictor={"kind": "oracle"}, offers="cycle")
    )
    for number in range(nodes):
        kind = ("gpu", "plain", "plain", "plain")[number % 4]
        scheduler.handle(
            NodeAdded(0, Node(id=f"n{number:04d}", capacity=(_RUNNING,), kind=kind, rack=f"r{number % 20}"))
        )
    draw = keyed.generator(1, "bench", "wishes")
    job = Job(id="there", stages=tuple(_stage(nodes) for _ in range(_RUNNING)))
    scheduler.handle(Estimated(0, job.id, tuple(int(ms) * 1000 for ms in draw.integers(4, 120, _RUNNING))))
    scheduler.handle(JobSubmitted(0, job))
    for number in range(_RUNNING * nodes):
        node, stage = number % nodes, number // nodes
        scheduler.handle(ContainerAdopted(0, number, f"n{node:04d}", job.id, stage, node))
    gpu = Wishes(prefer=(Wish(device="gpu", worth=2.0), Wish(slowdown=2.0)))
    rack = Wishes(prefer=(Wish(same_rack=True), Wish()))
    for number in range(jobs):
        wishes = (gpu, rack, Wishes(), Wishes())[number % 4]
        job = Job(id=f"j{number:04d}", stages=(_stage(int(draw.integers(1, 33)), gang=number % 2 == 0),), wishes=wishes)
        _submit(scheduler, job, int(draw.integers(8, 90)) * 1000)
    return scheduler


def _stage(tasks: int, *, gang: bool = False) -> Stage:
    return Stage(name="run", tasks=tasks, demand=(1,), gang=gang)


def _submit(scheduler: Scheduler, job: Job, ms: int) -> None:
    scheduler.handle(Estimated(0, job.id, (ms,)))
    scheduler.handle(JobSubmitted(0, job))
