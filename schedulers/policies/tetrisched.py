"""TetriSched: wishes planned ahead in space and time, all pending jobs anew in each cycle."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import policies
from schedulers.planning.tetrisched.policy import PlanAheadPolicy, PlanAheadSettings


@policies.register("tetrisched", source="TetriSched (EuroSys'16)")
class TetriSched(PlanAheadPolicy, NeedsEstimates):
    """Starts the tasks due now by the best plan for all pending jobs together; each cycle plans anew.

    Its ablations: `preferences: none` (no heterogeneity), `search: one_by_one` (no global plan), `plan_ahead_s: 0`.
    """

    class Params(PlanAheadSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        plan_ahead_s: Annotated[
            float, msgspec.Meta(ge=0, description="starts are planned so far ahead; 0: only what starts now")
        ] = 96.0

    params: Params

    @classmethod
    def ahead_ms(cls, params: Any) -> int | None:
        """See Leasing.ahead_ms."""
        ahead: float = params.plan_ahead_s
        return round(1000 * ahead)
