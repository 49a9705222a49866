"""Dominant Resource Fairness: the next task goes to the lowest dominant share (Ghodsi et al., NSDI'11)."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.abilities import MindsQueues
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestions, TieSetting, policies
from schedulers.core.reasons import Reason
from schedulers.core.state import JobState
from schedulers.kit.ordered import Key, Order
from schedulers.kit.parties import DIGITS, Inside, Parties, Party, fill, over_share, place_in_party


@policies.register("drf", source="DRF (NSDI'11), section 4 and Algorithm 1; weights: section 4.3")
class Drf(Policy, MindsQueues):
    """Serves the queue, user or job with the lowest dominant share per unit of weight, as long as anything fits.

    Progressive filling goes task by task (section 4.2): a party without a fitting task is passed over, and the others
    go on with the resources left. The policy needs no estimates; `level: queue` needs queues with weights.

    Of a tree of queues the leaves share, each with the product of its parts on the way up: the collapsed hierarchy. A
    group of leaves can get less than its part of the cluster in this way; `hdrf` mends this fault.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        level: Annotated[
            Literal["queue", "user", "job"],
            msgspec.Meta(
                description="parties of the sharing: leaf queues by their weights, users with equal shares, or jobs "
                "by their weights"
            ),
        ] = "queue"
        inside: Inside = "fair"
        tie: TieSetting = "submit"

    params: Params

    @classmethod
    def uses_of_queues(cls, params: Any) -> Collection[str]:
        """See MindsQueues.uses_of_queues."""
        return ("weight",) if params.level == "queue" else ()

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._counted_with: tuple[Any, ...] = ()
        self._parties: Parties | None = None
        self._order = Order()
        self._weights: dict[str, float] = {}

    # -- the loop -------------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the party with the lowest share and a fitting task, until no task fits."""
        return fill(view, offer, self._parties_in_order)

    def _parties_in_order(self, view: ClusterView) -> Iterable[Party]:
        parties = self._refresh(view)
        return map(parties.by_name.__getitem__, self._order)

    # -- shares ---------------------------------------------------------------------------------

    def _refresh(self, view: ClusterView) -> Parties:
        # Nodes that come and go, weights and limits change everybody's share or place.
        if self._parties is None or self._counted_with != (*view.capacity, view.tree.version):
            return self._begin(view)
        for party in self._parties.refresh(view):
            self._update_rank(party, view)
        return self._parties

    def _begin(self, view: ClusterView) -> Parties:
        self._counted_with = (*view.capacity, view.tree.version)
        key = place_in_party(self.params.inside, self.params.tie)
        parties = self._parties = Parties(self._party_of, key, len(view.capacity))
        self._order, self._weights = Order(), {}
        parties.count_all(view)
        for party in parties.by_name.values():
            self._update_rank(party, view)
        return parties

    def _party_of(self, job: JobState) -> str:
        spec = job.spec
        return {"queue": spec.queue, "user": spec.user, "job": spec.id}[self.params.level]

    def _update_rank(self, party: Party, view: ClusterView) -> None:
        if party.order:
            self._order.put(party.name, self._key(party, view))
        else:
            self._order.drop(party.name)
            if self.params.level == "job" and party.name not in view.jobs and self._parties is not None:
                del self._parties.by_name[party.name]
                self._weights.pop(party.name, None)

    def _key(self, party: Party, view: ClusterView) -> Key:
        share, _ = self._share(party, view)
        if self.params.level == "job":
            return (share, view.tie(view.jobs[party.name], self.params.tie))
        return (share, party.name)

    def _share(self, party: Party, view: ClusterView) -> tuple[float, int]:
        """Dominant share of a party per unit of weight, and its dominant resource (section 4.1)."""
        shares = [used / whole if whole else 0.0 for used, whole in zip(party.used, view.capacity, strict=True)]
        most = max(shares)
        return round(most / self._weight(party.name, view), DIGITS), shares.index(most)

    def _weight(self, name: str, view: ClusterView) -> float:
        weight = self._weights.get(name)
        if weight is None:
            weight = 1.0
            if self.params.level == "queue":
                weight = view.tree.collapsed_weight(name)
            elif self.params.level == "job":
                weight = view.jobs[name].spec.weight
            self._weights[name] = weight
        return weight

    # -- telling --------------------------------------------------------------------------------

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """The first party with a lower share than the job's party and with a fitting task."""
        parties, name = self._refresh(view), self._party_of(job)
        has_room = functools.cache(view.fits_somewhere)  # many parties wait for tasks of a few sizes
        for first in self._order:
            if first == name:
                return None
            ahead = parties.by_name[first]
            if any(map(has_room, ahead.sizes)):
                (share, r), (other, q) = self._share(parties.by_name[name], view), self._share(ahead, view)
                names = view.resources
                return over_share(self.params.level, (name, share, names[r]), (first, other, names[q]))
        return None

    def load(self, data: Any, view: ClusterView) -> None:
        """Everything follows from the state."""
        self._begin(view)
