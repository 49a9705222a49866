"""Plans made ahead by a heuristic for DAGs on unlike machines, and followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from schedulers.core.abilities import Copies, NeedsCopies
from schedulers.core.policy import ClusterView, policies
from schedulers.placers.deft import Deft
from schedulers.planning.unrelated.followed import Followed, Layout
from schedulers.planning.unrelated.planners import PLANNERS

if TYPE_CHECKING:
    from schedulers.planning.unrelated.timelines import TimelinePlan

#: Planners that copy tasks.
COPYING: Final = ("dfrn", "tdca", "tds")


@policies.register("planned", source="heft, cpop: TPDS 2002; dls, etf, peft, tds, dfrn, tdca: see docs/planning.md")
class PlannedAhead(Followed, NeedsCopies):
    """Lays out all jobs of the same instant as a single DAG by a planner, behind earlier work, and follows the plan.

    Each node is a machine, or as many machines as it can run of the largest task at once. Tasks to be assigned anew
    (after a failure, say) are planned anew. Planners with copies of tasks make copies where copies are on.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        planner: Annotated[
            Literal["heft", "cpop", "dls", "peft", "etf", "tds", "dfrn", "tdca"],
            msgspec.Meta(description="the heuristic that lays tasks out; tds, dfrn and tdca copy tasks"),
        ] = "heft"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, Deft(Deft.Params()), seed=seed)
        if params.planner not in COPYING:
            self.without = frozenset({Copies, NeedsCopies})

    def plan(self, layout: Layout, most: int, view: ClusterView) -> TimelinePlan:
        """See Followed."""
        return PLANNERS[self.params.planner](layout.instance)
