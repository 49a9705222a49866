"""Graphene's offline part: scores, splits, the four orders, the search and its end."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from schedulers.core.model import Stage
from schedulers.planning.dags import lists
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.schedule import Plan, Schedule
from schedulers.planning.graphene.construction import (
    ORDERS,
    Split,
    _thresholds,
    build_schedule,
    candidates,
    frag_scores,
    long_scores,
    most_compact,
    split_of,
    try_subset_orders,
)
from schedulers.planning.graphene.space import OutOfBudget, SearchEffort, Space

Problem = tuple[tuple[Stage, ...], list[int], tuple[int, ...], int]


def problem(
    demands: Sequence[Sequence[int]],
    runtimes: Sequence[int],
    edges: Sequence[tuple[int, int]],
    capacity: tuple[int, ...],
    machines: int = 1,
    tasks: Sequence[int] | None = None,
) -> Problem:
    stages = tuple(
        Stage(
            name=f"s{i}",
            tasks=tasks[i] if tasks else 1,
            demand=tuple(demand),
            parents=tuple(a for a, b in edges if b == i),
        )
        for i, demand in enumerate(demands)
    )
    return stages, list(runtimes), capacity, machines


#: p1 -> l1 and p2 -> l2: only both short ones first lets the long ones overlap.
PAIRS = problem([(55, 0), (50, 50), (55, 0), (50, 50)], [10, 1020, 10, 1000], [(0, 1), (2, 3)], (100, 100))
#: The paper's motivating idea as transcribed in erdos-scheduling-simulator.
ERDOS = problem(
    [(1,), (3,), (1,), (3,), (3,), (1,), (1,)],
    [100, 20, 100, 20, 20, 100, 20],
    [(1, 2), (3, 4), (4, 5), (0, 6), (2, 6), (5, 6)],
    (3,),
)
#: Three long tasks (demand 33 of 100) behind chains of short ones that fill a resource.
CHAINS = problem(
    [(70, 10, 10), (33, 33, 33), (10, 10, 10)]
    + [(70, 10, 10)] * 2
    + [(33, 33, 33), (10, 10, 10)]
    + [(70, 10, 10)] * 3
    + [(33, 33, 33), (10, 10, 10)],
    [1, 100, 8, 1, 1, 100, 6, 1, 1, 1, 100, 4],
    [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (7, 8), (8, 9), (9, 10), (10, 11)],
    (100, 100, 100),
)
#: Decima, appendix A, with one root: 5 slots, times of 0.1 s.
DECIMA = problem(
    [(1,)] * 6,
    [1, 100, 10, 1, 100, 1],
    [(0, 1), (0, 2), (2, 3), (3, 4), (4, 5), (1, 5)],
    (1,),
    5,
    [5, 1, 40, 5, 5, 5],
)
#: No other planner gets to 15.
HARD = problem([(1, 5), (6, 1), (6, 6), (9, 4), (1, 2)], [1, 5, 3, 6, 6], [(0, 3), (3, 4)], (10, 10))
#: Here it is a long stage that has to go first; the next best takes 22.
LONG = problem(
    [(4, 2), (8, 6), (3, 5), (5, 5), (7, 2), (6, 8)],
    [6, 6, 8, 1, 7, 2],
    [(1, 2), (0, 4), (1, 5), (2, 5), (3, 5)],
    (10, 10),
)
#: Scores that differ, so that there are many candidates. Without `cp` the first is not the shortest.
MANY = problem(
    [(3 * i % 7 + 1, 5 * i % 8 + 1) for i in range(14)],
    [7 * i % 29 + 1 for i in range(14)],
    [(i, i + 5) for i in range(0, 9, 2)],
    (10, 10),
)
#: Edges a-b a-c b-d c-d d-g e-f and h alone.
LETTERS = "abcdefgh"
LETTER_EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 6), (4, 5)]


@pytest.mark.parametrize(
    ("made", "lengths"),
    [
        (PAIRS, {"graphene": 1040, "cp": 2040, "tetris": 2040}),
        (ERDOS, {"graphene": 180, "bfs": 380, "cp": 180, "tetris": 180}),
        (CHAINS, {"graphene": 114, "bfs": 310, "cp": 310, "tetris": 310}),
        (DECIMA, {"graphene": 203, "cp": 283}),
    ],
    ids=["pairs", "erdos", "chains", "decima"],
)
def test_known_makespans(made: Problem, lengths: dict[str, int]) -> None:
    planners = {**lists.PLANNERS, "graphene": build_schedule}
    plans = {name: planners[name](*made) for name in lengths}
    for plan in plans.values():
        plan.schedule.check(*made)
    assert {name: plan.makespan for name, plan in plans.items()} == lengths


def test_the_search_alone_finds_them_too() -> None:
    for made, best in ((PAIRS, 1040), (ERDOS, 180), (CHAINS, 114), (DECIMA, 203)):
        plan = build_schedule(*made, never_behind_lists=False)
        plan.schedule.check(*made)
        assert (plan.makespan, plan.fallback) == (best, "")


def test_the_papers_order_of_the_pairs() -> None:
    order = [stage for stage, _ in build_schedule(*PAIRS).order]
    assert sorted(order[:2]) == [0, 2]
    assert sorted(order[2:]) == [1, 3]


@pytest.mark.parametrize(
    ("chosen", "trouble", "above", "below", "rest"),
    [
        ("bd", "bd", "ac", "g", "efh"),
        ("ad", "abcd", "", "g", "efh"),
        ("e", "e", "", "f", "abcdgh"),
        ("ag", "abcdg", "", "", "efh"),
        ("h", "h", "", "", "abcdefg"),
    ],
)
def test_known_splits(chosen: str, trouble: str, above: str, below: str, rest: str) -> None:
    dag = Dag(*problem([(1,)] * 8, [1] * 8, LETTER_EDGES, (1,)))
    split = split_of(dag, dag.order, [LETTERS.index(letter) for letter in chosen])
    named = {name: "".join(LETTERS[s] for s in sorted(getattr(split, name))) for name in "TPCS"}
    assert named == {"T": trouble, "P": above, "C": below, "S": rest}


def test_scores() -> None:
    dag = Dag(*CHAINS)
    part = dag.order
    assert {long_scores(dag, part)[s] for s in (1, 5, 10)} == {Fraction(1)}
    assert long_scores(dag, part)[2] == Fraction(8, 100)
    # One task alone runs in its run time, so its score is its largest demand by the capacity.
    assert [frag_scores(dag, part)[s] for s in (0, 1, 2)] == [Fraction(7, 10), Fraction(33, 100), Fraction(1, 10)]


def test_frag_score_of_a_stage_that_leaves_holes() -> None:
    # 7 tasks, 2 per machine because of the second resource: two waves of 10 ms on 2 machines.
    dag = Dag(*problem([(2, 4)], [10], [], (5, 9), 2, [7]))
    assert frag_scores(dag, [0])[0] == Fraction(7 * 10 * 4, 9 * 2) / 20


def test_every_candidate_is_a_partition_and_none_comes_twice() -> None:
    dag = Dag(*CHAINS)
    found = list(candidates(dag, dag.order, SearchEffort(10**6)))
    assert not found[0].T
    assert len({split.T for split in found}) == len(found) > 3
    for split in found:
        assert sorted([*split.T, *split.S, *split.P, *split.C]) == list(range(12))


def test_a_set_that_is_too_large_is_no_candidate() -> None:
    dag = Dag(*problem([(1,)] * 3, [5, 5, 5], [], (2,)))
    assert [split.T for split in candidates(dag, dag.order, SearchEffort(10**6))] == [frozenset()]


def test_thresholds_are_all_pairs_of_scores_coarse_ones_first() -> None:
    long, frag = [Fraction(n, 4) for n in (4, 3, 2, 1)], [Fraction(1, 2), Fraction(1)]
    found = list(_thresholds(long, frag))
    assert len(found) == len(set(found)) == 5 * 3 - 1
    assert found[:3] == [(None, Fraction(1, 2)), (1, None), (1, Fraction(1, 2))]


def test_no_order_violates_a_dependency() -> None:
    """Each of the four alone, on every candidate."""
    dag = Dag(*CHAINS)
    for split in candidates(dag, dag.order, SearchEffort(10**6)):
        for name, order in ORDERS.items():
            space: Space | None = Space(dag, dag.order, SearchEffort(10**9)).forward(split.T)
            for part, direction in order:
                assert space is not None
                place = space.backward if direction == "backward" else space.forward
                space = place(getattr(split, part))
            assert space is not None, name
            Schedule.of_blocks(space.blocks, dag.runtimes).check(*CHAINS)


def test_the_most_compact_order_is_kept() -> None:
    # Placed around the hard stage 1 (one task of 100), the map waves of stage 2 fill the other four slots.
    dag = Dag(*DECIMA)
    split = split_of(dag, dag.order, [1])
    assert [sorted(part) for part in (split.S, split.P, split.C)] == [[2, 3, 4], [0], [5]]
    space = most_compact(Space(dag, dag.order, SearchEffort(10**6)), split)
    assert space is not None
    assert space.span == 203


def test_a_limit_changes_nothing_but_what_is_thrown_away() -> None:
    dag = Dag(*CHAINS)
    for split in candidates(dag, dag.order, SearchEffort(10**6)):
        free = most_compact(Space(dag, dag.order, SearchEffort(10**6)), split)
        assert free is not None
        assert most_compact(Space(dag, dag.order, SearchEffort(10**6)), split, free.span) is None
        bounded = most_compact(Space(dag, dag.order, SearchEffort(10**6)), split, free.span + 1)
        assert bounded is not None
        assert bounded.blocks == free.blocks


def test_all_tasks_troublesome_leaves_nothing_to_order() -> None:
    dag = Dag(*ERDOS)
    everything = Split(T=frozenset(range(7)), S=frozenset(), P=frozenset(), C=frozenset())
    space = Space(dag, dag.order, SearchEffort(10**6)).forward(everything.T)
    assert space is not None
    assert try_subset_orders(space, everything) is space


def test_a_chain_needs_no_search() -> None:
    plan = build_schedule(*problem([(1,)] * 3, [5, 6, 7], [(0, 1), (1, 2)], (2,), 2, [3, 9, 5]))
    assert (plan.ended, plan.work, plan.fallback) == ("bypass", 0, "cp")
    assert plan.makespan == plan.bound == 5 + 3 * 6 + 2 * 7


def test_a_plan_as_short_as_its_bound_ends_the_search() -> None:
    plan = build_schedule(*DECIMA, never_behind_lists=False)
    assert (plan.ended, plan.makespan) == ("bound", plan.bound)
    assert plan.work < 1000


def test_no_search_is_needed_where_a_cheap_list_schedule_is_as_short_as_the_bound() -> None:
    plan = build_schedule(*DECIMA)
    assert (plan.ended, plan.makespan, plan.work) == ("bypass", plan.bound, 0)


def test_with_its_literal_root_decimas_example_is_planned_as_breadth_first_does_it() -> None:
    """Decima (SIGCOMM'19), appendix A, with the edge from the root as it is printed: 204 is the optimum."""
    edges = [(0, 2), (1, 3), (3, 4), (4, 5), (5, 6), (2, 6)]
    made = problem([(1,)] * 7, [1, 1, 100, 10, 1, 100, 1], edges, (5,), 1, [5, 5, 1, 40, 5, 5, 5])
    assert build_schedule(*made, never_behind_lists=False).makespan == 205
    plan = build_schedule(*made)
    plan.schedule.check(*made)
    assert (plan.makespan, plan.fallback) == (204, "bfs, cp")


def test_a_budget_ends_the_search_with_a_valid_plan() -> None:
    listed = lists.coffman_graham(*CHAINS).makespan
    for budget in range(0, 900, 50):
        plan = build_schedule(*CHAINS, budget=budget)
        plan.schedule.check(*CHAINS)
        assert (plan.ended == "budget") == (budget < 750), plan.work
        assert (plan.fallback == "coffman_graham") == (plan.makespan == listed)
        assert plan.work <= budget + 200


@pytest.mark.parametrize("candidates", [0, 1, 3])
def test_a_search_that_is_told_to_stop_ends_with_the_best_so_far(candidates: int) -> None:
    asked = iter([False] * candidates)
    plan = build_schedule(*MANY, never_behind_lists=False, stop=lambda: next(asked, True))
    plan.schedule.check(*MANY)
    assert plan.ended == "stop"
    assert plan.fallback == ("cp" if candidates == 0 else "")


@pytest.mark.parametrize(("never_behind_lists", "planner"), [(True, "coffman_graham"), (False, "cp")])
def test_without_any_budget_the_plan_is_the_fallback(never_behind_lists: bool, planner: str) -> None:
    plan = build_schedule(*CHAINS, budget=0, never_behind_lists=never_behind_lists)
    assert plan.schedule == lists.PLANNERS[planner](*CHAINS).schedule
    assert (plan.ended, plan.fallback, plan.troublesome) == ("budget", planner, ())


@pytest.mark.parametrize(
    ("made", "makespan", "troublesome", "thresholds"),
    [(HARD, 15, (4,), (None, 0.2)), (LONG, 21, (2,), (1.0, None))],
    ids=["hard to pack", "long"],
)
def test_a_plan_tells_what_was_troublesome(
    made: Problem, makespan: int, troublesome: tuple[int, ...], thresholds: tuple[float | None, float | None]
) -> None:
    plan = build_schedule(*made)
    plan.schedule.check(*made)
    assert plan.makespan < min(planner(*made).makespan for planner in lists.PLANNERS.values())
    assert (plan.makespan, plan.troublesome, plan.thresholds) == (makespan, troublesome, (thresholds,))
    assert (plan.ended, plan.fallback) == ("all", "")


def test_the_same_input_gives_the_same_plan() -> None:
    assert build_schedule(*HARD) == build_schedule(*HARD)


def test_no_more_work_is_told_than_the_budget() -> None:
    for budget in range(0, 20_000, 1000):
        assert build_schedule(*MANY, budget=budget, never_behind_lists=False).work <= budget


def test_a_budget_of_the_whole_work_is_just_enough() -> None:
    whole = build_schedule(*MANY).work
    assert build_schedule(*MANY, budget=whole).ended == "all"
    assert build_schedule(*MANY, budget=whole - 1).ended == "budget"


def test_work_spent_beyond_what_is_allowed_is_told() -> None:
    work = SearchEffort(5)
    work.spend(5)
    with pytest.raises(OutOfBudget):
        work.spend(1)


def test_order_is_topological_and_scores_fall() -> None:
    plan = build_schedule(*DECIMA)
    position = {task: rank for rank, task in enumerate(plan.order)}
    for index, stage in enumerate(DECIMA[0]):
        for parent in stage.parents:
            last = max(position[parent, task] for task in range(DECIMA[0][parent].tasks))
            assert last < position[index, 0]
    for scores in plan.scores():
        assert all(a > b for a, b in pairwise(scores))
    assert plan.scores()[0][0] == 1.0
    assert plan.scores()[5][-1] == pytest.approx(1 / 61)


def test_the_example_of_the_docs_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "planning.md"
    example = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(example, names)  # our own page
    plan = names["plan"]
    assert isinstance(plan, Plan)
    assert plan.makespan == plan.bound == 200_000
