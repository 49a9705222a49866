"""Sharers of a cluster: jobs grouped into parties (queues, users, single jobs), kept up as jobs change.

For policies with a choice between parties first, and among the jobs of a party next. The holdings and waiting tasks of
a party follow from its jobs, so a restart needs no memory of parties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from schedulers.core.policy import ClusterView, Offer, Suggestion, Suggestions, Tie
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector
from schedulers.kit.ordered import Key, Order

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from schedulers.core.policy import Outcome
    from schedulers.core.state import JobState

Inside = Annotated[
    Literal["fair", "fifo"],
    msgspec.Meta(
        description="order of jobs inside a queue or user: the lowest share first, or the first submission first"
    ),
]
#: Digits of a share that count: equal shares must be equal however they were added up.
DIGITS = 12


class Party(msgspec.Struct, eq=False):
    """A sharer of the cluster."""

    name: str
    used: list[int]
    """Resources held by all its live jobs."""
    order: Order
    """Its waiting jobs, next first."""
    sizes: dict[int, int] = {}
    """Number of its jobs with waiting tasks of each size."""


class _Seen(msgspec.Struct, gc=False):
    """The last count of a job."""

    party: str
    used: Vector
    sizes: tuple[int, ...]


class Parties:
    """All parties by name. of: the party of a job; key: its place in the party's order."""

    def __init__(
        self, of: Callable[[JobState], str], key: Callable[[JobState, ClusterView], Key], resources: int
    ) -> None:
        self._of, self._key, self._resources = of, key, resources
        self.by_name: dict[str, Party] = {}
        self._seen: dict[str, _Seen] = {}

    def count_all(self, view: ClusterView) -> None:
        """Count every live job; the list of changes is empty afterwards."""
        view.changed()
        for job in view.jobs.values():
            self._count(job.spec.id, job, view)

    def refresh(self, view: ClusterView) -> list[Party]:
        """Count changed jobs; returns their parties."""
        changed: dict[str, None] = {}
        for name in view.changed():
            job = view.jobs.get(name)
            if job is not None:
                changed[self._count(name, job, view)] = None
            elif (seen := self._seen.pop(name, None)) is not None:
                changed[seen.party] = None
                self._adjust(self.by_name[seen.party], seen, _Seen(seen.party, (0,) * self._resources, ()))
                self.by_name[seen.party].order.drop(name)
        return [self.by_name[name] for name in changed]

    def _count(self, name: str, job: JobState, view: ClusterView) -> str:
        seen = self._seen.get(name)
        if seen is None:
            seen = _Seen(self._of(job), (0,) * self._resources, ())
        party = self.by_name.get(seen.party)
        if party is None:
            party = self.by_name[seen.party] = Party(seen.party, [0] * self._resources, Order())
        now = _Seen(seen.party, tuple(job.used), tuple(dict.fromkeys(stage.size for stage in job.open_stages())))
        self._adjust(party, seen, now)
        self._seen[name] = now
        if job.waiting:
            party.order.put(name, self._key(job, view))
        else:
            party.order.drop(name)
        return seen.party

    @staticmethod
    def _adjust(party: Party, old: _Seen, new: _Seen) -> None:
        if old.used != new.used:
            for r, (before, after) in enumerate(zip(old.used, new.used, strict=True)):
                party.used[r] += after - before
        if old.sizes == new.sizes:
            return
        for size in new.sizes:
            party.sizes[size] = party.sizes.get(size, 0) + 1
        for size in old.sizes:
            party.sizes[size] -= 1
            if not party.sizes[size]:
                del party.sizes[size]


def place_in_party(inside: str, tie: Tie) -> Callable[[JobState, ClusterView], Key]:
    """The key of a job inside its party."""
    if inside == "fifo":
        return lambda job, view: (job.seq,)
    return lambda job, view: (round(view.share(job) / job.spec.weight, DIGITS), view.tie(job, tie))


def fill(view: ClusterView, offer: Offer, in_turn: Callable[[ClusterView], Iterable[Party]]) -> Suggestions:
    """Progressive filling: a task of the first party with a task that fits, again and again until none has any.

    in_turn: the parties as they stand now, the next one first.
    """
    if offer.job is not None:
        yield from serve_asked(offer)
        return
    placed = True
    while placed and offer.has_room():
        placed = False
        for party in in_turn(view):
            placed = yield from _serve(party, view, offer)
            if placed:
                break


def _serve(party: Party, view: ClusterView, offer: Offer) -> Generator[Suggestion, Outcome, bool]:
    """Suggest one task of the party's first job with a task that fits; returns whether the task was placed."""
    for name in party.order:
        job = view.jobs[name]
        for stage in job.open_stages():
            if offer.fits(job, stage):
                outcome = yield Suggestion(name, stage.index)
                if outcome.placed:
                    return True
    return False


def serve_asked(offer: Offer) -> Generator[Suggestion, Outcome, None]:
    """Answer an outside scheduler on a stage: there is nothing to choose."""
    assert offer.job is not None
    assert offer.stage is not None
    yield Suggestion(offer.job, offer.stage)


def over_share(
    what: str, own: tuple[str, float, str], first: tuple[str, float, str]
) -> tuple[Reason, dict[str, object]]:
    """Why a party waits: another has a lower share. Of both the name, the share and its resource."""
    (name, share, resource), (other, lower, of) = own, first
    data: dict[str, object] = {"what": what, "name": name, "share": f"{share:.4g}", "resource": resource}
    return Reason.OVER_SHARE, data | {"other": other, "other_share": f"{lower:.4g}", "other_resource": of}
