"""What holds for the plan of any DAG by any planner."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.known_answers import exact
from schedulers.core import keyed
from schedulers.core.model import Stage
from schedulers.planning.dags import lists
from schedulers.planning.dags.bounds import bound
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.schedule import Plan, Schedule
from schedulers.planning.graphene.construction import ORDERS, Split, build_schedule, candidates, most_compact
from schedulers.planning.graphene.space import SearchEffort, Space
from tests.examples import examples

Problem = tuple[tuple[Stage, ...], list[int], tuple[int, ...], int]
PLANNERS = {**lists.PLANNERS, "graphene": build_schedule}
#: Those that leave no machine idle that a ready task fits on.
WORK_CONSERVING = ("bfs", "cp", "random", "tetris", "coffman_graham")


@st.composite
def problems(draw: st.DrawFn, most_stages: int = 8, most_tasks: int = 12) -> Problem:
    count, resources = draw(st.integers(1, most_stages)), draw(st.integers(1, 3))
    capacity = tuple(draw(st.integers(1, 10)) for _ in range(resources))
    demands = st.tuples(*(st.integers(0, there) for there in capacity)).filter(any)
    stages = tuple(
        Stage(
            name=f"s{s}",
            tasks=draw(st.integers(1, most_tasks)),
            demand=draw(demands),
            parents=tuple(sorted(draw(st.sets(st.integers(0, s - 1), max_size=3)))) if s else (),
        )
        for s in range(count)
    )
    return stages, [draw(st.integers(1, 20)) for _ in stages], capacity, draw(st.integers(1, 4))


def drawn(seed: int, most_stages: int, most_tasks: int) -> Problem:
    """The same for loops, larger and without shrinking. Stages are named out of order."""
    draw = keyed.generator(seed, "planner")
    count, resources = int(draw.integers(1, most_stages + 1)), int(draw.integers(1, 4))
    capacity = tuple(int(x) for x in draw.integers(1, 17, resources))
    edges, above = draw.random() * 0.5, draw.permutation(count).tolist()
    stages = tuple(
        Stage(
            name=f"s{s}",
            tasks=int(draw.integers(1, most_tasks + 1)),
            demand=tuple(max(int(s % resources == r), int(draw.integers(0, c + 1))) for r, c in enumerate(capacity)),
            parents=tuple(p for p in range(count) if above[p] < above[s] and draw.random() < edges),
        )
        for s in range(count)
    )
    runtimes = [max(1, int(x)) for x in draw.lognormal(2, 1, count)]
    return stages, runtimes, capacity, int(draw.integers(1, 5))


def check(made: Problem, plan: Plan) -> None:
    plan.schedule.check(*made)
    dag = Dag(*made)
    assert plan.makespan >= plan.bound >= max(*dag.ways_out(), dag.work_ms(range(len(dag))))
    assert min(p.start for p in plan.schedule.placements) == 0


@given(problems())
def test_every_plan_is_valid_and_above_its_bounds(made: Problem) -> None:
    for planner in PLANNERS.values():
        check(made, planner(*made))


@given(problems())
def test_backward_and_forward_placement_are_valid(made: Problem) -> None:
    dag = Dag(*made)
    for place in (Space.forward, Space.backward):
        space = place(Space(dag, dag.order, SearchEffort(10**9)), range(len(dag)), None)
        assert space is not None
        Schedule.of_blocks(space.blocks, dag.runtimes).check(*made)


@given(problems(most_stages=5, most_tasks=2))
def test_bounds_and_plans_beside_the_optimum(made: Problem) -> None:
    if sum(stage.tasks for stage in made[0]) > 8:
        return
    optimum = exact.shortest_makespan(*made)
    assert bound(Dag(*made)) <= optimum
    assert all(planner(*made).makespan >= optimum for planner in PLANNERS.values())


@given(problems())
def test_graphene_is_never_behind_critical_path(made: Problem) -> None:
    assert build_schedule(*made).makespan <= lists.cp(*made).makespan


@given(problems())
def test_no_order_ends_in_a_violation_and_the_most_compact_is_kept(made: Problem) -> None:
    dag = Dag(*made)
    for part in dag.parts():
        empty = Space(dag, part, SearchEffort(10**9))
        for split in islice(candidates(dag, part, SearchEffort(10**9)), 1, 6):
            trouble = min((empty.forward(split.T), empty.backward(split.T)), key=span)
            spaces = [placed(trouble, split, order) for order in ORDERS.values()]
            for space in spaces:
                blocks = sorted(space.blocks, key=lambda block: block.start)
                check_order(dag, [(b.stage, b.start, b.start + dag.runtimes[b.stage]) for b in blocks], part)
            kept = most_compact(empty, split)
            assert kept is not None
            assert kept.span == min(space.span for space in spaces)


def span(space: Space | None) -> int:
    assert space is not None
    return space.span


def placed(space: Space | None, split: Split, order: tuple[tuple[str, str], ...]) -> Space:
    """One order alone, without any limit."""
    for name, direction in order:
        assert space is not None
        stages = getattr(split, name)
        if direction == "both":
            space = min((space.forward(stages), space.backward(stages)), key=span)
        else:
            space = space.forward(stages) if direction == "forward" else space.backward(stages)
    assert space is not None
    return space


def check_order(dag: Dag, rows: list[tuple[int, int, int]], part: list[int]) -> None:
    """Every stage is there, and none starts before its parents have ended."""
    assert {stage for stage, _, _ in rows} == set(part)
    for child, start, _ in rows:
        assert all(end <= start for parent, _, end in rows if parent in dag.parents[child])


@given(problems(), st.integers(1, 60))
def test_a_limit_changes_nothing_but_what_is_thrown_away(made: Problem, limit: int) -> None:
    """So candidates may be tried in any order, or side by side."""
    dag = Dag(*made)
    for part in dag.parts():
        empty = Space(dag, part, SearchEffort(10**9))
        for split in islice(candidates(dag, part, SearchEffort(10**9)), 6):
            free, bounded = most_compact(empty, split), most_compact(empty, split, limit)
            assert free is not None
            assert (bounded is None) == (free.span >= limit)
            if bounded is not None:
                assert (bounded.span, sorted(bounded.starts)) == (free.span, sorted(part))


@given(problems())
def test_with_amounts_in_another_unit_the_plan_is_the_same(made: Problem) -> None:
    stages, runtimes, capacity, machines = made
    scaled = tuple(
        Stage(name=s.name, tasks=s.tasks, demand=tuple(3 * d for d in s.demand), parents=s.parents) for s in stages
    )
    for planner in PLANNERS.values():
        there = planner(scaled, runtimes, tuple(3 * c for c in capacity), machines)
        assert there.schedule == planner(*made).schedule


@given(problems(), st.sampled_from(WORK_CONSERVING))
def test_list_schedules_leave_nothing_idle_that_a_ready_task_fits_on(made: Problem, name: str) -> None:
    stages, _, capacity, machines = made
    rows = PLANNERS[name](*made).schedule.placements
    ends = [max(p.end for p in rows if p.stage == s) for s in range(len(stages))]
    instants = sorted({0} | {p.end for p in rows})
    for p in rows:
        ready = max((ends[parent] for parent in stages[p.stage].parents), default=0)
        for at in instants:
            if ready <= at < p.start:
                for machine in range(machines):
                    there = [stages[q.stage].demand for q in rows if q.machine == machine and q.start <= at < q.end]
                    free = [c - sum(d[r] for d in there) for r, c in enumerate(capacity)]
                    assert any(d > f for d, f in zip(stages[p.stage].demand, free, strict=True))


def in_order_one_by_one(made: Problem, ranks: list[int]) -> list[tuple[int, int, int]]:
    """List scheduling by the book: (start, stage, machine); at each end, task by task in order, machine by machine."""
    stages, runtimes, capacity, machines = made
    left, now = {s: stage.tasks for s, stage in enumerate(stages)}, 0
    running: list[tuple[int, int, int]] = []
    started: list[tuple[int, int, int]] = []
    while any(left.values()) or running:
        unfinished = {s for _, s, _ in running} | {s for s, tasks in left.items() if tasks}
        for s in sorted(left, key=lambda s: (ranks[s], s)):
            if unfinished & set(stages[s].parents):
                continue
            for machine in range(machines):
                while left[s]:
                    there = [stages[o].demand for _, o, m in running if m == machine]
                    used = [sum(d[r] for d in there) for r in range(len(capacity))]
                    if any(u + d > c for u, d, c in zip(used, stages[s].demand, capacity, strict=True)):
                        break
                    running.append((now + runtimes[s], s, machine))
                    started.append((now, s, machine))
                    left[s] -= 1
        now = min(end for end, _, _ in running)
        running = [entry for entry in running if entry[0] > now]
    return sorted(started)


@given(problems(), st.randoms(use_true_random=False))
def test_quick_list_schedules_are_those_by_the_book(made: Problem, shuffle: Random) -> None:
    ranks = list(range(len(made[0])))
    shuffle.shuffle(ranks)
    rows = lists.in_order(*made, ranks=ranks).schedule.placements
    assert [(p.start, p.stage, p.machine) for p in rows] == in_order_one_by_one(made, ranks)


@given(problems())
def test_no_plan_is_behind_a_cheap_list_schedule(made: Problem) -> None:
    plan = build_schedule(*made, budget=2000)
    assert plan.makespan <= min(
        lists.PLANNERS[name](*made).makespan for name in ("cp", "bfs", "tetris", "coffman_graham")
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
@pytest.mark.drawn(of=4)
def test_plans_of_random_dags_are_valid(first: int) -> None:
    for seed in range(first, first + examples(100)):
        made = drawn(seed, most_stages=20, most_tasks=30)
        for name, planner in PLANNERS.items():
            if name != "graphene":
                check(made, planner(*made))
        for never_behind_lists in (True, False):
            check(made, build_schedule(*made, budget=20_000, never_behind_lists=never_behind_lists))
