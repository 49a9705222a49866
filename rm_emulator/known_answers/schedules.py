"""Is this a schedule? Plain numbers in, a sentence per violation out.

It is what planners, the engine and published schedules are held against, so it has nothing from any of them: it goes
through what ran by the definitions alone (LACHESIS, arXiv 2103.06980, section III and equation 9, for data and copies).
Times, data and rates are in any units that go together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec


class TaskRun(NamedTuple):
    """One run of a task on a machine.

    copy: another run is the task itself. done: it came to its end; else it failed or was ended, and fed nobody.
    since: from when on it held its machine, if that was before its start.
    """

    task: int
    machine: int
    start: float
    end: float
    copy: bool = False
    done: bool = True
    since: float | None = None

    def __str__(self) -> str:
        kind = "the copy of task" if self.copy else "task"
        return f"{kind} {self.task} on machine {self.machine}"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to run, and on what. Tasks and machines are numbered from 0.

    times: per task its time on each machine; an empty row says nothing of the task.
    edges: (parent, child, data). after: (first, then), groups of tasks: none of `then` starts before each of `first`
        has ended once.
    rates: data per unit of time [from][to], infinite for no time; one number for all pairs of different machines.
    capacities: a vector per machine, and demands: one per task; without them a machine runs one task at a time.
    releases: per task its earliest start; none is before 0.
    copies: how many runs of a task may come to their end.
    rounding: by how much a run's length may differ from its time.
    """

    times: Sequence[Sequence[float]]
    machines: int
    edges: Sequence[tuple[int, int, float]] = ()
    after: Sequence[tuple[Sequence[int], Sequence[int]]] = ()
    rates: Sequence[Sequence[float]] | float = math.inf
    capacities: Sequence[Sequence[float]] = ()
    demands: Sequence[Sequence[float]] = ()
    releases: Sequence[float] = ()
    copies: int = 1
    rounding: float = 0.0

    def transfer(self, data: float, one: int, other: int) -> float:
        """How long data travels."""
        if one == other:
            return 0.0
        return data / (self.rates if isinstance(self.rates, int | float) else self.rates[one][other])


def violations(problem: Problem, runs: Iterable[TaskRun]) -> list[str]:
    """A sentence for everything that is wrong, [] for a schedule. Instants closer than 1e-9 of the end are the same."""
    runs = list(runs)
    if unreal := [f"{run}: {why}" for run in runs if (why := _unreal(problem, run))]:
        return unreal
    slack = 1e-9 * max((abs(run.end) for run in runs), default=0.0)
    done: list[list[TaskRun]] = [[] for _ in problem.times]
    for run in runs:
        if run.done:
            done[run.task].append(run)
    return [
        *_tasks(problem, done),
        *_copies(problem, runs, done),
        *_times(problem, runs, slack),
        *_precedence(problem, runs, done, slack),
        *_room(problem, runs, slack),
    ]


def _unreal(problem: Problem, run: TaskRun) -> str:
    if not 0 <= run.task < len(problem.times):
        return f"there are tasks 0 to {len(problem.times) - 1}"
    if not 0 <= run.machine < problem.machines:
        return f"there are machines 0 to {problem.machines - 1}"
    if not (math.isfinite(run.start) and math.isfinite(run.end)) or run.end < run.start:
        return f"it runs from {run.start:g} to {run.end:g}"
    return ""


def _tasks(problem: Problem, done: Sequence[Sequence[TaskRun]]) -> Iterator[str]:
    """Every task once."""
    for task, ended in enumerate(done):
        own = [run for run in ended if not run.copy]
        if not ended:
            yield f"task {task} never comes to its end"
        elif len(own) > 1:
            where = f"machines {own[0].machine} and {own[1].machine}"
            yield f"task {task} runs {len(own)} times, on {where}, and not as copies"
        elif not own:
            yield f"of task {task} there are copies only"


def _copies(problem: Problem, runs: Sequence[TaskRun], done: Sequence[Sequence[TaskRun]]) -> Iterator[str]:
    for task, ended in enumerate(done):
        if len(ended) > problem.copies and sum(not run.copy for run in ended) == 1:
            yield f"task {task} runs {len(ended)} times, and {problem.copies} are allowed"
        there = sorted(run.machine for run in ended)
        for one, other in pairwise(there):
            if one == other:
                yield f"task {task} comes to its end twice on machine {one}"
    if problem.copies == 1:
        yield from (f"{run}: copies are not allowed" for run in runs if run.copy and not run.done)


def _times(problem: Problem, runs: Sequence[TaskRun], slack: float) -> Iterator[str]:
    for run in runs:
        release = problem.releases[run.task] if problem.releases else 0.0
        if run.start < release - slack:
            yield f"{run} starts at {run.start:g}, before {release:g}"
        if problem.times[run.task]:
            time = problem.times[run.task][run.machine]
            ran, off = run.end - run.start, slack + problem.rounding
            if ran > time + off or (run.done and ran < time - off):
                yield f"{run} runs for {ran:g}, and takes {time:g} there"


def _precedence(
    problem: Problem, runs: Sequence[TaskRun], done: Sequence[Sequence[TaskRun]], slack: float
) -> Iterator[str]:
    """Inputs are there when a task starts, wherever their tasks or copies of these have run."""
    by_task: list[list[TaskRun]] = [[] for _ in problem.times]
    for run in runs:
        by_task[run.task].append(run)
    for parent, child, data in problem.edges:
        for run in by_task[child]:
            there = (made.end + problem.transfer(data, made.machine, run.machine) for made in done[parent])
            arrived = min(there, default=math.inf)
            if run.start < arrived - slack:
                yield f"{run} starts at {run.start:g}, and what it needs of task {parent} is there at {arrived:g}"
    for first, then in problem.after:
        ends = [(min((made.end for made in done[task]), default=math.inf), task) for task in first]
        over, last = max(ends, default=(0.0, 0))
        for task in then:
            for run in by_task[task]:
                if run.start < over - slack:
                    yield f"{run} starts at {run.start:g}, and task {last} before it ends at {over:g}"


def _room(problem: Problem, runs: Sequence[TaskRun], slack: float) -> Iterator[str]:
    """No machine runs more than it can, by the sum of what runs at each start."""
    for machine in range(problem.machines):
        here = [run for run in runs if run.machine == machine]
        held = sorted((run.start if run.since is None else run.since, run.end, run) for run in here)
        active: list[tuple[float, TaskRun]] = []
        for start, end, run in held:
            active = [(until, other) for until, other in active if until > start + slack]
            if end - start > slack:
                yield from _over(problem, machine, start, run, [other for _, other in active])
                active.append((end, run))


def _over(problem: Problem, machine: int, start: float, run: TaskRun, others: Sequence[TaskRun]) -> Iterator[str]:
    if not problem.capacities:
        for other in others[:1]:
            yield f"machine {machine} runs task {other.task} and task {run.task} at {start:g}, and runs one at a time"
        return
    used = [sum(column) for column in zip(*(problem.demands[each.task] for each in [*others, run]), strict=True)]
    capacity = list(problem.capacities[machine])
    if any(amount > most * (1 + 1e-9) for amount, most in zip(used, capacity, strict=True)):
        brings = f"task {run.task} brings its use to {used}"
        yield f"machine {machine} is over its capacity of {capacity} at {start:g}: {brings}"
