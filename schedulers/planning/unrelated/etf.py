"""Earliest Task First. Source: Hwang, Chow, Anger, Lee, SIAM J. Computing 18(2), 1989.

Made for equal machines: the start of a task counts and not its time, so unlike machines suit the planner badly. Of
equal starts the paper takes the task of higher static level, by mean times here. Then the lowest task and the lowest
machine.
"""

from __future__ import annotations

import numpy as np

from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.pairs import ready_pairs
from schedulers.planning.unrelated.ranks import static_levels
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines


def etf(instance: Instance) -> TimelinePlan:
    """Always the ready task and machine of the earliest start; machines are appended to."""
    levels = np.array(static_levels(instance.mean_times(), instance))
    timelines = Timelines(instance)
    ready_pairs(timelines, lambda tasks, starts: (-starts, levels[tasks]))
    return timelines.plan()
