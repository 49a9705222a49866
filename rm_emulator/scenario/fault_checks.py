"""Mistakes in a cluster's block `faults`: unknown nodes and racks, times after the run, clashes with other blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rm_emulator.engine.assemble import no_faults
from rm_emulator.engine.profile import profiles
from rm_emulator.issues import Issue, TraceError, did_you_mean
from rm_emulator.scenario.cluster import engine_config, nodes, resources_of
from rm_emulator.scenario.durations import show_duration
from rm_emulator.scenario.faults import table_of_faults
from rm_emulator.scenario.load import Loaded
from rm_emulator.scenario.schema.faults import FaultsBlock
from rm_emulator.workload.model import Workload
from schedulers.core.errors import nearest
from schedulers.core.resources import Resources

_AT: Final = ("spec", "cluster", "faults")
_SLOW: Final = "`kind: slow` goes with `times` above 1, and `times` with `kind: slow`"


def block_issues(loaded: Loaded) -> Iterator[Issue]:
    """Mistakes that the blocks of a scenario show without a workload."""
    cluster = loaded.scenario.spec.cluster
    if cluster.faults is None:
        return
    if cluster.faults.masters is not None and not profiles.entry(cluster.profile_name).cls.has_masters:
        known = " or ".join(entry.name for entry in profiles if entry.cls.has_masters)
        message = f"no master fails under profile '{cluster.profile_name}' (expected {known}); take it out"
        yield loaded.issue((*_AT, "masters"), message)
    yield from _rate_issues(loaded, cluster.faults)
    yield from _schedule_issues(loaded, cluster.faults)
    yield from _restart_issues(loaded, cluster.faults)
    if cluster.faults.trace is not None:
        machines = nodes(cluster.nodes, resources_of(loaded.scenario))
        try:
            table_of_faults(Path(cluster.faults.trace), [node.id for node in machines])
        except TraceError as error:
            yield from error.issues


def _rate_issues(loaded: Loaded, faults: FaultsBlock) -> Iterator[Issue]:
    """Rates that contradict each other, or break nothing."""
    tasks = faults.tasks
    masters = faults.masters
    of_nodes = faults.preset or faults.schedule or faults.trace or faults.nodes
    if not (of_nodes or tasks or masters or faults.restarts or faults.speculation):
        kinds = "preset, schedule, trace, nodes, tasks, masters, restarts, speculation"
        yield loaded.issue(_AT, f"nothing breaks (expected one of {kinds})")
    if masters is not None and not (of_nodes or masters.per_hour):
        yield loaded.issue((*_AT, "masters"), "no master fails (expected per_hour above 0, or faults of nodes)")
    if faults.preset is not None and faults.nodes is not None:
        yield loaded.issue((*_AT, "nodes"), "a second set of rates beside `preset`; take one of the two out")
    if tasks is not None and tasks.per_hour and tasks.probability:
        yield loaded.issue((*_AT, "tasks", "probability"), "a second rate beside `per_hour`; take one of the two out")
    if tasks is not None and not (tasks.per_hour or tasks.probability or tasks.hangs or tasks.stragglers):
        yield loaded.issue((*_AT, "tasks"), "no task has a fault (expected per_hour, probability, hangs or stragglers)")
    if faults.nodes is not None and (faults.nodes.kind == "slow") != (faults.nodes.times != 1):
        yield loaded.issue((*_AT, "nodes"), _SLOW)


def _schedule_issues(loaded: Loaded, faults: FaultsBlock) -> Iterator[Issue]:
    spec = loaded.scenario.spec
    machines = nodes(spec.cluster.nodes, resources_of(loaded.scenario))
    known = {
        "node": list(dict.fromkeys(node.id for node in machines)),
        "rack": list(dict.fromkeys(node.rack for node in machines if node.rack)),
    }
    for index, entry in enumerate(faults.schedule):
        at = (*_AT, "schedule", index)
        if (entry.node is None) == (entry.rack is None):
            yield loaded.issue(at, "a fault names either a `node` or a `rack`")
            continue
        if (entry.kind == "slow") != (entry.times != 1):
            yield loaded.issue(at, _SLOW)
        key, name = ("node", entry.node) if entry.rack is None else ("rack", entry.rack)
        if name not in known[key]:
            shown = ", ".join(known[key][:5]) + (", ..." if len(known[key]) > 5 else "")
            there = f"{key}s: {shown}" if shown else f"no node has a {key}"
            hint = did_you_mean(nearest(str(name), known[key]))
            yield loaded.issue((*at, key), f"no {key} '{name}' in this cluster ({there})", hint)
        yield from _late_issues(loaded, (*at, "at"), entry.at)


def _late_issues(loaded: Loaded, at: tuple[str | int, ...], at_ms: int) -> Iterator[Issue]:
    until = loaded.scenario.spec.until
    if until is not None and at_ms >= until:
        message = f"{show_duration(at_ms)} is after the end of the run (`until: {show_duration(until)}`)"
        yield loaded.issue(at, message)


def _restart_issues(loaded: Loaded, faults: FaultsBlock) -> Iterator[Issue]:
    back = 0
    for index, entry in sorted(enumerate(faults.restarts), key=lambda each: each[1].at_ms):
        at = (*_AT, "restarts", index, "at")
        yield from _late_issues(loaded, at, entry.at_ms)
        if entry.at_ms < back:
            message = f"{show_duration(entry.at_ms)} is during a restart that lasts until {show_duration(back)}"
            yield loaded.issue(at, message)
        back = max(back, entry.at_ms + entry.lasts_ms)


def workload_issues(loaded: Loaded, workload: Workload) -> Iterator[Issue]:
    """Faults that have no meaning for this workload."""
    if loaded.scenario.spec.cluster.faults is None:
        return
    config = engine_config(loaded.scenario, Resources(workload.resources))
    if why := no_faults(config, workload):
        yield loaded.issue(_AT, f"{why} (take one of the two out)")
