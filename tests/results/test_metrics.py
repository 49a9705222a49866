"""Figures worked out by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from rm_emulator.engine.recording import Attempt, JobRow
from rm_emulator.results import metrics
from rm_emulator.results.figures import Placement, Spread
from rm_emulator.results.record import Recorder
from schedulers.core.model import Node


def tables(jobs: list[dict], tasks: list[tuple], demands: dict[str, tuple[int, int]], nodes: tuple[Node, ...]):
    """tasks: (job, node, granted, ended, code)."""
    recorder = Recorder(nodes)
    for job, vector in demands.items():
        recorder.demand(job, 0, vector)
    for index, (job, node, granted, ended, code) in enumerate(tasks):
        recorder.task(Attempt(job, 0, index, 0, node, index, granted, granted, ended, False, code))
    rows = [JobRow(**{"submit_ms": 0, "tasks": 1, "work_ms": 1000, **job}) for job in jobs]
    for row in rows:
        recorder.job(row)
    recorder.finish(0)
    frames = recorder._jobs.frame().collect(), recorder._tasks.frame().collect(), recorder.node_rows()
    recorder.close()
    return frames


TWO = (Node(id="a", capacity=(1000, 1000)), Node(id="b", capacity=(1000, 1000)))


@pytest.fixture(scope="module")
def example():
    """Two queues on two nodes: q1's job holds 1000 m-cpu for 4 s, q2's half of one node's memory for 8 s."""
    first = {"id": "x", "queue": "q1", "user": "u", "finish_ms": 4000, "first_start_ms": 0}
    second = {"id": "y", "queue": "q2", "user": "v", "finish_ms": 9000, "first_start_ms": 1000, "submit_ms": 500}
    jobs = [first, second]
    tasks = [("x", "a", 0, 4000, 0), ("y", "b", 1000, 9000, 0)]
    return tables(jobs, tasks, {"x": (1000, 0), "y": (100, 500)}, TWO)


def test_jct_is_finish_minus_submit(example):
    assert metrics.timed(example[0])["jct_s"].to_list() == [4.0, 8.5]


def test_wait_is_first_start_minus_submit(example):
    assert metrics.timed(example[0])["wait_s"].to_list() == [0.0, 0.5]


def test_makespan_is_last_finish_minus_first_submit(example):
    assert metrics.makespan_ms(example[0]) == 9000


def test_makespan_of_nothing_finished_is_null():
    assert metrics.makespan_ms(tables([{"id": "x"}], [], {}, TWO)[0]) is None


def test_utilisation_is_held_over_capacity_and_makespan(example):
    jobs, _, nodes = example
    expected = {"cpu": (1000 * 4 + 100 * 8) / (2000 * 9), "memory": 500 * 8 / (2000 * 9)}
    assert metrics.utilisation(jobs, nodes) == pytest.approx(expected)


def test_load_is_work_over_slots_and_arrival_span():
    jobs = [{"id": "x", "work_ms": 6000}, {"id": "y", "submit_ms": 2000, "work_ms": 2000}]
    frames = tables(jobs, [("x", "a", 0, 6000, 0), ("y", "b", 2000, 4000, 0)], {"x": (500, 1), "y": (500, 1)}, TWO)
    assert metrics.load(*frames) == pytest.approx(8000 / (4 * 2000))


def test_a_fast_node_is_so_many_more_slots():
    fast = (Node(id="a", capacity=(1000, 1000), speed=3.0), Node(id="b", capacity=(1000, 1000)))
    jobs = [{"id": "x", "work_ms": 6000}, {"id": "y", "submit_ms": 2000, "work_ms": 2000}]
    frames = tables(jobs, [("x", "a", 0, 2000, 0), ("y", "b", 2000, 4000, 0)], {"x": (1000, 1), "y": (1000, 1)}, fast)
    assert metrics.load(*frames) == pytest.approx(8000 / (4 * 2000))


def test_load_of_simultaneous_arrivals_is_null():
    frames = tables([{"id": "x"}], [("x", "a", 0, 10, 0)], {"x": (1, 1)}, TWO)
    assert metrics.load(*frames) is None


def test_shares_are_of_the_dominant_resource_averaged_over_time(example):
    expected = {"q1": 0.5 * 4 / 9, "q2": 0.25 * 8 / 9}
    assert metrics.dominant_shares(*example) == pytest.approx(expected)


def test_the_dominant_resource_may_change_over_time():
    jobs = [{"id": "x", "finish_ms": 1000}, {"id": "y", "finish_ms": 2000}]
    tasks = [("x", "a", 0, 1000, 0), ("y", "a", 1000, 2000, 0)]
    frames = tables(jobs, tasks, {"x": (1000, 0), "y": (0, 500)}, TWO)
    assert metrics.dominant_shares(*frames) == pytest.approx({"default": (0.5 + 0.25) / 2})


def test_tasks_that_run_at_the_same_time_add_up():
    frames = tables(
        [{"id": "x", "finish_ms": 1000}], [("x", "a", 0, 1000, 0), ("x", "b", 0, 1000, 0)], {"x": (500, 1)}, TWO
    )
    assert metrics.dominant_shares(*frames) == pytest.approx({"default": 0.5})


def test_jain_is_one_half_when_one_of_two_has_everything():
    assert metrics.jain({"a": 1.0, "b": 0.0}) == 0.5


def test_jain_is_one_when_shares_follow_weights():
    assert metrics.jain({"a": 0.6, "b": 0.2}, {"a": 3.0}) == 1.0


def test_jain_of_one_group_does_not_apply():
    assert metrics.jain({"a": 0.7}) is None


def test_jain_is_over_users_when_there_is_one_queue():
    jobs = [{"id": "x", "user": "u", "finish_ms": 1000}, {"id": "y", "user": "v", "finish_ms": 1000}]
    frames = tables(jobs, [("x", "a", 0, 1000, 0)], {"x": (500, 1)}, TWO)
    assert metrics.figures(*frames)["jain"] == 0.5


@pytest.mark.parametrize(("size", "queue"), [(999_999, 0), (1_000_000, 1), (5e7, 2), (1e14, 9), (1e30, 9)])
def test_gs_queue_of_a_size(size, queue):
    assert metrics.gs_queues(np.array([float(size)])).tolist() == [queue]


def test_queue_placement_counts_wide_sized_jobs_only():
    jobs = [
        {"id": "right", "width": 3, "work_ms": 2_000_000, "size_ms": 9_000_000.0},
        {"id": "over", "width": 3, "work_ms": 2_000_000, "size_ms": 10_000_000.0},
        {"id": "under", "width": 9, "work_ms": 2_000_000, "size_ms": 10.0},
        {"id": "under2", "width": 9, "work_ms": 1_000_000, "size_ms": 999_999.0},
        {"id": "thin", "width": 2, "work_ms": 2_000_000, "size_ms": 1e12},
        {"id": "unsized", "width": 5, "work_ms": 2_000_000},
    ]
    found = metrics.queue_placement(tables(jobs, [], {}, TWO)[0])
    assert found == Placement(correct=0.25, over=0.25, under=0.5)


def test_queue_placement_without_estimates_does_not_apply():
    found = metrics.queue_placement(tables([{"id": "x", "width": 5}], [], {}, TWO)[0])
    assert found == Placement()


def test_prediction_error_is_relative_to_the_truth():
    jobs = [{"id": "x", "size_ms": 1500.0}, {"id": "y", "size_ms": 800.0}, {"id": "z"}]
    assert metrics.timed(tables(jobs, [], {}, TWO)[0])["error_pct"].to_list() == [50.0, 20.0, None]


def test_slowdown_is_jct_over_ideal():
    jobs = [{"id": "x", "finish_ms": 3000, "ideal_ms": 2000}, {"id": "y", "finish_ms": 10}]
    assert metrics.timed(tables(jobs, [], {}, TWO)[0])["slowdown"].to_list() == [1.5, None]


def test_bins_of_table_8():
    jobs = [
        {"id": "1", "width": 2, "work_ms": 999_999},
        {"id": "2", "width": 3, "work_ms": 999_999},
        {"id": "3", "width": 2, "work_ms": 1_000_000},
        {"id": "4", "width": 3, "work_ms": 1_000_000},
    ]
    assert metrics.timed(tables(jobs, [], {}, TWO)[0])["bin"].to_list() == list(metrics.BINS)


def test_quantiles_interpolate():
    assert metrics.spread(pl.Series([1.0, 2.0, 3.0, 4.0, 5.0]), Spread).p90 == pytest.approx(4.6)


def test_failed_attempts_are_counted():
    frames = tables([{"id": "x"}], [("x", "a", 0, 10, 137), ("x", "a", 10, 20, 0)], {"x": (1, 1)}, TWO)
    assert metrics.figures(*frames)["failed_tasks"] == 1


def test_a_queue_has_its_own_times(example):
    found = metrics.figures(*example)["queues"]["q2"]
    assert (found.jobs, found.jct_s.mean, found.wait_s.p90) == (1, 8.5, 0.5)


FAST = (Node(id="a", capacity=(1000, 1000)), Node(id="b", capacity=(1000, 1000), speed=2.0))


def launched(tasks, stages=1):
    """Tables of job x from attempts (node, stage, granted, started, ended, code), each of 100 m-cpu and 10 MiB."""
    recorder = Recorder(FAST)
    for stage in (0, 1):
        recorder.demand("x", stage, (100, 10))
    for index, (node, stage, granted, started, ended, code) in enumerate(tasks):
        recorder.task(Attempt("x", stage, index, 0, node, index, granted, started, ended, False, code))
    recorder.job(JobRow(id="x", submit_ms=0, tasks=len(tasks), work_ms=1000, stages=stages))
    recorder.finish(0)
    frames = recorder._jobs.frame().collect(), recorder._tasks.frame().collect(), recorder.node_rows()
    recorder.close()
    return frames


@pytest.mark.parametrize(
    ("tasks", "stages", "ratio"),
    [
        ([("a", 0, 0, 250, 1000, 0)], 1, 1000 / 750),  # a launch of 250 ms
        ([("a", 0, 0, 0, 500, 0), ("a", 0, 500, 500, 700, -102)], 1, 700 / 500),  # a lost attempt holds too
        ([("a", 0, 0, 200, 1000, 0), ("b", 0, 0, 0, 500, 0)], 1, (1000 + 2 * 500) / (800 + 2 * 500)),  # b is faster
        ([("a", 0, 0, 250, 1000, 0), ("a", 1, 0, 0, 9000, 0)], 1, 1000 / 750),  # stage 1 of 1: its application master
        ([("a", 0, 0, 0, 500, 1)], 1, None),
    ],
)
def test_what_launching_costs_is_held_over_run(tasks, stages, ratio):
    found = metrics.launching(*launched(tasks, stages), "cpu")
    assert found == (None if ratio is None else pytest.approx(ratio))


def test_deadlines_met_and_how_late_the_others_were():
    jobs = [
        {"id": "in time", "finish_ms": 3000, "deadline_ms": 3000},
        {"id": "late", "finish_ms": 5000, "deadline_ms": 3000},
        {"id": "never", "deadline_ms": 3000},
        {"id": "whenever", "finish_ms": 9000},
    ]
    found = metrics.deadlines(tables(jobs, [], {}, TWO)[0])
    assert found is not None
    assert (found.jobs, found.met, found.late_s.mean) == (3, pytest.approx(1 / 3), 2.0)


def test_without_deadlines_nothing_is_said_of_them():
    assert metrics.deadlines(tables([{"id": "whenever", "finish_ms": 9000}], [], {}, TWO)[0]) is None
