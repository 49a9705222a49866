"""Plans of one DAG with communication costs and copies of tasks, through `schedulers.planning.unrelated`.

Every plan and every given schedule is checked by `lab.schedules`. Optima are searched for; where the search gives up,
they are held against the given schedule of that length, and the check's name says `witness`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rm_emulator.known_answers.checks import Case, Check, Checks, Skip, kind, values
from rm_emulator.known_answers.schedules import Problem, TaskRun, violations
from schedulers.planning.unrelated import exact, tds
from schedulers.planning.unrelated.cpop import critical_machine, critical_path
from schedulers.planning.unrelated.deft import deft
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.planners import PLANNERS
from schedulers.planning.unrelated.ranks import ranks_down, ranks_up, static_levels
from schedulers.planning.unrelated.timelines import TimelinePlan

#: Ranks are given to three digits.
_DIGITS: Final = 1e-3
#: Rows of a schedule: start, end, task, machine.
_Rows = list[list[float]]
_PLANS: Final[Mapping[str, Callable[[Instance], TimelinePlan]]] = {
    **{name.upper(): planner for name, planner in PLANNERS.items() if name != "deft"},
    "rank_u_order_plus_DEFT": lambda made: deft(made, ranks_up(made), insertion=True),
    "rank_u_order_plus_DEFT_append_only": lambda made: deft(made, ranks_up(made)),
    "lachesis_rank_up_plus_DEFT_append_only": deft,
}


class _Problem:
    """An instance as the planners have it, and as the validator has it."""

    def __init__(self, times: Sequence[Sequence[float]], edges: Iterable[Sequence[float]]) -> None:
        """One unit of data takes one unit of time between any two machines."""
        self.instance = Instance(times, edges, 1.0)
        self._times = times
        self._edges = tuple((int(parent), int(child), data) for parent, child, data in edges)

    def makespan(self, planner: Callable[[Instance], TimelinePlan]) -> float | str:
        """Of a plan; what is wrong with it, if anything is."""
        return self._checked(
            [TaskRun(p.task, p.machine, p.start, p.end, p.copy) for p in planner(self.instance).placements]
        )

    def rows(self, planner: Callable[[Instance], TimelinePlan]) -> _Rows:
        """Of a plan, by start and task."""
        return sorted([p.start, p.end, p.task, p.machine] for p in planner(self.instance).placements)

    def given(self, rows: _Rows, *, copies: bool) -> float | str:
        """The same of a given schedule. copies: they are allowed; the run that ends first is the task itself."""
        seen: set[int] = set()
        runs = []
        for start, end, task, machine in sorted(rows, key=lambda row: row[1]):
            runs.append(TaskRun(int(task), int(machine), start, end, copies and int(task) in seen))
            seen.add(int(task))
        return self._checked(runs, copies=copies)

    def _checked(self, runs: list[TaskRun], *, copies: bool = True) -> float | str:
        machines = self.instance.machines
        problem = Problem(
            times=self._times, machines=machines, edges=self._edges, rates=1.0, copies=machines if copies else 1
        )
        for wrong in violations(problem, runs):
            return wrong
        ends: dict[int, float] = {}
        for run in runs:
            ends[run.task] = min(run.end, ends.get(run.task, run.end))
        return max(ends.values())

    def optimum(self, name: str, value: float, witness: _Rows | None, *, copies: bool) -> Checks:
        """The optimum with or without copies, and the schedule that is said to be one."""
        there = None if witness is None else self.given(witness, copies=copies)
        if there is not None:
            yield Check(f"optimal/{name}_schedule", value, there)
        found = None
        if self.instance.tasks <= exact.MOST_TASKS:
            known = value if there == value else math.inf
            found = exact.shortest_makespan(self.instance, copies=copies, known=known)
        if found is not None:
            yield Check(f"optimal/{name}", value, found)
        elif there is not None:
            yield Check(f"optimal/{name}/witness", value, there)
        else:
            yield Skip(f"optimal/{name}", "optima without a schedule that the search does not find are not supported")


@kind(
    "unrelated_machines_with_comm",
    {
        "tasks",
        "processors",
        "exec",
        "edges",
        "sizes",
        "speeds",
        "expected",
        "optimal",
        "rank_u",
        "rank_d",
        "lachesis_rank_up",
        "lachesis_rank_down",
        "HEFT_schedule",
        "CPOP_critical_path",
        "CPOP_processor",
        "sequential_on_fastest",
        "slr_denominator",
        "lachesis_rank_up_plus_DEFT_append_only",
    },
)
def unrelated_machines(case: Case) -> Checks:
    """A time for each task and machine; where there are sizes and speeds, the times must follow from them."""
    problem = _Problem(case["exec"], case["edges"])
    made = problem.instance
    plans = {name: partial(problem.makespan, planner) for name, planner in _PLANS.items()}
    yield from values(case["expected"], plans)
    yield from values(case.get("published", {}), plans, under="published/")
    fastest = [float(x) for x in made.times.min(axis=1)]
    ways: dict[str, Callable[[], Any]] = {
        **plans,
        "tasks": lambda: made.tasks,
        "processors": lambda: made.machines,
        "rank_u": lambda: ranks_up(made, "times"),
        "rank_d": lambda: ranks_down(made, "times"),
        "lachesis_rank_up": lambda: ranks_up(made, "speeds"),
        "lachesis_rank_down": lambda: ranks_down(made, "speeds"),
        "HEFT_schedule": lambda: problem.rows(PLANNERS["heft"]),
        "CPOP_critical_path": lambda: critical_path(made),
        "CPOP_processor": lambda: critical_machine(made),
        "sequential_on_fastest": lambda: float(made.times.sum(axis=0).min()),
        "slr_denominator": lambda: max(static_levels(fastest, made)),
    }
    yield from values({name: case[name] for name in case if name in ways}, ways, tolerance=_DIGITS)
    if "sizes" in case and "speeds" in case:
        yield Check("exec", case["exec"], [[size / speed for speed in case["speeds"]] for size in case["sizes"]])
    yield from _optima(problem, case["optimal"], "")


def _optima(problem: _Problem, optimal: Mapping[str, Any], machines: str) -> Checks:
    """machines: what follows in the names, such as `_4_processors`."""
    known = {f"{name}{machines}": copies for name, copies in (("no_duplication", False), ("with_duplication", True))}
    for name, copies in known.items():
        if name in optimal:
            yield from problem.optimum(name, optimal[name], optimal.get(f"{name}_schedule"), copies=copies)
    rest = {key: optimal[key] for key in optimal if key.removesuffix("_schedule") not in known}
    yield from values(rest, {}, under="optimal/")


@kind("homogeneous_unbounded_with_comm", {"tasks", "exec", "edges", "expected", "optimal"})
def homogeneous_unbounded(case: Case) -> Checks:
    """Equal machines, as many as there are tasks; optima on four of them."""
    problem = _Problem([[time] * len(case["exec"]) for time in case["exec"]], case["edges"])
    found = tds.times(problem.instance)
    ways: dict[str, Callable[[], Any]] = {name: partial(getattr, found, name) for name in found.__struct_fields__}
    ways["TDS_makespan"] = lambda: problem.makespan(PLANNERS["tds"])
    yield Check("tasks", case["tasks"], problem.instance.tasks)
    yield from values(case["expected"], ways, tolerance=_DIGITS)
    four = _Problem([[time] * 4 for time in case["exec"]], case["edges"])
    yield from _optima(four, case["optimal"], "_4_processors")
