"""Jobs that do not know what their tasks use, and ask for something else.

Graphene's evaluation (OSDI 2016, section 8) has both kinds: estimates of a stage's run time and of all its demands that
are wrong by the same drawn part, and jobs on YARN's Capacity Scheduler, which ask for cores and memory alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Annotated

import msgspec

from rm_emulator.workload.model import Workload, WorkloadJob
from schedulers.core.errors import InvalidParameters
from schedulers.core.fields import written
from schedulers.core.model import Node, Stage
from schedulers.core.places import Places
from schedulers.core.resources import Vector, fits
from schedulers.predictors.oracle import misjudged


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that ask for something else than their tasks use, which is what the workload says."""

    error: Annotated[tuple[float, float], written("errors")] = (0.0, 0.0)
    """Relative error of what a stage asks for, [lowest, highest]; one draw per stage, by which `oracle` with the same
    `error` misjudges its run time as well, e.g. `[-0.2, 0.5]`.
    """
    without: tuple[str, ...] = ()
    """Resources that are used, but that nobody asks for, nor did in history, e.g. `[network]`."""


def misjudge(workload: Workload, nodes: Sequence[Node], settings: Asks, seed: int) -> Workload:
    """The workload whose tasks use what they asked for so far, and whose jobs ask for something else.

    At least a step is asked for, and no more than a node has on which the stage's true demands fit.
    Raises InvalidParameters for a task that would ask for nothing, and where a node has none of what is not asked for.
    """
    unasked = [r for r, name in enumerate(workload.resources) if name in settings.without]
    asks = _Asks(nodes, settings.error, unasked, workload.resources, seed)
    replace = msgspec.structs.replace
    return replace(
        workload,
        jobs=tuple(asks.of(entry) for entry in workload.jobs),
        history=tuple(replace(past, demand=_less(past.demand, unasked)) for past in workload.history),
    )


def _less(demand: Vector, unasked: Collection[int]) -> Vector:
    return tuple(0 if r in unasked else amount for r, amount in enumerate(demand))


class _Asks:
    """What jobs ask for."""

    def __init__(
        self,
        nodes: Sequence[Node],
        error: tuple[float, float],
        unasked: Collection[int],
        names: Sequence[str],
        seed: int,
    ) -> None:
        self._error, self._unasked, self._names, self._seed = error, unasked, names, seed

        @cache
        def capacities(places: Places) -> list[Vector]:
            """What the nodes have that a stage may use, each kind once."""
            usable = (node for node in nodes if places.bars(node.id, node.labels, node.taints) is None)
            return list(dict.fromkeys(node.capacity for node in usable))

        self._capacities = capacities

    def of(self, entry: WorkloadJob) -> WorkloadJob:
        """The job with other asks; what its tasks use stays."""
        replace, job = msgspec.structs.replace, entry.job
        usage = tuple(entry.uses(index) for index in range(len(job.stages)))
        stages = tuple(
            replace(stage, demand=self._ask(job.id, index, stage, use))
            for index, (stage, use) in enumerate(zip(job.stages, usage, strict=True))
        )
        return replace(entry, job=replace(job, stages=stages), usage=usage)

    def _ask(self, job: str, index: int, stage: Stage, use: Vector) -> Vector:
        known, capacities = _less(use, self._unasked), self._capacities(stage.places)
        self._check(job, stage, use, known, capacities)
        factor = misjudged(self._seed, job, index, self._error)
        wanted = tuple(max(1, round(amount * factor)) if amount else 0 for amount in known)
        # Without a node that holds it the truth is asked for, so that it is the truth which is found too large.
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
