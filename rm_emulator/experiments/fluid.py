"""The workload under ideal water-filling: every task is a fluid, and every queue always has exactly its fair share.

At every instant the tree of queues is filled (`results.water_filling`) with the demands of each queue's runnable tasks.
Below a queue its jobs are filled in the same way, by their weight, with the queue's grant. All tasks of a
job run at the rate granted / asked, at most 1 (a task on a node for itself), times the cluster's mean speed. A stage
begins when its parents are done. There are no nodes, heartbeats, containers, application masters or limits per user.

A lower-ish reference and no bound: an order with short jobs first has a lower mean than equal shares.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from rm_emulator.results.metrics import Floats, Ints
from rm_emulator.results.water_filling import SharingTree

#: So many times at most are completions looked at: beyond it several in a row change the rates together.
STEPS: Final = 5_000
_CLOSE: Final = 1e-9
#: Two completions of a job so close (ms of service) are one: less than the resolution of any clock here.
_SAME_MS: Final = 1e-6


class FluidStage(msgspec.Struct, frozen=True):
    """Equal tasks."""

    demand: tuple[int, ...]
    """Demand of each task, in the cluster's units."""
    times_ms: tuple[float, ...]
    """True run times at node speed 1."""
    parents: tuple[int, ...] = ()
    """Indices of the parent stages."""


class FluidJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to come; queue: a leaf of the tree."""

    queue: str
    submit_ms: int
    stages: tuple[FluidStage, ...]
    weight: float = 1.0


def finish_times(
    jobs: Sequence[FluidJob],
    tree: SharingTree,
    capacity: Sequence[int],
    *,
    speed: float = 1.0,
    steps: int = STEPS,
    progress: Callable[[int], None] = lambda done: None,
) -> list[float | None]:
    """End of each job (ms), None for a job whose queue may never have anything.

    jobs: in order of arrival. capacity: of the whole cluster, in the order of demands. progress: hears how many
    tasks are done. With more tasks than `steps` a completion may take effect late, by span / steps at most, the span
    being what the work and the arrivals take at least; ends themselves are never rounded up.
    """
    return _Flow(jobs, tree, capacity, speed, _grain_ms(jobs, capacity, speed, steps)).run(progress)


def _grain_ms(jobs: Sequence[FluidJob], capacity: Sequence[int], speed: float, steps: int) -> float:
    """The shortest time between two changes of the rates, changes by arrivals apart."""
    if not jobs or sum(len(stage.times_ms) for job in jobs for stage in job.stages) <= steps:
        return 0.0
    full = np.array(capacity, dtype=np.float64)
    work = np.zeros(len(full))
    for job in jobs:
        for stage in job.stages:
            work += np.array(stage.demand) * sum(stage.times_ms)
    needed = np.divide(work, full, out=np.zeros_like(work), where=full > 0).max() / speed
    return float(max(needed, jobs[-1].submit_ms - jobs[0].submit_ms)) / steps


class _Running:
    """A job on its way. The job's clock is its service: ms of run time at speed 1 of each of its tasks."""

    __slots__ = ("ends", "index", "left", "parents", "source", "stages_left")

    def __init__(self, index: int, source: FluidJob) -> None:
        self.index, self.source = index, source
        self.ends: list[tuple[float, int]] = []  # (clock, stage) of the end of each runnable task, a heap
        self.left = [len(stage.times_ms) for stage in source.stages]
        self.parents = [len(stage.parents) for stage in source.stages]
        self.stages_left = len(source.stages)


class _Flow:
    """The state of the flow. Arrays have a row per job of the workload; `active` are the rows in use."""

    def __init__(
        self, jobs: Sequence[FluidJob], tree: SharingTree, capacity: Sequence[int], speed: float, grain_ms: float
    ) -> None:
        self.jobs, self.tree, self.speed, self.grain_ms = jobs, tree, speed, grain_ms
        self.capacity = np.array(capacity, dtype=np.float64)
        leaf = {name: index for index, name in enumerate(tree.leaves)}
        self.owner = np.array([leaf[job.queue] for job in jobs], dtype=np.int64)
        self.weight = np.array([job.weight for job in jobs], dtype=np.float64)
        self.asked = np.zeros((len(jobs), len(self.capacity)), dtype=np.int64)
        self.clock = np.zeros(len(jobs))
        self.next_end = np.full(len(jobs), np.inf)
        self.running: dict[int, _Running] = {}
        self.done: list[float | None] = [None] * len(jobs)
        self.tasks_done = 0

    def run(self, progress: Callable[[int], None]) -> list[float | None]:
        now, arrived = 0.0, 0
        while arrived < len(self.jobs) or self.running:
            until = self.jobs[arrived].submit_ms if arrived < len(self.jobs) else np.inf
            active = np.array(sorted(self.running), dtype=np.int64)
            rate = self._rates(active) * self.speed
            now = self._advance(active, rate, now, float(until))
            if not np.isfinite(now):
                break  # nothing will ever run any more: what is left asks for what its queue may not have
            while arrived < len(self.jobs) and self.jobs[arrived].submit_ms <= now:
                self._arrive(arrived, now)
                arrived += 1
            progress(self.tasks_done)
        return self.done

    def _arrive(self, index: int, now: float) -> None:
        job = self.running[index] = _Running(index, self.jobs[index])
        for stage, parents in enumerate(job.parents):
            if parents == 0:
                self._begin(job, stage, 0.0)
        self._settle(job, 0.0, 1.0, now)

    def _begin(self, job: _Running, stage: int, clock: float) -> None:
        source = job.source.stages[stage]
        self.asked[job.index] += np.array(source.demand, dtype=np.int64) * len(source.times_ms)
        for ms in source.times_ms:
            heapq.heappush(job.ends, (clock + ms, stage))

    def _advance(self, active: Ints, rate: Floats, now: float, until: float) -> float:
        """Let the active jobs run at their rates to the next change; returns its time."""
        if not len(active):
            return until
        left = self.next_end[active] - self.clock[active]
        ends = np.divide(left, rate, out=np.full(len(active), np.inf), where=rate > 0)
        step = min(max(float(ends.min()), self.grain_ms), until - now)
        if not np.isfinite(step):
            return step
        before = self.clock[active]
        self.clock[active] = before + rate * step
        for at in np.flatnonzero(self.next_end[active] <= self.clock[active] + _SAME_MS).tolist():
            job = self.running[int(active[at])]
            self._settle(job, float(before[at]), float(rate[at]), now)
        return now + step

    def _settle(self, job: _Running, before: float, rate: float, since: float) -> None:
        """Take the ends up to the job's clock, which stood at `before` at `since` and went at `rate` from there."""
        clock = float(self.clock[job.index]) + _SAME_MS
        while job.ends and job.ends[0][0] <= clock:
            at, stage = heapq.heappop(job.ends)
            self.asked[job.index] -= np.array(job.source.stages[stage].demand, dtype=np.int64)
            self.tasks_done += 1
            job.left[stage] -= 1
            if job.left[stage] == 0:
                job.stages_left -= 1
                self._unblock(job, stage, at)
            if job.stages_left == 0:
                self.done[job.index] = since + (max(0.0, at - before) / rate if rate > 0 else 0.0)
        if job.ends:
            self.next_end[job.index] = job.ends[0][0]
        else:
            del self.running[job.index]
            self.next_end[job.index] = np.inf

    def _unblock(self, job: _Running, stage: int, clock: float) -> None:
        for child, source in enumerate(job.source.stages):
            if stage in source.parents:
                job.parents[child] -= source.parents.count(stage)
                if job.parents[child] == 0:
                    self._begin(job, child, clock)

    def _rates(self, active: Ints) -> Floats:
        """The rate of each active job, from 0 to 1."""
        rates = np.ones(len(active))
        if not len(active):
            return rates
        nothing = np.zeros((len(active), len(self.capacity)))
        asked = np.divide(self.asked[active], self.capacity, out=nothing, where=self.capacity > 0)
        owner = self.owner[active]
        demand = np.zeros((len(self.tree.leaves), len(self.capacity)))
        np.add.at(demand, owner, asked)
        wanted = demand.max(axis=1)
        granted = self.tree.fill(demand[None])[0]
        for leaf in np.flatnonzero(granted < wanted * (1 - _CLOSE)).tolist():
            mine = owner == leaf
            budget = demand[leaf] * (granted[leaf] / wanted[leaf])
            rates[mine] = split(asked[mine], self.weight[active][mine], budget)
        return rates


def split(asked: Floats, weight: Floats, budget: Floats) -> Floats:
    """Rates of a queue's jobs: dominant shares per weight grow alike until a job has its whole demand (rate 1).

    asked: jobs x resources; budget: the queue's limit on each resource, both as fractions of the cluster.
    Jobs without demand for a used-up resource go on growing.
    """
    wanted = asked.max(axis=1)
    rates = np.where(wanted > 0, 0.0, 1.0)
    grows = wanted > 0
    while grows.any():
        rest = budget - (asked[~grows] * rates[~grows, None]).sum(axis=0)
        level, resource = _level(asked[grows], wanted[grows] / weight[grows], rest)
        rates[grows] = np.minimum(1.0, level * weight[grows] / wanted[grows])
        if resource is None:
            break
        grows &= (rates < 1) & (asked[:, resource] == 0)
    return rates


def _level(asked: Floats, full_at: Floats, rest: Floats) -> tuple[float, int | None]:
    """The highest equal level, and the resource that limits the rise; full_at: level of a job's whole demand."""
    order = np.argsort(full_at, kind="stable")
    asked, full_at = asked[order], full_at[order]
    per_level = asked / full_at[:, None]
    # At the level of job k those before it are full, and those from it on hold level x their slope.
    full = np.cumsum(asked, axis=0) - asked
    slope = np.cumsum(per_level[::-1], axis=0)[::-1]
    used = full + full_at[:, None] * slope
    over = used > np.maximum(rest, 0.0) * (1 + _CLOSE) + _CLOSE**2
    if not over.any():
        return float(full_at[-1]), None
    levels = np.full(len(rest), np.inf)
    for r in np.flatnonzero(over.any(axis=0)).tolist():
        k = int(over[:, r].argmax())
        levels[r] = max(0.0, (rest[r] - full[k, r]) / slope[k, r])
    return float(levels.min()), int(levels.argmin())
