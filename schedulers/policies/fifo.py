"""First in, first out."""

from __future__ import annotations

from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, TieParams
from schedulers.kit.partition import Partitioned


@policies.register("fifo", source="SLearn, section 5.1.3 (FIFO); Hadoop's first scheduler")
class Fifo(Partitioned):
    """Serves jobs in order of submission; later jobs get the room of no use to earlier jobs.

    The policy needs no estimates and follows no weights. A long job at the head delays every later job that needs the
    same room.

    On clusters with executors, an executor stays with its job until the job has nothing more to start, also while the
    job waits for a stage to end (Decima, section 7.1: Spark's default).
    """

    bundles = True
    order_is_stable = True
    limits = False

    Params = TieParams
    params: TieParams

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return (job.submitted, view.tie(job, self.params.tie))
