"""What the state explains of costs is taken off."""

from __future__ import annotations

import numpy as np
import pytest

from rm_emulator.learn.critic import WIDTH, less_group_mean, residuals

DRAWN = np.random.default_rng(1)


def test_what_follows_from_the_state_is_no_advantage() -> None:
    states = DRAWN.standard_normal((500, WIDTH))
    own = DRAWN.standard_normal(500)
    left = residuals(states @ np.arange(WIDTH) + own, states)
    assert np.corrcoef(left, own)[0, 1] > 0.98


def test_a_few_decisions_stay_as_they_are() -> None:
    few = np.array([1.0, -1.0])
    assert residuals(few, np.ones((2, WIDTH))) is few


def test_features_are_beside_the_mean_at_the_same_time() -> None:
    rows = np.ones((2, WIDTH))
    times = [np.array([0.0, 1000.0]), np.array([0.0, 2000.0])]
    first, second = less_group_mean(times, [rows, 3 * rows], [2000, 2000])
    assert first[0] == pytest.approx(-1)
    assert second[0] == pytest.approx(1)


def test_nothing_is_left_when_an_episode_has_ended() -> None:
    rows = np.ones((1, WIDTH))
    _, late = less_group_mean([np.array([0.0]), np.array([900.0])], [rows, rows], [100, 1000])
    assert late[0] == pytest.approx(0.5)
