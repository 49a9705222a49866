"""How far tasks are from the end and from the beginning of their DAG: upward and downward rank (HEFT, section 3.2).

Input is a time per task and per edge, a mean over machines: `Instance.mean_times` has HEFT's mean of times and
LACHESIS's mean of speeds, and `Instance.mean_edges` the transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

from schedulers.planning.unrelated.instance import Edge, Instance, Mean


def rank_up(times: Sequence[float], edges: Sequence[Edge]) -> list[float]:
    """Per task the longest way from its start to the end: times of tasks, and of transfers along edges.

    edges: (parent, child, transfer time). Raises graphlib.CycleError where edges form a cycle.

    >>> rank_up([2.0, 3.0], [(0, 1, 10.0)])
    [15.0, 3.0]
    """
    below: list[list[tuple[int, float]]] = [[] for _ in times]
    for parent, child, transfer in edges:
        below[parent].append((child, transfer))
    ranks = [0.0] * len(times)
    for task in _order(below):
        ranks[task] = times[task] + max((transfer + ranks[child] for child, transfer in below[task]), default=0.0)
    return ranks


def rank_down(times: Sequence[float], edges: Sequence[Edge]) -> list[float]:
    """Per task the longest way from the beginning to its start.

    >>> rank_down([2.0, 3.0], [(0, 1, 10.0)])
    [0.0, 12.0]
    """
    above: list[list[tuple[int, float]]] = [[] for _ in times]
    for parent, child, transfer in edges:
        above[child].append((parent, transfer))
    ranks = [0.0] * len(times)
    for task in _order(above):
        ranks[task] = max((ranks[p] + times[p] + transfer for p, transfer in above[task]), default=0.0)
    return ranks


def ranks_up(instance: Instance, mean: Mean = "times") -> list[float]:
    """Upward ranks of an instance."""
    return rank_up(instance.mean_times(mean), instance.mean_edges)


def ranks_down(instance: Instance, mean: Mean = "times") -> list[float]:
    """Downward ranks of an instance."""
    return rank_down(instance.mean_times(mean), instance.mean_edges)


def static_levels(times: Sequence[float], instance: Instance) -> list[float]:
    """Upward ranks without transfers (static level, b-level of times alone)."""
    return rank_up(times, [(parent, child, 0.0) for parent, child, _ in instance.edges])


def _order(before: Sequence[Sequence[tuple[int, float]]]) -> list[int]:
    """Tasks, each behind the tasks of its list."""
    sorter = TopologicalSorter({task: [other for other, _ in others] for task, others in enumerate(before)})
    return list(sorter.static_order())
