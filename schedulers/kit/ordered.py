"""Policies that choose the next job; most keep an order of jobs: serve the first job that fits, over and over.

A subclass of `Ordered` says `key`; the order is kept sorted as jobs change, so a decision costs O(log jobs).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from heapq import heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from schedulers.core.abilities import OrdersAhead, TellsTurn
from schedulers.core.policy import ClusterView, Offer, Outcome, Policy, Suggestion, Suggestions, Tie, TieSetting
from schedulers.core.reasons import Reason
from schedulers.kit.by_size import BySize

if TYPE_CHECKING:
    from schedulers.core.state import JobState, StageState

#: Waiting jobs from which on the sizes with room are looked at first: below, a walk over all jobs costs less.
_MANY: Final = 256
#: Jobs for each such size from which on the jobs of these sizes are looked up instead of walking over all jobs.
_FEW: Final = 4

Key = tuple[Any, ...]
Measure = Annotated[
    Literal["dominant", "slots"],
    msgspec.Meta(
        description="measure of a job's use: its dominant share of the cluster, or its number of containers (slots)"
    ),
]


class TieParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings."""

    tie: TieSetting = "submit"


class Order:
    """Job ids sorted by key, smallest first."""

    __slots__ = ("_keys", "entries")

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}
        self.entries: list[tuple[Key, str]] = []
        """Keys and ids in order."""

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, job: str, key: Key) -> None:
        """Insert, or move to where the new key belongs."""
        old = self._keys.get(job)
        if old == key:
            return
        if old is not None:
            self._cut(old, job)
        self._keys[job] = key
        insort(self.entries, (key, job))

    def fill(self, keys: Mapping[str, Key]) -> None:
        """Hold the given jobs and no others."""
        self._keys = dict(keys)
        self.entries = sorted((key, job) for job, key in keys.items())

    def drop(self, job: str) -> None:
        """Take a job out; nothing happens to a missing job."""
        old = self._keys.pop(job, None)
        if old is not None:
            self._cut(old, job)

    def behind(self, job: str) -> int:
        """Number of jobs after a job in the order."""
        return len(self.entries) - 1 - bisect_left(self.entries, (self._keys[job], job))

    def _cut(self, key: Key, job: str) -> None:
        del self.entries[bisect_left(self.entries, (key, job))]

    def jobs(self) -> list[str]:
        """All ids in order (a copy: the order may change during a walk)."""
        return [job for _, job in self.entries]

    def __iter__(self) -> Iterator[str]:
        """Ids in order; the order must not change meanwhile."""
        for _, job in self.entries:
            yield job


class Contest(ABC):
    """Jobs with stages open to assignment, and the order among them."""

    @abstractmethod
    def enter(self, job: JobState, stages: Sequence[StageState]) -> None:
        """Enter a job, not there yet, with its stages, by index."""

    @abstractmethod
    def take(self) -> tuple[JobState, StageState] | None:
        """The next stage; its job leaves with all its stages. None: no job is left."""


class Sequencing(Policy, OrdersAhead):
    """A policy with an order among stages."""

    queued_tasks: Mapping[tuple[str, int], Sized] = MappingProxyType({})
    """Assigned tasks by job and stage, from the assigning placer."""

    @abstractmethod
    def contest(self, view: ClusterView) -> Contest:
        """An empty contest, for assignments at this time."""


class Ordered(Sequencing, TellsTurn):
    """Serves jobs in the order of `key`; inside a job stages in the order of `arrange`.

    bundles: placing a task does not change the job's key, so a whole stage is suggested at once.
    """

    bundles = False

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._order = Order()
        self._by_size: BySize | None = None

    @abstractmethod
    def key(self, job: JobState, view: ClusterView) -> Key:
        """Smaller goes first; must end in a tie-break and change only when the job does."""

    def key_among(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Key:
        """The job's key with only the given stages to start; `key` unless the key follows from the stages."""
        return self.key(job, view)

    def arrange(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Iterable[StageState]:
        """The given stages of a job, given by index, in the order of serving; by index unless overridden."""
        return stages

    def contest(self, view: ClusterView) -> Contest:
        """See Sequencing."""
        return _ByKey(self, view)

    def stages(self, job: JobState, view: ClusterView) -> Iterable[StageState]:
        """The job's stages with launchable tasks, in order."""
        return self.arrange(job, tuple(job.open_stages()), view) if len(job.open) > 1 else job.open_stages()

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the first job with a task on offer that fits, until nothing fits."""
        sizes, more, least = None, True, dict[int, int]()
        if len(self._order) >= _MANY:
            sizes = offer.sizes()
        else:
            self._by_size = None
        while more:
            self._refresh(view)
            more = yield from self._serve_first(view, offer, sizes, least)
            if sizes is None:
                more = more and offer.has_room()
            else:
                sizes = offer.sizes(sizes)
                more = more and bool(sizes)

    def _serve_first(
        self, view: ClusterView, offer: Offer, sizes: set[int] | None, least: dict[int, int]
    ) -> Generator[Suggestion, Outcome, bool]:
        """Suggest the first stage that fits; returns whether any task started.

        sizes: those that may have room; a size found to have none is taken out, since room only falls meanwhile.
        least: by size, the tasks of the smallest gang that had no room; so larger gangs are passed over.
        """
        for name in self._among(sizes, view):
            job = view.jobs[name]
            for stage in self.stages(job, view):
                if sizes is not None and stage.size not in sizes:
                    continue
                if stage.waiting >= least.get(stage.size, math.inf) and job.is_waiting_gang(stage):
                    continue
                if offer.fits(job, stage):
                    outcome = yield Suggestion(name, stage.index, count=stage.waiting if self.bundles else 1)
                    if outcome.placed:
                        return True
                    # Where nodes are reserved, a larger gang may have room of its own.
                    if outcome.reason is Reason.NO_ROOM_FOR_GANG and not view.reserves:
                        least[stage.size] = stage.waiting
                elif sizes is not None:
                    sizes.discard(stage.size)
        return False

    def _among(self, sizes: Collection[int] | None, view: ClusterView) -> Iterator[str]:
        """Ids in order, at least of the jobs that wait for any of the sizes."""
        # Where many sizes have room, a walk soon comes to a job that fits.
        if sizes is None or _FEW * len(sizes) > len(self._order):
            return iter(self._order)
        if self._by_size is None:
            self._by_size = BySize((key, view.jobs[name]) for key, name in self._order.entries)
        return self._by_size.among(sizes)

    def line(self, view: ClusterView) -> Sequence[str]:
        """See TellsTurn.line: by key, then newly waiting jobs, in order of submission."""
        known = [name for name in self._order if name in view.waiting]
        new = view.waiting.keys() - set(known)
        return [*known, *sorted(new, key=lambda name: view.jobs[name].seq)]

    def _refresh(self, view: ClusterView) -> None:
        waiting = view.waiting
        for name in view.changed():
            job = waiting.get(name)
            if job is None:
                self._leave(name, view)
            else:
                key = self.key(job, view)
                self._order.put(name, key)
                if self._by_size is not None:
                    self._by_size.put(job, key)

    def _leave(self, name: str, view: ClusterView) -> None:
        """A job has nothing waiting, or is gone."""
        self._order.drop(name)
        if self._by_size is not None:
            self._by_size.drop(name)

    def _sort(self, view: ClusterView) -> None:
        """Put all waiting jobs in order anew."""
        self._by_size = None
        self._order.fill({name: self.key(job, view) for name, job in view.waiting.items()})

    def load(self, data: Any, view: ClusterView) -> None:
        """The order follows from the state."""
        self._sort(view)


class _ByKey(Contest):
    """The job with the least key is next."""

    def __init__(self, order: Ordered, view: ClusterView) -> None:
        self._order, self._view = order, view
        self._heap: list[tuple[Key, str]] = []
        self._stages: dict[str, Sequence[StageState]] = {}

    def enter(self, job: JobState, stages: Sequence[StageState]) -> None:
        """See Contest."""
        self._stages[job.id] = stages
        heappush(self._heap, (self._order.key_among(job, stages, self._view), job.id))

    def take(self) -> tuple[JobState, StageState] | None:
        """See Contest."""
        if not self._heap:
            return None
        job = self._view.jobs[heappop(self._heap)[1]]
        return job, next(iter(self._order.arrange(job, self._stages.pop(job.id), self._view)))


class ByShare(Ordered):
    """An order of jobs by their part of the cluster: the least part, per unit of weight, goes first."""

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._capacity: list[int] = []

    def _refresh(self, view: ClusterView) -> None:
        # A node that comes or goes changes every job's share, not only the shares of the jobs it touches.
        if self._capacity == view.capacity:
            super()._refresh(view)
            return
        self._capacity = list(view.capacity)
        view.changed()
        self._sort(view)


def place_by_share(job: JobState, view: ClusterView, measure: Measure, tie: Tie) -> Key:
    """The key of a job: its containers or its dominant share, per unit of weight."""
    held = job.executors if measure == "slots" else view.share(job)
    return (held / job.spec.weight, view.tie(job, tie))
