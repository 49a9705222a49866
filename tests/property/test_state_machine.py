"""The core under every kind of fact in any order: its figures stay true, and nothing impossible is decided."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from schedulers.core.abilities import OneTaskEach
from schedulers.core.checks import validate
from schedulers.core.copies import holders
from schedulers.core.decisions import Commit, Copy, Decision, Hold, Move, Place, Preempt, Release, Run
from schedulers.core.events import (
    ContainerEnded,
    ContainerExpired,
    ContainerObserved,
    ContainerStarted,
    CopyAsked,
    Estimated,
    Event,
    Heartbeat,
    HistoryPrimed,
    JobCancelled,
    JobChanged,
    JobSubmitted,
    LeaderStarted,
    LinksSet,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    NodesRefused,
    OfferAsked,
    QueueChanged,
    QueueRemoved,
    StageWithdrawn,
    TaskEnded,
    Tick,
)
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import CopyRules, Edge, Job, Links, Node, PastJob, PerUser, Queue, Stage
from schedulers.core.policy import Suggestion, policies
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import GRANTED, IDLE, MOVING, RUNNING
from tests.examples import examples

POLICIES = (
    "fifo",
    "sjf",
    "srpt",
    "fair",
    "delay",
    "las",
    "gs",
    "drf",
    "hdrf",
    "graphene",
    "bounded",
    "random",
    "tetris",
    "sjf_cp",
    "weighted_fair",
    "capped_sjf",
    "curves",
    "dispatch",
)
LIMITS = (None, None, 0.5, 0.2, (2000, -1), (-1, 1500), (1000, 1024), 0.0)
QUEUES = ("default", "a", "a.b", "c", "undeclared")
PREDICTORS = (
    None,
    {"kind": "slearn", "fixed_percent": 40},
    {"kind": "three_sigma"},
    {"kind": "posterior"},
    {"kind": "posterior", "revise": True, "skip_sure": True},
)
SIZES = ((500, 256), (1000, 1024), (1000, 0), (2000, 512))
CAPACITIES = ((1000, 1024), (2000, 2048), (4000, 1024), (700, 4096))
COPIES = (None, CopyRules(), CopyRules(max=3, others="end"))
PICK = st.integers(0, 999)


@dataclasses.dataclass
class Told:
    """Facts that were told, to be repeated."""

    facts: list[Event] = dataclasses.field(default_factory=list)


class Core(RuleBasedStateMachine):
    """Sends facts to a scheduler as a careless shell would."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.told = Told()
        self.submitted = 0
        self.squeezed: set[str] = set()  # nodes that hold more than they have, by no fault of the scheduler
        self.decided: list[Decision] = []

    @initialize(
        policy=st.sampled_from(POLICIES),
        predictor=st.sampled_from(PREDICTORS),
        offers=st.sampled_from(("heartbeat", "event", "cycle")),
        placement=st.sampled_from(("first_fit", "best_fit", "worst_fit")),
        kept=st.booleans(),
        limit=st.sampled_from((None, None, 1)),
        copies=st.sampled_from(COPIES),
    )
    def begin(
        self, policy: str, predictor: Any, offers: Any, placement: str, kept: bool, limit: int | None, copies: Any
    ) -> None:
        executors = kept and not issubclass(policies.entry(policy).cls, OneTaskEach)
        self.scheduler = Scheduler(
            SchedulerConfig(
                resources=("cpu", "memory"),
                policy={"kind": policy},
                predictor=predictor,
                placement={"kind": placement},
                offers=offers,
                executors=executors,
                containers_per_offer=limit,
                copies=None if executors else copies,
            )
        )
        for number in range(2):
            self.tell(NodeAdded(0, Node(id=f"n{number}", capacity=CAPACITIES[1])))
        if copies is not None:
            self.tell(LinksSet(0, Links(rate=1000, pairs={"n0": {"n1": 7}})))

    # -- telling --------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        self.told.facts.append(event)
        nodes = {name: node.draining for name, node in self.state.nodes.items()}
        held = {(a.queue, a.user): list(a.used) for a in self.state.tree.accounts()}
        let_in = {(a.queue, a.user): a.jobs for a in self.state.tree.accounts()}
        self.heard(self.scheduler.handle(event), event, nodes, held, let_in)

    def heard(self, decisions: list[Decision], event: Event, nodes: Any, held: Any, let_in: Any) -> None:
        self.now = event.at
        self.decided += decisions
        for decision in decisions:
            if isinstance(decision, Place | Copy):
                assert not nodes.get(decision.node, False), f"{decision} on a node that leaves"
                self._fits(decision)
            if isinstance(decision, Place | Copy | Run | Move | Commit):
                job = self.state.jobs[decision.job]
                assert not job.cancelled, f"{decision} for a cancelled job"
            if isinstance(decision, Hold):
                assert decision.reason

        for account in self.state.tree.accounts() if not isinstance(event, QueueChanged) else ():
            key = (account.queue, account.user)
            for r, used in enumerate(account.used) if account.most is not None else ():
                grew = used > held.get(key, [0, 0])[r]
                assert not grew or used <= account.most[r], f"{key} holds {account.used}, and may {account.most}"
            if account.most_jobs is not None and account.jobs > let_in.get(key, 0):
                assert account.jobs <= account.most_jobs, f"{key} runs {account.jobs} of {account.most_jobs} jobs"

    def _fits(self, decision: Place | Copy) -> None:
        node = self.state.nodes[decision.node]
        demand = self.state.jobs[decision.job].stages[decision.stage].demand
        assert all(free >= 0 for free, wanted in zip(node.free, demand, strict=True) if wanted), f"{decision}: {node}"

    @property
    def state(self):
        return self.scheduler.state

    def soon(self, later: int) -> int:
        return self.now + later % 500

    # -- nodes ----------------------------------------------------------------------------------

    @rule(pick=PICK, capacity=st.sampled_from(CAPACITIES), later=PICK)
    def node_added(self, pick: int, capacity: tuple[int, int], later: int) -> None:
        name = f"n{pick % 5}"
        if name not in self.state.nodes:
            self.squeezed.discard(name)
        self.tell(NodeAdded(self.soon(later), Node(id=name, capacity=capacity)))

    @rule(pick=PICK, capacity=st.sampled_from(CAPACITIES), later=PICK)
    def node_changed(self, pick: int, capacity: tuple[int, int], later: int) -> None:
        name = f"n{pick % 5}"
        self.squeezed.add(name)
        self.tell(NodeChanged(self.soon(later), Node(id=name, capacity=capacity, speed=2.0)))

    @rule(pick=PICK, later=PICK, how=st.sampled_from((NodeLost, NodeLost, NodeRemoved)))
    def node_goes(self, pick: int, later: int, how: Any) -> None:
        if pick % 2:
            self.tell(how(self.soon(later), f"n{pick % 5}"))

    @rule(pick=PICK, later=PICK, demand=st.sampled_from((None, None, (500, 100), (3000, 3000))))
    def container_observed(self, pick: int, later: int, demand: tuple[int, int] | None) -> None:
        name = f"n{pick % 3}"
        self.squeezed.add(name)
        self.tell(ContainerObserved(self.soon(later), name, f"daemon{pick % 2}", demand))

    @rule(later=PICK)
    def offered(self, later: int) -> None:
        if self.scheduler.config.offers == "heartbeat":
            for name in list(self.state.nodes):
                self.tell(Heartbeat(self.soon(later), name))
        else:
            self.tell(Tick(self.soon(later)))

    @rule(pick=PICK, later=PICK)
    def heartbeat(self, pick: int, later: int) -> None:
        self.tell(Heartbeat(self.soon(later), f"n{pick % 5}"))

    # -- jobs -----------------------------------------------------------------------------------

    @rule(
        later=PICK,
        shape=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(SIZES), st.integers(0, 7)), min_size=1, max_size=4),
        asks=st.sampled_from(("all", "all", "roots", "asked")),
        name=st.integers(0, 2),
        queue=st.sampled_from(QUEUES),
        kinds=st.one_of(st.none(), st.tuples(*[st.sampled_from(("barrier", "one_to_one", "share"))] * 3)),
    )
    def job_submitted(self, later: int, shape: list[Any], asks: Any, name: int, queue: str, kinds: Any) -> None:
        def edge(parent: int, bits: int) -> int | Edge:
            if kinds is not None:
                return Edge(parent=parent, kind=kinds[parent], share=0.4 if kinds[parent] == "share" else 0.0)
            return parent if bits & 1 else Edge(parent=parent, data=bits)

        if kinds is not None and "one_to_one" in kinds:
            shape = [(shape[0][0], *rest) for _, *rest in shape]
        stages = tuple(
            Stage(
                name=f"s{i}",
                tasks=tasks,
                demand=demand,
                parents=tuple(edge(p, bits) for p in range(i) if bits >> p & 1),
                hosts=((f"n{bits % 5}",),) if bits > 3 else (),
            )
            for i, (tasks, demand, bits) in enumerate(shape)
        )
        self.submitted += 1
        spec = Job(id=f"j{self.submitted}", stages=stages, name=f"name{name}", weight=1.0 + name, queue=queue)
        spec = msgspec.structs.replace(spec, user=f"u{name}")
        self.tell(JobSubmitted(self.soon(later), spec, asks))

    @precondition(lambda self: self.submitted)
    @rule(pick=PICK, later=PICK, bits=st.integers(1, 15))
    def job_changed(self, pick: int, later: int, bits: int) -> None:
        name = f"j{pick % self.submitted + 1}"
        job = self.state.jobs.get(name)
        there = len(job.stages) if job is not None else 1
        self.tell(JobChanged(self.soon(later), name, tuple(i for i in range(there) if bits >> i & 1)))

    @precondition(lambda self: self.submitted)
    @rule(pick=PICK, later=PICK)
    def stage_withdrawn(self, pick: int, later: int) -> None:
        name = f"j{pick % self.submitted + 1}"
        job = self.state.jobs.get(name)
        self.tell(StageWithdrawn(self.soon(later), name, pick % len(job.stages) if job is not None else 0))

    @precondition(lambda self: self.submitted)
    @rule(pick=PICK, later=PICK)
    def job_cancelled(self, pick: int, later: int) -> None:
        if pick % 3 == 0:
            self.tell(JobCancelled(self.soon(later), f"j{pick % self.submitted + 1}"))

    @precondition(lambda self: self.submitted)
    @rule(pick=PICK, later=PICK, stage=st.integers(0, 1))
    def offer_asked(self, pick: int, later: int, stage: int) -> None:
        job = self.state.jobs.get(f"j{pick % self.submitted + 1}")
        if job is None or stage >= len(job.stages):
            return
        before = len(self.decided)
        self.tell(OfferAsked(self.soon(later), job.id, stage, ("n0", "n2", "gone")))
        placed = [d for d in self.decided[before:] if isinstance(d, Place | Run | Move)]
        assert len(placed) <= 1
        assert all((d.job, d.stage) == (job.id, stage) for d in placed)
        assert all(d.node in ("n0", "n2") for d in placed if isinstance(d, Place))

    @rule(
        later=PICK,
        pick=PICK,
        most=st.sampled_from(LIMITS),
        each=st.sampled_from(LIMITS),
        jobs=st.sampled_from((None, None, 1, 2)),
        mine=st.sampled_from((None, None, 1)),
    )
    def queue_changed(self, later: int, pick: int, most: Any, each: Any, jobs: int | None, mine: int | None) -> None:
        name = QUEUES[pick % 4]
        parent = ("", "a", "c", "nowhere")[pick // 4 % 4]
        per_user = PerUser(limit=each, max_running=mine) if each is not None or mine is not None else None
        queue = Queue(name=name, parent=parent, max=most, per_user=per_user, max_running=jobs, weight=1.0 + pick % 3)
        self.tell(QueueChanged(self.soon(later), queue))

    @rule(later=PICK, pick=PICK)
    def queue_removed(self, later: int, pick: int) -> None:
        if pick % 3 == 0:
            self.tell(QueueRemoved(self.soon(later), QUEUES[pick % 5]))

    @rule(later=PICK, pick=PICK)
    def news(self, later: int, pick: int) -> None:
        at = self.soon(later)
        past = PastJob(name="name1", submitted=-500, finished=-100, stages=((3, 40.0),))
        facts = (
            QueueChanged(at, Queue(name="default", weight=1.0 + pick)),
            HistoryPrimed(at, (past,)),
            LeaderStarted(at),
            Estimated(at, f"j{pick % (self.submitted + 1)}", (100, 200, 300, 400)),
        )
        self.tell(facts[pick % len(facts)])

    # -- containers -----------------------------------------------------------------------------

    def some(self, pick: int, *status: int):
        found = [c for c in self.state.containers.values() if c.status in status]
        return found[pick % len(found)] if found else None

    @rule(later=PICK)
    def containers_started(self, later: int) -> None:
        at = self.soon(later)
        for container in list(self.state.containers.values()):
            if container.status in (GRANTED, MOVING):
                self.tell(ContainerStarted(at, container.id))

    @rule(pick=PICK, later=PICK)
    def container_started(self, pick: int, later: int) -> None:
        container = self.some(pick, GRANTED, MOVING)
        if container is not None:
            self.tell(ContainerStarted(self.soon(later), container.id))

    @rule(pick=PICK, later=PICK, count=st.integers(1, 4))
    def tasks_over(self, pick: int, later: int, count: int) -> None:
        at = self.soon(later)
        for number in range(count):
            c = self.some(pick + number, RUNNING)
            if c is not None and self.state.has_executors:
                ms = at - c.started
                self.tell(TaskEnded(at, c.id, job=c.job, stage=c.stage, task=c.task, attempt=c.attempt, runtime_ms=ms))
            elif c is not None:
                self.tell(ContainerEnded(at, c.id, 0, at - c.started))

    @precondition(lambda self: self.state.copies.settings is not None and self.state.jobs)
    @rule(pick=PICK, where=PICK, task=st.integers(0, 4), later=PICK)
    def copied(self, pick: int, where: int, task: int, later: int) -> None:
        """Somebody suggests one more container of a task, whether that makes sense or not."""
        jobs, node = list(self.state.jobs.values()), f"n{where % 5}"
        job = jobs[pick % len(jobs)]
        stage = job.stages[pick // 7 % len(job.stages)]
        heartbeat = self.scheduler.config.offers == "heartbeat"
        event = Heartbeat(self.soon(later), node) if heartbeat else Tick(self.soon(later))
        nodes = {name: there.draining for name, there in self.state.nodes.items()}
        held = {(a.queue, a.user): list(a.used) for a in self.state.tree.accounts()}
        let_in = {(a.queue, a.user): a.jobs for a in self.state.tree.accounts()}
        round_ = self.scheduler.begin(event)
        waits = stage.is_waiting(task)
        outcome = round_.suggest(Suggestion(job.id, stage.index, node=node, task=task, copy=True))
        self.heard(round_.end(), event, nodes, held, let_in)
        if outcome.placed:
            assert not waits, "a copy of what has not begun"
            there = holders(self.state.containers, job, stage, task)
            assert len(set(there)) == len(there) <= self.state.copies.settings.max

    @precondition(lambda self: not self.state.has_executors and self.state.containers)
    @rule(pick=PICK, task=st.integers(0, 4), apart=PICK, later=PICK)
    def asked_for_a_copy(self, pick: int, task: int, apart: int, later: int) -> None:
        """A master asks for a copy of a task, under way or not, off some node."""
        containers = list(self.state.containers.values())
        of = containers[pick % len(containers)]
        number = of.task if task else pick % 5
        self.tell(CopyAsked(self.soon(later), of.job, of.stage, number, (f"n{apart % 5}",)))

    @precondition(lambda self: not self.state.has_executors and self.state.jobs)
    @rule(pick=PICK, nodes=st.sets(st.integers(0, 4), max_size=2), later=PICK)
    def refused_nodes(self, pick: int, nodes: set[int], later: int) -> None:
        """A job's master refuses some nodes, and no others any more."""
        names = tuple(f"n{number}" for number in sorted(nodes))
        self.tell(NodesRefused(self.soon(later), list(self.state.jobs)[pick % len(self.state.jobs)], names))

    @rule(later=PICK)
    def everything_ran(self, later: int) -> None:
        self.containers_started(later)
        self.tasks_over(0, later, 50)
        self.offered(later)

    @rule(pick=PICK, later=PICK, code=st.sampled_from((0, 1, -102)))
    def container_ended(self, pick: int, later: int, code: int) -> None:
        container = self.some(pick, GRANTED, RUNNING, IDLE)
        if container is not None:
            self.tell(ContainerEnded(self.soon(later), container.id, code, 10 if code == 0 else 0))

    @rule(pick=PICK, later=PICK)
    def container_expired(self, pick: int, later: int) -> None:
        if pick % 2:
            self.tell(ContainerExpired(self.soon(later), 1 + pick % self.state.next_container))

    @rule(pick=PICK, later=PICK)
    def told_again(self, pick: int, later: int) -> None:
        fact = self.told.facts[pick % len(self.told.facts)]
        if isinstance(fact, NodeAdded) and fact.node.id not in self.state.nodes:
            self.squeezed.discard(fact.node.id)
        if isinstance(fact, NodeChanged | ContainerObserved):
            self.squeezed.add(fact.node.id if isinstance(fact, NodeChanged) else fact.node)
        self.tell(msgspec.structs.replace(fact, at=self.soon(later)))

    # -- memory, why -------------------------------------------------------------------

    @rule()
    def restored(self) -> None:
        self.scheduler = Scheduler.restore(self.scheduler.snapshot())

    @invariant()
    def figures_are_true(self) -> None:
        if hasattr(self, "scheduler"):
            validate(self.state)

    @invariant()
    def who_waits_has_been_told_why(self) -> None:
        if hasattr(self, "scheduler"):
            for job in self.state.waiting.values():
                assert job.hold is not None, f"{job.id} waits, and nobody has said why"

    @invariant()
    def nothing_is_over_committed(self) -> None:
        if hasattr(self, "scheduler"):
            for node in self.state.nodes.values():
                assert node.id in self.squeezed or min(node.free) >= 0, f"{node.id}: {node.free}"

    @invariant()
    def early_containers_leave_their_room_to_waiting_parents(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        ending = {decision.container for decision in self.decided if isinstance(decision, Preempt)}
        for c in self.state.containers.values():
            if (job := self.state.jobs.get(c.job)) is not None and c.status in (GRANTED, RUNNING):
                above = [e.parent for e in job.spec.stages[c.stage].edges if e.kind == "share"]
                assert c.id in ending or not any(job.stages[parent].waiting for parent in above), c.description

    @invariant()
    def explanations_agree_with_what_was_said(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for job in self.state.jobs.values():
            explanation = self.scheduler.explain(job.id)
            reason = self.scheduler.reason(job)
            if reason is not None:
                assert explanation.reasons[0].reason is reason, f"{reason} but {explanation.reasons}"
            for stage in explanation.stages:
                assert sum(stage.excluded.values()) == len(self.state.nodes)

    @invariant()
    def idle_executors_belong_to_live_jobs(self) -> None:
        if hasattr(self, "scheduler"):
            for container in (*self.state.idle.values(), *self.state.moving.values()):
                job = self.state.jobs.get(container.job)
                assert job is not None, f"{self.state.story(container.id)} of nobody"
                assert not job.cancelled, f"{self.state.story(container.id)} of a cancelled job"

    def teardown(self) -> None:
        if hasattr(self, "scheduler"):
            assert not [d for d in self.decided if isinstance(d, Release)] or self.state.has_executors


def test_the_core_under_any_facts() -> None:
    run_state_machine_as_test(Core, settings=settings(max_examples=20, stateful_step_count=50))


@pytest.mark.slow
def test_the_core_under_any_facts_ten_thousand_steps() -> None:
    run_state_machine_as_test(Core, settings=settings(max_examples=examples(100), stateful_step_count=100))
