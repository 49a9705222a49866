"""Settings of a scenario without any effect: no mistakes, but rarely meant so."""

from __future__ import annotations

from collections.abc import Iterator

from rm_emulator.engine.config import Faults, kind
from rm_emulator.engine.faults import node_faults
from rm_emulator.scenario.cluster import engine_config, who_decides
from rm_emulator.scenario.durations import show_duration
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.schema.workload import JobsWorkload
from rm_emulator.workload.model import Fixed, PerNode, PerTask, RunTimes, Workload, WorkloadJob, mean_ms
from schedulers.core.abilities import MindsDeadlines, ability
from schedulers.core.compatible import policy_of
from schedulers.core.policy import policies
from schedulers.core.resources import Resources


def notes(loaded: Loaded, workload: Workload) -> Iterator[str]:
    """A sentence for each setting without effect; settings of queues are `results.unused.unused_settings`."""
    yield from _heartbeat(loaded)
    yield from _deadlines(loaded)
    yield from _until(loaded, workload)
    yield from _rates(loaded, workload)


def _heartbeat(loaded: Loaded) -> Iterator[str]:
    cluster = loaded.scenario.spec.cluster
    if "heartbeat" in cluster.model_fields_set and who_decides(cluster.architecture) is not None:
        yield f"`heartbeat` means nothing beside architecture '{kind(cluster.architecture)}', where nodes do not beat"


def _deadlines(loaded: Loaded) -> Iterator[str]:
    """Deadlines that no policy of the scenario follows; a plug-in may follow them without saying so."""
    spec = loaded.scenario.spec
    inline = isinstance(spec.workload, JobsWorkload) and any(job.deadline is not None for job in spec.workload.jobs)
    if spec.workload.deadlines is None and not inline:
        return
    made = [policy_of(policy.settings) for policy in spec.policies]
    if any(ability(one, MindsDeadlines) or not type(one).__module__.startswith("schedulers.") for one in made):
        return
    known = ", ".join(entry.name for entry in policies if issubclass(entry.cls, MindsDeadlines))
    labels = ", ".join(policy.label for policy in spec.policies)
    yield f"deadlines are measured, but mean nothing to {labels} (policies that follow them: {known})"


def _until(loaded: Loaded, workload: Workload) -> Iterator[str]:
    until = loaded.scenario.spec.until
    if until is None or not workload.jobs:
        return
    first = min(job.submit_ms + min(map(_shortest_ms, job.runtimes), default=0) for job in workload.jobs)
    fastest = max(group.speed for group in loaded.scenario.spec.cluster.nodes)
    if until <= workload.jobs[0].submit_ms or until < first / max(1.0, fastest):
        yield f"`until: {show_duration(until)}` ends the run before any task can end"


def _rates(loaded: Loaded, workload: Workload) -> Iterator[str]:
    """Rates of nodes so low that the first fault of every seed comes after the last job, or after the run."""
    spec, config = loaded.scenario.spec, engine_config(loaded.scenario, Resources(workload.resources))
    faults = config.faults
    if faults is None or faults.nodes is None or not workload.jobs:
        return
    rates = Faults(nodes=faults.nodes)
    first = min(next(node_faults(rates, config.nodes, seed)).at_ms for seed in spec.seeds)
    last, begins = workload.jobs[-1].submit_ms, f"the first fault comes at {first / 3.6e6:.1f} h"
    if spec.until is not None and first >= spec.until:
        yield f"`faults` without effect before `until: {show_duration(spec.until)}`: {begins}"
    elif spec.until is None and first > last + max(map(_longest_ms, workload.jobs)):
        yield f"`faults` probably without effect on nodes: {begins}, the last job at {last / 3.6e6:.1f} h"


def _longest_ms(source: WorkloadJob) -> float:
    """Mean run times of a job's stages one after another, at node speed 1."""
    return sum(mean_ms(times) or 0.0 for times in source.runtimes)


def _shortest_ms(times: RunTimes) -> int:
    """The shortest run time of a stage's tasks at node speed 1, ms; 1 where times are drawn or measured."""
    if isinstance(times, Fixed):
        return times.ms
    if isinstance(times, PerTask):
        return min(times.ms)
    return min(map(min, times.ms)) if isinstance(times, PerNode) else 1
