"""Breadth first: jobs as they came, inside a job the stages nearest to the input first (Tez on YARN)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState, StageState
from schedulers.kit.ordered import Key, Ordered, TieParams
from schedulers.kit.paths import breadth_first


@policies.register("bfs", source="Graphene (OSDI'16), baseline BFS: Tez over the order of one Capacity Scheduler queue")
class BreadthFirst(Ordered):
    """Serves jobs in order of submission, inside a job the stages with the fewest stages before them first.

    The policy needs no estimates. The order is Graphene's baseline BFS: Tez over the order of a single queue of the
    Capacity Scheduler.
    """

    bundles = True
    order_is_stable = True

    Params = TieParams
    params: TieParams

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return (job.submitted, view.tie(job, self.params.tie))

    def arrange(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Iterable[StageState]:
        """See Ordered.arrange."""
        return breadth_first(job, stages)
