"""Evolution strategies on a network's weights."""

from __future__ import annotations

import numpy as np

from rm_emulator.learn import evolution
from schedulers.learned.weights import ARCHITECTURES, initial

WEIGHTS = initial(ARCHITECTURES["released"], np.random.default_rng(1))
SIGMA = 0.05


def distance(array: np.ndarray) -> float:
    return float(((array - 1) ** 2).sum())


def test_opposite_steps_are_opposite() -> None:
    step = evolution.steps(WEIGHTS, 1, seed=1, iteration=3)[0]
    ahead, behind = (evolution.moved(WEIGHTS, step, by).arrays["stage.0.weight"] for by in (SIGMA, -SIGMA))
    assert np.allclose((ahead + behind) / 2, WEIGHTS.arrays["stage.0.weight"], atol=1e-6)


def test_the_gradient_leads_to_lower_costs() -> None:
    name, weights = "stage.0.bias", WEIGHTS
    before = distance(weights.arrays[name])
    for iteration in range(30):
        steps = evolution.steps(weights, 16, seed=1, iteration=iteration)
        costs = [
            np.array([[distance(evolution.moved(weights, step, by).arrays[name])] for step in steps])
            for by in (SIGMA, -SIGMA)
        ]
        gradient = evolution.gradient(steps, costs[0], costs[1], SIGMA)
        weights = evolution.moved(weights, gradient, -0.05)
    assert distance(weights.arrays[name]) < 0.5 * before


def test_what_costs_the_same_leads_nowhere() -> None:
    steps = evolution.steps(WEIGHTS, 2, seed=1, iteration=0)
    gradient = evolution.gradient(steps, np.ones((2, 3)), np.ones((2, 3)), SIGMA)
    assert all(not array.any() for array in gradient.values())
