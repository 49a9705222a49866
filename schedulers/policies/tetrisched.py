"""TetriSched: wishes planned ahead in space and time, all pending jobs anew in each cycle."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import policies
from schedulers.planning.rayon.calendar import Calendar
from schedulers.planning.tetrisched.policy import PlanAheadPolicy, PlanAheadSettings


@policies.register("tetrisched", source="TetriSched (EuroSys'16)")
class TetriSched(PlanAheadPolicy, NeedsEstimates):
    """Starts the tasks due now by the best plan for all pending jobs together; each cycle plans anew.

    The plan covers the wishes and deadlines of all pending jobs over the next `plan_ahead_s` seconds. The policy needs
    a predictor and is worth its cost for jobs with wishes or deadlines; docs/wishes.md explains wishes, plans and
    values. Clusters with executors are refused.

    Weights of queues are not followed; the core keeps limits of queues when a task starts. Under `yarn` and `sls` a
    gang starts on a single node at a time.

    Ablations of the paper: `preferences: none` (no heterogeneity), `search: one_by_one` (no global plan),
    `plan_ahead_s: 0` (only free room now).
    """

    class Params(PlanAheadSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        plan_ahead_s: Annotated[
            float,
            msgspec.Meta(
                ge=0,
                description="horizon of planned starts, in s, at most 256 cycles; larger: later starts count, slower "
                "plans; 0: only starts now",
            ),
        ] = 96.0
        admission: Annotated[
            Literal["plan", "calendar"],
            msgspec.Meta(
                description="what accepts deadlines, which go before others: a plan that keeps the deadline (plan), or "
                "Rayon's calendar when the job is first planned (calendar)"
            ),
        ] = "plan"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        if params.admission == "calendar":
            self._calendar = Calendar()

    @classmethod
    def ahead_ms(cls, params: Any) -> int | None:
        """See Leasing.ahead_ms."""
        ahead: float = params.plan_ahead_s
        return round(1000 * ahead)
