"""Answers from plays: quantiles, delays, and how good earlier answers were."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from rm_emulator.forecasts.answers import (
    Delay,
    Expected,
    Judgement,
    at_quantiles,
    delays,
    expected,
    judge,
    most_frequent,
)
from rm_emulator.forecasts.plays import JobCourse


def test_a_time_is_told_by_three_quantiles_that_came_in_some_draw() -> None:
    assert expected(range(0, 1900, 100)) == Expected(100, 900, 1700)


@pytest.mark.parametrize("draws", [10, 20, 50])
def test_the_interval_of_so_many_draws_holds_eighty_percent_of_further_draws(draws: int) -> None:
    random = np.random.default_rng(7)
    answers = np.array([at_quantiles(row) for row in random.standard_normal((4000, draws)).tolist()])
    chances = ndtr(answers)  # exact for each answer, so that the mean over 4,000 is exact to 0.003
    assert (chances[:, 2] - chances[:, 0]).mean() == pytest.approx(0.8, abs=0.02)
    assert chances.mean(axis=0) == pytest.approx([0.1, 0.5, 0.9], abs=0.06)


def test_a_quantile_in_draws_that_never_end_is_never() -> None:
    assert expected([5, 6, None, 8, None]) == Expected(5, 8, None)
    assert expected([5, *range(6, 14), None]) == Expected(5, 10, None)
    assert expected([None, None]) == Expected(None, None, None)


def courses(**ends: int | None) -> dict[str, JobCourse]:
    return {job: JobCourse(0, end) for job, end in ends.items()}


def test_delays_are_counted_draw_by_draw_and_the_most_delayed_stands_first() -> None:
    without = [courses(a=100, b=100, c=100), courses(a=200, b=100, c=50)]
    with_ = [courses(a=150, b=400, c=100, new=1), courses(a=250, b=400, c=50, new=1)]
    assert delays(without, with_, 0) == (Delay("b", 300, 300, 300), Delay("a", 50, 50, 50))


def test_a_job_that_some_draw_does_not_end_has_no_delay() -> None:
    assert delays([courses(a=None)], [courses(a=500)], 0) == ()


def test_nodes_of_half_of_the_draws_are_told() -> None:
    assert most_frequent([["n1", "n2"], ["n1"], ["n1", "n3"], ["n2"]], 4) == ("n1", "n2")


def test_an_answer_is_judged_by_the_end_that_came_or_by_an_interval_that_is_over() -> None:
    earlier = [
        Judgement("in", 10, 20),
        Judgement("before", 10, 20),
        Judgement("after", 10, 20),
        Judgement("still runs, too long", 10, 20),
        Judgement("still runs, may be right", 10, 200),
        Judgement("open", None, None),
    ]
    ended = {"in": 15, "before": 5, "after": 25, "open": 7}
    assert judge(earlier, ended, 100) == (5, 2)
