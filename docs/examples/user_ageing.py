"""Serves the user to whom least was given lately: a policy with a memory of its own, from outside the tree."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec

from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, policies
from schedulers.kit.ordered import Order


@policies.register("user_ageing", source="Slurm, multifactor priority: fair share with PriorityDecayHalfLife")
class UserAgeing(Policy):
    """Serves the user to whom fewest containers were given lately; of a user the job that came first.

    What was given ages: it counts half as much after each half-life. That is the same factor for every user, so their
    order changes only when one of them is given something, and nothing has to be worked out anew as time passes.
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        half_life_s: Annotated[
            float, msgspec.Meta(gt=0, description="what a user was given counts half as much after so many seconds")
        ] = 600.0

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._given: dict[str, float] = {}  # log2 of what each user was given, a container at time 0 counting 1
        self._users = Order()
        self._jobs: dict[str, Order] = {}  # the waiting jobs of each user
        self._user_of: dict[str, str] = {}  # of each job in these, for jobs that are gone

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the first user with a task that fits, until nothing fits."""
        placed = True
        while placed and offer.has_room():
            self._refresh(view)
            placed = yield from self._serve_one(view, offer)

    def _serve_one(self, view: ClusterView, offer: Offer) -> Any:
        for user in self._users.jobs():
            for name in self._jobs[user].jobs():
                for stage in view.jobs[name].open_stages():
                    if offer.fits(view.jobs[name], stage):
                        outcome = yield Suggestion(name, stage.index)
                        if outcome.placed:
                            self._give(user, view.now)
                            return True
        return False

    def _give(self, user: str, now: int) -> None:
        """Count a container, in logarithms: the numbers themselves double with each half-life."""
        worth, before = now / (1000 * self.params.half_life_s), self._given.get(user)
        if before is not None:
            high, low = max(worth, before), min(worth, before)
            worth = high + math.log2(1 + 2 ** (low - high))
        self._given[user] = worth
        self._users.put(user, self._key(user))

    def _key(self, user: str) -> tuple[float, str]:
        return self._given.get(user, -math.inf), user

    def _refresh(self, view: ClusterView) -> None:
        for name in view.changed():
            job = view.waiting.get(name)
            if job is not None:
                self._enter(name, job.spec.user, job.seq)
            elif name in self._user_of:
                self._leave(name, self._user_of.pop(name))

    def _enter(self, name: str, user: str, seq: int) -> None:
        self._user_of[name] = user
        self._jobs.setdefault(user, Order()).put(name, (seq,))
        self._users.put(user, self._key(user))

    def _leave(self, name: str, user: str) -> None:
        self._jobs[user].drop(name)
        if not self._jobs[user]:
            del self._jobs[user]
            self._users.drop(user)

    def dump(self) -> Any:
        """What each user was given, copied. The orders follow from that and from the state."""
        return dict(self._given)

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self._given = dict(data)
        for name, job in view.waiting.items():
            self._enter(name, job.spec.user, job.seq)
