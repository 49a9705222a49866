"""How far a job is: Jockey's six indicators, each from 0 to 1 and never falling as tasks finish.

Source: Jockey (EuroSys'12), section 4.2. `done` is per stage the number of its finished tasks; the history of a
stage in an earlier run, or in a rehearsal, is its `StageProfile`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import TopologicalSorter
from operator import mul
from typing import Final, NamedTuple

from schedulers.core.rehearsal import Indicator, StageProfile


class Paths(NamedTuple):
    """Per stage the largest sum of `longest` over a path before the stage, and over a path after the stage."""

    before: tuple[float, ...]
    after: tuple[float, ...]


def paths(profiles: Sequence[StageProfile]) -> Paths:
    """The longest paths of a DAG of stages without cycles, in any order."""
    children: list[list[int]] = [[] for _ in profiles]
    for stage, profile in enumerate(profiles):
        for parent in profile.parents:
            children[parent].append(stage)
    above = [profile.parents for profile in profiles]
    return Paths(_longest(profiles, above), _longest(profiles, children))


def _longest(profiles: Sequence[StageProfile], ways: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Per stage the largest sum of `longest` over a path of the given ways, from the stage's neighbour on."""
    found = [0.0] * len(profiles)
    for stage in TopologicalSorter(dict(enumerate(ways))).static_order():
        found[stage] = max((profiles[other].longest + found[other] for other in ways[stage]), default=0)
    return tuple(found)


def serial(profiles: Sequence[StageProfile], done: Sequence[int], after: Sequence[float]) -> float:
    """The longest path left: over unfinished stages the rest of the stage and all after the stage, ms."""
    return max(
        (
            (1 - n / profile.tasks) * profile.longest + beyond
            for profile, n, beyond in zip(profiles, done, after, strict=True)
            if n < profile.tasks
        ),
        default=0,
    )


#: From the number of finished tasks by stage to the job's progress.
Meter = Callable[[Sequence[int]], float]


def _weighted(weights: Sequence[float], profiles: Sequence[StageProfile]) -> Meter:
    """The mean of the stages' finished parts, by these weights."""
    total = sum(weights)
    each = [weight / profile.tasks for weight, profile in zip(weights, profiles, strict=True)]
    return lambda done: sum(map(mul, each, done)) / total if total else 0.0


def _cp(profiles: Sequence[StageProfile]) -> Meter:
    after = paths(profiles).after
    whole = serial(profiles, [0] * len(profiles), after)
    return lambda done: 1 - serial(profiles, done, after) / whole if whole else 0.0


def _minstage_inf(profiles: Sequence[StageProfile]) -> Meter:
    before = paths(profiles).before
    return _behind([(at, at + c.longest) for at, c in zip(before, profiles, strict=True)], profiles)


def _behind(spans: Sequence[tuple[float, float]], profiles: Sequence[StageProfile]) -> Meter:
    """Position of the stage furthest behind, each on its own (begin, end), over the last end."""
    last = max(end for _, end in spans)
    stages = [
        (begin, (end - begin) / profile.tasks, profile.tasks)
        for (begin, end), profile in zip(spans, profiles, strict=True)
    ]

    def least(done: Sequence[int]) -> float:
        at = (begin + n * each for (begin, each, tasks), n in zip(stages, done, strict=True) if n < tasks)
        return min(at) / last if last else 0.0

    return least


INDICATORS: Final[Mapping[Indicator, Callable[[Sequence[StageProfile]], Meter]]] = {
    "totalworkWithQ": lambda profiles: _weighted([profile.queued + profile.run for profile in profiles], profiles),
    "totalwork": lambda profiles: _weighted([profile.run for profile in profiles], profiles),
    "vertexfrac": lambda profiles: _weighted([profile.tasks for profile in profiles], profiles),
    "cp": _cp,
    "minstage": lambda profiles: _behind([(profile.begin, profile.end) for profile in profiles], profiles),
    "minstage_inf": _minstage_inf,
}


def meter(indicator: Indicator, profiles: Sequence[StageProfile]) -> Meter:
    """A meter of a job's progress, from 0 to 1; 1 is kept for a job without unfinished tasks."""
    measure, tasks = INDICATORS[indicator](profiles), sum(profile.tasks for profile in profiles)
    return lambda done: 1.0 if sum(done) >= tasks else measure(done)
