"""Profile `kubernetes`."""

from __future__ import annotations

from rm_emulator.engine.calendar import ASK
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.cycles import Cycles
from rm_emulator.engine.pods import Pods
from rm_emulator.engine.simulation import Simulation
from schedulers.core.events import JobChanged


class Kubernetes(Cycles):
    """This project's operators on Kubernetes: pods that are created, released, bound and watched; cycles that decide.

    Source: measured on a devcluster of two cores (docs/kubernetes.md); the delays are settings, see
    `rm_emulator.engine.config.Kubernetes`.
    """

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine, gather_ms=engine.config.kubernetes.cycle_ms)
        self._pods = Pods(engine.config.kubernetes, engine.seed)

    def arrived(self, job: Master) -> None:
        """See Profile. The controllers create the pods of the first stages."""
        for stage in job.roots:
            self._create_pods(job, stage)

    def stage_ended(self, job: Master, stage: int) -> None:
        """See Profile. The controllers create the pods of the next stages."""
        for child in job.opened(stage):
            self._create_pods(job, child)

    def _create_pods(self, job: Master, stage: int) -> None:
        """A stage may start once all its pods have been seen."""
        at = self._pods.created(self.engine.calendar.now, job.source.job.stages[stage].tasks)
        self.engine.later(at, ASK, job.number, self._ask, (job, stage))

    def _ask(self, created: tuple[Master, int]) -> None:
        job, stage = created
        self.engine.tell(JobChanged(self.engine.calendar.now, job.name, (stage,)))

    def launch(self, container: Container) -> int:
        """See Profile. When its pod has been released, and seen running."""
        return self._pods.released(self.engine.calendar.now)

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """See Profile. Without the wait of many releases at once."""
        return config.kubernetes.start_ms + config.kubernetes.seen_ms

    def runs(self, runtime: int) -> int:
        """See Profile."""
        return self._pods.runs(self.engine.calendar.now, runtime)
