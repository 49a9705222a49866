"""First in, first out."""

from __future__ import annotations

from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, TieParams
from schedulers.kit.partition import Partitioned


@policies.register("fifo", source="SLearn, section 6.1 (FIFO); Hadoop's first scheduler")
class Fifo(Partitioned):
    """Serves jobs in order of submission; later jobs use the room of no use to the first.

    Executors stay with their job until the job has nothing more to start (Decima, section 7.1: Spark's default).
    """

    bundles = True
    order_is_stable = True
    limits = False

    Params = TieParams
    params: TieParams

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return (job.submitted, view.tie(job, self.params.tie))
