"""Whoever decides, as the engine sees it: an interface, and its implementation for one scheduler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from schedulers.core.abilities import DecidesInCycles, Plans, Rehearses, Urges, ability
from schedulers.core.decider import Decider
from schedulers.core.decisions import Decision
from schedulers.core.errors import SchedulerError
from schedulers.core.events import Event, Rehearsed
from schedulers.core.explain import Explanation
from schedulers.core.model import Job
from schedulers.core.policy import Offer, Planned, Policy, Triggers
from schedulers.core.rehearsal import Course, Script, Table
from schedulers.core.state import ClusterState, ContainerState, JobState
from schedulers.core.transfers import arrival
from schedulers.planning.jockey.rehearsal import rehearse

#: So many beats of every node, cycles, or periods may pass without any change where these themselves count.
PATIENCE: Final = 200


class Stalled(SchedulerError, RuntimeError):
    """Nothing can happen any more and jobs are unfinished; the message says which and why."""


class Scheduling(Decider, Protocol):
    """A decider that goes by a policy: a `Scheduler`, or what stands in for one."""

    @property
    def policy(self) -> Policy:
        """The policy, whose triggers say what it wants to hear of."""

    def next_change(self) -> int | None:
        """When time alone would change what is decided, or None."""


class Control(ABC):
    """All that the simulation asks of whoever decides.

    Only the implementations look into the states of schedulers: `OneScheduler`, `Several` that think about jobs of
    their own, and `Workers` with queues.
    """

    handle: Callable[[Event], list[Decision]]
    """Take in a fact, return decisions. An attribute, so that one scheduler's own method can stand here: it is called
    for each fact."""
    explain: Callable[[str], Explanation]
    """Why a live job waits."""
    held: Mapping[int, ContainerState]
    """The containers by number."""
    triggers: Triggers = Triggers()
    """What a policy wants to hear of."""
    next_change: Callable[[], int | None] | None = None
    """When time alone would change what is decided; None: never."""
    plans: bool = False
    """Whether jobs are planned, so that `new_plans` has to be asked."""
    copies: bool = False
    """Whether tasks may have several containers."""

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
    def waiting(self) -> tuple[int, int]:
        """How many jobs have tasks that wait to be placed, and how many tasks these are."""
        states = self._states
        return sum(len(state.waiting) for state in states), sum(sum(state.sizes.waiting) for state in states)

    def job(self, name: str) -> JobState:
        """What is known of a live job."""
        return self._state_of(name).jobs[name]

    def arrival(self, job: JobState, stage: int, node: str) -> int:
        """When what a task of the stage takes is on the node, in ms; its parents are done."""
        state = self._state_of(job.id)
        return arrival(job, job.stages[stage], state.nodes[node], state.links, state.nodes)

    def new_plans(self) -> Iterator[tuple[Job, Planned]]:
        """Jobs that were planned since this was asked last."""
        return iter(())


class OneScheduler(Control):
    """One scheduler that sees the whole cluster, and answers what profiles ask in order to offer nodes."""

    def __init__(self, scheduler: Scheduling) -> None:
        state, policy = scheduler.state, scheduler.policy
        super().__init__((state,))
        self._decide, self.explain = scheduler.handle, scheduler.explain
        self._state, self._policy = state, policy
        self.held = state.containers
        self.copies = state.copies is not None
        # Looked up once, as they are asked for each fact or beat.
        self._plans, self._urges = ability(policy, Plans), ability(policy, Urges) or Urges()
        self._cycles = ability(policy, DecidesInCycles) or DecidesInCycles()
        self._rehearses = ability(policy, Rehearses)
        self.unheard = state.journal.sizes.cursor()
        """Sizes that woke, for `woken`, which need not be asked when all of this was read."""
        self.active = state.sizes.active
        """Sizes of which tasks wait to be placed."""
        self.handle = self._decide if self._rehearses is None else self._rehearse
        says = type(policy).next_change is not Policy.next_change or state.reservations is not None
        self.next_change = scheduler.next_change if says else None
        self.triggers, self.plans = policy.triggers, self._plans is not None

    def _state_of(self, job: str) -> ClusterState:
        return self._state

    def _rehearse(self, event: Event) -> list[Decision]:
        """A fact, and what comes of the rehearsals that it made the policy wish for."""
        decisions = self._decide(event)
        assert self._rehearses is not None
        for job, script in self._rehearses.new_scripts().items():
            decisions += self._decide(Rehearsed(event.at, job, *_rehearsed(script)))
        return decisions

    @property
    def version(self) -> int:
        """See Control. Asked twice for each beat."""
        return self._state.counts.version

    def could_place(self, node: str) -> bool:
        """Whether anything that waits could start on this node now, or the policy is to be offered it all the same."""
        state = self._state
        return node in self._urges.urges or state.sizes.could_place(state.nodes[node])

    def has_takers(self) -> bool:
        """Whether anything that waits could start anywhere now, in an idle executor too, or the policy is to decide."""
        if self._cycles.due or self._urges.urges:
            return True
        return bool(self._state.waiting) and Offer(self._state, None).has_room()

    def woken(self) -> set[int]:
        """Indexes of nodes for what began to wait, or was let start again, since this was asked last."""
        fitting = self._state.sizes.fitting
        return {index for size in self.unheard.read() for index in fitting(size).indexes}

    @property
    def urged(self) -> Collection[str]:
        """Nodes on which the policy has something to start that nobody waits for."""
        return self._urges.urges

    def new_plans(self) -> Iterator[tuple[Job, Planned]]:
        """See Control."""
        assert self._plans is not None
        for name, planned in self._plans.new_plans().items():
            yield self._state.jobs[name].spec, planned


@lru_cache(maxsize=256)
def _rehearsed(script: Script) -> tuple[tuple[Course, ...], Table]:
    """Played once, however many cells wish for it."""
    return rehearse(script)
