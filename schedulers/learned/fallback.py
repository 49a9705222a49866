"""The fallback of learned policies: a rule decides where observations lie outside of what training met."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from schedulers.core.policy import ClusterView
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph
from schedulers.learned.orders import RULES
from schedulers.learned.ranges import Ranges, outside

if TYPE_CHECKING:
    from schedulers.core.state import JobState

#: The rule where no job has an estimate.
_UNTOLD = "fair"


class WithFallback(Dispatch):
    """Asks `decide` inside the ranges of training; outside a rule answers, `fair` where no job has an estimate."""

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.ranges: Ranges = {}
        """Ranges of training; empty where nothing is known of training, so that no rule ever answers."""
        self.rule = "priced"
        """The rule that answers outside, one of RULES."""
        self._ruled: dict[str, str] = {}  # by job the last answer, where the rule gave it

    @abstractmethod
    def decide(self, graph: Graph, view: ClusterView) -> Action:
        """The learned answer, see Dispatch.choose."""

    @abstractmethod
    def about_decision(self, job: JobState) -> dict[str, Any]:
        """The words about the job's last learned answer."""

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch."""
        why = outside(self.ranges, graph) if self.ranges else None
        if why is None:
            action = self.decide(graph, view)
            self._ruled.pop(graph.jobs[action.job].name, None)
            return action
        rule = _UNTOLD if all(job.work_ms is None for job in graph.jobs) else self.rule
        action = RULES[rule](graph, view, self.question_count)
        job = graph.jobs[action.job]
        if len(self._ruled) > 2 * len(view.jobs) + 16:
            self._ruled = {name: said for name, said in self._ruled.items() if name in view.jobs}
        stage = view.jobs[job.name].spec.stages[int(job.stages[action.row])].name
        self._ruled[job.name] = f"stage {stage} by the rule {rule}, as there are {why}; limit {action.limit}"
        return action

    def about(self, job: JobState) -> dict[str, Any]:
        """The words about the job's last answer, and where the rule gave the answer, why."""
        said = self._ruled.get(job.id)
        return self.about_decision(job) if said is None else {"said": said}
