"""Plans of one DAG without communication costs, through `schedulers.planning`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rm_emulator.known_answers.checks import Case, Check, Checks, Unsupported, kind, only, values
from rm_emulator.known_answers.exact import MOST_TASKS, shortest_makespan
from schedulers.core.model import Stage
from schedulers.core.resources import Vector
from schedulers.planning.dags import lists
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.schedule import Batch, Placement, Plan, Schedule
from schedulers.planning.dags.shelves import packed, stacked
from schedulers.planning.graphene.construction import build_schedule


class _Problem:
    """Stages with run times on equal machines; times in the case's unit stand for ms."""

    def __init__(
        self,
        demands: Sequence[Sequence[int]],
        runtimes: Sequence[int],
        edges: Collection[Sequence[int]],
        capacity: Vector,
        machines: int = 1,
        tasks: Sequence[int] | None = None,
    ) -> None:
        parents: list[list[int]] = [[] for _ in demands]
        for source, target, *_ in edges:
            parents[target].append(source)
        self.stages = tuple(
            Stage(name=f"stage{i}", tasks=tasks[i] if tasks else 1, demand=tuple(demand), parents=tuple(parents[i]))
            for i, demand in enumerate(demands)
        )
        self.runtimes, self.capacity, self.machines = list(runtimes), tuple(capacity), machines

    def plan(self, planner: lists.Planner) -> int:
        """The makespan by a planner."""
        return self.length(planner(self.stages, self.runtimes, self.capacity, self.machines).schedule)

    def length(self, schedule: Schedule) -> int:
        """The makespan of a schedule, which is checked."""
        schedule.check(self.stages, self.runtimes, self.capacity, self.machines)
        return schedule.makespan

    def ranked(self, ranks: Sequence[float]) -> int:
        """The makespan of the list schedule in this order."""
        plan = lists.in_order(self.stages, self.runtimes, self.capacity, self.machines, ranks=ranks)
        return self.length(plan.schedule)

    def shelves(self, *, first_fit: bool) -> int:
        """The makespan in shelves, whatever the edges."""
        dag = self.dag()
        blocks: list[Batch] = stacked(packed(dag, range(len(dag)), first_fit=first_fit))
        return self.length(Schedule.of_blocks(blocks, dag.runtimes))

    def dag(self) -> Dag:
        """As the planners see it."""
        return Dag(self.stages, self.runtimes, self.capacity, self.machines)

    def optimum(self) -> int:
        """The shortest makespan: of a plan as short as its lower bound, else by trying everything."""
        plan: Plan = build_schedule(self.stages, self.runtimes, self.capacity, self.machines)
        if plan.makespan == plan.bound:
            return self.length(plan.schedule)
        if sum(stage.tasks for stage in self.stages) > MOST_TASKS:
            raise Unsupported(f"optima of more than {MOST_TASKS} tasks that no bound proves are not supported")
        return shortest_makespan(self.stages, self.runtimes, self.capacity, self.machines)


def _optimal(value: Mapping[str, Any], name: str, way: Callable[[], int], also: Collection[str] = ()) -> Checks:
    """The optimum of this name, as `optimal`; also: what the kind looks at itself, the rest is skipped."""
    yield from values({"optimal": value[name]}, {"optimal": way})
    yield from values({key: value[key] for key in value if key not in {name, *also}}, {}, under="optimal/")


_LISTS: Final[dict[str, lists.Planner]] = {
    "critical_path": lists.cp,
    "tetris_dot_product": lists.tetris,
    "breadth_first": lists.bfs,
}


@kind("rigid_multi_resource_dag", {"capacity", "task_names", "exec", "demand", "edges", "expected", "optimal"})
def rigid_multi_resource_dag(case: Case) -> Checks:
    """Tasks of several resources on one machine."""
    problem = _Problem(case["demand"], case["exec"], case["edges"], tuple(case["capacity"]))
    ways: dict[str, Callable[[], Any]] = {name: partial(problem.plan, planner) for name, planner in _LISTS.items()}
    ways["shortest_task_first"] = lambda: problem.ranked(problem.runtimes)
    ways["longest_task_first"] = lambda: problem.ranked([-runtime for runtime in problem.runtimes])
    yield from values(case["expected"], ways)
    yield from _optimal(case["optimal"], "makespan", problem.optimum, {"start_times"})
    if "start_times" in case["optimal"]:
        starts = enumerate(case["optimal"]["start_times"])
        rows = (Placement(at, at + problem.runtimes[stage], stage, 0, 0) for stage, at in starts)
        length = problem.length(Schedule(tuple(sorted(rows))))
        yield Check("optimal/start_times", case["optimal"]["makespan"], length)


@kind("rigid_width_on_10_slots", {"slots", "items_width_duration", "expected", "optimal", "with_edges"})
def rigid_width(case: Case) -> Checks:
    """Items as wide as the slots they take at once, first without edges, then with them."""
    demands, runtimes = (
        [[width] for width, _ in case["items_width_duration"]],
        [d for _, d in case["items_width_duration"]],
    )
    slots = (case["slots"],)
    free = _Problem(demands, runtimes, [], slots)
    yield from values(
        case["expected"],
        {
            "NFDH_no_edges": lambda: free.shelves(first_fit=False),
            "FFDH_no_edges": lambda: free.shelves(first_fit=True),
        },
    )
    yield from _optimal(case["optimal"], "no_edges", free.optimum)
    bound = _Problem(demands, runtimes, case["with_edges"]["edges"], slots)
    ways = {
        "DC_strip_partition": lambda: bound.plan(lists.strip_part),
        "level_by_level_NFDH": lambda: bound.plan(lists.levels),
        "optimal": bound.optimum,
    }
    expected = {name: value for name, value in case["with_edges"].items() if name != "edges"}
    yield from values(expected, ways, under="with_edges/")


@kind("unit_tasks_two_processors", {"tasks", "exec", "processors", "edges", "expected", "optimal"})
def unit_tasks(case: Case) -> Checks:
    """Tasks of one unit on two processors, by Coffman-Graham labels and by Hu's levels."""
    problem = _Problem([[1]] * case["tasks"], case["exec"], case["edges"], (1,), case["processors"])
    yield from values(
        case["expected"],
        {
            "CG_labels": lambda: lists.labels(problem.dag()),
            "CG_makespan": lambda: problem.plan(lists.coffman_graham),
            "Hu_level_lowest_id_ties": lambda: problem.plan(lists.cp),
        },
    )
    yield from _optimal(case["optimal"], "makespan", problem.optimum)


@kind("stages_on_identical_slots", {"unit", "slots", "stages", "stage_edges", "expected", "optimal"})
def stages_on_slots(case: Case) -> Checks:
    """Stages of many tasks on slots of one task each. plan_ahead: Graphene."""
    stages = case["stages"]
    for stage in stages:
        only(stage, {"tasks", "duration"}, "key of a stage")
    problem = _Problem(
        [[1]] * len(stages),
        [stage["duration"] for stage in stages],
        case["stage_edges"],
        (1,),
        case["slots"],
        [stage["tasks"] for stage in stages],
    )
    yield from values(
        case["expected"],
        {
            "critical_path_list_schedule": lambda: problem.plan(lists.cp),
            "plan_ahead": lambda: problem.plan(build_schedule),
        },
    )
    yield from _optimal(case["optimal"], "makespan", problem.optimum, {"certificate"})
