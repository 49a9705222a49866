"""History as prior, pilots as evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, SamplePlan, predictors
from schedulers.kit.beliefs import Beliefs, centre, deviation, evidence, normal_posterior, quantile, weigh
from schedulers.kit.history import HistoryParams


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


def test_the_centre_of_a_log_normal_is_its_median() -> None:
    assert centre([(1.0, 2.0, 0.5)]) == pytest.approx(math.exp(2))


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
    plan = plan_of(primed(SHAKY), job(21))
    assert plan is not None
    assert plan.rest == "held"


def test_wide_jobs_wait_too_where_history_is_sure_enough_for_them() -> None:
    plan = plan_of(primed(STEADY), job(100))
    assert plan is not None
    assert plan.rest == "queued"


def test_held_tasks_have_no_estimate() -> None:
    predictor = primed(SHAKY)
    plan_of(predictor, job(21))
    assert predictor.estimate("j", 0) is None


@pytest.mark.parametrize(("history", "rest"), [(STEADY, "queued"), (SHAKY, "held")])
def test_unsure_history_holds_tasks_back(history: list[PastJob], rest: str) -> None:
    plan = plan_of(primed(history, unsure_above=0.9), job(10))
    assert plan is not None
    assert plan.rest == rest


def test_without_history_tasks_are_held_however_unsure_it_may_be() -> None:
    plan = plan_of(make(unsure_above=100), job(10))
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


def finish(predictor: Predictor, spec: Job, times: Sequence[Sequence[float]]) -> None:
    """Run a job to its end. times: of its tasks by stage, ms."""
    predictor.submitted(spec, 100_000)
    for stage, row in enumerate(times):
        for task, ms in enumerate(row):
            predictor.finished(FinishedTask(spec.id, stage, task, False), round(ms), 1.0, 100_000)
    predictor.job_done(spec, 100_000)


def after_jobs(cov: float) -> Predictor:
    """A predictor that has seen 80 jobs whose tasks took 1000 ms in the mean, with this variation."""
    predictor = primed(SHAKY)
    for n in range(80):
        finish(predictor, job(12, job_id=f"done{n}"), [[1000 * (1 + cov), 1000 * (1 - cov)] * 6])
    return predictor


def test_alike_tasks_are_trusted_more_than_varied_ones() -> None:
    alike, varied = (learned(after_jobs(cov), job(10), 4000) for cov in (0.05, 0.9))
    assert abs(alike.task_ms - 4000) < abs(varied.task_ms - 4000)


def test_a_great_surprise_is_believed() -> None:
    assert learned(primed(STEADY), job(10), 100_000).task_ms > 50_000


def test_without_history_the_pilots_are_the_estimate() -> None:
    predictor = make(fixed_percent=90)
    assert learned(predictor, job(10), 700).task_ms == pytest.approx(700, rel=0.02)


def test_tasks_that_were_all_pilots_are_known_exactly() -> None:
    assert learned(primed(STEADY, fixed_percent=100), job(4), 5000).task_ms == 5000


def test_the_posterior_is_surer_than_history() -> None:
    predictor = primed(SHAKY)
    plan_of(predictor, job(10))
    before = told(predictor).spread_ms
    after = learned(primed(SHAKY), job(10), 1000).spread_ms
    assert before is not None
    assert after is not None
    assert after < before


def test_thin_jobs_are_placed_by_history() -> None:
    predictor = primed(STEADY)
    assert plan_of(predictor, job(2)) is None
    assert told(predictor).task_ms == pytest.approx(1000)


@pytest.mark.parametrize(("history", "bypasses"), [(SHAKY, True), (STEADY, False), ([], True)])
def test_thin_jobs_bypass_where_history_may_not_speak(history: list[PastJob], bypasses: bool) -> None:
    plan = plan_of(primed(history, unsure_above=0.9), job(2))
    assert (plan is not None and plan.thin) is bypasses


def chain_history(follows: bool) -> list[PastJob]:
    """Jobs of two stages; the second errs as the first, or independently."""
    draw = np.random.default_rng(5)
    rows = draw.normal(0, 0.7, (60, 2))
    return [
        PastJob(
            name="nightly",
            submitted=n * 1000,
            finished=n * 1000 + 500,
            stages=((10, 1000 * math.exp(x)), (10, 400 * math.exp(x if follows else y))),
        )
        for n, (x, y) in enumerate(rows.tolist())
    ]


def test_later_stages_share_the_surprise_of_the_first_where_they_did_before() -> None:
    calm = primed(chain_history(True), caution=0.5)
    first = learned(calm, job(10, 10), 4000)
    assert told(calm, 1).task_ms == pytest.approx(0.4 * first.task_ms, rel=0.2)


def test_no_surprise_is_carried_where_stages_err_independently() -> None:
    predictor, other = (primed(chain_history(False)) for _ in range(2))
    learned(predictor, job(10, 10), 4000)
    learned(other, job(10, 10), 250)
    assert told(predictor, 1).task_ms == pytest.approx(told(other, 1).task_ms, rel=0.35)


def test_a_carried_surprise_makes_the_later_stage_surer() -> None:
    follows, independent = primed(chain_history(True)), primed(chain_history(False))
    for predictor in (follows, independent):
        learned(predictor, job(10, 10), 1500)
    spreads = [(told(p, 1).spread_ms or 0) / told(p, 1).task_ms for p in (follows, independent)]
    assert spreads[0] < spreads[1]


def test_the_first_task_of_a_later_stage_is_evidence() -> None:
    predictor = primed(chain_history(False))
    learned(predictor, job(10, 10), 1000)
    before = told(predictor, 1).task_ms
    predictor.finished(FinishedTask("j", 1, 0, False), 4000, 1.0, 100_002)
    assert told(predictor, 1).task_ms > 1.5 * before


def test_tasks_that_end_before_the_first_are_no_evidence() -> None:
    predictor = primed(chain_history(False))
    learned(predictor, job(10, 10), 1000)
    before = told(predictor, 1).task_ms
    for task in range(1, 9):
        predictor.finished(FinishedTask("j", 1, task, False), 40, 1.0, 100_002)
    assert told(predictor, 1).task_ms == before


def test_a_finished_stage_is_known_exactly() -> None:
    predictor = primed(STEADY)
    plan_of(predictor, job(4))
    for task in range(4):
        predictor.finished(FinishedTask("j", 0, task, False), 1000 + task * 100, 1.0, 100_001)
    assert told(predictor).task_ms == pytest.approx(1150)
    assert told(predictor).spread_ms == 0


@given(seed=st.integers(0, 10_000), errs=st.floats(0.1, 1.5), pilots=st.sampled_from([0, 1, 4]))
@settings(max_examples=20, deadline=None)
def test_on_data_drawn_from_the_model_the_spread_is_the_error(seed: int, errs: float, pilots: int) -> None:
    draw = np.random.default_rng(seed)
    beliefs = Beliefs(HistoryParams())
    beliefs.prime(past(*(1000 * np.exp(draw.normal(0, errs, 60))).tolist()))
    spec = job(10)
    prior = beliefs.of(spec, beliefs.history.keys_of(spec, 100_000), 100_000)[0]
    before = beliefs.parts(prior)
    weights, means, deviations = map(np.array, zip(*before, strict=True))
    misses = []
    for part in draw.choice(len(before), 500, p=weights / weights.sum()):
        after, truth = before, draw.normal(means[part], deviations[part])
        if pilots:
            _, _, doubt = evidence(prior.noise, pilots, 1, 0.0)
            said = math.exp(draw.normal(truth, math.sqrt(doubt)) - doubt / 2)
            after = weigh(before, math.log(said) + doubt / 2, doubt)
        ms = centre(after)
        sd = math.sqrt(math.log1p((deviation(ms, after) / ms) ** 2))  # of ln run time, from the spread in ms
        misses.append(abs(truth - math.log(ms)) / sd)
    assert 0.8 < math.sqrt(np.mean(np.square(misses))) < 1.2
    assert 0.6 < np.mean(np.array(misses) < 1) < 0.95
    assert np.mean(np.array(misses) < 2) > 0.9


@pytest.mark.parametrize("gone", ["rest", "thin", "power", "task_cov", "bins", "estimator"])
def test_a_setting_of_earlier_versions_is_refused_with_those_there_are(gone: str) -> None:
    with pytest.raises(InvalidParameters, match=f"has no setting '{gone}'.*it has: features, window_days"):
        make(**{gone: 1})


def test_it_has_at_most_ten_settings() -> None:
    assert len(predictors.entry("posterior").params.__struct_fields__) <= 10


@pytest.mark.parametrize(("history", "skips"), [(STEADY, True), (SHAKY, False), ([], False)])
def test_reliable_history_needs_no_pilots_where_they_may_be_skipped(history: list[PastJob], skips: bool) -> None:
    plan = plan_of(primed(history, skip_sure=True), job(100))
    assert (plan is None) is skips


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


def test_of_an_earlier_versions_dump_what_was_learned_is_taken_over() -> None:
    data = primed(STEADY).dump()
    old = {key: data[key] for key in ("history", "error", "errors")} | {"sampler": {}, "priors": [], "estimates": []}
    predictor = make()
    predictor.load(old)
    plan_of(predictor, job(2))
    assert told(predictor).task_ms == pytest.approx(1000)
