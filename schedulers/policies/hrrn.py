"""Highest response ratio next: the longest wait for its size first. Starves nobody."""

from __future__ import annotations

import math

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, policies
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Ordered, TieParams


@policies.register("hrrn", source="Brinch Hansen 1971; a baseline of LACHESIS (arXiv 2103.06980, section 5)")
class HighestResponseRatio(Ordered, NeedsEstimates):
    """Serves the job with the highest (wait + service) / service first; jobs without an estimate come last.

    The wait is the time since the job's submission, the service its estimated total work. The ratio prefers short jobs
    and grows with the wait, so no job starves. The policy needs a predictor.

    LACHESIS writes wait / (wait + service), with the same order. Ratios grow at different rates, so waiting jobs are
    sorted anew whenever time has passed.
    """

    bundles = True
    order_is_stable = True

    Params = TieParams
    params: TieParams

    def __init__(self, params: TieParams, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._sorted_at: int | None = None

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key. The key holds for the present time alone."""
        wait, size = view.now - job.submitted, job.size_ms
        if size is None:
            return (math.inf, view.tie(job, self.params.tie))
        return (-wait / size if size else -math.inf, view.tie(job, self.params.tie))

    def _refresh(self, view: ClusterView) -> None:
        if self._sorted_at == view.now:
            super()._refresh(view)
            return
        self._sorted_at = view.now
        view.changed()
        self._sort(view)
