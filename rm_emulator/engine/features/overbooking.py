"""Overrun nodes: while tasks use more of a resource than a node has, all users of the resource slow down alike.

With c of a resource there and D in use, a task runs at min(1, c / D) of its speed; with several such resources, at the
lowest of the fractions (Graphene, OSDI'16, sections 7 and 8: a delay by a proportional amount). A node is overrun in
network and disk where the cluster is told to overbook, in any resource where tasks use more than their asks. The rule
holds for memory as well; a real container beyond its memory is killed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import msgspec

from rm_emulator.engine.calendar import END
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from rm_emulator.workload.model import Workload
from schedulers.core.model import Node
from schedulers.core.resources import Vector

#: Part of a ms that is floating-point noise.
_NOISE = 1e-6


class _Sharer(msgspec.Struct):
    """A running task that shares its node."""

    use: Vector
    """Amounts in use."""
    left: float
    """Run time left if the task were alone, ms."""
    since: int
    """Time of the last change of speed, ms."""
    rate: float = 0.0
    """Speed since then; 0: new."""


class Sharers:
    """Running tasks by node. A start or an end moves the ends of other tasks: both return (container, new end in ms).

    `overrun`: resources with a use beyond the asks. A resource absent from a node limits no task there.
    """

    def __init__(self, nodes: Sequence[Node], overrun: Collection[int] = ()) -> None:
        self._capacities = [node.capacity for node in nodes]
        self._shared = [
            [r for r, there in enumerate(node.capacity) if there and (r in overrun or (node.slack and node.slack[r]))]
            for node in nodes
        ]
        self._there: list[dict[int, _Sharer]] = [{} for _ in nodes]

    def start(self, node: int, container: int, use: Vector, runtime_ms: float, now: int) -> list[tuple[int, int]]:
        """Start a task with this run time if alone, ms; infinity: until the call of `end`."""
        self._there[node][container] = _Sharer(use, runtime_ms, now)
        return self._share(node, now)

    def end(self, node: int, container: int, now: int) -> list[tuple[int, int]]:
        """End a task; nothing happens for a task without a start."""
        if self._there[node].pop(container, None) is None:
            return []
        return self._share(node, now)

    def _share(self, node: int, now: int) -> list[tuple[int, int]]:
        """Settle the run time spent so far, and the new speed of each task."""
        there, moved = self._there[node], []
        factors = {}
        for r in self._shared[node]:
            used = sum(sharer.use[r] for sharer in there.values())
            if used > self._capacities[node][r]:
                factors[r] = self._capacities[node][r] / used
        for container, sharer in there.items():
            rate = min((factor for r, factor in factors.items() if sharer.use[r]), default=1.0)
            # Tasks with an unchanged speed keep their end: no new entry on the calendar.
            if rate != sharer.rate:
                sharer.left = max(0.0, sharer.left - (now - sharer.since) * sharer.rate)
                sharer.since, sharer.rate = now, rate
                # An application master has no foreseen end.
                if sharer.left < math.inf:
                    moved.append((container, now + math.ceil(sharer.left / rate - _NOISE)))
        return moved


class Overbooking(Feature):
    """Nodes that can be overrun: a start or an end on a node moves the ends of all other tasks there."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._calendar, self._over = engine.calendar, engine.over
        self._sharers = Sharers(engine.config.nodes, overrun(engine.workload))
        self._there: dict[int, Container] = {}

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether a node could be overrun."""
        return is_overbooked(engine.config, engine.workload)

    def started(self, container: Container) -> bool:
        """Start the use of an application master, without a foreseen end."""
        if container.stage == container.master.master_stage:
            self._start(container, container.master.source.am, math.inf)
        return False

    def runs(self, container: Container) -> None:
        """Start the use of a task, and enter the ends that follow."""
        self._start(container, container.master.source.uses(container.stage), container.runtime)

    def removed(self, container: Container) -> None:
        """End the use of a container, and enter the ends that follow."""
        container.forecasts += 1
        self._there.pop(container.container, None)
        self._foretell(self._sharers.end(container.index, container.container, self._calendar.now))

    def _start(self, container: Container, use: Vector, runtime: float) -> None:
        """Count a container's use of its node from now on; `runtime` as for `Sharers.start`."""
        self._there[container.container] = container
        now = self._calendar.now
        self._foretell(self._sharers.start(container.index, container.container, use, runtime, now))

    def _foretell(self, ends: list[tuple[int, int]]) -> None:
        for number, end in ends:
            container = self._there[number]
            container.forecasts += 1
            self._calendar.at(end, END, number, self._end, (container, container.forecasts))

    def _end(self, foretold: tuple[Container, int]) -> None:
        """End a container, unless its end was moved after this entry."""
        container, forecasts = foretold
        # The calendar has no removal: only the latest forecast counts.
        if container.forecasts == forecasts and container.started_ms is not None:
            container.runtime = self._calendar.now - container.started_ms
            self.removed(container)
            self._over(container)


def is_overbooked(config: EngineConfig, workload: Workload) -> bool:
    """Whether a node could be overrun."""
    return any(any(node.slack) for node in config.nodes) or bool(overrun(workload))


def overrun(workload: Workload) -> set[int]:
    """Resources used by some task beyond its ask."""
    return {
        r
        for entry in workload.jobs
        for stage, use in zip(entry.job.stages, entry.usage, strict=False)  # no usage: as asked
        for r, (asked, used) in enumerate(zip(stage.demand, use, strict=True))
        if used > asked
    }
