"""Architecture `central`, where the one scheduler takes its time."""

from __future__ import annotations

from rm_emulator.engine.config import Central as Settings
from rm_emulator.engine.config import Thinker
from rm_emulator.engine.profile import architectures
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.thinking import ThinkingProfile, ThinkingScheduler


@architectures.register("central", source="Omega (EuroSys 2013), section 3.1")
class CentralProfile(ThinkingProfile):
    """Omega's monolithic scheduler (Schwarzkopf et al., EuroSys 2013, section 3.1): a single scheduler with one queue.

    With one path all jobs have the same think times, with several paths each kind of job has its own. The scheduler
    hears of all facts during an attempt, and places tasks on the cluster as of the attempt's end.
    """

    hears_ends = True
    settings: Settings

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        # Looked up once for each job: a path is asked for in each attempt.
        self._paths = {source.job.id: self.settings.path(source.job) for source in engine.workload.jobs}

    @property
    def thinkers(self) -> tuple[Thinker, ...]:
        """The only scheduler."""
        return (Thinker(name="all"),)

    def think_ms(self, scheduler: ThinkingScheduler, job: str) -> int:
        """Think time by the path of the job, ms."""
        path = self._paths[job]
        return path.t_job_ms + path.t_task_ms * scheduler.tasks_asked
