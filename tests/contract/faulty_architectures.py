"""Random scenarios of the contract with faults where several schedulers decide, or think."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from rm_emulator.audit import DeciderAudit
from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import (
    Central,
    Decentralised,
    EngineConfig,
    Faults,
    MultipleThinkers,
    SharedState,
    Thinker,
    TwoLevel,
)
from rm_emulator.engine.in_memory import run_in_memory
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers, assign_jobs, first_container
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.thinking import ThinkingProfile
from rm_emulator.engine.workers import Workers
from rm_emulator.testing import Case, Subject
from rm_emulator.workload.model import WorkloadJob
from schedulers.core import keyed
from schedulers.core.checks import validate
from schedulers.core.events import Event
from schedulers.core.log import Header, Log, SchedulerConfig, parse
from schedulers.core.model import Stage
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler
from schedulers.decentralised.decider import Decentraliser
from schedulers.decentralised.decider import decider as decider_of
from tests.contract.faulty import faulty_case, replace

POLICIES = ("requeue", "fifo", "sjf", "fair", "drf", "tetris", "las", "gs", "random", "srpt")
Drawn = Central | TwoLevel | SharedState | Decentralised
METHODS: Final[tuple[Literal["random", "per_task", "batch", "late_binding"], ...]] = (
    "random",
    "per_task",
    "batch",
    "late_binding",
)


class Ran(NamedTuple):
    """A finished run: its simulation, its records, its deciders, and the log of each."""

    simulation: Simulation
    kept: MemoryRecording
    deciders: list[Scheduler] | list[Decentraliser]
    logs: list[list[bytes]]


def faulty_architecture(seed: int) -> Case:
    """The jobs and faults of `faulty_case` behind barriers, under an architecture drawn from the number."""
    made = faulty_case(Subject(policy={"kind": "fifo"}), seed)
    assert made.config.faults is not None
    config = replace(
        made.config,
        profile="events",
        faults=_of_many(made.config.faults),
        executors=None,
        containers_per_heartbeat=None,
        architecture=_architecture(keyed.generator(seed, "contract architectures"), made.config.heartbeat_ms < 500),
    )
    jobs = tuple(_behind_barriers(replace(entry, am=None)) for entry in made.workload.jobs)
    if isinstance(config.architecture, Decentralised):
        config, jobs = _unseen(config), tuple(_unseen_job(seed, entry, made) for entry in jobs)
    workload = replace(made.workload, jobs=jobs)
    return replace(made, name=f"faulty_architecture({seed})", config=config, workload=workload)


def _of_many(faults: Faults) -> Faults:
    """Without what needs one scheduler that hears of everything in order."""
    tasks = None if faults.tasks is None else replace(faults.tasks, blacklist=None)
    return replace(faults, tasks=tasks, masters=None, restarts=(), speculation=None)


def _behind_barriers(entry: WorkloadJob) -> WorkloadJob:
    stages = tuple(replace(stage, parents=stage.above) for stage in entry.job.stages)
    return replace(entry, job=replace(entry.job, stages=stages))


def _unseen(config: EngineConfig) -> EngineConfig:
    """Without what only somebody could heed who sees the cluster: limits of queues, stages that back off."""
    faults = config.faults
    assert faults is not None
    if faults.tasks is not None:
        faults = replace(faults, tasks=replace(faults.tasks, backoff_ms=0))
    return replace(config, queues=(), faults=faults)


def _unseen_job(seed: int, entry: WorkloadJob, made: Case) -> WorkloadJob:
    """Without gangs; half of the stages have input, which lies on two nodes."""
    names = [node.id for node in made.config.nodes]

    def stage(index: int, there: Stage) -> Stage:
        rng = keyed.generator(seed, "contract hosts", entry.job.id, index)
        at = [tuple(str(name) for name in rng.choice(names, 2)) for _ in range(there.tasks)]
        return replace(there, gang=False, hosts=tuple(at) if rng.random() < 0.5 else ())

    stages = tuple(stage(index, there) for index, there in enumerate(entry.job.stages))
    return replace(entry, job=replace(entry.job, stages=stages, queue="default"))


def _decentralised(rng: np.random.Generator, unit: int) -> Decentralised:
    method = METHODS[int(rng.integers(0, 4))]
    return Decentralised(
        schedulers=2,
        method=method,
        probe_ratio=float(rng.choice([1.0, 1.5, 2.0])),
        constraints=method != "batch" and rng.random() < 0.5,
        cancellation=rng.random() < 0.7,
        worker_order="user_round_robin" if rng.random() < 0.3 else "fifo",
        message_ms=int(rng.choice([0, 1, unit // 10, unit])),
    )


def _architecture(rng: np.random.Generator, fine: bool) -> Drawn:
    unit, retry = (20, 100) if fine else (400, 1000)
    times = [int(rng.integers(0, 4)) * unit for _ in range(3)]
    kind = int(rng.integers(0, 5))
    if kind > 2:
        return _decentralised(rng, unit)
    if kind == 0:
        return Central(t_job_ms=times[0] + 1, t_task_ms=unit // 10, retry_ms=retry)
    thinkers = tuple(Thinker(name=f"s{n}", t_job_ms=ms, t_task_ms=unit // 10) for n, ms in enumerate(times))
    if kind == 1:
        return TwoLevel(schedulers=thinkers, retry_ms=retry)
    return SharedState(
        schedulers=thinkers,
        retry_ms=retry,
        conflict="sequence" if rng.random() < 0.5 else "resource_fit",
        commit="all_or_nothing" if rng.random() < 0.3 else "incremental",
        own_ends="at_once" if rng.random() < 0.3 else "afterwards",
    )


def run_architecture(made: Case) -> Ran:
    """Run a scenario to its end."""
    if isinstance(made.config.architecture, Decentralised):
        return _run_workers(made, made.config.architecture)
    who = made.config.architecture
    rng = keyed.generator(made.seed, "contract architectures' policies")
    thinkers = who.thinkers if isinstance(who, MultipleThinkers) else (Thinker(name="all"),)
    logs: list[list[bytes]] = [[] for _ in thinkers]
    kept_logs = [Log(chunks.append) for chunks in logs]
    deciders = [
        Scheduler(_settings(made, str(rng.choice(POLICIES)), number), log=log) for number, log in enumerate(kept_logs)
    ]
    control = MultipleSchedulers(deciders, assign_jobs(made.workload.jobs, thinkers))
    simulation, kept = run_in_memory(made.config, made.workload, control, seed=made.seed, oracle=True)
    for log in kept_logs:
        log.flush()
    return Ran(simulation, kept, deciders, [b"".join(chunks).splitlines(keepends=True) for chunks in logs])


def _run_workers(made: Case, who: Decentralised) -> Ran:
    chunks: list[bytes] = []
    log = Log(chunks.append)
    config = SchedulerConfig(
        resources=made.config.resources,
        policy={"kind": "fifo"},
        offers=timing(made.config).offers,
        seed=made.seed,
        decentralised=msgspec.to_builtins(who.probing),
    )
    decider = Decentraliser(config, log=log)
    audit = DeciderAudit(decider)
    simulation, kept = run_in_memory(made.config, made.workload, Workers(audit), seed=made.seed)
    audit.drained()
    log.flush()
    return Ran(simulation, kept, [decider], [b"".join(chunks).splitlines(keepends=True)])


def _settings(made: Case, policy: str, number: int) -> SchedulerConfig:
    return SchedulerConfig(
        resources=made.config.resources,
        policy={"kind": policy},
        predictor={"kind": "oracle"},
        placement={"kind": "best_fit"},
        offers=timing(made.config).offers,
        seed=made.seed,
        first_container=first_container(number) if number else 1,
    )


def check_architecture(made: Case) -> Ran:
    """Run a scenario: tasks end once, nodes hold no more than they have, all is given back, logs replay."""
    ran = run_architecture(made)
    try:
        for decider in ran.deciders:
            validate(decider.state)
            assert not decider.state.jobs, f"jobs left: {list(decider.state.jobs)}"
            assert not decider.state.containers, "containers left"
        _ends_once(ran, made)
        _within_capacity(ran)
        _all_given_back(ran)
        for lines in ran.logs:
            _replays(lines)
    except AssertionError as error:
        raise AssertionError(f"{made.name}: {error}") from error
    return ran


def _replays(lines: list[bytes]) -> None:
    """The log replays, and a scheduler restored from a snapshot halfway decides as the original scheduler."""
    header = next(parse(lines))
    assert isinstance(header, Header)
    facts: list[Event] = [step.event for step in Replay(lines, decider_of)]
    if header.config.decentralised is not None:
        return  # no snapshots are taken of workers
    original, half = Scheduler(header.config), len(facts) // 2
    for event in facts[:half]:
        original.handle(event)
    restored = Scheduler.restore(original.snapshot())
    for event in facts[half:]:
        assert original.handle(event) == restored.handle(event), f"a restored scheduler decides otherwise at {event}"


def _ends_once(ran: Ran, made: Case) -> None:
    done = [(task.job, task.stage, task.task) for task in ran.kept.tasks if task.code == 0]
    assert len(done) == len(set(done)), "a task succeeded twice"
    given_up = {row.job for row in ran.kept.tries if row.given_up}
    rows = {row.id: row for row in ran.kept.jobs}
    assert len(rows) == len(ran.kept.jobs) == len(made.workload.jobs), "a job was not reported, or twice"
    for entry in made.workload.jobs:
        row, succeeded = rows[entry.job.id], sum(which[0] == entry.job.id for which in done)
        ends = [row.finish_ms is not None, row.failed_ms is not None, row.id in given_up]
        assert sum(ends) == 1, f"job {row.id} finished, failed, was given up: {ends}"
        assert row.finish_ms is None or succeeded == entry.job.tasks, f"{succeeded} tasks of {row.id} succeeded"


def _within_capacity(ran: Ran) -> None:
    """No node holds more than its capacity, from grants to ends."""
    jobs = {entry.job.id: entry.job for entry in ran.simulation.workload.jobs}
    for node in ran.simulation.config.nodes:
        changes = []
        for task in ran.kept.tasks:
            if task.node == node.id:
                demand = jobs[task.job].stages[task.stage].demand
                changes += [(task.granted_ms, 1, demand), (task.ended_ms, -1, demand)]
        held = [0] * len(node.capacity)
        for at, sign, demand in sorted(changes):
            held = [have + sign * part for have, part in zip(held, demand, strict=True)]
            most = zip(held, node.capacity, strict=True)
            assert all(have <= room for have, room in most), f"{node.id} holds too much at {at} ms"


def _all_given_back(ran: Ran) -> None:
    profile = ran.simulation.profile
    assert not ran.simulation.containers, "containers left on nodes"
    if isinstance(profile, ThinkingProfile):
        assert profile.free == [list(node.room) for node in ran.simulation.config.nodes], "room is held for nothing"
    for decider in ran.deciders:
        # Messages to a worker out of hearing still wait where the run ends before anybody has noticed.
        if isinstance(decider, Decentraliser) and not profile._unheard:
            for worker in decider._workers.values():
                assert (worker.free, len(worker.queue), worker.asking) == (worker.slots, 0, []), worker.name
