"""Policies as parameters of the fast simulator: `weighted_fair`, `capped_sjf` and `curves`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from rm_emulator.learn.fast_kernel import FIXED, JOB_RULE, MANY, PAYS, SHARES, STAGE_RULE, Rule
from schedulers.core.model import Job
from schedulers.kit.paths import to_output
from schedulers.kit.speedups import shape_of, spans
from schedulers.policies.capped_sjf import UNIT_MS, CappedShortestJob
from schedulers.policies.curves import CONSTANTS, SpeedUpCurves
from schedulers.policies.weighted_fair import WeightedFair

#: What the jobs of an episode are estimated at: by job and stage, ms per task.
Told = Sequence[Sequence[float]]
RULES: Final = ("weighted_fair", "capped_sjf", "curves")


def rule_of(policy: Mapping[str, Any], jobs: Sequence[Job], told: Told, executors: int) -> Rule:
    """A policy of a scenario on the jobs of an episode, in the order of their arrival.

    policy: kind (one of RULES) and settings, see the reference of the policy. Raises ValueError for another kind, and
    msgspec.ValidationError for settings that the policy does not have.
    """
    kind, settings = policy.get("kind"), {name: value for name, value in policy.items() if name != "kind"}
    if kind == "weighted_fair":
        return weighted_fair(jobs, told, msgspec.convert(settings, WeightedFair.Params))
    if kind == "capped_sjf":
        return capped_sjf(jobs, told, msgspec.convert(settings, CappedShortestJob.Params))
    if kind == "curves":
        return curves(jobs, told, executors, msgspec.convert(settings, SpeedUpCurves.Params))
    raise ValueError(f"the fast simulator does not know policy {kind!r} (it knows {', '.join(RULES)})")


def weighted_fair(jobs: Sequence[Job], told: Told, params: WeightedFair.Params) -> Rule:
    """Shares by (weight x total work ^ alpha); jobs and stages in order of submission, and no executor beyond."""
    weights = [
        job.weight * (max(size, 1.0) / params.unsized_ms) ** params.alpha
        for job, size in zip(jobs, _sizes(jobs, told), strict=True)
    ]
    rule = _plain(jobs, told, range(len(jobs)), weights, critical=False)
    return rule._replace(limits=SHARES, spills=False)


def capped_sjf(jobs: Sequence[Job], told: Told, params: CappedShortestJob.Params) -> Rule:
    """Shortest job first, each up to a number of executors that grows with its work."""
    sizes = _sizes(jobs, told)
    limits = [max(1, round(params.containers * math.pow(size / UNIT_MS, params.growth))) for size in sizes]
    return _plain(jobs, told, sizes, limits)


def curves(jobs: Sequence[Job], told: Told, executors: int, params: SpeedUpCurves.Params) -> Rule:
    """The least T(1) x part of the work left first, each job up to the width that pays."""
    shapes = [shape_of(job.stages, [ms / 1000 for ms in means]) for job, means in zip(jobs, told, strict=True)]
    rows = [list(spans(shape, executors, inverted=params.inverted_levels)) for shape in shapes]
    keys = [row[0][1] / shape.work for row, shape in zip(rows, shapes, strict=True)]
    rule = _plain(jobs, told, keys, [MANY] * len(jobs))
    widths, times = np.array([[n for n, _ in row] for row in rows]), np.array([[t for _, t in row] for row in rows])
    found = CONSTANTS[params.learned]
    rule.jobs["over"], rule.jobs["warm"] = found.kept, found.warm
    return rule._replace(
        by_work_left=True, limits=PAYS, widths=widths[0], spans=times, yields=True,
        price=found.price, fall=found.fall, growth=found.growth,
    )  # fmt: skip


def _plain(
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
    by_job["hold"], by_job["key"], by_job["limit"], by_job["price"] = MANY, keys, limits, 1.0
    by_job["over"], by_job["tilt"], by_stage["warm"] = math.inf, 1.0, 1.0
    by_stage["served"], by_stage["cap"] = served, MANY
    by_stage["task_s"] = [ms / 1000 for means in told for ms in means]
    none = np.empty(0, np.int64), np.empty((len(jobs), 0))
    return Rule(by_job, by_stage, *none, False, FIXED, 0.0, 0.0, 0.0, True, np.empty((0, 0)), np.empty(0), False)


def _sizes(jobs: Sequence[Job], told: Told) -> list[float]:
    """Told work of each job, task ms."""
    return [
        sum(ms * stage.tasks for ms, stage in zip(means, job.stages, strict=True))
        for job, means in zip(jobs, told, strict=True)
    ]
