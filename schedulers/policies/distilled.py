"""The trained agent as decision trees, for people to read and patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from schedulers.core.policy import ClusterView, policies
from schedulers.learned import model_store
from schedulers.learned.fallback import WithFallback
from schedulers.learned.graph import Action, Doubles, Graph
from schedulers.learned.tree import TreeDecider, reasons

if TYPE_CHECKING:
    from schedulers.core.state import JobState


class _Choice(NamedTuple):
    """The last choice for a job."""

    stage: str
    limit: int
    features: Doubles


@policies.register(
    "distilled",
    source="Decima (SIGCOMM'19), section 5.2, its action; Hu et al. (arXiv 2405.19131), trees; distilled here",
)
class Distilled(WithFallback):
    """Decision trees, distilled from `decima`, choose the next stage, and how many executors its job may have.

    The first tree scores jobs, the second tree the stages of the chosen job, the third tree gives the limit on the
    job's executors. People can read and patch the trees: the file `schedulers/learned/trained/distilled.yaml` has
    nested questions about seconds, tasks and executors, with the meaning of each in front. The policy decides better
    with a predictor.

    While trees decided, the network was asked about the same states, and the next trees were fitted to its answers (Hu
    et al., arXiv 2405.19131; DAgger). docs/results-learned.md says how near the trees come to the network.

    As under `decima`, a rule decides where an observation lies outside of the ranges of training, which the file has
    under `ranges`; a file without them asks its trees always.

    `explain` names the answers that led to the choice: "own; open and path > 0.63: stage s2; size <= 300: limit 5". To
    patch the trees, copy the file, change a number or cut a branch, and put the copy among the plug-ins: `{kind:
    distilled, tree: mine}`. `rm-emulator train distilled` makes new trees after other weights (docs/learning.md).
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        tree: Annotated[
            str,
            msgspec.Meta(
                description="name of the trees: `distilled` ships; others are files of trees among the plug-ins, "
                "named without their ending"
            ),
        ] = "distilled"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        trees = model_store.trees_of(params.tree)
        self._decider, self.ranges = TreeDecider(trees), trees.ranges
        self._choices: dict[str, _Choice] = {}

    def decide(self, graph: Graph, view: ClusterView) -> Action:
        """See WithFallback."""
        action, facts = self._decider.choose(graph)
        job = graph.jobs[action.job]
        if len(self._choices) > 2 * len(view.jobs) + 16:
            self._choices = {name: choice for name, choice in self._choices.items() if name in view.jobs}
        stage = view.jobs[job.name].spec.stages[int(job.stages[action.row])].name
        self._choices[job.name] = _Choice(stage, action.limit, facts)
        return action

    def about_decision(self, job: JobState) -> dict[str, Any]:
        """The deciding rule at the job's last turn."""
        choice = self._choices.get(job.id)
        if choice is None:
            return {}
        *which, limit = (" and ".join(reasons(tree, choice.features)) or "always" for tree in self._decider.trees[:3])
        return {"said": f"{'; '.join(which)}: stage {choice.stage}; {limit}: limit {choice.limit}"}
