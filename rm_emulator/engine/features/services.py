"""Services: jobs that do not end by themselves. With the last of the others the run ends."""

from __future__ import annotations

from rm_emulator.engine import containers
from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine


class Services(Feature):
    """Jobs whose tasks run until the run ends, or somebody ends them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._running = 0
        self._others = sum(1 for source in engine.workload.jobs if source.job.kind == "batch")

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """See Feature."""
        return any(source.job.kind != "batch" for source in engine.workload.jobs)

    def started(self, container: Container) -> bool:
        """See Feature."""
        job = container.master
        if not job.lasts:
            return False
        self._running += 1
        if container.stage == job.own_stage:
            return False  # an application master's own container, of which the profile knows more
        job.begin(container, self.engine.calendar.now)
        return True

    def left(self, container: Container) -> None:
        """See Feature."""
        if container.master.lasts and container.started_ms is not None:
            self._running -= 1
            container.master.work += self.engine.calendar.now - container.started_ms

    def lasting(self) -> int:
        """See Feature."""
        return self._running

    def job_over(self) -> None:
        """See Feature. With the last of the others the run ends."""
        self._others -= 1
        if not self._others and self.engine.until is None:
            self.engine.calendar.stop()

    def finish(self) -> None:
        """See Feature. What runs of services was there until now."""
        engine = self.engine
        engine.end_ms = engine.calendar.now if engine.until is None else engine.until
        for container in engine.containers.values():
            if container.master.lasts and container.started_ms is not None:
                container.master.work += engine.end_ms - container.started_ms
                container.ended_ms = engine.end_ms
                engine.record.task(container)
        if engine.until is None and not self._others:
            for name in [name for name, job in engine.jobs.items() if job.lasts]:
                engine.record.job(containers.result(engine.jobs.pop(name), None))
