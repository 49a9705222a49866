"""The study of speed-up curves: jobs are alone, and the fit finds what made the times."""

from __future__ import annotations

import math
from itertools import product

import pytest

from schedulers.kit.speedups import FITS, Shape, spans
from studies.speedups import alone, fitted, scenario

SHAPES = [
    Shape(float(work), path, depth, tasks)
    for work, path, depth, tasks in product((50, 300, 2000, 9000), (3.0, 8.0, 20.0), (2, 6), (30, 400, 2500))
]


@pytest.mark.parametrize(("inverted", "executors"), [(True, 9), (True, 49), (False, 10), (False, 50)])
def test_a_fit_to_times_by_the_formula_tells_such_times(inverted: bool, executors: int) -> None:
    times = [
        (f"q{n % 7}", shape, dict(spans(shape, executors, inverted=inverted))[executors])
        for n, shape in enumerate(SHAPES)
    ]
    coefficients, error = fitted(times, executors)
    row = next(row for row in FITS[inverted] if row[0] == executors)
    assert coefficients == pytest.approx(row[1:], abs=0.03)
    assert error < 0.01


def test_jobs_of_equal_shape_are_one_with_the_mean_of_their_times() -> None:
    once = [("q", shape, 10.0) for shape in SHAPES] + [("p", shape, 10.0) for shape in SHAPES]
    twice = [(name, shape, time + off) for name, shape, time in once for off in (-5.0, 5.0)]
    assert fitted(twice, 5)[0] == pytest.approx(fitted(once, 5)[0])
    assert fitted(once, 5)[0][0] == pytest.approx(math.log(10.0), abs=0.01)


def test_played_jobs_are_alone_and_as_promised() -> None:
    jobs = alone(scenario(4, inverted=True, jobs=6, sizes=[2], queries=[2, 14]))
    assert {name for name, *_ in jobs} == {"tpch-q2", "tpch-q14"}
    for name, shape, _ in jobs:
        equal = [time for other, _, time in jobs if other == name]
        assert max(equal) < 1.3 * min(equal), "a job that waits takes longer"
        assert shape.path < min(equal) < shape.work
