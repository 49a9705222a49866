"""History as prior, pilots as evidence."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan, predictors
from schedulers.kit.beliefs import normal_posterior, point, quantile, weigh


def make(**settings: object) -> Predictor:
    cls, params = predictors.parse({"kind": "posterior", "fixed_percent": 1, **settings})
    return cls(params, seed=1)


def job(*tasks: int, name: str = "nightly", job_id: str = "j") -> Job:
    """A chain of stages with these numbers of tasks."""
    stages = tuple(Stage(name=str(i), tasks=n, demand=(1,), parents=(i - 1,) if i else ()) for i, n in enumerate(tasks))
    return Job(id=job_id, name=name, stages=stages)


def past(*ms: float, later: float | None = None) -> list[PastJob]:
    return [
        PastJob(
            name="nightly",
            submitted=n * 1000,
            finished=n * 1000 + 500,
            stages=((10, value),) if later is None else ((10, value), (10, later)),
        )
        for n, value in enumerate(ms)
    ]


STEADY = past(*[1000.0] * 60)
SHAKY = past(*[1000.0 * 4 ** math.sin(n * n) for n in range(60)])


def primed(history: list[PastJob], **settings: object) -> Predictor:
    predictor = make(**settings)
    predictor.prime(history)
    return predictor


def plan_of(predictor: Predictor, spec: Job) -> SamplePlan | None:
    return predictor.submitted(spec, 100_000)


def told(predictor: Predictor, stage: int = 0) -> Estimate:
    estimate = predictor.estimate("j", stage)
    assert estimate is not None
    return estimate


def learned(predictor: Predictor, spec: Job, ms: int) -> Estimate:
    """Submit, let every pilot take `ms`, and ask about the first stage."""
    plan = plan_of(predictor, spec)
    assert plan is not None
    for stage, task in plan.pilots:
        predictor.finished(FinishedTask(spec.id, stage, task, True), ms, 1.0, 100_001)
    return told(predictor)


# -- the model of SLearn, section 4.1 -----------------------------------------------------------


def test_known_answer_of_the_analytic_model() -> None:
    mean, variance = normal_posterior(10, 4, (12 + 14 + 13) / 3, 9 / 3)
    assert (mean, variance) == (pytest.approx(11.7143, abs=1e-4), pytest.approx(1.7143, abs=1e-4))


def test_without_a_prior_the_posterior_is_the_sample() -> None:
    assert normal_posterior(10, 1e12, 13, 3) == (pytest.approx(13.0), pytest.approx(3.0))


def test_one_pilot_is_as_good_as_history_when_tasks_vary_as_jobs_do() -> None:
    draw = np.random.default_rng(1)
    means = draw.normal(10, 2, 200_000)
    assert np.var(draw.normal(means, 2) - means) == pytest.approx(np.var(means - 10), rel=0.02)


@pytest.mark.parametrize("pilots", [2, 4])
def test_m_pilots_have_an_mth_of_historys_error_when_tasks_vary_as_jobs_do(pilots: int) -> None:
    draw = np.random.default_rng(2)
    means = draw.normal(10, 2, 100_000)
    said = draw.normal(means[:, None], 2, (means.size, pilots)).mean(axis=1)
    assert np.var(said - means) == pytest.approx(4 / pilots, rel=0.02)


def test_the_posterior_beats_both_parents() -> None:
    draw = np.random.default_rng(3)
    means = draw.normal(10, 2, 50_000)
    seen = draw.normal(means, 3)
    both = np.array([normal_posterior(10, 4, y, 9)[0] for y in seen])
    assert np.var(both - means) == pytest.approx(1 / (1 / 4 + 1 / 9), rel=0.03)


# -- mixtures -----------------------------------------------------------------------------------

PARTS = st.lists(st.tuples(st.floats(0.1, 1), st.floats(-5, 15), st.floats(0.05, 3)), min_size=1, max_size=3).map(
    lambda rows: [(w / sum(r[0] for r in rows), mean, sd) for w, mean, sd in rows]
)


def test_one_part_is_weighed_as_a_normal() -> None:
    assert weigh([(1.0, 10, 2)], 13, 3) == [
        (1.0, pytest.approx(11.7143, abs=1e-4), pytest.approx(math.sqrt(1.7143), abs=1e-4))
    ]


def test_far_off_evidence_is_ascribed_to_the_tail() -> None:
    core, tail = weigh([(0.8, 0.0, 0.5), (0.2, 0.0, 3.0)], 5.0, 0.01)
    assert tail[0] > 0.99 > core[0]


def test_foreseen_evidence_is_ascribed_to_the_core() -> None:
    core, _ = weigh([(0.8, 0.0, 0.5), (0.2, 0.0, 3.0)], 0.1, 0.01)
    assert core[0] > 0.9


@given(PARTS, st.floats(-5, 15), st.floats(0.001, 4))
def test_weights_add_up_to_one(parts: list[tuple[float, float, float]], evidence: float, doubt: float) -> None:
    assert sum(w for w, _, _ in weigh(parts, evidence, doubt)) == pytest.approx(1)


@given(PARTS, st.floats(-5, 15), st.floats(0.001, 4))
def test_every_part_moves_towards_the_evidence(
    parts: list[tuple[float, float, float]], evidence: float, doubt: float
) -> None:
    for (_, before, _), (_, after, _) in zip(parts, weigh(parts, evidence, doubt), strict=True):
        assert min(before, evidence) - 1e-9 <= after <= max(before, evidence) + 1e-9


def test_the_point_of_a_log_normal() -> None:
    assert [point([(1.0, 2.0, 0.5)], p) for p in (-2, 0, 1)] == pytest.approx(
        [math.exp(2 - 0.25), math.exp(2), math.exp(2 + 0.125)]
    )


@given(PARTS)
def test_a_higher_power_gives_a_longer_estimate(parts: list[tuple[float, float, float]]) -> None:
    points = [point(parts, power) for power in (-2, -1, 0, 1, 2)]
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(points))


@given(PARTS, st.floats(0.01, 0.99))
def test_the_quantile_has_that_share_below_it(parts: list[tuple[float, float, float]], q: float) -> None:
    at = quantile(parts, q)
    below = [sum(w * NormalDist(mean, sd).cdf(x) for w, mean, sd in parts) for x in (at - 2e-3, at + 2e-3)]
    assert below[0] <= q <= below[1]


# -- the predictor ------------------------------------------------------------------------------


def test_narrow_jobs_wait_in_the_queue_of_historys_estimate() -> None:
    plan = plan_of(primed(STEADY), job(10))
    assert plan is not None
    assert plan.rest == "queued"


def test_wide_jobs_are_held() -> None:
    plan = plan_of(primed(STEADY), job(21))
    assert plan is not None
    assert plan.rest == "held"


def test_held_tasks_have_no_estimate() -> None:
    predictor = primed(STEADY, rest="held")
    plan_of(predictor, job(10))
    assert predictor.estimate("j", 0) is None


def test_queued_lets_wide_jobs_wait_too() -> None:
    plan = plan_of(primed(STEADY, rest="queued"), job(100))
    assert plan is not None
    assert plan.rest == "queued"


@pytest.mark.parametrize("setting", ["narrow", "sure"])
@pytest.mark.parametrize(("history", "rest"), [(STEADY, "queued"), (SHAKY, "held")])
def test_unsure_history_holds_tasks_back(history: list[PastJob], rest: str, setting: str) -> None:
    plan = plan_of(primed(history, rest=setting, unsure_above=0.9), job(10))
    assert plan is not None
    assert plan.rest == rest


def test_sure_history_lets_wide_jobs_wait_where_width_does_not_matter() -> None:
    plan = plan_of(primed(STEADY, rest="sure"), job(100))
    assert plan is not None
    assert plan.rest == "queued"


def test_without_history_tasks_are_held_whatever_the_setting() -> None:
    plan = plan_of(make(rest="queued"), job(10))
    assert plan is not None
    assert plan.rest == "held"


def test_before_the_pilots_end_the_estimate_is_historys() -> None:
    predictor = primed(STEADY, caution=0.5)
    plan_of(predictor, job(10))
    assert told(predictor).task_ms == pytest.approx(1000)
    assert told(predictor).source == "history:job_name"


def test_caution_takes_a_higher_quantile_of_the_prior() -> None:
    calm, wary = primed(SHAKY, caution=0.5), primed(SHAKY, caution=0.9)
    plan_of(calm, job(10))
    plan_of(wary, job(10))
    assert told(wary).task_ms > 1.5 * told(calm).task_ms


def test_shaky_history_has_the_larger_spread() -> None:
    steady, shaky = primed(STEADY), primed(SHAKY)
    plan_of(steady, job(2))
    plan_of(shaky, job(2))
    steady_ms, shaky_ms = told(steady), told(shaky)
    assert (steady_ms.spread_ms or 0) / steady_ms.task_ms < 0.5 * (shaky_ms.spread_ms or 0) / shaky_ms.task_ms


def test_the_posterior_lies_between_history_and_pilots() -> None:
    assert 1000 < learned(primed(STEADY), job(10), 1300).task_ms < 1300


def test_steady_history_is_trusted_more_than_shaky_history() -> None:
    steady, shaky = learned(primed(STEADY), job(10), 2000), learned(primed(SHAKY), job(10), 2000)
    assert steady.task_ms < shaky.task_ms


def test_alike_tasks_are_trusted_more_than_varied_ones() -> None:
    alike, varied = (learned(primed(SHAKY, task_cov=cov), job(10), 4000) for cov in (0.05, 2.0))
    assert abs(alike.task_ms - 4000) < abs(varied.task_ms - 4000)


def test_a_great_surprise_is_believed() -> None:
    assert learned(primed(STEADY), job(10), 100_000).task_ms > 50_000


def test_without_history_the_pilots_are_the_estimate() -> None:
    assert learned(make(task_cov=0), job(10), 700).task_ms == pytest.approx(700)


def test_tasks_that_were_all_pilots_are_known_exactly() -> None:
    assert learned(primed(STEADY, fixed_percent=100), job(4), 5000).task_ms == 5000


def test_the_posterior_is_surer_than_history() -> None:
    predictor = primed(SHAKY)
    plan_of(predictor, job(10))
    before = told(predictor).spread_ms
    after = learned(primed(SHAKY, task_cov=0.1), job(10), 1000).spread_ms
    assert before is not None
    assert after is not None
    assert after < before


def test_thin_jobs_are_placed_by_history() -> None:
    predictor = primed(STEADY)
    assert plan_of(predictor, job(2)) is None
    assert told(predictor).task_ms == pytest.approx(1000)


@pytest.mark.parametrize(
    ("thin", "history", "bypasses"),
    [("bypass", STEADY, True), ("sure", SHAKY, True), ("sure", STEADY, False), ("history", [], True)],
)
def test_thin_jobs_bypass_where_history_may_not_speak(thin: str, history: list[PastJob], bypasses: bool) -> None:
    plan = plan_of(primed(history, thin=thin, unsure_above=0.9), job(2))
    assert (plan is not None and plan.thin) is bypasses


def test_later_stages_share_the_surprise_of_the_first() -> None:
    predictor = primed(past(*[1000.0] * 60, later=400.0))
    first = learned(predictor, job(10, 10), 3000)
    assert told(predictor, 1).task_ms == pytest.approx(400 * first.task_ms / 1000, rel=0.02)


def test_a_steady_bias_of_the_chosen_expert_is_corrected() -> None:
    growing = primed(past(*[1000 * 1.1**n for n in range(40)]), features=["job_name"], caution=0.5)
    plan_of(growing, job(10))
    assert told(growing).task_ms == pytest.approx(1000 * 1.1**40, rel=0.1)


def test_pilots_tell_that_history_is_out_of_date() -> None:
    """All jobs got ten times shorter overnight: what the pilots of other jobs say corrects a thin job's history."""
    predictor = primed(SHAKY)
    plan_of(predictor, job(2))
    before = told(predictor).task_ms
    for n in range(100):
        spec = job(10, job_id=f"other{n}", name="nightly")
        plan = predictor.submitted(spec, 100_000)
        for stage, task in plan.pilots if plan else ():
            predictor.finished(FinishedTask(spec.id, stage, task, True), 100, 1.0, 100_001)
    plan_of(predictor, job(2))
    assert told(predictor).task_ms < before / 2


def test_variation_within_jobs_is_learned() -> None:
    predictor = primed(STEADY, task_cov=2.0)
    for n in range(80):
        spec = job(12, job_id=f"done{n}")
        predictor.submitted(spec, 100_000)
        for task in range(12):
            predictor.finished(FinishedTask(spec.id, 0, task, False), 1000 + task, 1.0, 100_000)
        predictor.job_done(spec, 100_000)
    varied = primed(STEADY, task_cov=2.0)
    assert learned(predictor, job(10), 3000).task_ms > learned(varied, job(10), 3000).task_ms
