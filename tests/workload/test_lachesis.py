"""LACHESIS's workload."""

from __future__ import annotations

from statistics import mean

import pytest

from rm_emulator.workload import tpch
from rm_emulator.workload.lachesis import FREQUENCIES, MEASURED_GHZ, LachesisSettings, generate, speeds
from rm_emulator.workload.model import Fixed, PerTask, WorkloadJob
from schedulers.core.errors import InvalidParameters

RATE = 125_000_000
SPEEDS = speeds(50, seed=1)
SMALL = LachesisSettings(jobs=6)


def work(entry: WorkloadJob) -> list[int]:
    """Of each stage, ms at speed 1."""
    made = []
    for times in entry.runtimes:
        assert isinstance(times, Fixed | PerTask)
        made.append(times.ms if isinstance(times, Fixed) else sum(times.ms))
    return made


def moved(entry: WorkloadJob) -> list[int]:
    return [edge.data for stage in entry.job.stages for edge in stage.edges]


def test_a_stage_read_as_one_task_has_the_work_of_all_of_its_tasks() -> None:
    one, many = (
        generate(LachesisSettings(jobs=6, reading=reading), seed=1, speeds=SPEEDS) for reading in ("stage", "tasks")
    )
    assert [work(entry) for entry in one.jobs] == [work(entry) for entry in many.jobs]
    assert all(stage.tasks == 1 for entry in one.jobs for stage in entry.job.stages)
    assert max(stage.tasks for entry in many.jobs for stage in entry.job.stages) > 50
    assert all(isinstance(times, PerTask) for entry in many.jobs for times in entry.runtimes)


def test_both_readings_have_the_same_dags_and_the_same_data() -> None:
    one, many = (
        generate(LachesisSettings(jobs=6, reading=reading), seed=1, speeds=SPEEDS) for reading in ("stage", "tasks")
    )
    assert [[stage.edges for stage in entry.job.stages] for entry in one.jobs] == [
        [stage.edges for stage in entry.job.stages] for entry in many.jobs
    ]


def test_the_work_is_that_of_the_tpch_workload_at_the_middle_of_the_speeds() -> None:
    plain = tpch.generate(
        tpch.TpchSettings(jobs=6, sizes=SMALL.sizes, arrivals="batch", durations="per_task", history=0), seed=1
    )
    for entry, of in zip(generate(SMALL, seed=1, speeds=SPEEDS).jobs, plain.jobs, strict=True):
        assert [stage.above for stage in entry.job.stages] == [stage.above for stage in of.job.stages]
        assert sum(work(entry)) == pytest.approx(MEASURED_GHZ * sum(work(of)), rel=1e-3)


@pytest.mark.parametrize("ccr", [0.1, 1.0, 10.0])
def test_the_mean_transfer_of_a_job_takes_ccr_times_its_mean_stage(ccr: float) -> None:
    for entry in generate(LachesisSettings(jobs=6, ccr=ccr), seed=1, speeds=SPEEDS, rate=RATE).jobs:
        if data := moved(entry):
            stage_ms = mean(work(entry)) * mean(1 / speed for speed in SPEEDS)
            assert mean(data) * 1000 / RATE == pytest.approx(ccr * stage_ms, rel=1e-6)


def test_data_differs_from_edge_to_edge_and_is_there_on_each() -> None:
    data = [each for entry in generate(SMALL, seed=1, speeds=SPEEDS).jobs for each in moved(entry)]
    assert min(data) > 0
    assert len(set(data)) == len(data)


def test_without_communication_edges_are_plain() -> None:
    free = generate(LachesisSettings(jobs=6, ccr=0), seed=1, speeds=SPEEDS)
    assert all(isinstance(parent, int) for entry in free.jobs for stage in entry.job.stages for parent in stage.parents)


def test_speeds_are_of_the_table_and_more_executors_leave_the_first_ones() -> None:
    assert (FREQUENCIES[0], FREQUENCIES[-1]) == (2.1, 3.6)
    assert set(speeds(500, seed=1)) == set(FREQUENCIES)
    assert speeds(60, seed=1)[:50] == SPEEDS != speeds(50, seed=2)


def test_jobs_are_of_the_paper_s_sizes_and_arrive_at_once_or_as_a_stream() -> None:
    assert LachesisSettings().sizes == (2, 5, 10, 50, 80, 100)
    assert {entry.submit_ms for entry in generate(SMALL, seed=1, speeds=SPEEDS).jobs} == {0}
    stream = generate(LachesisSettings(jobs=100, arrivals="poisson"), seed=1, speeds=SPEEDS)
    submits = [entry.submit_ms for entry in stream.jobs]
    assert submits[0] == 0
    assert submits[-1] / 99 == pytest.approx(45_000, rel=0.3)


def test_a_size_that_was_not_measured_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="there is no query 1 at 3 GB"):
        generate(LachesisSettings(sizes=(3,)), seed=1, speeds=SPEEDS)
