"""Profile `sls`."""

from __future__ import annotations

from rm_emulator.engine.beats import Beats
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.profile import profiles
from rm_emulator.engine.simulation import Simulation


@profiles.register("sls", source="hadoop-sls 3.3: NMSimulator, AMSimulator")
class Sls(Beats):
    """YARN's Scheduler Load Simulator: nodes and application masters act at their ticks and at no other time.

    Source: hadoop-sls 3.3, NMSimulator and AMSimulator; measured on real runs: a master takes what it hears at one tick
    and acts on it at the next. A node registers in its first turn and beats from the second on (NMSimulator.firstStep).
    """

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine, answer_ms=engine.config.am_heartbeat_ms, begin_ms=engine.config.heartbeat_ms)

    def arrived(self, job: Master) -> None:
        """See Profile. A master without a container of its own asks in its first call."""
        super().arrived(job)
        if not job.source.am:
            self.masters.ask(job, job.roots, self.masters.call(job))

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """See Profile. It acts one interval after it has heard."""
        return super().usual_launch_ms(config) + config.am_heartbeat_ms

    def ended(self, container: Container) -> bool:
        """See Profile. The next beat of its node reports it."""
        self.report_later(container)
        return True

    def report(self, container: Container) -> None:
        """See Beats. Only now does the application master hear of it."""
        if container is not container.master.container:
            self.engine.count(container)
        super().report(container)
