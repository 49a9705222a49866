"""Decima: a graph neural network, trained by reinforcement, chooses the next stage and the width of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.policy import ClusterView, policies
from schedulers.learned import model_store
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Doubles, Graph
from schedulers.learned.last_choices import LastChoices
from schedulers.learned.network import Network, Scores, best_of, log_probabilities

if TYPE_CHECKING:
    from schedulers.core.state import JobState


@policies.register("decima", source="Decima (SIGCOMM'19), sections 5.1 and 5.2; trained here")
class Decima(Dispatch):
    """A trained graph neural network chooses the next stage, and how many executors its job may have at most."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        weights: Annotated[
            str,
            msgspec.Meta(
                description="`decima`: those that ship, for executors that outlive tasks or containers that do not; "
                "or the name of a file of weights among the plug-ins without its ending"
            ),
        ] = "decima"
        objective: Annotated[
            Literal["mean_jct", "makespan"],
            msgspec.Meta(
                description="what the weights that ship were trained to minimise; `weights` of your own: leave it"
            ),
        ] = "mean_jct"
        sample: Annotated[
            bool, msgspec.Meta(description="draw by the network's probabilities, as in training; else take the best")
        ] = False

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        name = _named(params)
        self._use(name)
        self._is_open = name == "decima"  # until it is known what becomes of executors

    def _use(self, weights: str) -> None:
        self._network = Network(model_store.weights_of(weights, "decima"))
        self._last_choices = LastChoices(self._network.weights)

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        if self._is_open:
            self._is_open = False
            if not graph.outlive:
                self._use("containers")
        scores = self._network.scores(graph)
        best = self._pick(scores.stages, "stage")
        job, row = int(scores.jobs[best]), int(scores.rows[best])
        limits, values = self._network.limits(graph, job)
        limit = limits[self._pick(values, "limit")]
        self._remember(view, graph, scores, best, limit)
        classes, values = self._network.classes(graph, job, row)
        return Action(job, row, limit, classes[self._pick(values, "class")] if classes else None)

    def about(self, job: JobState) -> dict[str, Any]:
        """The network's sayings at the job's last turn."""
        return self._last_choices.about(job.id)

    def _pick(self, scores: Doubles, purpose: str) -> int:
        """The best, of equals the first; or by chance."""
        if not self.params.sample:
            return best_of(scores)
        chances = np.cumsum(np.exp(log_probabilities(scores)))
        drawn = keyed.uniform(self.seed, f"decima {purpose}", self.question_count) * chances[-1]
        return int(np.searchsorted(chances, drawn, side="right"))

    def _remember(self, view: ClusterView, graph: Graph, scores: Scores, best: int, limit: int) -> None:
        def place(index: int) -> tuple[str, int]:
            job = graph.jobs[scores.jobs[index]]
            return job.name, int(job.stages[scores.rows[index]])

        self._last_choices.remember(view, scores.stages, best, place, graph.amounts, f"; limit {limit}")


def _named(params: Decima.Params) -> str:
    """Name of the weights. Raises InvalidParameters for an objective together with weights of the user's own."""
    if params.objective == "mean_jct":
        return params.weights
    if params.weights != "decima":
        raise InvalidParameters("objective: it chooses among the weights that ship; leave it out beside `weights`")
    return params.objective
