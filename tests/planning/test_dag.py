"""Input of planners: what is refused, totally ordered parts, and lower bounds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from schedulers.core.errors import InvalidJob, InvalidPlan
from schedulers.core.model import Stage
from schedulers.planning.dags import lists
from schedulers.planning.dags.bounds import bound
from schedulers.planning.dags.dag import Dag
from schedulers.planning.graphene.construction import build_schedule

PLANNERS = {**lists.PLANNERS, "graphene": build_schedule}


def stages(parents: Sequence[Sequence[int]], tasks: Sequence[int] | None = None) -> tuple[Stage, ...]:
    return tuple(
        Stage(name=f"s{i}", tasks=tasks[i] if tasks else 1, demand=(1,), parents=tuple(above))
        for i, above in enumerate(parents)
    )


def dag(parents: Sequence[Sequence[int]], runtimes: Sequence[int], tasks: Sequence[int], slots: int) -> Dag:
    return Dag(stages(parents, tasks), runtimes, (1,), slots)


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize(
    ("parents", "runtimes", "machines", "error", "message"),
    [
        ([[], [0]], [1, None], 1, InvalidPlan, "stage 's1' has no estimate"),
        ([[], [0]], [1], 1, InvalidPlan, "1 estimates for 2 stages"),
        ([[]], [0], 1, InvalidPlan, "stage 's0' has an estimate of 0 ms"),
        ([[]], [-3], 1, InvalidPlan, "an estimate of -3 ms"),
        ([[]], [float("nan")], 1, InvalidPlan, "an estimate of nan ms"),
        ([[]], [float("inf")], 1, InvalidPlan, "an estimate of inf ms"),
        ([[]], [1], 0, InvalidPlan, "0 machines"),
        ([[1], [0]], [1, 1], 1, InvalidJob, "form a cycle: s0, s1"),
        ([[3]], [1], 1, InvalidJob, "names parent 3"),
        ([], [], 1, InvalidJob, "has no stages"),
    ],
)
def test_bad_input_is_refused_by_every_planner(
    name: str, parents: list[list[int]], runtimes: list[float | None], machines: int, error: type, message: str
) -> None:
    assert issubclass(error, ValueError)
    with pytest.raises(error, match=message):
        PLANNERS[name](stages(parents), runtimes, (1,), machines)


@pytest.mark.parametrize("demand", [(2, 0), (1, 1)])
def test_a_demand_that_fits_no_machine_is_refused(demand: tuple[int, ...]) -> None:
    with pytest.raises(InvalidPlan, match=r"stage 'big' demands .* which fits no machine of \(1, 0\)"):
        Dag((Stage(name="big", tasks=1, demand=demand),), [1], (1, 0), 5)


def test_estimates_are_rounded_to_milliseconds_of_at_least_one() -> None:
    assert Dag(stages([[], [], []]), [0.2, 1.5, 7.4], (1,), 1).runtimes == [1, 2, 7]


@pytest.mark.parametrize(
    ("parents", "parts"),
    [
        ([[]], [[0]]),
        ([[], []], [[0, 1]]),
        ([[], [0], [1]], [[0], [1], [2]]),
        ([[], [], [0, 1], [0, 1], [2, 3]], [[0, 1], [2, 3], [4]]),
        ([[], [], [0], [1], [2, 3]], [[0, 1, 2, 3], [4]]),
        # One of the stages behind has all of the others as parents, its neighbour has not.
        ([[], [], [0, 1], [0]], [[0, 1, 2, 3]]),
        # A short way round a stage, by an edge that says nothing new.
        ([[], [0], [0, 1]], [[0], [1], [2]]),
        # Stage 1 is nobody's parent, so nothing is behind all of the others.
        ([[], [0], [0], [2]], [[0], [1, 2, 3]]),
        ([[], [], [0, 1], [1, 0], [2], [3], [4, 5], [6, 4]], [[0, 1], [2, 3, 4, 5], [6], [7]]),
    ],
)
def test_totally_ordered_parts(parents: list[list[int]], parts: list[list[int]]) -> None:
    found = dag(parents, [1] * len(parents), [1] * len(parents), 1).parts()
    assert [sorted(part) for part in found] == parts


def test_all_of_a_part_lies_before_all_of_the_next_and_no_part_can_be_cut() -> None:
    parents: list[list[int]] = [[], [], [0, 1], [0, 1], [2, 3], [4], [4], [5, 6]]
    made = dag(parents, [1] * 8, [1] * 8, 1)
    above: list[set[int]] = []
    for s in range(8):
        above.append(set(parents[s]).union(*(above[p] for p in parents[s])))
    cuts = [k for k in range(1, 8) if all(set(range(k)) <= above[s] for s in range(k, 8))]
    assert [part[0] for part in made.parts()][1:] == cuts


def test_a_stage_alone_takes_full_waves() -> None:
    made = Dag((Stage(name="s", tasks=7, demand=(2, 3)),), [10], (5, 9), 2)
    assert made.alone_ms(0) == 20  # two per machine, four at once
    assert made.work_ms([0]) == Fraction(7 * 10 * 2, 5 * 2)


def test_bounds_of_a_known_dag() -> None:
    # Graphene's example of two long tasks behind two of another shape, times and amounts times 100 and 1000.
    made = Dag(
        tuple(
            Stage(name=n, tasks=1, demand=d, parents=p)
            for n, d, p in [("p1", (55, 0), ()), ("l1", (50, 50), (0,)), ("p2", (55, 0), ()), ("l2", (50, 50), (2,))]
        ),
        [10, 1020, 10, 1000],
        (100, 100),
        1,
    )
    assert made.work_ms(range(4)) == 1021
    assert bound(made) == 1030


def test_bounds_of_parts_add_up() -> None:
    # 3 slots; work 500 / 3 in all, but nothing shares the machines with the last stage.
    parents = [[], [], [1], [], [3], [4], [0, 2, 5]]
    widths = [1, 3, 1, 3, 3, 1, 1]
    made = Dag(
        tuple(
            Stage(name=f"t{i}", tasks=1, demand=(w,), parents=tuple(p))
            for i, (w, p) in enumerate(zip(widths, parents, strict=True))
        ),
        [100, 20, 100, 20, 20, 100, 20],
        (3,),
        1,
    )
    assert bound(made) == 180


def test_waves_along_a_path_add_up() -> None:
    # Each stage takes two waves of 10 ms on 4 slots, though paths say 20 ms and the work 25 ms.
    assert bound(dag([[], [0]], [10, 10], [5, 5], 4)) == 40
