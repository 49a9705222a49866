"""Shortest job first. Starves long jobs by design."""

from __future__ import annotations

import math

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered, TieParams


@policies.register("sjf", source="textbook; size = estimated total work (Decima, section 7.1)")
class ShortestJobFirst(Ordered, NeedsEstimates):
    """Serves the job with the least estimated total work first; jobs without an estimate come last.

    Total work is the estimated task run time times the number of tasks, summed over stages. The policy needs a
    predictor. Long jobs starve by design while shorter jobs keep coming.
    """

    bundles = True
    order_is_stable = True

    Params = TieParams
    params: TieParams

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        size = math.inf if job.size_ms is None else job.size_ms
        return (size, view.tie(job, self.params.tie))
