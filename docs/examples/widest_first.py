"""Serves the job with the most waiting tasks first: a policy from outside the tree."""

import msgspec

from schedulers.core.policy import ClusterView, TieSetting, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered


@policies.register("widest_first", source="an example")
class WidestFirst(Ordered):
    """Serves the job with the most waiting tasks first."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        tie: TieSetting = "submit"

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """Smaller goes first."""
        return (-job.waiting, view.tie(job, self.params.tie))
