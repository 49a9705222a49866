"""What a policy is: it suggests which task goes next; the core checks, applies and answers.

A policy is a function of state, time and its own observations, never of how often it was asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec

from schedulers.core import keyed
from schedulers.core.copies import holders
from schedulers.core.registry import NoParams, Registry
from schedulers.core.transfers import Parcel, arrival, parcels

if TYPE_CHECKING:
    from schedulers.core.events import Event
    from schedulers.core.model import Links, Queue
    from schedulers.core.predictor import Estimate, Informed
    from schedulers.core.queues import QueueTree
    from schedulers.core.reasons import Reason
    from schedulers.core.resources import Vector
    from schedulers.core.state import ClusterState, ContainerState, Fitting, JobState, NodeState, StageState

Tie = Literal["submit", "id", "random"]
TieSetting = Annotated[
    Tie,
    msgspec.Meta(description="who goes first among equals: earlier submission, smaller id, or a seeded random order"),
]


class Suggestion(msgspec.Struct, frozen=True, gc=False):
    """Start up to `count` tasks of one stage.

    node: where, or None to leave it to the placer. task: which one, or None for the lowest free index.
    pilots: True only pilots, False none of them, None pilots first. Kept executors of the job are used first.
    executor: in this idle executor, its own or another job's, and nowhere else. ahead: start none; bring up to `count`
    executors to the job, which wait there until the stage is open. copy: one more container of a task that is under way
    or done; node and task say of which, and where. among: the placer chooses among these nodes only, also for a gang.
    spread: no two of them on one node; only with `among`.
    """

    job: str
    stage: int
    node: str | None = None
    task: int | None = None
    count: int = 1
    pilots: bool | None = None
    executor: int | None = None
    ahead: bool = False
    copy: bool = False
    among: frozenset[str] | None = None
    spread: bool = False


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a suggestion: how many tasks were placed, in which containers; reason is set when none was."""

    placed: int
    reason: Reason | None = None
    containers: tuple[int, ...] = ()


Suggestions = Generator[Suggestion, Outcome, None]


class Triggers(msgspec.Struct, frozen=True):
    """What else than offers calls a policy.

    period_ms: a Tick so often while there are jobs, or None.
    every_beat: beats on which nothing can be placed count too (missed opportunities, reservations), so that none is
        skipped, and all stand in the log.
    every_offer: offers that are refused count too (a wait for the right node), so that they are made again while there
        is room and somebody waits, and stand in the log.
    """

    period_ms: int | None = None
    every_beat: bool = False
    every_offer: bool = False


class Victim(NamedTuple):
    """A container to be killed: the rule that chose it, and the job that it makes room for."""

    container: int
    rule: str
    cause: str = ""


class Stretch(NamedTuple):
    """Tasks of one stage run from start to end, for `work` in all: work / (end - start) at once. All in ms."""

    stage: int
    start: int
    end: int
    work: int


class Planned(msgspec.Struct, frozen=True):
    """A job's plan in short, for whoever watches the job. Times in ms from the plan's own start, at node speed 1.

    machines: on so many equal ones. bound: no plan for these is shorter. runtimes: per stage what one of its tasks
    takes. stretches: the first to start in front. troublesome: stages that were given their time before all others.
    """

    machines: int
    bound: int
    makespan: int
    runtimes: tuple[int, ...]
    stretches: tuple[Stretch, ...]
    troublesome: tuple[int, ...] = ()

    @property
    def starts(self) -> dict[int, int]:
        """When the first task of each stage starts, the first to start in front."""
        starts: dict[int, int] = {}
        for stretch in self.stretches:
            starts.setdefault(stretch.stage, stretch.start)
        return starts


class Promise(msgspec.Struct, frozen=True):
    """When a job will be done as far as is known, and what it is given for it; times in ms on the scheduler's clock.

    margin: by so much it may be later. made: when this was said. containers: how many the job is to have at once.
    """

    finish: int
    margin: int
    deadline: int
    made: int
    containers: int


class Offer:
    """Resources that the policy may use now: one node (a heartbeat), some, or all of them.

    nodes None: every node. job, stage: only this stage may be served (an outside scheduler asked for it).
    limit: at most so many new containers, or None.
    """

    __slots__ = ("_room", "_state", "_version", "job", "limit", "nodes", "stage")

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
        self._version, self._room = -1, False  # of the state when room was looked for last, and what was found

    def has_room(self) -> bool:
        """Whether any launchable task of any job fits what is still on offer."""
        if self.limit == 0:
            return False
        state = self._state
        if self._version != state.counts.version:  # the scheduler asks before the policy does
            self._version = state.counts.version
            if self.nodes is None:
                has_room = state.sizes.has_room if state.reservations is None else state.reservations.has_takers
                self._room = bool(state.idle and state.waiting) or has_room()
            else:
                self._room = False
                for node in self.nodes:
                    if state.sizes.could_place(node):
                        self._room = True
                        break
        return self._room

    def serves(self, job: str, stage: int) -> bool:
        """Whether a task of this stage may be suggested at all."""
        return self.job is None or (self.job == job and self.stage == stage)

    def fits(self, job: JobState, stage: StageState) -> bool:
        """Whether a task of this stage fits what is on offer, on a node or in an idle executor, or nodes are due to it.

        The latter: when it is suggested, nodes are reserved for it, so that no others go there before it.
        """
        if self.job is not None and not self.serves(job.id, stage.index):
            return False
        state = self._state
        if state.reservations is not None:
            return state.reservations.shows(job, stage, self.nodes, asked=self.job is not None)
        if self.nodes is None:
            return bool(state.idle) or bool(state.sizes.fitting(stage.size))
        if stage.size not in state.sizes.bounds or state.idle or state.sizes.admits(stage.size):
            for node in self.nodes:
                if node.fits(stage):
                    return True
        return False


class JobOffer(Offer):
    """All nodes, to one job alone."""

    __slots__ = ("_only",)

    def __init__(self, state: ClusterState, job: JobState, *, limit: int | None = None) -> None:
        super().__init__(state, None, limit=limit)
        self._only = job

    def has_room(self) -> bool:
        """See Offer.has_room."""
        job = self._only
        fitting = self._state.sizes.fitting
        return self.limit != 0 and any(fitting(job.stages[index].size) for index in job.open)

    def serves(self, job: str, stage: int) -> bool:
        """See Offer.serves."""
        return job == self._only.id

    def fits(self, job: JobState, stage: StageState) -> bool:
        """See Offer.fits."""
        return job is self._only and super().fits(job, stage)


class Anything(Offer):
    """As if everything fitted: whoever is asked to suggest from this names who is first in line, room or not."""

    def has_room(self) -> bool:
        """See Offer.has_room."""
        return True

    def fits(self, job: JobState, stage: StageState) -> bool:
        """See Offer.fits."""
        return True


class ClusterView:
    """What a policy may look at. Everything reached through it is read-only for the policy."""

    def __init__(self, state: ClusterState, predictor: Informed | None, seed: int) -> None:
        self._state, self._predictor, self.seed = state, predictor, seed
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
        """The queues as a tree, and what each holds."""
        self.containers: Mapping[int, ContainerState] = state.containers
        """Containers by number."""
        self.has_executors = state.has_executors
        """Whether containers outlive tasks (executors)."""
        self._changes = state.journal.orders.cursor()
        self.changed: Callable[[], Iterable[str]] = self._changes.read
        """Jobs whose standing may have changed since this was asked last; some may be gone."""

    @property
    def now(self) -> int:
        """Time of the last event, in ms."""
        return self._state.now

    def queue_names(self) -> list[str]:
        """Queues that live jobs are in, declared or not."""
        return list(dict.fromkeys(job.spec.queue for job in self._state.jobs.values()))

    def idle(self) -> list[ContainerState]:
        """Executors between tasks, in the order in which they became idle."""
        return list(self._state.idle.values())

    def moving(self) -> list[ContainerState]:
        """Executors on their way to jobs that have no task for them yet."""
        return list(self._state.moving.values())

    def could_place(self, node: NodeState) -> bool:
        """Whether anything that waits could start on the node now, so that it will be offered."""
        return bool(self._state.waiting) and self._state.sizes.could_place(node)

    def with_room(self) -> list[NodeState]:
        """The nodes on which anything that waits could start now, in order of arrival."""
        return self._state.sizes.with_room()

    def fits(self, stage: StageState, node: NodeState) -> bool:
        """Whether a task of the stage could start on the node now."""
        return node.fits(stage) and self._state.sizes.admits(stage.size)

    def admits(self, stage: StageState) -> bool:
        """Whether no limit of its queue or user keeps a task of the stage from starting now."""
        return self._state.sizes.admits(stage.size)

    def admitted(self, stage: StageState) -> int:
        """How many of its waiting tasks no limit of its queue or user keeps from starting now."""
        limits = self._state.sizes.bounds.get(stage.size, ())
        counts = range(1, stage.waiting + 1)
        return bisect_left(counts, True, key=lambda n: not all(each.takes(stage.demand, n) for each in limits))

    def nodes_fitting(self, stage: StageState) -> Fitting:
        """Nodes on which a task of the stage could start now."""
        return self._state.sizes.fitting(stage.size)

    @property
    def reserves(self) -> bool:
        """Whether nodes are reserved at all."""
        return self._state.reservations is not None

    def takes(self, job: JobState, stage: StageState, node: NodeState) -> bool:
        """Whether the node, which has room for a task of the stage, is not reserved for others."""
        reservations = self._state.reservations
        return reservations is None or reservations.takes(node, job, stage)

    def is_due(self, job: JobState, stage: StageState) -> bool:
        """Whether the stage has waited so long without room that nodes will be reserved for it when it is suggested."""
        reservations = self._state.reservations
        return reservations is not None and reservations.is_due(job, stage)

    def nodes_to_suggest(self, job: JobState, stage: StageState, offer: Offer) -> Sequence[NodeState]:
        """Nodes on offer on which a task of the stage could start now; where nodes are due to it, all that hold it."""
        reservations = self._state.reservations
        if reservations is None:
            if offer.nodes is None:
                return self._state.sizes.fitting(stage.size)
            return [node for node in offer.nodes if self.fits(stage, node)]
        if offer.job is None and reservations.is_due(job, stage):
            return reservations.holding(stage)
        return list(reservations.allowed(job, stage, offer.nodes))

    @property
    def active_sizes(self) -> Iterable[int]:
        """Numbers of the sizes of which tasks are launchable."""
        return self._state.sizes.active

    def demand(self, size: int) -> Vector:
        """What a task of this size asks for."""
        return self._state.sizes.demands[size]

    def fits_somewhere(self, size: int) -> bool:
        """Whether a task of this size could start on some node now, or in an idle executor."""
        state = self._state
        return bool(state.sizes.fitting(size)) or any(c.size == size for c in state.idle.values())

    def is_size_due(self, size: int) -> bool:
        """Whether nodes are due to a stage that waits for this size."""
        reservations = self._state.reservations
        return reservations is not None and reservations.is_size_due(size)

    def fits_ever(self, size: int) -> bool:
        """Whether a task of this size would fit some node if the node were empty."""
        return self._state.sizes.fits_ever(size)

    def spare(self) -> list[int]:
        """What nobody holds, over all nodes."""
        return self._state.spare()

    def share(self, job: JobState) -> float:
        """Dominant share of a job."""
        return self._state.share(job)

    def estimate(self, job: str, stage: int) -> Estimate | None:
        """What the predictor says of a stage now; None without predictor or estimate."""
        return None if self._predictor is None else self._predictor.estimate(job, stage)

    @property
    def estimates_stay(self) -> bool:
        """Whether the estimates of a job change only when the job itself does."""
        return self._predictor is None or self._predictor.stays

    def task_ms(self, job: str, stage: int) -> float | None:
        """What a task of a stage is estimated to take at node speed 1, None without predictor or estimate."""
        estimate = self.estimate(job, stage)
        return None if estimate is None else estimate.task_ms

    def task_ms_on(self, job: str, stage: int, node: NodeState) -> float | None:
        """What a task of a stage is estimated to take on this node, None without predictor or estimate."""
        if self._predictor is None:
            return None
        told = self._predictor.estimate_on(job, stage, node.spec.id)
        if told is not None:
            return told
        usual = self.task_ms(job, stage)
        return None if usual is None else usual / node.spec.speed

    def is_told_by_node(self, job: str, stage: int) -> bool:
        """Whether what a task of a stage takes is told by node, so that it is no matter of the node's speed."""
        node = next(iter(self.nodes), None)
        return (
            node is not None
            and self._predictor is not None
            and self._predictor.estimate_on(job, stage, node) is not None
        )

    @property
    def links(self) -> Links | None:
        """How fast data goes between nodes; None: it takes no time."""
        return self._state.links

    def arrival(self, job: JobState, stage: StageState, task: int, node: NodeState) -> int:
        """When all that the task takes is on the node (ms), if all parents are done; 0 where it takes nothing."""
        return arrival(job, stage, node, self._state.links, self._state.nodes)

    @property
    def copies(self) -> int:
        """How many containers a task may have: 1 where there are no copies."""
        copies = self._state.copies
        return copies.settings.max if copies is not None else 1

    def holders(self, job: JobState, stage: StageState, task: int) -> Sequence[str]:
        """Nodes on which the task is under way, or has made its output where somebody takes that."""
        return holders(self._state.containers, job, stage, task)

    def allows_copy(self, job: JobState, stage: StageState, task: int, node: NodeState) -> bool:
        """Whether a copy of the task may be made on the node, as soon as there is room."""
        copies = self._state.copies
        return copies is not None and copies.allows(self._state.containers, job, stage, task, node.spec.id)

    def may_copy(self, job: JobState, stage: StageState, task: int, node: NodeState) -> bool:
        """Whether a copy of the task could start on the node now: what `Suggestion.copy` asks for."""
        copies = self._state.copies
        return (
            copies is not None
            and self.fits(stage, node)
            and self.takes(job, stage, node)
            and copies.allows(self._state.containers, job, stage, task, node.spec.id)
        )

    def parcels(self, job: JobState, stage: StageState, node: NodeState) -> Sequence[Parcel]:
        """What a task of the stage takes from which node, the last to be on this one in front."""
        return parcels(job, stage, node, self._state.links, self._state.nodes)

    def remaining_ms(self, job: JobState) -> float | None:
        """Estimated work of the tasks that have not finished, or None while any stage has no estimate."""
        total = 0.0
        for stage in job.stages:
            left = stage.tasks - stage.finished
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
        return job.id if how == "id" else keyed.uniform(self.seed, "tie", job.id)

    @property
    def has_changed(self) -> bool:
        """Whether `changed` has anything to say."""
        return self._changes.at < len(self._changes.entries)

    def stir(self, job: str) -> None:
        """Let the core look again why a job waits: the policy's own reason for it may be another now."""
        self._state.journal.reasons.note(job)


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
        """Why this policy does not serve a waiting job although there is room; None: nothing to add."""
        return None

    def next_change(self, view: ClusterView) -> int | None:
        """When time alone would change what is placed (ms, after now), or None if it never does.

        Asked after every fact; nodes that were refused are offered again then. A policy that refuses what it would
        take later must say when, or the engine may end the run before.
        """
        return None

    def about(self, job: JobState) -> dict[str, Any]:
        """What an explanation should tell of a job: its queue, say; under `said` a sentence on its last decision."""
        return {}

    def dump(self) -> Any:
        """Its own observations, as plain data."""
        return None

    def load(self, data: Any, view: ClusterView) -> None:
        """Takes over what `dump` returned, with the state already restored."""


#: By what a policy set or defined before abilities were classes: the ability. Its name, for abilities import this file.
_BEFORE: Final[Mapping[str, str]] = {
    "runs_executors": "OneTaskEach",
    "reserves": "KeepsNodes",
    "needs_estimates": "NeedsEstimates",
    "needs_copies": "NeedsCopies",
    "preempts": "Preempts",
    "new_plans": "Plans",
    "rehearses": "Rehearses",
    "new_scripts": "Rehearses",
    "new_promises": "Rehearses",
    "urges": "Urges",
    "noted": "Remembers",
    "take_note": "Remembers",
    "passes_by": "TellsTurn",
    "uses_of_queues": "MindsQueues",
    "mistakes": "MindsQueues",
}


def _lacking(policy: type) -> str:
    """What a policy's class defines of an ability that it does not inherit, so that nobody would ask; or ''."""
    inherited = {cls.__name__ for cls in policy.__mro__}
    for name, kind in _BEFORE.items():
        if hasattr(policy, name) and kind not in inherited:
            wanted = f"schedulers.core.abilities.{kind}"
            return f"it defines '{name}', which is asked only of policies that inherit from {wanted}"
    return ""


policies: Registry[Policy] = Registry("policy", "schedulers.policies", refuses=_lacking)
