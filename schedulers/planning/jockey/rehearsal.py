"""How long a job still takes on so many containers: played forward on estimates, or by Amdahl's law.

Source: Jockey (EuroSys'12), section 4.1 (simulator) and 4.3 (Amdahl). No clock and no state: the same script gives the
same table everywhere. The play is the emulator's run of a job alone under `fifo` with profile `events`, ms by ms
(tests/planning/test_rehearsal.py), written out here because the core knows no emulator.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from heapq import heappop, heappush
from math import exp, log1p, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from schedulers.core import keyed
from schedulers.core.rehearsal import Act, Row, Script, StageProfile, Table
from schedulers.planning.jockey.progress import Meter, meter, paths, serial

#: Rows of a table: progress 0, 1/20, ... 19/20.
_ROWS: Final = 20
#: Quantile of the remaining time over all draws.
_QUANTILE: Final = 0.9
_NORMAL: Final = NormalDist()

#: When each task ended, and its stage, in order.
Ends = list[tuple[int, int]]
Times = npt.NDArray[np.int64]


def rehearse(script: Script) -> tuple[tuple[StageProfile, ...], Table]:
    """The profile of each stage on the largest allocation when estimates are right, and C(progress, allocation).

    The table never grows with progress or with the allocation: where draws say otherwise, the longer time holds.
    """
    usual = [[max(1, round(act.task_ms))] * act.tasks for act in script.acts]
    profiles, _ = play(script.acts, usual, script.allocations[-1])
    marks, how_far = [row / _ROWS for row in range(_ROWS)], meter(script.indicator, profiles)
    left = np.zeros((script.draws, len(script.allocations), _ROWS), dtype=np.int64)
    for draw, times in enumerate(_drawn(script)):
        for column, allocation in enumerate(script.allocations):
            _, ends = play(script.acts, times, allocation)
            left[draw, column] = [ends[-1][0] - at for at in _reached(marks, ends, how_far, len(profiles))]
    most, half = (_never_growing(left, part) for part in (_QUANTILE, 0.5))
    rows = (Row(mark, tuple(most[:, row].tolist()), tuple(half[:, row].tolist())) for row, mark in enumerate(marks))
    return profiles, Table(script.allocations, tuple(rows))


def _never_growing(left: Times, quantile: float) -> Times:
    """Quantile over the plays (first axis); along both other axes the longest of the times from there on."""
    times = np.quantile(left, quantile, axis=0, method="higher").astype(np.int64)
    for axis in (0, 1):
        times = np.flip(np.maximum.accumulate(np.flip(times, axis), axis), axis)
    return times


def _drawn(script: Script) -> Iterator[list[list[int]]]:
    """Run times by stage and task (ms): the same for every allocation, so columns differ by the allocation alone."""
    for draw in range(script.draws):
        random = keyed.generator(script.seed, "rehearsal", draw)
        yield [
            np.maximum(
                1, np.rint(act.task_ms * _noise(random, act.spread, 1) * _noise(random, script.variation, act.tasks))
            )
            .astype(np.int64)
            .tolist()
            for act in script.acts
        ]


def _noise(random: np.random.Generator, variation: float, count: int) -> npt.NDArray[np.float64]:
    """Log-normal factors with mean 1 and this standard deviation."""
    sigma2 = np.log1p(variation * variation)
    return random.lognormal(-sigma2 / 2, np.sqrt(sigma2), count)


def play(acts: Sequence[Act], times: Sequence[Sequence[int]], slots: int) -> tuple[tuple[StageProfile, ...], Ends]:
    """A run on so many containers: a free container goes to the first stage with a task ready to start.

    times: ms by stage and task. Returns the profile of each stage, and every task's end.
    """
    children: list[list[int]] = [[] for _ in acts]
    for stage, act in enumerate(acts):
        for parent in act.parents:
            children[parent].append(stage)
    missing, started, finished = [len(act.parents) for act in acts], [0] * len(acts), [0] * len(acts)
    opened, queued = [0] * len(acts), [0] * len(acts)
    begun, over = [0] * len(acts), [0] * len(acts)
    ready = [stage for stage, n in enumerate(missing) if not n]  # a heap, as it ascends
    running: Ends = []
    ends: Ends = []
    now = 0
    while ready or running:
        while ready and len(running) < slots:
            stage = ready[0]
            if not started[stage]:
                begun[stage] = now
            queued[stage] += now - opened[stage]
            heappush(running, (now + times[stage][started[stage]], stage))
            started[stage] += 1
            if started[stage] == acts[stage].tasks:
                heappop(ready)
        now, stage = heappop(running)
        ends.append((now, stage))
        finished[stage] += 1
        if finished[stage] == acts[stage].tasks:
            over[stage] = now
            for child in children[stage]:
                missing[child] -= 1
                if not missing[child]:
                    opened[child] = now
                    heappush(ready, child)
    profiles = tuple(
        StageProfile(
            tasks=act.tasks,
            parents=act.parents,
            queued=queued[stage],
            run=sum(times[stage]),
            longest=max(times[stage]),
            begin=begun[stage],
            end=over[stage],
        )
        for stage, act in enumerate(acts)
    )
    return profiles, ends


def _reached(marks: Sequence[float], ends: Ends, how_far: Meter, stages: int) -> Iterator[int]:
    """When the play was first as far as each mark (ms from its start)."""
    order = np.array([stage for _, stage in ends])

    def progress_after(tasks: int) -> float:
        return how_far(np.bincount(order[:tasks], minlength=stages).tolist())

    tasks = 0
    for mark in marks:
        tasks = bisect_left(range(len(ends) + 1), mark, lo=tasks, key=progress_after)
        yield ends[tasks - 1][0] if tasks else 0


def amdahl(
    profiles: Sequence[StageProfile], done: Sequence[int], allocations: Sequence[int], variation: float = 0.0
) -> tuple[float, ...]:
    """Remaining ms by allocation: the longest path left, and the work left shared by all containers.

    variation: among tasks of a stage, as in `Script`; 0 where `longest` is measured, and not the mean task's.
    """
    longest = [round(profile.longest * _longest_of(profile.tasks, variation)) for profile in profiles]
    profiles = [replace(profile, longest=ms) for profile, ms in zip(profiles, longest, strict=True)]
    after = paths(profiles).after
    rest = sum((1 - n / profile.tasks) * profile.run for profile, n in zip(profiles, done, strict=True))
    path = serial(profiles, done, after)
    return tuple(path + rest / allocation for allocation in allocations)


@cache
def _longest_of(tasks: int, variation: float) -> float:
    """The longest of so many log-normal factors with mean 1, about: the exponential of Blom's expected normal score."""
    sigma2 = log1p(variation * variation)
    return exp(sqrt(sigma2) * _NORMAL.inv_cdf((tasks - 0.375) / (tasks + 0.25)) - sigma2 / 2) if tasks > 1 else 1.0
