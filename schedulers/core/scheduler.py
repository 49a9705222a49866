"""The scheduler: facts in, decisions out. It owns the state, asks the policy, and knows no clock.

`handle` reads like the loop of a paper: hear the fact, learn from the fact, offer free room, let the policy suggest,
check and apply each suggestion, report waiting jobs with reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from schedulers.core import memory
from schedulers.core.abilities import (
    AssignsAhead,
    DecidesInCycles,
    KeepsNodes,
    Preempts,
    Remembers,
    Searches,
    WantsNodes,
    ability,
)
from schedulers.core.compatible import Setup, clashes
from schedulers.core.decisions import Decision, Preempt, Release, Run
from schedulers.core.errors import InvalidParameters, InvalidTransition
from schedulers.core.events import (
    ContainerEnded,
    Estimated,
    Event,
    Heartbeat,
    HistoryPrimed,
    JobCancelled,
    JobSubmitted,
    OfferAsked,
    PilotsNamed,
    SearchEnded,
    SizeEstimated,
    TaskEnded,
    TaskFound,
    Thought,
    Tick,
)
from schedulers.core.explain import Explanation, WaitReason, explained, why_not, why_waiting
from schedulers.core.holds import Holds
from schedulers.core.idle_beats import IdleBeats
from schedulers.core.log import FORMAT, READABLE, Log, SchedulerConfig
from schedulers.core.placer import Placer, placers
from schedulers.core.policy import (
    Anything,
    ClusterView,
    JobOffer,
    Offer,
    Policy,
    Suggestion,
    policies,
)
from schedulers.core.predictor import FinishedTask, Predictor, predictors
from schedulers.core.reasons import Reason
from schedulers.core.refusals import NodeCode, NodeRefusal
from schedulers.core.resources import Resources
from schedulers.core.round import Round, RoundRecord
from schedulers.core.state import GRANTED, RUNNING, ClusterState, ContainerState, JobState, StageState


class Scheduler:
    """A scheduler of a cluster.

    policy and predictor are made from `config`; a log, if given, gets every line. policy: an unregistered policy (being
    trained, or played step by step), in place of the config's.
    """

    def __init__(self, config: SchedulerConfig, *, log: Log | None = None, policy: Policy | None = None) -> None:
        self.config, self._log = config, log
        first, copies = config.first_container, config.copies
        self.state = ClusterState(
            Resources(config.resources), has_executors=config.executors, first_container=first, copies=copies
        )
        self._copies, self._work, self._stranded = self.state.copies, self.state.work, self.state.work.stranded
        self.predictor = _predictor(config)
        self.placer = _placer(config, self.state)
        self.policy = _policy(config, self.placer, policy)
        self.view = ClusterView(self.state, self.predictor, config.seed)
        if config.reserve_after is not None:
            self.state.keep_nodes(config.reserve_after, self.view.task_ms, one_node=config.offers == "heartbeat")
        # A lambda and no bound method: the policy is looked up at each call, after the placer has wrapped it.
        self.holds = Holds(self.state, config.offers, lambda job: self.policy.why(job, self.view))
        self._find_abilities()
        self.idle_beats = IdleBeats(self.state, self.policy, self.view, self.holds.to_check, log)
        # Without a predictor and executors the end of a container is a fact like any other.
        teaches = self.predictor is not None or config.executors
        self._hearers = {kind: hear for kind, hear in _HEARERS.items() if teaches or kind is not ContainerEnded}
        # Fast path: without a predictor of tasks, an executor simply takes the next task of its stage.
        self._continues_stages = self.predictor is None or self.predictor.estimates_stay
        self.rounds: list[RoundRecord] = []
        self.decision_count, self._offering = 0, _OFFERING[config.offers]
        self.in_vain: Suggestion | None = None  # the policy's last suggestion by which nothing started
        if log is not None:
            log.header(config)

    def _find_abilities(self) -> None:
        """Find the policy's abilities once: most facts are over sooner than a search of the policy."""
        policy = self.policy
        self._observe = policy.observe if type(policy).observe is not Policy.observe else None
        preempts = ability(policy, Preempts)
        self._victims = None if preempts is None else preempts.victims
        remembers = ability(policy, Remembers)
        self._pop_memory_changed = None if remembers is None else remembers.pop_memory_changed
        self._searches, self._wants_nodes = ability(policy, Searches), ability(policy, WantsNodes)
        self._decides = ability(policy, DecidesInCycles)
        self._cycle_was_needed = False  # `needs_cycle` of the policy before the present fact
        # Policies with books or a plan of their own would not know of tasks started past them.
        self._completes_gangs = not (ability(policy, KeepsNodes) or self.config.executors)

    # -- the loop -------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Decision]:
        """Take in a fact and decide. Raises InvalidTransition on an impossible log or decision."""
        # The version before the fact: `close` compares it to see whether anything changed.
        version, asked = self.state.counts.version, False
        decisions: list[Decision] = []
        if not self._take_in(event, decisions):
            return decisions
        if self._offering is None or type(event) in self._offering:
            offer = self._offer(event, decisions)
            if offer is not None and (offer.has_room() or (self._wants_nodes and self._has_wanted_node(offer))):
                asked = True
                self._ask(Round(self, event, decisions, offer, version), offer)
        self.close(event, decisions, version, asked=asked)
        return decisions

    def _has_wanted_node(self, offer: Offer) -> bool:
        """Whether the policy has something to start on the offered nodes besides waiting tasks."""
        assert self._wants_nodes is not None
        wanted = self._wants_nodes.wanted_nodes
        return bool(wanted) and (offer.nodes is None or any(node.spec.id in wanted for node in offer.nodes))

    def _ask(self, round_: Round, offer: Offer) -> None:
        """Let the policy suggest until it has no further suggestion."""
        if self._work.parted and self._completes_gangs and offer.job is None:
            # Before all other jobs: the running members of a parted gang hold their room for nothing.
            for job, stage in self._work.parted_gangs():
                round_.suggest(Suggestion(job.id, stage.index, count=stage.waiting))
        again = True
        while again:
            self._work.has_opened = False
            suggestions = self.policy.schedule(self.view, offer)
            # Bound to locals: the loop below runs for every task that a policy starts.
            suggestion, suggest, answer = next(suggestions, None), round_.suggest, suggestions.send
            try:
                while suggestion is not None:
                    suggestion = answer(suggest(suggestion))
            except StopIteration:
                pass
            # Where a start has opened a stage, which no policy looks for in the same round.
            again = self._work.has_opened and offer.has_room()
        if self.config.record == "full":
            round_.remember()

    def begin(self, event: Event) -> Round:
        """Take in a fact; the caller then suggests step by step and calls `end`."""
        version = self.state.counts.version
        decisions: list[Decision] = []
        if not self._take_in(event, decisions):
            return Round(self, event, decisions, None, None)
        return Round(self, event, decisions, self._offer(event, decisions), version)

    def _take_in(self, event: Event, decisions: list[Decision]) -> bool:
        """Hear a fact and learn from it; False for an ignored fact."""
        # By the type's dict and not by `match`: a cluster of thousands of nodes beats thousands of times per second.
        hear = self._hearers.get(type(event))
        if hear is not None:
            if not hear(self, event, decisions):
                return False
        elif (why := self.state.hear(event)) is not None:
            return self._ignore(event, why)
        # None when the policy does not observe: most policies read the state and hear no facts.
        if self._observe is not None:
            self._cycle_was_needed = self._decides is not None and self._decides.needs_cycle
            self._observe(event, self.view)
        if self._victims is not None:
            for victim in self._victims(self.view):
                self.carry_out(Preempt(*victim), decisions)
        # Before the offer: what nobody needs should end as early as possible.
        if self._stranded or self._copies.live:
            for number, rule in self.state.pop_superfluous():
                self.carry_out(Preempt(number, rule, self.state.containers[number].job), decisions)
        return True

    def close(self, event: Event, decisions: list[Decision], version: int, *, asked: bool) -> None:
        """Report waiting jobs, and write the log. asked: whether the policy was offered anything."""
        to_check, log = self.holds.to_check, self._log
        # Looked up without a call, because most facts change no job's reason.
        if to_check.at < len(to_check.entries):
            self.holds.report(decisions)
        if self._searches is not None and (found := self._searches.search_result) is not None:
            self._searches.search_result = None
            if log is not None:
                log.add(found, [])
        memory_changed = self._pop_memory_changed is not None and self._pop_memory_changed()
        if log is not None and (
            decisions
            or memory_changed
            or type(event) not in _PASSING
            or self.state.counts.version != version
            or self._matters_to_policy(event, asked=asked)
        ):
            log.add(event, decisions)

    def _matters_to_policy(self, event: Event, *, asked: bool) -> bool:
        """Whether a fact without a change counts for the policy all the same, so that the log must keep the fact."""
        triggers = self.policy.triggers
        if triggers.every_beat or (triggers.every_offer and asked):
            return True
        return type(event) is Tick and (self._cycle_was_needed or triggers.period_ms is not None)

    def _hear(self, event: Event) -> bool:
        why = self.state.hear(event)
        return why is None or self._ignore(event, why)

    def _ignore(self, event: Event, why: str) -> bool:
        """Log a fact ignored by the state; returns False, as the answer to whether the fact was taken."""
        if self._log is not None:
            self._log.ignored(event, why)
        return False

    def _hear_job(self, event: JobSubmitted, decisions: list[Decision]) -> bool:
        """Hear of a new job: the predictor names its pilots and estimates its size."""
        if not self._hear(event):
            return False
        if self.predictor is not None and event.job.kind == "batch":
            job = self.state.jobs[event.job.id]
            # After the state heard of the job, so that an ignored repetition teaches the predictor nothing.
            plan = self.predictor.submitted(job.spec, event.at)
            if plan is not None:
                self.state.hear(PilotsNamed(event.at, job.id, plan))
            self._estimate_size(job)
        return True

    def _hear_cancel(self, event: JobCancelled, decisions: list[Decision]) -> bool:
        job = self.state.jobs.get(event.job)
        if not self._hear(event):
            return False
        assert job is not None
        if self.predictor is not None:
            self.predictor.job_gone(job.spec, event.at)
        self._release_all(job, decisions)
        return True

    def _hear_history(self, event: HistoryPrimed, decisions: list[Decision]) -> bool:
        if self.predictor is not None:
            self.predictor.prime(event.jobs)
        return self._hear(event)

    def _hear_estimate(self, event: Estimated, decisions: list[Decision]) -> bool:
        if self.predictor is not None:
            self.predictor.hear_estimates(event.job, event.runtimes_ms)
            if event.by_node:
                self.predictor.hear_estimates_by_node(event.job, event.by_node)
            job = self.state.jobs.get(event.job)
            if job is not None:
                self._estimate_size(job)
        return self._hear(event)

    def _hear_search(self, event: SearchEnded, decisions: list[Decision]) -> bool:
        """Hear the outcome of a policy's search, as told to a replay; nothing is offered on it."""
        if self._hear(event):
            self.policy.observe(event, self.view)
            if self._log is not None:
                self._log.add(event, [])
        return False

    def _hear_end(self, event: ContainerEnded, decisions: list[Decision]) -> bool:
        """A container is over: learn from its run time."""
        state = self.state
        # Before the state hears the fact: afterwards the container and its node may be gone.
        container = state.containers.get(event.container)
        if container is None:
            return self._hear(event)
        job, speed = state.jobs.get(container.job), state.nodes[container.node].spec.speed
        ran = container.status in (GRANTED, RUNNING)  # an idle executor's last task was heard of by TaskEnded
        if (why := state.hear(event)) is not None:
            return self._ignore(event, why)
        if job is not None and ran and event.code == 0 and not container.copy and self.predictor is not None:
            self._learn(container, job, event.runtime_ms, speed)
        # At once: no later fact of the job would give back its idle executors.
        if job is not None and not job.left:
            self._release_all(job, decisions)
        return True

    def _hear_task(self, event: TaskEnded, decisions: list[Decision]) -> bool:
        """Hear of the end of an executor's task: learn, and keep the executor busy with its stage."""
        state = self.state
        if self._continues_stages and (run := state.go_on(event)) is not None:
            decisions.append(run)
            self.decision_count += 1
            return True
        job = state.jobs.get(event.job)  # this may be its last task
        if (why := state.hear(event)) is not None:
            return self._ignore(event, why)
        assert job is not None
        container = state.containers[event.container]
        if self.predictor is not None:
            self._learn(container, job, event.runtime_ms, state.nodes[container.node].spec.speed)
        if not job.left or job.cancelled:
            self._release_all(job, decisions)
            return True
        # An executor leaves a stage only when the stage has no waiting tasks (Decima, section 5.2).
        stage = job.stages[event.stage]
        if stage.waiting and stage.is_open:
            task, attempt = stage.first_task()
            self.carry_out(Run(event.container, event.job, event.stage, task, attempt), decisions)
        return True

    def _learn(self, container: ContainerState, job: JobState, runtime_ms: int, speed: float) -> None:
        self._learn_of(FinishedTask(job.id, container.stage, container.task, container.pilot), job, runtime_ms, speed)

    def _hear_found(self, event: TaskFound, decisions: list[Decision]) -> bool:
        job = self.state.jobs.get(event.job)
        pilot = job is not None and event.stage < len(job.stages) and event.task in job.stages[event.stage].pilots
        if not self._hear(event):
            return False
        if job is not None and self.predictor is not None:
            self._learn_of(FinishedTask(job.id, event.stage, event.task, pilot), job, event.runtime_ms or None, 1.0)
        return True

    def _learn_of(self, task: FinishedTask, job: JobState, runtime_ms: int | None, speed: float) -> None:
        predictor = self.predictor
        assert predictor is not None
        if runtime_ms is not None and not job.spec.stages[task.stage].master:
            predictor.finished(task, runtime_ms, speed, self.state.now)
        # Only after the last pilot: before, a sampling predictor has no estimate.
        if (task.pilot and job.pilots_left == 0) or (predictor.revises_sizes and _may_revise(job, task.stage)):
            self._estimate_size(job)
            self.state.journal.reasons.note(job.spec.id)
        if job.left == 0:
            predictor.job_done(job.spec, self.state.now)

    def _release_all(self, job: JobState, decisions: list[Decision]) -> None:
        """Release all idle executors of a job that is over, and all executors on their way to the job."""
        state = self.state
        for there in (state.idle, state.moving):
            for container in [c.id for c in there.values() if c.job == job.spec.id]:
                self.carry_out(Release(container), decisions)

    def _release_misfits(self, decisions: list[Decision]) -> None:
        """Release idle executors of sizes without waiting tasks, to make room for sizes with waiting tasks."""
        state = self.state
        for number in [container.id for container in state.idle.values() if container.size not in state.sizes.active]:
            self.carry_out(Release(number), decisions)

    def _estimate_size(self, job: JobState) -> None:
        """Total work as estimated now: sum over stages of mean task time times tasks (SLearn, section 5)."""
        total, source = 0.0, ""
        for stage in job.stages:
            if job.spec.stages[stage.index].master:
                continue
            estimate = self.view.estimate(job.id, stage.index)
            if estimate is None:
                return
            total += estimate.task_ms * stage.tasks
            source = source or estimate.source
        self.state.hear(SizeEstimated(self.state.now, job, total, source))

    def _offer(self, event: Event, decisions: list[Decision]) -> Offer | None:
        """The resources open to the policy now, on the given fact."""
        state, limit = self.state, self.config.containers_per_offer
        if not state.waiting and (self._wants_nodes is None or not self._wants_nodes.wanted_nodes):
            return None
        if state.idle:
            self._release_misfits(decisions)
        if isinstance(event, Heartbeat):
            if self._offering is None:
                return None  # a beat says nothing new when every fact is an occasion
            node = state.nodes.get(event.node)
            return Offer(state, (node,), limit=limit) if node is not None else None
        if isinstance(event, OfferAsked):
            asked = event.nodes
            nodes = None if asked is None else [state.nodes[name] for name in asked if name in state.nodes]
            return Offer(state, nodes, job=event.job, stage=event.stage, limit=1)
        if isinstance(event, Thought):
            return JobOffer(state, state.waiting[event.job], limit=limit) if event.job in state.waiting else None
        everything = self._offering is None or type(event) in self._offering
        return Offer(state, None, limit=limit) if everything else None

    def first_in_line(self) -> str | None:
        """The job to think about next: the first that the policy would serve if everything fitted, else if room counts.

        For a policy serving nobody: the earliest job not held back by the policy. None: no such job.
        """
        state, policy = self.state, self.policy
        for offer in (Anything(state, None), Offer(state, None)):
            if state.waiting and (suggestion := next(policy.schedule(self.view, offer), None)) is not None:
                return suggestion.job
        left = [job for job in state.waiting.values() if policy.why(job, self.view) is None]
        return min(left, key=lambda job: job.seq).id if left else None

    def carry_out(self, decision: Decision, decisions: list[Decision]) -> None:
        """Apply a decision, and note the decision for the shell."""
        self.state.apply(decision)
        decisions.append(decision)
        self.decision_count += 1

    def next_change(self) -> int | None:
        """Next time at which time alone changes the decisions, so that an offer is worthwhile. None: never."""
        said, reservations = self.policy.next_change(self.view), self.state.reservations
        due = reservations.next_due() if reservations is not None else None
        return min((at for at in (said, due) if at is not None), default=None)

    # -- why not --------------------------------------------------------------------------------

    def reason(self, job: JobState) -> Reason | None:
        """See Holds.reason."""
        return self.holds.reason(job)

    def explain(self, job: str) -> Explanation:
        """The full record of a live job's reasons to wait, with numbers. Raises KeyError unless the job is live."""
        live = self.state.jobs[job]
        return explained(live, self.state, self.reasons(job), self.policy.about(live))

    def reasons(self, job: str) -> tuple[WaitReason, ...]:
        """`reasons` of `explain` alone, at half its cost. Raises KeyError if the job is not live."""
        return why_waiting(self.state.jobs[job], self.state, self.policy, self.view, self.config.offers)

    def why_not(self, stage: StageState, nodes: Iterable[str]) -> dict[str, NodeRefusal]:
        """The reason of each given node not to take a task of the stage now.

        A node with room has HAS_ROOM, an unknown node UNKNOWN.
        """
        state = self.state
        places, names, there = state.sizes.places[stage.size], state.resources.names, state.nodes
        unknown = NodeRefusal(NodeCode.UNKNOWN)
        return {name: why_not(there[name], stage, places, names) if name in there else unknown for name in nodes}

    # -- memory ---------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """State, policy and predictor, versioned (msgpack)."""
        return msgspec.msgpack.encode(
            {
                "format": FORMAT,
                "config": self.config,
                "state": memory.dump(self.state),
                "policy": self.policy.dump(),
                "predictor": self.predictor.dump() if self.predictor is not None else None,
                "decided": self.decision_count,
            }
        )

    @classmethod
    def restore(cls, data: bytes, *, log: Log | None = None) -> Scheduler:
        """The scheduler described by `snapshot`, with the same decisions from now on."""
        saved: dict[str, Any] = msgspec.msgpack.decode(data)
        if saved.get("format") not in READABLE:
            raise InvalidTransition(f"snapshot of format {saved.get('format')}, this program reads up to {FORMAT}")
        scheduler = cls(msgspec.convert(saved["config"], SchedulerConfig))
        memory.load(scheduler.state, saved["state"])
        if scheduler.predictor is not None:
            scheduler.predictor.load(saved["predictor"])
        scheduler.policy.load(saved["policy"], scheduler.view)
        scheduler.decision_count = saved["decided"]
        log_to(scheduler, log)
        if log is not None:
            log.header(scheduler.config, data)
        return scheduler


def _may_revise(job: JobState, stage: int) -> bool:
    """Whether 1, 2, 4, 8, ... tasks of the stage of a sized job have finished: each further task says less."""
    finished = job.stages[stage].finished
    return job.size_ms is not None and finished & (finished - 1) == 0


def log_to(scheduler: Scheduler, log: Log | None) -> None:
    """Let a scheduler write to another log from here on, without a header, or to none."""
    scheduler._log = scheduler.idle_beats.log = log


def _predictor(config: SchedulerConfig) -> Predictor | None:
    if config.predictor is None:
        return None
    make, params = predictors.parse(config.predictor)
    return make(params, seed=config.seed)


def _placer(config: SchedulerConfig, state: ClusterState) -> Placer:
    make, params = placers.parse(config.placement)
    placer = make(params, seed=config.seed)
    placer.next_container = lambda: state.next_container
    return placer


def _policy(config: SchedulerConfig, placer: Placer, given: Policy | None) -> Policy:
    """The policy as asked, with the placer's lines around it. Raises InvalidParameters for clashing parts."""
    make, params = policies.parse(config.policy)
    policy = make(params, seed=config.seed) if given is None else given
    setup = Setup(
        policy=policy,
        kind=config.policy["kind"],
        placement=config.placement["kind"],
        executors=config.executors,
        copies=config.copies is not None,
        reserve_after=config.reserve_after is not None,
        thinks=config.offers == "thought",
    )
    # Before the placer wraps the policy, because the table asks for the policy's own abilities.
    for sentence in clashes(setup).values():
        raise InvalidParameters(sentence)
    policy = placer.around(policy)
    assigns = ability(policy, AssignsAhead)
    if assigns is not None:
        assigns.set_offers(config.offers)
    return policy


#: Which facts put something on offer; None: all of them.
_OFFERING: Final[dict[str, frozenset[type[Event]] | None]] = {
    "heartbeat": frozenset({Heartbeat, OfferAsked}),
    "cycle": frozenset({Tick, OfferAsked}),
    "event": None,
    "thought": frozenset({Thought}),
}
#: Facts left out of the log when they had no consequence.
_PASSING: Final = frozenset({Heartbeat, Tick})
#: Facts that teach the predictor or change the waiting jobs, each with a method of its own.
_HEARERS: Final[dict[type[Event], Callable[[Scheduler, Any, list[Decision]], bool]]] = {
    JobSubmitted: Scheduler._hear_job,
    JobCancelled: Scheduler._hear_cancel,
    HistoryPrimed: Scheduler._hear_history,
    Estimated: Scheduler._hear_estimate,
    SearchEnded: Scheduler._hear_search,
    ContainerEnded: Scheduler._hear_end,
    TaskEnded: Scheduler._hear_task,
    TaskFound: Scheduler._hear_found,
}
