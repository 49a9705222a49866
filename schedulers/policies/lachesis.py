"""LACHESIS: a graph neural network, trained by reinforcement, chooses the next stage; DEFT chooses the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from schedulers.core.policy import ClusterView, policies
from schedulers.learned import model_store
from schedulers.learned.last_choices import LastChoices
from schedulers.learned.network import best_of
from schedulers.learned.next_stage import NextStage
from schedulers.learned.order_network import OrderNetwork
from schedulers.learned.routes import RouteChoices

if TYPE_CHECKING:
    from schedulers.core.state import JobState


@policies.register("lachesis", source="LACHESIS (arXiv 2103.06980), section IV; trained here")
class Lachesis(NextStage):
    """A trained graph neural network chooses the next stage; placement `deft` gives its tasks to nodes.

    On different machines the order of stages is learned, the node is not: with `placement: {kind: deft}` (LACHESIS's
    DEFT) each task waits for the node with the earliest end; without it the tasks of the stage go to any node with
    room. The policy needs a predictor.

    The network is asked once for each stage whose tasks may be assigned: when jobs come and when tasks end, while any
    such stage is left. All tasks of the stage then get their nodes.

    **Features** (`schedulers/learned/routes.py`). From the paper: of a job its unassigned tasks and their work; of a
    stage its time, the average data in and out, upward and downward rank; of an edge its transfer. Ours: age, number
    of jobs, work per executor. Times are parts of the longest way through the job, and of the longest way left in any
    job, so that different sizes, speeds and rates look alike.

    **Network.** Three times a stage receives messages from its children about them and their transfers (equation 7),
    always by the same two transforms; a job is therefore computed once, when it comes. The mean over the stages left
    stands for the job, the mean over jobs for all jobs. A head with layers of 32, 16 and 8 scores the stages. In
    training a further head, the critic, expects the time to go. The paper gives no width of its layers; the widths
    here are 8 and 16.

    **Quality.** The weights that ship are a clone of the rule `longest_job` (the job with the longest way through it
    first); neither PPO nor evolution strategies improved on the clone. Makespans are level with the teacher's and with
    those of `rank_up` (docs/results-lachesis.md). The 7 to 27 % of the paper are not reached by an order alone; with
    `wait` in the placement 20 jobs at once end 4 % sooner, also with estimates wrong by half (docs/results-waiting.md).

    `explain` says: "stage s8 scored 3.1 against 2.6 for stage s2 of job tpch-3". A network with more jobs, stages in a
    job or executors than in its training says so once, there. Other weights are a file among the plug-ins; weights of
    `decima` are refused.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        weights: Annotated[
            str,
            msgspec.Meta(
                description="name of the network: `lachesis` ships; others are files of weights among the plug-ins, "
                "named without their ending"
            ),
        ] = "lachesis"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._network = OrderNetwork(model_store.weights_of(params.weights, "lachesis"))
        self._last_choices = LastChoices(self._network.weights)

    def choose(self, choices: RouteChoices, view: ClusterView) -> int:
        """See NextStage."""
        scores = self._network.scores(choices)
        rows = np.flatnonzero(choices.valid)
        best = best_of(scores)
        self._remember(view, choices, rows, scores, best)
        return int(rows[best])

    def about(self, job: JobState) -> dict[str, Any]:
        """The network's sayings at the job's last turn."""
        return self._last_choices.about(job.id)

    def _remember(
        self, view: ClusterView, choices: RouteChoices, rows: np.ndarray, scores: np.ndarray, best: int
    ) -> None:
        def place(index: int) -> tuple[str, int]:
            job, stage = choices.place(int(rows[index]))
            return choices.routes[job].name, stage

        self._last_choices.remember(view, scores, best, place, choices.amounts)
