"""Omega beside its rivals, on a small cell: the shapes that the page of results tells of."""

from __future__ import annotations

from functools import cache

import pytest

from studies import omega

CELL = omega.Cell(
    machines=60,
    warm_s=60.0,
    counted_s=1200.0,
    batch_gap_s=5.0,
    batch_task_s=30.0,
    service_gap_s=30.0,
    service_tasks=5.0,
    held=0.3,
)
LONG_S = 20.0


@cache
def run(case: omega.Case) -> omega.Measured:
    return omega.measure(case, CELL, 1)


def rival(name: str) -> omega.Measured:
    return run(omega.rivals(LONG_S)[name])


def test_a_cell_begins_with_as_many_services_as_it_has_on_average() -> None:
    held = [
        sum(each.job.tasks for each in omega.workload(CELL, 1, seed).jobs if each.job.queue == "present")
        for seed in range(200)
    ]
    assert sum(held) / len(held) == pytest.approx(CELL.held * CELL.machines * omega.CORES, rel=0.1)


def test_more_arrivals_leave_services_as_they_are() -> None:
    few, many = (
        [each for each in omega.workload(CELL, factor, 1).jobs if each.job.queue == "service"] for factor in (1, 10)
    )
    assert few == many


def test_jobs_of_the_warm_up_do_not_count() -> None:
    counted = [
        each
        for each in omega.workload(CELL, 1, 1).jobs
        if each.job.queue == "service" and each.submit_ms >= 1000 * CELL.warm_s
    ]
    assert rival("shared state").service.jobs == len(counted)


def test_a_job_nobody_has_begun_with_counts_with_its_wait_until_the_end() -> None:
    never = run(omega.Case(architecture="single path", service_s=10_000.0))
    submitted = [each.submit_ms / 1000 for each in omega.workload(CELL, 1, 1).jobs if each.job.queue == "service"]
    counted = [at for at in submitted if at >= CELL.warm_s]
    assert never.service.wait_s == pytest.approx(CELL.end_s - sum(counted) / len(counted))


def test_one_path_thinks_as_long_about_every_job() -> None:
    assert rival("single path").batch.busyness > 0.9


def test_batch_jobs_wait_behind_services_where_there_is_one_queue() -> None:
    waits = {name: rival(name).batch.wait_s for name in omega.RIVALS}
    assert waits["single path"] > waits["multi path"] > 10 * waits["shared state"]


def test_two_levels_lock_batch_jobs_out_while_a_service_is_thought_about() -> None:
    assert rival("two-level").batch.wait_s > 10 * rival("shared state").batch.wait_s


@pytest.mark.parametrize("name", ["single path", "multi path", "two-level"])
def test_only_shared_state_has_conflicts(name: str) -> None:
    assert rival(name).batch.conflicts == rival(name).service.conflicts == 0


def test_sequence_numbers_refuse_more() -> None:
    found = {name: run(case).service.conflicts for name, case in omega.commits(LONG_S).items()}
    assert found["sequence, incremental"] > found["fit, incremental"]


def test_more_schedulers_are_less_busy_each() -> None:
    one, four = (run(omega.Case(batch_s=3.0, schedulers=count)).batch.busyness for count in (1, 4))
    assert one > 2 * four


def test_waits_for_an_overloaded_scheduler_are_in_italics() -> None:
    slow = run(omega.Case(batch_s=8.0))  # of jobs that are 5 s apart
    assert omega.shown([slow], "batch_wait").startswith("*")
    assert not omega.shown([slow], "service_conflicts").startswith("*")
