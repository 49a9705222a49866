"""Plans played forward: DEFT again and again, each time slightly changed, and the shortest plan is kept.

DEFT makes list schedules: the next task goes to the machine of its first end, and no idle machine is left alone. Not
every optimum is a list schedule (WeCAN, arXiv 2603.23249, has a skipping rule). Here a play may differ from the best so
far in two ways:

- **Another order.** The worth of each task is shaken by Gumbel noise: drawing tasks in turn by the softmax of a single
  pass through a network gives the same distribution. Or the worth of some tasks is shaken by normal noise.
- **Pinned tasks** stay on a machine though another would be free sooner: some tasks on the path to the end, together
  with their parents, on a machine of the group or on a machine among the fastest for them.

A play ends as soon as its plan must come out longer than the best plan. Independent tasks are played once: their order
matters little, and there may be very many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from schedulers.planning.unrelated.deft import choose, place
from schedulers.planning.unrelated.instance import Floats, Instance
from schedulers.planning.unrelated.ranks import static_levels
from schedulers.planning.unrelated.timelines import TimelinePlan, Timelines

#: Part of the plays that change the order, if others pin tasks; half of them shake all tasks, and every second of these
#: drops all pins.
_ORDERS: Final = 0.35
#: Part of the tasks shaken in the other half.
_SHAKEN: Final = 0.2
#: Part of the pinning plays that try a machine among the fastest for a task, and how many fastest machines there are.
_FAST: Final = (0.25, 6)
#: Bounds for a draw in pinning plays: below the first a task and all parents are pinned, below the second some of them;
#: above both their pins are dropped.
_ALL, _SOME = 0.35, 0.8


class Draft(NamedTuple):
    """Input of a play. worth: per task, the highest first among ready tasks. pinned: machines by task."""

    worth: Floats
    pinned: Mapping[int, int]


def played(
    instance: Instance,
    worth: Sequence[float],
    plays: int,
    random: np.random.Generator,
    *,
    runs: float = 2,
    pins: bool = True,
) -> TimelinePlan:
    """The shortest of so many plays; the first is DEFT by `worth` unchanged.

    worth: on a scale with standard Gumbel noise. runs: of a task at most, copies included. pins: whether tasks may be
    pinned to machines; else all plays are list schedules.
    """
    tails = _tails(instance)
    least = max(float(instance.times[task].min()) + tails[task] for task in range(instance.tasks))
    first = draft = Draft(np.asarray(worth, dtype=np.float64), {})
    best = _play(instance, draft, tails, np.inf, runs)
    assert best is not None
    makespan = best.plan().makespan
    for _ in range(plays - 1 if instance.edges else 0):
        if makespan <= least * (1 + 1e-9):
            break
        other = _otherwise(best, draft, first, random, pins=pins)
        timelines = _play(instance, other, tails, makespan, runs)
        if timelines is not None:
            best, draft, makespan = timelines, other, timelines.plan().makespan
    return best.plan()


def _tails(instance: Instance) -> list[float]:
    """Per task the least time from its end to the end of all."""
    least = [float(time) for time in instance.times.min(axis=1)]
    return [level - own for level, own in zip(static_levels(least, instance), least, strict=True)]


def _play(instance: Instance, draft: Draft, tails: Sequence[float], most: float, runs: float) -> Timelines | None:
    """Play a draft forward; None: the plan would be longer than `most`."""
    timelines = Timelines(instance)
    for task in instance.by_priority(draft.worth.tolist()):
        choice = choose(timelines, task, runs=runs, only=draft.pinned.get(task))
        if choice.end + tails[task] > most:
            return None
        place(timelines, task, choice)
    return timelines


def _otherwise(best: Timelines, draft: Draft, first: Draft, random: np.random.Generator, *, pins: bool) -> Draft:
    """The next draft: a change of the best draft, or of the first draft."""
    kind = random.random() / _ORDERS if pins else random.random()
    if kind < 0.5:
        worth = first.worth + random.gumbel(size=len(first.worth))
        return Draft(worth, draft.pinned if random.random() < 0.5 else {})
    if kind < 1:
        shaken = random.random(len(draft.worth)) < _SHAKEN
        return draft._replace(worth=draft.worth + shaken * random.standard_normal(len(shaken)))
    return draft._replace(pinned=_pinned(best, draft, random))


def _pinned(best: Timelines, draft: Draft, random: np.random.Generator) -> dict[int, int]:
    instance = best.instance
    path = list(_path(best))
    task = path[int(random.integers(len(path)))]
    group = [task, *(parent for parent, _ in instance.parents[task])]
    part, fastest = _FAST
    if random.random() < part:
        order = np.argsort(instance.times[task], kind="stable")[:fastest]
        machine = int(order[int(random.integers(len(order)))])
    else:
        machine = best.runs[group[int(random.integers(len(group)))]][0][0]
    how = random.random()
    if how >= _SOME:
        return {other: there for other, there in draft.pinned.items() if other not in group}
    some = group if how < _ALL else [other for other in group if random.random() < 0.5] or [task]
    return {**draft.pinned, **dict.fromkeys(some, machine)}


def _path(timelines: Timelines) -> Iterator[int]:
    """The tasks on the path to the end, the last in front: each waited for the next, for its data or its machine."""
    own = {run.task: run for run in timelines.placements if not run.copy}
    before = {}
    last: dict[int, int] = {}
    for run in timelines.placements:
        before[run.task, run.machine] = last.get(run.machine)
        last[run.machine] = run.task
    task: int | None = max(own, key=lambda task: own[task].end)
    met = set[int]()
    while task is not None and task not in met:
        met.add(task)
        yield task
        run = own[task]
        there = [
            (timelines.arrival_on(parent, data, run.machine), parent)
            for parent, data in timelines.instance.parents[task]
        ]
        arrived, parent = max(there, default=(0.0, None))
        task = parent if arrived >= run.start * (1 - 1e-12) else before[task, run.machine]
