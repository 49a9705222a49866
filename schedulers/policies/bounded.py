"""Any other policy, with unfairness between queues or jobs bounded by deficit counters (Graphene's, for all)."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from schedulers.core.deficits import Balance, Factor, Kappa, Level
from schedulers.core.errors import InvalidParameters, UnknownName
from schedulers.core.events import Event
from schedulers.core.model import Queue
from schedulers.core.policy import (
    ClusterView,
    Offer,
    Outcome,
    Planned,
    Policy,
    Suggestion,
    Suggestions,
    Victim,
    policies,
)
from schedulers.core.reasons import Reason
from schedulers.core.state import JobState, StageState


class GroupOffer(Offer):
    """What is on offer to one group only; group None: to everybody."""

    __slots__ = ("_balance", "_group", "_whole")

    def __init__(self, offer: Offer, balance: Balance, group: str | None) -> None:
        super().__init__(offer._state, offer.nodes, job=offer.job, stage=offer.stage, limit=offer.limit)
        self._whole, self._balance, self._group = offer, balance, group

    def admits(self, job: JobState) -> bool:
        """Whether it is the job's turn."""
        return self._group is None or self._balance.group_of(job.spec) == self._group

    def fits(self, job: JobState, stage: StageState) -> bool:
        """See Offer.fits."""
        return self.admits(job) and self._whole.fits(job, stage)


@policies.register("bounded", source="Graphene (OSDI'16), section 5: deficit counters, around any policy")
class Bounded(Policy):
    """Serves whom another policy serves, as long as no queue or job is owed too much; then that one goes first.

    Who is owed most and has nothing that fits loses nothing by it: the next one is asked, and at last everybody.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        policy: Annotated[
            dict[str, Any], msgspec.Meta(description="the policy that says who is served: {kind: NAME, settings}")
        ] = msgspec.field(default_factory=lambda: {"kind": "fifo"})
        kappa: Kappa = 0.25
        deficit: Factor = "drf"
        level: Level = "queue"

    params: Params

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See Policy.uses_of_queues: by the deficits, and what the policy inside does."""
        kind, inner = policies.parse(params.policy)
        return {"weight", *kind.uses_of_queues(inner)}

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._policy = _made(params, seed)
        self.triggers, self.runs_executors = self._policy.triggers, self._policy.runs_executors
        self.reserves = self._policy.reserves
        self.preempts, self.plans = self._policy.preempts, self._policy.plans
        self.needs_estimates = self._policy.needs_estimates
        self._balance = Balance(params.level, params.deficit, params.kappa)

    @classmethod
    def mistakes(
        cls, params: Any, queues: Mapping[str, Queue], used: Collection[str]
    ) -> Iterable[tuple[tuple[str, ...], str]]:
        """See Policy.mistakes: those of the policy inside."""
        try:
            kind, inner = policies.parse(params.policy)
            _made(params, 0)
        except (UnknownName, InvalidParameters) as error:
            yield ("policy",), str(error)
            return
        for keys, sentence in kind.mistakes(inner, queues, used):
            yield ("policy", *keys), sentence

    # -- the loop -------------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Offer what is there to who is owed too much, most owed first, and then to everybody."""
        self._balance.begin(view)
        placed = True
        while placed and offer.has_room():
            placed = False
            for group in (*self._balance.owed(), None):
                placed = yield from self._serve(view, offer, group)
                if placed:
                    break

    def _serve(self, view: ClusterView, offer: Offer, group: str | None) -> Generator[Suggestion, Outcome, bool]:
        """Let the policy inside suggest, until somebody else is owed too much; returns whether anything was placed."""
        narrowed, owed, placed = GroupOffer(offer, self._balance, group), self._balance.owed(), False
        suggestions = self._policy.schedule(view, narrowed)
        suggestion = next(suggestions, None)
        while suggestion is not None:
            outcome = yield from self._try(suggestion, view, narrowed)
            placed = placed or outcome.placed > 0
            narrowed.limit = offer.limit
            try:
                # It must hear the outcome, even when what it says then is not asked for any more.
                suggestion = suggestions.send(outcome)
            except StopIteration:
                break
            if outcome.placed and self._balance.owed() != owed:
                suggestions.close()
                break
        return placed

    def _try(
        self, suggestion: Suggestion, view: ClusterView, narrowed: GroupOffer
    ) -> Generator[Suggestion, Outcome, Outcome]:
        job = view.waiting.get(suggestion.job)
        if job is None or not narrowed.admits(job):
            return Outcome(0, Reason.OVER_SHARE)
        # One task at a time, for each changes who is owed what.
        outcome = yield msgspec.structs.replace(suggestion, count=1)
        if outcome.placed:
            self._balance.charge(job, job.stages[suggestion.stage].demand, outcome.placed, view)
        return outcome

    # -- what the policy inside hears and says ----------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """See Policy.observe."""
        self._policy.observe(event, view)

    def victims(self, view: ClusterView) -> Sequence[Victim]:
        """See Policy.victims."""
        return self._policy.victims(view)

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """See Policy.why."""
        return self._policy.why(job, view)

    def next_change(self, view: ClusterView) -> int | None:
        """See Policy.next_change."""
        return self._policy.next_change(view)

    def about(self, job: JobState) -> dict[str, Any]:
        """See Policy.about."""
        return self._policy.about(job)

    def new_plans(self) -> Mapping[str, Planned]:
        """See Policy.new_plans."""
        return self._policy.new_plans()

    def dump(self) -> Any:
        """The deficits, and what the policy inside remembers."""
        return {"balance": self._balance.dump(), "policy": self._policy.dump()}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self._balance.load(data["balance"])
        self._policy.load(data["policy"], view)


def _made(params: Bounded.Params, seed: int) -> Policy:
    """The policy inside. Raises UnknownName and InvalidParameters."""
    kind, inner = policies.parse(params.policy)
    policy = kind(inner, seed=seed)
    if policy.triggers.every_beat or policy.triggers.every_offer:
        raise InvalidParameters(
            f"policy 'bounded' does not go with '{params.policy['kind']}', which counts offers that it passes up"
        )
    return policy
