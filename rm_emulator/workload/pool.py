"""Waits of jobs on a cluster of equal nodes, estimated in seconds instead of emulated.

The cluster is one pool. Jobs are served first come, first served; the stages of a job run one after another; a task
takes the part of a node that its scarcest resource takes; the tasks of a gang start together. Heartbeats, start-up
times, queues and the order among stages are left out: an emulation of the scenario says more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

#: A node in units of the pool. As many equal tasks as fit a node share it without a rest worth a task.
NODE: Final = 10**12
#: Ends are rounded up to this part of a run time, so that tasks of a stage that start at nearly one time end together.
_GRAIN: Final = 32


class PoolStage(NamedTuple):
    """Equal tasks: number, mean run time (ms), number of tasks that fit a node, and whether all start together."""

    tasks: int
    ms: float
    per_node: int
    gang: bool


class PoolJob(NamedTuple):
    """A job: time of arrival (ms), and its stages in order."""

    submit: int
    stages: Sequence[PoolStage]


def waits(jobs: Sequence[PoolJob], nodes: int) -> list[float]:
    """Time (ms) of each job from its arrival to the start of its first task. Jobs in order of arrival.

    Raises ValueError for a gang that the nodes never hold.
    """
    free, now = nodes * NODE, 0.0
    started: list[float | None] = [None] * len(jobs)
    at = [0] * len(jobs)  # the stage of each job that is running or next
    waiting, running = [job.stages[0].tasks if job.stages else 0 for job in jobs], [0] * len(jobs)
    ready: list[int] = []
    ends: list[tuple[float, int, int, int]] = []  # end, job, tasks, units
    arrived, count = 0, len(jobs)
    while arrived < count or ends:
        now = min(
            float(jobs[arrived].submit) if arrived < count else math.inf,
            ends[0][0] if ends else math.inf,
        )
        while ends and ends[0][0] <= now:
            _, job, tasks, units = heappop(ends)
            free += units
            running[job] -= tasks
            if not running[job] and not waiting[job] and at[job] + 1 < len(jobs[job].stages):
                at[job] += 1
                waiting[job] = jobs[job].stages[at[job]].tasks
                heappush(ready, job)
        while arrived < count and jobs[arrived].submit <= now:
            heappush(ready, arrived)
            arrived += 1
        while ready:
            job = ready[0]
            stage = jobs[job].stages[at[job]]
            size, left = NODE // stage.per_node, waiting[job]
            room = min(left, free // size)
            # The head of the line keeps its place: no later job passes a task, or a gang, without room.
            if room == 0 or (stage.gang and room < left):
                break
            if started[job] is None:
                started[job] = now
            free -= room * size
            waiting[job] -= room
            running[job] += room
            heappush(ends, (_rounded(now + stage.ms, stage.ms), job, room, room * size))
            if not waiting[job]:
                heappop(ready)
    if ready:
        raise ValueError(f"a gang of {waiting[ready[0]]} tasks never fits {nodes} nodes")
    return [start - job.submit for job, start in zip(jobs, started, strict=True) if start is not None]


def _rounded(end: float, ms: float) -> float:
    grain = max(1.0, 2.0 ** math.floor(math.log2(max(ms, 1.0) / _GRAIN)))
    return math.ceil(end / grain) * grain
