"""Re-planning: while a run goes on, search for a better rule by plays of what may come, and follow the best rule found.

At each job's end, and each few seconds, local search over the parameters of a rule: a job's place in the order, the
price of its width, how many executors a job may hold, and how many a stage may have. A candidate is played from the
present moment to the end, several times with run times drawn from the measured ones, all candidates with the same
draws (common random numbers), and kept if jobs end sooner in the mean. What is not known is drawn: run times of tasks
that have not begun, and how much longer running tasks take, given that they have run so long. All jobs are known from
the beginning, as in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from rm_emulator.learn import fast_kernel as kernel
from rm_emulator.learn.fast_jobs import FastRun, copied, random_draws
from rm_emulator.learn.fast_kernel import FastState, Floats, Ints, Rule

#: Deviation of the logarithm of a change to a place in the order, and to a price.
_SPREAD: Final = 0.5


class Search(NamedTuple):
    """How long is searched. candidates: rules tried at a time; plays: of each; period_ms: from search to search."""

    candidates: int = 100
    plays: int = 4
    period_ms: int = 3000


class Foreseen(NamedTuple):
    """What may come: a present moment with other ends of running tasks, and draws for the tasks to come."""

    state: FastState
    draws: Floats


def replanned(play: FastRun, rule: Rule, draws: Floats, search: Search, random: np.random.Generator) -> Ints:
    """The end of each job, ms, of a run that begins with a rule and re-plans.

    draws: the true ones, two by task, which no search sees.
    """
    state, now, until = play.begin(), -1, 0
    while state.clock[kernel.LEFT]:
        rule = improved(play, state, rule, search, random)
        # Without an event the time stands still, and the next search would be of the same moment.
        until = (int(state.clock[kernel.NOW]) if state.clock[kernel.NOW] > now else until) + search.period_ms
        now = int(state.clock[kernel.NOW])
        play.go_on(state, rule, draws, until_ms=until, to_job_end=True)
    return state.jobs["end_ms"]


def improved(play: FastRun, state: FastState, rule: Rule, search: Search, random: np.random.Generator) -> Rule:
    """The best of a rule and so many changed rules from a moment on."""
    foreseen = [foresee(play, state, random) for _ in range(search.plays)]
    best, least = rule, _sum_ms(play, rule, foreseen)
    for _ in range(search.candidates):
        candidate = changed(play, state, best, random)
        total = _sum_ms(play, candidate, foreseen)
        if total < least:
            best, least = candidate, total
    return best


def foresee(play: FastRun, state: FastState, random: np.random.Generator) -> Foreseen:
    """A draw of what may come after a moment."""
    there, now = copied(state), int(state.clock[kernel.NOW])
    for place in np.flatnonzero(state.places["status"] == kernel.RUNNING).tolist():
        running = state.places[place]
        times, chances = _times(play, running)
        longer = times > now - running["began_ms"]
        ms = now - running["began_ms"] + 1
        if longer.any():
            ms = random.choice(times[longer], p=chances[longer] / chances[longer].sum())
        kernel.end_after(there, place, int(ms))
    return Foreseen(there, random_draws(play.tasks, random))


def _times(play: FastRun, running: np.void) -> tuple[Ints, Floats]:
    """Measured run times of a running task's stage, wave and number of executors, ms, and their probabilities."""
    choice = play.durations.choices[running["width"]]
    parts = []
    for level, share in ((choice["below"], choice["share"]), (choice["above"], 1 - choice["share"])):
        measured = play.durations.lists[running["stage"], running["wave"], level]
        times = play.durations.values[measured["start"] : measured["start"] + measured["count"]]
        parts.append((times, np.full(len(times), share / max(1, len(times)))))
    return np.concatenate([times for times, _ in parts]), np.concatenate([chances for _, chances in parts])


def changed(play: FastRun, state: FastState, rule: Rule, random: np.random.Generator) -> Rule:
    """A rule with a change to a live job, or to a stage with tasks to start."""
    jobs, stages = rule.jobs.copy(), rule.stages.copy()
    job = random.choice(np.flatnonzero(state.jobs["end_ms"] < 0))
    kind = int(random.integers(4))
    if kind < 2:
        jobs["key" if kind else "price"][job] *= np.exp(random.normal(0, _SPREAD))
    elif kind == 2:
        jobs["hold"][job] = _some(play, random)
    else:
        stage = int(random.integers(play.jobs.jobs["first"][job], play.jobs.jobs["end"][job]))
        stages["cap"][stage] = max(1, _some(play, random))
    return rule._replace(jobs=jobs, stages=stages)


def _some(play: FastRun, random: np.random.Generator) -> int:
    """A number of executors, small ones as often as large ones; half the time as many as there are."""
    return kernel.MANY if random.random() < 1 / 2 else int(play.executors ** random.random()) - 1


def _sum_ms(play: FastRun, rule: Rule, foreseen: Sequence[Foreseen]) -> int:
    total = 0
    for each in foreseen:
        there = copied(each.state)
        play.go_on(there, rule, each.draws)
        total += int(there.jobs["end_ms"].sum())
    return total
