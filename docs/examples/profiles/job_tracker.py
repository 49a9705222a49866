"""Profile `job_tracker`."""

from __future__ import annotations

from rm_emulator.engine.beats import Beats
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.profile import Profile


class JobTracker(Beats):
    """Hadoop 1: one JobTracker knows all jobs, and its answer to a TaskTracker's heartbeat starts tasks there.

    Source: hadoop-mapred 1.2, JobTracker.heartbeat and TaskTracker.offerService, with
    mapreduce.tasktracker.outofband.heartbeat off, as it is by default: an end is told by the node's next heartbeat.
    """

    asks = "all"
    has_masters = False

    def arrived(self, job: Master) -> None:
        """See Profile. The JobTracker itself knows what the job needs: nobody has to ask."""

    def stage_ended(self, job: Master, stage: int) -> None:
        """See Profile. The next stages were asked for on arrival; the core opens them."""

    def launch(self, container: Container) -> int:
        """See Profile. The task is in the answer to the heartbeat."""
        return Profile.launch(self, container)

    def ended(self, container: Container) -> bool:
        """See Profile. The next beat of its node reports it."""
        self.report_later(container)
        return True

    def report(self, container: Container) -> None:
        """See Beats. The JobTracker counts the job's tasks and decides in one: both hear of it now."""
        self.engine.count(container)
        super().report(container)
