"""Who decides, as the engine sees it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final, Protocol

from schedulers.core.abilities import DecidesInCycles, Plans, Rehearses, Urges, ability
from schedulers.core.decisions import Decision
from schedulers.core.errors import SchedulerError
from schedulers.core.events import Event, Rehearsed
from schedulers.core.explain import Explanation
from schedulers.core.model import Job
from schedulers.core.policy import Offer, Planned, Policy
from schedulers.core.rehearsal import Course, Script, Table
from schedulers.core.state import ClusterState, ContainerState, JobState
from schedulers.core.transfers import arrival
from schedulers.planning.rehearsal import rehearse

#: So many beats of every node, cycles, or periods may pass without any change where these themselves count.
PATIENCE: Final = 200


class Stalled(SchedulerError, RuntimeError):
    """Nothing can happen any more and jobs are unfinished; the message says which and why."""


class Decider(Protocol):
    """One that decides. `Scheduler` is the default."""

    state: ClusterState

    @property
    def policy(self) -> Policy:
        """Whose triggers say what it wants to hear of."""

    def handle(self, event: Event) -> list[Decision]:
        """Take in a fact, return decisions."""

    def explain(self, job: str) -> Explanation:
        """Why a live job waits."""

    def next_change(self) -> int | None:
        """When time alone would change what is decided, or None."""


class Control:
    """All that the engine asks of who decides: nothing else in the engine looks into a scheduler's state.

    One decider stands behind it; it is the place where several would be told apart.
    handle, explain, next_change: the decider's; the last is None where the policy never says. triggers: what its policy
    wants to hear of. plans: whether that policy plans jobs. copies: whether tasks may have several containers.
    held: its containers by number. active: sizes of which tasks wait to be placed. unheard: sizes that woke,
    for `woken`, which need not be asked when all of it was read.
    """

    def __init__(self, decider: Decider) -> None:
        self._decide, self.explain = decider.handle, decider.explain
        self._state, self._policy = decider.state, decider.policy
        self._plans, self._urges = ability(self._policy, Plans), ability(self._policy, Urges) or Urges()
        self._cycles = ability(self._policy, DecidesInCycles) or DecidesInCycles()
        self._rehearses = ability(self._policy, Rehearses)
        self.handle = self._decide if self._rehearses is None else self._rehearse
        says = type(self._policy).next_change is not Policy.next_change or self._state.reservations is not None
        self.next_change = decider.next_change if says else None
        self.unheard = decider.state.journal.sizes.cursor()
        self.active = decider.state.sizes.active
        self.held: Mapping[int, ContainerState] = decider.state.containers
        self.copies = decider.state.copies is not None
        self.triggers, self.plans = self._policy.triggers, self._plans is not None

    def _rehearse(self, event: Event) -> list[Decision]:
        """A fact, and what comes of the rehearsals that it made the policy wish for."""
        decisions = self._decide(event)
        assert self._rehearses is not None
        for job, script in self._rehearses.new_scripts().items():
            decisions += self._decide(Rehearsed(event.at, job, *_rehearsed(script)))
        return decisions

    @property
    def version(self) -> int:
        """Counts the changes so far."""
        return self._state.version

    @property
    def waiting(self) -> tuple[int, int]:
        """How many jobs have tasks that wait to be placed, and how many tasks these are."""
        return len(self._state.waiting), sum(self._state.sizes.waiting)

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

    def job(self, name: str) -> JobState:
        """What is known of a live job."""
        return self._state.jobs[name]

    def arrival(self, job: JobState, stage: int, node: str) -> int:
        """When what a task of the stage takes is on the node, in ms; its parents are done."""
        state = self._state
        return arrival(job, job.stages[stage], state.nodes[node], state.links, state.nodes)

    def new_plans(self) -> Iterator[tuple[Job, Planned]]:
        """Jobs that were planned since this was asked last."""
        assert self._plans is not None
        for name, planned in self._plans.new_plans().items():
            yield self._state.jobs[name].spec, planned


@lru_cache(maxsize=256)
def _rehearsed(script: Script) -> tuple[tuple[Course, ...], Table]:
    """Played once, however many cells wish for it."""
    return rehearse(script)
