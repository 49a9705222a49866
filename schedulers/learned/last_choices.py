"""Sentences of a learned policy about its choices, for explanations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schedulers.learned.graph import Doubles
from schedulers.learned.weights import Weights

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView


class LastChoice(NamedTuple):
    """The last choice for a job."""

    stage: str
    score: float
    runner_up: str | None
    """The stage with the second-best score; None without a second stage."""
    runner_up_score: float
    remark: str = ""
    """Further words."""

    def __str__(self) -> str:
        how = (
            f"scored {self.score:.1f} against {self.runner_up_score:.1f} for {self.runner_up}"
            if self.runner_up
            else "was alone"
        )
        return f"{self.stage} {how}{self.remark}"


class LastChoices:
    """The last choice for each job."""

    def __init__(self, weights: Weights) -> None:
        self._most = weights.most
        self._choices: dict[str, tuple[int, LastChoice]] = {}  # with the time of the choice

    def about(self, job: str) -> dict[str, Any]:
        """See Policy.about."""
        return {"said": str(self._choices[job][1])} if job in self._choices else {}

    def remember(
        self,
        view: ClusterView,
        scores: Doubles,
        best: int,
        place: Callable[[int], tuple[str, int]],
        amounts: Callable[[], Mapping[str, int]],
        more: str = "",
    ) -> None:
        """Remember a choice; forget jobs gone long ago.

        scores: of all valid stages; best: index of the chosen stage. place: job and stage of an index. amounts: sizes
        of the observation. Of several choices in one instant the last choice with an alternative counts. The first
        observation larger than all of training is mentioned once.
        """
        job, stage = place(best)
        choice = LastChoice(_name(view, job, stage), float(scores[best]), None, 0.0, more)
        if len(scores) > 1:
            others = scores.copy()
            others[best] = -np.inf
            second = int(others.argmax())
            owner, stage = place(second)
            name = _name(view, owner, stage) + (f" of job {owner}" if owner != job else "")
            choice = choice._replace(runner_up=name, runner_up_score=float(scores[second]))
        if len(self._choices) > 2 * len(view.jobs) + 16:
            self._choices = {name: known for name, known in self._choices.items() if name in view.jobs}
        there = amounts() if self._most else {}
        beyond = [(count, what) for what, count in there.items() if count > self._most.get(what, count)]
        for count, what in beyond[:1]:
            more = f"{choice.remark}; {count} {what} are more than the {self._most[what]} that it was trained with"
            choice, self._most = choice._replace(remark=more), {}
        at, before = self._choices.get(job, (-1, choice))
        if choice.runner_up is not None or before.runner_up is None or at != view.now:
            self._choices[job] = view.now, choice


def _name(view: ClusterView, job: str, stage: int) -> str:
    return f"stage {view.jobs[job].spec.stages[stage].name}"
