"""Policies: a policy suggests the next task; the core checks, applies and answers.

A policy is a function of state, time and its own observations, never of the number of times the core asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec

from schedulers.core import keyed
from schedulers.core.copies import holders
from schedulers.core.old_names import OldName
from schedulers.core.registry import NoParams, Registry
from schedulers.core.transfers import Parcel, arrival, parcels

if TYPE_CHECKING:
    from schedulers.core.events import Event
    from schedulers.core.model import Links, Queue
    from schedulers.core.predictor import Estimate, EstimateSource
    from schedulers.core.queues import QueueTree
    from schedulers.core.reasons import Reason
    from schedulers.core.resources import Vector
    from schedulers.core.state import ClusterState, ContainerState, Fitting, JobState, NodeState, StageState

Tie = Literal["submit", "id", "random"]
TieSetting = Annotated[
    Tie,
    msgspec.Meta(description="order of jobs with equal keys: earlier submission, smaller id, or a seeded random order"),
]


class Suggestion(msgspec.Struct, frozen=True, gc=False):
    """Start up to `count` tasks of a stage. Kept executors of the job are used first."""

    job: str
    stage: int
    node: str | None = None
    """The node; None leaves the choice to the placer."""
    task: int | None = None
    """Index of the task; None for the lowest free index."""
    count: int = 1
    pilots: bool | None = None
    """True: only pilots. False: no pilots. None: pilots first."""
    executor: int | None = None
    """An idle executor, of the job or of another job, to be used and no other."""
    ahead: bool = False
    """Start nothing: bring up to `count` executors to the job, to wait there until the stage is open."""
    copy: bool = False
    """Start another container of a task under way or done; `node` and `task` are required."""
    among: frozenset[str] | None = None
    """The placer chooses among the named nodes only, also for a gang."""
    spread: bool = False
    """Every task on a node of its own; only with `among`."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The core's answer to a suggestion."""

    placed: int
    """Number of tasks started."""
    reason: Reason | None = None
    """The reason when no task started."""
    containers: tuple[int, ...] = ()
    """Numbers of the containers with the started tasks."""


Suggestions = Generator[Suggestion, Outcome, None]


class Triggers(msgspec.Struct, frozen=True):
    """Occasions, besides offers, on which a policy is called."""

    period_ms: int | None = None
    """Time between Ticks while there are jobs, or None."""
    every_beat: bool = False
    """Beats without room count too (missed opportunities, reservations), so that none is skipped, and all stand in the
    log.
    """
    every_offer: bool = False
    """Refused offers count too (a wait for the right node), so that they are repeated while there is room and a job
    waits, and stand in the log.
    """


class Victim(NamedTuple):
    """A container to be killed: the rule behind the choice, and the job to make room for."""

    container: int
    rule: str
    cause: str = ""


class Stretch(NamedTuple):
    """Tasks of a stage from start to end, with `work` in all: work / (end - start) at once. All in ms."""

    stage: int
    start: int
    end: int
    work: int


class Planned(msgspec.Struct, frozen=True):
    """A job's plan in short, for people to watch. Times in ms from the plan's own start, at node speed 1."""

    machines: int
    """Number of equal machines planned for."""
    bound: int
    """Lower bound on the makespan of any plan for the machines."""
    makespan: int
    runtimes: tuple[int, ...]
    """Run time of a task of each stage."""
    stretches: tuple[Stretch, ...]
    """Stretches, the first to start in front."""
    troublesome: tuple[int, ...] = ()
    """Stages given their time before all other stages."""

    @property
    def starts(self) -> dict[int, int]:
        """When the first task of each stage starts, the first to start in front."""
        starts: dict[int, int] = {}
        for stretch in self.stretches:
            starts.setdefault(stretch.stage, stretch.start)
        return starts


class Promise(msgspec.Struct, frozen=True):
    """Expected end of a job, with its allocation; times in ms on the scheduler's clock."""

    finish: int
    margin: int
    """Possible delay beyond `finish`."""
    deadline: int
    made: int
    """Time of the promise."""
    containers: int
    """Number of containers for the job at once."""


class Offer:
    """Resources open to the policy now: a node (a heartbeat), some, or all of them.

    nodes None: every node. job, stage: the only stage to be served (an outside scheduler asked for its node). limit:
    largest number of new containers, or None.
    """

    __slots__ = ("_room", "_state", "_version", "job", "limit", "nodes", "stage")

    #: Whether equal tasks of all jobs fit alike, without reservations.
    is_for_all_jobs = True

    def __init__(
        self,
        state: ClusterState,
        nodes: Sequence[NodeState] | None,
        *,
        job: str | None = None,
        stage: int | None = None,
        limit: int | None = None,
    ) -> None:
        self._state, self.nodes, self.job, self.stage, self.limit = state, nodes, job, stage, limit
        # The last answer of `has_room`, and the version of the state then: the scheduler asks, and the policy asks
        # again before anything has changed.
        self._version, self._room = -1, False

    def has_room(self) -> bool:
        """Whether any launchable task of any job fits the rest of the offer."""
        if self.limit == 0:
            return False
        state = self._state
        if self._version != state.counts.version:  # the scheduler asks before the policy does
            self._version = state.counts.version
            if self.nodes is None:
                has_room = state.sizes.has_room if state.reservations is None else state.reservations.is_offer_useful
                self._room = bool(state.idle and state.waiting) or has_room()
            else:
                self._room = False
                for node in self.nodes:
                    if state.sizes.could_place(node):
                        self._room = True
                        break
        return self._room

    def serves(self, job: str, stage: int) -> bool:
        """Whether a task of the stage may be suggested at all."""
        return self.job is None or (self.job == job and self.stage == stage)

    def fits(self, job: JobState, stage: StageState) -> bool:
        """Whether a task of the stage fits the offer, on a node or in an idle executor, or nodes are due to the stage.

        Nodes due to a stage are reserved when the stage is suggested, so that no other task goes there first.
        """
        if self.job is not None and not self.serves(job.id, stage.index):
            return False
        state = self._state
        if state.reservations is not None:
            return state.reservations.is_offer_useful_to(job, stage, self.nodes, asked=self.job is not None)
        if self.nodes is None:
            return bool(state.idle) or state.sizes.fits_some_node(stage.size)
        # Limits before nodes: most sizes have none, and a full queue spares the walk over the nodes.
        if stage.size not in state.sizes.bounds or state.idle or state.sizes.admits(stage.size):
            for node in self.nodes:
                if node.fits(stage):
                    return True
        return False

    def sizes(self, among: Collection[int] | None = None) -> set[int] | None:
        """Sizes that may have room in the offer, a set of the caller's own; None where room depends on more.

        among: an earlier answer for the same offer, without those that are known to have no room.
        """
        state = self._state
        if not self.is_for_all_jobs or self.nodes is not None or self.job is not None:
            return None
        if state.idle or state.reservations is not None:
            return None
        if self.limit == 0:
            return set()
        return state.sizes.perhaps_with_room(state.sizes.active if among is None else among)


class JobOffer(Offer):
    """All nodes, to a single job."""

    __slots__ = ("_only",)

    is_for_all_jobs = False

    def __init__(self, state: ClusterState, job: JobState, *, limit: int | None = None) -> None:
        super().__init__(state, None, limit=limit)
        self._only = job

    def has_room(self) -> bool:
        """See Offer.has_room."""
        job = self._only
        # Only the sizes of the job count, because the offer is the job's alone.
        fitting = self._state.sizes.fitting
        return self.limit != 0 and any(fitting(job.stages[index].size) for index in job.open)

    def serves(self, job: str, stage: int) -> bool:
        """See Offer.serves."""
        return job == self._only.id

    def fits(self, job: JobState, stage: StageState) -> bool:
        """See Offer.fits."""
        return job is self._only and super().fits(job, stage)


class Anything(Offer):
    """An offer with room for everything: a policy's first suggestion names the first job in line, room or not."""

    is_for_all_jobs = False

    def has_room(self) -> bool:
        """See Offer.has_room."""
        return True

    def fits(self, job: JobState, stage: StageState) -> bool:
        """See Offer.fits."""
        return True


class ClusterView:
    """A policy's view of the cluster. Everything reached through the view is read-only for the policy."""

    __slots__ = (
        "_changes",
        "_predictor",
        "_state",
        "capacity",
        "changed",
        "containers",
        "has_executors",
        "jobs",
        "nodes",
        "queues",
        "resources",
        "seed",
        "tree",
        "waiting",
    )

    def __init__(self, state: ClusterState, predictor: EstimateSource | None, seed: int) -> None:
        self._state, self._predictor, self.seed = state, predictor, seed
        # Bound once to the state's own objects: policies read them for every task, and a property is a call.
        self.capacity: Sequence[int] = state.capacity
        """The whole cluster's capacity."""
        self.resources: Sequence[str] = state.resources.names
        """The names of the resources, in the order of all vectors."""
        self.jobs: Mapping[str, JobState] = state.jobs
        """Live jobs in order of submission."""
        self.waiting: Mapping[str, JobState] = state.waiting
        """Jobs with launchable tasks."""
        self.nodes: Mapping[str, NodeState] = state.nodes
        """Nodes in order of arrival."""
        self.queues: Mapping[str, Queue] = state.queues
        """Declared queues by name."""
        self.tree: QueueTree = state.tree
        """The queues as a tree, and the holdings of each."""
        self.containers: Mapping[int, ContainerState] = state.containers
        """Containers by number."""
        self.has_executors = state.has_executors
        """Whether containers outlive tasks (executors)."""
        self._changes = state.journal.orders.cursor()
        self.changed: Callable[[], Iterable[str]] = self._changes.read
        """Jobs with a possibly changed standing since the last call; some may be gone."""

    @property
    def now(self) -> int:
        """Time of the last event, in ms."""
        return self._state.now

    def queue_names(self) -> list[str]:
        """Queues of live jobs, declared or not."""
        return list(dict.fromkeys(job.spec.queue for job in self._state.jobs.values()))

    def idle(self) -> list[ContainerState]:
        """Executors between tasks, in the order of becoming idle."""
        return list(self._state.idle.values())

    def moving(self) -> list[ContainerState]:
        """Executors travelling to jobs without a task for them yet."""
        return list(self._state.moving.values())

    def could_place(self, node: NodeState) -> bool:
        """Whether any waiting task could start on the node now, so that the node will be offered."""
        return bool(self._state.waiting) and self._state.sizes.could_place(node)

    def with_room(self) -> list[NodeState]:
        """Nodes with room for any waiting task now, in order of arrival."""
        return self._state.sizes.with_room()

    def fits(self, stage: StageState, node: NodeState) -> bool:
        """Whether a task of the stage could start on the node now."""
        return node.fits(stage) and self._state.sizes.admits(stage.size)

    def admits(self, stage: StageState) -> bool:
        """Whether no limit of its queue or user keeps a task of the stage from starting now."""
        return self._state.sizes.admits(stage.size)

    def count_admitted(self, stage: StageState) -> int:
        """How many of its waiting tasks no limit of its queue or user keeps from starting now."""
        limits = self._state.sizes.bounds.get(stage.size, ())
        counts = range(1, stage.waiting + 1)
        # By bisection, because a stage may have a million waiting tasks.
        return bisect_left(counts, True, key=lambda n: not all(each.takes(stage.demand, n) for each in limits))

    def nodes_fitting(self, stage: StageState) -> Fitting:
        """Nodes able to start a task of the stage now."""
        return self._state.sizes.fitting(stage.size)

    @property
    def reserves(self) -> bool:
        """Whether nodes are reserved at all."""
        return self._state.reservations is not None

    def takes(self, job: JobState, stage: StageState, node: NodeState) -> bool:
        """Whether the node, given room for a task of the stage, is not reserved for other work."""
        reservations = self._state.reservations
        return reservations is None or reservations.takes(node, job, stage)

    def is_due(self, job: JobState, stage: StageState) -> bool:
        """Whether the stage has waited so long without room that its suggestion will reserve nodes."""
        reservations = self._state.reservations
        return reservations is not None and reservations.is_due(job, stage)

    def nodes_to_suggest(self, job: JobState, stage: StageState, offer: Offer) -> Sequence[NodeState]:
        """Nodes on offer able to start a task of the stage now; for a stage with nodes due, all nodes large enough."""
        reservations = self._state.reservations
        if reservations is None:
            if offer.nodes is None:
                return self._state.sizes.fitting(stage.size)
            return [node for node in offer.nodes if self.fits(stage, node)]
        # An outside scheduler offers the nodes for a single pod; nodes for others are not its to reserve.
        if offer.job is None and reservations.is_due(job, stage):
            return reservations.reservable_nodes(stage)
        return list(reservations.allowed(job, stage, offer.nodes))

    @property
    def active_sizes(self) -> Iterable[int]:
        """Numbers of the sizes with launchable tasks."""
        return self._state.sizes.active

    def demand(self, size: int) -> Vector:
        """Demand of a task of the given size."""
        return self._state.sizes.demands[size]

    def fits_somewhere(self, size: int) -> bool:
        """Whether a task of the given size could start now, on some node or in an idle executor."""
        state = self._state
        return bool(state.sizes.fitting(size)) or any(c.size == size for c in state.idle.values())

    def is_size_due(self, size: int) -> bool:
        """Whether nodes are due to a stage waiting for the given size."""
        reservations = self._state.reservations
        return reservations is not None and reservations.is_size_due(size)

    def fits_ever(self, size: int) -> bool:
        """Whether a task of the given size would fit some node when empty."""
        return self._state.sizes.fits_ever(size)

    def spare(self) -> list[int]:
        """Resources held by nobody, over all nodes."""
        return self._state.spare()

    def share(self, job: JobState) -> float:
        """Dominant share of a job."""
        return self._state.share(job)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """The predictor's present estimate for a stage; None without predictor or estimate."""
        return None if self._predictor is None else self._predictor.estimate(job, stage)

    @property
    def estimates_stay(self) -> bool:
        """Whether the estimates of a job change only when the job itself does."""
        return self._predictor is None or self._predictor.estimates_stay

    def task_ms(self, job: str, stage: int) -> float | None:
        """Estimated run time of a task of a stage at node speed 1, ms; None without predictor or estimate."""
        estimate = self.estimate(job, stage)
        return None if estimate is None else estimate.task_ms

    def task_ms_on(self, job: str, stage: int, node: NodeState) -> float | None:
        """Estimated run time of a task of a stage on the node, ms; None without predictor or estimate."""
        if self._predictor is None:
            return None
        # Times told per node come first: they hold effects that no speed can express.
        told = self._predictor.estimate_on(job, stage, node.spec.id)
        if told is not None:
            return told
        usual = self.task_ms(job, stage)
        return None if usual is None else usual / node.spec.speed

    def has_times_by_node(self, job: str, stage: int) -> bool:
        """Whether the stage's run time is told per node, and so does not follow from the node's speed."""
        # Any node will do: a stage's times are told for all nodes or for none.
        node = next(iter(self.nodes), None)
        return (
            node is not None
            and self._predictor is not None
            and self._predictor.estimate_on(job, stage, node) is not None
        )

    @property
    def links(self) -> Links | None:
        """Rates of data between nodes; None: data takes no time."""
        return self._state.links

    def arrival(self, job: JobState, stage: StageState, task: int, node: NodeState) -> int:
        """Time at which all input of the task is on the node (ms), if all parents are done; 0 without input."""
        return arrival(job, stage, node, self._state.links, self._state.nodes)

    @property
    def copies(self) -> int:
        """How many containers a task may have: 1 where there are no copies."""
        settings = self._state.copies.settings
        return settings.max if settings is not None else 1

    def holders(self, job: JobState, stage: StageState, task: int) -> Sequence[str]:
        """Nodes running the task, and nodes holding its output where the output is needed."""
        return holders(self._state.containers, job, stage, task)

    def allows_copy(self, job: JobState, stage: StageState, task: int, node: NodeState) -> bool:
        """Whether a copy of the task may be made on the node, as soon as there is room."""
        copies = self._state.copies
        return copies.settings is not None and copies.allows(self._state.containers, job, stage, task, node.spec.id)

    def may_copy(self, job: JobState, stage: StageState, task: int, node: NodeState) -> bool:
        """Whether a copy of the task could start on the node now, as asked for by `Suggestion.copy`."""
        copies = self._state.copies
        return (
            copies.settings is not None
            and self.fits(stage, node)
            and self.takes(job, stage, node)
            and copies.allows(self._state.containers, job, stage, task, node.spec.id)
        )

    def parcels(self, job: JobState, stage: StageState, node: NodeState) -> Sequence[Parcel]:
        """Input of a task of the stage by source node, the last to arrive on the node in front."""
        return parcels(job, stage, node, self._state.links, self._state.nodes)

    def remaining_ms(self, job: JobState) -> float | None:
        """Estimated work of all unfinished tasks, ms; None while any stage lacks an estimate."""
        total = 0.0
        for stage in job.stages:
            left = stage.tasks - stage.finished
            # A master runs as long as its job: its time would count the whole job twice.
            if left and not job.spec.stages[stage.index].master:
                estimate = self.estimate(job.id, stage.index)
                if estimate is None:
                    return None
                total += estimate.task_ms * left
        return total

    def tie(self, job: JobState, how: Tie) -> float | int | str:
        """The job's rank among equals."""
        if how == "submit":
            return job.seq
        # Keyed by the job alone, so that a random order is the same at every question and in every replay.
        return job.id if how == "id" else keyed.uniform(self.seed, "tie", job.id)

    @property
    def has_changed(self) -> bool:
        """Whether `changed` has anything to say."""
        return self._changes.at < len(self._changes.entries)

    def recheck_reason(self, job: str) -> None:
        """Let the core look again at a job's reason to wait: the policy's own reason may have changed."""
        self._state.journal.reasons.note(job)

    stir = OldName("recheck_reason")
    admitted = OldName("count_admitted")
    is_told_by_node = OldName("has_times_by_node")


class Policy(ABC):
    """Base of all policies. `seed` is the scenario's, for keyed randomness."""

    Params: type[msgspec.Struct] = NoParams
    triggers = Triggers()

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        self.params, self.seed = params, seed

    def observe(self, event: Event, view: ClusterView) -> None:
        """Hears every fact, after the state has changed."""

    @abstractmethod
    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Suggest tasks until nothing more should start now; each `yield` returns the outcome."""

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """The policy's reason not to serve a waiting job in spite of room; None: nothing to add."""
        return None

    def next_change(self, view: ClusterView) -> int | None:
        """Next time (ms, after now) at which time alone changes the placement; None: never.

        Asked after every fact; refused nodes are offered again at the returned time. A policy refusing tasks now to
        take them later must return the time, or the engine may end the run before.
        """
        return None

    def about(self, job: JobState) -> dict[str, Any]:
        """Facts on a job for an explanation: its queue, say; under `said` a sentence on its last decision."""
        return {}

    def dump(self) -> Any:
        """Its own observations, as plain data."""
        return None

    def load(self, data: Any, view: ClusterView) -> None:
        """Takes over the data of `dump`, with the state already restored."""


#: The ability for each flag and hook of older policies. By name, because `abilities` imports this file.
_ABILITY_OF_MEMBER: Final[Mapping[str, str]] = {
    "runs_executors": "OneTaskEach",
    "reserves": "KeepsNodes",
    "needs_estimates": "NeedsEstimates",
    "needs_copies": "NeedsCopies",
    "preempts": "Preempts",
    "new_plans": "Plans",
    "rehearses": "Rehearses",
    "new_scripts": "Rehearses",
    "new_promises": "Rehearses",
    "wanted_nodes": "WantsNodes",
    "urges": "WantsNodes",
    "memory_changed": "Remembers",
    "beats_pass": "PassesBeats",
    "noted": "Remembers",
    "take_note": "Remembers",
    "passes_by": "TellsTurn",
    "uses_of_queues": "MindsQueues",
    "mistakes": "MindsQueues",
}


def _missing_ability(policy: type) -> str:
    """A sentence on a member of an ability defined by the class without inheriting the ability; or ''."""
    inherited = {cls.__name__ for cls in policy.__mro__}
    # Refused at registration: nobody would ever call the method, and the plug-in would silently do less.
    for name, kind in _ABILITY_OF_MEMBER.items():
        if kind not in inherited and hasattr(policy, name):
            wanted = f"schedulers.core.abilities.{kind}"
            return f"it defines '{name}', which is asked only of policies that inherit from {wanted}"
    return ""


policies: Registry[Policy] = Registry("policy", "schedulers.policies", refuses=_missing_ability)
