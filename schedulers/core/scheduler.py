"""The scheduler: facts in, decisions out. It owns the state, asks the policy, and knows no clock.

`handle` reads like the loop it is: hear the fact, learn from it, offer what is free, let the policy
suggest, check and apply each suggestion, say who waits and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from schedulers.core.decisions import Commit, Decision, Hold, Move, Place, Preempt, Release, Run
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
    TaskEnded,
    TaskFound,
    Tick,
)
from schedulers.core.explain import Explanation, explain_job, limit_reason, why_not, why_not_let_in
from schedulers.core.log import FORMAT, Log, SchedulerConfig
from schedulers.core.placer import Placer, placers
from schedulers.core.policy import ClusterView, Offer, Outcome, Policy, Suggestion, policies
from schedulers.core.predictor import FinishedTask, Predictor, predictors
from schedulers.core.reasons import Reason
from schedulers.core.refusals import NodeCode, NodeRefusal
from schedulers.core.resources import Resources
from schedulers.core.state import GRANTED, RUNNING, ClusterState, ContainerState, JobState, NodeState, StageState

_TOUCHED: Final = 100_000


class Asked(msgspec.Struct, frozen=True):
    """One suggestion of a recorded round and its outcome."""

    suggestion: Suggestion
    outcome: Outcome


class RoundRecord(msgspec.Struct, frozen=True):
    """A round as `record: full` keeps it: when, on what fact, what was asked, how it ended."""

    at: int
    event: str
    offered: int
    asked: tuple[Asked, ...]
    ended: str


class Scheduler:
    """One scheduler of one cluster.

    policy and predictor are made from `config`; a log, if given, gets every line.
    """

    def __init__(self, config: SchedulerConfig, *, log: Log | None = None) -> None:
        self.config, self._log = config, log
        self.state = ClusterState(Resources(config.resources), kept=config.executors)
        self.predictor: Predictor | None = None
        if config.predictor is not None:
            make_predictor, predictor_params = predictors.parse(config.predictor)
            self.predictor = make_predictor(predictor_params, seed=config.seed)
        make_policy, policy_params = policies.parse(config.policy)
        self.policy: Policy = make_policy(policy_params, seed=config.seed)
        if config.executors and not self.policy.runs_executors:
            raise InvalidParameters(f"policy '{config.policy['kind']}' does not serve executors that outlive tasks")
        make_placer, placer_params = placers.parse(config.placement)
        self.placer: Placer = make_placer(placer_params, seed=config.seed)
        self.view = ClusterView(self.state, self.predictor, config.seed)
        self._observe = self.policy.observe if type(self.policy).observe is not Policy.observe else None
        self._victims = self.policy.victims if type(self.policy).victims is not Policy.victims else None
        self.rounds: list[RoundRecord] = []
        self.decided = 0
        # Which facts put something on offer; None: all of them.
        self._offering = {"heartbeat": {Heartbeat, OfferAsked}, "cycle": {Tick, OfferAsked}, "event": None}[
            config.offers
        ]
        if log is not None:
            log.header(config)

    # -- the loop -------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Decision]:
        """Take in one fact and decide. Raises InvalidTransition on an impossible log or decision."""
        version = self.state.version
        decisions: list[Decision] = []
        if not self._take_in(event, decisions):
            return decisions
        asked = False
        if self._offering is None or type(event) in self._offering:
            offer = self._offer(event, decisions)
            if offer is not None and offer.has_room():
                asked = True
                self._ask(Round(self, event, decisions, offer, version))
        self._close(event, decisions, version, asked=asked)
        return decisions

    def _ask(self, round_: Round) -> None:
        """Let the policy suggest, until it has no more to suggest."""
        assert round_.offer is not None
        suggestions = self.policy.schedule(self.view, round_.offer)
        suggestion = next(suggestions, None)
        try:
            while suggestion is not None:
                suggestion = suggestions.send(round_.suggest(suggestion))
        except StopIteration:
            pass
        round_.remember()

    def begin(self, event: Event) -> Round:
        """Take in one fact; the caller then suggests step by step and calls `end`."""
        version = self.state.version
        decisions: list[Decision] = []
        if not self._take_in(event, decisions):
            return Round(self, event, decisions, None, None)
        return Round(self, event, decisions, self._offer(event, decisions), version)

    def _take_in(self, event: Event, decisions: list[Decision]) -> bool:
        """Hear a fact and learn from it; False when it was ignored."""
        learn = _LEARNS.get(type(event))
        if not (self._hear(event) if learn is None else learn(self, event, decisions)):
            return False
        if self._observe is not None:
            self._observe(event, self.view)
        if self._victims is not None:
            for victim in self._victims(self.view):
                self._apply(Preempt(*victim), decisions)
        return True

    def _close(self, event: Event, decisions: list[Decision], version: int, *, asked: bool) -> None:
        """Say who waits, and write the log. asked: whether the policy was offered anything."""
        if self.state.stirred:
            self._say_holds(decisions)
        if len(self.state.touched) > _TOUCHED:
            self._drop_gone()
        log = self._log
        if log is not None and (decisions or self._matters(event, version, asked=asked)):
            log.add(event, decisions)

    def _drop_gone(self) -> None:
        """A policy that never asks what has changed must not make the list grow for ever."""
        state = self.state
        state.touched = {name: None for name in state.touched if name in state.jobs}

    def _matters(self, event: Event, version: int, *, asked: bool) -> bool:
        """Whether a fact without decisions must stand in the log: it changed the state, or what is known."""
        kind, triggers = type(event), self.policy.triggers
        if triggers.every_beat or (triggers.every_offer and asked) or (triggers.period_ms is not None and kind is Tick):
            return True
        return (kind is not Heartbeat and kind is not Tick) or self.state.version != version

    def _hear(self, event: Event) -> bool:
        why = self.state.hear(event)
        if why is not None and self._log is not None:
            self._log.ignored(event, why)
        return why is None

    def _hear_job(self, event: JobSubmitted, decisions: list[Decision]) -> bool:
        """A new job: the predictor names its pilots and says what it can."""
        if not self._hear(event):
            return False
        if self.predictor is not None:
            job = self.state.jobs[event.job.id]
            plan = self.predictor.submitted(job.spec, event.at)
            if plan is not None:
                self.state.plan_pilots(job, plan)
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
            self.predictor.told(event.job, event.runtimes_ms)
            job = self.state.jobs.get(event.job)
            if job is not None:
                self._estimate_size(job)
        return self._hear(event)

    def _hear_end(self, event: ContainerEnded, decisions: list[Decision]) -> bool:
        """A container is over: learn from its run time."""
        state = self.state
        container = state.containers.get(event.container)
        if container is None or (self.predictor is None and not state.kept):
            return self._hear(event)
        job, speed = state.jobs.get(container.job), state.nodes[container.node].spec.speed
        ran = container.status in (GRANTED, RUNNING)  # an idle executor's last task was heard of by TaskEnded
        if not self._hear(event):
            return False
        if job is not None and ran and event.code == 0 and self.predictor is not None:
            self._learn(container, job, event.runtime_ms, speed)
        if job is not None and not job.left:
            self._release_all(job, decisions)
        return True

    def _hear_task(self, event: TaskEnded, decisions: list[Decision]) -> bool:
        """A task of an executor is over: learn, and keep the executor busy with the stage it was on."""
        state = self.state
        if not self._hear(event):
            return False
        assert state.ended is not None
        container, job = state.ended
        if self.predictor is not None:
            self._learn(container, job, event.runtime_ms, state.nodes[container.node].spec.speed)
        self._keep_busy(container, job, decisions)
        return True

    def _learn(self, container: ContainerState, job: JobState, runtime_ms: int, speed: float) -> None:
        task = FinishedTask(job.spec.id, container.stage, container.task, container.pilot)
        self._learn_of(task, job, runtime_ms, speed)

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
        if task.pilot and job.pilots_left == 0:
            self._estimate_size(job)
            self.state.stirred[job.spec.id] = None
        if job.left == 0:
            predictor.job_done(job.spec, self.state.now)

    def _keep_busy(self, container: ContainerState, job: JobState, decisions: list[Decision]) -> None:
        """An executor leaves a stage only when the stage has no waiting tasks (Decima, section 5.2)."""
        state = self.state
        if not job.left or job.cancelled:
            self._release_all(job, decisions)
            return
        stage = job.stages[container.stage]
        if stage.waiting:
            task, attempt = state.take(job, stage)
            decision = Run(container.id, container.job, container.stage, task, attempt)
            state.apply(decision)
            decisions.append(decision)
            self.decided += 1

    def _release_all(self, job: JobState, decisions: list[Decision]) -> None:
        """A job that is over gives back its idle executors and those on their way to it."""
        state = self.state
        for there in (state.idle, state.moving):
            for container in [c.id for c in there.values() if c.job == job.spec.id]:
                self._apply(Release(container), decisions)

    def _release_misfits(self, decisions: list[Decision]) -> None:
        """Idle executors whose size nobody waits for make room for sizes that somebody does."""
        state = self.state
        for container in list(state.idle.values()):
            if container.size not in state.active_sizes:
                self._apply(Release(container.id), decisions)

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
        job.size_ms, job.size_source = total, source
        self.state.touched[job.id] = None

    def _offer(self, event: Event, decisions: list[Decision]) -> Offer | None:
        """What the policy may use now, on this fact."""
        state, limit = self.state, self.config.containers_per_offer
        if not state.waiting:
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
        if self._offering is None or type(event) in self._offering:
            return Offer(state, None, limit=limit)
        return None

    def _apply(self, decision: Decision, decisions: list[Decision]) -> None:
        self.state.apply(decision)
        decisions.append(decision)
        self.decided += 1

    # -- why not --------------------------------------------------------------------------------

    def _say_holds(self, decisions: list[Decision]) -> None:
        stirred, self.state.stirred = self.state.stirred, {}
        for name in stirred:
            job = self.state.jobs.get(name)
            if job is None:
                continue
            reason = self.reason(job)
            if reason != job.hold:
                job.hold = reason
                if reason is not None:
                    decisions.append(Hold(name, reason))

    def reason(self, job: JobState) -> Reason | None:
        """The first reason why the job's next task waits; None when nothing of it waits. A function of state only."""
        if job.cancelled or job.left == job.running:
            return None
        if not job.admitted:
            return why_not_let_in(job, self.state)[0]
        if not job.waiting:
            ready = any(s.waiting and not s.parents_left for s in job.stages)
            return Reason.WAITS_FOR_ASK if ready else Reason.WAITS_FOR_STAGE
        mine = self._reason_of_room(job)
        said = self.policy.why(job, self.view)
        if said is None:
            return mine
        return min(mine, said[0], key=lambda reason: reason.precedence)

    def _reason_of_room(self, job: JobState) -> Reason:
        """Of all launchable stages the reason that is said first."""
        state = self.state
        stages = [job.stages[index] for index in job.open]
        if not state.nodes:
            return Reason.NO_NODES
        if not all(state.fits_ever(stage.size) for stage in stages):
            return Reason.TOO_LARGE
        if state.bounds:
            limits = [account for stage in stages if (account := state.at_limit(job, stage)) is not None]
            if limits:
                return min((limit_reason(account) for account in limits), key=lambda reason: reason.precedence)
        if not all(state.fitting(stage.size) for stage in stages):
            return Reason.NO_ROOM
        if not all(state.has_room_for_all(stage) for stage in stages if state.waits_whole(job, stage)):
            return Reason.NO_ROOM_FOR_GANG
        return Reason.WAITS_FOR_OFFER if self.config.offers == "heartbeat" else Reason.BEHIND_OTHERS

    def explain(self, job: str) -> Explanation:
        """The full record of why a live job waits: every reason with its numbers. Raises KeyError if it is not live."""
        return explain_job(self.state.jobs[job], self.state, self.policy, self.view, self.config.offers)

    def why_not(self, stage: StageState, nodes: Iterable[str]) -> dict[str, NodeRefusal]:
        """For each of these nodes why it does not take a task of the stage now.

        One with room says so (HAS_ROOM), and so does one that the core does not know (UNKNOWN).
        """
        state = self.state
        places, names = state.size_places[stage.size], state.resources.names
        there = state.nodes
        unknown = NodeRefusal(NodeCode.UNKNOWN)
        return {name: why_not(there[name], stage, places, names) if name in there else unknown for name in nodes}

    # -- memory ---------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """State, policy and predictor, versioned (msgpack)."""
        return msgspec.msgpack.encode(
            {
                "format": FORMAT,
                "config": self.config,
                "state": self.state.dump(),
                "policy": self.policy.dump(),
                "predictor": self.predictor.dump() if self.predictor is not None else None,
                "decided": self.decided,
            }
        )

    @classmethod
    def restore(cls, data: bytes, *, log: Log | None = None) -> Scheduler:
        """The scheduler that `snapshot` described; it decides on as the other would have."""
        saved: dict[str, Any] = msgspec.msgpack.decode(data)
        if saved.get("format") != FORMAT:
            raise InvalidTransition(f"snapshot of format {saved.get('format')}, this program reads {FORMAT}")
        scheduler = cls(msgspec.convert(saved["config"], SchedulerConfig))
        scheduler.state.load(saved["state"])
        if scheduler.predictor is not None:
            scheduler.predictor.load(saved["predictor"])
        scheduler.policy.load(saved["policy"], scheduler.view)
        scheduler.decided = saved["decided"]
        scheduler._log = log
        if log is not None:
            log.header(scheduler.config, data)
        return scheduler


class Round:
    """One fact's worth of deciding, step by step. `offer` is None when nothing is on offer now."""

    __slots__ = ("_asked", "_decisions", "_event", "_scheduler", "_version", "offer")

    def __init__(
        self,
        scheduler: Scheduler,
        event: Event,
        decisions: list[Decision],
        offer: Offer | None,
        version: int | None,
    ) -> None:
        self._scheduler, self._event, self._decisions, self.offer = scheduler, event, decisions, offer
        self._version = version
        self._asked: list[Asked] | None = [] if scheduler.config.record == "full" else None

    def suggest(self, suggestion: Suggestion) -> Outcome:
        """Check one suggestion against the state as it is now; apply what holds."""
        outcome = self._bring(suggestion) if suggestion.ahead else self._try(suggestion)
        if self._asked is not None:
            self._asked.append(Asked(suggestion, outcome))
        return outcome

    def preempt(self, container: int, rule: str, cause: str) -> None:
        """Order a container killed; what it holds stays held until its end is heard."""
        self._scheduler._apply(Preempt(container, rule, cause), self._decisions)

    def _try(self, suggestion: Suggestion) -> Outcome:
        offer, state = self.offer, self._scheduler.state
        job = state.waiting.get(suggestion.job)
        if offer is None or job is None or offer.limit == 0 or not offer.serves(suggestion.job, suggestion.stage):
            return Outcome(0, Reason.WAITS_FOR_OFFER)
        if suggestion.stage not in job.open:
            return Outcome(0, Reason.WAITS_FOR_STAGE)
        stage = job.stages[suggestion.stage]
        ready = stage.waiting
        if suggestion.task is not None:
            ready = int(state.is_waiting(stage, suggestion.task))
        elif suggestion.pilots is not None:
            ready = len(stage.pilots) if suggestion.pilots else stage.others
        wanted = min(suggestion.count, ready)
        if wanted and state.waits_whole(job, stage):
            why = self._keeps_apart(job, stage, offer)
            if why is not None:
                return Outcome(0, why)
            suggestion, wanted = Suggestion(job.id, stage.index), stage.waiting
        node = self._only_node(suggestion, offer)
        if node is not None:
            wanted = min(wanted, node.room_for(stage))
        containers: list[int] = []
        while len(containers) < wanted and offer.limit != 0:
            container = self._start_one(job, stage, suggestion, offer, node)
            if container is None:
                break
            containers.append(container)
        if not containers:
            return Outcome(0, self._why_none(job, stage, ready))
        # No room stays said while the job is served piecemeal (no oscillation), unless a limit is what stops it now.
        if job.hold is not Reason.NO_ROOM or (stage.size in state.bounds and state.at_limit(job, stage) is not None):
            state.stirred[suggestion.job] = None
        return Outcome(len(containers), None, tuple(containers))

    def _bring(self, suggestion: Suggestion) -> Outcome:
        """Bring executors to a job for a stage that is not open yet."""
        offer, state = self.offer, self._scheduler.state
        job = state.jobs.get(suggestion.job)
        if offer is None or job is None or not state.kept or not offer.serves(suggestion.job, suggestion.stage):
            return Outcome(0, Reason.WAITS_FOR_OFFER)
        stage = job.stages[suggestion.stage]
        containers: list[int] = []
        while len(containers) < suggestion.count and offer.limit != 0:
            decision = self._committed(job, stage, suggestion, offer)
            if decision is None:
                break
            self._scheduler._apply(decision, self._decisions)
            containers.append(decision.container)
        return Outcome(len(containers), None if containers else Reason.NO_ROOM, tuple(containers))

    def _committed(self, job: JobState, stage: StageState, suggestion: Suggestion, offer: Offer) -> Commit | None:
        state = self._scheduler.state
        if suggestion.executor is not None:
            container = state.idle.get(suggestion.executor)
            if container is None or container.size != stage.size or container.job == job.id:
                return None
            return Commit(container.id, job.id, stage.index)
        node = self._node_for(stage, suggestion, offer) if state.admits(stage.size) else None
        if node is None:
            return None
        if offer.limit is not None:
            offer.limit -= 1
        return Commit(state.next_container, job.id, stage.index, node.id)

    def _why_none(self, job: JobState, stage: StageState, ready: int) -> Reason:
        account = self._scheduler.state.at_limit(job, stage)
        if account is not None:
            return limit_reason(account)
        return Reason.NO_ROOM if ready else Reason.WAITS_FOR_PILOTS

    def _keeps_apart(self, job: JobState, stage: StageState, offer: Offer) -> Reason | None:
        """Why what is on offer does not take the whole gang, or None; a gang is never put on idle executors."""
        state = self._scheduler.state
        account = state.at_limit(job, stage)
        if account is not None:
            return limit_reason(account)
        enough = offer.limit is None or offer.limit >= stage.waiting
        return None if enough and state.has_room_for_all(stage, offer.nodes) else Reason.NO_ROOM_FOR_GANG

    def _only_node(self, suggestion: Suggestion, offer: Offer) -> NodeState | None:
        """The node that must take the tasks when there is no choice: a heartbeat without executors."""
        if offer.nodes is None or len(offer.nodes) != 1 or self._scheduler.state.kept:
            return None
        node = offer.nodes[0]
        return node if suggestion.node is None or suggestion.node == node.spec.id else None

    def _start_one(
        self, job: JobState, stage: StageState, suggestion: Suggestion, offer: Offer, node: NodeState | None
    ) -> int | None:
        """Start one task; returns its container, or None when there is no room."""
        state = self._scheduler.state
        if suggestion.task is None:
            task, attempt = state.take(job, stage, suggestion.pilots)
        else:
            task, attempt = suggestion.task, stage.attempts.get(suggestion.task, 0)
        decision: Place | Run | Move | None = None
        named = suggestion.executor is not None
        if named:
            decision = self._with_named(job, stage, task, attempt, suggestion.executor)
        elif state.kept:
            decision = self._with_executor(job, stage, task, attempt, own=True)
        if decision is None and not named and (stage.size not in state.bounds or state.admits(stage.size)):
            node = node or self._node_for(stage, suggestion, offer)
            if node is not None:
                decision = Place(state.next_container, node.spec.id, suggestion.job, stage.index, task, attempt)
                if offer.limit is not None:
                    offer.limit -= 1
        if decision is None and not named and state.kept:
            decision = self._with_executor(job, stage, task, attempt, own=False)
        if decision is None:
            return None
        self._scheduler._apply(decision, self._decisions)
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
        if offer.nodes is None:
            fitting: Any = state.fitting(stage.size)
        else:
            fitting = [node for node in offer.nodes if node.fits(stage)]
        if not fitting:
            return None
        if len(fitting) == 1:
            only: NodeState = fitting[0]
            return only
        return scheduler.placer.pick(stage.demand, fitting, tuple(state.capacity))

    def end(self) -> list[Decision]:
        """Say who waits, write the log, return the decisions."""
        if self._version is not None:
            self.remember()
            self._scheduler._close(self._event, self._decisions, self._version, asked=self.offer is not None)
        return self._decisions

    def remember(self) -> None:
        """With `record: full`, keep what was asked."""
        scheduler, offer = self._scheduler, self.offer
        if self._asked is not None and offer is not None:
            offered = len(scheduler.state.nodes if offer.nodes is None else offer.nodes)
            ended = "the policy suggests nothing more" if offer.has_room() else "nothing fits any more"
            kind = type(self._event).__name__
            scheduler.rounds.append(RoundRecord(self._event.at, kind, offered, tuple(self._asked), ended))


#: Facts that teach the predictor or change who waits, each with its own hearing.
_LEARNS: Final[dict[type[Event], Callable[[Scheduler, Any, list[Decision]], bool]]] = {
    JobSubmitted: Scheduler._hear_job,
    JobCancelled: Scheduler._hear_cancel,
    HistoryPrimed: Scheduler._hear_history,
    Estimated: Scheduler._hear_estimate,
    ContainerEnded: Scheduler._hear_end,
    TaskEnded: Scheduler._hear_task,
    TaskFound: Scheduler._hear_found,
}
