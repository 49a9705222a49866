"""Unlike nodes: run times of a task differ by node: by speed, by measurement, by distance of its input and gang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rm_emulator.engine.containers import Container
from rm_emulator.engine.execution import LONGEST_MS, NodeTimes
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from rm_emulator.workload.model import PerNode, Remote
from schedulers.core.model import Node, Stage


class UnlikeNodes(Feature):
    """Run times that depend on the node; absent without speeds, run times by node, input on nodes, and gangs apart."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._speeds = [node.speed for node in engine.config.nodes]
        self._distances = Distances(engine.config.nodes, engine.workload.remote)

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether any run time depends on the node."""
        jobs = engine.workload.jobs
        return (
            any(node.speed != 1.0 for node in engine.config.nodes)
            or any(source.apart != 1.0 or any(stage.hosts for stage in source.job.stages) for source in jobs)
            or any(isinstance(times, PerNode) for source in jobs for times in source.runtimes)
        )

    def run_time(self, container: Container, runtime: int) -> int:
        """Run time at the speed of the node, and at the distances from the task's input and gang."""
        times = container.master.times[container.stage]
        if isinstance(times, NodeTimes):
            runtime = times.ms_on(container.node, container.task)
        # Measured by node: the node's speed is in the measurement.
        speed = 1.0 if isinstance(times, NodeTimes) else self._speeds[container.index]
        source = container.master.source
        stage = source.job.stages[container.stage]
        if source.apart != 1.0 and stage.gang:
            # A gang starts at one instant, so all its containers are live at the first start.
            there = self.engine.containers.values()
            gang = (c.index for c in there if c.job == container.job and c.stage == container.stage)
            speed /= source.apart if self._distances.apart(gang) else 1.0
        container.distance = self._distances.of(stage, container.task, container.index) if stage.hosts else None
        if stage.hosts:
            return self._distances.stretched(runtime / speed, container.distance)
        # No rounding where nothing was stretched: whole run times stay exact.
        return runtime if speed == 1.0 else max(1, round(runtime / speed))

    def over(self, container: Container) -> None:
        """Count a finished task by its distance from its input."""
        if container.distance is not None and not container.code:
            self._distances.counts[container.distance] += 1

    @property
    def locality(self) -> dict[str, float] | None:
        """Shares of finished tasks by distance: node, rack, elsewhere."""
        counts = self._distances.counts
        total = sum(counts)
        return {name: n / total for name, n in zip(("node", "rack", "off"), counts, strict=True)} if total else None


def locality(feature: Callable[[type[UnlikeNodes]], UnlikeNodes | None]) -> dict[str, float] | None:
    """Shares of tasks on a node with their input, in a rack with the input, elsewhere; None: no input.

    feature: of the run (`Simulation.feature`).
    """
    unlike = feature(UnlikeNodes)
    return None if unlike is None else unlike.locality


class Distances:
    """Distances of tasks from their input and inside gangs, and the cost of the former.

    `counts`: successful tasks on a node with their input, in a rack with the input, elsewhere.
    """

    __slots__ = ("_factors", "_nodes", "_racks", "counts")

    def __init__(self, nodes: Sequence[Node], remote: Remote) -> None:
        self._nodes, self._racks = nodes, {node.id: node.rack for node in nodes}
        self._factors = (remote.node, remote.rack, remote.off)
        self.counts = [0, 0, 0]

    def of(self, stage: Stage, task: int, node: int) -> int | None:
        """0 on a node with the input, 1 in a rack with the input, 2 elsewhere; None for a task without input."""
        hosts, there = stage.hosts_of(task), self._nodes[node]
        if not hosts:
            return None
        if there.id in hosts:
            return 0
        return 1 if there.rack and any(self._racks.get(host) == there.rack for host in hosts) else 2

    def apart(self, nodes: Iterable[int]) -> bool:
        """Whether the nodes are in several racks."""
        return len({self._nodes[node].rack for node in nodes}) > 1

    def stretched(self, runtime: float, distance: int | None) -> int:
        """A run time at this distance, in whole ms, at least 1."""
        return max(1, round(runtime if distance is None else min(runtime * self._factors[distance], LONGEST_MS)))
