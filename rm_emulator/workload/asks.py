"""Jobs with wrong asks: their tasks use different amounts.

Graphene's evaluation (OSDI 2016, section 8) has all kinds: estimates of a stage's run time and of all its demands with
the same drawn error, jobs on YARN's Capacity Scheduler with asks for cores and memory alone, and demands that are
peaks, while a task uses less on average.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Annotated

import msgspec

from rm_emulator.workload.model import Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.fields import written
from schedulers.core.model import Node, Stage
from schedulers.core.places import Places
from schedulers.core.resources import Vector
from schedulers.core.vectors import fits
from schedulers.predictors.oracle import misjudged

PartUsed = Annotated[float, written(ge=0, le=1)]


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs with asks different from the use of their tasks; the workload gives the use, or its peaks (`used`)."""

    error: Annotated[tuple[float, float], written("errors")] = (0.0, 0.0)
    """Relative error of a stage's asks, [lowest, highest]; a single draw per stage, by which `oracle` with the same
    `error` misjudges the run time as well, e.g. `[-0.2, 0.5]`.
    """
    without: tuple[str, ...] = ()
    """Resources in use without an ask, neither in jobs nor in history, e.g. `[network]`."""
    used: tuple[PartUsed, PartUsed] = (1.0, 1.0)
    """Part of the workload's demands that tasks use, [lowest, highest]; drawn per stage and resource, so that asks are
    peaks of use, e.g. `[0, 1]`.
    """


def misjudge(workload: Workload, nodes: Sequence[Node], settings: Asks, seed: int) -> Workload:
    """The workload with its demands as true use, or as its peaks, and with different asks.

    An ask is at least a step, and at most the capacity of a node with room for the stage's true demands.
    Raises InvalidParameters for a task without any ask, for a node without any of a resource not asked for, and for a
    range of `used` with the larger part first.
    """
    if settings.used[0] > settings.used[1]:
        raise InvalidParameters(f"asks: used {list(settings.used)} (the smaller part first)")
    unasked = [r for r, name in enumerate(workload.resources) if name in settings.without]
    asks = _Asks(nodes, settings, unasked, workload.resources, seed)
    replace = msgspec.structs.replace
    return replace(
        workload,
        jobs=tuple(asks.of(entry) for entry in workload.jobs),
        history=tuple(replace(past, demand=_less(past.demand, unasked)) for past in workload.history),
    )


def _less(demand: Vector, unasked: Collection[int]) -> Vector:
    return tuple(0 if r in unasked else amount for r, amount in enumerate(demand))


class _Asks:
    """The asks of jobs."""

    def __init__(
        self,
        nodes: Sequence[Node],
        settings: Asks,
        unasked: Collection[int],
        names: Sequence[str],
        seed: int,
    ) -> None:
        self._settings, self._unasked, self._names, self._seed = settings, unasked, names, seed

        @cache
        def capacities(places: Places) -> list[Vector]:
            """Capacities of the nodes open to a stage, each kind once."""
            usable = (node for node in nodes if places.bars(node.id, node.labels, node.taints) is None)
            return list(dict.fromkeys(node.capacity for node in usable))

        self._capacities = capacities

    def of(self, entry: WorkloadJob) -> WorkloadJob:
        """The job with new asks; the use of its tasks stays, or is the part used of it."""
        replace, job = msgspec.structs.replace, entry.job
        peaks = [entry.uses(index) for index in range(len(job.stages))]
        stages = tuple(
            replace(stage, demand=self._ask(job.id, index, stage, peak))
            for index, (stage, peak) in enumerate(zip(job.stages, peaks, strict=True))
        )
        usage = tuple(self._used(job.id, index, peak) for index, peak in enumerate(peaks))
        return replace(entry, job=replace(job, stages=stages), usage=usage)

    def _used(self, job: str, index: int, peak: Vector) -> Vector:
        low, high = self._settings.used
        if low == high == 1:
            return peak
        parts = keyed.generator(self._seed, "asks-used", job, index).random(len(peak)).tolist()
        return tuple(
            max(1, round(amount * (low + (high - low) * part))) if amount else 0
            for amount, part in zip(peak, parts, strict=True)
        )

    def _ask(self, job: str, index: int, stage: Stage, use: Vector) -> Vector:
        known, capacities = _less(use, self._unasked), self._capacities(stage.places)
        self._check(job, stage, use, known, capacities)
        factor = misjudged(self._seed, job, index, self._settings.error)
        wanted = tuple(max(1, round(amount * factor)) if amount else 0 for amount in known)
        # Without a node for the true demands the ask is the truth, so that the truth is reported as too large.
        return max(
            (tuple(map(min, wanted, capacity)) for capacity in capacities if fits(known, capacity)), default=known
        )

    def _check(self, job: str, stage: Stage, use: Vector, known: Vector, capacities: Sequence[Vector]) -> None:
        left = [r for r in self._unasked if use[r]]
        if left and not any(known):
            names = ", ".join(self._names[r] for r in left)
            raise InvalidParameters(f"job '{job}' stage '{stage.name}' uses {names} alone, so it has to ask for it")
        for r in left:
            if not all(capacity[r] for capacity in capacities):
                raise InvalidParameters(
                    f"job '{job}' stage '{stage.name}' uses {self._names[r]} without asking for it, "
                    "but some nodes have none (give them some, or let jobs ask for it)"
                )
