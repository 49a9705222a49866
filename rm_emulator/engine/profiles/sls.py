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

    Source: hadoop-sls 3.3, NMSimulator and AMSimulator; measured on real runs: a master acts at a tick on the news
    of the tick before. A node registers in its first turn and beats from the second on (NMSimulator.firstStep).
    """

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine, answer_ms=engine.config.am_heartbeat_ms, begin_ms=engine.config.heartbeat_ms)

    def arrived(self, job: Master) -> None:
        """Let a master without a container of its own ask in its first call."""
        super().arrived(job)
        if not job.source.am:
            self.masters.ask(job, job.root_stages, self.masters.call(job))

    @classmethod
    def usual_launch_ms(cls, config: EngineConfig) -> float:
        """One interval more: a master acts an interval after its news."""
        return super().usual_launch_ms(config) + config.am_heartbeat_ms

    def ended(self, container: Container) -> bool:
        """Leave the report to the next beat of the node."""
        self.report_later(container)
        return True

    def report(self, container: Container) -> None:
        """Report an end; only now the application master counts the task."""
        if container is not container.master.container:
            self.engine.count(container)
        super().report(container)
