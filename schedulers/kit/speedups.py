"""Speed-up curves: how long a job takes alone on so many executors, by a fit to TPC-H jobs on Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Final, NamedTuple

from schedulers.core.model import Stage
from schedulers.kit.paths import depths, to_output

#: By `inverted_levels` of the executors: rows n, c0 to c3 of ln T(n) = c0 + c1 ln(0.8 W / n + P + 0.5 D) + c2 ln W
#: + c3 ln K, for a job alone on n executors with W s of work, a longest path of P s and D stages, and K tasks. Fitted
#: to TPC-H profiles of Decima's release, each played alone. The first fit is for decima-sim, whose interpolation of
#: measured levels is inverted, so that 9, 19, 39 and 49 executors are cheap there alone; its source is a study outside
#: this project, and `studies.speedups` comes within 6 % of its T(n). The second is made by `studies.speedups`; with a
#: query left out the error of ln T is 6-8 % for n >= 5, and 9-15 % below.
FITS: Final[Mapping[bool, tuple[tuple[int, float, float, float, float], ...]]] = {
    True: (
        (1, -1.541, -0.305, 1.697, -0.234),
        (2, -1.913, -0.079, 1.406, -0.213),
        (3, -1.596, 0.414, 0.883, -0.198),
        (4, -1.236, 0.718, 0.561, -0.186),
        (5, -0.857, 0.969, 0.302, -0.176),
        (9, -0.021, 1.344, -0.102, -0.141),
        (19, 0.355, 1.369, -0.197, -0.074),
        (39, 0.437, 1.261, -0.178, -0.008),
        (49, 0.316, 1.129, -0.096, 0.013),
    ),
    False: (
        (1, -1.508, 0.183, 1.217, -0.232),
        (2, -1.655, 0.243, 1.089, -0.214),
        (3, -1.435, 0.505, 0.789, -0.200),
        (5, -0.837, 0.899, 0.358, -0.181),
        (8, -0.200, 1.177, 0.037, -0.145),
        (10, 0.050, 1.261, -0.065, -0.126),
        (20, 0.316, 1.227, -0.110, -0.064),
        (40, 0.405, 1.093, -0.058, -0.023),
        (50, 0.444, 1.022, -0.041, -0.004),
    ),
}


class Shape(NamedTuple):
    """The part of a job that decides the fit."""

    work: float
    """Run time of all tasks, s."""
    path: float
    """The longest path, with a single task of each stage, s."""
    depth: int
    """Stages on the longest chain."""
    tasks: int


def shape_of(stages: tuple[Stage, ...], seconds: Sequence[float]) -> Shape:
    """The shape of a job. seconds: mean run time of a task by stage, s. Raises InvalidJob when the stages form a cycle.

    >>> chain = tuple(Stage(name=n, tasks=4, demand=(1,), parents=p) for n, p in [("a", ()), ("b", (0,))])
    >>> shape_of(chain, [2.0, 1.0])
    Shape(work=12.0, path=3.0, depth=2, tasks=8)
    """
    work = sum(each * stage.tasks for each, stage in zip(seconds, stages, strict=True))
    path = max(to_output(stages, seconds.__getitem__))
    return Shape(work, path, max(depths(stages)) + 1, sum(stage.tasks for stage in stages))


def explained(shape: Shape, executors: int) -> tuple[float, float, float, float]:
    """What c0 to c3 are multiplied with. The shape has work."""
    alone = 0.8 * shape.work / executors + shape.path + 0.5 * shape.depth
    return 1.0, math.log(alone), math.log(shape.work), math.log(shape.tasks)


def spans(shape: Shape, executors: int, *, inverted: bool = True) -> Iterable[tuple[int, float]]:
    """(n, T(n) in s) by width, up to a number of executors. The shape has work. inverted: the fit, see FITS.

    Beyond FITS, widths grow by half, with the coefficients of the last row.

    >>> [(n, round(t)) for n, t in spans(Shape(1000.0, 20.0, 4, 500), 50)][:3]
    [(1, 796), (2, 403), (3, 275)]
    """
    rows = [(n, tuple(coefficients)) for n, *coefficients in FITS[inverted]]
    while (wider := rows[-1][0] * 3 // 2) < executors:
        rows.append((wider, rows[-1][1]))
    for n, coefficients in rows:
        if n <= executors:
            yield n, math.exp(sum(map(mul, coefficients, explained(shape, n))))
