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
        self._held: dict[str, dict[int, list[tuple[Container, int]]]] = {}
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
        """Hold the container until the scheduler has heard the last end of each parent behind a share."""
        job, stage = container.master, container.stage
        for edge in job.source.job.stages[stage].ties if stage != job.master_stage else ():
            if edge.kind == "share" and not _is_over(job, edge.parent):
                self._held.setdefault(job.name, {}).setdefault(edge.parent, []).append((container, at))
                return HELD
        return at

    def begins_anew(self, job: Master) -> None:
        """Hold nothing of the job any more."""
        self._held.pop(job.name, None)

    def end_heard(self, job: Master) -> None:
        """Start the tasks whose last parent has ended."""
        calendar, held = self.engine.calendar, self._held.get(job.name)
        if held is None:
            return
        for parent in [parent for parent in held if _is_over(job, parent)]:
            for container, at in held.pop(parent):
                start = self.granted(container, max(at, calendar.now))
                if start != HELD:
                    calendar.at(start, START, container.container, self.engine.started, container)
        if not held:
            del self._held[job.name]


def _is_over(job: Master, stage: int) -> bool:
    # By the scheduler's books and not by the master's: in the former no stage ends before its parents.
    state = job.state.stages[stage]
    return state.finished == state.tasks
