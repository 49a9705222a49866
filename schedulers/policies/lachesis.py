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
    """A trained graph neural network chooses the next stage; placement `deft` gives its tasks to nodes."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        weights: Annotated[
            str,
            msgspec.Meta(
                description="`lachesis`, or the name of a file of weights among the plug-ins without its ending"
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
