"""History: features, windows, experts and the predictors that look at nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.predictor import Estimate, FinishedTask, Predictor, predictors
from schedulers.kit.history import (
    DAY_MS,
    ESTIMATORS,
    EVERYTHING,
    HOUR_MS,
    WHOLE_JOB,
    History,
    HistoryParams,
    Key,
    log_variance,
)

NAME: Key = ("job_name", "nightly")
RUN_TIMES = st.lists(st.floats(min_value=1, max_value=1e7), min_size=2, max_size=40)


def job(job_id: str = "j", *, tasks: int = 4, name: str = "nightly", user: str = "ann", app: str = "etl") -> Job:
    return Job(id=job_id, name=name, user=user, app=app, stages=(Stage(name="s", tasks=tasks, demand=(1000, 1024)),))


def past(*ms: float, name: str = "nightly", user: str = "ann", app: str = "etl", day: int = 0) -> list[PastJob]:
    """Jobs of four tasks, one an hour from the start of `day`."""
    return [
        PastJob(
            name=name,
            user=user,
            app=app,
            demand=(1000, 1024),
            submitted=day * DAY_MS + hour * HOUR_MS,
            finished=day * DAY_MS + hour * HOUR_MS + 1,
            stages=((4, value),),
        )
        for hour, value in enumerate(ms)
    ]


def learned(values: Sequence[float], **settings: object) -> History:
    history = History(HistoryParams(**settings))
    for value in values:
        history.learn((NAME,), WHOLE_JOB, value, 0)
    return history


def make(kind: str, **settings: object) -> Predictor:
    cls, params = predictors.parse({"kind": kind, **settings})
    return cls(params, seed=1)


def asked(predictor: Predictor, spec: Job | None = None, at: int = 0, stage: int = 0) -> Estimate:
    spec = spec or job()
    predictor.submitted(spec, at)
    estimate = predictor.estimate(spec.id, stage)
    assert estimate is not None
    return estimate


def run(predictor: Predictor, spec: Job, ms: int, at: int = 0, speed: float = 1.0) -> None:
    """Submit a job and let all its tasks take `ms`."""
    predictor.submitted(spec, at)
    for index, stage in enumerate(spec.stages):
        for task in range(stage.tasks):
            predictor.finished(FinishedTask(spec.id, index, task, False), ms, speed, at)
    predictor.job_done(spec, at)


# -- features -----------------------------------------------------------------------------------


def test_all_six_features_are_keys() -> None:
    keys = History(HistoryParams()).keys_of(job(), 9 * DAY_MS + 5 * HOUR_MS)
    assert keys == (
        ("app", "etl"),
        ("job_name", "nightly"),
        ("user", "ann"),
        ("submit_day", "2"),
        ("submit_hour", "5"),
        ("request", "1000,1024"),
    )


def test_what_is_not_known_of_a_job_is_no_feature() -> None:
    keys = History(HistoryParams()).keys_of(job(name="", user="", app=""), 0)
    assert [feature for feature, _ in keys] == ["submit_day", "submit_hour", "request"]


def test_request_of_a_dag_is_the_largest_by_resource() -> None:
    stages = (Stage(name="a", tasks=1, demand=(2, 1)), Stage(name="b", tasks=1, demand=(1, 3)))
    assert ("request", "2,3") in History(HistoryParams()).keys_of(Job(id="j", stages=stages), 0)


def test_a_past_job_and_its_successor_share_all_keys() -> None:
    history = History(HistoryParams())
    assert history.keys_of_past(past(10)[0]) == history.keys_of(job(), 0)


def test_hours_before_the_clock_began_are_hours_of_the_day() -> None:
    keys = History(HistoryParams()).keys_of(job(), -HOUR_MS)
    assert ("submit_hour", "23") in keys


# -- experts ------------------------------------------------------------------------------------


def test_an_expert_is_scored_before_the_value_is_inserted() -> None:
    history = learned([100, 300])
    choice = history.choose((NAME,), WHOLE_JOB, 0)
    assert choice is not None
    assert choice.pane.errors == [200.0] * len(ESTIMATORS)  # all four said 100 when 300 came


def test_one_observation_gives_no_expert() -> None:
    assert learned([100]).choose((NAME,), WHOLE_JOB, 0) is None


def test_two_observations_give_one() -> None:
    assert learned([100, 100]).choose((NAME,), WHOLE_JOB, 0) is not None


def test_experts_by_hand() -> None:
    history = learned([10, 10, 40, 10], recent=2)
    choice = history.choose((NAME,), WHOLE_JOB, 0)
    assert choice is not None
    # said before each: average 10 10 20, median 10 10 10, decayed 10 10 28, recent two 10 10 25; came 10 40 10
    assert [choice.pane.nmae(k) for k in range(4)] == pytest.approx([40 / 60, 30 / 60, 48 / 60, 45 / 60])


def test_the_decayed_average_weighs_the_newest_by_alpha() -> None:
    choice = learned([10, 20]).choose((NAME,), WHOLE_JOB, 0)
    assert choice is not None
    assert choice.series.decayed == pytest.approx(0.6 * 20 + 0.4 * 10)


def test_equal_scores_go_to_the_first_feature_and_estimator() -> None:
    history = History(HistoryParams())
    for _ in range(3):
        history.learn((NAME, ("user", "ann")), WHOLE_JOB, 100, 0)
    choice = history.choose((NAME, ("user", "ann")), WHOLE_JOB, 0)
    assert choice is not None
    assert (choice.feature, choice.estimator) == ("job_name", 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(min_value=1, max_value=1e6)), min_size=6, max_size=60))
def test_no_expert_has_a_lower_nmae_than_the_chosen_one(rows: list[tuple[str, float]]) -> None:
    history = History(HistoryParams())
    for name, ms in rows:
        history.learn((("job_name", name), ("user", "ann")), WHOLE_JOB, ms, 0)
    keys = (("job_name", "a"), ("user", "ann"))
    choice = history.choose(keys, WHOLE_JOB, 0)
    assert choice is not None
    alone = [history.choose((key,), WHOLE_JOB, 0) for key in keys]
    assert choice.score == min(found.pane.nmae(k) for found in alone if found for k in range(4))


@given(RUN_TIMES)
def test_errors_are_those_of_a_replay_that_knows_only_the_past(values: list[float]) -> None:
    choice = learned(values).choose((NAME,), WHOLE_JOB, 0)
    assert choice is not None
    averages = [sum(values[:n]) / n for n in range(1, len(values))]
    expected = sum(abs(said - came) for said, came in zip(averages, values[1:], strict=True))
    assert choice.pane.errors[0] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_run_times_below_one_ms_count_as_one() -> None:
    overall = learned([0.0]).overall(WHOLE_JOB, 0)
    assert overall is not None
    assert overall[1].hist.centres == [1.0]


# -- windows ------------------------------------------------------------------------------------


def test_days_that_left_the_window_are_forgotten() -> None:
    history = learned([1000, 1000], window_days=3)
    history.learn((NAME,), WHOLE_JOB, 10, 4 * DAY_MS)
    choice = history.overall(WHOLE_JOB, 4 * DAY_MS)
    assert choice is not None
    assert choice[1].hist.centres == [10]


def test_the_last_day_of_the_window_still_counts() -> None:
    history = learned([1000, 1000], window_days=3)
    overall = history.overall(WHOLE_JOB, 3 * DAY_MS)
    assert overall is not None
    assert overall[1].hist.total == 2


def test_an_expert_whose_days_all_left_says_nothing() -> None:
    assert learned([1000, 1000], window_days=3).choose((NAME,), WHOLE_JOB, 4 * DAY_MS) is None


def test_scores_leave_with_their_day() -> None:
    history = learned([10, 1000], window_days=3)
    for _ in range(3):
        history.learn((NAME,), WHOLE_JOB, 50, 3 * DAY_MS)
    before = history.overall(WHOLE_JOB, 3 * DAY_MS)
    assert before is not None
    assert before[1].scored == 4
    after = history.overall(WHOLE_JOB, 4 * DAY_MS)
    assert after is not None
    assert after[1].scored == 3


def test_several_days_add_up() -> None:
    history = History(HistoryParams())
    for day in range(4):
        history.learn((NAME,), WHOLE_JOB, 10 + day, day * DAY_MS)
    overall = history.overall(WHOLE_JOB, 3 * DAY_MS)
    assert overall is not None
    assert overall[1].hist.centres == [10, 11, 12, 13]


def test_values_not_heard_of_within_the_window_take_no_memory() -> None:
    history = History(HistoryParams(window_days=3))
    for day in range(40):
        history.learn((("job_name", f"once-{day}"),), WHOLE_JOB, 10, day * DAY_MS)
    assert len(history.dump()["series"]) == 3 + 1 + 1  # the window, today and 'all'


def test_no_more_values_than_allowed() -> None:
    history = History(HistoryParams(max_values=10))
    for n in range(100):
        history.learn((("job_name", f"once-{n}"),), WHOLE_JOB, 10, 0)
    assert len(history.dump()["series"]) == 10


def test_the_value_unheard_of_for_longest_goes_first() -> None:
    history = History(HistoryParams(max_values=3))
    for name in ("a", "b", "a", "c"):
        history.learn((("job_name", name),), WHOLE_JOB, 10, 0)
    assert [row[1] for row in history.dump()["series"]] == ["a", "c", ""]


# -- variation within a job ---------------------------------------------------------------------


def test_log_variance_matches_the_coefficient_of_variation() -> None:
    assert log_variance(3, 6, 14) == (pytest.approx(math.log(1 + (1 / 2) ** 2)), 2.0)


def test_one_task_says_nothing_of_variation() -> None:
    assert log_variance(1, 5, 25) == (0.0, 0.0)


# -- the predictors -----------------------------------------------------------------------------


def test_three_sigma_takes_the_expected_utility() -> None:
    predictor = make("three_sigma", features=["job_name"])
    predictor.prime(past(10, 10, 20, 100))
    assert asked(predictor).task_ms == pytest.approx(13.304, abs=1e-3)


def test_point_estimate_takes_the_median() -> None:
    predictor = make("point_estimate", features=["job_name"])
    predictor.prime(past(10, 10, 20, 100))
    assert asked(predictor).task_ms == 15


@pytest.mark.parametrize("kind", ["three_sigma", "three_sigma_dag", "point_estimate", "point_estimate_dag"])
def test_a_single_point_of_history_is_the_estimate(kind: str) -> None:
    predictor = make(kind)
    predictor.prime(past(4321))
    assert asked(predictor).task_ms == pytest.approx(4321)


@pytest.mark.parametrize("kind", ["three_sigma", "three_sigma_dag", "point_estimate", "point_estimate_dag"])
def test_without_history_the_default_is_the_estimate(kind: str) -> None:
    assert asked(make(kind, default_task_ms=777)) == Estimate(777.0, source="default")


def test_the_source_names_the_feature() -> None:
    predictor = make("three_sigma")
    predictor.prime([*past(10, 500, 10, 900), *past(70, 70, 70, name="hourly", day=1)])
    assert asked(predictor, job(name="hourly"), DAY_MS).source == "history:job_name"


def test_an_unknown_job_is_estimated_from_all_jobs() -> None:
    predictor = make("three_sigma", features=["job_name", "user", "app"])
    predictor.prime(past(50, 50))
    assert asked(predictor, job(name="new", user="bob", app="ml")) == Estimate(pytest.approx(50), source="history:all")


def test_finished_jobs_become_history() -> None:
    predictor = make("three_sigma")
    run(predictor, job("a"), 200)
    run(predictor, job("b"), 200)
    assert asked(predictor, job("c")).task_ms == pytest.approx(200)


def test_run_times_are_normalised_to_speed_one() -> None:
    predictor = make("point_estimate")
    run(predictor, job("a"), 100, speed=2.0)
    assert asked(predictor, job("b")).task_ms == 200


def test_an_estimate_does_not_change_while_the_job_runs() -> None:
    predictor = make("point_estimate")
    run(predictor, job("a"), 100)
    before = asked(predictor, job("b"))
    run(predictor, job("c"), 900)
    assert predictor.estimate("b", 0) == before


def test_a_cancelled_job_teaches_nothing() -> None:
    predictor = make("point_estimate", default_task_ms=5)
    predictor.submitted(job("a"), 0)
    predictor.finished(FinishedTask("a", 0, 0, False), 100, 1.0, 0)
    predictor.job_gone(job("a"), 0)
    assert asked(predictor, job("b")).source == "default"


def test_a_job_weighs_its_stages_by_their_tasks() -> None:
    predictor = make("point_estimate")
    predictor.prime([PastJob(name="nightly", submitted=0, finished=1, stages=((1, 100.0), (3, 20.0)))])
    assert asked(predictor).task_ms == 40


def test_thin_bypass_is_three_sigma_tl() -> None:
    plan = make("three_sigma", thin_bypass=True).submitted(job(tasks=2), 0)
    assert plan is not None
    assert plan.thin


def test_three_tasks_are_not_thin() -> None:
    assert make("three_sigma", thin_bypass=True).submitted(job(tasks=3), 0) is None


def test_three_sigma_bypasses_nobody() -> None:
    assert make("three_sigma").submitted(job(tasks=1), 0) is None


DAG = (Stage(name="map", tasks=2, demand=(1, 1)), Stage(name="reduce", tasks=2, demand=(1, 1), parents=(0,)))


def test_three_sigma_dag_keeps_stages_apart() -> None:
    predictor = make("three_sigma_dag")
    predictor.prime([PastJob(name="dag", submitted=0, finished=1, stages=((2, 30.0), (2, 500.0)))])
    spec = Job(id="j", name="dag", stages=DAG)
    assert [asked(predictor, spec, stage=s).task_ms for s in (0, 1)] == pytest.approx([30, 500])


def test_point_estimate_dag_takes_the_median_of_each_stage() -> None:
    predictor = make("point_estimate_dag", features=["job_name"])
    rows = [(10.0, 700.0), (10.0, 300.0), (20.0, 500.0), (100.0, 400.0)]
    predictor.prime(
        [PastJob(name="dag", submitted=0, finished=1, stages=((2, first), (2, then))) for first, then in rows]
    )
    spec = Job(id="j", name="dag", stages=DAG)
    assert [asked(predictor, spec, stage=s).task_ms for s in (0, 1)] == [15, 450]


def test_three_sigma_gives_all_stages_the_mean_of_the_job() -> None:
    predictor = make("three_sigma")
    predictor.prime([PastJob(name="dag", submitted=0, finished=1, stages=((2, 30.0), (2, 500.0)))])
    spec = Job(id="j", name="dag", stages=DAG)
    assert [asked(predictor, spec, stage=s).task_ms for s in (0, 1)] == pytest.approx([265, 265])


def test_a_stage_never_seen_is_estimated_from_first_stages() -> None:
    predictor = make("three_sigma_dag")
    predictor.prime([PastJob(name="dag", submitted=0, finished=1, stages=((2, 30.0),))])
    assert asked(predictor, Job(id="j", name="dag", stages=DAG), stage=1).task_ms == pytest.approx(30)


def test_the_order_of_past_jobs_is_that_of_their_ends() -> None:
    rows = past(10, 20, 30, 40)
    there, back = make("three_sigma"), make("three_sigma")
    there.prime(rows)
    back.prime(rows[::-1])
    assert msgspec.msgpack.encode(there.dump()) == msgspec.msgpack.encode(back.dump())


def test_all_is_the_last_key() -> None:
    history = learned([5, 5])
    assert [(row[0], row[1]) for row in history.dump()["series"]] == [NAME, EVERYTHING]
