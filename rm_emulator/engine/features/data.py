"""Data on its way from node to node: a granted task waits in its container for the data."""

from __future__ import annotations

from rm_emulator.engine.calendar import START
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.features.copies import may_copy
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine


class DataFeature(Feature):
    """Data of a task's parents, under way to the task's node for a time."""

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether data takes time, and a task has a single container."""
        return _moves(engine) and not may_copy(engine)

    def granted(self, container: Container, at: int) -> int:
        """Start once the data has arrived."""
        # Kept, so that sooner data never lets a container start before its launch.
        container.ready = at
        return max(at, self._arrival(container))

    def _arrival(self, container: Container) -> int:
        """Arrival of the task's data on the container's node, ms."""
        job, stage = container.master, container.stage
        if stage == job.master_stage or not job.source.job.stages[stage].takes_data:
            return 0
        container.arrived_ms = self.engine.control.arrival(job.state, stage, container.node)
        return container.arrived_ms


class DataOfCopies(DataFeature):
    """Data made first by any copy of a task, and then sooner there for waiting tasks."""

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether data takes time, and tasks may have several containers."""
        return _moves(engine) and may_copy(engine)

    def end_heard(self, job: Master) -> None:
        """Enter a second, sooner start for a container with sooner data; the later start is void."""
        engine, now = self.engine, self.engine.calendar.now
        # Waiting containers of the job alone: data moves inside a job, and started tasks have their data.
        for container in engine.containers.values():
            before = container.arrived_ms
            if container.master is not job or container.started_ms is not None or before is None:
                continue
            start = max(container.ready, now, self._arrival(container))
            if start < max(container.ready, before):
                engine.calendar.at(start, START, container.container, engine.started, container)


def _moves(engine: Engine) -> bool:
    """Whether data takes time and any stage takes data: without such a stage no task waits for data."""
    stages = (stage for source in engine.workload.jobs for stage in source.job.stages)
    return engine.config.links is not None and any(stage.takes_data for stage in stages)
