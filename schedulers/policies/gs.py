"""GS, the generic scheduler of SLearn: multi-level priority queues by estimated size, with a sampling queue.

The loop reads like the paper's (section 5.1 and 5.2): take the queue with the least use for its
weight, serve the job at its head. A job with pilots stands in the sampling queue until the pilots are
done; its held-back tasks meanwhile run only where nothing else can (work conservation).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.events import ContainerEnded, ContainerExpired, Event, Heartbeat, NodeLost, Tick
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, TieSetting, policies
from schedulers.core.reasons import Reason
from schedulers.core.state import JobState, StageState
from schedulers.core.vectors import fits
from schedulers.kit.levels import Levels, LevelSettings
from schedulers.kit.ordered import Order

#: A possible next start: a job's stage, the paying queue, and the kind of tasks (see `Suggestion.pilots`).
_Turn = tuple[JobState, StageState, int | None, bool | None]
#: All that decides on the place of a job without waiting pilots: its size, whether tasks wait, whether pilots are left,
#: and its work left, where that orders a queue.
_Inputs = tuple[float | None, bool, bool, float]


class _Occupancy(msgspec.Struct):
    """What ended containers held beside the run times of their tasks, ms in sum; granted: times of running ones, ms."""

    ms: int = 0
    containers: int = 0
    granted: dict[int, int] = {}

    @property
    def mean_ms(self) -> float:
        """Mean of a container; 0 before the first end."""
        return self.ms / max(1, self.containers)

    def hear(self, event: ContainerEnded | ContainerExpired) -> None:
        """Count a container whose task has succeeded; of all others no run time is told."""
        granted = self.granted.pop(event.container, None)
        if granted is not None and isinstance(event, ContainerEnded) and event.code == 0:
            self.ms += max(0, event.at - granted - event.runtime_ms)
            self.containers += 1


class _Place(msgspec.Struct):
    """Where a job stands. queue: of its size (None while unsized); entered, pilots_entered: counters for FIFO.

    standing: (queue, has other tasks to start, has pilots to start) as last put into the orders.
    """

    queue: int | None
    entered: int
    pilots_entered: int
    standing: tuple[int | None, bool, bool] | None = None


@policies.register("gs", source="SLearn (NSDI'22), sections 5.1 and 5.2")
class GenericScheduler(Policy, NeedsEstimates):
    """Priority queues by estimated job size, weighted sharing between them, FIFO inside; starves nobody.

    The queue with the least use for its weight is served first, inside a queue the first job. The policy needs a
    predictor and works with any predictor. With a predictor that samples (`slearn`, `slearn_dag`, `posterior`) a
    sampling queue serves the pilots; the other tasks of a sampled job are held back until its pilots have finished, or
    run where nothing else fits (`work_conserving`). A job without an estimate stands in the queue given by `unsized`.
    With `inside: least_left` a long job may starve behind shorter jobs of its queue.
    """

    class Params(LevelSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings; the silent points of the paper are named here."""

        sampling_queue: Annotated[
            int,
            msgspec.Meta(
                ge=0,
                description="number of the queue with the same weight as the sampling queue; 0 is the highest, "
                "larger: pilots get a smaller share",
            ),
        ] = 1
        sampling_shares: Annotated[
            bool,
            msgspec.Meta(
                description="place of pilots: true: in the queue `sampling_queue` itself, false: in a queue of their "
                "own"
            ),
        ] = False
        unsized: Annotated[
            Literal["first", "last"],
            msgspec.Meta(description="queue of a job without an estimate: the first or the last"),
        ] = "first"
        work_conserving: Annotated[
            bool,
            msgspec.Meta(
                description="held-back tasks run where nothing else fits, in order of arrival; false: they wait for "
                "the pilots"
            ),
        ] = True
        conserved_charge: Annotated[
            Literal["nobody", "sampling"],
            msgspec.Meta(
                description="queue charged for held-back tasks that run during sampling: none, or the sampling queue"
            ),
        ] = "nobody"
        inside: Annotated[
            Literal["arrival", "least_left"],
            msgspec.Meta(
                description="order inside a queue: by arrival in the queue (the paper), or least estimated work left "
                "first, jobs without an estimate before all others (ours)"
            ),
        ] = "arrival"
        occupancy: Annotated[
            bool,
            msgspec.Meta(
                description="sizes count launches and reports, too: for each task what containers that ended before "
                "held beside run times, in the mean (ours); false: run times alone (the paper)"
            ),
        ] = False
        pilot_kind: Annotated[
            str,
            msgspec.Meta(
                description="kind of the nodes for pilots, so that run times compare whatever the speeds say (SLearn, "
                "section 7); where no such node would hold a task, and for executors, any; empty: any",
                examples=["m5.large"],
            ),
        ] = ""
        tie: TieSetting = "submit"

    params: Params

    def __init__(self, params: Params, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._levels: Levels | None = None
        self._sampling = min(params.sampling_queue, params.queues - 1)
        self._held = Order()
        self._places: dict[str, _Place] = {}
        self._charges: dict[int, tuple[int, list[int]]] = {}  # container -> (queue, what it holds)
        self._entered = 0
        self._by_left = params.inside == "least_left"
        self._occupancy = _Occupancy() if params.occupancy else None
        # Fast path: of jobs without waiting pilots the last inputs of their place, unchanged by most facts.
        self._settled: dict[str, _Inputs] = {}

    # -- the loop -------------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Serve the head of the poorest queue with a fitting task; then held-back tasks."""
        levels = self._levels or self._begin(view)
        self._refresh(view, levels)
        while offer.has_room():
            for job, stage, queue, pilots in self._jobs_in_order(view, levels):
                ready = stage.waiting if pilots is None else len(stage.pilots) if pilots else stage.waiting_non_pilots
                if ready and offer.fits(job, stage):
                    among = self._nodes_for_pilots(stage, view, offer) if pilots else None
                    if among is not None and not among:
                        continue
                    outcome = yield Suggestion(job.id, stage.index, pilots=pilots, among=among)
                    for container in outcome.containers:
                        self._charge(container, queue, list(stage.demand))
                    if self._occupancy is not None and not view.has_executors:  # which outlive their tasks
                        self._occupancy.granted |= dict.fromkeys(outcome.containers, view.now)
                    if outcome.placed:
                        break
            else:
                return
            self._refresh(view, levels)

    def _jobs_in_order(self, view: ClusterView, levels: Levels) -> Iterator[_Turn]:
        jobs = view.jobs
        for queue in levels.poorest_first(view.capacity):
            for _, name in levels.orders[queue].entries:
                job = jobs[name]
                pilots = self._pilots_or_others(job, queue)
                for stage in job.open_stages():
                    yield job, stage, queue, pilots
        if self.params.work_conserving:
            payer = self._sampling if self.params.conserved_charge == "sampling" else None
            for _, name in self._held.entries:
                for stage in jobs[name].open_stages():
                    yield jobs[name], stage, payer, False

    def _pilots_or_others(self, job: JobState, queue: int) -> bool | None:
        """The tasks of a job in a queue: its pilots, its other tasks, or (None) both, pilots first."""
        mine = self._places[job.id].queue == queue
        if queue == self._sampling and self._has_pilots(job):
            return None if mine and not self.params.pilot_kind else True
        return False if job.pilots_left else None

    def _nodes_for_pilots(self, stage: StageState, view: ClusterView, offer: Offer) -> frozenset[str] | None:
        """Nodes of the kind for pilots with room on offer; None for any node."""
        kind = self.params.pilot_kind
        if not kind or view.has_executors:
            return None
        alike = [node for node in view.nodes.values() if node.spec.kind == kind]
        if not any(stage.size not in node.barred and fits(stage.demand, node.spec.room) for node in alike):
            return None
        return frozenset(
            node.id for node in alike if view.fits(stage, node) and (offer.nodes is None or node in offer.nodes)
        )

    # -- standing -------------------------------------------------------------------------------

    def _begin(self, view: ClusterView) -> Levels:
        levels = self._levels = Levels(self.params, len(view.capacity))
        if not self.params.sampling_shares:
            self._sampling = levels.add_queue(levels.weights[self._sampling])
        return levels

    def _refresh(self, view: ClusterView, levels: Levels) -> None:
        jobs, settled = view.jobs, self._settled
        for name in view.changed():
            job = jobs.get(name)
            if job is None:
                self._forget(levels, name)
                if view.has_executors:
                    self._sweep(view)
            elif (job.pilots_left and self._has_pilots(job)) or settled.get(name) != self._inputs(job, view):
                self._update_rank(job, view, levels)

    def _update_rank(self, job: JobState, view: ClusterView, levels: Levels) -> None:
        place = self._places.get(job.id)
        if place is None:
            place = self._places[job.id] = _Place(None, 0, 0)
        queue = self._queue(job, levels)
        if queue != place.queue:
            self._leave(levels, job.id, place)
            place.queue, place.entered = queue, self._next()
        pilots = bool(job.pilots_left) and self._has_pilots(job)
        if pilots and not place.pilots_entered:
            place.pilots_entered = self._next()
        others = bool(job.waiting) if not pilots else any(stage.waiting_non_pilots for stage in job.open_stages())
        standing = (queue, others, pilots)
        if standing != place.standing or self._by_left:
            place.standing = standing
            self._enlist(job, view, levels, place, others=others, pilots=pilots)
        if pilots:
            self._settled.pop(job.id, None)
        else:
            self._settled[job.id] = self._inputs(job, view)

    def _enlist(
        self, job: JobState, view: ClusterView, levels: Levels, place: _Place, *, others: bool, pilots: bool
    ) -> None:
        """Put the job into the orders of the queues of its places, as far as there is something to start."""
        queue, tie = place.queue, view.tie(job, self.params.tie)
        if queue is not None:
            key = (self._left_ms(job, view), place.entered, tie)
            self._keep(levels.orders[queue], job, others or (queue == self._sampling and pilots), key)
        if queue != self._sampling:
            self._keep(levels.orders[self._sampling], job, pilots, (0.0, place.pilots_entered, tie))
        self._keep(self._held, job, queue is None and others, (job.seq,))

    def _queue(self, job: JobState, levels: Levels) -> int | None:
        """The queue of a job's ordinary tasks now, or None while held back for its pilots."""
        plan = job.plan
        if plan is not None and plan.thin:
            return 0
        if plan is not None and job.pilots_left and plan.rest == "held":
            return None
        size_ms = job.size_ms
        if size_ms is None:
            return 0 if self.params.unsized == "first" else self.params.queues - 1
        return levels.of(size_ms + self._beside_ms(job.spec.tasks))

    def _beside_ms(self, tasks: int) -> float:
        """What containers of so many tasks will hold beside run times, where sizes count it."""
        return tasks * self._occupancy.mean_ms if self._occupancy is not None else 0.0

    def _inputs(self, job: JobState, view: ClusterView) -> _Inputs:
        # Asked about at every fact: without a call more where work left orders nothing. The occupancy, which changes
        # with each end, is no input: a job's place follows when anything else about the job changes.
        left_ms = self._left_ms(job, view) if self._by_left else 0.0
        return job.size_ms, job.waiting > 0, job.pilots_left > 0, left_ms

    def _left_ms(self, job: JobState, view: ClusterView) -> float:
        """Estimated work left where that orders a queue, else 0; 0, too, without an estimate."""
        left = view.remaining_ms(job) if self._by_left else None
        return 0.0 if left is None else left + self._beside_ms(job.left)

    @staticmethod
    def _has_pilots(job: JobState) -> bool:
        if job.pilots_left:
            for index in job.open:
                if job.stages[index].pilots:
                    return True
        return False

    @staticmethod
    def _keep(order: Order, job: JobState, stays: bool, key: tuple[Any, ...]) -> None:
        if stays:
            order.put(job.id, key)
        else:
            order.drop(job.id)

    @staticmethod
    def _leave(levels: Levels, name: str, place: _Place) -> None:
        if place.queue is not None:
            levels.orders[place.queue].drop(name)

    def _forget(self, levels: Levels, name: str) -> None:
        place = self._places.pop(name, None)
        self._settled.pop(name, None)
        if place is not None:
            self._leave(levels, name, place)
            levels.orders[self._sampling].drop(name)
            self._held.drop(name)

    def _next(self) -> int:
        self._entered += 1
        return self._entered

    # -- what queues use ------------------------------------------------------------------------

    def _charge(self, container: int, queue: int | None, demand: list[int]) -> None:
        """Count a container to a queue; an executor taken up again changes queues."""
        if container in self._charges:
            self._discharge(container)
        if queue is not None and self._levels is not None:
            self._levels.charge(queue, demand)
            self._charges[container] = (queue, demand)

    def _discharge(self, container: int) -> None:
        there = self._charges.pop(container, None)
        if there is not None and self._levels is not None:
            self._levels.charge(*there, -1)

    def observe(self, event: Event, view: ClusterView) -> None:
        """Give back the room of ended containers, and let jobs change queues in the order of the facts.

        Waiting for the next offer to do so would make the order in a queue depend on how often offers are made.
        """
        kind = type(event)
        if kind is Heartbeat or kind is Tick:
            return
        if isinstance(event, (ContainerEnded, ContainerExpired)):
            if self._occupancy is not None:
                self._occupancy.hear(event)
            self._discharge(event.container)
        elif isinstance(event, NodeLost):
            self._sweep(view)
        self._refresh(view, self._levels or self._begin(view))

    def _sweep(self, view: ClusterView) -> None:
        """Give back the room of containers ended without an event of their own."""
        for container in [c for c in self._charges if c not in view.containers]:
            self._discharge(container)
        if self._occupancy is not None:
            kept = {c: at for c, at in self._occupancy.granted.items() if c in view.containers}
            self._occupancy.granted = kept

    # -- telling --------------------------------------------------------------------------------

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """A job without waiting tasks other than held-back tasks waits for its pilots."""
        plan = job.plan
        if plan is None or plan.rest != "held" or not job.pilots_left or self._has_pilots(job):
            return None
        return Reason.WAITS_FOR_PILOTS, {"left": job.pilots_left, "pilots": len(plan.pilots)}

    def about(self, job: JobState) -> dict[str, Any]:
        """The job's queue; None during sampling."""
        place = self._places.get(job.id)
        return {} if place is None else {"queue": place.queue}

    def dump(self) -> Any:
        """Places, charges, counter, and the occupancy where sizes count it."""
        return {
            "places": msgspec.to_builtins(self._places),
            "charges": [[container, queue, demand] for container, (queue, demand) in self._charges.items()],
            "entered": self._entered,
            "begun": self._levels is not None,
            **({} if self._occupancy is None else {"occupancy": msgspec.to_builtins(self._occupancy)}),
        }

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        if not data["begun"]:
            return
        levels = self._begin(view)
        self._entered = data["entered"]
        if self._occupancy is not None:
            self._occupancy = msgspec.convert(data["occupancy"], _Occupancy, strict=False)
        self._places = msgspec.convert(data["places"], dict[str, _Place])
        for container, queue, demand in data["charges"]:
            self._charge(container, queue, demand)
        # A job whose standing has changed since the last round is moved by the next one, in order of change.
        for name, place in self._places.items():
            job = view.jobs.get(name)
            if job is not None and place.standing is not None:
                _, others, pilots = place.standing
                self._enlist(job, view, levels, place, others=others, pilots=pilots)
