"""Predict Earliest Finish Time. Source: Arabnejad and Barbosa, TPDS 25(3), 2014, section 4.

Ties, on which the paper is silent, go to the lowest task and the lowest machine.
"""

from __future__ import annotations

import numpy as np

from schedulers.planning.unrelated.instance import Floats, Instance
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines


def peft(instance: Instance) -> TimelinePlan:
    """Ready tasks by mean optimistic cost, each at the least sum of its end and cost, idle stretches included."""
    costs, timelines = optimistic_costs(instance), Timelines(instance)
    for task in instance.by_priority([float(x) for x in costs.mean(axis=1)]):
        _, machine, start = timelines.soonest(
            timelines.ready(task), instance.times[task], insertion=True, beyond=costs[task]
        )
        timelines.place(task, machine, start)
    return timelines.plan()


def optimistic_costs(instance: Instance) -> Floats:
    """[tasks, machines]: the longest way from the end of a task there to the end of all, with machines chosen freely.

    For each child the machine with the least sum of its own time and way, plus the mean transfer to another machine
    (equation 5); the largest over all children.
    """
    costs = np.zeros_like(instance.times)
    rate = instance.mean_rate
    for task in reversed(instance.order):
        for child, data in instance.children[task]:
            there = costs[child] + instance.times[child]
            costs[task] = np.maximum(costs[task], np.minimum(there, there.min() + data / rate))
    return costs
