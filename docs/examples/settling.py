"""First come, first served, each job after a pause: a policy that refuses what it would take later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState, StageState
from schedulers.kit.ordered import Key, Ordered


@policies.register("settling", source="an example")
class Settling(Ordered):
    """Serves jobs in order of submission, none before its user has had time to think better of it."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        pause_s: Annotated[float, msgspec.Meta(ge=0, description="so long after its submission a job may start")] = 5.0

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """By submission: whether a job may start yet is no matter of its place in the order."""
        return (job.seq,)

    def stages(self, job: JobState, view: ClusterView) -> Iterable[StageState]:
        """None while the job has to settle."""
        return job.open_stages() if self._begin(job) <= view.now else ()

    def next_change(self, view: ClusterView) -> int | None:
        """When the next job has settled."""
        return min((at for job in view.waiting.values() if (at := self._begin(job)) > view.now), default=None)

    def _begin(self, job: JobState) -> int:
        return job.submitted + round(1000 * self.params.pause_s)
