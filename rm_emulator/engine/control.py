"""The engine's interface to its schedulers (`Control`), and the implementation for a single scheduler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from schedulers.core.abilities import DecidesInCycles, Plans, PlaysExecutors, Rehearses, WantsNodes, ability
from schedulers.core.decider import Decider
from schedulers.core.decisions import Decision
from schedulers.core.errors import SchedulerError
from schedulers.core.events import Event, Rehearsed
from schedulers.core.explain import Explanation
from schedulers.core.model import Job
from schedulers.core.policy import Offer, Planned, Policy, Triggers
from schedulers.core.rehearsal import Script, StageProfile, Table
from schedulers.core.round import mistaken
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState, ContainerState, JobState
from schedulers.core.transfers import arrival
from schedulers.planning.jockey.rehearsal import rehearse

#: So many beats of every node, cycles, or periods may pass without any change where these themselves count.
PATIENCE: Final = 200


class Stalled(SchedulerError, RuntimeError):
    """Nothing can happen any more and jobs are unfinished; the message says which and why."""


class Scheduling(Decider, Protocol):
    """A decider that follows a policy: a `Scheduler`, or a stand-in for a scheduler."""

    @property
    def policy(self) -> Policy:
        """The policy; its triggers name the events for which a policy wants to be called."""

    def next_change(self) -> int | None:
        """Time in ms at which the decisions would change by themselves, or None."""


class Control(ABC):
    """The questions of the simulation to the deciders.

    Only the implementations look into the states of schedulers: `OneScheduler`, `MultipleSchedulers` with jobs of
    their own, and `Workers` with queues.
    """

    handle: Callable[[Event], list[Decision]]
    """Take in a fact, return decisions. An attribute instead of a method, so that a single scheduler's own method can
    stand here without a call in between for each fact."""
    explain: Callable[[str], Explanation]
    """Why a live job waits."""
    containers: Mapping[int, ContainerState]
    """The containers by number."""
    triggers: Triggers = Triggers()
    """The events for which a policy wants to be called."""
    next_change: Callable[[], int | None] | None = None
    """Time in ms at which the decisions would change by themselves; None where time alone changes nothing."""
    plans: bool = False
    """Whether jobs are planned, so that `new_plans` has to be asked."""
    copies: bool = False
    """Whether tasks may have several containers."""
    wants_waves: bool = False
    """Whether a policy plays executors, so that an oracle tells run times by wave."""

    def __init__(self, states: Sequence[ClusterState]) -> None:
        self._states = states

    @abstractmethod
    def _state_of(self, job: str) -> ClusterState:
        """The state of the job's scheduler."""

    @property
    def version(self) -> int:
        """Counts the changes so far."""
        return sum(state.version for state in self._states)

    @property
    def mistakes(self) -> str:
        """The policy's last suggestion, where it named what is not there, as a sentence; ''."""
        return ""

    @property
    def waiting(self) -> tuple[int, int]:
        """Number of jobs with tasks to be placed, and number of such tasks."""
        states = self._states
        return sum(len(state.waiting) for state in states), sum(sum(state.sizes.waiting) for state in states)

    def job(self, name: str) -> JobState:
        """The state of a live job."""
        return self._state_of(name).jobs[name]

    def has_node(self, name: str) -> bool:
        """Whether a scheduler knows the node."""
        return any(name in state.nodes for state in self._states)

    def node_is_back(self, name: str, place: int) -> None:
        """Note that a node of the cluster, by its place there, was added anew."""

    def arrival(self, job: JobState, stage: int, node: str) -> int:
        """Time at which the input of a task of the stage is on the node, ms; the parents have ended."""
        state = self._state_of(job.id)
        return arrival(job, job.stages[stage], state.nodes[node], state.links, state.nodes)

    def new_plans(self) -> Iterator[tuple[Job, Planned]]:
        """Jobs planned since the last call, each with its plan."""
        return iter(())


class OneScheduler(Control):
    """A single scheduler with the whole cluster in view; answers the questions of profiles about nodes to offer."""

    def __init__(self, scheduler: Scheduling) -> None:
        state, policy = scheduler.state, scheduler.policy
        super().__init__((state,))
        self._scheduler = scheduler
        self._decide, self.explain = scheduler.handle, scheduler.explain
        self._state, self._policy = state, policy
        self.containers = state.containers
        self.copies = state.copies.settings is not None
        # Abilities are looked up once: a look-up for each fact or beat would be slow.
        self._plans, self._urges = ability(policy, Plans), ability(policy, WantsNodes) or WantsNodes()
        self._cycles = ability(policy, DecidesInCycles) or DecidesInCycles()
        self._rehearses = ability(policy, Rehearses)
        self.wants_waves = ability(policy, PlaysExecutors) is not None
        self.woken_sizes = state.journal.sizes.cursor()
        """Sizes that woke; `woken_nodes` reads on from here, and need not be called when everything was read."""
        self._places: dict[int, int] = {}  # of nodes that came back, by the core's number for each
        self.waiting_sizes = state.sizes.active
        """Sizes with tasks to be placed."""
        # Only policies that rehearse pay for the loop over scripts; all others are called directly.
        self.handle = self._decide if self._rehearses is None else self._rehearse
        # A policy that never looks at the clock must not be asked for the time after each fact.
        says = type(policy).next_change is not Policy.next_change or state.reservations is not None
        self.next_change = scheduler.next_change if says else None
        self.triggers, self.plans = policy.triggers, self._plans is not None
        # Stand-ins for a scheduler, and policies that look at the clock, hear every beat.
        idle = scheduler.idle_beats if isinstance(scheduler, Scheduler) and self.next_change is None else None
        self.idle_beats = idle if idle is not None and idle.exist else None
        """Beats that change nothing, None where every beat is to be heard."""

    def _state_of(self, job: str) -> ClusterState:
        return self._state

    def _rehearse(self, event: Event) -> list[Decision]:
        """Take in a fact, then the results of the rehearsals wished for by the policy."""
        decisions = self._decide(event)
        assert self._rehearses is not None
        for job, script in self._rehearses.new_scripts().items():
            decisions += self._decide(Rehearsed(event.at, job, *_rehearsed(script)))
        return decisions

    @property
    def mistakes(self) -> str:
        """See Control.mistakes; of a scheduler, as stand-ins suggest nothing by themselves."""
        who = self._scheduler
        if not isinstance(who, Scheduler) or who.in_vain is None or not (why := mistaken(who.state, who.in_vain)):
            return ""
        return f"the last suggestion of policy '{who.config.policy['kind']}' {why}"

    @property
    def version(self) -> int:
        """Count of changes, from the one state without a sum: two calls for each beat."""
        return self._state.counts.version

    def could_place(self, node: str) -> bool:
        """Whether a waiting task could start on this node now, or the policy urges an offer of the node."""
        state = self._state
        # A drained node is gone with its last container.
        there = state.nodes.get(node)
        return there is not None and (node in self._urges.wanted_nodes or state.sizes.could_place(there))

    def has_startable_task(self) -> bool:
        """Whether a waiting task could start anywhere now, also in an idle executor, or the policy is to decide."""
        # The cheap answers first: an offer of the whole state walks over sizes and nodes.
        if self._cycles.needs_cycle or self._urges.wanted_nodes:
            return True
        return bool(self._state.waiting) and Offer(self._state, None).has_room()

    def woken_nodes(self) -> set[int]:
        """Places of nodes with room for sizes that began to wait, or may start again, since the last call."""
        fitting = self._state.sizes.fitting
        found = {index for size in self.woken_sizes.read() for index in fitting(size).indexes}
        return {self._places.get(index, index) for index in found} if self._places else found

    def node_is_back(self, name: str, place: int) -> None:
        """See Control.node_is_back: the core has numbered the node anew."""
        self._places[self._state.nodes[name].index] = place

    @property
    def urged_nodes(self) -> Collection[str]:
        """Nodes on which the policy would start a container without a waiting task."""
        return self._urges.wanted_nodes

    def new_plans(self) -> Iterator[tuple[Job, Planned]]:
        """Jobs planned since the last call, from the only policy."""
        assert self._plans is not None
        for name, planned in self._plans.new_plans().items():
            yield self._state.jobs[name].spec, planned


@lru_cache(maxsize=256)
def _rehearsed(script: Script) -> tuple[tuple[StageProfile, ...], Table]:
    """Result of a rehearsal, played once even if many cells wish for the same script."""
    return rehearse(script)
