"""Random order: the least to beat for a policy worth its cost."""

from __future__ import annotations

from bisect import insort
from typing import Any

from schedulers.core import keyed
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, policies

_Place = tuple[float, str, int]


@policies.register("random", source="Graphene (OSDI'16), baseline Random")
class RandomOrder(Policy):
    """Serves the stages of all jobs in a seeded random order, with any task that fits.

    Each stage of each job has a draw, which depends on the scenario's seed, the job's id and the stage's number only.
    The policy needs no estimates: a baseline for other orders.
    """

    def __init__(self, params: Any, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._order: list[_Place] = []
        self._drawn: dict[str, list[_Place]] = {}

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the first stage in the order with a fitting task, until nothing fits."""
        self._refresh(view)
        for _, name, index in list(self._order):  # what is placed makes no stage come forward
            job = view.waiting.get(name)
            if job is None or index not in job.open:
                continue
            stage = job.stages[index]
            if offer.fits(job, stage):
                yield Suggestion(name, index, count=stage.waiting)
                if not offer.has_room():
                    return

    def _refresh(self, view: ClusterView) -> None:
        for name in view.changed():
            job = view.waiting.get(name)
            self._place(name, () if job is None else tuple(job.open))

    def _place(self, name: str, stages: tuple[int, ...]) -> None:
        """Let a job stand in the order with the given stages and no others."""
        before = self._drawn.pop(name, [])
        drawn = [(keyed.uniform(self.seed, "random-order", name, index), name, index) for index in stages]
        if before != drawn:
            for place in before:
                self._order.remove(place)
            for place in drawn:
                insort(self._order, place)
        if drawn:
            self._drawn[name] = drawn

    def load(self, data: Any, view: ClusterView) -> None:
        """The order follows from the state."""
        self._order, self._drawn = [], {}
        for name, job in view.waiting.items():
            self._place(name, tuple(job.open))
