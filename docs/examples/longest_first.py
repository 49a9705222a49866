"""Serves the job with most work left first."""

from __future__ import annotations

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered


@policies.register("longest_first", source="LPT: Graham 1969, by estimated size")
class LongestFirst(Ordered, NeedsEstimates):
    """Serves the job with the largest estimated size; jobs of unknown size last, in order of submission."""

    def key(self, job: JobState, view: ClusterView) -> Key:
        """Largest first."""
        return (job.size_ms is None, -(job.size_ms or 0), job.seq)
