"""CMA-ES, which comes to the same bits on every machine."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.learn import cma
from rm_emulator.learn.cma import Search
from schedulers.learned.graph import Doubles


def bowl(numbers: Doubles) -> Doubles:
    """A long valley whose least is at 1, 2, 3."""
    off = numbers - np.array([1.0, 2.0, 3.0])
    return np.asarray((off**2) @ np.array([1.0, 30.0, 1000.0]))


def test_evolution_finds_the_least_of_a_long_valley() -> None:
    search = Search.begin(np.zeros(3), 0.5, np.ones(3))
    while search.generation < 120:
        numbers = search.candidates(8, 1)
        search.select(numbers, bowl(numbers))
    assert search.mean == pytest.approx([1.0, 2.0, 3.0], abs=1e-3)


def test_a_kept_search_goes_on_without_a_difference() -> None:
    one = Search.begin(np.zeros(3), 0.5, np.ones(3))
    searches = [one]
    for generation in range(10):
        if generation == 5:
            searches.append(Search.restored(json.loads(json.dumps(one.kept))))
        for search in searches:
            numbers = search.candidates(8, 1)
            search.select(numbers, bowl(numbers))
    assert searches[0].kept == searches[1].kept


@settings(max_examples=20)
@given(st.integers(1, 6), st.floats(1, 1e6), st.integers(0, 1000))
def test_roots_of_a_covariance_are_its_roots(size: int, ratio: float, seed: int) -> None:
    turned, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))
    matrix = (turned * np.geomspace(1, 1 / ratio, size)) @ turned.T
    matrix = (matrix + matrix.T) / 2
    triangle, inverse = cma._triangle(matrix), cma._inverse_root(matrix)
    assert triangle == pytest.approx(np.linalg.cholesky(matrix), abs=1e-8)
    assert inverse @ inverse @ matrix == pytest.approx(np.eye(size), abs=1e-8)


@given(st.floats(-50, 50))
def test_exponentials_and_logarithms_are_those_of_the_c_library_but_for_the_last_bit(number: float) -> None:
    assert cma.exponential(number) == pytest.approx(math.exp(number), rel=1e-15)
    assert cma.logarithm(math.exp(number)) == pytest.approx(number, rel=1e-14, abs=1e-15)
