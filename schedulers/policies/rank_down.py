"""Highest downward rank first."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core.policy import policies
from schedulers.kit.ranked import Ranked
from schedulers.planning.unrelated.ranks import rank_down


@policies.register("rank_down", source="HEFT (TPDS 2002), section 3.2; over all jobs, as LACHESIS (arXiv 2103.06980)")
class RankDown(Ranked):
    """Serves the stage furthest from the beginning of its job, over all jobs, by time and transfers.

    The distance is HEFT's downward rank: the longest path of run times and transfers from the input. Jobs near their
    end are therefore finished first. A stage without an estimate adds nothing to a path. The policy needs a predictor.
    """

    def ranks(self, times: Sequence[float], edges: Sequence[tuple[int, int, float]]) -> list[float]:
        """See Ranked.ranks."""
        return rank_down(times, edges)
