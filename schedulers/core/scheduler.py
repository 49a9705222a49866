"""The scheduler: facts in, decisions out. It owns the state, asks the policy, and knows no clock.

`handle` reads like the loop it is: hear the fact, learn from it, offer what is free, let the policy
suggest, check and apply each suggestion, say who waits and why.
"""

from __future__ import annotations

from typing import Any

import msgspec

from schedulers.core.decisions import Decision, Hold, Move, Place, Preempt, Release, Run
from schedulers.core.errors import InvalidTransition
from schedulers.core.events import (
    ContainerEnded,
    Estimated,
    Event,
    Heartbeat,
    HistoryPrimed,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    OfferAsked,
    TaskEnded,
    Tick,
)
from schedulers.core.explain import Explanation, explain_job
from schedulers.core.log import FORMAT, Log, SchedulerConfig
from schedulers.core.placer import Placer, placers
from schedulers.core.policy import ClusterView, Offer, Outcome, Policy, Suggestion, policies
from schedulers.core.predictor import FinishedTask, Predictor, predictors
from schedulers.core.reasons import Reason
from schedulers.core.resources import Resources
from schedulers.core.state import ClusterState, ContainerState, JobState, NodeState, StageState


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
        make_placer, placer_params = placers.parse(config.placement)
        self.placer: Placer = make_placer(placer_params, seed=config.seed)
        self.view = ClusterView(self.state, self.predictor, config.seed)
        self.rounds: list[RoundRecord] = []
        self.decided = 0
        self._recheck: dict[str, None] = {}
        if log is not None:
            log.header(config)

    # -- the loop -------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Decision]:
        """Take in one fact and decide. Raises InvalidTransition on an impossible log or decision."""
        round_ = self.begin(event)
        offer = round_.offer
        if offer is not None and offer.has_room():
            suggestions = self.policy.schedule(self.view, offer)
            outcome: Outcome | None = None
            try:
                while True:
                    outcome = round_.suggest(suggestions.send(outcome))  # type: ignore[arg-type]  # None starts it
            except StopIteration:
                pass
        return round_.end()

    def begin(self, event: Event) -> Round:
        """Take in one fact; the caller then suggests step by step and calls `end`."""
        version = self.state.version
        decisions: list[Decision] = []
        taken = self._hear(event, decisions)
        offer = self._offer(event) if taken else None
        return Round(self, event, decisions, offer, version if taken else None)

    def _hear(self, event: Event, decisions: list[Decision]) -> bool:
        state = self.state
        if isinstance(event, ContainerEnded | TaskEnded):
            return self._hear_end(event, decisions)
        before = state.jobs.get(event.job) if isinstance(event, JobCancelled | JobChanged) else None
        why = state.hear(event)
        if why is not None:
            return self._ignore(event, why)
        if isinstance(event, JobSubmitted):
            self._welcome(state.jobs[event.job.id], event.at)
        elif isinstance(event, JobChanged):
            self._recheck[event.job] = None
        elif isinstance(event, JobCancelled) and self.predictor is not None and before is not None:
            self.predictor.job_gone(before.spec, event.at)
        elif isinstance(event, HistoryPrimed) and self.predictor is not None:
            self.predictor.prime(event.jobs)
        elif isinstance(event, Estimated) and self.predictor is not None:
            self.predictor.told(event.job, event.runtimes_ms)
            job = state.jobs.get(event.job)
            if job is not None:
                self._estimate_size(job)
        self.policy.observe(event, self.view)
        return True

    def _hear_end(self, event: ContainerEnded | TaskEnded, decisions: list[Decision]) -> bool:
        """The hot path: a task is over, so learn, and keep an executor busy with the stage it was on."""
        state = self.state
        container = state.containers.get(event.container)
        job = state.jobs.get(container.job) if container is not None else None
        speed = state.nodes[container.node].spec.speed if container is not None else 1.0
        opened = len(job.open) if job is not None else 0
        why = state.hear(event)
        if why is not None:
            return self._ignore(event, why)
        assert container is not None
        if job is not None:
            self._learn(event, container, job, speed)
            if len(job.open) > opened or getattr(event, "code", 0) != 0:
                self._recheck[job.id] = None
        self.policy.observe(event, self.view)
        if isinstance(event, TaskEnded):
            self._keep_busy(container, job, decisions)
        return True

    def _learn(self, event: ContainerEnded | TaskEnded, container: ContainerState, job: JobState, speed: float) -> None:
        predictor = self.predictor
        if predictor is None or getattr(event, "code", 0) != 0:
            return
        task = FinishedTask(job.id, container.stage, container.task, container.pilot)
        predictor.finished(task, event.runtime_ms, speed, event.at)
        if container.pilot and job.pilots_left == 0:
            self._estimate_size(job)
            self._recheck[job.id] = None
        if job.left == 0:
            predictor.job_done(job.spec, event.at)

    def _keep_busy(self, container: ContainerState, job: JobState | None, decisions: list[Decision]) -> None:
        """An executor leaves a stage only when the stage has no waiting tasks (Decima, section 5.2)."""
        state = self.state
        if job is not None and job.left and not job.cancelled:
            stage = job.stages[container.stage]
            if stage.waiting:
                task, attempt = state.take(job, stage)
                self._apply(Run(container.id, job.id, stage.index, task, attempt), decisions)
        elif job is not None:
            for idle in [c.id for c in state.idle.values() if c.job == job.id]:
                self._apply(Release(idle), decisions)

    def _welcome(self, job: JobState, at: int) -> None:
        self._recheck[job.id] = None
        if self.predictor is None:
            return
        plan = self.predictor.submitted(job.spec, at)
        if plan is not None:
            self.state.plan_pilots(job, plan)
        self._estimate_size(job)

    def _estimate_size(self, job: JobState) -> None:
        """Total work as estimated now: sum over stages of mean task time times tasks (SLearn, section 5)."""
        total, source = 0.0, ""
        for stage in job.stages:
            estimate = self.view.estimate(job.id, stage.index)
            if estimate is None:
                return
            total += estimate.task_ms * stage.tasks
            source = source or estimate.source
        job.size_ms, job.size_source = total, source
        self.state.touched[job.id] = None

    def _ignore(self, event: Event, why: str) -> bool:
        if self._log is not None:
            self._log.ignored(event, why)
        return False

    def _offer(self, event: Event) -> Offer | None:
        state, offers = self.state, self.config.offers
        if isinstance(event, OfferAsked):
            nodes = [state.nodes[n] for n in event.nodes if n in state.nodes]
            return Offer(state, nodes, job=event.job, limit=1)
        if offers == "heartbeat":
            if not isinstance(event, Heartbeat):
                return None
            node = state.nodes.get(event.node)
            return Offer(state, (node,), limit=self.config.containers_per_offer) if node is not None else None
        if offers == "cycle" and not isinstance(event, Tick):
            return None
        return Offer(state, None, limit=self.config.containers_per_offer) if state.waiting else None

    def _apply(self, decision: Decision, decisions: list[Decision]) -> None:
        self.state.apply(decision)
        decisions.append(decision)
        self.decided += 1

    # -- why not --------------------------------------------------------------------------------

    def _say_holds(self, decisions: list[Decision]) -> None:
        for name in self._recheck:
            job = self.state.jobs.get(name)
            if job is None:
                continue
            reason = self.reason(job)
            if reason != job.hold:
                job.hold = reason
                if reason is not None:
                    decisions.append(Hold(name, reason))
        self._recheck = {}

    def reason(self, job: JobState) -> Reason | None:
        """The first reason why the job's next task waits; None when nothing of it waits. A function of state only."""
        if job.cancelled or job.left == job.running:
            return None
        if not job.waiting:
            asked = any(s.asked and s.parents_left for s in job.stages)
            return Reason.WAITS_FOR_STAGE if asked else Reason.WAITS_FOR_ASK
        mine = self._reason_of_room(job)
        said = self.policy.why(job, self.view)
        if said is None:
            return mine
        return min(mine, said[0], key=lambda reason: reason.precedence)

    def _reason_of_room(self, job: JobState) -> Reason:
        state = self.state
        if not state.nodes:
            return Reason.NO_NODES
        if any(state.fitting(stage.size) for stage in job.open_stages()):
            return Reason.WAITS_FOR_OFFER if self.config.offers == "heartbeat" else Reason.BEHIND_OTHERS
        capacities = [node.spec.capacity for node in state.nodes.values()]
        for stage in job.open_stages():
            if any(all(d <= c for d, c in zip(stage.demand, capacity, strict=True)) for capacity in capacities):
                return Reason.NO_ROOM
        return Reason.TOO_LARGE

    def explain(self, job: str) -> Explanation:
        """The full record of why a live job waits: every reason with its numbers. Raises KeyError if it is not live."""
        return explain_job(self.state.jobs[job], self.state, self.policy, self.view, self.config.offers)

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
        outcome = self._try(suggestion)
        if self._asked is not None:
            self._asked.append(Asked(suggestion, outcome))
        return outcome

    def preempt(self, container: int, rule: str, cause: str) -> None:
        """Order a container killed; what it holds stays held until its end is heard."""
        self._scheduler._apply(Preempt(container, rule, cause), self._decisions)

    def _try(self, suggestion: Suggestion) -> Outcome:
        offer, state = self.offer, self._scheduler.state
        job = state.waiting.get(suggestion.job)
        if offer is None or job is None or offer.limit == 0 or offer.job not in (None, suggestion.job):
            return Outcome(0, Reason.WAITS_FOR_OFFER)
        stage = job.stages[suggestion.stage]
        if stage.index not in job.open:
            return Outcome(0, Reason.WAITS_FOR_STAGE)
        ready = stage.waiting
        if suggestion.pilots is not None:
            ready = len(stage.pilots) if suggestion.pilots else stage.others
        wanted = min(suggestion.count, ready)
        containers: list[int] = []
        while len(containers) < wanted:
            container = self._start_one(job, stage, suggestion, offer)
            if container is None:
                break
            containers.append(container)
        if containers:
            self._scheduler._recheck[job.id] = None
            return Outcome(len(containers), None, tuple(containers))
        return Outcome(0, Reason.NO_ROOM if ready else Reason.WAITS_FOR_PILOTS)

    def _start_one(self, job: JobState, stage: StageState, suggestion: Suggestion, offer: Offer) -> int | None:
        scheduler, state = self._scheduler, self._scheduler.state
        if suggestion.task is None:
            task, attempt = state.take(job, stage, suggestion.pilots)
        else:
            task, attempt = suggestion.task, stage.attempts.get(suggestion.task, 0)
        decision: Place | Run | Move | None = None
        if state.kept:
            decision = self._with_executor(job, stage, task, attempt, own=True)
        if decision is None:
            node = self._node_for(stage, suggestion, offer)
            if node is not None and offer.limit != 0:
                decision = Place(state.next_container, node.id, job.id, stage.index, task, attempt)
                if offer.limit is not None:
                    offer.limit -= 1
        if decision is None and state.kept:
            decision = self._with_executor(job, stage, task, attempt, own=False)
        if decision is None:
            return None
        scheduler._apply(decision, self._decisions)
        return decision.container

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
            return node if there and node is not None and node.fits(stage.demand) else None
        if offer.nodes is None:
            fitting: Any = state.fitting(stage.size)
        else:
            fitting = [node for node in offer.nodes if node.fits(stage.demand)]
        if not fitting:
            return None
        if len(fitting) == 1:
            only: NodeState = fitting[0]
            return only
        return scheduler.placer.pick(stage.demand, fitting, tuple(state.capacity))

    def end(self) -> list[Decision]:
        """Say who waits, write the log, return the decisions."""
        scheduler, decisions = self._scheduler, self._decisions
        if self._version is None:
            return decisions
        if scheduler._recheck:
            scheduler._say_holds(decisions)
        log = scheduler._log
        if log is not None and (decisions or self._matters()):
            log.add(self._event, decisions)
        if self._asked is not None and self.offer is not None:
            offered = len(scheduler.state.nodes if self.offer.nodes is None else self.offer.nodes)
            ended = "nothing fits any more" if not self.offer.has_room() else "the policy suggests nothing more"
            kind = type(self._event).__name__
            scheduler.rounds.append(RoundRecord(self._event.at, kind, offered, tuple(self._asked), ended))
        return decisions

    def _matters(self) -> bool:
        """Whether a fact without decisions must stand in the log: it changed the state, or what is known."""
        return self._scheduler.state.version != self._version or not isinstance(self._event, Heartbeat | Tick)
