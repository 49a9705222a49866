"""The fallback of a learned policy: a rule decides where observations lie outside of what training met."""

from __future__ import annotations

from typing import Any

from schedulers.core.policy import ClusterView
from schedulers.learned.graph import Action, Graph
from schedulers.learned.orders import RULES
from schedulers.learned.ranges import Ranges, outside

#: The rule where no job has an estimate.
_UNTOLD = "fair"


class Fallback:
    """Answers outside of the ranges of training, and keeps the words about the last answer for each job.

    ranges: of training; empty where nothing is known of training, so that no rule ever answers. rule: one of RULES;
    where no job has an estimate `fair` answers instead.
    """

    def __init__(self, ranges: Ranges, rule: str) -> None:
        self.ranges, self.rule = ranges, rule
        self._said: dict[str, str] = {}

    def answer(self, graph: Graph, view: ClusterView, number: int) -> Action | None:
        """The rule's action; None inside the ranges. number: of earlier questions."""
        why = outside(self.ranges, graph) if self.ranges else None
        if why is None:
            return None
        rule = _UNTOLD if all(job.work_ms is None for job in graph.jobs) else self.rule
        action = RULES[rule](graph, view, number)
        job = graph.jobs[action.job]
        if len(self._said) > 2 * len(view.jobs) + 16:
            self._said = {name: said for name, said in self._said.items() if name in view.jobs}
        stage = view.jobs[job.name].spec.stages[int(job.stages[action.row])].name
        self._said[job.name] = f"stage {stage} by the rule {rule}, as there are {why}; limit {action.limit}"
        return action

    def forget(self, job: str) -> None:
        """The policy itself has answered for the job."""
        self._said.pop(job, None)

    def about(self, job: str) -> dict[str, Any]:
        """See Policy.about; empty where the policy itself gave the job's last answer."""
        return {"said": self._said[job]} if job in self._said else {}
