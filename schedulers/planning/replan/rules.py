"""Rules of the fast simulator, made of jobs and estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from schedulers.core.model import Job
from schedulers.kit.curves import CONSTANTS, CurvesSettings
from schedulers.kit.paths import to_output
from schedulers.kit.speedups import shape_of, spans
from schedulers.planning.replan.kernel import FIXED, JOB_RULE, MANY, PAYS, STAGE_RULE, Rule

#: Estimates: by job and stage, ms per task.
Told = Sequence[Sequence[float]]


def curves(jobs: Sequence[Job], told: Told, executors: int, settings: CurvesSettings) -> Rule:
    """The rule of `curves`: the least T(1) x part of the work left first, each job up to the width that pays."""
    shapes = [shape_of(job.stages, [ms / 1000 for ms in means]) for job, means in zip(jobs, told, strict=True)]
    rows = [list(spans(shape, executors, inverted=settings.inverted_levels)) for shape in shapes]
    keys = [row[0][1] / shape.work for row, shape in zip(rows, shapes, strict=True)]
    rule = plain(jobs, told, keys, [MANY] * len(jobs))
    widths, times = np.array([[n for n, _ in row] for row in rows]), np.array([[t for _, t in row] for row in rows])
    found = CONSTANTS[settings.learned]
    rule.jobs["over"], rule.jobs["warm"] = found.kept, found.warm
    priced = rule._replace(price=found.price, fall=found.fall, growth=found.growth)
    return priced._replace(by_work_left=True, limits=PAYS, widths=widths[0], spans=times, yields=True)


def plain(
    jobs: Sequence[Job], told: Told, keys: Sequence[float], limits: Sequence[float], *, critical: bool = True
) -> Rule:
    """A rule with keys and limits by job; stages by the longest path to the output (critical) or by index."""
    served: list[int] = []
    for job, means in zip(jobs, told, strict=True):
        left = to_output(job.stages, means.__getitem__)
        first = len(served)
        served += [
            first + stage for stage in sorted(range(len(left)), key=lambda stage: -left[stage] if critical else 0)
        ]
    by_job, by_stage = np.zeros(len(jobs), JOB_RULE), np.zeros(len(served), STAGE_RULE)
    by_job["hold"], by_job["key"], by_job["limit"], by_job["factor"], by_job["price"] = MANY, keys, limits, 1.0, 1.0
    by_job["over"], by_stage["warm"] = math.inf, 1.0
    by_stage["served"], by_stage["cap"] = served, MANY
    by_stage["task_s"] = [ms / 1000 for means in told for ms in means]
    none = np.empty(0, np.int64), np.empty((len(jobs), 0))
    return Rule(by_job, by_stage, *none, False, FIXED, 0.0, 0.0, 0.0, True, np.empty((0, 0)), np.empty(0), False)
