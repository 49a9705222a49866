"""Paired comparisons with known answers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from rm_emulator.results import statistics
from rm_emulator.results.figures import Speedups
from rm_emulator.results.record import JOB_SCHEMA
from rm_emulator.results.statistics import Pairs


def pairs(baseline, label):
    return Pairs(np.array(baseline, float), np.array(label, float), np.zeros(len(label), np.int8))


def jobs(finish: dict[str, int | None]) -> pl.DataFrame:
    rows = [{"id": name, "submit_ms": 0, "finish_ms": at, "work_ms": 5, "width": 1} for name, at in finish.items()]
    return pl.DataFrame(rows, schema=JOB_SCHEMA)


def test_the_three_averages_answer_different_questions():
    pair = pairs([10, 10, 100], [1, 20, 100])
    found = [statistic(pair.baseline, pair.label) for statistic in statistics.SPEEDUPS.values()]
    assert found == pytest.approx([120 / 121, (10 + 0.5 + 1) / 3, 1.0])


def test_jobs_are_paired_by_id():
    found = statistics.pair(jobs({"a": 1000, "b": 4000}), jobs({"b": 2000, "a": 1000}))
    assert (found.ids, found.ratios.tolist()) == (["a", "b"], [1.0, 2.0])


def test_jobs_that_finished_once_only_are_left_out():
    assert statistics.pair(jobs({"a": 1000, "b": None}), jobs({"a": 500, "b": 1})).ids == ["a"]


def test_a_completion_time_of_zero_counts_as_a_millisecond():
    assert statistics.pair(jobs({"a": 2}), jobs({"a": 0})).ratios.tolist() == [2.0]


def test_student_interval_of_three_values():
    # t(0.975, 2) = 4.302653 (any table), s = 1, n = 3
    assert statistics.student_t([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5))


def test_the_value_is_the_mean_over_seeds():
    seeds = [pairs([2], [1]), pairs([4], [1])]
    found = statistics.speedups(seeds).ratio_of_means
    assert found.value == 3.0


def test_an_interval_is_never_below_zero():
    seeds = [pairs([1], [10]), pairs([2], [1])]
    assert statistics.speedups(seeds).ratio_of_means.ci95[0] == 0.0


def test_one_seed_gets_a_bootstrap_that_covers_its_value():
    rng = np.random.default_rng(1)
    label = rng.lognormal(1, 1, 400)
    pair = pairs(label * rng.lognormal(0.3, 0.2, 400), label)
    found = statistics.speedups([pair]).p50_of_ratios
    assert found.ci95[0] < found.value < found.ci95[1]
    assert found.ci95 == pytest.approx([np.exp(0.3)] * 2, rel=0.05)


def test_the_bootstrap_gives_the_same_answer_again():
    pair = pairs(range(1, 50), range(50, 1, -1))
    assert statistics.bootstrap(pair, statistics.mean_of_ratios) == statistics.bootstrap(
        pair, statistics.mean_of_ratios
    )


def test_nothing_to_compare_is_null():
    assert statistics.speedups([pairs([], [])]) == Speedups()


def test_faster_and_slower_jobs_are_counted_over_all_seeds():
    found = statistics.compare("l", "b", {1: pairs([2, 1], [1, 1]), 2: pairs([1, 1], [2, 2])})
    assert (found.jobs_faster, found.jobs_slower) == (0.25, 0.5)
