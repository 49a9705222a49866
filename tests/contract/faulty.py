"""Random scenarios of the contract with faults of every kind, heard of at once or late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from rm_emulator.engine.config import (
    CheckpointRules,
    Faults,
    MasterFaults,
    NodeFault,
    NodeFaultRates,
    Restart,
    TaskFaults,
    Worse,
)
from rm_emulator.testing import Case, Ran, Subject, case_for, run_case, scheduler_config
from rm_emulator.workload.model import Drawn, Fixed, WorkloadJob
from schedulers.core import keyed
from schedulers.core.checks import validate
from schedulers.core.model import Job, Stage
from schedulers.core.places import ANYWHERE
from schedulers.core.scheduler import Scheduler
from schedulers.core.vectors import fits

KINDS = ("death", "silent", "unhealthy", "drain", "slow")
replace = msgspec.structs.replace


def faulty_case(subject: Subject, seed: int, *, disorder: bool = False) -> Case:
    """A scenario of `case_for` with faults drawn from the number; every lost node comes back."""
    made = case_for(subject, seed, disorder=disorder)
    rng = keyed.generator(seed, "contract faults")
    span = 3_000 if made.config.heartbeat_ms < 500 else 60_000
    faults = Faults(
        outages=tuple(_outage(rng, made, span) for _ in range(int(rng.integers(0, 5)))),
        nodes=_rates(rng, span) if rng.random() < 0.4 else None,
        tasks=_of_tasks(rng, span) if rng.random() < 0.5 else None,
        noticed_after_ms=int(rng.choice([0, span // 50, span // 5])),
        evicted_after_ms=int(rng.choice([0, span // 20])),
        drain_limit_ms=int(rng.choice([0, span // 10, 10 * span])),
        checkpoints=_saved(seed, span) if made.config.executors is None and not disorder else None,
        restarts=() if disorder else _restarts(seed, span, forgets=made.config.profile != "kubernetes"),
    )
    faults = replace(faults, speculation=None if disorder else _speculates(seed, made, faults))
    jobs = tuple(_with_gangs(rng, entry, made) for entry in made.workload.jobs)
    if faults.tasks is not None and not disorder and _may_list(seed, made, [entry.job for entry in jobs]):
        faults = replace(faults, tasks=replace(faults.tasks, blacklist=1 + seed % 2))
    drawn = replace(
        made,
        name=f"faulty_case({subject}, {seed}, disorder={disorder})",
        config=replace(made.config, faults=faults),
        workload=replace(made.workload, jobs=jobs),
    )
    # A job that is held back for its pilots holds its master back, too.
    holds_back = not subject.policy.get("work_conserving", True)
    no_masters = disorder or holds_back or made.config.profile not in ("yarn", "sls")
    if no_masters:
        return drawn
    # Its users have no more than their queue's share: where a master takes that, its job would wait for ever.
    return _with_masters(_in_one_queue(drawn) if subject.policy["kind"] == "capacity" else drawn, seed, span)


def _in_one_queue(made: Case) -> Case:
    """The same jobs, all in the only queue."""
    jobs = tuple(replace(entry, job=replace(entry.job, queue="default")) for entry in made.workload.jobs)
    return replace(made, config=replace(made.config, queues=()), workload=replace(made.workload, jobs=jobs))


def _with_masters(made: Case, seed: int, span: int) -> Case:
    """Half of the scenarios have masters of a smallest task's size in containers, and half of those failing masters."""
    rng = keyed.generator(seed, "contract masters")
    if rng.random() < 0.5:
        return made
    size = min(stage.demand for entry in made.workload.jobs for stage in entry.job.stages)
    rules = MasterFaults(
        per_hour=float(rng.uniform(0.5, 5)) * 3_600_000 / span,
        hangs=float(rng.choice([0.0, 0.5])),
        attempts=int(rng.integers(1, 6)),
        keep_containers=rng.random() < 0.5,
    )
    faults = replace(made.config.faults, masters=rules if rng.random() < 0.5 else None)
    jobs = tuple(replace(entry, am=size) for entry in made.workload.jobs)
    # Room for all masters and a task at once, and no limits of queues, lest the masters wait for each other.
    extra = tuple(have + len(jobs) * amount for have, amount in zip(made.config.nodes[0].capacity, size, strict=True))
    nodes = (replace(made.config.nodes[0], capacity=extra), *made.config.nodes[1:])
    queues = tuple(replace(queue, max=None, per_user=None) for queue in made.config.queues)
    config = replace(made.config, nodes=nodes, queues=queues, faults=faults)
    return replace(made, config=config, workload=replace(made.workload, jobs=jobs))


def _with_gangs(rng: np.random.Generator, entry: WorkloadJob, made: Case) -> WorkloadJob:
    """Some stages behind barriers are gangs, which the whole cluster takes at once and nothing limits offers of."""
    config, limit = made.config, made.config.containers_per_heartbeat
    if config.profile not in ("events", "kubernetes") or config.executors or config.queues or limit is not None:
        return entry

    def fits(stage: Stage) -> bool:
        each = (
            min(have // want for have, want in zip(node.capacity, stage.demand, strict=True) if want)
            for node in config.nodes
        )
        return not stage.ties and stage.tasks <= sum(each)

    stages = tuple(replace(stage, gang=rng.random() < 0.4 and fits(stage)) for stage in entry.job.stages)
    return replace(entry, job=replace(entry.job, stages=stages))


def _outage(rng: np.random.Generator, made: Case, span: int) -> NodeFault:
    # Round times, so that faults meet other entries of the same millisecond.
    at = int(rng.integers(0, max(1, span // 100))) * 100
    return NodeFault(
        at_ms=at,
        node=str(rng.choice([node.id for node in made.config.nodes])),
        kind=KINDS[int(rng.integers(len(KINDS)))],
        lasts_ms=int(rng.integers(1, span)),
        times=float(rng.choice([1.5, 3.0])),
    )


def _rates(rng: np.random.Generator, span: int) -> NodeFaultRates:
    # A few faults of each node in the time of a run.
    days = span / 86_400_000
    return NodeFaultRates(
        per_1000_node_days=1000 * float(rng.uniform(0.5, 2)) / days,
        repair=Fixed(span // 20) if rng.random() < 0.5 else Drawn(span / 10, 1.0),
        kind=KINDS[int(rng.integers(len(KINDS) - 1))],
        lemons=Worse(share=0.4, times=5.0) if rng.random() < 0.5 else None,
    )


def _of_tasks(rng: np.random.Generator, span: int) -> TaskFaults:
    fails = rng.random() < 0.5
    return TaskFaults(
        per_hour=0.0 if fails else float(rng.uniform(0.5, 3)) * 3_600_000 / span,
        probability=float(rng.uniform(0.05, 0.5)) if fails else 0.0,
        attempts=int(rng.integers(1, 5)),
        backoff_ms=int(rng.choice([0, 0, span // 100])),
        stragglers=Worse(share=0.2, times=3.0) if rng.random() < 0.5 else None,
        # From what was drawn before, so that all other draws stay.
        hangs=0.1 if fails else 0.0,
        watchdog_ms=span // 20,
    )


def _saved(seed: int, span: int) -> CheckpointRules | None:
    # Draws of their own, so that all other draws stay.
    rng = keyed.generator(seed, "contract checkpoints")
    if rng.random() < 0.5:
        return None
    return CheckpointRules(
        every_ms=span // int(rng.choice([10, 50, 200])),
        cost_ms=int(rng.choice([0, span // 1000])),
        restart=Fixed(int(rng.choice([0, span // 100]))) if rng.random() < 0.5 else Drawn(span / 100, 2.0),
    )


def _restarts(seed: int, span: int, *, forgets: bool) -> tuple[Restart, ...]:
    # Draws of their own, so that all other draws stay. In order, and at times one during another.
    rng = keyed.generator(seed, "contract restarts")
    if rng.random() < 0.6:
        return ()
    times = sorted(int(at) * 100 for at in rng.integers(0, max(1, span // 100), size=int(rng.integers(1, 4))))
    return tuple(
        Restart(at_ms=at, lasts_ms=int(rng.integers(1, span // 5)), recovery=rng.random() < 0.6 or not forgets)
        for at in times
    )


def _speculates(seed: int, made: Case, faults: Faults) -> Literal["mapreduce", "late"] | None:
    # Draws of their own, so that all other draws stay.
    number = int(keyed.generator(seed, "contract speculation").integers(3))
    refused = made.config.executors is not None or faults.checkpoints is not None
    return None if refused or not number else "mapreduce" if number == 1 else "late"


def _may_list(seed: int, made: Case, jobs: Sequence[Job]) -> bool:
    """Whether jobs draw blacklists: not where two thirds of the nodes may be too few for a task, or a gang."""
    if made.config.executors is not None or keyed.uniform(seed, "contract blacklists") < 0.5:
        return False
    stages = [stage for job in jobs for stage in job.stages]
    rooms = [sum(fits(stage.demand, node.room) for node in made.config.nodes) for stage in stages]
    most = (len(made.config.nodes) - 1) // 3
    return min(rooms) > most and all(stage.places is ANYWHERE and not stage.gang for stage in stages)


def check_faulty(subject: Subject, made: Case) -> Ran:
    """Run a scenario with faults: the books are right, and every task succeeds at most once, in each job that ends."""
    ran = run_case(subject, made)
    try:
        validate(ran.audit.state)
        ran.audit.drained()
        copied = 2 if made.config.faults is not None and made.config.faults.speculation else 1
        _ends_once(ran, made, subject.copies.max if subject.copies else copied)
    except AssertionError as error:
        raise AssertionError(f"{made.name}: {error}") from error
    return ran


def check_restored(subject: Subject, made: Case, ran: Ran) -> None:
    """A scheduler restored from a snapshot halfway decides as the original scheduler."""
    facts = [event for event, _ in ran.audit.history]
    half, original = len(facts) // 2, Scheduler(scheduler_config(subject, made.config, made.seed))
    for event in facts[:half]:
        original.handle(event)
    restored = Scheduler.restore(original.snapshot())
    for number, event in enumerate(facts[half:], half):
        same = original.handle(event) == restored.handle(event)
        assert same, f"{made.name}: after a snapshot before fact {half}, at fact {number} ({event})"


def _ends_once(ran: Ran, made: Case, most: int) -> None:
    succeeded: dict[tuple[str, int, int], int] = {}
    rows = {row.id: row for row in ran.kept.jobs}
    for task in ran.kept.tasks:
        assert task.granted_ms <= (task.granted_ms if task.started_ms is None else task.started_ms) <= task.ended_ms
        # What a job did before it began anew is lost.
        if task.code == 0 and task.granted_ms >= (rows[task.job].resubmitted_ms or 0):
            which = task.job, task.stage, task.task
            succeeded[which] = succeeded.get(which, 0) + 1
    assert max(succeeded.values(), default=1) <= most, f"a task succeeded more than {most} times"
    assert len(rows) == len(ran.kept.jobs) == len(made.workload.jobs), "a job was not reported, or twice"
    for entry in made.workload.jobs:
        # The stage behind the job's own is its master.
        row, own = rows[entry.job.id], len(entry.job.stages)
        done = sum(job == entry.job.id and stage < own for job, stage, _ in succeeded)
        assert (row.finish_ms is None) == (row.failed_ms is not None), f"job {row.id} neither finished nor failed"
        assert row.failed_ms is not None or done == entry.job.tasks, f"{done} of {entry.job.tasks} tasks of {row.id}"
