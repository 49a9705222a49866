"""The clusters and workloads that are measured. Fixed seeds: every run measures the same thing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import EngineConfig, Executors
from rm_emulator.engine.execution import WavesOf
from rm_emulator.engine.recording import Recording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import CopyRules, Job, Links, Node, Stage
from schedulers.core.policy import Policy
from schedulers.core.scheduler import Scheduler

SEED: Final = 1
_COV: Final = 0.5


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to run: cluster, workload, policy, predictor, and, where tasks may be copied, how often."""

    cluster: EngineConfig
    workload: Workload
    policy: Mapping[str, Any]
    predictor: Mapping[str, Any] | None = None
    waves_of: WavesOf | None = None
    placement: Mapping[str, Any] = msgspec.field(default_factory=lambda: {"kind": "first_fit"})
    copies: CopyRules | None = None


class Ran(msgspec.Struct, frozen=True):
    """What a run took. facts: handled by the scheduler; cpu_s: of this process; sim_s: simulated seconds."""

    tasks: int
    facts: int
    cpu_s: float
    sim_s: float

    @property
    def tasks_per_s(self) -> float:
        """Finished tasks per CPU second."""
        return self.tasks / self.cpu_s


def run(setup: Setup, log: Log | None = None, record: Recording | None = None, policy: Policy | None = None) -> Ran:
    """Run a setup once; only the run itself is timed, not the making of scheduler and workload.

    log: by default one that hashes all lines and keeps none, as runs of a million tasks do. policy: in place of the
    setup's.
    """
    cluster = setup.cluster
    config = SchedulerConfig(
        resources=cluster.resources,
        policy=dict(setup.policy),
        predictor=dict(setup.predictor) if setup.predictor is not None else None,
        placement=dict(setup.placement),
        copies=setup.copies,
        offers=timing(cluster).offers,
        executors=cluster.executors is not None,
        containers_per_offer=cluster.containers_per_heartbeat,
        seed=SEED,
    )
    scheduler = Scheduler(config, log=log if log is not None else Log(), policy=policy)
    oracle = setup.predictor is not None and setup.predictor["kind"] == "oracle"
    simulation = Simulation(
        cluster, setup.workload, scheduler, record, seed=SEED, waves_of=setup.waves_of, oracle=oracle
    )
    begun = time.process_time()
    simulation.run()
    cpu_s = time.process_time() - begun
    return Ran(simulation.finished_tasks, simulation.facts, cpu_s, simulation.end_ms / 1000)


def lachesis_batch(policy: Mapping[str, Any], jobs: int = 20) -> Setup:
    """LACHESIS's batch, a stage as one task, on 50 executors; orders assign by DEFT with copies, plays copy too."""
    from rm_emulator.workload import dags, lachesis

    speeds = lachesis.speeds(50, seed=SEED)
    nodes = tuple(Node(id=f"n{number}", capacity=(1000, 0), speed=speed) for number, speed in enumerate(speeds))
    plans = policy["kind"] in ("planned", "played")
    return Setup(
        cluster=EngineConfig(nodes=nodes, profile="events", links=Links(rate=int(dags.RATE))),
        workload=lachesis.generate(lachesis.LachesisSettings(jobs=jobs), seed=SEED, speeds=speeds),
        policy=policy,
        predictor={"kind": "oracle"},
        placement={"kind": "first_fit"} if plans else {"kind": "deft", "ahead": False},
        copies=None if policy["kind"] == "planned" else CopyRules(max=2),
    )


@cache
def tpch_executors(jobs: int = 200, batch: bool = False) -> Setup:
    """Decima's replay: TPC-H jobs with measured waves on 50 executors that jobs keep, shared fairly.

    batch: all at time 0, and what their tasks take is known.
    """
    from rm_emulator.workload.profiles import builtin_profiles
    from rm_emulator.workload.tpch import TpchSettings, generate

    profiles = builtin_profiles()
    settings = TpchSettings(jobs=jobs, history=0, arrivals="batch" if batch else "poisson")
    workload = generate(settings, seed=SEED, profiles=profiles)
    cluster = EngineConfig(
        nodes=_nodes(50, (1000, 2048)), resources=workload.resources, profile="events", executors=Executors()
    )
    return Setup(
        cluster=cluster,
        workload=workload,
        policy={"kind": "fair", "measure": "slots"},
        predictor={"kind": "oracle"} if batch else None,
        waves_of=lambda times, executors: profiles.waves_of(
            times, warmup_ms=executors.warmup_ms, inverted=executors.inverted_levels
        ),
    )


@cache
def heartbeats_150(jobs: int = 1250) -> Setup:
    """The main comparison's cluster, workload and policy: 150 one-task nodes, 2sigma-like at load 1.05, GS."""
    from rm_emulator.workload.synthetic import generate

    workload = generate("2sigma-like", jobs=jobs, slots=150, load=1.05, seed=SEED)
    cluster = EngineConfig(nodes=_nodes(150, (1000, 4096)), resources=workload.resources, profile="yarn")
    return Setup(cluster=cluster, workload=workload, policy={"kind": "gs"}, predictor={"kind": "slearn"})


@cache
def yarn_100_nodes(jobs: int = 100) -> Setup:
    """100 nodes of 32 cores and 128 GiB at load 0.8; jobs of about 220 tasks in two stages, fair by dominant share.

    100 jobs are 22 thousand tasks and 4,800 s, 1,000 jobs 220 thousand and 48,000 s: the sizes at which DSS
    (epfl-labos/DSS) was measured.
    """
    return Setup(
        cluster=EngineConfig(nodes=_nodes(100, (32_000, 131_072)), profile="yarn"),
        workload=_map_reduce(jobs, mean_tasks=220, gap_s=48, slots=3200, load=0.8),
        policy={"kind": "fair"},
    )


def many_tasks(tasks: int) -> Setup:
    """About so many short tasks in jobs of 100, two stages each, on 500 nodes of 16 cores under FIFO."""
    return Setup(
        cluster=EngineConfig(nodes=_nodes(500, (16_000, 65_536)), profile="yarn"),
        workload=_map_reduce(max(1, tasks // 100), mean_tasks=100, gap_s=2, slots=8000, load=0.8),
        policy={"kind": "fifo"},
    )


def capacity_47k(policy: str, jobs: int = 470) -> Setup:
    """About 47,000 tasks in jobs of 100, two stages each, on 200 nodes of 16 cores at load 0.8."""
    return Setup(
        cluster=EngineConfig(nodes=_nodes(200, (16_000, 65_536)), profile="yarn"),
        workload=_map_reduce(jobs, mean_tasks=100, gap_s=2, slots=3200, load=0.8),
        policy={"kind": policy},
    )


def _nodes(count: int, capacity: tuple[int, int]) -> tuple[Node, ...]:
    return tuple(Node(id=f"n{i:05d}", capacity=capacity) for i in range(count))


def _map_reduce(jobs: int, *, mean_tasks: int, gap_s: float, slots: int, load: float) -> Workload:
    """Map and reduce stages; lognormal widths; task times scaled so that the gaps make the load."""
    draw = keyed.generator(SEED, "bench", jobs, mean_tasks)
    widths = draw.lognormal(0, 1, jobs)
    widths = np.maximum(2, np.rint(widths * (mean_tasks * jobs / widths.sum()))).astype(int)
    means = draw.uniform(0.3, 1.7, jobs)
    arrivals = np.cumsum(draw.exponential(gap_s * 1000, jobs))
    means *= slots * load * float(arrivals[-1]) / float((widths * means).sum())
    made = []
    for i, (width, mean, at) in enumerate(zip(widths.tolist(), means.tolist(), arrivals.tolist(), strict=True)):
        maps = max(1, width * 3 // 4)
        stages = (
            Stage(name="map", tasks=maps, demand=(1000, 2048)),
            Stage(name="reduce", tasks=max(1, width - maps), demand=(1000, 4096), parents=(0,)),
        )
        job = Job(id=f"job-{i:05d}", stages=stages, name=f"script-{i % 20}", user=f"user-{i % 7}")
        made.append(WorkloadJob(job=job, submit_ms=int(at), runtimes=(Drawn(mean, _COV), Drawn(mean, _COV))))
    return Workload(name="map-reduce", jobs=tuple(made), source="drawn, seed 1")
