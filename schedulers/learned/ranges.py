"""Ranges of what a network met in training, stored with the weights; see `fallback`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np

from schedulers.learned.graph import Graph

Range: TypeAlias = tuple[float, float]
#: By name of FEATURES the least and the greatest value.
Ranges: TypeAlias = Mapping[str, Range]

#: What is compared with training, in the words of a sentence after a number.
FEATURES: Final[Mapping[str, str]] = {
    "unknown": "stages without an estimate",
    "executors": "executors",
    "jobs": "live jobs",
    "stages": "stages in a job",
    "tasks": "tasks of a stage to start",
    "task_time": "s for a task",
    "size": "s of work in a job",
}


def ranges_of(graph: Graph) -> dict[str, Range]:
    """The least and the greatest value of each of FEATURES in an observation; `size` where a job has an estimate."""
    jobs, nodes = graph.jobs, np.concatenate([job.nodes for job in graph.jobs])
    low, high = nodes.min(axis=0).tolist(), nodes.max(axis=0).tolist()
    unknown, stages = float(len(nodes) - np.count_nonzero(nodes[:, 6])), [len(job.nodes) for job in jobs]
    sizes = [job.work_ms / 1000 for job in jobs if job.work_ms is not None]
    found: dict[str, Range] = {
        "unknown": (unknown, unknown),
        "executors": (graph.executors, graph.executors),
        "jobs": (len(jobs), len(jobs)),
        "stages": (min(stages), max(stages)),
        "tasks": (round(200 * low[0]), round(200 * high[0])),
        "task_time": (round(10 * low[2], 5), round(10 * high[2], 5)),  # features have seven digits
    }
    return found | ({"size": (min(sizes), max(sizes))} if sizes else {})


def outside(ranges: Ranges, graph: Graph) -> str | None:
    """In words the first value of an observation that lies outside of the ranges; None inside."""
    for name, (least, most) in ranges_of(graph).items():
        low, high = ranges.get(name, (-math.inf, math.inf))
        if least < low or most > high:
            return f"{most if most > high else least:.4g} {FEATURES[name]}, in training {low:g} to {high:g}"
    return None


def merged(ranges: Iterable[Ranges]) -> dict[str, Range]:
    """Ranges that hold all the given ranges."""
    found: dict[str, Range] = {}
    for each in ranges:
        for name, (low, high) in each.items():
            known = found.get(name, (low, high))
            found[name] = min(low, known[0]), max(high, known[1])
    return found


def rounded(ranges: Ranges) -> dict[str, Range]:
    """Ranges with ends of two digits, outward, as they are stored: other draws of the same jobs stay inside."""
    return {name: (_ended(low, math.floor), _ended(high, math.ceil)) for name, (low, high) in ranges.items()}


def noted(ranges: Ranges, rule: str) -> dict[str, str]:
    """Entries of the metadata of weights. rule: decides outside of the ranges."""
    return {"ranges": msgspec.json.encode(rounded(ranges)).decode(), "rule": rule}


def _ended(value: float, to: Callable[[float], int]) -> float:
    if not value:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{to(round(value / step, 6)) * step:g}")
