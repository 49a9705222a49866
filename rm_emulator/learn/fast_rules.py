"""Policies as parameters of the fast simulator: `weighted_fair`, `capped_sjf` and `curves`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from schedulers.core.model import Job
from schedulers.planning.replan.kernel import SHARES, Rule
from schedulers.planning.replan.rules import Told, curves, plain
from schedulers.policies.capped_sjf import UNIT_MS, CappedShortestJob
from schedulers.policies.curves import SpeedUpCurves
from schedulers.policies.weighted_fair import WeightedFair

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
    rule = plain(jobs, told, range(len(jobs)), weights, critical=False)
    return rule._replace(limits=SHARES, spills=False)


def capped_sjf(jobs: Sequence[Job], told: Told, params: CappedShortestJob.Params) -> Rule:
    """Shortest job first, each up to a number of executors that grows with its work."""
    sizes = _sizes(jobs, told)
    limits = [max(1, round(params.containers * math.pow(size / UNIT_MS, params.growth))) for size in sizes]
    return plain(jobs, told, sizes, limits)


def _sizes(jobs: Sequence[Job], told: Told) -> list[float]:
    """Told work of each job, task ms."""
    return [
        sum(ms * stage.tasks for ms, stage in zip(means, job.stages, strict=True))
        for job, means in zip(jobs, told, strict=True)
    ]
