"""What a learned policy says of its choices, for explanations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schedulers.learned.graph import Doubles
from schedulers.learned.weights import Weights

if TYPE_CHECKING:
    from schedulers.core.policy import ClusterView


class Choice(NamedTuple):
    """What was chosen last for a job. other: who came second, None where there was nobody; more: what else is said."""

    stage: str
    score: float
    other: str | None
    other_score: float
    more: str = ""

    def __str__(self) -> str:
        how = f"scored {self.score:.1f} against {self.other_score:.1f} for {self.other}" if self.other else "was alone"
        return f"{self.stage} {how}{self.more}"


class Sayings:
    """By job what was said when it was chosen last."""

    def __init__(self, weights: Weights) -> None:
        self._most = weights.most
        self._choices: dict[str, tuple[int, Choice]] = {}  # and when that was

    def about(self, job: str) -> dict[str, Any]:
        """See Policy.about."""
        return {"said": str(self._choices[job][1])} if job in self._choices else {}

    def note(self, view: ClusterView, job: str, choice: Choice, amounts: Callable[[], Mapping[str, int]]) -> None:
        """A job was chosen; those that are long gone are forgotten. amounts: how much there was to choose from.

        Of choices in one instant the last one counts in which there were others. Where there is more to choose from
        than the network was trained with, that is said once.
        """
        if len(self._choices) > 2 * len(view.jobs) + 16:
            self._choices = {name: known for name, known in self._choices.items() if name in view.jobs}
        there = amounts() if self._most else {}
        beyond = [(count, what) for what, count in there.items() if count > self._most.get(what, count)]
        for count, what in beyond[:1]:
            more = f"{choice.more}; {count} {what} are more than the {self._most[what]} that it was trained with"
            choice, self._most = choice._replace(more=more), {}
        at, before = self._choices.get(job, (-1, choice))
        if choice.other is not None or before.other is None or at != view.now:
            self._choices[job] = view.now, choice


def second(scores: Doubles, best: int) -> int | None:
    """Who comes after the best; None: nobody."""
    if len(scores) == 1:
        return None
    others = scores.copy()
    others[best] = -np.inf
    return int(others.argmax())


def named(view: ClusterView, job: str, stage: int, chosen: str) -> str:
    """A stage, with its job where that is not the one that was chosen."""
    name = "stage " + view.jobs[job].spec.stages[stage].name
    return name if job == chosen else f"{name} of job {job}"
