"""CMA-ES: evolution with a learned covariance (Hansen, The CMA Evolution Strategy: A Tutorial, arXiv 1604.00772)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from schedulers.core import keyed

Doubles = NDArray[np.float64]


@dataclass
class Evolution:
    """What a next generation comes of: a normal distribution, and the paths of its mean and its width."""

    mean: Doubles
    sigma: float
    covariance: Doubles
    path: Doubles
    width_path: Doubles
    generation: int = 0

    @classmethod
    def begin(cls, mean: Doubles, sigma: float, deviations: Doubles) -> Self:
        """A first generation. deviations: of each number, times sigma."""
        zero = np.zeros(len(mean))
        return cls(mean, sigma, np.diag(deviations**2), zero, zero.copy())

    def candidates(self, count: int, seed: int) -> Doubles:
        """Numbers of a generation, count x numbers."""
        generator = keyed.generator(seed, "evolution", self.generation)
        steps = generator.standard_normal((count, len(self.mean))) @ np.linalg.cholesky(self.covariance).T
        return self.mean + self.sigma * steps

    def select(self, candidates: Doubles, costs: Doubles) -> None:
        """Go on to the next generation: the better half by cost, weighted by rank (tutorial, figure 6)."""
        size, half = len(self.mean), len(costs) // 2
        weights = np.log((len(costs) + 1) / 2) - np.log(np.arange(1, half + 1))
        weights /= weights.sum()
        mass = 1 / (weights**2).sum()
        steps = (candidates[np.argsort(costs, kind="stable")[:half]] - self.mean) / self.sigma
        step = weights @ steps
        self.mean = self.mean + self.sigma * step
        self.generation += 1
        values, vectors = np.linalg.eigh(self.covariance)
        white = vectors @ ((vectors.T @ step) / np.sqrt(values))
        rate = (mass + 2) / (size + mass + 5)
        self.width_path = (1 - rate) * self.width_path + np.sqrt(rate * (2 - rate) * mass) * white
        length, expected = np.linalg.norm(self.width_path), np.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))
        settled = length / np.sqrt(1 - (1 - rate) ** (2 * self.generation)) < (1.4 + 2 / (size + 1)) * expected
        slow = (4 + mass / size) / (size + 4 + 2 * mass / size)
        self.path = (1 - slow) * self.path + settled * np.sqrt(slow * (2 - slow) * mass) * step
        one = 2 / ((size + 1.3) ** 2 + mass)
        many = min(1 - one, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
        old = 1 - one - many + (0 if settled else one * slow * (2 - slow))
        self.covariance = (
            old * self.covariance + one * np.outer(self.path, self.path) + many * (steps.T * weights) @ steps
        )
        damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (size + 1)) - 1) + rate
        self.sigma *= float(np.exp(min(1.0, rate / damping * (length / expected - 1))))
