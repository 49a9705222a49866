"""How long a job must wait for its data: the paper's figures, and the formula against its own sum."""

from __future__ import annotations

import math
import random

import pytest

from schedulers.planning.locality import skips_for, skips_per_node


@pytest.mark.parametrize(
    ("locality", "tasks", "replicas", "of_nodes"),
    [(0.95, 20, 3, 0.231), (0.95, 20, 1, 0.693), (0.99, 20, 3, 0.597)],
)
def test_skips_as_a_multiple_of_the_nodes(locality: float, tasks: int, replicas: int, of_nodes: float) -> None:
    assert skips_per_node(locality, tasks, replicas) == pytest.approx(of_nodes, abs=5e-4)


def test_skips_are_whole_and_rounded_up() -> None:
    assert skips_for(0.95, nodes=100, tasks=20, replicas=3) == 24
    assert skips_for(0.0, nodes=100, tasks=20, replicas=3) == 2


@pytest.mark.parametrize("locality", [1.0, 1.5, -0.1])
def test_a_share_that_no_wait_reaches_is_refused(locality: float) -> None:
    with pytest.raises(ValueError, match="cannot be reached by waiting"):
        skips_for(locality, nodes=10, tasks=2, replicas=3)


def test_without_input_there_is_nothing_to_wait_for() -> None:
    with pytest.raises(ValueError, match="no data to wait for"):
        skips_for(0.9, nodes=10, tasks=0, replicas=3)


def expected_locality(skips: int, nodes: int, tasks: int, replicas: int) -> float:
    """The share of local tasks that passing up so many opportunities gives: a mean over K = 1 .. N tasks left.

    A node holds data of one with probability p = 1 - (1 - K/M)^R, and the job finds one among D with 1 - (1 - p)^D.
    """
    missed = ((1 - min(1.0, left / nodes)) ** (replicas * skips) for left in range(1, tasks + 1))
    return 1 - math.fsum(missed) / tasks


@pytest.mark.parametrize("locality", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("tasks", [1, 5, 20, 100])
@pytest.mark.parametrize("replicas", [1, 3])
def test_so_many_skips_reach_the_share_asked_for(locality: float, tasks: int, replicas: int) -> None:
    skips = skips_for(locality, nodes=100, tasks=tasks, replicas=replicas)
    assert expected_locality(skips, nodes=100, tasks=tasks, replicas=replicas) >= locality


def test_expected_locality_is_that_of_random_offers() -> None:
    nodes, tasks, replicas, skips, draw = 30, 10, 3, 8, random.Random(1)
    local = total = 0
    for _ in range(400):
        for left in range(1, tasks + 1):
            there = {node for _ in range(left) for node in draw.sample(range(nodes), replicas)}
            local += any(draw.randrange(nodes) in there for _ in range(skips))
            total += 1
    assert local / total == pytest.approx(expected_locality(skips, nodes, tasks, replicas), abs=0.02)
