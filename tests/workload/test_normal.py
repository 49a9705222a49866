"""Quantiles of the normal distribution, beside SciPy's."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from rm_emulator.workload.normal import quantiles


def test_values_are_scipy_s_to_the_bit() -> None:
    rng = np.random.default_rng(1)
    powers = 10 ** -(15.9 * rng.random(20_000))
    edges = [2**-53, np.exp(-32), np.exp(-2), np.nextafter(np.exp(-2), 1), 0.5, 1 - np.exp(-2), 1 - 1e-9, 1 - 2**-53]
    for given in (rng.random(20_000), powers, 1 - powers[powers > 1e-15], np.array(edges)):
        assert np.array_equal(quantiles(given), ndtri(given))
