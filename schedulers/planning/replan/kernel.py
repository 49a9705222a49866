"""The fast simulator's steps, compiled by numba: executors that outlive tasks, on arrays alone.

The semantics are those of the emulator's profile `events` with kept executors under a policy of the kit `Partitioned`
(schedulers/kit/partition.py), event for event: tests hold the ends of all tasks against the engine.

- Facts of a millisecond come in the engine's order: arrivals, starts, ends, each by number; then a single division.
- An executor goes on with its stage while the stage has unstarted tasks, without a division.
- A division gives tasks to executors first and draws run times afterwards, so that a run time sees the number of
  executors that the job has after the division, those on their way included.
- An executor that waited 1 ms or more is `fresh`, as is one from another job.

Arrays of records, and few of them: numba hands seven words per array to each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from schedulers.planning.replan.obstacles import NUMBER_BITS, PLACE_BITS, PLACES_AT_MOST

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: An array of records with the fields named beside the array.
Records = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])

#: States of an executor's place.
FREE, GRANTED, RUNNING, IDLE, MOVING = range(5)
#: Waves, in the order of `schedulers.core.waves.WAVES`.
FRESH, FIRST, REST = range(3)
#: Fields of `FastState.clock`: time in ms; number of the next executor; jobs that have arrived; idle executors; whether
#: a division is due; tasks that could start; free places; jobs that have not ended; sum of the ends of the others, ms.
NOW, NUMBER, ARRIVED, IDLERS, DUE, WAITING, PLACES, LEFT, ENDS = range(9)
#: How a rule limits a job's executors: a number per job, a share by weight, or the width that pays.
FIXED, SHARES, PAYS = range(3)
#: Later than every event, and more than every number of executors.
NEVER: Final = 1 << 62
MANY: Final = 1 << 40
#: An event is a number: time, rank (0 start, 1 end), number of the executor, place of the executor.
_NUMBER: Final = PLACE_BITS
_RANK: Final = _NUMBER + NUMBER_BITS
_TIME: Final = _RANK + 1
#: A student's inputs that a division writes, and a student's outputs; most and, negated, least logarithm of an output.
SEEN, OUTPUTS = 4, 4
_LARGE: Final = 9.0


def _record(ints: str, floats: str = "") -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in ints.split()] + [(name, np.float64) for name in floats.split()])


#: A stage as the jobs have it: its tasks; the first task of all that are numbered through; number of parents; where its
#: children begin, and end, in `Jobs.children`.
STAGE: Final = _record("tasks first_task parents first_child end_child")
#: A job: arrival, ms; its first stage and the stage after its last; its tasks.
JOB: Final = _record("submit_ms first end tasks")
#: Where the measured run times of a stage, wave and level begin in `Durations.values`, and how many there are.
LIST: Final = _record("start count")
#: For 0 to 100 executors: the level below, the level above, and how probable the former is.
CHOICE: Final = _record("below above", "share")
#: A rule for a stage: estimated s per task; the stage that is served at this place of the job's order; executors with
#: tasks of the stage at most; factor on the job's `warm`.
STAGE_RULE: Final = _record("served cap", "task_s warm")
#: A rule for a job: executors held without a task, or sent ahead, at most; its key in the order, least first; number of
#: executors (FIXED) or weight (SHARES); factors on the key and on the price of width; up to how many times the number
#: of `_most` idle executors are held; tasks of a stage left to each executor of the stage.
JOB_RULE: Final = _record("hold", "key limit factor price over warm")
#: A stage in a run: numbers of tasks, and of parents with tasks left.
STAGE_NOW: Final = _record("unstarted finished running parents_left")
#: A job in a run: numbers of tasks (waiting: unstarted ones of open stages; left: not finished); executors, those on
#: their way included; end, ms, -1 before.
JOB_NOW: Final = _record("unstarted running waiting left executors end_ms")
#: A place of an executor: its state, number and job; stage and task (-1: none since the executor came to the job);
#: start of the present task, ms, with its wave and the job's executors then; end of the last task for the job (-1).
PLACE: Final = _record("status number job stage task began_ms wave width last_end_ms")


class Jobs(NamedTuple):
    """The jobs of an episode in order of arrival. Stages of all jobs are numbered through, and so are tasks."""

    jobs: Records
    """JOB"""
    stages: Records
    """STAGE"""
    children: Ints


class Durations(NamedTuple):
    """Measured run times."""

    values: Ints
    """ms"""
    lists: Records
    """LIST by stage, wave and level."""
    choices: Records
    """CHOICE by number of executors."""


class Rule(NamedTuple):
    """A policy of the kit `Partitioned`, with the parameters that a search may change."""

    jobs: Records
    """JOB_RULE"""
    stages: Records
    """STAGE_RULE"""
    widths: Ints
    """With PAYS: the widths to choose from."""
    spans: Floats
    """Jobs x widths: T(n), s."""
    by_work_left: bool
    """Whether a job's key counts times the job's work left, s."""
    limits: int
    """FIXED, SHARES or PAYS."""
    price: float
    fall: float
    growth: float
    spills: bool
    """Whether room that is left over goes to jobs at their limit."""
    facts: Floats
    """A student's inputs by job: 1, SEEN columns written by each division, facts known from the beginning; then room
    for the values of the hidden units."""
    weights: Floats
    """A student's, see `ask`; none: the parameters above stand."""
    yields: bool
    """Whether idle executors leave their job for jobs before it that are below their limit."""


class FastState(NamedTuple):
    """A moment of a run."""

    clock: Ints
    """See NOW to LEFT."""
    jobs: Records
    """JOB_NOW"""
    stages: Records
    """STAGE_NOW"""
    places: Records
    """PLACE"""
    event: Ints
    """By place: the next event of the executor; NEVER: none."""
    idle: Ints
    """Places of idle executors, in the order of becoming idle; `clock[IDLERS]` of them."""


class World(NamedTuple):
    """What does not change in a run."""

    jobs: Jobs
    durations: Durations
    draws: Floats
    """Two uniform numbers in [0, 1) per task: for the level and for the measured run time."""
    trace: Ints
    """Start and end of each task, ms, written by the run; without rows: nothing is noted."""
    moving_ms: int
    """Time to take up an executor, new or from another job."""


class Desk(NamedTuple):
    """Scratch arrays of a division."""

    order: Ints
    """Jobs with tasks to start, in order; `counts[_JOBS]` of them."""
    keys: Floats
    held: Ints
    """By job: executors that wait for the next stages, or are on their way without a task."""
    behind: Ints
    """By job: number of jobs after the job in the order."""
    leaving: Ints
    """By job: idle executors that leave for jobs before it."""
    there: Ints
    """Idle executors at the beginning."""
    free: Ints
    """Places of executors open to all jobs."""
    runs: Ints
    """Places of executors with a task to begin at once."""
    counts: Ints
    """Lengths of `order`, `free` and `runs`, and executors still to be given: see _JOBS to _SPARE."""


_JOBS, _FREES, _RUNS, _SPARE = range(4)


def compiled(function: F) -> F:
    """The function as machine code, kept beside its file from run to run.

    The kernel makes no array and keeps none, so numba need not count references, which takes half the time of a run.
    """
    return cast(F, numba.njit(cache=True, error_model="numpy", _nrt=False)(function))


@compiled
def _key(when: int, rank: int, number: int, place: int) -> int:
    return (when << _TIME) | (rank << _RANK) | (number << _NUMBER) | place


@compiled
def _begin(world: World, state: FastState, place: int, wave: int) -> None:
    """The task of an executor begins now: draw its run time and enter its end."""
    now, there = state.clock[NOW], state.places[place]
    stage = there.stage
    task = world.jobs.stages[stage].first_task + there.task
    width = min(state.jobs[there.job].executors, 100)
    choice = world.durations.choices[width]
    level = choice.below if world.draws[task, 0] < choice.share else choice.above
    measured = world.durations.lists[stage, wave, level]
    ms = world.durations.values[measured.start + int(world.draws[task, 1] * measured.count)]
    there.began_ms, there.wave, there.width = now, wave, width
    there.status = RUNNING
    state.event[place] = _key(now + ms, 1, there.number, place)
    if world.trace.shape[0]:
        world.trace[task, 0] = now


@compiled
def end_after(state: FastState, place: int, ms: int) -> None:
    """Let the running task of an executor end so long after its beginning, ms."""
    there = state.places[place]
    state.event[place] = _key(there.began_ms + ms, 1, there.number, place)


@compiled
def arrive_at(state: FastState, place: int, ms: int) -> None:
    """Let an executor on its way arrive at a time, ms."""
    state.event[place] = _key(ms, 0, state.places[place].number, place)


@compiled
def _launch(world: World, state: FastState, place: int, job: int, stage: int) -> None:
    """Give the next task of an open stage to an executor of the job."""
    there, of_job, of_stage = state.places[place], state.jobs[job], state.stages[stage]
    there.stage = stage
    there.task = world.jobs.stages[stage].tasks - of_stage.unstarted
    of_stage.unstarted -= 1
    of_stage.running += 1
    of_job.unstarted -= 1
    of_job.running += 1
    of_job.waiting -= 1
    state.clock[WAITING] -= 1


@compiled
def _leave_idle(state: FastState, place: int) -> None:
    at, idle = 0, state.idle
    while idle[at] != place:
        at += 1
    state.clock[IDLERS] -= 1
    for later in range(at, state.clock[IDLERS]):
        idle[later] = idle[later + 1]


@compiled
def _become_idle(state: FastState, place: int) -> None:
    state.places[place].status = IDLE
    state.event[place] = NEVER
    state.idle[state.clock[IDLERS]] = place
    state.clock[IDLERS] += 1


@compiled
def _run(world: World, state: FastState, desk: Desk, place: int, job: int, stage: int) -> None:
    """Let an idle executor of the job run a task; the run time is drawn after the division."""
    there = state.places[place]
    waited = there.last_end_ms < state.clock[NOW]
    there.wave = FRESH if waited else (REST if there.stage == stage else FIRST)
    _leave_idle(state, place)
    _launch(world, state, place, job, stage)
    desk.runs[desk.counts[_RUNS]] = place
    desk.counts[_RUNS] += 1


@compiled
def _send(world: World, state: FastState, place: int, job: int, stage: int, ahead: bool) -> None:
    """Bring an executor to a job, for a task or ahead of all tasks; place -1: a new executor."""
    clock, places = state.clock, state.places
    if place < 0:
        place = 0
        while places[place].status != FREE:
            place += 1
        places[place].number = clock[NUMBER]
        clock[NUMBER] += 1
        clock[PLACES] -= 1
    else:
        _leave_idle(state, place)
        state.jobs[places[place].job].executors -= 1
    there = places[place]
    there.job, there.stage, there.task, there.last_end_ms = job, -1, -1, -1
    state.jobs[job].executors += 1
    there.status = MOVING
    if not ahead:
        _launch(world, state, place, job, stage)
        there.status = GRANTED
    state.event[place] = _key(clock[NOW] + world.moving_ms, 0, there.number, place)


@compiled
def see(jobs: Jobs, rule: Rule, state: FastState) -> None:
    """Write what a student sees of each job with tasks to start."""
    facts, clock, executors, many = rule.facts, state.clock, state.event.size, 0
    for job in range(clock[ARRIVED]):
        many += state.jobs[job].unstarted > 0
    for job in range(clock[ARRIVED]):
        of_job = state.jobs[job]
        facts[job, 1] = of_job.unstarted / jobs.jobs[job].tasks
        facts[job, 2] = of_job.executors / executors
        facts[job, 3] = min(1.0, (of_job.running + of_job.waiting) / executors)
        facts[job, 4] = np.log(max(1, many))


@compiled
def _sum(rule: Rule, job: int, first: int, count: int) -> float:
    """The sum of the first columns of a job's facts by the weights from one on, within bounds."""
    total = 0.0
    for at in range(count):
        total += rule.weights[first + at] * rule.facts[job, at]
    return min(_LARGE, max(-_LARGE, total))


@compiled
def ask(jobs: Jobs, rule: Rule, state: FastState) -> None:
    """Let a student set the parameters of each job with tasks to start.

    A layer of tanh units over the inputs, if any, then a linear layer over inputs and units: the logarithms of `price`,
    `factor`, `over` and `warm`.
    """
    columns, size = rule.facts.shape[1], rule.weights.size
    if not size:
        return
    inputs = columns
    while (columns - inputs) * inputs + OUTPUTS * columns < size:
        inputs -= 1
    see(jobs, rule, state)
    last = size - OUTPUTS * columns
    for job in range(state.clock[ARRIVED]):
        of_rule = rule.jobs[job]
        for unit in range(columns - inputs):
            rule.facts[job, inputs + unit] = np.tanh(_sum(rule, job, unit * inputs, inputs))
        of_rule.price = np.exp(_sum(rule, job, last, columns))
        of_rule.factor = np.exp(_sum(rule, job, last + columns, columns))
        of_rule.over = np.exp(_sum(rule, job, last + 2 * columns, columns))
        of_rule.warm = np.exp(_sum(rule, job, last + 3 * columns, columns))


@compiled
def _rank(jobs: Jobs, rule: Rule, state: FastState, desk: Desk) -> None:
    """Put the jobs with tasks to start in order, and count who moves to whom."""
    count = 0
    for job in range(state.clock[ARRIVED]):
        desk.held[job] = 0
        if state.jobs[job].unstarted == 0:
            continue
        key = rule.jobs[job].key
        if rule.by_work_left:
            left = 0.0
            for stage in range(jobs.jobs[job].first, jobs.jobs[job].end):
                left += rule.stages[stage].task_s * (state.stages[stage].unstarted + state.stages[stage].running / 2)
            key *= left
        key *= rule.jobs[job].factor
        at = count
        while at and desk.keys[at - 1] > key:
            desk.keys[at], desk.order[at] = desk.keys[at - 1], desk.order[at - 1]
            at -= 1
        desk.keys[at], desk.order[at] = key, job
        count += 1
    for at in range(count):
        desk.behind[desk.order[at]] = count - 1 - at
    for place in range(state.event.size):
        if state.places[place].status == MOVING:
            desk.held[state.places[place].job] += 1
    desk.counts[_JOBS] = count


@compiled
def _most(jobs: Jobs, rule: Rule, state: FastState, desk: Desk, job: int) -> int:
    """How many executors a job may have before others are served."""
    executors = state.event.size
    if rule.limits == FIXED:
        return int(rule.jobs[job].limit)
    if rule.limits == SHARES:
        whole = 0.0
        for at in range(desk.counts[_JOBS]):
            whole += rule.jobs[desk.order[at]].limit
        return int(np.ceil(executors * rule.jobs[job].limit / whole))
    unstarted = state.jobs[job].unstarted / jobs.jobs[job].tasks
    price = rule.price * np.exp(-rule.fall * (unstarted - 0.5)) * desk.behind[job] ** rule.growth
    price *= rule.jobs[job].price
    best, least = 0, np.inf
    for at in range(rule.widths.size):
        cost = rule.spans[job, at] * (1 + price * rule.widths[at] / executors)
        if cost < least:
            best, least = rule.widths[at], cost
    return best


@compiled
def _soon(rule: Rule, state: FastState, desk: Desk, job: int) -> int:
    """How many more executors could wait for the next stages of a job."""
    of_job = state.jobs[job]
    if not of_job.running:
        return 0
    return int(max(0, min(of_job.unstarted - of_job.waiting, rule.jobs[job].hold) - desk.held[job]))


@compiled
def _kept(jobs: Jobs, rule: Rule, state: FastState, desk: Desk, job: int, idle: int) -> int:
    """How many of a job's idle executors stay for the job's next stages."""
    soon = min(idle, _soon(rule, state, desk, job))
    over = rule.jobs[job].over
    if not soon or over == np.inf:
        return soon
    most = int(np.ceil(over * _most(jobs, rule, state, desk, job)))
    return int(max(0, min(soon, most - state.jobs[job].executors + idle)))


@compiled
def _open(rule: Rule, state: FastState, stage: int) -> int:
    """How many tasks of a stage could start now; 0 before the ends of its parents."""
    of_stage = state.stages[stage]
    if of_stage.parents_left:
        return 0
    return int(max(0, min(of_stage.unstarted, rule.stages[stage].cap - of_stage.running)))


@compiled
def _cold(rule: Rule, state: FastState, job: int, stage: int) -> int:
    """How many tasks of a stage more executors may be got for: those that the stage's own would not begin soon."""
    of_stage = state.stages[stage]
    begun_soon = int(rule.jobs[job].warm * rule.stages[stage].warm * of_stage.running)
    return int(max(0, min(_open(rule, state, stage), of_stage.unstarted - begun_soon)))


@compiled
def _part(jobs: Jobs, rule: Rule, state: FastState, desk: Desk) -> None:
    """Count, for each job, the idle executors that leave for earlier jobs; free executors are given away before."""
    clock, leaving, ranked = state.clock, desk.leaving, 0
    leaving[: clock[ARRIVED]] = 0
    if not rule.yields:
        return
    for at in range(clock[IDLERS]):
        leaving[state.places[state.idle[at]].job] += 1
    for at in range(desk.counts[_JOBS]):
        ranked += leaving[desk.order[at]]
    wanted = ranked - clock[IDLERS] - (clock[PLACES] if clock[WAITING] else 0)
    for job in range(clock[ARRIVED]):
        if not state.jobs[job].unstarted:
            leaving[job] = 0
    for at in range(desk.counts[_JOBS]):
        job = desk.order[at]
        idle = leaving[job]
        leaving[job] = max(0, min(idle, wanted))
        below = _most(jobs, rule, state, desk, job) - state.jobs[job].executors
        wanted += max(0, min(below, state.jobs[job].waiting - idle)) - leaving[job]


@compiled
def _leave(state: FastState, desk: Desk, job: int, count: int, frees: int) -> int:
    """Free the first idle executors of a job that are to leave; returns how many executors are free now."""
    for at in range(count):
        if desk.leaving[job] and desk.there[at] >= 0 and state.places[desk.there[at]].job == job:
            desk.leaving[job] -= 1
            desk.free[frees] = desk.there[at]
            frees += 1
            desk.there[at] = -1
    return frees


@compiled
def _stay(world: World, rule: Rule, state: FastState, desk: Desk) -> None:
    """Idle executors serve their own jobs, or are held there; the others are free."""
    _part(world.jobs, rule, state, desk)
    count, there, places, stages = state.clock[IDLERS], desk.there, state.places, world.jobs.jobs
    for at in range(count):
        there[at] = state.idle[at]
    frees = 0
    for first in range(count):
        if there[first] < 0:
            continue
        job, at = places[there[first]].job, first
        frees = _leave(state, desk, job, count, frees)
        if state.jobs[job].waiting:
            for index in range(stages[job].first, stages[job].end):
                stage = rule.stages[index].served
                left = _open(rule, state, stage)
                while left and at < count:
                    if there[at] >= 0 and places[there[at]].job == job:
                        _run(world, state, desk, there[at], job, stage)
                        there[at] = -1
                        left -= 1
                    at += 1
        idle = 0
        for later in range(at, count):
            idle += there[later] >= 0 and places[there[later]].job == job
        hold = _kept(world.jobs, rule, state, desk, job, idle)
        for later in range(at, count):
            if there[later] >= 0 and places[there[later]].job == job:
                if hold:
                    hold -= 1
                    desk.held[job] += 1
                else:
                    desk.free[frees] = there[later]
                    frees += 1
                there[later] = -1
    desk.counts[_FREES] = frees


@compiled
def _take_free(desk: Desk, at: int) -> None:
    desk.counts[_FREES] -= 1
    for later in range(at, desk.counts[_FREES]):
        desk.free[later] = desk.free[later + 1]


@compiled
def _get(world: World, state: FastState, desk: Desk, job: int, stage: int, want: int, ahead: bool) -> int:
    """Get executors for a stage: the job's own, new ones, those of others; returns the number."""
    got, counts = 0, desk.counts
    while got < want:
        mine = -1
        for at in range(counts[_FREES]):
            if state.places[desk.free[at]].job == job:
                mine = at
                break
        if mine >= 0:
            if not ahead:
                _run(world, state, desk, desk.free[mine], job, stage)
            _take_free(desk, mine)
        elif state.clock[PLACES]:
            _send(world, state, -1, job, stage, ahead)
        elif counts[_FREES]:
            _send(world, state, desk.free[0], job, stage, ahead)
            _take_free(desk, 0)
        else:
            break
        got += 1
        counts[_SPARE] -= 1
    if ahead:
        desk.held[job] += got
    return got


@compiled
def _give(world: World, rule: Rule, state: FastState, desk: Desk, job: int, most: int) -> None:
    """Let a job have more executors, for tasks that can start and then for tasks to come."""
    of_job, first, end = state.jobs[job], world.jobs.jobs[job].first, world.jobs.jobs[job].end
    want = most - of_job.executors
    for at in range(desk.counts[_FREES]):
        want += state.places[desk.free[at]].job == job
    if of_job.waiting:
        for index in range(first, end):
            stage = rule.stages[index].served
            wanted = min(want, _open(rule, state, stage) if most == MANY else _cold(rule, state, job, stage))
            if wanted > 0:
                want -= _get(world, state, desk, job, stage, wanted, False)
    for stage in range(first, end):
        if min(want, desk.counts[_SPARE]) <= 0:
            return
        if state.stages[stage].parents_left and state.stages[stage].unstarted:
            wanted = min(want, state.stages[stage].unstarted, _soon(rule, state, desk, job))
            want -= _get(world, state, desk, job, stage, wanted, True)


@compiled
def _divide(world: World, rule: Rule, state: FastState, desk: Desk) -> None:
    """Divide free executors and places among the jobs."""
    counts, clock = desk.counts, state.clock
    counts[_RUNS] = 0
    ask(world.jobs, rule, state)
    _rank(world.jobs, rule, state, desk)
    _stay(world, rule, state, desk)
    counts[_SPARE] = counts[_FREES] + (clock[PLACES] if clock[WAITING] else 0)
    for limited in range(1, -1 if rule.spills else 0, -1):
        for at in range(counts[_JOBS]):
            if counts[_SPARE] <= 0:
                break
            job = desk.order[at]
            most = _most(world.jobs, rule, state, desk, job) if limited else MANY
            _give(world, rule, state, desk, job, most)
    for at in range(counts[_RUNS]):
        _begin(world, state, desk.runs[at], state.places[desk.runs[at]].wave)


@compiled
def _arrive(jobs: Jobs, state: FastState) -> None:
    """The next job comes."""
    job = state.clock[ARRIVED]
    state.clock[ARRIVED] += 1
    for stage in range(jobs.jobs[job].first, jobs.jobs[job].end):
        if not jobs.stages[stage].parents:
            state.jobs[job].waiting += jobs.stages[stage].tasks
            state.clock[WAITING] += jobs.stages[stage].tasks


@compiled
def _end_job(state: FastState, job: int) -> None:
    """A job is over: its executors, idle or on their way, are given back."""
    clock, places = state.clock, state.places
    state.jobs[job].end_ms = clock[NOW]
    clock[ENDS] += clock[NOW]
    clock[LEFT] -= 1
    kept = 0
    for at in range(clock[IDLERS]):
        if places[state.idle[at]].job != job:
            state.idle[kept] = state.idle[at]
            kept += 1
    clock[IDLERS] = kept
    for place in range(state.event.size):
        if places[place].status != FREE and places[place].job == job:
            places[place].status = FREE
            state.event[place] = NEVER
            clock[PLACES] += 1


@compiled
def _end_stage(jobs: Jobs, state: FastState, job: int, stage: int) -> None:
    """A barrier is over: children without other parents open."""
    for at in range(jobs.stages[stage].first_child, jobs.stages[stage].end_child):
        child = jobs.children[at]
        state.stages[child].parents_left -= 1
        if not state.stages[child].parents_left:
            state.jobs[job].waiting += state.stages[child].unstarted
            state.clock[WAITING] += state.stages[child].unstarted


@compiled
def _end_task(world: World, state: FastState, place: int) -> bool:
    """A task ends; returns whether its executor is idle thereafter, and does not go on with the stage."""
    now, there = state.clock[NOW], state.places[place]
    job, stage = there.job, there.stage
    if world.trace.shape[0]:
        world.trace[world.jobs.stages[stage].first_task + there.task, 1] = now
    of_job, of_stage = state.jobs[job], state.stages[stage]
    of_stage.finished += 1
    of_stage.running -= 1
    of_job.left -= 1
    of_job.running -= 1
    there.last_end_ms = now
    if of_stage.unstarted:
        _launch(world, state, place, job, stage)
        _begin(world, state, place, REST)
        return False
    _become_idle(state, place)
    if of_stage.finished == world.jobs.stages[stage].tasks:
        _end_stage(world.jobs, state, job, stage)
    if not of_job.left:
        _end_job(state, job)
    return True


@compiled
def _happen(world: World, state: FastState, place: int) -> bool:
    """Let the next event of an executor happen; returns whether free room may have changed."""
    status = state.places[place].status
    if status == RUNNING:
        return _end_task(world, state, place)
    if status == GRANTED:
        _begin(world, state, place, FRESH)
        return False
    _become_idle(state, place)
    return True


@compiled
def advance(world: World, rule: Rule, state: FastState, desk: Desk, until_ms: int, pause_ms: int, most_ms: int) -> None:
    """Go on to `until_ms`, or to the end of the last job: all events before happen, divisions included.

    pause_ms: stop before the first division at or after this time, or after a job's end, -1 for neither; the division
    is still due. most_ms: stop as soon as the sum of all ends is bound to be larger.
    """
    clock, event, jobs = state.clock, state.event, world.jobs.jobs
    left = clock[LEFT]
    while True:
        least = NEVER
        for place in range(event.size):
            least = min(least, event[place])
        when = least >> _TIME if least < NEVER else NEVER
        arrives = clock[ARRIVED] < jobs.size and jobs[clock[ARRIVED]].submit_ms <= when
        if arrives:
            when = jobs[clock[ARRIVED]].submit_ms
        if clock[DUE] and when > clock[NOW]:
            if clock[WAITING] and (clock[IDLERS] or clock[PLACES]):
                if pause_ms >= 0 and (clock[LEFT] < left or clock[NOW] >= pause_ms):
                    return
                if clock[ENDS] + clock[LEFT] * clock[NOW] > most_ms:
                    return
                _divide(world, rule, state, desk)
            clock[DUE] = 0
            continue
        if when >= until_ms or when == NEVER:
            return
        clock[NOW] = when
        if arrives:
            _arrive(world.jobs, state)
            clock[DUE] = 1
        elif _happen(world, state, least & (PLACES_AT_MOST - 1)):
            clock[DUE] = 1
