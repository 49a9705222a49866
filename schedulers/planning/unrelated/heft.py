"""Heterogeneous Earliest Finish Time. Source: Topcuoglu, Hariri, Wu, TPDS 13(3), 2002, section 4.1.

The paper is silent on ties: equal ranks go to the lowest task, equal ends to the lowest machine.
"""

from __future__ import annotations

from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.ranks import ranks_up
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines


def heft(instance: Instance) -> TimelinePlan:
    """Tasks by descending upward rank, each on the machine of its first end, idle stretches included."""
    timelines = Timelines(instance)
    for task in instance.by_priority(ranks_up(instance)):
        _, machine, start = timelines.soonest(timelines.ready(task), instance.times[task], insertion=True)
        timelines.place(task, machine, start)
    return timelines.plan()
