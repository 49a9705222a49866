"""Learning in space: pilots, the adaptive ratio, SLearn and SLearn-DAG."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.predictor import FinishedTask, Predictor, predictors
from schedulers.kit.sampling import AdaptiveRatio, FirstTasks, SamplingParams, draw_pilots, pilot_count, sample_estimate
from schedulers.predictors.slearn_dag import correction


def make(kind: str, **settings: object) -> Predictor:
    cls, params = predictors.parse({"kind": kind, **settings})
    return cls(params, seed=1)


def job(job_id: str, *tasks: int, name: str = "") -> Job:
    """A chain of stages with these numbers of tasks."""
    stages = tuple(Stage(name=str(i), tasks=n, demand=(1,), parents=(i - 1,) if i else ()) for i, n in enumerate(tasks))
    return Job(id=job_id, name=name, stages=stages)


def pilots_of(predictor: Predictor, spec: Job, at: int = 0) -> tuple[tuple[int, int], ...]:
    plan = predictor.submitted(spec, at)
    assert plan is not None
    return plan.pilots


def run_pilots(predictor: Predictor, spec: Job, *ms: int) -> None:
    """Submit, then let the pilots take these times."""
    pilots = pilots_of(predictor, spec)
    for (stage, task), runtime in zip(pilots, ms, strict=True):
        predictor.finished(FinishedTask(spec.id, stage, task, True), runtime, 1.0, 0)


def scored(**scores: float) -> AdaptiveRatio:
    ratio = AdaptiveRatio(SamplingParams(score_window=1))
    for _ in range(3):
        ratio.choose()
    for percent, value in scores.items():
        ratio.score(int(percent[1:]), value)
    return ratio


# -- how many -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "rounding", "pilots"),
    [(40, "ceil", 2), (40, "floor", 1), (40, "nearest", 1), (100, "ceil", 3), (3, "floor", 1), (1, "ceil", 1)],
)
def test_three_percent_of_the_tasks(tasks: int, rounding: str, pilots: int) -> None:
    assert pilot_count(tasks, 3, rounding) == pilots


@given(st.integers(1, 500), st.floats(min_value=0.1, max_value=100))
def test_at_least_one_pilot_and_at_most_all(tasks: int, percent: float) -> None:
    assert 1 <= pilot_count(tasks, percent) <= tasks


def test_bootstrap_tries_three_two_four() -> None:
    ratio = AdaptiveRatio(SamplingParams(score_window=100))
    assert Counter([ratio.choose() for _ in range(100)]) == {3: 100}
    assert Counter([ratio.choose() for _ in range(100)]) == {2: 100}
    assert Counter([ratio.choose() for _ in range(100)]) == {4: 100}


@pytest.mark.parametrize(
    ("scores", "percent"),
    [
        ({"p3": 1.00, "p2": 0.80, "p4": 1.2}, 1),
        ({"p3": 1.00, "p2": 0.95, "p4": 1.2}, 2),
        ({"p3": 1.00, "p2": 1.1, "p4": 0.90}, 5),
        ({"p3": 1.00, "p2": 1.1, "p4": 0.95}, 4),
        ({"p1": 0.7, "p2": 0.8, "p3": 1.0, "p4": 1.2}, 1),
        ({"p3": 0.9, "p2": 1.0, "p4": 1.2}, 3),
    ],
)
def test_known_answers_of_the_adaptive_ratio(scores: dict[str, float], percent: int) -> None:
    assert scored(**scores).choose() == percent


def test_without_any_score_the_middle_percent_stays() -> None:
    assert scored().choose() == 3


def test_a_percent_without_jobs_scores_infinity() -> None:
    assert scored(p3=1.0).scores[2] == math.inf


def test_nothing_is_explored_against_an_unknown_middle() -> None:
    assert scored(p2=0.5, p4=1.0).choose() == 2


def test_a_score_is_the_mean_of_exactly_the_last_t_jobs() -> None:
    ratio = AdaptiveRatio(SamplingParams(score_window=2))
    for value in (9.0, 1.0, 3.0):
        ratio.score(3, value)
    assert ratio.scores[3] == 2.0


# -- which --------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.data())
def test_pilots_are_distinct_tasks_of_the_stage(tasks: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, tasks))
    drawn = draw_pilots(7, "j", 0, tasks, count)
    assert len(set(drawn)) == count
    assert set(drawn) <= set(range(tasks))


def test_every_task_is_as_likely_a_pilot() -> None:
    seen = Counter(task for n in range(4000) for task in draw_pilots(1, f"j{n}", 0, 5, 2))
    assert all(abs(seen[task] / 4000 - 2 / 5) < 0.04 for task in range(5))


def test_pilots_depend_on_seed_and_job_alone() -> None:
    assert draw_pilots(1, "job-17", 0, 100, 4) == [69, 87, 98, 99]


def test_another_seed_draws_other_pilots() -> None:
    assert draw_pilots(1, "job-17", 0, 100, 4) != draw_pilots(2, "job-17", 0, 100, 4)


# -- SLearn -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tasks", "thin"), [(1, True), (2, True), (3, False)])
def test_jobs_below_the_thin_limit_bypass(tasks: int, thin: bool) -> None:
    plan = make("slearn").submitted(job("j", tasks), 0)
    assert plan is not None
    assert plan.thin is thin


def test_other_tasks_are_held_while_pilots_run() -> None:
    plan = make("slearn").submitted(job("j", 40), 0)
    assert plan is not None
    assert plan.rest == "held"


def test_no_estimate_before_all_pilots_finished() -> None:
    predictor = make("slearn", fixed_percent=10)
    spec = job("j", 30)
    for stage, task in pilots_of(predictor, spec)[:-1]:
        predictor.finished(FinishedTask("j", stage, task, True), 100, 1.0, 0)
    assert predictor.estimate("j", 0) is None


def test_the_estimate_is_the_mean_of_the_pilots() -> None:
    predictor = make("slearn", fixed_percent=10)
    run_pilots(predictor, job("j", 30), 100, 200, 600)
    estimate = predictor.estimate("j", 0)
    assert estimate is not None
    assert (estimate.task_ms, estimate.source) == (300, "pilots:3")


def test_the_spread_is_the_standard_error_of_the_mean() -> None:
    assert sample_estimate([12.0, 14.0, 13.0]).spread_ms == pytest.approx(1 / math.sqrt(3))


def test_a_single_pilot_has_no_spread() -> None:
    assert sample_estimate([12.0]).spread_ms is None


def test_tasks_run_by_work_conservation_are_no_samples() -> None:
    predictor = make("slearn", fixed_percent=1)
    predictor.submitted(job("j", 30), 0)
    predictor.finished(FinishedTask("j", 0, 29, False), 1, 1.0, 0)
    assert predictor.estimate("j", 0) is None


def test_pilots_are_normalised_to_speed_one() -> None:
    predictor = make("slearn", fixed_percent=1)
    stage, task = pilots_of(predictor, job("j", 30))[0]
    predictor.finished(FinishedTask("j", stage, task, True), 100, 2.0, 0)
    estimate = predictor.estimate("j", 0)
    assert estimate is not None
    assert estimate.task_ms == 200


@given(st.integers(3, 200), st.integers(1, 10**7))
def test_without_variance_between_tasks_the_estimate_is_exact(tasks: int, ms: int) -> None:
    predictor = make("slearn")
    spec = job("j", tasks)
    run_pilots(predictor, spec, *[ms] * len(pilots_of(make("slearn"), spec)))
    estimate = predictor.estimate("j", 0)
    assert estimate is not None
    assert estimate.task_ms == pytest.approx(ms)


def test_only_root_stages_have_pilots() -> None:
    assert {stage for stage, _ in pilots_of(make("slearn"), job("j", 40, 40, 40))} == {0}


def test_every_root_stage_has_pilots() -> None:
    stages = tuple(Stage(name=n, tasks=5, demand=(1,)) for n in "ab")
    assert {stage for stage, _ in pilots_of(make("slearn"), Job(id="j", stages=stages))} == {0, 1}


def test_later_stages_take_the_pooled_mean() -> None:
    predictor = make("slearn", fixed_percent=10)
    run_pilots(predictor, job("j", 20, 50), 100, 300)
    estimate = predictor.estimate("j", 1)
    assert estimate is not None
    assert estimate.task_ms == 200


def test_later_stages_may_weigh_root_stages_by_their_tasks() -> None:
    predictor = make("slearn", later_stages="weighted", fixed_percent=1)
    wide = Stage(name="a", tasks=30, demand=(1,))
    narrow = Stage(name="b", tasks=10, demand=(1,))
    last = Stage(name="c", tasks=9, demand=(1,), parents=(0, 1))
    run_pilots(predictor, Job(id="j", stages=(wide, narrow, last)), 100, 500)
    estimate = predictor.estimate("j", 2)
    assert estimate is not None
    assert estimate.task_ms == 200


def test_a_job_is_forgotten_at_its_end() -> None:
    predictor = make("slearn")
    spec = job("j", 3)
    run_pilots(predictor, spec, 10)
    predictor.job_done(spec, 50)
    assert (predictor.estimate("j", 0), predictor.dump()["jobs"]) == (None, [])


@pytest.mark.parametrize(("norm", "score"), [("longest_task", 100 / 40), ("total_work", 100 / 70)])
def test_a_ratio_is_scored_by_completion_time_over_job_size(norm: str, score: float) -> None:
    predictor = make("slearn", jct_norm=norm)
    spec = job("j", 3)
    pilot = pilots_of(predictor, spec, at=1000)[0][1]
    for task, ms in enumerate((10, 20, 40)):
        predictor.finished(FinishedTask("j", 0, task, task == pilot), ms, 1.0, 0)
    predictor.job_done(spec, 1100)
    assert predictor.dump()["ratio"]["windows"] == [[1, []], [2, []], [3, [pytest.approx(score)]], [4, []], [5, []]]


def test_a_cancelled_job_scores_nothing() -> None:
    predictor = make("slearn")
    spec = job("j", 3)
    run_pilots(predictor, spec, 10)
    predictor.job_gone(spec, 50)
    assert all(values == [] for _, values in predictor.dump()["ratio"]["windows"])


def test_thin_jobs_do_not_count_for_the_bootstrap() -> None:
    predictor = make("slearn", score_window=1)
    for n in range(5):
        predictor.submitted(job(f"thin{n}", 2), 0)
    assert predictor.dump()["ratio"]["sampled"] == 0


# -- SLearn-DAG ---------------------------------------------------------------------------------


def primed_dag(**settings: object) -> Predictor:
    predictor = make("slearn_dag", fixed_percent=1, **settings)
    predictor.prime([PastJob(name="dag", submitted=0, finished=1, stages=((4, 100.0), (4, 400.0)))])
    return predictor


def later_stage(predictor: Predictor, pilot_ms: int) -> float:
    run_pilots(predictor, job("j", 4, 4, name="dag"), pilot_ms)
    estimate = predictor.estimate("j", 1)
    assert estimate is not None
    return estimate.task_ms


def test_later_stages_are_corrected_by_the_first_ones_error() -> None:
    assert later_stage(primed_dag(), 150) == pytest.approx(1.5 * 400)


def test_the_correction_is_clipped() -> None:
    assert later_stage(primed_dag(), 100_000) == pytest.approx(10 * 400)


def test_the_first_stage_is_its_pilots() -> None:
    predictor = primed_dag()
    later_stage(predictor, 150)
    estimate = predictor.estimate("j", 0)
    assert estimate is not None
    assert (estimate.task_ms, estimate.source) == (150, "pilots:1")


def test_no_dag_estimate_before_the_pilots() -> None:
    predictor = primed_dag()
    predictor.submitted(job("j", 4, 4, name="dag"), 0)
    assert predictor.estimate("j", 1) is None


@pytest.mark.parametrize(("sampled", "predicted", "ratio"), [(3, 2, 1.5), (1, 0, 1), (0, 1, 1), (1, 50, 0.1)])
def test_correction(sampled: float, predicted: float, ratio: float) -> None:
    assert correction(sampled, predicted, 0.1, 10) == ratio


def test_percents_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidParameters, match=r"bootstrap_percent .* \[2, 3, 4\]"):
        make("slearn", bootstrap_percent=[2, 3, 4])


def test_settings_of_the_paper_are_the_defaults() -> None:
    assert msgspec.to_builtins(SamplingParams()) == {
        "thin_limit": 3,
        "fixed_percent": None,
        "bootstrap_percent": (3, 2, 4),
        "explore_percent": (1, 5),
        "gain_margin": 1.1,
        "score_window": 100,
        "rounding": "ceil",
        "jct_norm": "longest_task",
        "estimator": "mean",
    }


# -- the first tasks of a stage -------------------------------------------------------------------


def counted(first: FirstTasks, *tasks: int) -> list[float]:
    for task in tasks:
        first.add(task, 10.0 * task)
    return first.run_times


def test_pilots_count_once_all_of_them_have_finished() -> None:
    first = FirstTasks(10, [3, 7])
    assert counted(first, 0, 3) == []
    assert counted(first, 7) == [30, 70]


def test_of_other_tasks_the_first_1_2_4_count_once_all_have_finished() -> None:
    first = FirstTasks(10)
    assert counted(first, 1, 2) == []
    assert counted(first, 0) == [0, 10]
    assert counted(first, 3) == [0, 10, 20, 30]


def test_a_stage_that_has_finished_counts_whole() -> None:
    assert sorted(counted(FirstTasks(5, [4]), 0, 1, 2, 3, 4)) == [0, 10, 20, 30, 40]


def test_a_second_run_of_a_task_counts_once() -> None:
    assert counted(FirstTasks(3), 0, 0, 1) == [0, 10]


@given(st.integers(1, 200), st.randoms())
def test_what_counts_does_not_depend_on_the_order_of_ends(tasks: int, random: Random) -> None:
    order = list(range(tasks))
    random.shuffle(order)
    assert counted(FirstTasks(tasks), *order) == [10.0 * task for task in range(min(tasks, 64))]
