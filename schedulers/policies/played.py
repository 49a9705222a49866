"""Plans played forward many times over: the shortest plan is followed until more jobs come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np

from schedulers.core import keyed
from schedulers.core.abilities import Copies
from schedulers.core.policy import ClusterView, policies
from schedulers.kit.partition import executors_of
from schedulers.learned import model_store
from schedulers.learned.order_network import OrderNetwork
from schedulers.learned.routes import RouteChoices, Routes
from schedulers.learned.stage_orders import ups
from schedulers.placers.deft import Deft
from schedulers.planning.unrelated.followed import Followed, Layout
from schedulers.planning.unrelated.played import played

if TYPE_CHECKING:
    from schedulers.core.events import Event
    from schedulers.core.state import StageState
    from schedulers.planning.unrelated.timelines import TimelinePlan

#: The order without a network.
RANK_UP: Final = "rank_up"
#: Factors of a network's scores, and of logarithms of upward ranks: the noise of plays always has the same size.
_NETWORK: Final = 0.1
_RANKS: Final = 1 / 0.3


@policies.register("played", source="ours, on LACHESIS's DEFT; beyond list schedules: WeCAN (arXiv 2603.23249)")
class Played(Followed, Copies):
    """Lays out all jobs of the same instant by the shortest of many plans, all played forward on estimates.

    DEFT sends each task in turn to the node with the earliest end. This policy plays DEFT many times before anything
    starts, each time with a small change, and follows the shortest plan as `planned` does: all jobs of an instant as a
    single DAG, behind earlier work. The policy needs a predictor; clusters with executors are refused.

    - The first play goes by the scores of a single pass through LACHESIS's network over all stages, or by upward ranks
      (`order`).
    - A third of the other plays change the order: Gumbel noise on the scores draws another order, as if task after
      task were drawn, or some tasks of the best order so far are moved.
    - The remaining plays pin tasks: some tasks on the path to the end, with their parents, to a fast node or a node of
      their parents. A pinned task leaves other nodes idle that are free sooner, so the plan may be beyond every order
      (compare skips in WeCAN, arXiv 2603.23249).
    - A play that must come out longer than the best so far ends early.

    64 plays take a quarter of a second for 20 of LACHESIS's jobs at once, 0.7 s for 60 jobs, and little for a single
    job. For stages of hundreds of tasks the placer `deft` is the better choice. Where nodes beat, each fact is laid
    out by itself. Copies are made where the scenario has `copies`, but not on Kubernetes. docs/results-lachesis.md has
    the measured gains, which estimates wrong by up to half undo.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        plays: Annotated[
            int,
            msgspec.Meta(
                ge=1,
                description="number of plans played; larger: shorter plans, more time; 1: DEFT's plan in the given "
                "order",
            ),
        ] = 64
        order: Annotated[
            str,
            msgspec.Meta(
                description="order of the first play: `rank_up`, `lachesis`, or a file of weights among the plug-ins, "
                "named without its ending"
            ),
        ] = "lachesis"
        pins: Annotated[
            bool,
            msgspec.Meta(
                description="pinning of tasks to a node although other nodes are free sooner; false: plays differ in "
                "their orders only"
            ),
        ] = True

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, Deft(Deft.Params()), seed=seed)
        self._network = (
            None if params.order == RANK_UP else OrderNetwork(model_store.weights_of(params.order, "lachesis"))
        )
        self._routes = Routes()

    def observe(self, event: Event, view: ClusterView) -> None:
        """With other nodes all ways are others."""
        self._routes.lengths.observe(event)
        super().observe(event, view)

    def plan(self, layout: Layout, most: int, view: ClusterView) -> TimelinePlan:
        """See Followed."""
        random = keyed.generator(self.seed, "plays", view.now, layout.items[0].job.id)
        worth = self._worth(layout, view)
        return played(layout.instance, worth, self.params.plays, random, runs=most, pins=self.params.pins)

    def _worth(self, layout: Layout, view: ClusterView) -> list[float]:
        """Per item, the highest first."""
        self._routes.refresh(view, self.node_queues.by_stage)
        able: dict[str, dict[int, StageState]] = {}
        for job, stage, _ in layout.items:
            able.setdefault(job.id, {})[stage.index] = stage
        sizes = {item.stage.size: item.stage.demand for item in layout.items}
        stages = {name: tuple(of_job.values()) for name, of_job in able.items()}
        choices = self._routes.choices(view, stages, executors_of(view, sizes.values()))
        rows = np.flatnonzero(choices.valid).tolist()
        places = [choices.place(row) for row in rows]
        scores = dict(zip(((choices.routes[j].name, s) for j, s in places), self._scores(choices), strict=True))
        return [scores[item.job.id, item.stage.index] for item in layout.items]

    def _scores(self, choices: RouteChoices) -> list[float]:
        if self._network is not None:
            found: list[float] = (_NETWORK * self._network.scores(choices)).tolist()
            return found
        ranks = ups(choices)[choices.valid]
        logarithms: list[float] = (_RANKS * np.log(np.maximum(ranks, 1e-9))).tolist()
        return logarithms
