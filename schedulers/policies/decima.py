"""Decima: a graph neural network, trained by reinforcement, says which stage comes next and how wide its job may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.policy import ClusterView, policies
from schedulers.learned import shelf
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph, JobGraph
from schedulers.learned.network import Doubles, Network, Scores, log_probabilities

if TYPE_CHECKING:
    from schedulers.core.state import JobState

#: Scores so near each other are equal: which is larger may hang on what else was computed with them.
_EQUAL: Final = 1e-9


class Choice(NamedTuple):
    """What was chosen last for a job, for explanations. other: who came second, None where there was nobody."""

    stage: str
    limit: int
    score: float
    other: str | None
    other_score: float

    def __str__(self) -> str:
        how = f"scored {self.score:.1f} against {self.other_score:.1f} for {self.other}" if self.other else "was alone"
        return f"{self.stage} {how}; limit {self.limit}"


@policies.register("decima", source="Decima (SIGCOMM'19), sections 5.1 and 5.2; trained here")
class Decima(Dispatch):
    """A trained graph neural network chooses the next stage, and how many executors its job may have at most."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        weights: Annotated[
            str,
            msgspec.Meta(
                description="`decima`, or the name of a file of weights among the plug-ins without its ending"
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
        self._network = Network(shelf.take(_named(params)))
        self._choices: dict[str, Choice] = {}

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        scores = self._network.scores(graph)
        best = self._pick(scores.stages, "stage")
        job, row = int(scores.jobs[best]), int(scores.rows[best])
        limits, values = self._network.limits(graph, job)
        limit = limits[self._pick(values, "limit")]
        self._remember(view, graph, scores, best, limit)
        classes, values = self._network.classes(graph, job, row)
        return Action(job, row, limit, classes[self._pick(values, "class")] if classes else None)

    def about(self, job: JobState) -> dict[str, Any]:
        """What was said when the job was chosen last."""
        choice = self._choices.get(job.id)
        return {} if choice is None else {"said": str(choice)}

    def _pick(self, scores: Doubles, purpose: str) -> int:
        """The best, of equals the first; or by chance."""
        if not self.params.sample:
            return int(np.argmax(scores >= scores.max() - _EQUAL))
        chances = np.cumsum(np.exp(log_probabilities(scores)))
        drawn = keyed.uniform(self.seed, f"decima {purpose}", self.asked) * chances[-1]
        return int(np.searchsorted(chances, drawn, side="right"))

    def _remember(self, view: ClusterView, graph: Graph, scores: Scores, best: int, limit: int) -> None:
        if len(self._choices) > 2 * len(view.jobs) + 16:
            self._choices = {name: choice for name, choice in self._choices.items() if name in view.jobs}
        chosen = graph.jobs[scores.jobs[best]]
        said, second = None, best
        if len(scores.stages) > 1:
            others = scores.stages.copy()
            others[best] = -np.inf
            second = int(others.argmax())
            other = graph.jobs[scores.jobs[second]]
            said = _stage(view, other, scores.rows[second]) + ("" if other is chosen else f" of job {other.name}")
        stage = _stage(view, chosen, scores.rows[best])
        self._choices[chosen.name] = Choice(stage, limit, scores.stages[best], said, scores.stages[second])


def _named(params: Decima.Params) -> str:
    """Which weights are meant. Raises InvalidParameters for an objective beside weights that do not ship."""
    if params.objective == "mean_jct":
        return params.weights
    if params.weights != "decima":
        raise InvalidParameters("objective: it chooses among the weights that ship; leave it out beside `weights`")
    return params.objective


def _stage(view: ClusterView, job: JobGraph, row: int) -> str:
    return "stage " + view.jobs[job.name].spec.stages[int(job.stages[row])].name
