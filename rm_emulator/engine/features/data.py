"""Data that moves from node to node: a granted task waits in its container for what it takes."""

from __future__ import annotations

from rm_emulator.engine.calendar import START
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine


class Data(Feature):
    """Data of a task's parents, which takes time to its node."""

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """See Feature."""
        return _moves(engine) and not engine.control.copies

    def granted(self, container: Container, at: int) -> int:
        """See Feature."""
        container.ready = at
        return max(at, self._arrival(container))

    def _arrival(self, container: Container) -> int:
        """When the data that its task takes is on the container's node."""
        job, stage = container.master, container.stage
        if stage == job.own_stage or not job.source.job.stages[stage].takes_data:
            return 0
        container.arrived_ms = self.engine.control.arrival(job.state, stage, container.node)
        return container.arrived_ms


class DataOfCopies(Data):
    """Data that any copy of a task may be the first to make: what others wait for is there sooner then."""

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """See Feature."""
        return _moves(engine) and engine.control.copies

    def heard(self, job: Master) -> None:
        """See Feature. A container that starts sooner has a second start on the calendar; the later one is void."""
        engine, now = self.engine, self.engine.calendar.now
        for container in engine.containers.values():
            before = container.arrived_ms
            if container.master is not job or container.started_ms is not None or before is None:
                continue
            start = max(container.ready, now, self._arrival(container))
            if start < max(container.ready, before):
                engine.calendar.at(start, START, container.container, engine.started, container)


def _moves(engine: Engine) -> bool:
    """Whether data takes time and anybody takes data: nobody else waits for any."""
    stages = (stage for source in engine.workload.jobs for stage in source.job.stages)
    return engine.config.links is not None and any(stage.takes_data for stage in stages)
