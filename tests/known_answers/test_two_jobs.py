"""The model of SLearn's section 4.1: two jobs, one of known size, and history or pilots to tell the size of the other.

A task of the known job takes 10 s. The other job's mean task run time is x ~ N(10 s, so^2), that of each of its tasks
N(x, s1^2). History knows the mean over runs, whose error variance is so^2; m pilots have s1^2 / m.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from schedulers.core import keyed
from schedulers.core.model import Job, PastJob, Stage
from schedulers.core.predictor import FinishedTask, Predictor, predictors
from schedulers.kit.beliefs import normal_posterior

KNOWN = 10_000.0
RUNS = 4000
TASKS = 20
#: so and s1 in ms, and m: sampling is better where m > (s1 / so)^2.
BETTER = [(800, 400, 1), (800, 800, 2), (400, 800, 5), (400, 800, 10)]
WORSE = [(400, 800, 1), (400, 800, 3), (400, 1600, 15)]


Floats = NDArray[np.float64]


class Runs(NamedTuple):
    """Of many runs of the unknown job: the mean task run time, and what history and pilots say, in ms."""

    truth: Floats
    history: Floats
    pilots: Floats


def estimate(predictor: Predictor, job: Job, times: Floats) -> float:
    """What a predictor says of a job once its pilots, if it asks for any, have finished."""
    plan = predictor.submitted(job, 0)
    for stage, task in plan.pilots if plan else ():
        predictor.finished(FinishedTask(job.id, stage, task, pilot=True), round(times[task]), 1.0, 0)
    said = predictor.estimate(job.id, 0)
    assert said is not None
    return said.task_ms


@cache
def drawn(so: int, s1: int, m: int) -> Runs:
    past = [PastJob(name="j2", submitted=-2, finished=-1, stages=((TASKS, KNOWN + so * z),)) for z in (-1, 0, 1)]
    asked = []
    for settings in ({"kind": "point_estimate"}, {"kind": "slearn", "fixed_percent": 100 * m / TASKS}):
        cls, params = predictors.parse(settings)
        asked.append(cls(params, seed=1))
        asked[-1].prime(past)
    normal = keyed.generator(1, "two jobs", so, s1, m).standard_normal((RUNS, 1 + TASKS))
    x = KNOWN + so * normal[:, 0]
    times = x[:, None] + s1 * normal[:, 1:]
    jobs = [Job(id=f"j2-{i}", name="j2", stages=(Stage(name="s", tasks=TASKS, demand=(1,)),)) for i in range(RUNS)]
    said = [[estimate(each, job, row) for job, row in zip(jobs, times, strict=True)] for each in asked]
    return Runs(x, np.array(said[0]), np.array(said[1]))


def variance(said: Floats, truth: Floats) -> float:
    return float(np.square(said - truth).mean())


@pytest.mark.parametrize(("so", "s1", "m"), BETTER + WORSE)
@pytest.mark.drawn(of=8)
def test_history_errs_by_the_variation_between_runs_however_many_tasks_there_are(so: int, s1: int, m: int) -> None:
    runs = drawn(so, s1, m)
    assert variance(runs.history, runs.truth) == pytest.approx(so**2, rel=0.1)


@pytest.mark.parametrize(("so", "s1", "m"), BETTER + WORSE)
def test_pilots_err_by_the_variation_between_tasks_over_their_number(so: int, s1: int, m: int) -> None:
    runs = drawn(so, s1, m)
    assert variance(runs.pilots, runs.truth) == pytest.approx(s1**2 / m, rel=0.1)


@pytest.mark.parametrize(("so", "s1", "m", "better"), [*((*x, True) for x in BETTER), *((*x, False) for x in WORSE)])
def test_pilots_are_the_better_teacher_where_they_are_more_than_the_variations_ratio_squared(
    so: int, s1: int, m: int, better: bool
) -> None:
    runs = drawn(so, s1, m)
    assert better == (m > (s1 / so) ** 2)
    assert better == (variance(runs.pilots, runs.truth) < variance(runs.history, runs.truth))


@pytest.mark.parametrize(("so", "s1", "m"), BETTER + WORSE)
def test_both_together_err_less_than_either(so: int, s1: int, m: int) -> None:
    runs = drawn(so, s1, m)
    each = [normal_posterior(KNOWN, so**2, said, s1**2 / m) for said in runs.pilots.tolist()]
    both, left = np.array(each)[:, 0], each[0][1]
    assert left == pytest.approx(1 / (m / s1**2 + 1 / so**2))
    assert left < min(so**2, s1**2 / m)
    assert variance(both, runs.truth) == pytest.approx(left, rel=0.1)


@pytest.mark.parametrize(("so", "s1", "m"), BETTER + WORSE)
def test_pilots_order_the_jobs_wrongly_by_the_angle_between_estimate_and_truth(so: int, s1: int, m: int) -> None:
    """Two centred normals of correlation r differ in sign with probability arccos(r) / pi; history cannot order."""
    runs = drawn(so, s1, m)
    wrong = ((runs.pilots > KNOWN) != (runs.truth > KNOWN)).mean()
    assert wrong == pytest.approx(math.atan(s1 / (so * math.sqrt(m))) / math.pi, abs=0.03)
    assert runs.history.tolist() == [KNOWN] * RUNS
