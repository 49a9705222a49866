"""Highest downward rank first."""

from __future__ import annotations

from collections.abc import Sequence

from schedulers.core.policy import policies
from schedulers.kit.ranked import Ranked
from schedulers.planning.unrelated.ranks import rank_down


@policies.register("rank_down", source="HEFT (TPDS 2002), section 3.2; over all jobs, as LACHESIS (arXiv 2103.06980)")
class RankDown(Ranked):
    """Serves the stage furthest from the beginning of its job, over all jobs, by time and transfers.

    So jobs near their end are done with first. A stage without an estimate adds nothing to a path.
    """

    def ranks(self, times: Sequence[float], edges: Sequence[tuple[int, int, float]]) -> list[float]:
        """See Ranked.ranks."""
        return rank_down(times, edges)
