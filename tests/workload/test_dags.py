"""Random DAGs of the HEFT literature."""

from __future__ import annotations

import math
from statistics import mean
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.workload.dags import Dag, DagsSettings, Shape, dag, generate, literature, shape, together
from rm_emulator.workload.model import Drawn, Fixed, PerTask, WorkloadJob
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Edge, Job, Node, Stage

SHAPES = st.builds(
    Shape,
    tasks=st.integers(1, 60),
    alpha=st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]),
    out_degree=st.integers(1, 80),
    ccr=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    beta=st.sampled_from([0.0, 0.5, 2.0]),
)


def depths(drawn: Dag) -> list[int]:
    """Longest way from a task without parents, in edges."""
    depth = [0] * len(drawn.sizes)
    for parent, child, _ in drawn.edges:  # sorted by parent, parents before children
        depth[child] = max(depth[child], depth[parent] + 1)
    return depth


@given(SHAPES, st.integers(0, 1000))
def test_edges_lead_to_later_tasks_and_none_stands_twice(wanted: Shape, seed: int) -> None:
    pairs = [(parent, child) for parent, child, _ in dag(wanted, 3, seed=seed).edges]
    assert all(0 <= parent < child < wanted.tasks for parent, child in pairs)
    assert len(set(pairs)) == len(pairs)


@given(SHAPES, st.integers(0, 1000))
def test_a_task_has_out_degree_children_where_there_are_as_many_tasks_below_it(wanted: Shape, seed: int) -> None:
    drawn = dag(wanted, 3, seed=seed)
    depth = depths(drawn)
    for task, own in enumerate(depth):
        below = sum(other > own for other in depth)
        children = sum(parent == task for parent, _, _ in drawn.edges)
        assert children >= min(wanted.out_degree, below)


@given(SHAPES, st.integers(0, 1000))
def test_ccr_is_met_exactly(wanted: Shape, seed: int) -> None:
    drawn = dag(wanted, 4, seed=seed)
    if drawn.edges:
        transfers = mean(data * 1000 / drawn.rate for _, _, data in drawn.edges)
        assert math.isclose(transfers, wanted.ccr * mean(map(mean, drawn.times)), rel_tol=1e-6, abs_tol=1e-3)


@given(SHAPES, st.integers(0, 1000))
def test_times_stay_inside_beta_of_the_mean(wanted: Shape, seed: int) -> None:
    drawn = dag(wanted, 5, seed=seed)
    for size, times in zip(drawn.sizes, drawn.times, strict=True):
        low, high = size * (1 - wanted.beta / 2), size * (1 + wanted.beta / 2)
        assert all(time == 1 or low - 0.5 <= time <= high + 0.5 for time in times)


def test_with_speeds_a_time_is_the_size_over_the_speed() -> None:
    drawn = dag(Shape(tasks=30), (1.0, 2.0, 4.0), seed=1)
    assert [times[0] for times in drawn.times] == list(drawn.sizes)
    assert all(abs(times[2] - size / 4) <= 0.5 for size, times in zip(drawn.sizes, drawn.times, strict=True))


def test_a_larger_alpha_makes_a_shorter_dag() -> None:
    deep = mean(max(depths(dag(Shape(tasks=100, alpha=0.5), 2, seed=seed))) for seed in range(30))
    flat = mean(max(depths(dag(Shape(tasks=100, alpha=2.0), 2, seed=seed))) for seed in range(30))
    assert 15 < deep < 25  # sqrt(100) / 0.5 levels
    assert 3 < flat < 7


def test_the_mean_time_of_a_task_is_what_was_asked_for() -> None:
    sizes = [size for seed in range(50) for size in dag(Shape(tasks=100, mean_ms=2000), 1, seed=seed).sizes]
    assert mean(sizes) == pytest.approx(2000, rel=0.03)
    assert max(sizes) <= 4000


def test_more_machines_leave_the_times_on_the_first_ones_as_they_are() -> None:
    few, many = (dag(Shape(tasks=20), machines, seed=3) for machines in (2, 5))
    assert [times[:2] for times in many.times] == list(few.times)


def test_the_same_seed_gives_the_same_dag_and_another_number_another_one() -> None:
    assert dag(Shape(tasks=20), 3, seed=1, number=4) == dag(Shape(tasks=20), 3, seed=1, number=4)
    assert dag(Shape(tasks=20), 3, seed=1, number=4) != dag(Shape(tasks=20), 3, seed=1, number=5)


def test_three_hundred_dags_of_the_literature_meet_every_value_of_its_sets() -> None:
    settings = DagsSettings()
    shapes = [shape(settings, seed=1, number=number) for number in range(300)]
    for name in ("tasks", "alpha", "out_degree", "ccr", "beta"):
        assert {getattr(drawn, name) for drawn in shapes} == set(getattr(settings, name))
    drawn = literature(300, 4, seed=1)
    assert [len(one.sizes) for one in drawn] == [one.tasks for one in shapes]
    assert literature(3, 4, seed=1) == drawn[:3]


NODES = [Node(id=f"n{number}", capacity=(1000, 0), speed=speed) for number, speed in enumerate((1.0, 2.0, 4.0))]


@pytest.mark.parametrize("times", ["by_node", "by_speed"])
def test_a_job_of_the_workload_is_the_dag_that_a_planner_takes(times: Literal["by_node", "by_speed"]) -> None:
    settings = DagsSettings(jobs=3, tasks=(20,), times=times)
    workload = generate(settings, NODES, seed=5)
    machines = 3 if times == "by_node" else (1.0, 2.0, 4.0)
    for number, entry in enumerate(workload.jobs):
        plain = dag(shape(settings, seed=5, number=number), machines, seed=5, number=number)
        found = together([entry], NODES, rate=plain.rate)
        assert (found.times, found.edges) == (plain.times, plain.edges)


def test_several_jobs_are_one_dag_of_separate_parts() -> None:
    workload = generate(DagsSettings(jobs=2, tasks=(10,)), NODES, seed=5)
    first, both = (together(workload.jobs[:count], NODES, rate=1) for count in (1, 2))
    assert (len(first.times), len(both.times)) == (10, 20)
    assert both.edges[: len(first.edges)] == first.edges
    assert all(child < 10 or parent >= 10 for parent, child, _ in both.edges)


def test_tasks_of_two_stages_share_what_their_edge_carries() -> None:
    stages = (
        Stage(name="a", tasks=2, demand=(1000, 0)),
        Stage(name="b", tasks=3, demand=(1000, 0), parents=(Edge(parent=0, data=600),)),
    )
    entry = WorkloadJob(job=Job(id="j", stages=stages), submit_ms=0, runtimes=(PerTask((10, 20)), Fixed(8)))
    found = together([entry], NODES, rate=1)
    assert found.edges == tuple((parent, child, 100) for parent in (0, 1) for child in (2, 3, 4))
    assert found.times == ((10, 5, 2), (20, 10, 5), (8, 4, 2), (8, 4, 2), (8, 4, 2))


def test_run_times_that_are_drawn_later_are_no_matrix() -> None:
    job = Job(id="j", stages=(Stage(name="a", tasks=1, demand=(1000, 0)),))
    with pytest.raises(InvalidParameters, match="run times 'drawn' are not known task by task"):
        together([WorkloadJob(job=job, submit_ms=0, runtimes=(Drawn(5.0),))], NODES, rate=1)


@pytest.mark.parametrize(
    ("wanted", "machines", "said"),
    [
        (Shape(tasks=0), 2, "tasks 0"),
        (Shape(tasks=5, beta=2.5), 2, "beta 2.5"),
        (Shape(tasks=5, ccr=math.nan), 2, "ccr nan"),
        (Shape(tasks=5, alpha=0), 2, "alpha 0"),
        (Shape(tasks=5), 0, "0 machines"),
        (Shape(tasks=5), (1.0, 0.0), "speeds"),
    ],
)
def test_impossible_numbers_are_named(wanted: Shape, machines: int | tuple[float, ...], said: str) -> None:
    with pytest.raises(InvalidParameters, match=said):
        dag(wanted, machines, seed=1)
