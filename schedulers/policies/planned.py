"""Plans made ahead by a heuristic for DAGs on unlike machines, and followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from schedulers.core import keyed
from schedulers.core.abilities import Copies, NeedsCopies
from schedulers.core.policy import ClusterView, policies
from schedulers.placers.deft import Deft
from schedulers.planning.unrelated.evolved import evolved
from schedulers.planning.unrelated.followed import Followed, Layout
from schedulers.planning.unrelated.planners import DEFTS, PLANNERS

if TYPE_CHECKING:
    from schedulers.planning.unrelated.timelines import TimelinePlan

#: Planners that copy tasks.
COPYING: Final = ("tds", "dfrn", "tdca", "ga", *DEFTS)


@policies.register("planned", source="heft, cpop: TPDS 2002; others: see docs/planning.md")
class PlannedAhead(Followed, NeedsCopies):
    """Lays out all jobs of the same instant as a single DAG by a planner, behind earlier work, and follows the plan.

    The planner (docs/planning.md) begins with idle nodes. Its tasks get turns in the lines of nodes of the placer
    `deft`, in the order of planned starts; later jobs are laid out by themselves and go behind the earlier lines. The
    policy needs a predictor; clusters with executors are refused.

    Each node is a machine, or as many machines as it can run of the largest task at once. Tasks to be assigned anew
    (after a failure, for example) are planned anew. A gang goes where all its tasks together end first.

    Planners that copy tasks (`tds`, `dfrn`, `tdca`, `ga`, `deft`, `deft_insertion`, `heft_copies`) do so where the
    scenario has `copies`, no task more often than `copies` allows. Without `copies` each task runs where the planner
    put it first, and the schedule of `tds`, `dfrn` and `tdca` takes longer than planned. With true run times, a single
    task per node and enough copies, the emulated schedule ends when the plan does.

    Each pair of tasks of two connected stages is an edge for the planner, so stages of hundreds of tasks make it slow.
    The placer `deft` plans whole stages and needs about 0.1 ms per task on 50 nodes. Where nodes beat (`yarn`, `sls`),
    each fact is laid out by itself. On Kubernetes the planners with copies are refused.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        planner: Annotated[
            Literal[
                "heft",
                "cpop",
                "dls",
                "peft",
                "etf",
                "tds",
                "dfrn",
                "tdca",
                "ga",
                "deft",
                "deft_insertion",
                "heft_copies",
            ],
            msgspec.Meta(description="planner of the layout; those from `tds` on copy tasks"),
        ] = "heft"
        plans: Annotated[int, msgspec.Meta(ge=1, description="number of plans that `ga` makes; others make one")] = 64

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, Deft(Deft.Params()), seed=seed)
        if params.planner not in COPYING:
            self.without = frozenset({Copies, NeedsCopies})

    def plan(self, layout: Layout, most: int, view: ClusterView) -> TimelinePlan:
        """See Followed."""
        planner = self.params.planner
        if planner == "ga":
            random = keyed.generator(self.seed, "plans", view.now, layout.items[0].job.id)
            return evolved(layout.instance, self.params.plans, random, runs=most)
        return DEFTS[planner](layout.instance, runs=most) if planner in DEFTS else PLANNERS[planner](layout.instance)
