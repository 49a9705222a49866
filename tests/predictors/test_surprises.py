"""How far a surprise carries from the root stages to later ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from schedulers.kit.surprises import Surprises, root_error

KEYS = (("app", "etl"), ("job_name", "etl/nightly"), ("user", "ann"))


def seen(slope: float, noise: float, jobs: int = 200) -> Surprises:
    """Jobs whose later stage errs by `slope` times the roots' error, and by a deviation of `noise` besides."""
    draw, made = np.random.default_rng(3), Surprises()
    for x, rest in draw.normal(0, 1, (jobs, 2)).tolist():
        made.learn(KEYS, 1, x, slope * x + noise * rest)
    return made


def test_before_any_job_no_surprise_carries() -> None:
    assert Surprises().carry(KEYS, 1) == (0, 1)


def test_known_answer_of_one_job_without_features() -> None:
    """Both errors 1, beside five jobs of unit variance and no covariance: C = ((1, 1/6), (1/6, 1))."""
    made = Surprises()
    made.learn((), 1, 1.0, 1.0)
    assert made.carry((), 1) == (pytest.approx(1 / 6), pytest.approx(35 / 36))


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0])
def test_the_slope_is_learned(slope: float) -> None:
    assert seen(slope, 0.1).carry(KEYS, 1).slope == pytest.approx(slope, abs=0.1)


def test_what_follows_exactly_leaves_little_unexplained() -> None:
    assert seen(1.0, 0.0).carry(KEYS, 1).unexplained < 0.1
    assert seen(0.0, 1.0).carry(KEYS, 1).unexplained > 0.8


def test_another_application_is_told_by_all_jobs() -> None:
    assert 0.7 < seen(1.0, 0.1).carry((("app", "other"),), 1).slope < 1


def test_an_application_that_errs_otherwise_is_believed() -> None:
    made = seen(1.0, 0.1)
    for x in np.random.default_rng(4).normal(0, 1, 100).tolist():
        made.learn((("app", "other"),), 1, x, -x)
    assert made.carry((("app", "other"),), 1).slope < -0.8


def test_a_dump_is_taken_over() -> None:
    made, other = seen(0.5, 0.5), Surprises()
    other.load(made.dump())
    assert other.carry(KEYS, 1) == made.carry(KEYS, 1)


def test_the_error_of_several_roots_is_that_of_their_work() -> None:
    """One second of work took two, three seconds took three: five instead of four."""
    assert root_error([(0.0, math.log(2)), (math.log(3), 0.0)]) == pytest.approx(math.log(5 / 4))
