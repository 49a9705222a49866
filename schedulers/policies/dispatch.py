"""Simple rules in the place of learned policies: their teachers and baselines."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, policies
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph
from schedulers.learned.orders import RULES


@policies.register("dispatch", source="Decima (SIGCOMM'19), sections 5.2 and 7.1; decima-sim's action")
class RuledDispatch(Dispatch, NeedsEstimates):
    """A simple rule with Decima's kind of answer: the stage to get executors, and a limit on its job's executors."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        rule: Annotated[
            Literal["capped_sjf", "fair", "priced", "proportional", "random"],
            msgspec.Meta(
                description="who answers: the policy `capped_sjf`, Decima's fair, the shortest job first with a price "
                "on executors, a share by the work that is left (for the makespan), or chance"
            ),
        ] = "capped_sjf"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        if params.rule in ("fair", "random"):
            self.without = frozenset({NeedsEstimates})

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        return RULES[self.params.rule](graph, view, self.question_count)
