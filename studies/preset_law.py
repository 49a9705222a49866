"""The law by which a preset draws the mean run time of a job, as told to nobody: the bound for who learns from history.

The generator (`rm_emulator.workload.synthetic`) draws a name's usual run time, shortens some names since their history,
and lets each run differ from the usual, now and then by far. Here the same is read backwards, by Bayes' rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from rm_emulator.forecasts.scoring import Law
from rm_emulator.workload.synthetic import SLOTS, Preset
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Job

#: Points of ln(usual run time), and how far below that of the history.
_POINTS, _REACH = 400, 14.0
#: Deviation of ln(mean run time) of a run that is far longer, whose length the history tells but for its jitter.
_OUTLIER: Final = 0.2
#: Deviation of the points where there is no history, and the outliers' usual ln(times longer) there.
_APART, _LONGER = 0.05, 1.0
#: Points of less weight are left out.
_LEAST: Final = 1e-6


def preset_law(knobs: Preset, slots: int) -> Law:
    """The law of a preset on a cluster of so many slots.

    Two approximations: usual run times are drawn one by one, not evenly spread over the names; an outlier is as long as
    the longest run of the name's history. Raises InvalidParameters for a preset of which who is misjudged depends on
    the size of the job, or that has names longer now than in their history.
    """
    if knobs.tail_over < 1 or knobs.outliers_large:
        raise InvalidParameters("the law is known of presets with tail_over 1 and outliers_large 0 only")

    def law(job: Job, past: Sequence[float], since: Sequence[float]) -> list[tuple[float, float, float]]:
        points, longer = _usual(knobs, *_level(knobs, job.tasks, slots), past)
        jitter, often = knobs.jitter, knobs.outliers
        top = math.log(1000 * knobs.task_max_s)
        weights, middles, deviations = points
        wide = np.hypot(jitter, deviations)
        for ms in since:
            near = (math.log(ms) - middles + jitter**2 / 2) / wide
            far = (math.log(ms) - np.minimum(top, middles + longer)) / _OUTLIER
            weights = weights * (
                (1 - often) * np.exp(-0.5 * near**2) / wide + often * np.exp(-0.5 * far**2) / _OUTLIER + 1e-12
            )
        found = []
        for weight, middle, deviation in zip(weights / weights.sum(), middles, wide, strict=True):
            if weight > _LEAST:
                found.append(((1 - often) * weight, min(top, middle - jitter**2 / 2), deviation))
                found.append((often * weight, min(top, middle + longer), _OUTLIER))
        return found

    return law


def _level(knobs: Preset, tasks: int, slots: int) -> tuple[float, float]:
    """Mean and deviation of ln(usual run time, ms) over jobs of this width."""
    gang = (2 * knobs.gang_width * slots + SLOTS) // (2 * SLOTS)
    if tasks <= max(1, (4 * slots + SLOTS) // (2 * SLOTS)):
        median, sigma = knobs.thin_task_s, knobs.thin_task_sigma
    elif tasks == gang:
        median, sigma = knobs.gang_task_s, knobs.gang_task_sigma
    else:
        median, sigma = knobs.wide_task_s, knobs.wide_task_sigma
    return math.log(1000 * median), sigma


def _usual(
    knobs: Preset, centre: float, sigma: float, past: Sequence[float]
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], float]:
    """Points (weight, ln(usual run time), deviation), and ln of the times that an outlier is longer."""

    def level(logs: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * ((logs - centre) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))

    if len(past) < 2:
        logs = np.linspace(centre - 4 * sigma, min(math.log(1000 * knobs.task_max_s), centre + 4 * sigma), _POINTS)
        return (level(logs), logs, np.full(_POINTS, _APART)), _LONGER
    ascending = np.sort(np.log(past))
    before = float(ascending[:-1].mean()) + knobs.jitter**2 / 2
    doubt, cap = knobs.jitter / math.sqrt(len(past) - 1), math.log(1000 * (knobs.drift_max_s or math.inf))
    logs = np.linspace(before - _REACH, before, _POINTS)
    shorter = knobs.drifted * np.exp((logs - before) / knobs.drift) * level(logs) * (logs[1] - logs[0])
    if abs(before - cap) < 3 * doubt:  # as long as drift alone makes a past run: the drift was as large or larger
        shorter *= 1 / (math.sqrt(2 * math.pi) * doubt)
    elif before > cap:
        shorter *= 0
    else:
        shorter /= knobs.drift
    weights = np.append(shorter, (1 - knobs.drifted) * level(np.array([before])))
    points = weights, np.append(logs, before), np.full(_POINTS + 1, doubt)
    return points, max(0.0, float(ascending[-1]) - before)
