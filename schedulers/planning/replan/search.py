"""The search for a better rule by plays of what may come.

Local search over the parameters of a rule: a job's place in the order, the price of its width, how many executors a job
may hold, and how many a stage may have. A candidate is played from the present moment to the end, several times with
run times drawn from the known ones, all candidates with the same draws (common random numbers), and kept if jobs end
sooner in the mean. What is not known is drawn: run times of tasks that have not begun, and how much longer running
tasks take, given that they have run so long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from schedulers.planning.replan import kernel
from schedulers.planning.replan.kernel import FastState, Floats, Ints, Rule
from schedulers.planning.replan.plays import FastRun, copied

#: Deviation of the logarithm of a change to a place in the order, and to a price.
_SPREAD: Final = 0.5


class Foreseen(NamedTuple):
    """What may come: a present moment with other ends of running tasks, and draws for the tasks to come."""

    state: FastState
    draws: Floats


class Found(NamedTuple):
    """The best rule of a search."""

    rule: Rule
    tried: int
    """Rules tried."""
    stopped: bool
    """Whether the search was stopped before it had tried all."""


def improved(
    play: FastRun,
    state: FastState,
    rule: Rule,
    random: np.random.Generator,
    *,
    candidates: int,
    plays: int,
    stop: Callable[[], bool] = lambda: False,
) -> Found:
    """The best of a rule and so many changed rules from a moment on, by so many plays of each.

    stop: asked before each candidate; True ends the search.
    """
    foreseen = foresee(play, state, random, plays)
    best, least = rule, [play.total_ms(each.state, rule, each.draws) for each in foreseen]
    for tried in range(candidates if state.jobs["unstarted"].any() else 0):
        if stop():
            return Found(best, tried, True)
        candidate = changed(play, state, best, random)
        if (sums := _raced(play, candidate, foreseen, least)) is not None:
            best, least = candidate, sums
    return Found(best, candidates, False)


def _raced(play: FastRun, rule: Rule, foreseen: Sequence[Foreseen], least: Sequence[int]) -> list[int] | None:
    """Sums of the ends of all jobs by play, ms; None as soon as they are not less than the least, taken together.

    Most candidates are behind in the first play already, and play no other.
    """
    sums: list[int] = []
    ahead = 0
    for each, best in zip(foreseen, least, strict=True):
        sums.append(play.total_ms(each.state, rule, each.draws, best + ahead - 1))
        ahead += best - sums[-1]
        if ahead <= 0:
            return None
    return sums


def foresee(play: FastRun, state: FastState, random: np.random.Generator, plays: int) -> list[Foreseen]:
    """Draws of what may come after a moment."""
    now, there = int(state.clock[kernel.NOW]), [copied(state) for _ in range(plays)]
    running = np.flatnonzero(state.places["status"] == kernel.RUNNING)
    # By number of the executor, since a place of an executor means nothing.
    for place in running[np.argsort(state.places["number"][running])].tolist():
        times, chances = _times(play, state.places[place])
        ran = now - int(state.places["began_ms"][place])
        longer = times > ran
        ms = np.full(plays, ran + 1)
        if longer.any():
            sums = chances[longer].cumsum()
            ms = times[longer][np.searchsorted(sums, random.random(plays) * sums[-1], side="right")]
        for each, rest in zip(there, ms.tolist(), strict=True):
            kernel.end_after(each, place, rest)
    # Tasks of jobs that are over take no draws, so that a run without these jobs has the same draws.
    live = np.repeat(state.jobs["end_ms"] < 0, play.jobs.jobs["tasks"])
    made = []
    for each in there:
        draws = np.zeros((play.tasks, 2))
        draws[live] = random.random((int(live.sum()), 2))
        made.append(Foreseen(each, draws))
    return made


def _times(play: FastRun, running: np.void) -> tuple[Ints, Floats]:
    """Known run times of a running task's stage, wave and number of executors, ms, and their probabilities."""
    choice = play.durations.choices[running["width"]]
    parts = []
    for level, share in ((choice["below"], choice["share"]), (choice["above"], 1 - choice["share"])):
        measured = play.durations.lists[running["stage"], running["wave"], level]
        times = play.durations.values[measured["start"] : measured["start"] + measured["count"]]
        parts.append((times, np.full(len(times), share / len(times))))
    return np.concatenate([times for times, _ in parts]), np.concatenate([chances for _, chances in parts])


def changed(play: FastRun, state: FastState, rule: Rule, random: np.random.Generator) -> Rule:
    """A rule with a change to a job with tasks to start, or to such a stage; requires that there is one."""
    jobs, stages = rule.jobs.copy(), rule.stages.copy()
    job = random.choice(np.flatnonzero(state.jobs["unstarted"]))
    kind = int(random.integers(4))
    if kind < 2:
        jobs["factor" if kind else "price"][job] *= np.exp(random.normal(0, _SPREAD))
    elif kind == 2:
        jobs["hold"][job] = _some(play, int(jobs["hold"][job]), random)
    else:
        first, end = play.jobs.jobs["first"][job], play.jobs.jobs["end"][job]
        stage = first + random.choice(np.flatnonzero(state.stages["unstarted"][first:end]))
        stages["cap"][stage] = max(1, _some(play, int(stages["cap"][stage]), random))
    return rule._replace(jobs=jobs, stages=stages)


def _some(play: FastRun, present: int, random: np.random.Generator) -> int:
    """A number of executors, small ones as often as large ones; half the time no limit, if there is one at present."""
    free = present < kernel.MANY and random.random() < 1 / 2
    return kernel.MANY if free else int(play.executors ** random.random()) - 1
