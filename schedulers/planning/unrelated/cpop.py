"""Critical Path On a Processor. Source: Topcuoglu, Hariri, Wu, TPDS 13(3), 2002, section 4.2.

The paper is silent on ties: here the lowest task and the lowest machine win. The paper has a single entry task; with
several the path begins at the entry task of highest priority.
"""

from __future__ import annotations

from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.ranks import ranks_down, ranks_up
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines


def cpop(instance: Instance) -> TimelinePlan:
    """Ready tasks by length of the path through them; the critical path on a machine of its own, others where first."""
    timelines, priorities = Timelines(instance), _priorities(instance)
    path = set(critical_path(instance))
    machine_of_path = critical_machine(instance)
    for task in instance.by_priority(priorities):
        ready, times = timelines.ready(task), instance.times[task]
        if task in path:
            machine = machine_of_path
            start = timelines.earliest(machine, float(ready[machine]), float(times[machine]))
        else:
            _, machine, start = timelines.soonest(ready, times, insertion=True)
        timelines.place(task, machine, start)
    return timelines.plan()


def critical_path(instance: Instance) -> list[int]:
    """From an entry task on, each time the child on the longest path."""
    priorities = _priorities(instance)
    digits = max(priorities) or 1.0

    def rank(task: int) -> tuple[float, int]:
        return -round(priorities[task] / digits, 12), task

    path = [min((task for task in range(instance.tasks) if not instance.parents[task]), key=rank)]
    while instance.children[path[-1]]:
        path.append(min((child for child, _ in instance.children[path[-1]]), key=rank))
    return path


def critical_machine(instance: Instance) -> int:
    """The machine with the least time for the critical path."""
    return int(instance.times[critical_path(instance)].sum(axis=0).argmin())


def _priorities(instance: Instance) -> list[float]:
    return [up + down for up, down in zip(ranks_up(instance), ranks_down(instance), strict=True)]
