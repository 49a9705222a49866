"""Policies that answer one question again and again: of all stages with tasks to assign, which stage is next?

LACHESIS, section IV. The choice of machines is the placement's (DEFT).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, Offer, Suggestion, Suggestions
from schedulers.kit.ordered import Contest, Sequencing
from schedulers.kit.partition import executors_of
from schedulers.learned.routes import RouteChoices, Routes

if TYPE_CHECKING:
    from schedulers.core.events import Event
    from schedulers.core.state import JobState, StageState


class NextStage(Sequencing, NeedsEstimates):
    """Asks `choose` while there are stages to choose from."""

    order_is_stable = True

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.routes = Routes()

    @abstractmethod
    def choose(self, choices: RouteChoices, view: ClusterView) -> int:
        """A valid row. The caller makes sure that some row is valid."""

    def contest(self, view: ClusterView) -> Contest:
        """See Sequencing."""
        return _Asked(self, view)

    def next_of(self, able: Mapping[str, Sequence[StageState]], view: ClusterView) -> tuple[JobState, StageState]:
        """Ask. able: by job the stages to choose from. The observation is up to date."""
        sizes = {stage.size: stage.demand for stages in able.values() for stage in stages}
        choices = self.routes.choices(view, able, executors_of(view, sizes.values()))
        index, stage = choices.place(self.choose(choices, view))
        job = view.jobs[choices.routes[index].name]
        return job, job.stages[stage]

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Where nothing is assigned ahead: ask, until nothing fits."""
        refused: set[tuple[str, int]] = set()
        able: dict[str, list[StageState]] = {}
        fresh = True
        while True:
            if fresh:
                self.routes.refresh(view, self.queued_tasks)
            able = {
                job.id: stages
                for job in view.waiting.values()
                if (stages := [s for s in job.open_stages() if (job.id, s.index) not in refused and offer.fits(job, s)])
            }
            if not able:
                return
            job, stage = self.next_of(able, view)
            outcome = yield Suggestion(job.id, stage.index, count=stage.waiting)
            fresh = bool(outcome.placed)
            if not fresh:
                refused.add((job.id, stage.index))
            elif not offer.has_room():
                return

    def observe(self, event: Event, view: ClusterView) -> None:
        """Forget the lengths of ways when nodes change."""
        self.routes.lengths.observe(event)


class _Asked(Contest):
    """A contest in which the policy is asked for each next stage."""

    def __init__(self, policy: NextStage, view: ClusterView) -> None:
        self._policy, self._view = policy, view
        self._able: dict[str, Sequence[StageState]] = {}
        self._taken: JobState | None = None
        policy.routes.refresh(view, policy.queued_tasks)

    def enter(self, job: JobState, stages: Sequence[StageState]) -> None:
        """See Contest."""
        self._able[job.id] = stages

    def take(self) -> tuple[JobState, StageState] | None:
        """See Contest. Tasks of the job taken before have been assigned since, so look at the job again."""
        if self._taken is not None:
            self._policy.routes.look(self._taken, self._view, self._policy.queued_tasks)
        if not self._able:
            return None
        self._taken, stage = self._policy.next_of(self._able, self._view)
        del self._able[self._taken.id]
        return self._taken, stage
