"""First in, first out."""

from __future__ import annotations

import msgspec

from schedulers.core.policy import ClusterView, TieSetting, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key
from schedulers.kit.partition import Partitioned


@policies.register("fifo", source="SLearn, section 6.1 (FIFO); Hadoop's first scheduler")
class Fifo(Partitioned):
    """Serves jobs in order of submission; later jobs use what the first cannot.

    With executors these stay with their job until it has nothing more to start (Decima, section 7.1: Spark's default).
    """

    bundles = True
    ahead = True
    limits = False

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        tie: TieSetting = "submit"

    params: Params

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return (job.submitted, view.tie(job, self.params.tie))
