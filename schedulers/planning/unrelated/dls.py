"""Dynamic Level Scheduling. Source: Sih and Lee, TPDS 4(2), 1993, sections III and IV (generalised dynamic level 1).

Machines are appended to. The paper is silent on ties: here the lowest task and then the lowest machine win.
"""

from __future__ import annotations

import numpy as np

from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.pairs import ready_pairs
from schedulers.planning.unrelated.ranks import static_levels
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines


def dls(instance: Instance) -> TimelinePlan:
    """Always the ready task and machine of the highest dynamic level.

    Dynamic level: the static level (the longest way to the end by median times, without transfers), less the earliest
    start there, plus the median time less the machine's.
    """
    medians = np.median(instance.times, axis=1)
    levels = np.array(static_levels([float(x) for x in medians], instance))
    worth = levels[:, None] + medians[:, None] - instance.times
    timelines = Timelines(instance)
    ready_pairs(timelines, lambda tasks, starts: (worth[tasks] - starts, None))
    return timelines.plan()
