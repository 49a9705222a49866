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
from schedulers.learned.fallback import Fallback
from schedulers.learned.graph import Action, Doubles, Graph
from schedulers.learned.last_choices import LastChoices
from schedulers.learned.network import Network, Scores, best_of, log_probabilities

if TYPE_CHECKING:
    from schedulers.core.state import JobState


@policies.register("decima", source="Decima (SIGCOMM'19), sections 5.1 and 5.2; trained here")
class Decima(Dispatch):
    """A trained graph neural network chooses the next stage, and how many executors its job may have at most.

    The network answers the question of `dispatch`: to which stage do the free executors go, until its job has how
    many? Decisions need numpy only; torch is for training. The policy decides better with a predictor than without.

    **Features** of each unfinished stage and live job (`schedulers/learned/graph.py`): tasks to start, their work by
    the predictor's estimates, executors. A stage without an estimate is marked; true run times are not among the
    features.

    **Network.** Messages sum up what is below a stage, from the job's leaves to its roots; then all stages of a job,
    then all jobs, each sum between two small transforms with layers of 32 and 16. A head scores the stages that may be
    chosen, a further head the limits of the chosen job: the smallest limit with an executor to give, a dozen steps
    between, and all executors. The network has 12,724 parameters (the paper, with other features, 12,736), or 5,186
    with the sizes of the released code, without the second transform of sums.

    **Guided** is ours: the weights that ship read of each job whether the rule `priced` of `dispatch` would choose it,
    its turn, and the number of executors by the rule. Training then has to learn only where to differ from the rule.

    **Quality.** The weights for the mean JCT were cloned from `priced` and are in effect the rule; PPO gained nothing
    more in the time it had. Weights improved by PPO without the guide came half as far below `capped_sjf`
    (docs/results-learned.md). `objective: makespan` has weights of its own: the last job of Decima's batch ends 13 %
    sooner, and each job later. Where policies of a run differ in `objective`, the report shows both figures.

    Two sets of weights ship: for executors that outlive tasks, as in Spark, and for containers that end with their
    tasks, as in YARN and for pods. The best score is taken, among equal scores the job that came first; `sample: true`
    draws by the seed. Executor classes (see `dispatch`) are scored as limits are, by networks with class scores: the
    weights for containers and the networks `classes` and `guided_classes` of training. Other weights take the smallest
    class with room.

    **The fallback.** Where an observation lies outside of the ranges that training met (of executors, live jobs,
    stages, tasks, run times, work and estimates; they are stored with the weights), the teacher decides: `priced`, for
    the makespan `proportional`, and `fair` where no job has an estimate. `explain` names rule and reason: "stage s1 by
    the rule priced, as there are 60 live jobs, in training 1 to 20; limit 5".

    `explain` says: "stage s1 scored 20.2 against 4.6 for stage s1 of job tpch-04; limit 50". Scores are comparable
    inside the same decision only. The values computed for a job are kept until the job changes, so decisions are fast
    (docs/speed.md). Other weights are a file among the plug-ins: `{kind: decima, weights: mine}`.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        weights: Annotated[
            str,
            msgspec.Meta(
                description="name of the network: `decima` ships, for executors that outlive tasks and for "
                "containers; others are files of weights among the plug-ins, named without their ending"
            ),
        ] = "decima"
        objective: Annotated[
            Literal["mean_jct", "makespan"],
            msgspec.Meta(
                description="figure that the weights that ship minimise; not to be set beside `weights` of your own"
            ),
        ] = "mean_jct"
        sample: Annotated[
            bool,
            msgspec.Meta(
                description="choice by chance, with the network's probabilities, as in training; false: the best score"
            ),
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
        self.fallback = Fallback(self._network.weights.ranges, self._network.weights.rule)

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        if self._is_open:
            self._is_open = False
            if not graph.outlive:
                self._use("containers")
        action = self.fallback.answer(graph, view, self.question_count)
        if action is None:
            action = self._decide(graph, view)
            self.fallback.forget(graph.jobs[action.job].name)
        return action

    def about(self, job: JobState) -> dict[str, Any]:
        """What the rule or the network said at the job's last turn."""
        return self.fallback.about(job.id) or self._last_choices.about(job.id)

    def _decide(self, graph: Graph, view: ClusterView) -> Action:
        """The network's choice."""
        scores = self._network.scores(graph)
        best = self._pick(scores.stages, "stage")
        job, row = int(scores.jobs[best]), int(scores.rows[best])
        limits, values = self._network.limits(graph, job)
        limit = limits[self._pick(values, "limit")]
        self._remember(view, graph, scores, best, limit)
        classes, values = self._network.classes(graph, job, row)
        return Action(job, row, limit, classes[self._pick(values, "class")] if classes else None)

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
