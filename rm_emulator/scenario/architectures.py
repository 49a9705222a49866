"""Conflicts between a scenario and its architecture, and schedulers without any job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rm_emulator.engine.assemble import tie_clash
from rm_emulator.engine.config import Decentralised, MultipleThinkers, kind
from rm_emulator.engine.multiple_schedulers import assign_jobs, peer_jobs
from rm_emulator.issues import Issue
from rm_emulator.scenario.cluster import who_decides
from rm_emulator.scenario.load import Loaded
from rm_emulator.workload.model import Workload

_AT: Final = ("spec", "cluster", "architecture")
#: Keys of the cluster that mean nothing where schedulers take their time or know nothing, and why.
_NOT_THERE: Final = {
    "executors": "containers there last as long as their task",
    "disorder": "facts are heard there when it says so",
    "containers_per_heartbeat": "nodes do not beat there",
    "reserve_after": "nobody there may keep nodes from the others",
    "kubernetes": "its delays are those of profile kubernetes",
}


def block_issues(loaded: Loaded) -> Iterator[Issue]:
    """Conflicts that the blocks of a scenario show without a workload."""
    spec = loaded.scenario.spec
    block, cluster = spec.cluster.architecture, spec.cluster
    if who_decides(block) is None:
        return
    what = f"architecture '{kind(block)}'" + (" that thinks" if kind(block) == "central" else "")
    if cluster.profile_name != "events":
        message = f"'{cluster.profile_name}' is not accepted: {what} has its own timing (expected events, or nothing)"
        yield loaded.issue(("spec", "cluster", "profile"), message)
    if isinstance(block, Decentralised):
        return
    for key, why in _NOT_THERE.items():
        if getattr(cluster, key) is not None:
            yield loaded.issue(("spec", "cluster", key), f"does not go with {what}: {why}; take it out")
    if cluster.application_master.container is not None:
        message = f"does not go with {what}: no application master has a container there; take it out"
        yield loaded.issue(("spec", "cluster", "application_master", "container"), message)
    if spec.copies is not None:
        yield loaded.issue(("spec", "copies"), f"does not go with {what}; take it out")
    if isinstance(block, MultipleThinkers):
        yield from _scheduler_issues(loaded, block)


def _scheduler_issues(loaded: Loaded, block: MultipleThinkers) -> Iterator[Issue]:
    names: list[str] = []
    for index, each in enumerate(block.schedulers):
        taken = next((name for name in each.names if name in names), None)
        if taken is not None:
            message = f"two schedulers would be called '{taken}': give one of them another name"
            yield loaded.issue((*_AT, "schedulers", index, "name"), message)
        names += each.names
    limited = [n for n, q in enumerate(loaded.scenario.spec.queues) if q.max or q.max_running or q.per_user]
    if limited and len(names) > 1:
        message = f"has limits, which none of the {len(names)} schedulers sees as a whole: take them out"
        yield loaded.issue(("spec", "queues", limited[0]), message)


def workload_issues(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    """Jobs without a scheduler, schedulers without jobs, services without an end, and edges that nothing can follow."""
    spec = loaded.scenario.spec
    if isinstance(spec.cluster.architecture, MultipleThinkers):
        yield from _assignment_issues(loaded, workload, spec.cluster.architecture)
    services = [source.job.id for source in workload.jobs if source.job.kind == "service"]
    if services and len(services) == len(workload.jobs) and spec.until is None:
        message = f"service '{services[0]}' has no end, nor has the run: give it `until`, or a batch job to end with"
        yield loaded.issue(("spec", "workload"), message)
    if services and (spec.cluster.executors is not None or any(spec.cluster.overbook.values())):
        key = "executors" if spec.cluster.executors is not None else "overbook"
        message = f"does not go with services (the first is '{services[0]}'), which keep what they hold; take it out"
        yield loaded.issue(("spec", "cluster", key), message)
    if (clash := tie_clash(spec.cluster.executors, who_decides(spec.cluster.architecture), workload)) is not None:
        yield loaded.issue(("spec", "cluster", clash[0]), clash[1])


def _assignment_issues(loaded: Loaded, workload: Workload, block: MultipleThinkers) -> Iterator[Issue]:
    thinkers = block.thinkers
    try:
        of = assign_jobs(workload.jobs, thinkers)
    except ValueError as error:
        yield loaded.issue((*_AT, "schedulers"), str(error))
        return
    busy = set(of.values())
    number = 0
    for index, each in enumerate(block.schedulers):
        idle = [name for n, name in enumerate(each.names, number) if n not in busy]
        number += each.count
        if idle:
            there = len(peer_jobs(workload.jobs, thinkers, number - 1))
            message = f"scheduler '{idle[0]}' gets no job: {there} jobs of this workload come to it and those like it"
            at = "name" if each.count == 1 else "count"
            yield loaded.issue((*_AT, "schedulers", index, at), message)
