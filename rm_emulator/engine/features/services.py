"""Services: jobs without an end of their own. The run ends with the last batch job."""

from __future__ import annotations

from rm_emulator.engine import containers
from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine


class ServicesFeature(Feature):
    """Jobs with tasks that run until the end of the run, or until somebody ends a task."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._running = 0

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether the workload has services."""
        return any(source.job.kind != "batch" for source in engine.workload.jobs)

    def started(self, container: Container) -> bool:
        """Note the start of a service's task, without a foreseen end."""
        job = container.master
        if not job.is_service:
            return False
        self._running += 1
        if container.stage == job.master_stage:
            return False  # an application master's own container: the profile handles its start
        job.note_start(container, self.engine.calendar.now)
        return True

    def removed(self, container: Container) -> None:
        """Count the work of a service's task up to now."""
        if container.master.is_service and container.started_ms is not None:
            self._running -= 1
            # A service has no run time of its own: the work is the time in its containers.
            container.master.work_ms += self.engine.calendar.now - container.started_ms

    def endless_containers(self) -> int:
        """Number of running tasks of services."""
        return self._running

    def job_over(self) -> None:
        """End the run with the last batch job."""
        # Up to a given time services go on alone; without a time the run would never end.
        if self.engine.until is None and not self.engine.arrivals.batch_left:
            self.engine.calendar.stop()

    def finish(self) -> None:
        """Record the running tasks of services with their end now."""
        engine = self.engine
        engine.end_ms = engine.calendar.now if engine.until is None else engine.until
        for container in engine.containers.values():
            if container.master.is_service and container.started_ms is not None:
                container.master.work_ms += engine.end_ms - container.started_ms
                container.ended_ms = engine.end_ms
                engine.record.task(container)
        if engine.until is None and not engine.arrivals.batch_left:
            # A list, since the loop removes jobs.
            for name in [name for name, job in engine.jobs.items() if job.is_service]:
                engine.record.job(containers.job_row(engine.jobs.pop(name), None))
