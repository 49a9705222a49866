"""Planners of DAGs on unlike machines: known answers, and HEFT and DEFT beside slow versions by the book."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.errors import InvalidPlan
from schedulers.planning.unrelated import exact, tds
from schedulers.planning.unrelated.cpop import critical_machine, critical_path
from schedulers.planning.unrelated.deft import ORDERS, choose, deft
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.planners import PLANNERS
from schedulers.planning.unrelated.ranks import ranks_down, ranks_up
from schedulers.planning.unrelated.timelines import TimelinePlacement, TimelinePlan, Timelines

Rows = list[tuple[Fraction, Fraction, int, int]]
#: Topcuoglu, Hariri, Wu 2002, figure 2 and table 1.
CANONICAL = Instance(
    [
        [14, 16, 9],
        [13, 19, 18],
        [11, 13, 19],
        [13, 8, 17],
        [12, 13, 10],
        [13, 16, 9],
        [7, 15, 11],
        [5, 11, 14],
        [18, 12, 20],
        [21, 7, 16],
    ],
    [
        (0, 1, 18),
        (0, 2, 12),
        (0, 3, 9),
        (0, 4, 11),
        (0, 5, 14),
        (1, 7, 19),
        (1, 8, 16),
        (2, 6, 23),
        (3, 7, 27),
        (3, 8, 23),
        (4, 8, 13),
        (5, 7, 15),
        (6, 9, 17),
        (7, 9, 11),
        (8, 9, 13),
    ],
    1.0,
)


@st.composite
def instances(draw: st.DrawFn, *, transfers: bool = True, equal: bool = False, most_tasks: int = 9) -> Instance:
    """Small ones of whole numbers, with all rates alike or a power of two for each pair, so that floats are exact."""
    tasks, machines = draw(st.integers(1, most_tasks)), draw(st.integers(1, 4))
    time = st.integers(1, 12)
    times = [[draw(time)] * machines if equal else [draw(time) for _ in range(machines)] for _ in range(tasks)]
    data = st.integers(0, 15) if transfers else st.just(0)
    edges = [
        (parent, child, draw(data))
        for child in range(1, tasks)
        for parent in sorted(draw(st.sets(st.integers(0, child - 1), max_size=3)))
    ]
    rate = st.sampled_from([0.5, 1.0, 2.0])
    rates = draw(rate) if draw(st.booleans()) else [[draw(rate) for _ in range(machines)] for _ in range(machines)]
    return Instance(times, edges, rates)


# -- By the book --------------------------------------------------------------------------------------------------


def transfer(made: Instance, data: float, one: int, other: int) -> Fraction:
    return Fraction(0) if one == other else Fraction(data) / Fraction(float(made.rates[one, other]))


def slow_ranks(made: Instance) -> list[Fraction]:
    """Recursively, in exact fractions."""
    pairs = [(a, b) for a in range(made.machines) for b in range(made.machines) if a != b]
    rate = sum((Fraction(float(made.rates[pair])) for pair in pairs), Fraction(0)) / len(pairs) if pairs else None

    def rank(task: int) -> Fraction:
        mean = sum((Fraction(float(x)) for x in made.times[task]), Fraction(0)) / made.machines
        below = [(Fraction(data) / rate if rate else 0) + rank(child) for child, data in made.children[task]]
        return mean + max(below, default=Fraction(0))

    return [rank(task) for task in range(made.tasks)]


def slow_start(rows: Rows, machine: int, ready: Fraction, time: Fraction) -> Fraction:
    """The first of all instants that come into question at which nothing runs there for long enough."""
    busy = [(start, end) for start, end, _, there in rows if there == machine]
    for at in sorted({ready, *(end for _, end in busy if end >= ready)}):
        if all(end <= at or start >= at + time for start, end in busy):
            return at
    raise AssertionError


def slow_heft(made: Instance) -> Rows:
    ranks = slow_ranks(made)
    rows: Rows = []
    for task in sorted(range(made.tasks), key=lambda task: (-ranks[task], task)):
        options = []
        for machine in range(made.machines):
            ready = max(
                (
                    end + transfer(made, data, there, machine)
                    for parent, data in made.parents[task]
                    for _, end, placed, there in rows
                    if placed == parent
                ),
                default=Fraction(0),
            )
            time = Fraction(float(made.times[task, machine]))
            start = slow_start(rows, machine, ready, time)
            options.append((start + time, machine, start))
        end, machine, start = min(options)
        rows.append((start, end, task, machine))
    return rows


def rows_of(plan: TimelinePlan) -> Rows:
    return [(Fraction(p.start), Fraction(p.end), p.task, p.machine) for p in plan.placements]


@given(instances())
def test_heft_is_the_one_by_the_book(made: Instance) -> None:
    assert rows_of(PLANNERS["heft"](made)) == slow_heft(made)


def arrival(made: Instance, rows: Rows, parent: int, data: float, machine: int) -> Fraction:
    """Equation 9."""
    return min(end + transfer(made, data, there, machine) for _, end, task, there in rows if task == parent)


def slow_finish(made: Instance, rows: Rows, task: int, machine: int, find: Callable[..., Fraction]) -> Fraction:
    """Equation 3. find: when a machine has room."""
    ready = max((arrival(made, rows, p, data, machine) for p, data in made.parents[task]), default=Fraction(0))
    time = Fraction(float(made.times[task, machine]))
    return find(rows, machine, ready, time) + time


def append(rows: Rows, machine: int, ready: Fraction, time: Fraction) -> Fraction:
    return max([ready, *(end for _, end, _, there in rows if there == machine)])


@pytest.mark.parametrize("insertion", [False, True])
@given(made=instances(), order=st.sampled_from(sorted(ORDERS)))
def test_each_choice_of_deft_is_the_least_of_all_that_equation_11_allows(
    insertion: bool, made: Instance, order: str
) -> None:
    find = slow_start if insertion else append
    lines, rows = Timelines(made), Rows()
    for task in made.by_priority(ORDERS[order](made)):
        plain = [slow_finish(made, rows, task, machine, find) for machine in range(made.machines)]
        copied = []
        for machine in range(made.machines):
            for parent, _ in made.parents[task]:
                if not lines.runs_on(parent, machine):
                    end = slow_finish(made, rows, parent, machine, find)
                    time = Fraction(float(made.times[parent, machine]))
                    copied.append(slow_finish(made, [*rows, (end - time, end, parent, machine)], task, machine, find))
        choice = choose(lines, task, insertion=insertion)
        assert Fraction(choice.end) == min([*plain, *copied])
        assert (choice.parent is None) == (min(plain) == Fraction(choice.end))
        if choice.parent is not None:
            lines.place(choice.parent, choice.machine, choice.copy_start)
        lines.place(task, choice.machine, choice.start)
        rows = rows_of(TimelinePlan(tuple(lines.placements)))


@given(instances(transfers=False, equal=True))
def test_without_transfers_and_with_equal_machines_deft_is_eft(made: Instance) -> None:
    lines = Timelines(made)
    for task in made.by_priority(ranks_up(made)):
        _, machine, start = lines.soonest(lines.ready(task), made.times[task], insertion=False)
        lines.place(task, machine, start)
    assert deft(made, ranks_up(made)) == lines.plan()


@given(instances(transfers=False, equal=True))
def test_without_transfers_and_with_equal_machines_deft_with_insertion_is_heft(made: Instance) -> None:
    assert deft(made, ranks_up(made), insertion=True) == PLANNERS["heft"](made)


# -- Known answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planner", "makespan"), [("heft", 80), ("cpop", 86), ("dls", 91), ("etf", 93), ("peft", 85), ("deft", 73)]
)
def test_makespans_of_the_canonical_dag(planner: str, makespan: float) -> None:
    assert PLANNERS[planner](CANONICAL).makespan == makespan


def test_heft_schedules_the_canonical_dag_as_printed() -> None:
    placed = {p.task: (p.machine, p.start, p.end) for p in PLANNERS["heft"](CANONICAL).placements}
    assert placed[7] == (0, 57, 62)
    assert placed[9] == (1, 73, 80)


def test_critical_path_and_its_machine_of_the_canonical_dag() -> None:
    assert (critical_path(CANONICAL), critical_machine(CANONICAL)) == ([0, 1, 8, 9], 1)


def test_lachesis_takes_the_mean_of_speeds_and_heft_that_of_times() -> None:
    speeds = np.array([1.0, 2, 3, 4])
    made = Instance(np.array([[24.0], [36]]) / speeds, [(0, 1, 10)], 1.0)
    assert ranks_up(made, "speeds") == pytest.approx([9.6 + 10 + 14.4, 14.4])
    assert ranks_up(made, "times") == pytest.approx([12.5 + 10 + 18.75, 18.75])
    assert ranks_down(made, "speeds") == pytest.approx([0, 19.6])


def test_the_mean_rate_leaves_out_links_that_take_no_time() -> None:
    made = Instance([[1, 1, 1]], rates=[[0, 2, math.inf], [4, 0, math.inf], [math.inf, math.inf, 0]])
    assert made.mean_rate == 3


@pytest.mark.parametrize("planner", sorted(PLANNERS))
def test_nothing_starts_on_a_machine_that_is_busy(planner: str) -> None:
    made = Instance([[4, 8], [4, 8], [1, 1]], [(0, 2, 1), (1, 2, 1)], 1.0, [9, 3])
    assert all(p.start >= made.busy[p.machine] for p in PLANNERS[planner](made).placements)


def test_an_idle_stretch_before_a_late_task_is_used_by_insertion_only() -> None:
    """Machine 1 waits until 10 for task 1: task 2 takes its 5 before, or ends at 25 behind."""
    made = Instance([[10, 100], [100, 10], [100, 5]], [(0, 1, 0)], 1.0)
    assert {name: PLANNERS[name](made).makespan for name in ("deft", "deft_insertion", "heft_copies", "heft")} == {
        "deft": 25,
        "deft_insertion": 20,
        "heft_copies": 20,
        "heft": 20,
    }


def test_one_copy_of_the_root_on_each_machine() -> None:
    made = Instance([[4] * 3, [6] * 3, [6] * 3, [6] * 3], [(0, 1, 20), (0, 2, 20), (0, 3, 20)], 1.0)
    planners = ("heft", "deft", "deft_insertion", "heft_copies", "tds", "dfrn", "tdca")
    assert {name: PLANNERS[name](made).makespan for name in planners} == {
        "heft": 22,
        "deft": 10,
        "deft_insertion": 10,
        "heft_copies": 10,
        "tds": 10,
        "dfrn": 10,
        "tdca": 10,
    }


def test_dfrn_is_optimal_on_trees_with_enough_machines() -> None:
    made = Instance([[2] * 9, [3] * 9, [4] * 9, [5] * 9, [1] * 9], [(0, 1, 9), (0, 2, 9), (1, 3, 9), (1, 4, 9)], 1.0)
    assert PLANNERS["dfrn"](made).makespan == 10


def test_tds_of_a_join_that_meets_its_condition_ends_with_the_earliest_completion_of_the_exit() -> None:
    edges = [(0, 1, 2), (0, 2, 3), (1, 3, 3), (2, 3, 1), (2, 4, 3), (3, 5, 2), (4, 5, 4), (5, 6, 1), (1, 6, 2)]
    made = Instance([[w] * 7 for w in (3, 4, 5, 4, 6, 5, 3)], edges, 1.0)
    found = tds.times(made)
    assert found.ect[6] == PLANNERS["tds"](made).makespan == 23
    assert found.fpred == [None, 0, 0, 1, 2, 4, 5]


def test_equal_ranks_go_to_the_lowest_task_whatever_floats_make_of_their_means() -> None:
    made = Instance([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2], [0.2, 0.3, 0.1]])
    assert len(set(ranks_up(made))) == 2  # 0.2 and the next float
    assert list(made.by_priority(ranks_up(made))) == [0, 1, 2]


def test_a_task_of_no_time_comes_behind_its_parent_of_no_time_and_higher_number() -> None:
    made = Instance([[0], [0]], [(1, 0, 0)])
    assert [p.task for p in PLANNERS["heft"](made).placements] == [1, 0]


def test_a_task_that_anybody_finished_is_finished() -> None:
    plan = TimelinePlan((TimelinePlacement(0, 0, 0, 10), TimelinePlacement(0, 1, 0, 4, copy=True)))
    assert (plan.makespan, plan.copies) == (4, 1)


def test_a_plan_without_one_of_its_tasks_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="task 0 has not been placed"):
        Timelines(Instance([[1]])).plan()


# -- Bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([[1, math.nan]],), r"the time of task 0 on machine 1 is nan \(a finite number, 0 or more\)"),
        (([[1, 2], [1, -3]],), "the time of task 1 on machine 1 is -3.0"),
        (([[1, 2], [1]],), "times are no matrix of numbers"),
        (([1, 2],), r"times of shape \(2,\)"),
        (([[1, 2]], [(0, 1, 3)]), r"an edge 0 -> 1 leads to task 1 \(there are 0 to 0\)"),
        (([[1], [1]], [(0, 1, 3), (0, 1, 4)]), "the edge 0 -> 1 is given twice"),
        (([[1], [1]], [(0, 1, -3)]), "the edge 0 -> 1 moves -3"),
        (([[1], [1]], [(0, 1, math.nan)]), "the edge 0 -> 1 moves nan"),
        (([[1], [1]], [(0, 1, 1), (1, 0, 1)]), "task 0 waits for itself: the edges form a cycle"),
        (([[1, 1]], [], 0), r"the rate from machine 0 to machine 1 is 0.0 \(a number above 0\)"),
        (([[1, 1]], [], [[0, 1], [math.nan, 0]]), "the rate from machine 1 to machine 0 is nan"),
        (([[1, 1]], [], [1, 2, 3]), r"rates of shape \(3,\) for 2 machines"),
        (([[1, 1]], [], "fast"), "rates are neither a number nor a matrix"),
    ],
)
def test_what_is_no_instance_is_refused(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        Instance(*given)


# -- The shortest of all --------------------------------------------------------------------------------------------


@given(instances(most_tasks=5))
def test_no_planner_is_ahead_of_the_optimum_and_copies_do_not_lengthen_it(made: Instance) -> None:
    alone, copied = exact.shortest_makespan(made), exact.shortest_makespan(made, copies=True)
    if alone is not None and copied is not None:
        assert copied <= alone
        assert all(plan(made).makespan >= copied for plan in PLANNERS.values())
        assert all(PLANNERS[name](made).makespan >= alone for name in ("heft", "cpop", "dls", "peft", "etf"))


def test_the_optimum_of_the_canonical_dag() -> None:
    assert exact.shortest_makespan(CANONICAL) == 73


def test_a_search_that_its_budget_ends_says_nothing() -> None:
    assert exact.shortest_makespan(CANONICAL, budget=10) is None


def test_too_many_tasks_to_try_all_are_refused() -> None:
    with pytest.raises(InvalidPlan, match="13 tasks are too many"):
        exact.shortest_makespan(Instance([[1]] * 13))
