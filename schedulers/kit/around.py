"""Policies around an inner policy: the outer chooses the job, the inner the next task of the job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from schedulers.core.abilities import MindsQueues, Mistakes, TellsTurn, ability, mistakes, uses_of_queues
from schedulers.core.errors import InvalidParameters, UnknownName
from schedulers.core.events import Event
from schedulers.core.model import Queue
from schedulers.core.policy import (
    ClusterView,
    Offer,
    Outcome,
    Policy,
    Suggestion,
    Suggestions,
    policies,
)
from schedulers.core.reasons import Reason
from schedulers.core.state import JobState, StageState

Inside = Annotated[
    dict[str, Any], msgspec.Meta(description="policy that orders the jobs otherwise: {kind: NAME, settings}")
]


class HasInside(Protocol):
    """Settings with a policy in them."""

    @property
    def policy(self) -> dict[str, Any]:
        """Its settings, `kind` among them."""


class NarrowedOffer(Offer):
    """An offer open to some jobs only."""

    __slots__ = ("_whole", "admits")

    is_for_all_jobs = False

    def __init__(self, offer: Offer, admits: Callable[[JobState], bool]) -> None:
        super().__init__(offer._state, offer.nodes, job=offer.job, stage=offer.stage, limit=offer.limit)
        self._whole, self.admits = offer, admits

    def fits(self, job: JobState, stage: StageState) -> bool:
        """See Offer.fits."""
        return self.admits(job) and self._whole.fits(job, stage)


class Around(Policy, MindsQueues, TellsTurn):
    """Serves the jobs with a turn in the order of an inner policy, turn by turn, and at last all jobs.

    A turn without a fitting task loses nothing: the next turn is asked.
    """

    def __init__(self, params: Any, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.inside = made(type(self), params, seed)
        self.triggers = self.inside.triggers

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See MindsQueues: as the policy inside."""
        return uses_of_queues(*policies.parse(params.policy))

    @classmethod
    def mistakes(cls, params: Any, queues: Mapping[str, Queue], used: Collection[str]) -> Mistakes:
        """See MindsQueues: mistakes found by the policy inside."""
        try:
            kind, inner = policies.parse(params.policy)
            made(cls, params, 0)
        except (UnknownName, InvalidParameters) as error:
            yield ("policy",), str(error)
            return
        for keys, sentence in mistakes(kind, inner, queues, used):
            yield ("policy", *keys), sentence

    # -- whose turn it is ---------------------------------------------------------------------------

    def begin(self, view: ClusterView) -> None:
        """A round begins."""

    @abstractmethod
    def turns(self, view: ClusterView) -> Sequence[str]:
        """Turns before all other jobs now, first in front, by names of the policy's own."""

    @abstractmethod
    def admits(self, turn: str, job: JobState) -> bool:
        """Whether the job belongs to the turn."""

    def started(self, job: JobState, stage: StageState, tasks: int, view: ClusterView) -> None:
        """So many tasks of a job have just started."""

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Offer the room to each turn, and then to everybody."""
        self.begin(view)
        placed = True
        while placed and offer.has_room():
            placed = False
            for turn in (*self.turns(view), None):
                placed = yield from self._serve(view, offer, turn)
                if placed:
                    break

    def _serve(self, view: ClusterView, offer: Offer, turn: str | None) -> Generator[Suggestion, Outcome, bool]:
        """Let the policy inside suggest, until the turn changes; returns whether anything was placed."""
        narrowed = NarrowedOffer(offer, lambda job: turn is None or self.admits(turn, job))
        turns, placed = self.turns(view), False
        suggestions = self.inside.schedule(view, narrowed)
        suggestion = next(suggestions, None)
        while suggestion is not None:
            outcome = yield from self._try(suggestion, view, narrowed)
            placed = placed or outcome.placed > 0
            narrowed.limit = offer.limit
            try:
                # The policy inside must hear the outcome, even when its next suggestion is not wanted any more.
                suggestion = suggestions.send(outcome)
            except StopIteration:
                break
            if outcome.placed and self.turns(view) != turns:
                suggestions.close()
                break
        return placed

    def _try(
        self, suggestion: Suggestion, view: ClusterView, narrowed: NarrowedOffer
    ) -> Generator[Suggestion, Outcome, Outcome]:
        job = view.waiting.get(suggestion.job)
        if job is None or not narrowed.admits(job):
            return Outcome(0, Reason.OVER_SHARE)
        # A single task at a time, because each start may change the turn.
        outcome = yield msgspec.structs.replace(suggestion, count=1)
        if outcome.placed:
            self.started(job, job.stages[suggestion.stage], outcome.placed, view)
        return outcome

    # -- what the policy inside hears and says ----------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """See Policy.observe."""
        self.inside.observe(event, view)

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """See Policy.why."""
        return self.inside.why(job, view)

    def line(self, view: ClusterView) -> Sequence[str] | None:
        """See TellsTurn: turn by turn as the policy inside has them, then all others."""
        tells = ability(self.inside, TellsTurn)
        inside = None if tells is None else tells.line(view)
        if inside is None:
            return None
        left, found = dict.fromkeys(inside), list[str]()
        for turn in self.turns(view):
            mine = [name for name in left if self.admits(turn, view.jobs[name])]
            for name in mine:
                del left[name]
            found += mine
        return [*found, *left]

    def passes_by(self, job: JobState, view: ClusterView) -> str | None:
        """See TellsTurn."""
        tells = ability(self.inside, TellsTurn)
        return None if tells is None else tells.passes_by(job, view)

    def next_change(self, view: ClusterView) -> int | None:
        """See Policy.next_change."""
        return self.inside.next_change(view)

    def about(self, job: JobState) -> dict[str, Any]:
        """See Policy.about."""
        return self.inside.about(job)

    def dump(self) -> Any:
        """The memory of the policy inside."""
        return {"policy": self.inside.dump()}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self.inside.load(data["policy"], view)


def made(around: type[Policy], params: HasInside, seed: int) -> Policy:
    """The policy inside. Raises UnknownName and InvalidParameters."""
    kind, inner = policies.parse(params.policy)
    policy = kind(inner, seed=seed)
    triggers = policy.triggers
    if triggers.every_beat or triggers.every_offer or triggers.period_ms is not None:
        name = next(entry.name for entry in policies if entry.cls is around)
        counts = "counts offers that it passes up" if triggers.period_ms is None else "decides by a period of its own"
        raise InvalidParameters(f"policy '{name}' does not go with '{params.policy['kind']}', which {counts}")
    return policy
