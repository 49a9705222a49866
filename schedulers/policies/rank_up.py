"""Highest upward rank first."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core.policy import policies
from schedulers.kit.ranked import Ranked
from schedulers.planning.unrelated.ranks import rank_up


@policies.register(
    "rank_up", source="HEFT (TPDS 2002), section 3.2, over all jobs: LACHESIS (arXiv 2103.06980), HighRankUp"
)
class RankUp(Ranked):
    """Serves the stage furthest from the end of its job, over all jobs, by time and transfers.

    The distance is HEFT's upward rank: the longest path of run times and transfers to the output. A stage without an
    estimate adds nothing to a path. The policy needs a predictor; with `placement: {kind: deft}` LACHESIS calls the
    pair HighRankUp-DEFT.
    """

    def ranks(self, times: Sequence[float], edges: Sequence[tuple[int, int, float]]) -> list[float]:
        """See Ranked.ranks."""
        return rank_up(times, edges)
