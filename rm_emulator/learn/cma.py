"""CMA-ES: evolution with a learned covariance (Hansen, The CMA Evolution Strategy: A Tutorial, arXiv 1604.00772).

Every machine comes to the same bits: products are sums in a fixed order, without BLAS, and logarithms and exponentials
are rounded correctly, which no C library promises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Self

import numpy as np

from schedulers.core import keyed
from schedulers.learned.graph import Doubles

#: Steps to a root. Each more than doubles the least eigenvalue relative to the largest, so this is enough for ratios
#: up to 1e10.
_STEPS: Final = 40


@dataclass
class Search:
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

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> Self:
        """A search as `kept` tells it."""
        values: Any = {name: np.array(value) if isinstance(value, list) else value for name, value in kept.items()}
        return cls(**values)

    @property
    def kept(self) -> dict[str, Any]:
        """The search as plain data, exactly."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    def candidates(self, count: int, seed: int) -> Doubles:
        """Numbers of a generation, count x numbers."""
        generator = keyed.generator(seed, "evolution", self.generation)
        steps = generator.standard_normal((count, len(self.mean)))
        return self.mean + self.sigma * _product(steps, _triangle(self.covariance).T)

    def select(self, candidates: Doubles, costs: Doubles) -> None:
        """Go on to the next generation: the better half by cost, weighted by rank (tutorial, figure 6)."""
        size, half = len(self.mean), len(costs) // 2
        first = logarithm((len(costs) + 1) / 2)
        weights = np.array([first - logarithm(rank) for rank in range(1, half + 1)])
        weights /= weights.sum()
        mass = 1 / (weights**2).sum()
        steps = (candidates[np.argsort(costs, kind="stable")[:half]] - self.mean) / self.sigma
        step = (weights[:, None] * steps).sum(axis=0)
        self.mean = self.mean + self.sigma * step
        self.generation += 1
        rate = (mass + 2) / (size + mass + 5)
        white = (_inverse_root(self.covariance) * step).sum(axis=1)
        self.width_path = (1 - rate) * self.width_path + math.sqrt(rate * (2 - rate) * mass) * white
        length = math.sqrt((self.width_path**2).sum())
        expected = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))
        fresh = 1.0
        for _ in range(2 * self.generation):
            fresh *= 1 - rate
        settled = length / math.sqrt(1 - fresh) < (1.4 + 2 / (size + 1)) * expected
        slow = (4 + mass / size) / (size + 4 + 2 * mass / size)
        self.path = (1 - slow) * self.path + settled * math.sqrt(slow * (2 - slow) * mass) * step
        one = 2 / ((size + 1.3) ** 2 + mass)
        many = min(1 - one, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
        old = 1 - one - many + (0 if settled else one * slow * (2 - slow))
        spread = _product(steps.T * weights, steps)
        self.covariance = old * self.covariance + one * np.outer(self.path, self.path) + many * spread
        damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (size + 1)) - 1) + rate
        self.sigma *= exponential(min(1.0, rate / damping * (length / expected - 1)))


def logarithm(number: float) -> float:
    """The natural logarithm, the same on every machine."""
    return float(Decimal(number).ln())


def exponential(number: float) -> float:
    """The exponential function, the same on every machine."""
    return float(Decimal(number).exp())


def _product(one: Doubles, other: Doubles) -> Doubles:
    """The product of two matrices, each number summed from the first row to the last."""
    total = np.zeros((len(one), other.shape[1]))
    for row in range(len(other)):
        total += one[:, row, None] * other[row]
    return total


def _triangle(matrix: Doubles) -> Doubles:
    """The lower triangle L with L L^T = matrix (Cholesky)."""
    left, found = matrix.copy(), np.zeros_like(matrix)
    for at in range(len(matrix)):
        found[at:, at] = left[at:, at] / math.sqrt(left[at, at])
        left -= found[:, at, None] * found[:, at]
    return found


def _inverse_root(matrix: Doubles) -> Doubles:
    """The symmetric M with M M matrix = 1, by the coupled iteration of Newton and Schulz (Higham 2008, 6.7)."""
    unit, scale = np.eye(len(matrix)), math.sqrt((matrix**2).sum())
    root, inverse = matrix / scale, unit
    for _ in range(_STEPS):
        step = (3 * unit - _product(inverse, root)) / 2
        root, inverse = _product(root, step), _product(step, inverse)
    return inverse / math.sqrt(scale)
