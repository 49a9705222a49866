"""How far a job is: Jockey's six indicators, each from 0 to 1 and never falling as tasks finish.

Source: Jockey (EuroSys'12), section 4.2. `done` is per stage the number of its finished tasks; the history of a
stage in an earlier run, or in a rehearsal, is its `Course`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import TopologicalSorter
from operator import mul
from typing import Final, NamedTuple

from schedulers.core.rehearsal import Course, Indicator


class Paths(NamedTuple):
    """Per stage the largest sum of `longest` over a path before the stage, and over a path after the stage."""

    before: tuple[float, ...]
    after: tuple[float, ...]


def paths(courses: Sequence[Course]) -> Paths:
    """The longest paths of a DAG of stages without cycles, in any order."""
    children: list[list[int]] = [[] for _ in courses]
    for stage, course in enumerate(courses):
        for parent in course.parents:
            children[parent].append(stage)
    above = [course.parents for course in courses]
    return Paths(_longest(courses, above), _longest(courses, children))


def _longest(courses: Sequence[Course], ways: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Per stage the largest sum of `longest` over a path of the given ways, from the stage's neighbour on."""
    found = [0.0] * len(courses)
    for stage in TopologicalSorter(dict(enumerate(ways))).static_order():
        found[stage] = max((courses[other].longest + found[other] for other in ways[stage]), default=0)
    return tuple(found)


def serial(courses: Sequence[Course], done: Sequence[int], after: Sequence[float]) -> float:
    """The longest path left: over unfinished stages the rest of the stage and all after the stage, ms."""
    return max(
        (
            (1 - n / course.tasks) * course.longest + beyond
            for course, n, beyond in zip(courses, done, after, strict=True)
            if n < course.tasks
        ),
        default=0,
    )


#: From the number of finished tasks by stage to the job's progress.
Meter = Callable[[Sequence[int]], float]


def _weighted(weights: Sequence[float], courses: Sequence[Course]) -> Meter:
    """The mean of the stages' finished parts, by these weights."""
    total = sum(weights)
    each = [weight / course.tasks for weight, course in zip(weights, courses, strict=True)]
    return lambda done: sum(map(mul, each, done)) / total if total else 0.0


def _cp(courses: Sequence[Course]) -> Meter:
    after = paths(courses).after
    whole = serial(courses, [0] * len(courses), after)
    return lambda done: 1 - serial(courses, done, after) / whole if whole else 0.0


def _minstage_inf(courses: Sequence[Course]) -> Meter:
    before = paths(courses).before
    return _behind([(at, at + c.longest) for at, c in zip(before, courses, strict=True)], courses)


def _behind(spans: Sequence[tuple[float, float]], courses: Sequence[Course]) -> Meter:
    """Position of the stage furthest behind, each on its own (begin, end), over the last end."""
    last = max(end for _, end in spans)
    stages = [
        (begin, (end - begin) / course.tasks, course.tasks) for (begin, end), course in zip(spans, courses, strict=True)
    ]

    def least(done: Sequence[int]) -> float:
        at = (begin + n * each for (begin, each, tasks), n in zip(stages, done, strict=True) if n < tasks)
        return min(at) / last if last else 0.0

    return least


INDICATORS: Final[Mapping[Indicator, Callable[[Sequence[Course]], Meter]]] = {
    "totalworkWithQ": lambda courses: _weighted([course.queued + course.run for course in courses], courses),
    "totalwork": lambda courses: _weighted([course.run for course in courses], courses),
    "vertexfrac": lambda courses: _weighted([course.tasks for course in courses], courses),
    "cp": _cp,
    "minstage": lambda courses: _behind([(course.begin, course.end) for course in courses], courses),
    "minstage_inf": _minstage_inf,
}


def meter(indicator: Indicator, courses: Sequence[Course]) -> Meter:
    """A meter of a job's progress, from 0 to 1; 1 is kept for a job without unfinished tasks."""
    measure, tasks = INDICATORS[indicator](courses), sum(course.tasks for course in courses)
    return lambda done: 1.0 if sum(done) >= tasks else measure(done)
