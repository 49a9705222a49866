"""Architecture `central`, where the one scheduler takes its time."""

from __future__ import annotations

from rm_emulator.engine.config import Central as Settings
from rm_emulator.engine.config import Thinker
from rm_emulator.engine.profile import architectures
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.thinking import Thinking, ThinkingScheduler


@architectures.register("central", source="Omega (EuroSys 2013), section 3.1")
class Central(Thinking):
    """Omega's monolithic scheduler (Schwarzkopf et al., EuroSys 2013, section 3.1): one queue, and nobody else.

    With one path it thinks about all jobs alike, with several about each kind for a time of its own. It hears of all
    that happens while it thinks, so what it places is placed on the cluster as it is then.
    """

    hears = True
    settings: Settings

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        self._paths = {source.job.id: self.settings.path(source.job) for source in engine.workload.jobs}

    @property
    def thinkers(self) -> tuple[Thinker, ...]:
        """See Thinking."""
        return (Thinker(name="all"),)

    def think_ms(self, scheduler: ThinkingScheduler, job: str) -> int:
        """See Thinking."""
        path = self._paths[job]
        return path.t_job_ms + path.t_task_ms * scheduler.asked
