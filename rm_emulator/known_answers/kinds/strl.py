"""Wishes in STRL: the best plan of a set of jobs, and the greedy one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from rm_emulator.known_answers.checks import Case, Check, Checks, Malformed, kind, only
from schedulers.planning.tetrisched.start_plan import Request, StartPlan, one_by_one, plan
from schedulers.planning.tetrisched.strl import InvalidExpression, leaves, parse, read
from schedulers.planning.tetrisched.supply import Supply

_KEYS: Final = {"machines", "sets", "busy_until", "quantum", "now", "plan_ahead", "jobs", "expect", "tol"}


@kind("strl", _KEYS)
def strl(case: Case) -> Checks:
    """The optimum over all jobs, where every machine is one unit of one resource."""
    only(case["expect"], {"objective", "allocation", "greedy"}, "expectation")
    requests = [Request(name, _expression(name, wants)) for name, wants in case["jobs"].items()]
    for request in requests:
        for leaf in leaves(request.wants):
            if leaf.set not in case["sets"]:
                raise Malformed(f"job '{request.name}' names set '{leaf.set}' (sets: {', '.join(case['sets'])})")
    best = plan(requests, _supply(case))
    got: dict[str, Any] = {"objective": best.objective, "allocation": _rows(best, requests, case.get("now", 0))}
    if "greedy" in case["expect"]:
        got["greedy"] = one_by_one(requests, _supply(case)).objective
    expected = case["expect"]
    yield Check("", expected, {key: got[key] for key in expected}, case.get("tol", 0.0))


def _expression(name: str, wants: Any) -> Any:
    try:
        return parse(wants) if isinstance(wants, str) else read(wants)
    except InvalidExpression as error:
        raise Malformed(f"job '{name}': {error}") from None


def _supply(case: Case) -> Supply:
    machines, quantum, now = case["machines"], case.get("quantum", 1), case.get("now", 0)
    slices = -(-case["plan_ahead"] // quantum)
    begins = now + quantum * np.arange(slices)
    busy = np.array([case.get("busy_until", {}).get(machine, now) for machine in machines])
    room = (begins[None, :] >= busy[:, None]).astype(np.int64)[:, :, None]
    sets = {name: [machines.index(machine) for machine in members] for name, members in case["sets"].items()}
    return Supply(sets, room, quantum=quantum, now=now)


def _rows(found: StartPlan, requests: list[Request], now: int) -> list[list[Any]]:
    """[job, set, start, machines] of each leaf that holds any."""
    rows = []
    for lease in found.starts:
        request = requests[lease.request]
        leaf = list(leaves(request.wants))[lease.leaf]
        rows.append([request.name, leaf.set, now if leaf.start is None else leaf.start, sum(lease.held.values())])
    return rows
