"""A job's wait for its data: the analysis of delay scheduling (Zaharia et al., EuroSys 2010, section 3.5).

A job of `tasks` tasks reads blocks with `replicas` copies each, spread at random over `nodes` nodes; nodes are offered
to the job in random order. The goal is a share of tasks that run on a node with their block.
"""

from __future__ import annotations

import math


def skips_for(locality: float, nodes: int, tasks: int, replicas: float) -> int:
    """D, the opportunities to pass up for at least this share of local tasks, rounded up.

    D >= -(M/R) ln((1 - l) N / (1 + (1 - l) N)). Raises ValueError for a share of 1 or more: no D reaches so much.

    >>> skips_for(0.95, nodes=100, tasks=20, replicas=3)
    24
    """
    return math.ceil(skips_per_node(locality, tasks, replicas) * nodes)


def skips_per_node(locality: float, tasks: int, replicas: float) -> float:
    """D as a multiple of the number of nodes."""
    if not 0 <= locality < 1:
        raise ValueError(f"a locality of {locality} cannot be reached by waiting (expected 0 or more, less than 1)")
    if tasks < 1 or not replicas > 0:
        raise ValueError(f"{tasks} tasks with {replicas} replicas each have no data to wait for")
    remote = (1 - locality) * tasks
    return -math.log(remote / (1 + remote)) / replicas
