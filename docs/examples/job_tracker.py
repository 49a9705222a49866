"""Hadoop 1's JobTracker: a profile from outside the tree, with a setting."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rm_emulator.engine.beats import Beats
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.profile import Profile, profiles


@profiles.register("job_tracker", source="hadoop-mapred 1.2: JobTracker.heartbeat, TaskTracker.offerService")
class JobTracker(Beats):
    """Hadoop 1: one JobTracker knows all jobs, and its answer to a TaskTracker's heartbeat starts tasks there.

    An end is told by the node's next heartbeat, or at once by one out of band.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        out_of_band: Annotated[
            bool,
            msgspec.Meta(
                description="a node beats at once when a task ends there: mapreduce.tasktracker.outofband.heartbeat"
            ),
        ] = False

    params: Params

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
        """See Profile. A beat of its node reports it: the next, or one that comes at once."""
        self.report_later(container)
        if self.params.out_of_band:
            self.ring.beat_now(container.index)
        return True

    def report(self, container: Container) -> None:
        """See Beats. The JobTracker counts the job's tasks and decides in one: both hear of it now."""
        self.engine.count(container)
        super().report(container)
