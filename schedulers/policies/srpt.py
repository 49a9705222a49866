"""Shortest remaining processing time, by estimate."""

from __future__ import annotations

import math

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered, TieParams


@policies.register("srpt", source="Schrage 1968; remaining work = estimate x unfinished tasks")
class ShortestRemaining(Ordered, NeedsEstimates):
    """Serves the job with the least estimated work left first; jobs without an estimate come last.

    Work left is the estimated task run time times the number of unfinished tasks, summed over stages. The policy needs
    a predictor. Long jobs may starve while shorter jobs keep coming.
    """

    bundles = True
    order_is_stable = True

    Params = TieParams
    params: TieParams

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        left = view.remaining_ms(job)
        return (math.inf if left is None else left, view.tie(job, self.params.tie))
