"""Evolution strategies on the network's weights (Salimans et al. 2017, arXiv 1703.03864), with common random numbers.

Opposite steps are played greedily on the same sequences under the same durations, so that two players differ in their
decisions only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from schedulers.core import keyed
from schedulers.learned.graph import Doubles, Floats
from schedulers.learned.weights import Weights


def steps(weights: Weights, pairs: int, seed: int, iteration: int) -> list[dict[str, Floats]]:
    """Directions of this iteration, one direction per pair; arrays by name."""
    found = []
    for pair in range(pairs):
        generator = keyed.generator(seed, "evolution", iteration, pair)
        found.append({name: generator.standard_normal(a.shape, np.float32) for name, a in weights.arrays.items()})
    return found


def moved(weights: Weights, step: dict[str, Floats], by: float) -> Weights:
    """The weights after `by` times the step. Biases and weights move alike."""
    return Weights(weights.architecture, {name: a + np.float32(by) * step[name] for name, a in weights.arrays.items()})


def gradient(
    directions: Sequence[dict[str, Floats]], ahead: Doubles, behind: Doubles, sigma: float
) -> dict[str, Floats]:
    """Gradient of the cost, by ranks. ahead, behind: [pairs, sequences], costs of each pair's two players.

    Costs are ranked among all players of a sequence, so that long and short sequences have equal weights.
    """
    costs = np.concatenate([ahead, behind])
    ranks = rankdata(costs, axis=0) / len(costs)
    shares = (ranks[: len(ahead)] - ranks[len(ahead) :]).mean(axis=1) / (len(ahead) * sigma)
    return {
        name: np.sum([np.float32(s) * d[name] for s, d in zip(shares, directions, strict=True)], axis=0)
        for name in directions[0]
    }
