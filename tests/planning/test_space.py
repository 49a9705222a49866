"""The resource-time space: stages placed in bulk land where their tasks would one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedulers.core import keyed
from schedulers.core.model import Stage
from schedulers.planning.dags.dag import Dag
from schedulers.planning.dags.schedule import Schedule
from schedulers.planning.graphene.space import SearchEffort, Space, _cut, _mirror

EVER = -(1 << 80)


def space(dag: Dag) -> Space:
    return Space(dag, dag.order, SearchEffort(10**9))


def starts(found: Space | None) -> dict[int, list[int]]:
    """When the tasks of each stage start."""
    assert found is not None
    made: dict[int, list[int]] = {}
    for block in found.blocks:
        made.setdefault(block.stage, []).extend([block.start] * block.each * len(block.machines))
    return {stage: sorted(there) for stage, there in sorted(made.items())}


def dag(*stages: tuple[int, tuple[int, ...], int, tuple[int, ...]], capacity: tuple[int, ...], machines: int) -> Dag:
    """Stages of (tasks, demand, run time, parents)."""
    made = tuple(Stage(name=f"s{i}", tasks=n, demand=d, parents=p) for i, (n, d, _, p) in enumerate(stages))
    return Dag(made, [ms for *_, ms, _ in stages], capacity, machines)


def test_a_task_needs_room_to_its_end() -> None:
    # Two long tasks leave a hole of 10 ms, too short for 11 ms, wide enough for 10 ms.
    made = dag(
        (1, (4,), 10, ()), (1, (1,), 10, (0,)), (1, (4,), 20, (1,)), (1, (2,), 11, ()), (1, (2,), 10, ()),
        capacity=(4,), machines=1,
    )  # fmt: skip
    placed = space(made).forward([0, 1, 2])
    assert placed is not None
    assert starts(placed.forward([3]))[3] == [40]
    assert starts(placed.forward([4]))[4] == [10]


def test_backward_runs_into_negative_time_and_ends_at_the_children() -> None:
    made = dag((3, (2,), 5, ()), (1, (4,), 10, (0,)), capacity=(4,), machines=1)
    placed = space(made).forward([1])
    assert placed is not None
    assert starts(placed.backward([0])) == {0: [-10, -5, -5], 1: [0]}


def test_without_placed_parents_a_stage_starts_with_the_space() -> None:
    made = dag((1, (4,), 10, ()), (1, (4,), 10, (0,)), (1, (1,), 3, ()), capacity=(5,), machines=1)
    placed = space(made).forward([1])
    assert placed is not None
    placed = placed.backward([0])
    assert placed is not None
    assert starts(placed.forward([2]))[2] == [-10]
    assert starts(placed.backward([2]))[2] == [7]


def test_a_span_at_the_limit_is_given_up() -> None:
    made = dag((3, (1,), 5, ()), capacity=(1,), machines=1)
    assert space(made).forward([0], 15) is None
    assert space(made).backward([0], 15) is None
    assert starts(space(made).forward([0], 16)) == {0: [0, 5, 10]}


def test_the_span_counts_what_must_still_come_before_and_behind() -> None:
    # Stage 1 alone takes 10 ms; its parent needs two waves of 5 ms before it, its child 4 ms behind it.
    made = dag((3, (2,), 5, ()), (1, (4,), 10, (0,)), (1, (1,), 4, (1,)), capacity=(4,), machines=1)
    assert space(made).span == 0
    placed = space(made).forward([1])
    assert placed is not None
    assert placed.span == 24
    assert space(made).forward([1], 24) is None
    assert space(made).backward([1], 24) is None
    for more in (placed.forward([2]), placed.backward([0])):
        assert more is not None
        assert more.span == 24


def test_longest_first_ties_to_the_lowest_index() -> None:
    made = dag((1, (1,), 5, ()), (1, (1,), 7, ()), (1, (1,), 5, ()), capacity=(1,), machines=1)
    assert starts(space(made).forward([0, 1, 2])) == {0: [7], 1: [0], 2: [12]}


def test_cut_and_mirror() -> None:
    empty = ((EVER,), ((4, 4),))
    once = _cut(empty, 0, 10, (1, 2))
    assert once == ((EVER, 0, 10), ((4, 4), (3, 2), (4, 4)))
    # The same amount right behind or right before makes the stretch longer.
    assert _cut(once, 10, 12, (1, 2)) == ((EVER, 0, 12), ((4, 4), (3, 2), (4, 4)))
    assert _cut(once, -3, 0, (1, 2)) == ((EVER, -3, 10), ((4, 4), (3, 2), (4, 4)))
    assert _cut(once, 5, 12, (1, 0)) == ((EVER, 0, 5, 10, 12), ((4, 4), (3, 2), (2, 2), (3, 4), (4, 4)))
    assert _cut(once, 2, 4, (3, 2)) == ((EVER, 0, 2, 4, 10), ((4, 4), (3, 2), (0, 0), (3, 2), (4, 4)))
    assert _mirror(_cut(once, 20, 21, (1, 1))) == (
        (EVER, -21, -20, -10, 0),
        ((4, 4), (3, 3), (4, 4), (3, 2), (4, 4)),
    )


# -- One by one -----------------------------------------------------------------------------------------------------


def one_by_one(made: Dag, subsets: Sequence[Sequence[int]]) -> dict[int, list[int]]:
    """PlaceTasksF task by task: every start from `ready` on is tried on every machine, millisecond by millisecond."""
    used: dict[tuple[int, int], list[int]] = {}
    placed: dict[int, list[int]] = {}
    for subset in subsets:
        first = min((min(there) for there in placed.values()), default=0)
        left = set(subset)
        while left:
            ready = [s for s in left if not left & set(made.parents[s])]
            stage = min(ready, key=lambda s: (-made.runtimes[s], s))
            left.remove(stage)
            ends = [max(placed[p]) + made.runtimes[p] for p in made.parents[stage] if p in placed]
            after = max(ends, default=first)
            placed[stage] = [put_one(made, stage, after, used) for _ in range(made.stages[stage].tasks)]
    return {stage: sorted(there) for stage, there in sorted(placed.items())}


def put_one(made: Dag, stage: int, after: int, used: dict[tuple[int, int], list[int]]) -> int:
    demand, runtime = made.stages[stage].demand, made.runtimes[stage]
    start = after
    while True:
        for machine in range(made.machines):
            there = [used.setdefault((machine, at), [0] * len(made.capacity)) for at in range(start, start + runtime)]
            if all(u + d <= c for amounts in there for u, d, c in zip(amounts, demand, made.capacity, strict=True)):
                for amounts in there:
                    for r, d in enumerate(demand):
                        amounts[r] += d
                return start
        start += 1


def drawn(seed: int) -> Dag:
    """A small DAG with stages of several tasks."""
    draw = keyed.generator(seed, "space")
    count, machines = int(draw.integers(1, 7)), int(draw.integers(1, 4))
    stages = [
        (
            int(draw.integers(1, 9)),
            (int(draw.integers(0, 7)), int(draw.integers(1, 7))),
            int(draw.integers(1, 12)),
            tuple(p for p in range(s) if draw.random() < 0.3),
        )
        for s in range(count)
    ]
    return dag(*stages, capacity=(8, 7), machines=machines)


@pytest.mark.parametrize("seed", range(60))
def test_bulk_placement_is_placement_one_by_one(seed: int) -> None:
    made = drawn(seed)
    half = len(made) // 2
    subsets = [list(range(half)), list(range(half, len(made)))]
    bulk: Space | None = space(made)
    for subset in subsets:
        assert bulk is not None
        bulk = bulk.forward(subset)
    assert starts(bulk) == one_by_one(made, subsets)


@pytest.mark.parametrize("seed", range(60))
def test_backward_is_forward_in_a_mirror(seed: int) -> None:
    made = drawn(seed)
    turned = tuple(
        Stage(name=f"s{s}", tasks=stage.tasks, demand=stage.demand, parents=tuple(made.children[s]))
        for s, stage in enumerate(made.stages)
    )
    mirror = Dag(turned, made.runtimes, made.capacity, made.machines)
    backward, forward = space(made).backward(range(len(made))), space(mirror).forward(range(len(made)))
    assert backward is not None
    assert starts(forward) == {
        s: sorted(-at - made.runtimes[s] for at in there) for s, there in starts(backward).items()
    }
    Schedule.of_blocks(backward.blocks, made.runtimes).check(made.stages, made.runtimes, made.capacity, made.machines)
