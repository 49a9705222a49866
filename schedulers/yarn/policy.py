"""A YARN scheduler as a policy: facts of the core go into its books, its decisions come out as suggestions.

The books are those of `schedulers.yarn`, in YARN's units (MB, whole vcores); the core alone judges whether tasks fit.
Where nodes beat, each beat is a beat in the books, whether anything fits or not: missed opportunities and reservations
are counted by beats. Where nodes are offered in cycles (Kubernetes), each cycle is a beat of every node with room.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from schedulers.core.abilities import KeepsNodes, OneTaskEach, PassesBeats
from schedulers.core.events import (
    ContainerAdopted,
    ContainerEnded,
    ContainerExpired,
    ContainerStarted,
    Event,
    Heartbeat,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    QueueChanged,
    QueueRemoved,
    Tick,
)
from schedulers.core.model import Job, Stage
from schedulers.core.policy import ClusterView, Offer, Outcome, Policy, Suggestion, Suggestions, Triggers, Victim
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector, show_steps
from schedulers.core.state import JobState, NodeState, StageState
from schedulers.yarn import memory
from schedulers.yarn.books import Books
from schedulers.yarn.records import ANY, App, Grant, Kill, Refusal, Why
from schedulers.yarn.tree import path_of
from schedulers.yarn.vectors import all_fit

RACK: Final = "/default-rack"
#: Priorities of a MapReduce job: 20 for maps, 10 for reduces; a smaller number is served first.
_STEP: Final = 10
_MASTER: Final = 0

Y = TypeVar("Y", bound=Books)
#: Asks that the core does not follow now, by application and priority: size, and how many by place.
Aside = dict[tuple[str, int], tuple[Vector, dict[str, int]]]
Served = Generator[Suggestion, Outcome, int]


#: A container's size in settings: [MB, vcores].
Size = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=2, max_length=2)]


class Units:
    """The core's vectors (milli-CPU, MiB, pieces) in YARN's order and units (MB, vcores, pieces).

    whole: CPU in whole vcores, as YARN counts it where containers have a smallest size; else in thousandths.
    """

    def __init__(self, resources: Sequence[str], *, whole: bool) -> None:
        self._per_core = 1000 if whole else 1
        first = [name for name in ("memory", "cpu") if name in resources]
        order = [*first, *(name for name in resources if name not in first)]
        self.names = tuple("vcores" if name == "cpu" else name for name in order)
        self._where = [resources.index(name) for name in order]
        self._cpu = self.names.index("vcores") if whole and "vcores" in self.names else None

    def size(self, pair: Sequence[int] | None, rest: int) -> Vector:
        """[MB, vcores] of a setting; resources without a number get `rest`."""
        named = {} if pair is None else {"memory": pair[0], "vcores": pair[1] * 1000 // self._per_core}
        return tuple(named.get(name, rest) for name in self.names)

    def demand(self, vector: Vector) -> Vector:
        """CPU rounded up."""
        return self._converted(vector, self._per_core - 1)

    def available(self, vector: Sequence[int]) -> Vector:
        """CPU rounded down."""
        return self._converted(vector, 0)

    def show(self, name: str, amount: int) -> str:
        """An amount of a resource as a Kubernetes quantity; a bare number without a resource's name."""
        return show_steps("cpu", amount * self._per_core) if name == "vcores" else show_steps(name, amount)

    def _converted(self, vector: Sequence[int], more: int) -> Vector:
        moved = [vector[index] for index in self._where]
        cpu = self._cpu
        if cpu is not None:
            moved[cpu] = (moved[cpu] + more) // self._per_core
        return tuple(moved)


#: With another cluster or other queues tasks may wait anew, and shares are other amounts.
_UPHEAVALS: Final = frozenset({QueueChanged, QueueRemoved, NodeLost, NodeRemoved, NodeChanged})


#: Facts without effect on the books by themselves.
_UNNOTED: Final = frozenset({ContainerStarted, Heartbeat, Tick})
_ENDS: Final = (ContainerEnded, ContainerExpired)


def _by_amount(view: ClusterView) -> bool:
    """Whether the share of a queue depends on how large the cluster is."""
    return any(isinstance(limit, tuple) for q in view.queues.values() for limit in (q.guaranteed, q.max))


class YarnPolicy(Policy, Generic[Y], OneTaskEach, KeepsNodes, PassesBeats):
    """The common part of `capacity`, `fair_yarn` and `rayon`."""

    triggers = Triggers(every_beat=True)

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._yarn: Y | None = None
        self._units = Units(("cpu", "memory"), whole=self._whole)
        self._grants: list[Grant] = []
        self._victims: list[Victim] = []
        self._by_beat = False  # the last fact was a beat
        self._restored = False  # what changed before is not known
        self._ours: dict[int, int] = {}  # container in the books -> the core's
        self._theirs: dict[int, int] = {}  # the other way round
        self._apps: dict[int, str] = {}  # container in the books -> its application, when the books have forgotten it

    # -- what the two do differently ------------------------------------------------------------

    @property
    @abstractmethod
    def _whole(self) -> bool:
        """Whether containers come in sizes of whole vcores."""

    @abstractmethod
    def _make(self, view: ClusterView, units: Units) -> Y:
        """Empty books in these units."""

    def _path(self, job: Job, view: ClusterView) -> str:
        """The path of a job's leaf queue."""
        return path_of(job.queue, view.queues)

    def _catch_up(self, yarn: Y, now: int) -> None:
        """Do the work due before now, by YARN's own clock."""

    def _refresh(self, yarn: Y, now: int) -> None:
        """Do the work that YARN's own clock would bring sooner or later."""

    # -- facts ----------------------------------------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """See Policy.observe."""
        kind = type(event)
        self._by_beat = kind is Heartbeat
        if self._by_beat and self._is_idle(view):
            return  # every beat of every node is heard, and most are of this kind
        if kind in _UPHEAVALS or (kind is NodeAdded and _by_amount(view)):
            self._yarn = None  # YARN has no new queues at run time: the books are made anew from what there is
            return
        fresh = self._yarn is None
        yarn = self._books(view)
        self._catch_up(yarn, event.at)
        if not fresh and kind not in _UNNOTED:
            self._note(yarn, event, view)
            yarn = self._books(view)
        changed = view.changed()  # a queue may have let in a job that the fact does not name
        jobs = view.jobs
        for name in list(jobs) if self._restored else changed:
            job = jobs.get(name)
            if job is not None:
                self._let_in(yarn, job, view)
        self._restored = False
        if isinstance(event, Heartbeat):
            self._beat(yarn, event.node, view)
        elif isinstance(event, Tick):
            self._monitor(yarn, view)

    def _is_idle(self, view: ClusterView) -> bool:
        """Whether a beat changes nothing: nothing is asked for, and no node is kept for anybody.

        Work due by YARN's own clock is still due with the next fact, and meets the same books then.
        """
        yarn = self._yarn
        return not (yarn is None or yarn.asking or yarn.reserved or view.has_changed or self._restored)

    def beats_pass(self, view: ClusterView) -> bool:
        """See PassesBeats.beats_pass."""
        return not self._victims and self._is_idle(view)

    def _note(self, yarn: Y, event: Event, view: ClusterView) -> None:
        """Take a fact over into the books."""
        if isinstance(event, NodeAdded):
            if event.node.id not in yarn.nodes:
                self._add_node(yarn, event.node.id, view)
            return
        name: str | None = getattr(event, "job", None)
        if isinstance(event, JobSubmitted):
            name = event.job.id
            if not yarn.takes(self._path(event.job, view)):
                self._yarn = None  # the first job of a queue that nobody declared
                return
        elif isinstance(event, _ENDS):
            name = self._ended(yarn, event.container)
            if name is not None and name in view.jobs and yarn.apps[name].has_lost_am:
                self._yarn = None  # a new attempt in place of the former, with the containers that are kept
                return
        elif isinstance(event, ContainerAdopted):
            self._let_in(yarn, view.jobs[event.job], view)
            self._adopt(yarn, event.container, event.node, view.jobs[event.job], event.stage)
        if name is not None and name in yarn.apps and name not in view.jobs:
            yarn.remove_app(name)

    def _books(self, view: ClusterView) -> Y:
        """The books; new books are made from the present state."""
        if self._yarn is None:
            self._units = Units(view.resources, whole=self._whole)
            yarn = self._yarn = self._make(view, self._units)
            self._ours, self._theirs, self._apps = {}, {}, {}
            for node in view.nodes:
                self._add_node(yarn, node, view)
            for job in view.jobs.values():
                if job.admitted:
                    self._add_app(yarn, job, view)
            for number, container in view.containers.items():
                if container.job in yarn.apps:
                    self._adopt(yarn, number, container.node, view.jobs[container.job], container.stage)
            for job in view.jobs.values():
                self._ask(yarn, job, view)
        return self._yarn

    def _add_node(self, yarn: Y, node: str, view: ClusterView) -> None:
        state = view.nodes[node]
        yarn.add_node(node, self._units.available(state.spec.capacity), state.spec.rack or RACK)

    def _add_app(self, yarn: Y, job: JobState, view: ClusterView) -> None:
        master = next((stage for stage in job.spec.stages if stage.master), None)
        yarn.add_app(
            job.id,
            self._path(job.spec, view),
            job.spec.user or "default",
            now=job.submitted,
            am=None if master is None or job.cancelled else self._units.demand(master.demand),
        )
        if job.spec.service is not None:
            yarn.apps[job.id].preemptible = job.spec.service.preemptible

    def _let_in(self, yarn: Y, job: JobState, view: ClusterView) -> None:
        """Bring the books in line with an admitted job; a job waiting outside is not in the books."""
        if job.admitted and job.spec.id not in yarn.apps:
            self._add_app(yarn, job, view)
        self._ask(yarn, job, view)

    def _adopt(self, yarn: Y, number: int, node: str, job: JobState, stage: int) -> None:
        if node in yarn.nodes:
            priority, spec = _priority(job.spec, stage), job.spec.stages[stage]
            taken = yarn.adopt(job.id, node, priority, self._units.demand(spec.demand), am=spec.master)
            self._note_container(taken, number, job.id)

    def _note_container(self, taken: int, number: int, app: str) -> None:
        self._ours[taken], self._theirs[number], self._apps[taken] = number, taken, app

    def _ended(self, yarn: Y, number: int) -> str | None:
        """Returns the application."""
        taken = self._theirs.pop(number, None)
        if taken is None:
            return None
        self._ours.pop(taken, None)
        yarn.container_ended(taken)
        return self._apps.pop(taken)

    # -- asks -----------------------------------------------------------------------------------

    def _ask(self, yarn: Y, job: JobState, view: ClusterView) -> None:
        """Bring the asks of a job in line with its launchable tasks."""
        app = yarn.apps.get(job.spec.id)
        if app is None:
            return
        count, stages, asks = _served(job.spec), job.stages, app.asks
        for index in job.open:
            ask = asks.get(_STEP * (count - index))
            if ask is None or ask.open != stages[index].waiting:
                break
        else:
            if len(asks) == len(job.open):
                return  # as nearly always: what was granted is no longer asked for, nor does it wait
        for index, stage in enumerate(stages):
            spec = job.spec.stages[index]
            if spec.master:
                continue  # asked for by the resource manager itself
            wanted = stage.waiting if index in job.open else 0
            ask = asks.get(_STEP * (count - index))
            open_ = ask.open if ask is not None else 0
            if wanted != open_:
                self._ask_stage(yarn, app, job, stage, spec, wanted, open_, view)

    def _ask_stage(
        self,
        yarn: Y,
        app: App,
        job: JobState,
        stage: StageState,
        spec: Stage,
        wanted: int,
        open_: int,
        view: ClusterView,
    ) -> None:
        priority = _priority(job.spec, stage.index)
        ask = app.asks.get(priority)
        counts = dict(ask.places) if ask is not None and wanted > open_ else {}
        counts[ANY] = wanted
        fresh = range(spec.tasks) if open_ == 0 and wanted == spec.tasks else stage.returned
        for task in fresh if wanted > open_ else ():
            for place in self._places(spec.hosts_of(task), view):
                counts[place] = counts.get(place, 0) + 1
        yarn.ask(app.id, priority, self._units.demand(spec.demand), counts)

    @staticmethod
    def _places(hosts: Sequence[str], view: ClusterView) -> Iterator[str]:
        """Each host, and each of their racks once."""
        yield from hosts
        yield from {(view.nodes[host].spec.rack or RACK): None for host in hosts if host in view.nodes}

    # -- decisions ------------------------------------------------------------------------------

    def _beat(self, yarn: Y, node: str, view: ClusterView) -> None:
        grants = self._granted(yarn, node, view)
        if grants and not view.could_place(view.nodes[node]):
            for grant in grants:
                yarn.container_ended(grant.container)
                self._ask(yarn, view.jobs[grant.app], view)
            grants = []  # nobody will ask for them: the core has its reasons (pilots first, limits)
        self._grants = grants

    def _granted(self, yarn: Y, node: str, view: ClusterView) -> list[Grant]:
        target, state = yarn.nodes.get(node), view.nodes.get(node)
        if target is None or state is None or state.draining:
            return []
        target.free = self._units.available(state.free)
        yarn.looked = False
        return [action for action in yarn.beat(node, view.now) if isinstance(action, Grant)]

    def _monitor(self, yarn: Y, view: ClusterView) -> None:
        """A round of the preemption monitor."""
        for measure in yarn.monitor(view.now):
            if isinstance(measure, Kill) and (number := self._ours.get(measure.container)) is not None:
                self._victims.append(Victim(number, measure.rule, measure.cause))

    def victims(self, view: ClusterView) -> Sequence[Victim]:
        """See Preempts.victims."""
        victims, self._victims = self._victims, []
        return victims

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """See Policy.schedule."""
        yarn = self._books(view)
        if offer.job is not None:
            yield from self._answer(yarn, view, offer)
            return
        if self._by_beat:
            grants, self._grants = self._grants, []
            aside: Aside = {}
            yield from self._serve(yarn, grants, view, aside)
            self._ask_again(yarn, aside, view)
        else:
            yield from self._rounds(yarn, view, offer.nodes)

    def _rounds(self, yarn: Y, view: ClusterView, nodes: Sequence[NodeState] | None) -> Suggestions:
        """Without beats of its own a cycle stands for as many beats as needed: until nobody gets or is closer to more.

        nodes: nodes on offer, or None: all. Nodes without room do not beat, and no node beats once a beat of any is
        known to bring nothing.
        """
        self._refresh(yarn, view.now)
        aside: Aside = {}
        waited: dict[str, int] | None = None
        while True:
            placed, hopeless = 0, False
            for node in view.with_room() if nodes is None else nodes:
                if (hopeless and yarn.nodes[node.id].reservation is None) or not view.could_place(node):
                    continue
                grants = self._granted(yarn, node.id, view)
                hopeless = not grants and not yarn.looked
                placed += yield from self._serve(yarn, grants, view, aside)
            if not placed:
                missed = _missed(yarn)
                if not missed or missed == waited:
                    break
                waited = missed
        self._ask_again(yarn, aside, view)

    def _serve(self, yarn: Y, grants: list[Grant], view: ClusterView, aside: Aside) -> Served:
        """Carry out the grants of a beat; grants refused by the core step aside and the node beats again.

        YARN would grant the same again on every beat, and nobody behind would be served. Returns how many grants were
        carried out.
        """
        here: Aside = {}  # what this node does not take; the next one may
        placed = 0
        while grants:
            refused = False
            for grant in grants:
                outcome: Outcome = yield Suggestion(grant.app, _stage(view.jobs[grant.app].spec, grant), grant.node)
                if outcome.placed:
                    placed += 1
                    self._note_placed(yarn, grant, outcome, view)
                else:
                    refused = True
                    _step_aside(yarn, grant, here if outcome.reason is Reason.NO_ROOM else aside)
            grants = self._granted(yarn, grants[0].node, view) if refused else []
        self._ask_again(yarn, here, view)
        return placed

    def _note_placed(self, yarn: Y, grant: Grant, outcome: Outcome, view: ClusterView) -> None:
        if len(outcome.containers) > 1:  # a gang: placed as a whole by the core, wherever there is room
            _take_back(yarn, grant, 0)
            for number in outcome.containers:
                job = view.jobs[grant.app]
                self._adopt(yarn, number, view.containers[number].node, job, _stage(job.spec, grant))
        else:
            self._note_container(grant.container, outcome.containers[0], grant.app)

    def _ask_again(self, yarn: Y, aside: Aside, view: ClusterView) -> None:
        """Let applications that stepped aside ask again."""
        for (name, priority), (demand, places) in aside.items():
            yarn.ask(name, priority, demand, places)
            self._ask(yarn, view.jobs[name], view)

    def _answer(self, yarn: Y, view: ClusterView, offer: Offer) -> Suggestions:
        """An outside scheduler asks for a stage's place: the placer's, and the books hear of the container."""
        assert offer.job is not None
        assert offer.stage is not None
        outcome: Outcome = yield Suggestion(offer.job, offer.stage)
        job = view.jobs[offer.job]
        for number in outcome.containers:
            self._adopt(yarn, number, view.containers[number].node, job, offer.stage)
        if outcome.containers:
            self._ask(yarn, job, view)

    # -- memory ---------------------------------------------------------------------------------

    def dump(self) -> Any:
        """See Policy.dump."""
        if self._yarn is None:
            return None
        held = [[taken, number, self._apps[taken]] for taken, number in self._ours.items()]
        return {"books": memory.dump(self._yarn), "held": held}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self._ours, self._theirs, self._apps = {}, {}, {}
        self._yarn, self._restored = None, True
        if data is not None:
            self._units = Units(view.resources, whole=self._whole)
            self._yarn = memory.load(data["books"])
            self._yarn.restore()
            for taken, number, app in data["held"]:
                self._note_container(taken, number, app)

    # -- why ------------------------------------------------------------------------------------

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """See Policy.why: the application's last refusal, or a reservation on a node with room."""
        yarn = self._yarn
        app = yarn.apps.get(job.id) if yarn is not None else None
        if yarn is None or app is None:
            return None
        if app.refusal is not None and app.refusal.why not in _SAID_BY_THE_CORE:
            return _reason(app.refusal, self._units)
        if not yarn.reserved:
            return None
        sizes = [ask.demand for ask in app.asks.values() if ask.open]
        for reservation in yarn.reserved.values():
            free = self._units.available(view.nodes[reservation.node].free) if reservation.app != app.id else ()
            if free and any(all_fit(size, free) for size in sizes):
                return Reason.RESERVED, {"other": reservation.app, "starts": ""}
        return None


def _missed(yarn: Books) -> dict[str, int]:
    """Opportunities passed up by applications waiting for a node with their input."""
    apps = ((app.id, app.refusal) for app in yarn.apps.values())
    return {name: last.used for name, last in apps if last is not None and last.why is Why.LOCALITY}


def _step_aside(yarn: Books, grant: Grant, aside: Aside) -> None:
    """The core refuses the grant: its application asks for no more of the kind for now."""
    demand, places = _take_back(yarn, grant, 1)
    known = aside.get((grant.app, grant.priority))
    if known is None:
        aside[grant.app, grant.priority] = demand, places
    else:
        known[1][ANY] += 1


def _take_back(yarn: Books, grant: Grant, count: int) -> tuple[Vector, dict[str, int]]:
    """Undo a grant and close its ask; returns the open ask, with so many containers more."""
    yarn.container_ended(grant.container)
    ask = yarn.apps[grant.app].asks.get(grant.priority)
    places = dict(ask.places) if ask is not None else {}
    places[ANY] = places.get(ANY, 0) + count
    yarn.ask(grant.app, grant.priority, grant.demand, {ANY: 0})
    return grant.demand, places


def _priority(job: Job, stage: int) -> int:
    """Later stages first, as reduces before maps; the master before all."""
    if job.stages[stage].master:
        return _MASTER
    return _STEP * (_served(job) - stage)


def _served(job: Job) -> int:
    """How many stages the policy is asked to serve: all but an application master, which is the last."""
    return len(job.stages) - job.stages[-1].master


def _stage(job: Job, grant: Grant) -> int:
    if grant.am:
        return next(index for index, stage in enumerate(job.stages) if stage.master)
    return _served(job) - grant.priority // _STEP


_SAID_BY_THE_CORE: Final = frozenset({Why.NO_ROOM, Why.TOO_LARGE, Why.CLUSTER_EMPTY})
_WHAT: Final = {
    Why.QUEUE_AM_LIMIT: "the application masters' part of queue",
    Why.USER_AM_LIMIT: "the application masters' part of user",
    Why.QUEUE_LIMIT: "queue",
    Why.USER_LIMIT: "user",
    Why.HEADROOM: "queue",
}


def _reason(refusal: Refusal, units: Units) -> tuple[Reason, dict[str, object]]:
    if refusal.why is Why.LOCALITY:
        return Reason.WAITS_FOR_LOCALITY, {"missed": refusal.used, "needed": refusal.limit}
    return Reason.OVER_LIMIT, {
        "what": _WHAT[refusal.why],
        "name": refusal.name,
        "resource": "cpu" if refusal.resource == "vcores" else refusal.resource,
        "value": units.show(refusal.resource, refusal.used),
        "limit": units.show(refusal.resource, refusal.limit),
        "queue": refusal.queue,
    }
