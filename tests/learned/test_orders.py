"""The rule `priced`, and what a guided network is told of it."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from schedulers.learned.graph import Graph, JobGraph
from schedulers.learned.guide import GUIDE_FEATURES, LOG_SCALE, guide, is_said
from schedulers.learned.limits import candidates
from schedulers.learned.orders import by_prices, prices
from tests.learned.drawn import drawn_graph, drawn_job

CHOSEN, TURN, ROOM, LIMIT = range(len(GUIDE_FEATURES))


def equal(count: int, *, outlive: bool = True) -> Graph:
    """So many jobs alike, of 1,000 s of work and a longest path of 10 s, none of it done, with no executors."""
    one = drawn_job("j", np.random.default_rng(1), stages=4)
    features = np.array([0, -2, 2.5, 1, math.log(2) / 2, math.log(2) / 2], np.float32)
    one = msgspec.structs.replace(one, features=features, least=1, work_ms=1e6, path_ms=1e4)
    return Graph(tuple(msgspec.structs.replace(one, name=f"j{n}") for n in range(count)), 50, (), outlive)


def with_executors(job: JobGraph, count: int, *, own: bool) -> JobGraph:
    """As it is asked about one executor more; own: which is the job's own, and among the count."""
    features = job.features.copy()
    features[0], features[1] = count / 20, 2.0 if own else -2.0
    return msgspec.structs.replace(job, features=features, least=count if own else count + 1)


@pytest.mark.parametrize("outlive", [False, True])
def test_the_more_jobs_are_behind_a_job_the_fewer_executors_it_has(outlive: bool) -> None:
    order, most = prices(equal(20, outlive=outlive))
    mosts = [most[job] for job in order]
    assert mosts == sorted(mosts)
    assert mosts[0] < mosts[-1]


def test_where_width_slows_nothing_down_a_job_has_more_executors() -> None:
    for kept, ended in zip(prices(equal(20))[1], prices(equal(20, outlive=False))[1], strict=True):
        assert ended >= kept


def test_the_job_with_the_least_left_of_equals_is_first() -> None:
    graph = equal(3)
    features = graph.jobs[2].features.copy()
    features[5] -= 0.1
    first, second, third = graph.jobs
    shorter = msgspec.structs.replace(third, features=features)
    assert prices(msgspec.structs.replace(graph, jobs=(first, second, shorter)))[0] == [2, 0, 1]


@pytest.mark.parametrize(("held", "stays"), [(0, True), (30, False)])
def test_an_executor_of_a_job_with_far_more_than_its_number_goes_to_another(held: int, stays: bool) -> None:
    graph = equal(6)
    first, second, *others = graph.jobs
    has = with_executors(second, prices(graph)[1][1] + held, own=True)
    graph = msgspec.structs.replace(graph, jobs=(first, has, *others))
    assert (by_prices(graph, *prices(graph)).job == 1) == stays


@pytest.mark.parametrize("seed", range(5))
def test_a_guide_tells_what_the_rule_would_do(seed: int) -> None:
    graph = drawn_graph(8, np.random.default_rng(seed))
    action, told = by_prices(graph, *prices(graph)), guide(graph)
    assert np.flatnonzero(told[:, CHOSEN]).tolist() == [action.job]
    assert math.exp(LOG_SCALE * told[action.job, LIMIT]) == pytest.approx(action.limit, rel=1e-4)
    assert np.argsort(told[:, TURN]).tolist() == prices(graph)[0]


def test_a_guide_tells_the_limit_that_the_rule_would_say_from_all_others() -> None:
    graph = drawn_graph(8, np.random.default_rng(9))
    action, told = by_prices(graph, *prices(graph)), guide(graph)
    limits = candidates(graph.jobs[action.job].least, graph.executors)
    said = is_said(np.log(limits)[:, None], float(told[action.job, LIMIT]))[:, 0]
    assert [limit for limit, is_it in zip(limits, said, strict=True) if is_it] == [action.limit]
