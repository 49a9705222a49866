"""The predictor `speedups`: T(n) is the fit where nothing is known, and what similar jobs took where much is."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.testing import job, stage
from schedulers.core.model import Job
from schedulers.core.predictor import FinishedTask
from schedulers.kit.speedups import alone_s, shape_of
from schedulers.predictors.speedups import Speedups, held

SECONDS = 10.0
WAVES = 2


def named(identity: str, executors: int) -> Job:
    return job(identity, stage(WAVES * executors), name="q")


def ended(predictor: Speedups, spec: Job, executors: int, factor: float, at: int) -> int:
    """Play a job of tasks of 10 s, on so many executors, that took `factor` times the time by the fit; its end, ms."""
    predictor.submitted(spec, at)
    whole = 1000 * factor * alone_s(shape_of(spec.stages, [SECONDS]), executors)
    assert whole >= WAVES * 1000 * SECONDS, "such tasks do not fit in the time"
    for task in range(spec.tasks):
        # Executors wait between the first and the last wave: the job takes longer, and no task does.
        end = at + round(whole if task >= executors else 1000 * SECONDS)
        predictor.finished(FinishedTask(spec.id, 0, task, False), round(1000 * SECONDS), 1.0, end)
    predictor.job_done(spec, at + round(whole))
    return at + round(whole)


def taught(jobs: int, executors: int, factor: float) -> Speedups:
    """After so many equal jobs."""
    predictor, at = Speedups(Speedups.Params(default_task_ms=10_000)), 0
    for number in range(jobs):
        at = ended(predictor, named(f"past{number}", executors), executors, factor, at)
    return predictor


def ratio(predictor: Speedups, spec: Job, executors: int) -> float:
    """T(n) of a new job over the fit for tasks of 10 s."""
    predictor.submitted(spec, 10**6)
    found = predictor.alone_ms(spec.id, executors)
    assert found is not None
    return found / 1000 / alone_s(shape_of(spec.stages, [SECONDS]), executors)


@given(tasks=st.integers(1, 500), executors=st.integers(1, 300))
def test_where_nothing_is_known_the_time_alone_is_the_fit_of_the_estimates(tasks: int, executors: int) -> None:
    predictor = Speedups(Speedups.Params(default_task_ms=10_000))
    assert ratio(predictor, job("a", stage(tasks)), executors) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("executors", [5, 19])
def test_where_much_is_known_the_time_alone_is_what_similar_jobs_took(executors: int) -> None:
    predictor = taught(40, executors, 2.0)
    assert ratio(predictor, named("a", executors), executors) == pytest.approx(2.0, rel=0.01)


@given(jobs=st.integers(0, 12), factor=st.floats(1.0, 5.0))
def test_the_more_similar_jobs_the_nearer_is_the_time_alone_to_theirs(jobs: int, factor: float) -> None:
    found = [ratio(taught(count, 5, factor), named("a", 5), 5) for count in (jobs, jobs + 1)]
    assert 1 - 1e-6 <= found[0] <= found[1] + 1e-3
    assert found[1] <= factor + 1e-3


def test_other_numbers_of_executors_learn_less() -> None:
    predictor = taught(4, 5, 2.0)
    own, other = (ratio(predictor, named(f"a{n}", n), n) for n in (5, 19))
    assert 1.2 < other < own < 2.0


def test_jobs_with_another_name_and_user_learn_nothing() -> None:
    predictor = Speedups(Speedups.Params(features=("job_name",), default_task_ms=10_000))
    ended(predictor, named("past", 5), 5, 3.0, 0)
    assert ratio(predictor, job("a", stage(10), name="other"), 5) == 1.0


def test_a_cancelled_job_teaches_nothing() -> None:
    predictor, spec = taught(4, 5, 2.0), named("gone", 5)
    before = ratio(predictor, named("a", 5), 5)
    predictor.submitted(spec, 0)
    predictor.finished(FinishedTask("gone", 0, 0, False), 1000, 1.0, 10**6)
    predictor.job_gone(spec, 10**6)
    assert ratio(predictor, named("b", 5), 5) == before


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=8))
def test_executors_are_held_from_the_first_task_to_the_last_and_at_least_one_for_each_task_at_once(
    tasks: list[tuple[int, int]],
) -> None:
    changes: Counter[int] = Counter()
    for start, ms in tasks:
        changes.update({start: 1})
        changes.subtract({start + ms: 1})
    parts = held(changes)
    starts = list(accumulate((ms for ms, _ in parts), initial=min(start for start, _ in tasks)))
    assert starts[-1] == max(start + ms for start, ms in tasks)
    for begin, (ms, executors) in zip(starts, parts, strict=False):
        assert executors >= sum(start <= begin and begin + ms <= start + took for start, took in tasks)
        assert executors <= len(tasks)
