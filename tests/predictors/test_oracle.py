"""`oracle`: the truth, or the truth times a factor that is the same whenever it is asked for."""

from __future__ import annotations

import pytest

from schedulers.core.errors import InvalidParameters
from schedulers.core.predictor import predictors


def answers(error: list[float], seed: int = 1) -> list[float]:
    cls, params = predictors.parse({"kind": "oracle", "error": error})
    made = cls(params, seed=seed)
    made.hear_estimates("j", (1000,) * 200)
    found = [made.estimate("j", stage) for stage in range(200)]
    assert found == [made.estimate("j", stage) for stage in range(200)]
    return [each.task_ms for each in found if each is not None]


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
