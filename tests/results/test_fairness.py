"""Shares against fair shares over time: cells made by hand, with figures worked out by hand.

Two nodes of 1000 m-cpu; tasks of 500 m-cpu, each a quarter of the cluster.
"""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.engine.recording import Attempt, JobRow
from rm_emulator.results import fairness, metrics
from rm_emulator.results.fairness import HUNGRY, IDLE, SATISFIED, STARVED
from rm_emulator.results.figures import NewQueue, QueueFairness, Windows
from rm_emulator.results.record import Recorder
from schedulers.core.model import Node

NODES = (Node(id="a", capacity=(1000, 1000)), Node(id="b", capacity=(1000, 1000)))
QUARTER = (500, 0)


def tables(queues: dict[str, str], tasks: list[tuple], submits: dict[str, int] | None = None):
    """queues: job -> queue; tasks: (job, stage, task, attempt, granted, ended, code), all times in s."""
    recorder = Recorder(NODES)
    for job, stage in sorted({(job, stage) for job, stage, *_ in tasks}):
        recorder.demand(job, stage, QUARTER)
    for index, (job, stage, task, attempt, granted, ended, code) in enumerate(tasks):
        at, end = 1000 * granted, 1000 * ended
        recorder.task(Attempt(job, stage, task, attempt, "a", index, at, at, end, False, code))
    for job, queue in queues.items():
        submit = 1000 * (submits or {}).get(job, 0)
        recorder.job(JobRow(id=job, queue=queue, submit_ms=submit, tasks=1, work_ms=1))
    recorder.finish(0)
    frames = recorder._jobs.frame().collect(), recorder._tasks.frame().collect(), recorder.node_rows()
    recorder.close()
    return frames


def row(job: str, start: int, end: int, count: int) -> list[tuple]:
    """So many tasks of a job side by side."""
    return [(job, 0, index + 100 * start, 0, start, end, 0) for index in range(count)]


def course(*args, queues=(), **kwargs):
    return fairness.queue_shares(*tables(*args, **kwargs), queues)


@pytest.fixture(scope="module")
def one_after_the_other():
    """Queue x has the whole cluster for 10 s while y waits, then y has it for 10 s."""
    return course({"j": "x", "k": "y"}, [*row("j", 0, 10, 4), *row("k", 10, 20, 4)])


@pytest.fixture(scope="module")
def side_by_side():
    """Both hold half for 10 s and would like all of it; then both hold half until they are done."""
    return course({"j": "x", "k": "y"}, [t for s in (0, 10) for job in "jk" for t in row(job, s, s + 10, 2)])


def test_shares_are_what_is_held(one_after_the_other):
    assert one_after_the_other.queues == ("x", "y")
    assert one_after_the_other.width_ms == 1000
    assert one_after_the_other.held.tolist() == [[1.0, 0.0]] * 10 + [[0.0, 1.0]] * 10


def test_the_fair_share_counts_what_waits(one_after_the_other):
    assert one_after_the_other.fair.tolist() == [[0.5, 0.5]] * 10 + [[0.0, 1.0]] * 10


def test_who_waits_below_the_fair_share_while_another_is_above_it_is_starved(one_after_the_other):
    assert one_after_the_other.state.tolist() == [[SATISFIED, STARVED]] * 10 + [[IDLE, SATISFIED]] * 10


def test_who_waits_at_the_fair_share_is_hungry(side_by_side):
    assert side_by_side.state.tolist() == [[HUNGRY, HUNGRY]] * 10 + [[SATISFIED, SATISFIED]] * 10


def test_who_waits_when_nobody_has_too_much_is_hungry():
    # y's task could start at once, as half the cluster is free: a slow heartbeat is nobody's injustice
    found = course({"j": "x", "k": "y"}, [*row("j", 0, 10, 2), *row("k", 5, 10, 1)])
    assert found.state.tolist() == [[SATISFIED, HUNGRY]] * 5 + [[SATISFIED, SATISFIED]] * 5


def test_a_task_that_would_not_fit_into_the_fair_share_does_not_starve():
    # z's fair share is 1/5, less than one task: what it lacks is a smaller task, not justice
    weights = [{"name": "x", "weight": 4.0}]
    found = course({"j": "x", "k": "z"}, [*row("j", 0, 10, 4), *row("k", 10, 20, 4)], queues=weights)
    assert found.fair[0].tolist() == pytest.approx([0.8, 0.2])
    assert found.state[0].tolist() == [SATISFIED, HUNGRY]


def test_weights_make_the_fair_share():
    found = course(
        {"j": "x", "k": "y"}, [*row("j", 0, 10, 4), *row("k", 10, 20, 4)], queues=[{"name": "y", "weight": 3}]
    )
    assert found.fair[0].tolist() == pytest.approx([0.25, 0.75])


def test_jain_of_a_window_is_of_means_over_it(one_after_the_other):
    # x: held 10 of 5 that were fair; y: 10 of 15. (2 + 2/3)^2 / (2 (4 + 4/9)) = 0.8
    assert fairness.jain_over_time(one_after_the_other, 60_000).tolist() == pytest.approx([0.8])


def test_jain_is_left_out_where_one_queue_is_alone(one_after_the_other):
    found = fairness.jain_over_time(one_after_the_other, 10_000)
    assert found[0] == pytest.approx(0.5)
    assert np.isnan(found[1])


def test_jain_is_one_when_everybody_has_the_fair_share(side_by_side):
    assert fairness.jain_over_time(side_by_side, 10_000).tolist() == [1.0, 1.0]


def test_the_rest_of_the_run_belongs_to_the_last_window():
    found = course({"j": "x", "k": "y"}, [*row("j", 0, 10, 4), *row("k", 10, 25, 4)])
    assert len(fairness.jain_over_time(found, 10_000)) == 2


def test_the_figures_of_the_summary(one_after_the_other):
    found = fairness.figures(one_after_the_other, ["x", "y"])
    assert found["fairness"].jain_10s == Windows(mean=0.5, worst=0.5)
    assert msgspec.to_builtins(found["fairness"].jain_60s) == pytest.approx({"mean": 0.8, "worst": 0.8})
    assert found["fairness"].queues["x"] == QueueFairness(satisfied_s=10.0, share_mean=0.5, fair_share_mean=0.25)
    assert found["fairness"].queues["y"] == QueueFairness(
        starved_s=10.0, satisfied_s=10.0, share_mean=0.5, fair_share_mean=0.75
    )


def test_a_new_queue_is_asked_about_at_the_time_of_highest_load():
    # from 5 s on three queues want everything: a fourth of weight 1 would get a quarter
    later = [*row("j", 0, 10, 4), *row("k", 10, 20, 4), *row("l", 20, 30, 4)]
    found = course({"j": "x", "k": "y", "l": "z"}, later, {"l": 5})
    assert fairness.figures(found, [])["new_queue"] == NewQueue(weight=1.0, share=0.25, at_s=5.0)


def test_a_new_queue_gets_what_a_guarantee_leaves():
    given_ = [{"name": "x", "guaranteed": 0.8}]
    found = course({"j": "x", "k": "y"}, [*row("j", 0, 10, 4), *row("k", 10, 20, 4)], queues=given_)
    assert fairness.figures(found, [])["new_queue"].share == pytest.approx(0.1)


def test_a_stage_waits_from_its_parents_end():
    tasks = [("j", 0, 0, 0, 0, 10, 0), ("j", 1, 0, 0, 14, 20, 0), ("k", 0, 0, 0, 0, 20, 0)]
    found = course({"j": "x", "k": "y"}, tasks)
    assert found.waiting[:, 0].tolist() == [0.0] * 10 + [0.25] * 4 + [0.0] * 6


def test_another_attempt_waits_from_the_end_of_the_one_before():
    tasks = [("j", 0, 0, 0, 0, 4, 1), ("j", 0, 0, 1, 7, 10, 0), ("k", 0, 0, 0, 0, 10, 0)]
    found = course({"j": "x", "k": "y"}, tasks)
    assert found.waiting[:, 0].tolist() == [0.0] * 4 + [0.25] * 3 + [0.0] * 3


def test_a_cell_in_which_nothing_ran_has_no_course():
    assert course({"j": "x"}, []) is None
    found = fairness.figures(None, ["x"])
    assert found["fairness"].jain_60s == Windows()
    assert found["new_queue"].share is None


def test_a_long_run_has_wider_buckets(monkeypatch):
    monkeypatch.setattr(fairness, "CELLS", 40)
    found = course({"j": "x", "k": "y"}, [*row("j", 0, 50, 4), *row("k", 50, 100, 4)])
    assert (found.width_ms, len(found.held)) == (10_000, 10)
    assert found.held[:, 0].tolist() == [1.0] * 5 + [0.0] * 5


interval = st.tuples(st.integers(0, 40), st.integers(0, 25), st.integers(1, 9), st.integers(0, 2))


@given(st.lists(interval, min_size=1, max_size=12), st.sampled_from([1, 4, 7, 50]))
@settings(max_examples=60, deadline=None)
def test_buckets_hold_what_counting_each_ms_gives(intervals, width):
    start, length, units, owner = (np.array(column, dtype=np.int64) for column in zip(*intervals, strict=True))
    end = start + length
    buckets = max(1, -(-int(end.max()) // width))
    slow = np.zeros((buckets, 3))
    for first, last, unit, who in zip(start, end, units, owner, strict=True):
        for ms in range(first, last):
            slow[ms // width, who] += unit
    found = metrics.integrals(owner, units.astype(float), start, end, width, buckets, 3)
    assert found.tolist() == slow.tolist()


def test_what_is_held_agrees_with_the_shares_of_the_summary(fabricate, tmp_path):
    from rm_emulator.results import metrics

    fabricate.cell(tmp_path, "fifo", None, 1, 60, 4, 2)
    frames = [pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("jobs", "tasks", "nodes")]
    found = fairness.queue_shares(*frames)
    whole = metrics.dominant_shares(*frames)
    span_ms = len(found.held) * found.width_ms
    each = dict(zip(found.queues, found.held.mean(axis=0) * span_ms / metrics.makespan_ms(frames[0]), strict=True))
    assert each == pytest.approx(whole)
