"""Settings that make no sense where schedulers see no cluster (architecture `decentralised`), and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rm_emulator.engine.architectures.decentralised import DecentralisedProfile as Workers
from rm_emulator.engine.config import Decentralised
from rm_emulator.issues import Issue
from rm_emulator.scenario.cluster import engine_config
from rm_emulator.scenario.durations import show_duration
from rm_emulator.scenario.load import Loaded
from rm_emulator.workload.model import PerNode, PerTask, RunTimes, Workload, mean_ms
from schedulers.core.resources import Resources

_AT: Final = ("spec", "cluster", "architecture")
#: Probes for a stage are made, and sent, all at once.
_MOST_PROBES: Final = 10_000_000
#: Keys of a cluster that only somebody who sees all of it could heed.
_CENTRAL: Final = {
    "executors": "a worker keeps no containers between tasks",
    "reserve_after": "no scheduler can keep nodes for a job",
    "containers_per_heartbeat": "workers do not beat, they take what waits with them",
    "disorder": "messages are never late and never lost",
}


def block_issues(loaded: Loaded) -> Iterator[Issue]:
    """Conflicts that the blocks of a scenario show without a workload."""
    spec = loaded.scenario.spec
    block = spec.cluster.architecture
    if not isinstance(block, Decentralised):
        return
    for key, why in _CENTRAL.items():
        if getattr(spec.cluster, key) is not None:
            message = f"does not go with architecture decentralised: {why} (take it out)"
            yield loaded.issue(("spec", "cluster", key), message, key=True)
    if spec.copies is not None:
        message = "does not go with architecture decentralised: nobody copies tasks there (take it out)"
        yield loaded.issue(("spec", "copies"), message, key=True)
    if block.method == "batch" and block.constraints:
        message = "probes of a stage are answered together, which tasks bound to different nodes cannot share"
        yield loaded.issue((*_AT, "constraints"), f"{message} (expected false, or method per_task or late_binding)")
    workers = sum(group.count for group in spec.cluster.nodes)
    # The default is right for a single worker as well.
    if block.probe_ratio > max(workers, Decentralised().probe_ratio):
        message = f"{block.probe_ratio:g} probes a task for {workers} workers (expected at most one a worker)"
        yield loaded.issue((*_AT, "probe_ratio"), message)
    for index, queue in enumerate(spec.queues):
        for key in ("max", "per_user", "max_running"):
            if getattr(queue, key) is not None:
                message = "no scheduler of architecture decentralised sees what a queue holds, so none keeps its limits"
                yield loaded.issue(("spec", "queues", index, key), f"{message} (take it out)", key=True)
    for index, policy in enumerate(spec.policies):
        plain = policy.kind == "fifo" and policy.predictor is None and policy.placement in (None, {"kind": "first_fit"})
        if not plain:
            message = "with architecture decentralised no policy, predictor or placement has a say: workers go by "
            message += "`worker_order` (expected {kind: fifo} alone, which names the results)"
            yield loaded.issue(("spec", "policies", index), message)


def workload_issues(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    """Conflicts between the architecture and the workload."""
    block = loaded.scenario.spec.cluster.architecture
    if not isinstance(block, Decentralised):
        return
    jobs = workload.jobs
    if block.schedulers > len(jobs):
        message = f"{block.schedulers} schedulers for {len(jobs)} jobs (expected at most one a job)"
        yield loaded.issue((*_AT, "schedulers"), message)
    horizon = loaded.scenario.spec.until
    if horizon is None:
        longest = max((_longest_ms(times) for job in jobs for times in job.runtimes), default=0.0)
        horizon = jobs[-1].submit_ms + round(longest)
    if block.message_ms > horizon:
        message = f"a message takes {show_duration(block.message_ms)}, and the whole run "
        message += f"{show_duration(horizon)} on an empty cluster (expected at most that)"
        yield loaded.issue((*_AT, "message_delay"), message)
    widest = max((stage.tasks for job in jobs for stage in job.job.stages), default=0)
    if widest * block.probe_ratio > _MOST_PROBES:
        message = f"{widest * block.probe_ratio:,.0f} probes for a stage of {widest:,} tasks (at most {_MOST_PROBES:,})"
        yield loaded.issue((*_AT, "probe_ratio"), message)
    for job in jobs:
        gang = next((stage.name for stage in job.job.stages if stage.gang), None)
        if gang is not None:
            message = f"job '{job.job.id}' stage '{gang}' is a gang: no scheduler of architecture decentralised can "
            yield loaded.issue(("spec", "workload"), f"{message}start tasks together")
            break
    if any(job.am for job in jobs):
        message = "application masters have no containers of their own with architecture decentralised"
        yield loaded.issue(("spec", "workload"), message)
    try:
        Workers.settled(engine_config(loaded.scenario, Resources(workload.resources)), workload)
    except ValueError as error:
        yield loaded.issue((*_AT, "slots_per_worker"), str(error))


def _longest_ms(times: RunTimes) -> float:
    """Longest written run time of a stage, ms, else the mean; 0 for measured waves."""
    if isinstance(times, PerTask):
        return max(times.ms)
    return max(map(max, times.ms)) if isinstance(times, PerNode) else mean_ms(times) or 0.0
