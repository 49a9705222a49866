"""List and shelf planners on small DAGs with known answers, and their sizes."""

from __future__ import annotations

import time

import pytest

from rm_emulator.known_answers.exact import shortest_makespan
from schedulers.core import keyed
from schedulers.core.errors import InvalidPlan
from schedulers.core.model import Stage
from schedulers.planning.dags import lists
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.shelves import packed, stacked
from schedulers.planning.graphene.construction import build_schedule
from tests.examples import examples


def unit(parents: list[list[int]]) -> tuple[Stage, ...]:
    return tuple(Stage(name=f"s{i}", tasks=1, demand=(1,), parents=tuple(p)) for i, p in enumerate(parents))


def test_labels_look_through_edges_that_say_nothing_new() -> None:
    # 0 -> 2 -> 3, 1 -> 2 and the short way 0 -> 3, with which 0 would have the list [2, 1] and come behind 1.
    stages = unit([[], [], [0, 1], [0, 2]])
    assert lists.labels(Dag(stages, [1] * 4, (1,), 2)) == [3, 4, 2, 1]


@pytest.mark.parametrize(
    ("planner", "first"), [(lists.bfs, 0), (lists.cp, 1), (lists.tetris, 2), (lists.coffman_graham, 1)]
)
def test_what_goes_first(planner: lists.Planner, first: int) -> None:
    # All roots; 1 has a child, 2 is the largest.
    stages = (
        Stage(name="a", tasks=1, demand=(2, 2)),
        Stage(name="b", tasks=1, demand=(2, 1)),
        Stage(name="c", tasks=1, demand=(2, 3)),
        Stage(name="d", tasks=1, demand=(1, 1), parents=(1,)),
    )
    assert planner(stages, [5, 5, 5, 5], (3, 3), 1).order[0][0] == first


def test_a_random_order_is_that_of_its_seed() -> None:
    stages = unit([[]] * 8)
    orders = [lists.random(stages, [1] * 8, (1,), 1, seed=seed).order for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_a_stage_of_many_tasks_spreads_over_machines() -> None:
    stages = (Stage(name="s", tasks=7, demand=(2,)),)
    for name, planner in lists.PLANNERS.items():
        plan = planner(stages, [10], (5,), 2)
        assert plan.makespan == 20, name


def test_shelves_next_fit_and_first_fit() -> None:
    widths, runtimes = [5, 6, 3, 4, 2, 5], [6, 5, 5, 4, 3, 2]
    stages = tuple(Stage(name=f"i{i}", tasks=1, demand=(w,)) for i, w in enumerate(widths))
    dag = Dag(stages, runtimes, (10,), 1)
    for first_fit, height in ((False, 17), (True, 13)):
        shelves = packed(dag, range(6), first_fit=first_fit)
        assert sum(shelf.height for shelf in shelves) == height
        assert max(b.start + runtimes[b.stage] for b in stacked(shelves)) == height


def test_optima_of_large_dags_are_not_searched_for() -> None:
    with pytest.raises(InvalidPlan, match="15 tasks are too many to try all"):
        shortest_makespan((Stage(name="s", tasks=15, demand=(1,)),), [1], (1,), 2)


def wide(stages: int, tasks: int) -> tuple[tuple[Stage, ...], list[int], tuple[int, int], int]:
    """Layers of ten stages, each with parents in the layer above, demands of many sizes."""
    draw = keyed.generator(1, "wide", stages)
    made = tuple(
        Stage(
            name=f"s{i}",
            tasks=tasks,
            demand=(int(draw.integers(100, 4000)), int(draw.integers(100, 16000))),
            parents=tuple(sorted({int(p) for p in draw.integers(i - i % 10 - 10, i - i % 10, 2)})) if i >= 10 else (),
        )
        for i in range(stages)
    )
    return made, [int(x) for x in draw.integers(1000, 100_000, stages)], (16_000, 65_536), 100


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "tasks"), [(100, 100), (10_000, 1), (1000, 100), (examples(100_000), 1)])
@pytest.mark.drawn(of=4)
def test_large_dags_end_by_their_budget(stages: int, tasks: int) -> None:
    made = wide(stages, tasks)
    begun = time.process_time()
    plan = build_schedule(*made, budget=500_000)
    taken = time.process_time() - begun
    plan.schedule.check(*made)
    assert plan.work <= 500_000 + stages * tasks
    # Some seconds; the bound only tells what grows with the square of the tasks.
    assert taken < 120
