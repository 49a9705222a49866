"""Containers that end with their tasks, one to a node, played by numba: list scheduling by a score of few weights.

Nodes are of classes, each able to take what the class below takes. Whenever a node is free, the task with the least
score starts on the smallest node with room, until nothing fits. The engine's runs of `curves` and `srpt` are two
choices of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rm_emulator.engine.execution import Execution, ListedTimes
from rm_emulator.experiments.assembly import cluster_of, workload_of
from rm_emulator.scenario.schema import Scenario
from schedulers.core.resources import Vector
from schedulers.core.vectors import times_in
from schedulers.kit.curves import CONSTANTS
from schedulers.kit.paths import to_output
from schedulers.predictors.oracle import misjudged

Doubles = NDArray[np.float64]
Longs = NDArray[np.int64]
#: What a weight stands for, by its place; see `_score` and `_best`.
WEIGHTS: Final = ("path", "unstarted", "bottleneck", "tail", "scarce", "brief", "under_way", "pressure")
#: Of `bound_s`, whose tables double with each job.
JOBS_AT_MOST: Final = 22
_FREE: Final = np.iinfo(np.int64).max

STAGE: Final = np.dtype([
    ("job", np.int64), ("tasks", np.int64), ("first", np.int64), ("level", np.int64), ("mean", np.float64),
    ("tail", np.float64), ("children", np.int64), ("children_end", np.int64), ("parents", np.int64),
])  # fmt: skip


def weights(**named: float) -> Doubles:
    """Weights by name, the others 0."""
    return np.array([named.get(name, 0.0) for name in WEIGHTS])


#: Of `curves`: the critical stage is first inside a job, and nothing else counts.
_CRITICAL: Final = {"tail": 1e-9}
CURVES: Final = weights(**_CRITICAL)
LEARNED: Final = weights(**_CRITICAL, scarce=CONSTANTS[True].scarce)
#: With `FastContainers.by_index`.
SRPT: Final = weights(**_CRITICAL, under_way=-0.5)


class FastContainers(NamedTuple):
    """A seed of a setting. Times are in ms.

    submits and ends: by job, when it comes and where its stages end. stages: see STAGE; level: of the smallest class
    that takes a task; mean: as told; tail: longest path of means to the output. children: of all stages, one after
    another. times: true run times of tasks. nodes: by class.
    """

    submits: Longs
    ends: Longs
    stages: NDArray[Any]
    children: Longs
    times: Longs
    nodes: Longs

    def jct_s(self, weights: Doubles) -> Doubles:
        """JCTs by job, s."""
        return np.asarray((play(*self, weights) - self.submits) / 1000)

    def by_index(self) -> FastContainers:
        """The same, with the first stage of a job in place of the stage with the longest path to the output."""
        stages = self.stages.copy()
        stages["tail"] = -np.arange(len(stages))
        return self._replace(stages=stages)


def episode(scenario: Scenario, seed: int, error: tuple[float, float] = (0.0, 0.0)) -> FastContainers:
    """A seed of a scenario. error: of the predictor `oracle`.

    Raises ValueError for nodes that hold several tasks, or that are no classes.
    """
    built = workload_of(scenario, seed)
    config = cluster_of(scenario, built)
    execution = Execution(config, seed)
    classes = sorted({node.capacity for node in config.nodes})
    counts = np.array([sum(node.capacity == each for node in config.nodes) for each in classes])
    children, times, ends = list[int](), list[int](), list[int]()
    rows: list[tuple[float, ...]] = []
    for number, each in enumerate(built.workload.jobs):
        stages, base, listed = each.job.stages, len(rows), execution.stage_times(each)
        means = [round(of.mean_ms) * misjudged(seed, each.job.id, index, error) for index, of in enumerate(listed)]
        tails = to_output(stages, means.__getitem__)
        for index, (stage, of) in enumerate(zip(stages, listed, strict=True)):
            assert isinstance(of, ListedTimes)
            below = [base + child for child, other in enumerate(stages) if index in other.parents]
            span = len(children), len(children) + len(below)
            level = _level(stage.demand, classes)
            rows.append((number, stage.tasks, len(times), level, means[index], tails[index], *span, len(stage.parents)))
            children += below
            times += of.first
        ends.append(len(rows))
    submits = np.array([each.submit_ms for each in built.workload.jobs])
    made = np.array(rows, STAGE), np.array(children, np.int64), np.array(times)
    return FastContainers(submits, np.array(ends), *made, counts)


def _level(demand: Vector, classes: Sequence[Vector]) -> int:
    """The smallest class with room for a task."""
    counts = [times_in(demand, capacity) for capacity in classes]
    if counts != sorted(counts) or max(counts) != 1:
        raise ValueError(f"tasks of {demand} on nodes of {classes}: no classes of which each holds a single task")
    return counts.index(1)


class _Run(NamedTuple):
    """What a play knows at a time. By slot: until, of, on; by stage: started, finished, missing, opened; else by job.

    clock: now, live jobs, jobs to come, open stages. above: work left that the nodes of a class and up must do. wide:
    nodes that take a task, by class. whole: logarithm of what is left to a class and up, per node, beside all.
    """

    clock: Longs
    free: Longs
    until: Longs
    of: Longs
    on: Longs
    started: Longs
    finished: Longs
    missing: Longs
    opened: Longs
    work: Doubles
    running: Doubles
    path: Doubles
    scores: Doubles
    unstarted: Longs
    tasks: Longs
    done: Longs
    above: Doubles
    wide: Doubles
    whole: Doubles


@njit(cache=True)
def play(submits, ends, stages, children, times, nodes, weights):  # type: ignore[no-untyped-def]
    """Ends by job, ms."""
    run = _begin(len(submits), stages, nodes)
    order, slots = np.argsort(submits, kind="mergesort"), len(run.until)
    come = 0
    while run.clock[1]:
        run.clock[0] = now = min(run.until.min(), submits[order[come]] if come < len(order) else _FREE)
        while come < len(order) and submits[order[come]] == now:
            job = order[come]
            come += 1
            for stage in range(0 if job == 0 else ends[job - 1], ends[job]):
                if run.missing[stage] == 0:
                    _open(run, stage)
            _score(run, job, weights)
        for slot in range(slots):
            if run.until[slot] == now:
                _end(run, slot, ends, stages, children)
                _score(run, stages[run.of[slot]]["job"], weights)
        if weights[7] != 0:
            _press(run, submits)
        place, level = _best(run, stages, weights)
        while place >= 0:
            stage = _start(run, place, level, stages, times)
            _score(run, stages[stage]["job"], weights)
            place, level = _best(run, stages, weights)
    return run.done


@njit(cache=True)
def _begin(jobs, stages, nodes):  # type: ignore[no-untyped-def]
    slots, count, classes = nodes.sum(), len(stages), len(nodes)
    run = _Run(
        np.array([0, jobs, 0, 0]), nodes.copy(), np.full(slots, _FREE), np.zeros(slots, np.int64),
        np.zeros(slots, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64), stages["parents"].copy(),
        np.zeros(count, np.int64), np.zeros(jobs), np.zeros(jobs), np.zeros(jobs), np.zeros(jobs),
        np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), np.zeros((jobs, classes)),
        np.zeros(classes), np.zeros(classes),
    )  # fmt: skip
    for level in range(classes):
        run.wide[level] = nodes[level:].sum()
    for row in stages:
        job = row["job"]
        run.work[job] += row["mean"] * row["tasks"]
        run.tasks[job] += row["tasks"]
        run.path[job] = max(run.path[job], row["tail"])
        run.above[job, : row["level"] + 1] += row["mean"] * row["tasks"]
    run.unstarted[:] = run.tasks
    return run


@njit(cache=True)
def _open(run, stage):  # type: ignore[no-untyped-def]
    run.opened[run.clock[3]] = stage
    run.clock[3] += 1


@njit(cache=True)
def _end(run, slot, ends, stages, children):  # type: ignore[no-untyped-def]
    """A task ends; with the last one of a stage, children open or the job ends."""
    row = stages[run.of[slot]]
    job, stage = row["job"], run.of[slot]
    run.until[slot] = _FREE
    run.free[run.on[slot]] += 1
    run.finished[stage] += 1
    run.work[job] -= row["mean"]
    run.running[job] -= row["mean"]
    run.above[job, : row["level"] + 1] -= row["mean"]
    if run.finished[stage] < row["tasks"]:
        return
    live, run.path[job] = False, 0.0
    for other in range(0 if job == 0 else ends[job - 1], ends[job]):
        if run.finished[other] < stages[other]["tasks"]:
            live, run.path[job] = True, max(run.path[job], stages[other]["tail"])
    if not live:
        run.done[job] = run.clock[0]
        run.clock[1] -= 1
    for child in children[row["children"] : row["children_end"]]:
        run.missing[child] -= 1
        if run.missing[child] == 0:
            _open(run, child)


@njit(cache=True)
def _start(run, place, level, stages, times):  # type: ignore[no-untyped-def]
    """The next task of an open stage starts on a node of a class; returns the stage."""
    stage = run.opened[place]
    row, slot = stages[stage], 0
    while run.until[slot] != _FREE:
        slot += 1
    run.until[slot] = run.clock[0] + times[row["first"] + run.started[stage]]
    run.of[slot], run.on[slot] = stage, level
    run.free[level] -= 1
    run.started[stage] += 1
    run.unstarted[row["job"]] -= 1
    run.running[row["job"]] += row["mean"]
    if run.started[stage] == row["tasks"]:
        run.clock[3] -= 1
        run.opened[place] = run.opened[run.clock[3]]
    return stage


@njit(cache=True)
def _score(run, job, weights):  # type: ignore[no-untyped-def]
    """The job's part of the score: the logarithm of its work left, of which tasks under way have half, and more."""
    left = max(run.work[job] - (0.5 + weights[6]) * run.running[job], 1.0)
    most = (run.above[job] / run.wide).max() * run.wide[0] / max(run.work[job], 1.0)
    run.scores[job] = (
        np.log(left)
        + weights[0] * np.log1p(run.path[job] * run.wide[0] / left)
        + weights[1] * run.unstarted[job] / run.tasks[job]
        + weights[2] * np.log(max(most, 1.0))
    )


@njit(cache=True)
def _press(run, submits):  # type: ignore[no-untyped-def]
    run.whole[:] = 1.0
    for job in range(len(submits)):
        if submits[job] <= run.clock[0]:
            run.whole[:] += run.above[job]
    run.whole[:] /= run.wide
    run.whole[:] = np.log(run.whole / run.whole[0])


@njit(cache=True)
def _best(run, stages, weights):  # type: ignore[no-untyped-def]
    """Place of the open stage with the least score that fits a free node, and the node's class; -1: none fits."""
    least, place, best = np.inf, -1, 0
    for index in range(run.clock[3]):
        row = stages[run.opened[index]]
        level = row["level"]
        while level < len(run.free) and not run.free[level]:
            level += 1
        if level == len(run.free):
            continue
        score = run.scores[row["job"]] - weights[3] * row["tail"] / max(run.path[row["job"]], 1.0)
        score += weights[4] * np.log(run.wide[row["level"]] / run.wide[0]) + weights[5] * np.log(max(row["mean"], 1.0))
        score -= weights[7] * run.whole[row["level"]]
        if score < least:
            least, place, best = score, index, level
    return place, best


def bound_s(each: FastContainers) -> float:
    """A lower bound of the mean JCT of jobs that come at once, s, true run times known.

    Jobs end in some order. At the end of a job its longest path of true run times is over, and so is all work of the
    jobs up to it on the nodes that take the work, level by level. The bound is the least sum over all orders, by
    dynamic programming over sets of jobs.
    """
    if each.submits.any() or len(each.submits) > JOBS_AT_MOST:
        raise ValueError(f"jobs that do not come at once, or more than {JOBS_AT_MOST}")
    jobs, levels = len(each.submits), len(each.nodes)
    work, alone = np.zeros((jobs, levels)), np.zeros(jobs)
    first = 0
    for job, end in enumerate(each.ends):
        ready = dict.fromkeys(range(first, end), 0.0)
        for stage in _topological(each, first, end):
            row = each.stages[stage]
            times = each.times[row["first"] : row["first"] + row["tasks"]]
            work[job, : row["level"] + 1] += times.sum()
            done = ready[stage] + max(times.max(), times.sum() / each.nodes[row["level"] :].sum())
            alone[job] = max(alone[job], done)
            for child in each.children[row["children"] : row["children_end"]]:
                ready[child] = max(ready[child], done)
        first = end
    work /= each.nodes[::-1].cumsum()[::-1]
    return float(_least(work, alone) / jobs / 1000)


def _topological(each: FastContainers, first: int, end: int) -> list[int]:
    missing = each.stages["parents"][first:end].copy()
    order = [first + int(stage) for stage in np.flatnonzero(missing == 0)]
    for stage in order:
        row = each.stages[stage]
        for child in each.children[row["children"] : row["children_end"]]:
            missing[child - first] -= 1
            if not missing[child - first]:
                order.append(int(child))
    return order


@njit(cache=True)
def _least(work, alone):  # type: ignore[no-untyped-def]
    jobs, levels = work.shape
    least, sums = np.full(1 << jobs, np.inf), np.zeros(levels)
    least[0] = 0.0
    for chosen in range(1, 1 << jobs):
        sums[:] = 0.0
        for job in range(jobs):
            if chosen >> job & 1:
                sums += work[job]
        over = sums.max()
        for job in range(jobs):
            if chosen >> job & 1:
                least[chosen] = min(least[chosen], least[chosen ^ (1 << job)] + max(over, alone[job]))
    return least[-1]
