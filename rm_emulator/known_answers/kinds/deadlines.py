"""Jockey: utilities, indicators of progress, Amdahl's law and the control loop, through `schedulers.planning`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from rm_emulator.known_answers.checks import Case, Check, Checks, kind, only, values
from schedulers.core.rehearsal import Row, StageProfile, Table
from schedulers.planning.jockey.allocation import Utility, stepped, wanted
from schedulers.planning.jockey.progress import INDICATORS, meter, paths, serial
from schedulers.planning.jockey.rehearsal import amdahl


def _utility(points: Any) -> Utility:
    return Utility(tuple((time, worth) for time, worth in points))


def _courses(stages: Mapping[str, Mapping[str, Any]]) -> tuple[list[StageProfile], list[int]]:
    """What the stages went through, and how many tasks of each are done."""
    names = list(stages)
    courses = []
    for stage in stages.values():
        only(stage, {*StageProfile.__struct_fields__, "done"}, "key of a stage")
        told = {key: value for key, value in stage.items() if key not in ("done", "parents")}
        parents = tuple(names.index(parent) for parent in stage.get("parents", ()))
        courses.append(msgspec.convert({**told, "parents": parents}, StageProfile))
    return courses, [stage["done"] for stage in stages.values()]


@kind("jockey_utility", {"points", "dead_zone", "at", "expect", "tol"})
def utility(case: Case) -> Checks:
    """A utility curve, moved to the left by the dead zone, at some times."""
    curve = _utility(case["points"])
    got = [curve.at(time + case.get("dead_zone", 0)) for time in case["at"]]
    yield Check("", case["expect"], got, case.get("tol", 0.0))


@kind("jockey_progress", {"stages", "expect", "tol"})
def indicators(case: Case) -> Checks:
    """The six indicators of a job."""
    courses, done = _courses(case["stages"])
    ways: dict[str, Callable[[], float]] = {name: partial(meter(name, courses), done) for name in INDICATORS}
    yield from values(case["expect"], ways, tolerance=case.get("tol", 0.0))


@kind("jockey_amdahl", {"stages", "allocations", "expect", "tol"})
def amdahls_law(case: Case) -> Checks:
    """What is left of a job by Amdahl's law."""
    courses, done = _courses(case["stages"])
    ways = {
        "serial": lambda: serial(courses, done, paths(courses).after),
        "work": lambda: sum((1 - n / c.tasks) * c.run for c, n in zip(courses, done, strict=True)),
        "remaining": lambda: list(amdahl(courses, done, case["allocations"])),
    }
    yield from values(case["expect"], ways, tolerance=case.get("tol", 0.0))


@kind("jockey_decision", {"utility", "table", "slack", "alpha", "dead_zone", "limits", "allocation", "steps", "expect"})
def decisions(case: Case) -> Checks:
    """The control loop: what is wanted at each step, and what is given from then on."""
    curve = _utility(case["utility"])
    rows = tuple(Row(done, tuple(remaining)) for done, remaining in case["table"]["rows"])
    table = Table(tuple(case["table"]["allocations"]), rows)
    allocation, got = case["allocation"], []
    for elapsed, done in case["steps"]:
        remaining = table.at(done).remaining_ms
        raw = wanted(curve, elapsed, remaining, table.allocations, slack=case["slack"], dead_zone=case["dead_zone"])
        allocation = stepped(allocation, raw, case["alpha"], (case["limits"][0], case["limits"][1]))
        got.append([raw, allocation])
    yield Check("", case["expect"], got)
