"""How long a job must wait for its data: the analysis of delay scheduling (Zaharia et al., EuroSys 2010, section 3.5).

A job of `tasks` tasks reads blocks that each have `replicas` copies, spread at random over `nodes` nodes; nodes come
up for it in random order. What is asked for is the share of its tasks that run where their block is.
"""

from __future__ import annotations

import math


def skips_for(locality: float, nodes: int, tasks: int, replicas: float) -> int:
    """D, the opportunities to pass up so that at least this share of the tasks is local, rounded up.

    D >= -(M/R) ln((1 - l) N / (1 + (1 - l) N)). Raises ValueError for a share of 1 or more, which no D reaches.

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
