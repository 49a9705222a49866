"""A finished run of the emulator in the numbers of `schedules`, from what is stored of it.

Taken from the scenario in run.json, the workload that it builds, and the tables of one cell. Jobs that did not finish,
and attempts that never ran, are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rm_emulator.known_answers.schedules import Problem, TaskRun
from rm_emulator.results.summary import cell_dir, read_table
from rm_emulator.scenario.cluster import nodes
from rm_emulator.scenario.schema import Scenario
from rm_emulator.scenario.workload import build
from rm_emulator.workload.model import Fixed, PerNode, PerTask, WorkloadJob
from schedulers.core.model import Node
from schedulers.core.resources import Resources

#: Transfers are whole ms, and so are run times at the speed of a node.
_WHOLE_MS = 1.0


def finished(folder: Path, label: str, seed: int) -> tuple[Problem, list[TaskRun]]:
    """What ran under a label with a seed, as `schedules.violations` takes it; times in ms, data in bytes.

    Run times are held against the workload's where nothing but the node says how long a task takes: in profile
    `events`, without startup, overbooking, executors or input on nodes. Raises MissingCell for tables that cannot be
    read.
    """
    given = json.loads((folder / "run.json").read_text(encoding="utf-8"))["scenario"]
    scenario = Scenario.model_validate(given)
    workload = build(scenario, Path(), seed).workload
    machines = list(nodes(scenario.spec.cluster.nodes, Resources(workload.resources)))
    cell = cell_dir(folder, label, seed)
    over = set(read_table(cell, "jobs").drop_nulls("finish_ms")["id"].to_list())
    jobs = [entry for entry in workload.jobs if entry.job.id in over]
    numbers = {key: number for number, key in enumerate(_tasks(jobs))}
    links = given["spec"]["cluster"].get("links")
    problem = Problem(
        times=[times for entry in jobs for times in _times(entry, machines, known=_known(given["spec"]["cluster"]))],
        rounding=_WHOLE_MS,
        machines=len(machines),
        edges=[edge for entry in jobs for edge in _edges(entry, numbers)] if links else (),
        after=[barrier for entry in jobs for barrier in _barriers(entry, numbers)],
        rates=_rates(machines, links) if links else math.inf,
        capacities=[node.capacity for node in machines],
        demands=[entry.job.stages[stage].demand for entry in jobs for _, stage, _ in _tasks([entry])],
        releases=[entry.submit_ms for entry in jobs for _ in _tasks([entry])],
        copies=(given["spec"].get("copies") or {}).get("max", 1),
    )
    places = {node.id: number for number, node in enumerate(machines)}
    return problem, list(_runs(read_table(cell, "tasks").to_dicts(), numbers, places))


def _tasks(jobs: Sequence[WorkloadJob]) -> Iterator[tuple[str, int, int]]:
    for entry in jobs:
        for number, stage in enumerate(entry.job.stages):
            yield from ((entry.job.id, number, task) for task in range(stage.tasks))


def _known(cluster: Mapping[str, Any]) -> bool:
    return cluster["profile"] == "events" and not (
        cluster["overbook"] or cluster.get("executors") or cluster["startup"] != "0s"
    )


def _times(entry: WorkloadJob, machines: Sequence[Node], *, known: bool) -> Iterator[list[float]]:
    """Per task its time on each machine, [] where more than that decides."""
    for stage, times in zip(entry.job.stages, entry.runtimes, strict=True):
        for task in range(stage.tasks):
            if not known or entry.usage or stage.hosts:
                yield []
            elif isinstance(times, PerNode):
                row = dict(zip(times.nodes, times.ms[task if len(times.ms) > 1 else 0], strict=True))
                yield [row[node.id] for node in machines]
            elif isinstance(times, Fixed | PerTask):
                ms = times.ms if isinstance(times, Fixed) else times.ms[task]
                yield [ms / node.speed for node in machines]
            else:
                yield []


def _group(entry: WorkloadJob, stage: int, numbers: Mapping[tuple[str, int, int], int]) -> list[int]:
    return [numbers[entry.job.id, stage, task] for task in range(entry.job.stages[stage].tasks)]


def _edges(entry: WorkloadJob, numbers: Mapping[tuple[str, int, int], int]) -> Iterator[tuple[int, int, float]]:
    """Pairs of tasks that share what their stages move."""
    for number, stage in enumerate(entry.job.stages):
        for edge in stage.edges:
            if edge.data:
                parents, children = _group(entry, edge.parent, numbers), _group(entry, number, numbers)
                part = edge.data / (len(parents) * len(children))
                yield from ((parent, child, part) for parent in parents for child in children)


def _barriers(entry: WorkloadJob, numbers: Mapping[tuple[str, int, int], int]) -> Iterator[tuple[list[int], list[int]]]:
    for number, stage in enumerate(entry.job.stages):
        for edge in stage.edges:
            parents, children = _group(entry, edge.parent, numbers), _group(entry, number, numbers)
            if edge.kind == "one_to_one":
                yield from (([parent], [child]) for parent, child in zip(parents, children, strict=True))
            else:  # a task gets its container early behind a share, and starts behind the parent all the same
                yield parents, children


def _rates(machines: Sequence[Node], links: Mapping[str, Any]) -> list[list[float]]:
    """Bytes per ms: what is said of the pair, else of its rack, else of all."""

    def rate(one: Node, other: Node) -> float:
        named = links.get("between", {}).get(one.id, {}).get(other.id)
        racked = links.get("in_rack") if one.rack and one.rack == other.rack else None
        found = named or racked or links.get("rate")
        return math.inf if found is None or one.id == other.id else found / 1000

    return [[rate(one, other) for other in machines] for one in machines]


def _runs(
    rows: Sequence[Mapping[str, Any]], numbers: Mapping[tuple[str, int, int], int], places: Mapping[str, int]
) -> Iterator[TaskRun]:
    """Of several that came to their end the first is the task, as in the emulator."""
    ended: set[int] = set()
    for row in sorted(rows, key=lambda row: (row["ended_ms"], row["container"])):
        task = numbers.get((row["job"], row["stage"], row["task"]))
        if task is None or row["started_ms"] is None:
            continue
        done = row["code"] == 0
        copy = task in ended if done else row.get("copy", False)
        if done:
            ended.add(task)
        yield TaskRun(task, places[row["node"]], row["started_ms"], row["ended_ms"], copy, done, row["granted_ms"])
