"""What a decision cost, beside other rollouts of the same arrivals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.learn.returns import EpisodeTimes, advantages, cost_to_go, differential

TWO = EpisodeTimes(np.array([0.0, 10_000.0]), np.array([20_000.0, 30_000.0]), 30_000)
SLOWER = EpisodeTimes(np.array([0.0, 10_000.0]), np.array([20_000.0, 34_000.0]), 34_000)


def test_the_cost_of_a_whole_episode_is_the_sum_of_completion_times() -> None:
    assert cost_to_go(np.array([0.0]), TWO) == pytest.approx([40.0])
    assert pytest.approx(20.0) == TWO.jct_s


def test_the_cost_to_go_counts_jobs_that_are_still_to_come() -> None:
    assert cost_to_go(np.array([5_000.0, 15_000.0, 30_000.0]), TWO) == pytest.approx([35.0, 20.0, 0.0])


@given(st.floats(0, 40_000), st.floats(1, 1000))
def test_discounted_costs_are_the_integral_of_live_jobs_with_exponential_weights(time: float, horizon: float) -> None:
    grid = np.linspace(time, 40_000, 200_001)
    live = ((TWO.arrivals[:, None] <= grid) & (grid < TWO.ends[:, None])).sum(axis=0)
    expected = np.trapezoid(live * np.exp(-(grid - time) / 1000 / horizon), grid) / 1000
    assert cost_to_go(np.array([time]), TWO, horizon)[0] == pytest.approx(expected, abs=2e-3)


def test_a_rollout_that_ends_sooner_has_the_advantage_from_its_first_decision_on() -> None:
    times = [np.array([0.0, 31_000.0]), np.array([0.0, 31_000.0])]
    better, worse = advantages(times, [TWO, SLOWER])
    assert better == pytest.approx([2.0, 1.5])
    assert worse == pytest.approx([-2.0, -1.5])


def test_advantages_of_rollouts_with_the_same_decisions_are_nothing() -> None:
    times = [np.array([0.0, 12_345.0])] * 3
    assert np.concatenate(advantages(times, [TWO] * 3, horizon_s=50.0)) == pytest.approx(0)


def test_differential_costs_are_beside_a_mean_number_of_live_jobs() -> None:
    assert differential(np.array([0.0, 20_000.0, 40_000.0]), TWO, 1.5) == pytest.approx([45.0, 15.0, 0.0])


def test_the_makespan_is_the_completion_time_of_one_job() -> None:
    assert cost_to_go(np.array([0.0, 10_000.0]), SLOWER.makespan()) == pytest.approx([34.0, 24.0])
