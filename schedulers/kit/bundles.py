"""Bundled allocation: a single pass over waiting stages collects candidates for a node; then several tasks are picked.

A heartbeat with a search per task examines all waiting stages once per task. A bundle examines them once per node
(Graphene, OSDI'16, section 7). Three choices are open: the candidates to enter the bundle, the end of the pass, and the
pick, which need not be greedy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions
from schedulers.core.vectors import alignment, fits
from schedulers.kit.ordered import Ordered

if TYPE_CHECKING:
    from collections.abc import Generator

    from schedulers.core.policy import Outcome
    from schedulers.core.state import JobState, NodeState, StageState


class Candidate(msgspec.Struct, eq=False, gc=False):
    """A stage with tasks able to start; its tasks are equal."""

    job: JobState
    stage: StageState


class Room:
    """A room to be filled: a node on offer, or (node None) the idle executors. `capacity`: measure of packing."""

    __slots__ = ("_fits", "_packing", "_reserves", "_version", "_view", "capacity", "node")

    def __init__(self, view: ClusterView, node: NodeState | None) -> None:
        self._view, self.node = view, node
        # Executors have no room to spare: they are measured by a node of the mean size.
        whole = [max(1, there // max(1, len(view.nodes))) for there in view.capacity]
        self.capacity: Sequence[int] = whole if node is None else node.spec.capacity
        self._reserves = view.reserves
        self._version = -1
        self._fits: dict[int, bool] = {}
        self._packing: dict[int, float] = {}

    def is_open(self) -> bool:
        """Whether any waiting task could start here now."""
        if self.node is not None:
            return self._view.could_place(self.node)
        return bool(self._view.waiting) and any(size in self._view.active_sizes for size in self._idle())

    def fits(self, stage: StageState) -> bool:
        """Whether a task of the stage could start here now."""
        self._catch_up()
        found = self._fits.get(stage.size)
        if found is None:
            node = self.node
            found = self._view.fits(stage, node) if node is not None else stage.size in self._idle()
            self._fits[stage.size] = found
        return found

    def takes(self, candidate: Candidate) -> bool:
        """Whether a task of the candidate could start here now, reservations considered, or nodes are due to it."""
        job, stage, node = candidate.job, candidate.stage, self.node
        if self.fits(stage) and (node is None or not self._reserves or self._view.takes(job, stage, node)):
            return True
        return self._reserves and self._view.is_due(job, stage)

    def fitting(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Candidates with tasks able to start here now, and candidates with nodes due."""
        if self._reserves:
            return [candidate for candidate in candidates if candidate.stage.waiting and self.takes(candidate)]
        self._catch_up()
        known, fits, found = self._fits, self.fits, []
        for candidate in candidates:
            stage = candidate.stage
            if stage.waiting and (known[stage.size] if stage.size in known else fits(stage)):
                found.append(candidate)
        return found

    def packing(self, candidates: Iterable[Candidate]) -> list[float]:
        """Packing of each: demand times free room, as parts of the node, summed over resources (Tetris).

        An executor is as large as the task, so its free room is the demand.
        """
        self._catch_up()
        known, measure = self._packing, self._measure
        return [known[c.stage.size] if c.stage.size in known else measure(c.stage) for c in candidates]

    def _measure(self, stage: StageState) -> float:
        free = stage.demand if self.node is None else self.node.free
        found = self._packing[stage.size] = alignment(stage.demand, free, self.capacity)
        return found

    def _catch_up(self) -> None:
        # A task that started has changed the node; an executor that was taken changes no node.
        version = self.node.version if self.node is not None else len(self._view.idle())
        if version != self._version:
            self._version = version
            self._fits.clear()
            self._packing.clear()

    def _idle(self) -> list[int]:
        return [container.size for container in self._view.idle()]


#: Whether a candidate that fits enters the bundle.
Admit = Callable[[Candidate, Room], bool]
#: Whether the candidates found are enough, so that the pass stops.
Enough = Callable[[Sequence[Candidate], Room], bool]
#: Candidates to start, in order, repetitions allowed; the policy asks again with the candidates left.
#: The last argument is the score of each.
Pick = Callable[[Sequence[Candidate], Room, Sequence[float]], Sequence[Candidate]]


def enough_to_fill(times: float) -> Enough:
    """Stop when the candidates found would fill the free room `times` times, on some resource in demand."""

    def enough(found: Sequence[Candidate], room: Room) -> bool:
        if room.node is None:
            return False
        for r, free in enumerate(room.node.free):
            asked = sum(candidate.stage.demand[r] * candidate.stage.waiting for candidate in found)
            if asked and asked >= times * free:
                return True
        return False

    return enough


def pick_best(candidates: Sequence[Candidate], room: Room, scores: Sequence[float]) -> Sequence[Candidate]:
    """The candidate with the highest score, the first of equals: greedy, as the room is measured after each."""
    return [candidates[scores.index(max(scores))]]


def pick_fullest(candidates: Sequence[Candidate], room: Room, scores: Sequence[float]) -> Sequence[Candidate]:
    """Of several ways to fill the room, the way with the highest packing; never less than the greedy way.

    The ways: greedy by packing, and in fixed orders by score, by packing, and by demand of each resource, largest and
    smallest first. `packed` measures a way.
    """
    if room.node is None:
        return pick_best(candidates, room, scores)
    free = tuple(room.node.free)
    measures = [scores, room.packing(candidates)]
    for demands in zip(*(candidate.stage.demand for candidate in candidates), strict=True):
        measures += [demands, [-demand for demand in demands]]
    ways = [fill_greedily(candidates, free, room.capacity)]
    for measure in measures:
        order = sorted(range(len(candidates)), key=measure.__getitem__, reverse=True)
        ways.append(_fill([candidates[i] for i in order], free))
    return max(ways, key=lambda way: packed(way, free, room.capacity))


def packed(way: Iterable[Candidate], free: Sequence[int], capacity: Sequence[int]) -> float:
    """Packing of a way: the sum of each task's packing score with the free room before the first task."""
    return sum(alignment(candidate.stage.demand, free, capacity) for candidate in way)


def fill_greedily(candidates: Sequence[Candidate], free: Sequence[int], capacity: Sequence[int]) -> list[Candidate]:
    """Tasks picked singly, each the best packing with the room left so far."""
    left, waiting = list(free), [c.stage.waiting for c in candidates]
    way: list[Candidate] = []
    while True:
        able = [i for i, c in enumerate(candidates) if waiting[i] and fits(c.stage.demand, left)]
        if not able:
            return way
        best = max(able, key=lambda i: alignment(candidates[i].stage.demand, left, capacity))
        way.append(candidates[best])
        waiting[best] -= 1
        left = [there - wanted for there, wanted in zip(left, candidates[best].stage.demand, strict=True)]


def _fill(order: Iterable[Candidate], free: Sequence[int]) -> list[Candidate]:
    """As many tasks of each candidate as fit, in the given order."""
    left = list(free)
    way: list[Candidate] = []
    for candidate in order:
        demand = candidate.stage.demand
        for _ in range(candidate.stage.waiting):
            if not fits(demand, left):
                break
            way.append(candidate)
            left = [there - wanted for there, wanted in zip(left, demand, strict=True)]
    return way


class Choices(msgspec.Struct, frozen=True):
    """The three choices of bundled allocation. By default the best of all fitting candidates start, singly."""

    admit: Admit | None = None
    """Whether a fitting candidate enters; None: all enter."""
    enough: Enough | None = None
    """Whether the pass stops; None: at the end."""
    pick: Pick = pick_best


class Bundle(msgspec.Struct, eq=False):
    """Candidates found by a pass and able to start now."""

    room: Room
    found: list[Candidate]
    whole: bool
    """Whether the pass went through all waiting stages."""
    placed: int = 0
    """Number of tasks started from the bundle so far."""

    def shrink(self) -> None:
        """Take in a start: room only shrinks, so candidates without room now are dropped for good."""
        self.found = self.room.fitting(self.found) if self.room.is_open() else []


class Bundling(Policy):
    """A policy filling node after node from bundles.

    bundled: False makes a pass for every task instead (for comparison). examined: candidates looked at in all passes.
    """

    choices = Choices()
    bundled = True
    examined = 0

    @abstractmethod
    def candidates(self, view: ClusterView) -> Iterator[Candidate]:
        """All waiting stages, in the order of examination."""

    @abstractmethod
    def scores(self, candidates: Sequence[Candidate], room: Room) -> Sequence[float]:
        """Score of each candidate for a start here now; the highest goes first."""

    def collected(self, bundle: Bundle, view: ClusterView) -> None:
        """Hears the candidates of a pass, before the first pick."""

    def allowed(self, bundle: Bundle, view: ClusterView) -> list[Candidate]:
        """Candidates that may start next; none: make another pass, if the present pass placed anything."""
        return bundle.found

    def task(self, candidate: Candidate, room: Room) -> int | None:
        """The task of the stage to start here; None: the next task."""
        return None

    def started(self, candidate: Candidate, tasks: int, view: ClusterView) -> bool:
        """Hears of started tasks; returns whether other candidates may be allowed now."""
        return False

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Fill each node on offer: collect a bundle, pick from the bundle, until nothing more starts there."""
        if offer.job is not None:
            yield from self._serve_asked(view, offer)
            return
        for room in rooms(view, offer):
            placed = True
            while placed and offer.limit != 0 and room.is_open():
                bundle = self._collect(view, room)
                self.collected(bundle, view)
                placed = yield from self._assign(bundle, view, offer)
                if bundle.whole and self.bundled:
                    break  # nothing more of it fits, and there is nothing else

    def _collect(self, view: ClusterView, room: Room) -> Bundle:
        """A pass over all waiting stages."""
        admit, enough = self.choices.admit, self.choices.enough
        if admit is None and enough is None:
            candidates = list(self.candidates(view))
            self.examined += len(candidates)
            return Bundle(room, room.fitting(candidates), whole=True)
        found: list[Candidate] = []
        for candidate in self.candidates(view):
            self.examined += 1
            if room.takes(candidate) and (admit is None or admit(candidate, room)):
                found.append(candidate)
                if enough is not None and enough(found, room):
                    return Bundle(room, found, whole=False)
        return Bundle(room, found, whole=True)

    def _assign(self, bundle: Bundle, view: ClusterView, offer: Offer) -> Generator[Suggestion, Outcome, bool]:
        """Start the picked candidates; returns whether anything was placed."""
        room, pick = bundle.room, self.choices.pick
        while offer.limit != 0 and bundle.found and (allowed := self.allowed(bundle, view)):
            scores = self.scores(allowed, room)
            if view.reserves:
                due = [candidate for candidate in allowed if view.is_due(candidate.job, candidate.stage)]
                first = pick_best(allowed, room, scores)[0]
                if first in due:
                    yield from self._start(first, room)
                    bundle.found.remove(first)
                    bundle.shrink()
                    continue
                allowed = [candidate for candidate in allowed if candidate not in due]
                scores = self.scores(allowed, room)
            for candidate in pick(allowed, room, scores):
                tasks = yield from self._start(candidate, room)
                if not tasks:
                    bundle.found.remove(candidate)
                    break
                bundle.placed += tasks
                others = self.started(candidate, tasks, view)
                if not self.bundled:
                    return True
                if others:
                    break
            bundle.shrink()
        return bundle.placed > 0

    def _start(self, candidate: Candidate, room: Room) -> Generator[Suggestion, Outcome, int]:
        where = room.node.id if room.node is not None else None
        outcome = yield Suggestion(candidate.job.id, candidate.stage.index, where, self.task(candidate, room))
        return outcome.placed

    def _serve_asked(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Answer an outside scheduler on a stage: there is nothing to choose, but the start counts."""
        job = view.waiting.get(offer.job or "")
        outcome = yield Suggestion(offer.job or "", offer.stage or 0)
        if job is not None and outcome.placed:
            self.started(Candidate(job, job.stages[offer.stage or 0]), outcome.placed, view)


def rooms(view: ClusterView, offer: Offer) -> Iterator[Room]:
    """Rooms on offer: nodes in order of arrival, then idle executors, for tasks without room on any node."""
    for node in view.with_room() if offer.nodes is None else offer.nodes:
        yield Room(view, node)
    if view.has_executors and offer.nodes is None:
        yield Room(view, None)


class BundledOrder(Bundling, Ordered):
    """An order of jobs, served from bundles: mix into a subclass of Ordered with a key unchanged by starts.

    A single pass finds all fitting stages, and as many tasks start, in order, as the node takes. Ordered makes a pass
    per task.
    """

    def candidates(self, view: ClusterView) -> Iterator[Candidate]:
        """Open stages, jobs in order."""
        self._refresh(view)
        self._rank: dict[str, int] = {}
        for rank, name in enumerate(self._order.jobs()):
            self._rank[name] = rank
            job = view.jobs[name]
            for stage in job.open_stages():
                yield Candidate(job, stage)

    def scores(self, candidates: Sequence[Candidate], room: Room) -> Sequence[float]:
        """The first job in the order is the best."""
        return [-float(self._rank[candidate.job.id]) for candidate in candidates]

    def load(self, data: Any, view: ClusterView) -> None:
        """The order follows from the state."""
        Ordered.load(self, data, view)
