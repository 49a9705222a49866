"""Group `policies`: what one heartbeat costs with a thousand nodes and a thousand jobs, for each policy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.reference import quiet, simpy_events_per_s
from benchmarks.rows import Row, benchmark
from schedulers.core import keyed
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerEnded, ContainerStarted, Estimated, Heartbeat, JobSubmitted, NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.policy import policies
from schedulers.core.scheduler import Scheduler

_TASKS: Final = 100
_MEMORY: Final = (1024, 2048, 4096)


@benchmark("decision_p99", "policies")
def decision_p99(tiny: bool) -> Iterator[Row]:
    """Every registered policy on a full cluster with a long queue: a container ends, its node beats."""
    size, beats = (20, 50) if tiny else (1000, 5000)
    for entry in policies:
        with quiet():
            taken = _heartbeats_us(entry.name, size, beats)
            bare = 1e6 / simpy_events_per_s(1000 if tiny else 100_000)
        p50, p99 = np.quantile(np.array(taken), (0.5, 0.99)).tolist()
        yield Row(
            name=f"decision_p99/{entry.name}",
            value=p99,
            unit="us",
            reference=bare,
            ratio=p99 / bare,
            note=f"per heartbeat, {size} nodes, {size} jobs; median {p50:.1f}; reference: one bare SimPy event",
        )


def _heartbeats_us(policy: str, size: int, beats: int) -> list[float]:
    """CPU time of each of so many heartbeats that find room for one container, µs."""
    config = SchedulerConfig(resources=("cpu", "memory"), policy={"kind": policy}, predictor={"kind": "oracle"})
    scheduler = Scheduler(config)
    for i in range(size):
        scheduler.handle(NodeAdded(0, Node(id=f"n{i:04d}", capacity=(4000, 16384))))
    draw = keyed.generator(1, "bench", "decisions")
    work = np.rint(draw.lognormal(np.log(60_000), 1.5, size)).astype(int).tolist()
    for i in range(size):
        stage = Stage(name="run", tasks=_TASKS, demand=(1000, _MEMORY[i % len(_MEMORY)]))
        scheduler.handle(Estimated(0, f"j{i:04d}", (max(1, work[i]),)))
        scheduler.handle(JobSubmitted(0, Job(id=f"j{i:04d}", stages=(stage,))))
    running = [_place(scheduler, 1, f"n{i:04d}") for i in range(size)]
    victims = draw.integers(0, size, beats).tolist()
    taken, now = [], 1000
    for victim in victims:
        now += 10
        if running[victim]:
            scheduler.handle(ContainerEnded(now, running[victim].pop(0), 0, 1000))
        begun = time.thread_time_ns()
        decisions = scheduler.handle(Heartbeat(now, f"n{victim:04d}"))
        taken.append((time.thread_time_ns() - begun) / 1000)
        for decision in decisions:
            if isinstance(decision, Place):
                running[victim].append(decision.container)
                scheduler.handle(ContainerStarted(now, decision.container))
    return taken


def _place(scheduler: Scheduler, at: int, node: str) -> list[int]:
    placed = [d.container for d in scheduler.handle(Heartbeat(at, node)) if isinstance(d, Place)]
    for container in placed:
        scheduler.handle(ContainerStarted(at, container))
    return placed
