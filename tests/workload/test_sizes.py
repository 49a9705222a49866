"""ClusterSizes of clusters for workloads small enough to know the answer, and the pool against a slow, obvious one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.workload import pool, sizes, stage_table
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from rm_emulator.workload.pool import PoolJob, PoolStage
from rm_emulator.workload.sizes import Wanted
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, Stage

HOUR = 3_600_000
GIB = 1024


def job(at: int, tasks: int, ms: int, *, cpu: int = 1000, memory: int = GIB, gang: bool = False) -> WorkloadJob:
    stage = Stage(name="s", tasks=tasks, demand=(cpu, memory), gang=gang)
    return WorkloadJob(job=Job(id=f"{at}-{tasks}-{ms}", stages=(stage,)), submit_ms=at, runtimes=(Fixed(ms),))


def sized(*jobs: WorkloadJob, **wanted: Any) -> sizes.ClusterSizes:
    table = stage_table.of(Workload(name="w", jobs=jobs))
    found = sizes.size(table, Wanted(**wanted))
    assert found is not None
    return found


def test_demands_are_over_tasks_not_over_stages() -> None:
    found = sized(job(0, 98, 1000), job(0, 2, 1000, cpu=8000, memory=64 * GIB))
    cpu, memory = found.demands
    assert (cpu.p50, cpu.p90, cpu.max, cpu.unit) == (1, 1, 8, "cores")
    assert (memory.p50, memory.max, memory.unit) == (1, 64, "GiB")


def test_the_load_is_counted_by_the_hour_from_the_first_arrival() -> None:
    cpu = sized(job(5, 1, HOUR), job(HOUR + 5, 3, HOUR), job(2 * HOUR + 5, 1, HOUR)).demands[0]
    assert (cpu.total_hours, cpu.mean_load, cpu.peak_load, cpu.peak_hour) == (5, 2.5, 3, 1)


def test_jobs_at_one_time_have_no_mean_load() -> None:
    assert sized(job(0, 1, HOUR)).demands[0].mean_load is None


def test_a_node_is_derived_from_the_largest_task_and_the_proportions_of_the_work() -> None:
    assert sized(job(0, 10, 1000, cpu=1000, memory=4 * GIB)).node == {"cpu": "16", "memory": "64Gi"}
    assert sized(job(0, 10, 1000, cpu=20_000, memory=GIB)).node == {"cpu": "32", "memory": "2Gi"}
    assert sized(job(0, 10, 1000, memory=0)).node == {"cpu": "16"}
    assert sized(job(0, 1, 1000, memory=100 * GIB)).node == {"cpu": "16", "memory": "2Ti"}


def test_the_least_cluster_holds_the_widest_gang() -> None:
    found = sized(job(0, 33, 1000, gang=True), job(0, 500, 1000), node={"cpu": "16", "memory": "64Gi"})
    assert (found.widest_gang, found.least) == (33, 3)


def test_a_number_of_nodes_without_room_for_a_gang_is_refused() -> None:
    with pytest.raises(InvalidParameters, match=r"a gang of 33 tasks never starts on 2 \(at least 3"):
        sized(job(0, 33, 1000, gang=True), nodes=2)


def test_without_gangs_one_node_refuses_nothing() -> None:
    assert sized(job(0, 500, 1000)).least == 1


def test_a_node_too_small_for_a_task_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="a task asks for 8 of cpu, the node has 4"):
        sized(job(0, 1, 1, cpu=8000), node={"cpu": "4", "memory": "64Gi"})
    with pytest.raises(InvalidParameters, match="no task asks for 'tpu'"):
        sized(job(0, 1, 1), node={"tpu": "4"})


def test_enough_nodes_keep_nine_of_ten_waits_below_the_bound() -> None:
    jobs = [job(at * 60_000, 16, 600_000) for at in range(100)]
    found = sized(*jobs, wait_ms=60_000)
    by_nodes = {row.nodes: row.p90_s for row in found.waits}
    assert found.enough is not None
    assert by_nodes[found.enough] <= 60 < by_nodes[found.enough // 2]
    table = stage_table.of(Workload(name="w", jobs=tuple(jobs)))
    fewer = sizes.size(table, Wanted(wait_ms=60_000, nodes=found.enough - 1))
    assert fewer is not None
    assert next(row.p90_s for row in fewer.waits if row.nodes == found.enough - 1) > 60


def test_jobs_without_known_run_times_have_no_sizes() -> None:
    assert sizes.size(stage_table.of(Workload(name="w", jobs=())), Wanted()) is None


def test_a_node_is_written_as_resources() -> None:
    assert sizes.parse_node("cpu=32, memory=128Gi") == {"cpu": "32", "memory": "128Gi"}
    for text in ("cpu", "=4", "cpu=many", ""):
        with pytest.raises(InvalidParameters):
            sizes.parse_node(text)


def test_a_gang_waits_for_all_its_tasks_and_nobody_passes() -> None:
    jobs = [
        PoolJob(0, [PoolStage(1, 1024.0, 2, gang=False)]),
        PoolJob(1, [PoolStage(2, 1024.0, 2, gang=True)]),
        PoolJob(2, [PoolStage(1, 1024.0, 2, gang=False)]),
    ]
    assert pool.waits(jobs, 1) == [0, 1023, 2046]


def test_stages_of_a_job_run_one_after_another() -> None:
    jobs = [PoolJob(0, [PoolStage(1, 64.0, 1, gang=False)] * 2), PoolJob(1, [PoolStage(1, 64.0, 1, gang=False)])]
    # The second stage of the first job goes before the job that came later.
    assert pool.waits(jobs, 1) == [0, 127]


def test_a_gang_without_room_is_an_error() -> None:
    with pytest.raises(ValueError, match="a gang of 3 tasks never fits 1 nodes"):
        pool.waits([PoolJob(0, [PoolStage(3, 1.0, 2, gang=True)])], 1)


def slow_waits(jobs: list[PoolJob], nodes: int) -> list[float]:
    """Millisecond by millisecond: the first job in line starts task by task while a node has room."""
    free = [pool.NODE] * nodes
    started: list[float | None] = [None] * len(jobs)
    left = [job.stages[0].tasks for job in jobs]
    running: list[tuple[float, int, int]] = []
    now = 0.0
    while any(left):
        for end, node, size in [entry for entry in running if entry[0] <= now]:
            running.remove((end, node, size))
            free[node] += size
        for index, each in enumerate(jobs):
            while left[index] and each.submit <= now:
                stage = each.stages[0]
                size = pool.NODE // stage.per_node
                fitting = [n for n in range(nodes) if free[n] >= size]
                if not fitting:
                    break
                node = fitting[0]
                started[index] = now if started[index] is None else started[index]
                free[node] -= size
                left[index] -= 1
                running.append((pool._rounded(now + stage.ms, stage.ms), node, size))
            if left[index] and each.submit <= now:
                break
        now += 1
    return [start - each.submit for start, each in zip(started, jobs, strict=True) if start is not None]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 7), st.integers(1, 50)), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_waits_are_what_a_walk_over_milliseconds_gives(drawn: list[tuple[int, int, int]], nodes: int) -> None:
    jobs = [PoolJob(at, [PoolStage(tasks, float(ms), 2, gang=False)]) for at, tasks, ms in sorted(drawn)]
    assert pool.waits(jobs, nodes) == slow_waits(jobs, nodes)
