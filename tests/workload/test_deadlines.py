"""Deadlines of jobs that bring none."""

from __future__ import annotations

import pytest

from rm_emulator.testing import job, stage
from rm_emulator.workload.deadlines import Deadlines, with_deadlines
from rm_emulator.workload.model import Drawn, Fixed, Waves, Workload, WorkloadJob
from schedulers.core.errors import InvalidParameters

CAPACITY = (10_000, 10 * 1024)  # ten tasks at once


def due(workload: Workload, *, part: float = 1.0, factor: tuple[float, float] = (1, 1), seed: int = 1) -> list[object]:
    return [
        entry.job.deadline
        for entry in with_deadlines(workload, CAPACITY, Deadlines(part=part, factor=factor), seed).jobs
    ]


def one(**fields: object) -> WorkloadJob:
    stages = stage(20), stage(10, parents=(0,), name="t")
    return WorkloadJob(job=job("j", *stages, **fields), submit_ms=500, runtimes=(Fixed(1000), Drawn(3000.0, 0.5)))


def many(count: int) -> Workload:
    entries = (WorkloadJob(job=job(f"j{n}"), submit_ms=0, runtimes=(Fixed(1000),)) for n in range(count))
    return Workload(name="w", jobs=tuple(entries))


def test_a_job_is_given_its_longest_path_and_its_work_over_the_tasks_at_once() -> None:
    made = Workload(name="w", jobs=(one(),))
    alone = 1000 + 3000 + (20 * 1000 + 10 * 3000) // 10
    assert due(made) == [500 + alone]
    assert due(made, factor=(2, 2)) == [500 + 2 * alone]


def test_one_that_it_brings_is_kept() -> None:
    assert due(Workload(name="w", jobs=(one(deadline=7),))) == [7]


def test_only_a_part_of_the_jobs_get_one_and_seeds_differ() -> None:
    found = [due(many(1000), part=0.3, seed=seed) for seed in (1, 1, 2)]
    assert 200 < sum(isinstance(each, int) for each in found[0]) < 400
    assert found[0] == found[1] != found[2]


def test_factors_lie_between_the_two() -> None:
    found = [each for each in due(many(200), factor=(1.5, 3)) if isinstance(each, int)]
    assert 1.5 * 1100 <= min(found) < 1.6 * 1100 < 2.9 * 1100 < max(found) <= 3 * 1100


def test_measured_waves_have_none() -> None:
    entry = WorkloadJob(job=job("j"), submit_ms=0, runtimes=(Waves("tpch-2g-q1", 0),))
    with pytest.raises(InvalidParameters, match="job 'j' has run times by wave"):
        due(Workload(name="w", jobs=(entry,)))
