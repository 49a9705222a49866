"""Application masters that run without an end of their own: each waits for the last task of its job."""

from __future__ import annotations

from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine


class WaitingMasters(Feature):
    """Masters in containers whose jobs may never get a task: the run has stalled though these containers run on."""

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether masters have containers, and end by their jobs alone."""
        faults = engine.config.faults
        fail = faults is not None and faults.masters is not None and faults.masters.per_hour > 0
        return not fail and any(job.am for job in engine.workload.jobs)

    def endless_containers(self) -> int:
        """Number of running masters of batch jobs; those of services count with their tasks."""
        # Counted anew: a master ends in many ways, and the number matters only when nothing else is to come.
        containers, masters = self.engine.containers, (job.container for job in self.engine.jobs.values())
        return sum(
            master is not None
            and not master.has_ended
            and containers.get(master.container) is master
            and not master.master.is_service
            for master in masters
        )
