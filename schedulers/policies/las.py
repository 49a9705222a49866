"""Least attained service: jobs sink through priority queues with growing service."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import msgspec

from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, TieSetting, policies
from schedulers.core.state import JobState
from schedulers.kit.levels import Levels, LevelSettings


class _Place(msgspec.Struct):
    """Place of a job: queue, order of arrival there (a counter), charged resources, time of the next look (ms)."""

    queue: int
    entered: int
    charged: list[int]
    look: int | None = None


@policies.register("las", source="SLearn, section 5.1.3 (LAS); thresholds and weights of its section 5.1.1")
class LeastAttainedService(Policy):
    """Serves jobs by attained service: a job sinks through priority queues as its tasks use up run time.

    Attained service is the run time so far of all tasks of a job, running tasks included; no estimate is needed. A job
    moves down the moment its service crosses the bound of its queue. The queue with the least use for its weight goes
    first, inside a queue the job that entered first.
    """

    class Params(LevelSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        tie: TieSetting = "submit"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._levels: Levels | None = None
        self._places: dict[str, _Place] = {}
        self._crossings: list[tuple[int, str]] = []
        self._entered = 0

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the head of the poorest queue with a fitting task."""
        levels = self._levels or self._begin(view)
        self._sink(view, levels)
        self._refresh(view, levels)
        while offer.has_room():
            served = yield from self._serve(view, levels, offer)
            if not served:
                return
            self._refresh(view, levels)

    @staticmethod
    def _serve(view: ClusterView, levels: Levels, offer: Offer) -> Any:
        for queue in levels.poorest_first(list(view.capacity)):
            for name in levels.orders[queue].jobs():
                for stage in view.jobs[name].open_stages():
                    if offer.fits(view.jobs[name], stage):
                        outcome = yield Suggestion(name, stage.index)
                        if outcome.placed:
                            return True
        return False

    def _begin(self, view: ClusterView) -> Levels:
        self._levels = Levels(self.params, len(view.capacity))
        return self._levels

    def _refresh(self, view: ClusterView, levels: Levels) -> None:
        for name in view.changed():
            job = view.jobs.get(name)
            place = self._places.get(name)
            if job is None:
                if place is not None:
                    self._leave(levels, name, place)
                    del self._places[name]
                continue
            if place is None:
                place = self._places[name] = _Place(0, self._next(), [0] * len(job.used))
            self._update_rank(view, levels, job, place)

    def _sink(self, view: ClusterView, levels: Levels) -> None:
        """Move down every job with attained service beyond its bound by now."""
        while self._crossings and self._crossings[0][0] <= view.now:
            at, name = heappop(self._crossings)
            job = view.jobs.get(name)
            place = self._places.get(name)
            if job is not None and place is not None and place.look == at:
                place.look = None
                self._update_rank(view, levels, job, place)

    def _update_rank(self, view: ClusterView, levels: Levels, job: JobState, place: _Place) -> None:
        queue = max(place.queue, levels.of(job.attained_ms(view.now)))
        if queue != place.queue:
            self._leave(levels, job.id, place)
            place.queue, place.entered, place.charged = queue, self._next(), [0] * len(job.used)
        levels.charge(queue, place.charged, -1)
        levels.charge(queue, job.used)
        place.charged = list(job.used)
        if job.waiting:
            levels.orders[queue].put(job.id, (place.entered, view.tie(job, self.params.tie)))
        else:
            levels.orders[queue].drop(job.id)
        self._watch(levels, job, place)

    def _watch(self, levels: Levels, job: JobState, place: _Place) -> None:
        """Note the time when the job will cross its queue's bound if nothing else happens; a note per job."""
        if job.started and place.queue < len(levels.bounds):
            need = levels.bounds[place.queue] - job.done_ms + job.started_sum
            at = int(-(-need // job.started))
            if place.look is None or at < place.look:
                place.look = at
                heappush(self._crossings, (at, job.id))

    @staticmethod
    def _leave(levels: Levels, name: str, place: _Place) -> None:
        levels.orders[place.queue].drop(name)
        levels.charge(place.queue, place.charged, -1)

    def _next(self) -> int:
        self._entered += 1
        return self._entered

    def about(self, job: JobState) -> dict[str, Any]:
        """The queue the job is in."""
        place = self._places.get(job.id)
        return {} if place is None else {"queue": place.queue}

    def dump(self) -> Any:
        """Places and the counter."""
        return {"places": msgspec.to_builtins(self._places), "crossings": self._crossings, "entered": self._entered}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        levels = self._begin(view)
        self._places = msgspec.convert(data["places"], dict[str, _Place])
        self._crossings = [(int(at), str(name)) for at, name in data["crossings"]]
        self._entered = data["entered"]
        for name, place in self._places.items():
            levels.charge(place.queue, place.charged)
            job = view.jobs.get(name)
            if job is not None and job.waiting:
                levels.orders[place.queue].put(name, (place.entered, view.tie(job, self.params.tie)))
