"""`oracle`: the truth, or the truth times a factor that is the same whenever it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, Stage
from schedulers.core.predictor import Predictor, predictors

QUANTILES = [[0, -0.7], [0.2, -0.18], [0.7, 0.18], [0.9, 2.8], [1, 30]]


def oracle(seed: int = 1, **settings: Any) -> Predictor:
    cls, params = predictors.parse({"kind": "oracle", **settings})
    return cls(params, seed=seed)


def answers(error: list[float], seed: int = 1, stages: int = 200, **settings: Any) -> list[float]:
    made = oracle(seed, error=error, **settings)
    made.hear_estimates("j", (1000,) * stages)
    found = [made.estimate("j", stage) for stage in range(stages)]
    assert found == [made.estimate("j", stage) for stage in range(stages)]
    return [each.task_ms for each in found if each is not None]


def sizes(jobs: int, task_ms: int, **settings: Any) -> list[float]:
    """The answers for jobs of ten equal tasks."""
    made, found = oracle(**settings), []
    for n in range(jobs):
        job = Job(id=f"job-{n}", stages=(Stage(name="tasks", tasks=10, demand=(1, 1)),))
        made.hear_estimates(job.id, (task_ms,))
        made.submitted(job, 0)
        said = made.estimate(job.id, 0)
        found.append(0.0 if said is None else said.task_ms)
    return found


def test_without_an_error_it_says_the_truth() -> None:
    assert set(answers([0, 0])) == {1000.0}
    assert set(answers([-0.5, -0.5])) == {500.0}


def test_errors_fill_their_range_and_hang_on_seed_and_stage() -> None:
    found = answers([-0.5, 0.75])
    assert 500 <= min(found) < 520
    assert 1730 < max(found) <= 1750
    assert found == answers([-0.5, 0.75])
    assert found != answers([-0.5, 0.75], seed=2)


@pytest.mark.parametrize("error", [[-1, 0], [0.5, 0.2]])
def test_a_range_that_makes_no_sense_is_refused(error: list[float]) -> None:
    with pytest.raises(InvalidParameters, match="error is"):
        answers(error)


def test_errors_have_the_quantiles_asked_for() -> None:
    found = np.array(answers([0, 0], stages=4000, error_quantiles=QUANTILES)) / 1000 - 1
    for part, error in QUANTILES[1:-1]:
        assert (found <= error).mean() == pytest.approx(part, abs=0.02)
    assert found.min() >= -0.7
    assert found.max() <= 30


def test_between_two_quantiles_the_factor_is_log_uniform() -> None:
    found = np.log(answers([0, 0], stages=4000, error_quantiles=[[0, 0], [1, 99]])) - np.log(1000)
    assert found.mean() == pytest.approx(np.log(100) / 2, rel=0.03)


@pytest.mark.parametrize("wrong", [[[0, 0]], [[0, 0.5], [1, 0.2]], [[0.1, 0], [1, 1]], [[0, -1], [1, 1]]])
def test_quantiles_that_make_no_sense_are_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(InvalidParameters, match="error_quantiles is"):
        answers([0, 0], error_quantiles=wrong)


def test_a_share_of_the_large_jobs_is_taken_for_a_hundredth() -> None:
    found = sizes(2000, 1000, underestimated=0.2, large_ms=10_000)
    assert set(found) == {1000.0, 10.0}
    assert found.count(10.0) / 2000 == pytest.approx(0.2, abs=0.03)


def test_jobs_below_the_line_are_not_underestimated() -> None:
    assert set(sizes(50, 999, underestimated=1.0, large_ms=10_000)) == {999.0}


def test_a_larger_share_has_all_jobs_of_a_smaller_one() -> None:
    few, many = sizes(500, 1000, underestimated=0.1), sizes(500, 1000, underestimated=0.3)
    assert all(more == 10.0 for less, more in zip(few, many, strict=True) if less == 10.0)


def test_an_underestimated_job_is_so_on_every_node() -> None:
    made = oracle(underestimated=1.0)
    job = Job(id="j", stages=(Stage(name="tasks", tasks=1, demand=(1, 1)),))
    made.hear_estimates("j", (1000,))
    made.hear_estimates_by_node("j", {"n": (3000,)})
    made.submitted(job, 0)
    assert made.estimate_on("j", 0, "n") == 30.0


def test_an_underestimated_job_has_no_other_error() -> None:
    assert set(sizes(50, 1000, underestimated=1.0, error=[1, 3], error_quantiles=QUANTILES)) == {10.0}


def test_who_is_underestimated_survives_a_restart() -> None:
    made, other = oracle(underestimated=1.0), oracle(underestimated=1.0)
    made.hear_estimates("j", (1000,))
    made.submitted(Job(id="j", stages=(Stage(name="tasks", tasks=1, demand=(1, 1)),)), 0)
    other.load(made.dump())
    assert other.estimate("j", 0) == made.estimate("j", 0)
