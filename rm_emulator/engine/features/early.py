"""Early containers: granted behind a share, where the task waits in its container for the end of the parent."""

from __future__ import annotations

from rm_emulator.engine.calendar import START
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.features.feature import HELD, Feature
from rm_emulator.engine.profile import Engine


class EarlyContainers(Feature):
    """Tasks behind a share of a parent: grant, launch and start-up overlap with the parent's last tasks, no run time.

    In MapReduce the copy phase overlaps as well; a run time here is the time of a reduce task whose input is all there.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._held: dict[tuple[str, int], list[tuple[Container, int]]] = {}
        """By job and unfinished parent: containers in the order of their grants, each with its earliest start."""

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether any stage has an edge of kind share."""
        return any(
            edge.kind == "share"
            for source in engine.workload.jobs
            for stage in source.job.stages
            for edge in stage.ties
        )

    def granted(self, container: Container, at: int) -> int:
        """Hold the container while a parent behind a share has tasks left."""
        job, stage = container.master, container.stage
        for edge in job.source.job.stages[stage].ties if stage != job.master_stage else ():
            if edge.kind == "share" and job.tasks_left[edge.parent]:
                self._held.setdefault((job.name, edge.parent), []).append((container, at))
                return HELD
        return at

    def stage_over(self, job: Master, stage: int) -> None:
        """Start the tasks that waited for the stage."""
        calendar = self.engine.calendar
        for container, at in self._held.pop((job.name, stage), ()):
            start = self.granted(container, max(at, calendar.now))
            if start != HELD:
                calendar.at(start, START, container.container, self.engine.started, container)
