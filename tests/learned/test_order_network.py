"""LACHESIS's network in numpy: what it may choose from, and what must not change what it says."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from schedulers.learned.order_network import OrderNetwork
from schedulers.learned.routes import Route, RouteChoices
from tests.learned.drawn_choices import drawn_choices, trained_somehow

WEIGHTS = trained_somehow()


def test_scores_are_of_the_valid_rows_and_of_no_other() -> None:
    choices = drawn_choices(9, np.random.default_rng(1))
    scores = OrderNetwork(WEIGHTS).scores(choices)
    assert len(scores) == np.count_nonzero(choices.valid)
    assert len(set(scores)) == len(scores)


def test_the_order_of_jobs_changes_nothing() -> None:
    choices = drawn_choices(7, np.random.default_rng(2))
    order = np.random.default_rng(3).permutation(7)
    cuts = np.cumsum([len(route.nodes) for route in choices.routes])[:-1]
    left, valid = np.split(choices.left, cuts), np.split(choices.valid, cuts)
    shuffled = RouteChoices(
        tuple(choices.routes[job] for job in order),
        choices.features[order],
        np.concatenate([left[job] for job in order]),
        np.concatenate([valid[job] for job in order]),
        choices.longest_ms,
        choices.executors,
    )
    sizes = [int(valid[job].sum()) for job in range(7)]
    by_job = np.split(OrderNetwork(WEIGHTS).scores(choices), np.cumsum(sizes)[:-1])
    expected = np.concatenate([by_job[job] for job in order])
    assert OrderNetwork(WEIGHTS).scores(shuffled) == pytest.approx(expected, abs=1e-12)


def test_what_is_kept_of_a_job_is_what_would_be_computed_anew() -> None:
    network, first = OrderNetwork(WEIGHTS), drawn_choices(6, np.random.default_rng(4))
    network.scores(first)
    later = msgspec.structs.replace(first, left=first.valid, features=first.features[::-1].copy())
    assert network.scores(later) == pytest.approx(OrderNetwork(WEIGHTS).scores(later), abs=1e-12)


def test_a_job_with_other_estimates_is_computed_anew() -> None:
    network, first = OrderNetwork(WEIGHTS), drawn_choices(2, np.random.default_rng(5))
    before = network.scores(first)
    one = first.routes[0]
    other = Route(one.name, one.nodes * np.float32(0.5), one.edges, one.moves)
    assert not np.allclose(network.scores(msgspec.structs.replace(first, routes=(other, first.routes[1]))), before)


def test_what_is_above_a_stage_is_no_matter_of_it() -> None:
    chain = Route("a", np.eye(3, 6, dtype=np.float32), np.array([[0, 1], [1, 2]]), np.ones(2, np.float32))
    network = OrderNetwork(WEIGHTS)
    whole = network._embedded(chain).own[1:]
    rest = network._embedded(Route("b", chain.nodes[1:], np.array([[0, 1]]), np.ones(1, np.float32))).own
    assert whole == pytest.approx(rest, abs=1e-12)


@pytest.mark.parametrize("hops", [3])
def test_a_stage_hears_of_those_three_steps_below_it_and_of_none_further(hops: int) -> None:
    def first(changed: int) -> np.ndarray:
        nodes = np.ones((6, 6), np.float32)
        nodes[changed] += 1
        edges = np.array([[stage, stage + 1] for stage in range(5)])
        return OrderNetwork(WEIGHTS)._embedded(Route("a", nodes, edges, np.ones(5, np.float32))).own[0]

    assert not np.allclose(first(hops), first(5))
    assert np.allclose(first(hops + 1), first(5))
