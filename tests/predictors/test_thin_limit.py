"""The adaptive thin limit: which jobs it is judged by, and which limit is taken."""

from __future__ import annotations

import msgspec
import pytest

from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, Stage
from schedulers.core.predictor import FinishedTask, Predictor, predictors
from schedulers.kit.thin_limit import AdaptiveThinLimit

LIMITS = (2, 3, 5)


def job(job_id: str, tasks: int) -> Job:
    return Job(id=job_id, stages=(Stage(name="s", tasks=tasks, demand=(1,)),))


def tried(limit: AdaptiveThinLimit, number: int, width: int, **took_ms: int) -> list[int]:
    """The limits that so many jobs meet; under the limit `tN` a job takes so long, with a task of 10 ms."""
    met = []
    for index in range(number):
        spec = job(f"{width}-{index}", width)
        met.append(limit.choose(spec, 0))
        limit.finished(spec.id, 10)
        limit.done(spec.id, took_ms.get(f"t{met[-1]}", 10))
    return met


def test_each_limit_is_tried_for_25_jobs_and_the_best_is_kept() -> None:
    met = tried(AdaptiveThinLimit(LIMITS), 80, 4, t2=30, t3=20, t5=40)
    assert met == [2] * 25 + [3] * 25 + [5] * 25 + [3] * 5


@pytest.mark.parametrize("width", [1, 5, 90])
def test_jobs_that_no_limit_treats_differently_say_nothing(width: int) -> None:
    assert tried(AdaptiveThinLimit(LIMITS), 40, width) == [2] * 40


def test_a_score_is_the_mean_completion_time_over_the_longest_task() -> None:
    limit = AdaptiveThinLimit(LIMITS)
    tried(limit, 2, 2, t2=25)
    assert limit.score(2) == 2.5
    assert limit.score(3) == float("inf")


def test_a_cancelled_job_scores_nothing() -> None:
    limit = AdaptiveThinLimit(LIMITS)
    limit.choose(job("j", 4), 0)
    limit.finished("j", 10)
    limit.gone("j")
    limit.done("j", 20)
    assert limit.score(2) == float("inf")


def test_what_was_learned_survives_a_restart() -> None:
    limit, other = AdaptiveThinLimit(LIMITS), AdaptiveThinLimit(LIMITS)
    tried(limit, 60, 4, t2=30, t3=20)
    limit.choose(job("runs", 4), 7)
    other.load(msgspec.msgpack.decode(msgspec.msgpack.encode(limit.dump())))
    assert other.dump() == limit.dump()
    assert tried(other, 30, 3, t2=30, t3=20) == tried(limit, 30, 3, t2=30, t3=20)


def make(**settings: object) -> Predictor:
    cls, params = predictors.parse({"kind": "slearn", **settings})
    return cls(params, seed=1)


def test_slearn_samples_by_the_limit_that_is_tried() -> None:
    predictor = make(thin_limits=[2, 4])
    thin = []
    for index in range(50):
        plan = predictor.submitted(job(f"j{index}", 3), 0)
        assert plan is not None
        thin.append(plan.thin)
        predictor.finished(FinishedTask(f"j{index}", 0, 0, pilot=not plan.thin), 10, 1.0, 0)
        predictor.job_done(job(f"j{index}", 3), 30)
    assert thin == [False] * 25 + [True] * 25


def test_slearn_has_one_limit_unless_told_otherwise() -> None:
    predictor = make()
    for index in range(60):
        plan = predictor.submitted(job(f"j{index}", 2), 0)
        assert plan is not None
        assert plan.thin


def test_limits_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidParameters, match=r"thin_limits \[4, 2\] have to ascend"):
        predictors.parse({"kind": "slearn", "thin_limits": [4, 2]})
