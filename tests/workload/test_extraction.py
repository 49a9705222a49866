"""The extraction procedure of the SLearn paper, section 4.3."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.workload import extraction, synthetic
from rm_emulator.workload.model import Fixed, PerTask, RunTimes, Waves, Workload, WorkloadJob
from rm_emulator.workload.work import offered_load
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, PastJob, Stage


def job(at: int, *, tasks: int = 2, name: str = "etl", user: str = "ann", times: RunTimes | None = None) -> WorkloadJob:
    return WorkloadJob(
        job=Job(id=f"j{at}", name=name, user=user, stages=(Stage(name="s", tasks=tasks, demand=(1000, 1024)),)),
        submit_ms=at,
        runtimes=(times or PerTask(tuple(range(10, 10 + tasks))),),
    )


def trace(*jobs: WorkloadJob, history: tuple[PastJob, ...] = ()) -> Workload:
    return Workload(name="trace", jobs=jobs, history=history)


@pytest.fixture(scope="module")
def long_trace() -> Workload:
    return synthetic.generate("google11-like", jobs=600, seed=3)


@pytest.fixture(scope="module")
def extracted(long_trace: Workload) -> Workload:
    return extraction.extract(long_trace, jobs=100, slots=150)


def test_the_number_of_jobs_asked_for_is_drawn(extracted: Workload) -> None:
    assert len(extracted.jobs) == 100


def test_all_candidates_run_where_there_are_fewer_than_asked_for() -> None:
    assert len(extraction.extract(trace(job(0), job(60), job(100)), jobs=9).jobs) == 2


def test_drawn_jobs_come_from_the_second_half(long_trace: Workload, extracted: Workload) -> None:
    arrived = {entry.job.id: entry.submit_ms for entry in long_trace.jobs}
    cut = (long_trace.jobs[0].submit_ms + long_trace.jobs[-1].submit_ms) / 2
    assert all(arrived[entry.job.id] >= cut for entry in extracted.jobs)


def test_drawn_jobs_keep_their_order_and_the_first_arrives_at_zero(long_trace: Workload, extracted: Workload) -> None:
    order = {entry.job.id: index for index, entry in enumerate(long_trace.jobs)}
    indexes = [order[entry.job.id] for entry in extracted.jobs]
    assert indexes == sorted(indexes)
    assert extracted.jobs[0].submit_ms == 0


def test_the_mean_load_is_that_of_the_whole_trace(long_trace: Workload, extracted: Workload) -> None:
    assert offered_load(extracted, 150) == pytest.approx(offered_load(long_trace, 150), rel=1e-6)


def test_a_load_that_is_asked_for_is_met(long_trace: Workload) -> None:
    assert offered_load(extraction.extract(long_trace, jobs=50, load=0.7), 150) == pytest.approx(0.7, rel=1e-6)


def test_history_is_over_before_the_start(extracted: Workload) -> None:
    assert extracted.history
    assert all(past.submitted <= past.finished < 0 for past in extracted.history)


def test_history_is_in_order_of_its_end(extracted: Workload) -> None:
    ends = [past.finished for past in extracted.history]
    assert ends == sorted(ends)


def test_a_stranger_is_not_history() -> None:
    first = (job(0), job(1, name="other", user="bob"))
    assert [past.name for past in extraction.extract(trace(*first, job(10_000)), jobs=1).history] == ["etl"]


def test_a_job_of_the_same_user_is_history() -> None:
    assert len(extraction.extract(trace(job(0, name="other"), job(10_000)), jobs=1).history) == 1


def test_nothing_in_common_but_an_empty_name_is_no_likeness() -> None:
    found = extraction.extract(trace(job(0, name="", user=""), job(10_000, name="", user="")), jobs=1)
    assert found.history == ()


def test_a_job_that_would_still_run_at_the_cut_is_not_history() -> None:
    assert extraction.extract(trace(job(0, times=Fixed(6_000)), job(10_000)), jobs=1).history == ()


def test_history_holds_the_mean_task_run_time_and_the_longest_task() -> None:
    past = extraction.extract(trace(job(0, tasks=3), job(10_000)), jobs=1).history[0]
    assert (past.stages, past.submitted, past.finished) == (((3, 11.0),), -5_000, -4_988)


def test_past_jobs_of_the_trace_stay_history_further_back() -> None:
    old = PastJob(name="etl", submitted=-500, finished=-400, stages=((1, 5.0),))
    history = extraction.extract(trace(job(0), job(10_000), history=(old,)), jobs=1).history
    assert (history[0].submitted, history[0].finished) == (-5_500, -5_400)


def test_compression_divides_task_counts_by_the_ratio_of_the_clusters() -> None:
    found = extraction.extract(trace(job(0), job(10_000, tasks=30)), jobs=1, slots=150, trace_slots=450)
    assert found.jobs[0].job.tasks == 10


def test_compressed_tasks_are_some_of_the_original_ones() -> None:
    found = extraction.extract(trace(job(0), job(10_000, tasks=30)), jobs=1, slots=150, trace_slots=450)
    times = found.jobs[0].runtimes[0]
    assert isinstance(times, PerTask)
    assert len(times.ms) == 10
    assert set(times.ms) < set(range(10, 40))


def test_compression_leaves_at_least_one_task() -> None:
    assert extraction.extract(trace(job(0), job(9, tasks=1)), jobs=1, slots=1, trace_slots=99).jobs[0].job.tasks == 1


def test_wide_jobs_can_be_dropped_instead() -> None:
    jobs = (job(0), job(9_000, tasks=151), job(10_000, tasks=150))
    found = extraction.extract(trace(*jobs), trace_slots=12_500, drop_wider_than=150)
    assert [entry.job.tasks for entry in found.jobs] == [150]


def test_one_seed_draws_the_same_jobs_twice(long_trace: Workload, extracted: Workload) -> None:
    assert extraction.extract(long_trace, jobs=100, slots=150) == extracted


def test_another_seed_draws_others(long_trace: Workload, extracted: Workload) -> None:
    other = extraction.extract(long_trace, jobs=100, slots=150, seed=2)
    assert {entry.job.id for entry in other.jobs} != {entry.job.id for entry in extracted.jobs}


def test_jobs_that_all_arrive_at_once_cannot_be_halved() -> None:
    with pytest.raises(InvalidParameters, match="cannot be cut in two halves"):
        extraction.extract(trace(job(0), job(0)))


def test_an_empty_workload_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="no jobs"):
        extraction.extract(trace())


def test_run_times_in_a_profile_that_is_not_given_are_refused() -> None:
    waves = Waves("tpch-2g-q1", 0)
    with pytest.raises(InvalidParameters, match="profile"):
        extraction.extract(trace(job(0, times=waves), job(10_000, times=waves)))


@pytest.mark.parametrize(
    "wrong", [{"jobs": 0}, {"slots": 0}, {"trace_slots": 149}, {"load": 0.0}, {"load": float("nan")}]
)
def test_impossible_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameters):
        extraction.extract(trace(job(0), job(10)), **wrong)


@settings(max_examples=50, deadline=None)
@given(gaps=st.lists(st.integers(1, 10**6), min_size=3, max_size=30), load=st.floats(0.01, 10), seed=st.integers(0, 9))
def test_arrivals_keep_their_order_at_any_load(gaps: list[int], load: float, seed: int) -> None:
    ats = [sum(gaps[:index]) for index in range(len(gaps) + 1)]
    found = extraction.extract(trace(*map(job, ats)), jobs=20, load=load, seed=seed)
    submits = [entry.submit_ms for entry in found.jobs]
    assert submits == sorted(submits)
    assert submits[0] == 0
