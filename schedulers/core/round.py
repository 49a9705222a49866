"""A round of deciding: suggestions are checked against the present state, and valid suggestions are applied."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from schedulers.core.decisions import Commit, Copy, Decision, Move, Place, Preempt, Run
from schedulers.core.errors import VainSuggestions
from schedulers.core.events import Event
from schedulers.core.explain import limit_reason
from schedulers.core.live import JobState, NodeState, StageState
from schedulers.core.log import SchedulerConfig
from schedulers.core.placer import Placer
from schedulers.core.policy import Offer, Outcome, Suggestion
from schedulers.core.reasons import Reason
from schedulers.core.state import ClusterState

#: Suggestions in vain, in a row, before they are weighed against the number of all that could be suggested.
PATIENCE: Final = 1000


def lose_patience(state: ClusterState, policy: str, suggestion: Suggestion, outcome: Outcome, vain: int) -> None:
    """Raise VainSuggestions for more suggestions in a row than there are stages and nodes to name, each twice.

    policy: its kind. vain: how many there were in this round since anything started.
    """
    stages = sum(len(job.stages) for job in state.jobs.values())
    if vain >= PATIENCE + 2 * stages * (1 + len(state.nodes)):
        answer = outcome.reason.value if outcome.reason else "nothing"
        why = mistaken(state, suggestion) or f"is answered with {answer}"
        raise VainSuggestions(f"policy '{policy}' suggests {vain:,} times in a row what {why}")


def mistaken(state: ClusterState, suggestion: Suggestion) -> str:
    """The impossible part of a suggestion, a sentence without its subject; ''."""
    job = state.jobs.get(suggestion.job)
    if job is None:
        return f"names job '{suggestion.job}', which is not there"
    if suggestion.stage not in range(len(job.stages)):
        return f"names stage {suggestion.stage!r} of job '{suggestion.job}', which has {len(job.stages)} (from 0)"
    return ""


class SuggestionOutcome(msgspec.Struct, frozen=True):
    """A suggestion of a recorded round and its outcome."""

    suggestion: Suggestion
    outcome: Outcome


class RoundRecord(msgspec.Struct, frozen=True):
    """A round as kept by `record: full`: time, fact, suggestions, end."""

    at: int
    event: str
    offered: int
    """Number of nodes on offer."""
    asked: tuple[SuggestionOutcome, ...]
    ended: str
    """The end of the round, in words."""


class Owner(Protocol):
    """The part of `Scheduler` used by a round."""

    config: SchedulerConfig
    state: ClusterState
    placer: Placer
    rounds: list[RoundRecord]
    in_vain: Suggestion | None

    def carry_out(self, decision: Decision, decisions: list[Decision]) -> None:
        """See Scheduler."""

    def close(self, event: Event, decisions: list[Decision], version: int, *, asked: bool) -> None:
        """See Scheduler."""


class Round:
    """Deciding on a single fact, step by step. `offer` is None when nothing is on offer now."""

    __slots__ = ("_decisions", "_event", "_outcomes", "_scheduler", "_vain", "_version", "offer")

    def __init__(
        self,
        scheduler: Owner,
        event: Event,
        decisions: list[Decision],
        offer: Offer | None,
        version: int | None,
    ) -> None:
        self._scheduler, self._event, self._decisions, self.offer = scheduler, event, decisions, offer
        self._version, self._vain = version, 0
        self._outcomes: list[SuggestionOutcome] | None = [] if scheduler.config.record == "full" else None

    def suggest(self, suggestion: Suggestion) -> Outcome:
        """Check a suggestion against the present state; apply a valid suggestion.

        Raises VainSuggestions for a policy that suggests without end what cannot start.
        """
        if suggestion.copy:
            outcome = self._copy(suggestion)
        else:
            outcome = self._bring(suggestion) if suggestion.ahead else self._try(suggestion)
        if outcome.placed:
            self._vain = 0
        else:
            self._vain += 1
            scheduler = self._scheduler
            scheduler.in_vain = suggestion
            if self._vain % PATIENCE == 0:
                lose_patience(scheduler.state, scheduler.config.policy["kind"], suggestion, outcome, self._vain)
        if self._outcomes is not None:
            self._outcomes.append(SuggestionOutcome(suggestion, outcome))
        return outcome

    def preempt(self, container: int, rule: str, cause: str) -> None:
        """Order a container killed; its room stays held until its end is heard."""
        self._scheduler.carry_out(Preempt(container, rule, cause), self._decisions)

    def _try(self, suggestion: Suggestion) -> Outcome:
        offer, state = self.offer, self._scheduler.state
        job = state.waiting.get(suggestion.job)
        if offer is None or job is None or offer.limit == 0 or not offer.serves(suggestion.job, suggestion.stage):
            return Outcome(0, Reason.WAITS_FOR_OFFER)
        # A policy may suggest from a plan older than the last fact, so this is an answer and no error.
        if suggestion.stage not in job.open:
            return Outcome(0, Reason.WAITS_FOR_STAGE)
        stage = job.stages[suggestion.stage]
        ready = stage.waiting
        if suggestion.task is not None:
            ready = int(stage.is_waiting(suggestion.task) or suggestion.task in stage.copies)
        elif suggestion.pilots is not None:
            ready = len(stage.pilots) if suggestion.pilots else stage.waiting_non_pilots
        # Never refused for asking too much: a policy may suggest a whole stage without counting its tasks.
        wanted = min(suggestion.count, ready)
        if wanted and job.is_waiting_gang(stage):
            why = self._keeps_apart(job, stage, offer, suggestion)
            if why is not None:
                return Outcome(0, self._reserve(job, stage, why))
            among, spread = suggestion.among, suggestion.spread
            # All waiting members, whatever was suggested: a gang starts whole or not at all.
            suggestion, wanted = Suggestion(job.id, stage.index, among=among, spread=spread), stage.waiting
        containers = self._start(job, stage, suggestion, offer, wanted)
        if not containers:
            return Outcome(0, self._reserve(job, stage, self._why_none(job, stage, ready)))
        # NO_ROOM stays said while the job is served piecemeal (no oscillation), unless a limit stops the job now.
        if job.hold is not Reason.NO_ROOM or (
            stage.size in state.sizes.bounds and state.sizes.blocking_account(job, stage) is not None
        ):
            state.journal.reasons.note(suggestion.job)
        return Outcome(len(containers), None, tuple(containers))

    def _start(self, job: JobState, stage: StageState, suggestion: Suggestion, offer: Offer, wanted: int) -> list[int]:
        """Start so many tasks, as far as there is room; returns their containers."""
        node = self._only_node(suggestion, offer)
        if node is not None:
            # Counted once for the only node: asking the placer per task would be the hottest loop of a heartbeat.
            wanted = min(wanted, node.fit_count(stage)) if wanted > 1 else wanted and node.fits(stage)
        fills = node is None and self._fills_nodes(suggestion)
        state = self._scheduler.state
        containers: list[int] = []
        while len(containers) < wanted and offer.limit != 0:
            container = self._start_one(job, stage, suggestion, offer, node)
            if container is None:
                break
            containers.append(container)
            if fills:
                # Fast path: nodes before the used node have no room for the size, and get none within a round.
                used = state.nodes[state.containers[container].node]
                node = used if used.fits(stage) else None
            if suggestion.spread and suggestion.among is not None:
                # The used node leaves the choice: every task on a node of its own.
                left = suggestion.among - {state.containers[container].node}
                suggestion, node = msgspec.structs.replace(suggestion, among=left), None
        return containers

    def _fills_nodes(self, suggestion: Suggestion) -> bool:
        """Whether each of the tasks goes to the first node with room."""
        state = self._scheduler.state
        chosen = suggestion.node is not None or suggestion.among is not None or suggestion.executor is not None
        # Idle executors come before nodes, and reservations let some tasks of a size onto a node, and others not.
        return self._scheduler.placer.takes_first and not (chosen or state.has_executors or state.reservations)

    def _copy(self, suggestion: Suggestion) -> Outcome:
        """Start another container of a task under way or done."""
        offer, state = self.offer, self._scheduler.state
        job, copies, task = state.jobs.get(suggestion.job), state.copies, suggestion.task
        if offer is None or job is None or offer.limit == 0 or not offer.serves(suggestion.job, suggestion.stage):
            return Outcome(0, Reason.WAITS_FOR_OFFER)
        stage = job.stages[suggestion.stage]
        if (
            copies.settings is None
            or task is None
            or not copies.allows(state.containers, job, stage, task, suggestion.node or "")
        ):
            return Outcome(0, Reason.WAITS_FOR_STAGE)
        node = self._node_for(stage, suggestion, offer) if suggestion.node and state.sizes.admits(stage.size) else None
        if node is None or (state.reservations is not None and not state.reservations.takes(node, job, stage)):
            return Outcome(0, Reason.NO_ROOM)
        return Outcome(1, None, (self._make_copy(job, stage, task, node, offer),))

    def _make_copy(self, job: JobState, stage: StageState, task: int, node: NodeState, offer: Offer) -> int:
        number, attempt = self._scheduler.state.counts.next_container, stage.attempts.get(task, 0)
        if offer.limit is not None:
            offer.limit -= 1
        self._scheduler.carry_out(Copy(number, node.spec.id, job.id, stage.index, task, attempt), self._decisions)
        return number

    def _start_asked_copy(self, job: JobState, stage: StageState, suggestion: Suggestion, offer: Offer) -> int | None:
        """Start one more container that the job's master has asked for; returns it, or None when there is no room."""
        state, tasks = self._scheduler.state, tuple(stage.copies) if suggestion.task is None else (suggestion.task,)
        nodes = state.sizes.fitting(stage.size) if offer.nodes is None else offer.nodes
        takes = state.reservations.takes if state.reservations is not None else None
        there = {node.spec.id for node in nodes if takes is None or takes(node, job, stage)}
        if suggestion.among is not None:
            there &= suggestion.among
        for task in tasks if state.sizes.admits(stage.size) else ():
            among = frozenset(there.difference(stage.copies[task]))
            node = self._node_for(stage, msgspec.structs.replace(suggestion, among=among), offer)
            if (
                node is not None
                and node.spec.id in among
                and state.copies.allows(state.containers, job, stage, task, node.spec.id)
            ):
                return self._make_copy(job, stage, task, node, offer)
        return None

    def _reserve(self, job: JobState, stage: StageState, why: Reason) -> Reason:
        """Reserve nodes for a stage without room, if the stage has waited long enough; returns the reason to tell."""
        reservations = self._scheduler.state.reservations
        if reservations is None or why not in (Reason.NO_ROOM, Reason.NO_ROOM_FOR_GANG):
            return why
        if (job.id, stage.index) in reservations.by_stage:
            return Reason.HAS_RESERVATION
        if self.offer is not None and self.offer.job is None and reservations.is_due(job, stage):
            # Only at the policy's own suggestion: the policy alone decides on the order of jobs.
            decision = reservations.plan(job, stage)
            if decision is not None:
                self._scheduler.carry_out(decision, self._decisions)
                return Reason.HAS_RESERVATION
        return why if not self._scheduler.state.sizes.fitting(stage.size) else Reason.RESERVED

    def _bring(self, suggestion: Suggestion) -> Outcome:
        """Bring executors to a job for a stage not open yet."""
        offer, state = self.offer, self._scheduler.state
        job = state.jobs.get(suggestion.job)
        if (
            offer is None
            or job is None
            or not state.has_executors
            or not offer.serves(suggestion.job, suggestion.stage)
        ):
            return Outcome(0, Reason.WAITS_FOR_OFFER)
        stage = job.stages[suggestion.stage]
        containers: list[int] = []
        while len(containers) < suggestion.count and offer.limit != 0:
            decision = self._committed(job, stage, suggestion, offer)
            if decision is None:
                break
            self._scheduler.carry_out(decision, self._decisions)
            containers.append(decision.container)
        return Outcome(len(containers), None if containers else Reason.NO_ROOM, tuple(containers))

    def _committed(self, job: JobState, stage: StageState, suggestion: Suggestion, offer: Offer) -> Commit | None:
        state = self._scheduler.state
        if suggestion.executor is not None:
            container = state.idle.get(suggestion.executor)
            if container is None or container.size != stage.size or container.job == job.id:
                return None
            return Commit(container.id, job.id, stage.index)
        node = self._node_for(stage, suggestion, offer) if state.sizes.admits(stage.size) else None
        if node is None:
            return None
        if offer.limit is not None:
            offer.limit -= 1
        return Commit(state.counts.next_container, job.id, stage.index, node.id)

    def _why_none(self, job: JobState, stage: StageState, ready: int) -> Reason:
        account = self._scheduler.state.sizes.blocking_account(job, stage)
        if account is not None:
            return limit_reason(account)
        return Reason.NO_ROOM if ready else Reason.WAITS_FOR_PILOTS

    def _keeps_apart(self, job: JobState, stage: StageState, offer: Offer, suggestion: Suggestion) -> Reason | None:
        """The reason for the offer not to take the whole gang, or None; a gang never goes to idle executors."""
        state = self._scheduler.state
        account = state.sizes.blocking_account(job, stage)
        if account is not None:
            return limit_reason(account)
        enough = offer.limit is None or offer.limit >= stage.waiting
        if (among := suggestion.among) is not None:
            nodes = state.nodes.values() if offer.nodes is None else offer.nodes
            # Counted before anything starts, because a gang started in part would hold its room for nothing.
            rooms = (node.fit_count(stage) for node in nodes if node.spec.id in among)
            room = sum(min(1, each) if suggestion.spread else each for each in rooms) >= stage.waiting
        elif state.reservations is not None:
            room = state.reservations.has_room(job, stage, offer.nodes)
        else:
            room = state.sizes.has_room_for_all(stage, offer.nodes)
        return None if enough and room else Reason.NO_ROOM_FOR_GANG

    def _only_node(self, suggestion: Suggestion, offer: Offer) -> NodeState | None:
        """The only node possible for the tasks, without a choice to make: a heartbeat without executors."""
        if offer.nodes is None or len(offer.nodes) != 1 or self._scheduler.state.has_executors:
            return None
        node = offer.nodes[0]
        if suggestion.among is not None and node.spec.id not in suggestion.among:
            return None
        return node if suggestion.node is None or suggestion.node == node.spec.id else None

    def _start_one(
        self, job: JobState, stage: StageState, suggestion: Suggestion, offer: Offer, node: NodeState | None
    ) -> int | None:
        """Start a task; returns its container, or None when there is no room."""
        state = self._scheduler.state
        if suggestion.task is None:
            task, attempt = stage.first_task(suggestion.pilots)
        else:
            task, attempt = suggestion.task, stage.attempts.get(suggestion.task, 0)
        if task in stage.copies:
            return self._start_asked_copy(job, stage, suggestion, offer)
        decision: Place | Run | Move | None = None
        # A named executor or nothing: a policy that plans executors must not get a different one instead.
        named = suggestion.executor is not None
        if named:
            decision = self._with_named(job, stage, task, attempt, suggestion.executor)
        elif state.has_executors:
            decision = self._with_executor(job, stage, task, attempt, own=True)
        if decision is None and not named and (stage.size not in state.sizes.bounds or state.sizes.admits(stage.size)):
            node = node or self._node_for(stage, suggestion, offer)
            if node is not None and (state.reservations is None or state.reservations.takes(node, job, stage)):
                decision = Place(state.counts.next_container, node.spec.id, suggestion.job, stage.index, task, attempt)
                if offer.limit is not None:
                    offer.limit -= 1
        # The job's own executors first, then new ones, then those of other jobs, because a move costs a trip.
        if decision is None and not named and state.has_executors:
            decision = self._with_executor(job, stage, task, attempt, own=False)
        if decision is None:
            return None
        self._scheduler.carry_out(decision, self._decisions)
        return decision.container

    def _with_named(
        self, job: JobState, stage: StageState, task: int, attempt: int, executor: int | None
    ) -> Run | Move | None:
        container = self._scheduler.state.idle.get(executor or 0)
        if container is None or container.size != stage.size:
            return None
        kind = Run if container.job == job.id else Move
        return kind(container.id, job.id, stage.index, task, attempt)

    def _with_executor(
        self, job: JobState, stage: StageState, task: int, attempt: int, *, own: bool
    ) -> Run | Move | None:
        for container in self._scheduler.state.idle.values():
            if (container.job == job.id) == own and container.size == stage.size:
                kind = Run if own else Move
                return kind(container.id, job.id, stage.index, task, attempt)
        return None

    def _node_for(self, stage: StageState, suggestion: Suggestion, offer: Offer) -> NodeState | None:
        scheduler, state = self._scheduler, self._scheduler.state
        if suggestion.node is not None:
            node = state.nodes.get(suggestion.node)
            there = node is not None and (offer.nodes is None or node in offer.nodes)
            return node if there and node is not None and node.fits(stage) else None
        fitting: Any
        if suggestion.among is not None:
            # Sorted: a set has no order, and placers rely on the order of arrival.
            named = sorted((state.nodes[name] for name in suggestion.among if name in state.nodes), key=_by_arrival)
            fitting = [node for node in named if node.fits(stage) and (offer.nodes is None or node in offer.nodes)]
        elif state.reservations is not None and (state.reservations.by_node or offer.nodes is not None):
            fitting = list(state.reservations.allowed(state.jobs[suggestion.job], stage, offer.nodes))
        elif offer.nodes is None:
            fitting = state.sizes.fitting(stage.size)  # no list is made: of thousands of nodes the first may be enough
        else:
            fitting = [node for node in offer.nodes if node.fits(stage)]
        if not fitting:
            return None
        # No choice, no placer: on a heartbeat the list has a single node.
        if len(fitting) == 1:
            only: NodeState = fitting[0]
            return only
        return scheduler.placer.pick(stage.demand, fitting, tuple(state.capacity))

    def end(self) -> list[Decision]:
        """Report waiting jobs, write the log, return the decisions."""
        if self._version is not None:
            self.remember()
            self._scheduler.close(self._event, self._decisions, self._version, asked=self.offer is not None)
        return self._decisions

    def remember(self) -> None:
        """Keep the round, with `record: full`."""
        scheduler, offer = self._scheduler, self.offer
        if self._outcomes is not None and offer is not None:
            offered = len(scheduler.state.nodes if offer.nodes is None else offer.nodes)
            ended = "the policy suggests nothing more" if offer.has_room() else "nothing fits any more"
            kind = type(self._event).__name__
            scheduler.rounds.append(RoundRecord(self._event.at, kind, offered, tuple(self._outcomes), ended))


def _by_arrival(node: NodeState) -> int:
    return node.index
