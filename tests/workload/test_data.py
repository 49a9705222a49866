"""Where input is put: as many nodes as asked for, spread over racks, whatever the order of anything."""

from __future__ import annotations

import itertools

import pytest

from rm_emulator.testing import job, node, stage
from rm_emulator.workload import data
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.model import Job, Node, Stage

NODES = [node(f"n{i}", rack=f"r{i % 3}") for i in range(12)]
RACK = {there.id: there.rack for there in NODES}


def workload(*jobs: Job) -> Workload:
    return Workload(
        name="w",
        jobs=tuple(WorkloadJob(job=each, submit_ms=0, runtimes=(Fixed(1),) * len(each.stages)) for each in jobs),
    )


def hosts(nodes: list[Node], replicas: int, tasks: int = 300, seed: int = 1) -> tuple[tuple[str, ...], ...]:
    return data.place(workload(job("a", stage(tasks))), nodes, replicas, seed).jobs[0].job.stages[0].hosts


@pytest.mark.parametrize("replicas", [1, 2, 3, 5, 12])
def test_every_task_has_so_many_nodes(replicas: int) -> None:
    found = hosts(NODES, replicas)
    assert len(found) == 300
    assert all(len(set(names)) == replicas and set(names) <= set(RACK) for names in found)


def test_the_second_replica_is_in_another_rack_and_the_third_beside_it() -> None:
    for first, second, third in hosts(NODES, 3):
        assert RACK[first] != RACK[second] == RACK[third]


@pytest.mark.parametrize("nodes", [[node(f"n{i}") for i in range(9)], [node(f"n{i}", rack="r") for i in range(9)]])
def test_without_several_racks_all_pairs_of_nodes_are_as_likely(nodes: list[Node]) -> None:
    seen = {frozenset(names) for names in hosts(nodes, 2, tasks=2000)}
    assert len(seen) == len(list(itertools.combinations(nodes, 2)))


def test_a_rack_of_one_node_is_no_hindrance() -> None:
    nodes = [node("x", rack="a"), node("y", rack="b"), node("z", rack="b")]
    assert all(set(names) == {"x", "y", "z"} for names in hosts(nodes, 3))


def test_all_nodes_get_about_as_much() -> None:
    counts = {there.id: 0 for there in NODES}
    for names in hosts(NODES, 3, tasks=4000):
        for name in names:
            counts[name] += 1
    assert all(count == pytest.approx(1000, rel=0.12) for count in counts.values())


def test_draws_depend_on_the_job_and_the_stage_alone() -> None:
    one, two = job("a", stage(5), stage(5)), job("b", stage(7))
    together = {e.job.id: e.job for e in data.place(workload(one, two), NODES, 3, 4).jobs}
    apart = {each.id: data.place(workload(each), NODES, 3, 4).jobs[0].job for each in (two, one)}
    assert together == apart
    assert together["a"].stages[0].hosts != together["a"].stages[1].hosts
    longer = data.place(workload(job("a", stage(9))), NODES, 3, 4).jobs[0].job
    assert longer.stages[0].hosts[:5] == together["a"].stages[0].hosts
    assert data.place(workload(one), NODES, 3, 5).jobs[0].job != together["a"]


def test_only_stages_that_read_input_get_some() -> None:
    given = Stage(name="g", tasks=1, demand=(1000, 1024), hosts=(("n7",),))
    master = Stage(name="m", tasks=1, demand=(1000, 1024), master=True)
    made = data.place(workload(job("a", given, stage(2, parents=(0,)), master)), NODES, 1, 1).jobs[0].job
    assert [each.hosts for each in made.stages] == [(("n7",),), (), ()]


@pytest.mark.parametrize("replicas", [0, 13])
def test_too_few_or_too_many_are_refused(replicas: int) -> None:
    with pytest.raises(ValueError, match=f"{replicas} replicas need as many nodes"):
        hosts(NODES, replicas)
