"""Plans that were played forward: DEFT again and again, each time a little otherwise, and the shortest plan is kept.

DEFT makes list schedules: who is next goes where it ends first, and no idle machine is left alone. Not every optimum is
one (WeCAN, arXiv 2603.23249, has a rule that skips for that). Here a play may differ from the best so far in two ways:

- **Others are next.** What each task is worth is shaken by Gumbel noise, which makes of the scores of one pass through
  a network what drawing task after task by their softmax makes; or that of some tasks by normal noise.
- **Tasks are pinned** to one machine, whoever else would be free sooner: some of those that the end hangs on, together
  with their parents, where one of them is or on one of the machines that are fastest for them.

A play ends as soon as it must come out longer than the best one. Tasks that wait for no other are played once: who is
next matters little there, and they may be very many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from schedulers.planning.unrelated.deft import choose, place
from schedulers.planning.unrelated.instance import Floats, Instance
from schedulers.planning.unrelated.ranks import static_levels
from schedulers.planning.unrelated.timelines import Plan, Timelines

#: So many plays change the order, if others pin tasks; half of these shake all tasks, and drop what was pinned in half.
_ORDERS: Final = 0.35
#: The part of the tasks that are shaken where it is not all.
_SHAKEN: Final = 0.2
#: Of the plays that pin tasks so many try one of so many machines that are fastest for a task.
_FAST: Final = (0.25, 6)
#: Of the plays that pin tasks: all of a task and its parents, some of them; else these are pinned no more.
_ALL, _SOME = 0.35, 0.8


class Draft(NamedTuple):
    """What a play is of. worth: per task, the highest first of those that are ready. pinned: machines by task."""

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
) -> Plan:
    """The shortest of so many plays, of which the first is DEFT by `worth` as it is.

    worth: noise that is standard Gumbel is added to it. runs: of a task at most, copies included. pins: whether tasks
    may be pinned to machines; else all plays are list schedules.
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
        lines = _play(instance, other, tails, makespan, runs)
        if lines is not None:
            best, draft, makespan = lines, other, lines.plan().makespan
    return best.plan()


def _tails(instance: Instance) -> list[float]:
    """Per task how long it takes at least from its end to that of the last one."""
    least = [float(time) for time in instance.times.min(axis=1)]
    return [level - own for level, own in zip(static_levels(least, instance), least, strict=True)]


def _play(instance: Instance, draft: Draft, tails: Sequence[float], most: float, runs: float) -> Timelines | None:
    """None: it would be longer than `most`."""
    lines = Timelines(instance)
    for task in instance.by_priority(draft.worth.tolist()):
        choice = choose(lines, task, runs=runs, only=draft.pinned.get(task))
        if choice.end + tails[task] > most:
            return None
        place(lines, task, choice)
    return lines


def _otherwise(best: Timelines, draft: Draft, first: Draft, random: np.random.Generator, *, pins: bool) -> Draft:
    """What the next play is of: not quite what the best was of, or not quite what the first was of."""
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


def _path(lines: Timelines) -> Iterator[int]:
    """The tasks that the end hangs on, the last in front: each waited for the next, for its data or its machine."""
    own = {run.task: run for run in lines.placements if not run.copy}
    before = {}
    last: dict[int, int] = {}
    for run in lines.placements:
        before[run.task, run.machine] = last.get(run.machine)
        last[run.machine] = run.task
    task: int | None = max(own, key=lambda task: own[task].end)
    met = set[int]()
    while task is not None and task not in met:
        met.add(task)
        yield task
        run = own[task]
        there = [(lines.arrival_on(parent, data, run.machine), parent) for parent, data in lines.instance.parents[task]]
        arrived, parent = max(there, default=(0.0, None))
        task = parent if arrived >= run.start * (1 - 1e-12) else before[task, run.machine]
