"""Policies that answer one question again and again: to which stage do these executors go, until its job has how many?

The action is Decima's (SIGCOMM'19, section 5.2), and the moments of asking are those of the released simulator
(decima-sim:spark_env). When the first executor of a stage without tasks to start is free, the policy decides about all
executors of the stage at once; each executor follows when its task ends. A policy may send executors to a stage before
the stage opens, if all tasks above are started or promised; the executors wait there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from schedulers.core.abilities import Remembers
from schedulers.core.events import Event, NodeAdded, NodeChanged, NodeLost, NodeRemoved
from schedulers.core.live import IDLE
from schedulers.core.old_names import OldName
from schedulers.core.policy import ClusterView, Offer, Outcome, Policy, Suggestion, Suggestions
from schedulers.kit.parties import serve_asked
from schedulers.kit.partition import executors_of
from schedulers.learned.classes import Classes, classes_of
from schedulers.learned.graph import Action, Graph, class_of
from schedulers.learned.observation import Observation, OfferedClasses, Source
from schedulers.learned.promises import Promises, StageId

if TYPE_CHECKING:
    from schedulers.core.state import ContainerState, JobState, NodeState

_Steps: TypeAlias = Generator[Suggestion, Outcome, None]


class Allotment(NamedTuple):
    """An answer: how many executors go to which stage."""

    place: StageId
    executors: int
    among: frozenset[str] | None = None
    """Nodes of new executors; None: any node."""


class Dispatch(Policy, Remembers):
    """Asks `choose` while there are both executors to give and stages for them."""

    asked = OldName("question_count")

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.promises = Promises()
        self.observation = Observation(self.promises)
        self.question_count = 0
        """Number of questions so far."""
        self.on_offer: tuple[int, list[StageId]] = (0, [])
        """Executors on offer: number of idle executors or of free places; the stage of each running executor."""
        self._classes: Classes | None = None
        self._nodes_changed = True  # since classes were looked for

    @abstractmethod
    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """The action: a job, a valid row, a limit of `candidates(least, executors)`, and a class of `able`, if any.

        The caller makes sure that some row is valid.
        """

    def observe(self, event: Event, view: ClusterView) -> None:
        """Look for executor classes again when nodes come, go or change."""
        if isinstance(event, NodeAdded | NodeChanged | NodeLost | NodeRemoved):
            self._nodes_changed = True

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Keep promises, then ask about the executors that are left."""
        if offer.job is not None:
            return serve_asked(offer)
        return self._place_executors(view, offer) if view.has_executors else self._fill_room(view, offer)

    def _catch_up(self, view: ClusterView) -> None:
        """Forget promises without a chance, and slots once there is something new to choose."""
        news = False
        for name in view.changed():
            job = view.jobs.get(name)
            job = None if job is None or job.cancelled else job
            self.promises.drop_impossible(name, job, view)
            news |= not view.has_executors and self.promises.has_opened_stage(name, job)
            self.observation.mark_changed(name)
        if news:
            self.promises.end_slots()

    def _update_observation(self, view: ClusterView) -> None:
        """Bring the observation up to date."""
        self._catch_up(view)
        self.observation.refresh(view)

    # -- executors that outlive tasks -----------------------------------------------------------

    def _place_executors(self, view: ClusterView, offer: Offer) -> _Steps:
        """Give idle executors, then room for new executors."""
        self._catch_up(view)
        free = yield from self._keep_promises(view)
        while free:
            batch = [container for container in free if _is_like(container, free[0])]
            free = [container for container in free if not _is_like(container, free[0])]
            yield from self._move_idle(view, batch)
        yield from self._add_executors(view, offer)

    def _keep_promises(self, view: ClusterView) -> Generator[Suggestion, Outcome, list[ContainerState]]:
        """Let executors go to the stages of their promises; returns the executors without a promise."""
        free = []
        for container in view.idle():
            waits_for = self.promises.waiting.get(container.job, {}).get(container.id)
            if waits_for is not None:
                if self._waits_on(view.jobs[container.job], waits_for):
                    continue
                self.promises.stop_waiting(container.job, container.id)
                self.memory_changed = True
                target: StageId | None = (container.job, waits_for)
            else:
                target = self.promises.take((container.job, container.stage))
                self.memory_changed |= target is not None
            if target is None or not (yield from self._send(view, container, target)):
                free.append(container)
        return free

    def _waits_on(self, job: JobState, index: int) -> bool:
        """Whether a stage will open: all tasks of its parents have started or have executors promised."""
        promised = self.promises.promised_to(job.id)
        return index not in job.open and all(
            job.stages[parent].waiting <= promised.get(parent, 0) for parent in job.spec.stages[index].above
        )

    def _send(
        self, view: ClusterView, container: ContainerState, target: StageId
    ) -> Generator[Suggestion, Outcome, bool]:
        """Let an idle executor serve a stage, now or when the stage opens. Returns whether the executor does."""
        job = view.jobs.get(target[0])
        if job is None or container.status != IDLE or not job.stages[target[1]].waiting:
            return False
        giver, ahead = container.job, target[1] not in job.open
        if ahead and not self._waits_on(job, target[1]):
            return False
        if not ahead or giver != job.id:
            outcome = yield Suggestion(job.id, target[1], executor=container.id, ahead=ahead)
            if not outcome.placed:
                return False
        if ahead:
            self.promises.wait(job.id, container.id, target[1])
        return True

    def _move_idle(self, view: ClusterView, batch: Sequence[ContainerState]) -> _Steps:
        """Ask where idle executors of one job go, together with executors that still run on the same stages."""
        idle, giver = list(batch), view.jobs[batch[0].job]
        running: list[StageId] = []
        for index in dict.fromkeys(container.stage for container in batch):
            if index >= 0 and not giver.stages[index].waiting:
                place = (giver.id, index)
                running += [place] * (giver.stages[index].running - self.promises.promised(place))
        while idle or running:
            self._update_observation(view)
            self.on_offer = len(idle), running
            found = self._pick_stage(view, Source(giver.id, len(idle) + len(running), {batch[0].size}))
            if found is None:
                return
            target, count, _ = found
            self.question_count += 1
            self.memory_changed = True  # of executors that stay in their job to wait, or still run, no decision tells
            for container in idle[:count]:
                yield from self._send(view, container, target)
            for place in running[: max(0, count - len(idle))]:
                self.promises.promise(place, target, 1)
            running = running[max(0, count - len(idle)) :]
            idle = idle[count:]

    def _add_executors(self, view: ClusterView, offer: Offer) -> _Steps:
        """Ask where new executors go."""
        refused: set[StageId] = set()
        while offer.limit != 0:
            nodes = view.with_room() if offer.nodes is None else offer.nodes
            if not nodes:
                return
            self._update_observation(view)
            rooms = self._rooms(view, nodes)
            room = max(rooms.values(), default=0)
            free = room if offer.limit is None else min(room, offer.limit)
            self.on_offer = free, []
            found = self._pick_stage(view, Source("", free, rooms.keys(), refused), self._offered(view, offer))
            if found is None:
                return
            place, count, among = found
            name, index = place
            stage, ahead = view.jobs[name].stages[index], index not in view.jobs[name].open
            outcome = yield Suggestion(name, index, count=min(count, rooms[stage.size]), ahead=ahead, among=among)
            if not outcome.placed:
                refused.add(place)
                continue
            self.question_count += 1
            for container in outcome.containers if ahead else ():
                self.promises.wait(name, container, index)

    # -- containers that end with their tasks ---------------------------------------------------

    def _fill_room(self, view: ClusterView, offer: Offer) -> _Steps:
        """Fill empty slots, then ask which stages get more of them."""
        yield from self._serve_due(view, offer)
        refused: set[StageId] = set()
        while offer.limit != 0:
            self._catch_up(view)
            yield from self._fill_slots(view, offer)
            if not offer.has_room():
                return
            self._update_observation(view)
            unfit = {
                (name, stage.index)
                for name, observed in self.observation.choices.items()
                for stage in observed.may_choose()
                if not offer.fits(observed.job, stage)
            }
            sizes = self.observation.sizes(view)
            free = self._count_free(view)
            self.on_offer = free, []
            found = self._pick_stage(view, Source("", free, sizes.keys(), refused | unfit), self._offered(view, offer))
            if found is None:
                return
            place, count, among = found
            name, index = place
            job = view.jobs[name]
            outcome = yield Suggestion(name, index, count=count, among=among)
            if outcome.placed:
                self.question_count += 1
                self.promises.add_slots(job, index, count - outcome.placed)
            else:
                refused.add(place)

    def _serve_due(self, view: ClusterView, offer: Offer) -> _Steps:
        """Suggest the stages for which the core reserves nodes after a long wait."""
        if view.reserves:
            for job in list(view.waiting.values()):
                for stage in job.open_stages():
                    if view.is_due(job, stage) and offer.fits(job, stage):
                        yield Suggestion(job.id, stage.index)

    def _fill_slots(self, view: ClusterView, offer: Offer) -> _Steps:
        for name, index in self.promises.stages_with_empty_slots():
            job = view.jobs[name]
            if index in job.open and offer.fits(job, job.stages[index]):
                yield from self._fill_smallest(view, offer, (name, index), self.promises.promised_to(name)[index])

    def _fill_smallest(self, view: ClusterView, offer: Offer, place: StageId, count: int) -> _Steps:
        """Start `count` containers of a stage, on nodes of the smallest classes with room."""
        offered = self._offered(view, offer)
        if offered is None:
            yield Suggestion(*place, count=count)
            return
        stage = view.jobs[place[0]].stages[place[1]]
        for number, room in enumerate(offered.room_by_class(view, stage)):
            if room and count > 0:
                among = offered.nodes(view, stage, number)
                count -= (yield Suggestion(*place, count=min(count, room), among=among)).placed

    def _count_free(self, view: ClusterView) -> int:
        """Number of containers for which there is room now or next, empty slots set aside."""
        room = max(self._rooms(view, view.with_room()).values(), default=0)
        here = elsewhere = 0  # empty slots with room on nodes on offer, and without
        for name, index in self.promises.stages_with_empty_slots():
            empty = self.promises.promised_to(name)[index]
            if view.nodes_fitting(view.jobs[name].stages[index]):
                here += empty
            else:
                elsewhere += empty
        return max(room - here, 1) + max(self.promises.count_ending() - elsewhere, 0)

    # -- what is asked --------------------------------------------------------------------------

    def _rooms(self, view: ClusterView, nodes: Sequence[NodeState]) -> dict[int, int]:
        """Room for new containers, by size of the stages that may be chosen."""
        rooms = {}
        for size, stage in self.observation.sizes(view).items():
            room = sum([node.fit_count(stage) for node in nodes]) if view.admits(stage) else 0
            if room:
                rooms[size] = room
        return rooms

    def _offered(self, view: ClusterView, offer: Offer) -> OfferedClasses | None:
        """The executor classes of new executors; None where there is no choice."""
        if self._nodes_changed:
            self._nodes_changed, self._classes = False, classes_of(view.nodes.values())
        if self._classes is None or view.reserves:
            return None
        return OfferedClasses(self._classes, offer.nodes)

    def _pick_stage(self, view: ClusterView, source: Source, classes: OfferedClasses | None = None) -> Allotment | None:
        """Ask: to which stage, and how many of these executors. None: there is nothing to choose from.

        classes: the executor classes of new executors.
        """
        sizes = self.observation.sizes(view)
        offered = source.sizes & sizes.keys()
        if not offered or not source.free:
            return None
        asked, executors = source._replace(sizes=offered), executors_of(view, map(view.demand, sizes))
        graph = self.observation.graph(view, asked, executors, classes)
        if not _may_choose(graph):
            # A job may hold more small executors than the cluster could hold of the size on offer now.
            most = max([job.least for job in graph.jobs if job.name in self.observation.choices], default=0)
            if most <= executors:
                return None
            graph = self.observation.graph(view, asked, most, classes)
            if not _may_choose(graph):
                return None
        action = self.choose(graph, view)
        job = graph.jobs[action.job]
        observed = self.observation.job(job.name)
        place = (job.name, observed.rows[action.row])
        if observed.job.is_waiting_gang(observed.job.stages[place[1]]):
            return Allotment(place, observed.unpromised[place[1]])
        chosen = class_of(graph, action)
        if chosen is None or classes is None:
            return Allotment(place, self.allot(graph, action))
        among = classes.nodes(view, observed.job.stages[place[1]], chosen)
        return Allotment(place, self.allot(graph, action), among)

    def allot(self, graph: Graph, action: Action) -> int:
        """Number of executors on offer that an action gives to its stage."""
        job = graph.jobs[action.job]
        left = self.observation.job(job.name).unpromised[int(job.stages[action.row])]
        count = min(left, max(1, action.limit - job.least + 1), self.on_offer[0] + len(self.on_offer[1]))
        chosen = class_of(graph, action)
        return count if chosen is None or job.rooms is None else min(count, int(job.rooms[action.row, chosen]))

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> Any:
        """Promises, and the number of questions."""
        return {**self.promises.dump(), "asked": self.question_count}

    def load(self, data: Any, view: ClusterView) -> None:
        """Take over a dump; the observation follows from the state."""
        self.promises.load(data, view.jobs)
        self.question_count = data["asked"]
        self.observation.mark_changed(*view.jobs)


def _is_like(one: ContainerState, other: ContainerState) -> bool:
    return (one.job, one.size) == (other.job, other.size)


def _may_choose(graph: Graph) -> bool:
    return any(job.valid.any() for job in graph.jobs)
