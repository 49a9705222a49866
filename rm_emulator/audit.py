"""Independent books about a scheduler's decisions, for tests of plug-ins."""

from __future__ import annotations

import msgspec

from schedulers.core.decider import Decider
from schedulers.core.decisions import Commit, Copy, Decision, Hold, Move, Place, Release, Run
from schedulers.core.events import (
    ContainerEnded,
    ContainerExpired,
    Event,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    NodesRefused,
    TaskEnded,
)
from schedulers.core.explain import Explanation
from schedulers.core.model import Edge, Job
from schedulers.core.policy import Policy
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import ClusterState


class _Held(msgspec.Struct):
    """A container in use."""

    node: str
    job: str
    stage: int
    task: int
    demand: Vector
    idle: bool = False
    copy: bool = False
    """Whether a second container has or had the same task."""


class DeciderAudit:
    """Independent books about a decider, kept while the decider goes on deciding.

    Raises AssertionError at the first decision that over-commits a node, starts a task before its parents,
    twice at once or again after a success, and at the first job left waiting without a reason.
    history: every fact with the resulting decisions.
    """

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self.state: ClusterState = decider.state
        self.history: list[tuple[Event, list[Decision]]] = []
        self._free: dict[str, list[int]] = {}
        self._used: dict[tuple[str, str | None], list[int]] = {}
        self._has_shrunk = False
        self._drained: set[str] = set()
        self._cancelled: set[str] = set()
        self._jobs: dict[str, Job] = {}
        self._refused: dict[str, tuple[str, ...]] = {}
        self._held: dict[int, _Held] = {}
        self._done: dict[tuple[str, int], set[int]] = {}
        self.placed = 0
        self.ended = 0

    def explain(self, job: str) -> Explanation:
        """See Decider."""
        return self._decider.explain(job)

    def handle(self, event: Event) -> list[Decision]:
        """See Decider."""
        self._hear(event)
        decisions = self._decider.handle(event)
        self.history.append((event, decisions))
        for decision in decisions:
            self._book(decision)
        for job in self.state.waiting.values():
            assert job.hold is not None, f"after {event}: job {job.id} waits and nobody has said why"
        self._check_accounts(event)
        return decisions

    def _check_accounts(self, event: Event) -> None:
        """No account holds more than it may; after the loss of a node, none takes more beyond its share."""
        for account in self.state.tree.accounts():
            which, used, jobs = (account.queue, account.user), list(account.used), account.most_jobs
            fits = account.within
            if not fits and self._has_shrunk and account.most is not None and (jobs is None or account.jobs <= jobs):
                before = self._used.get(which, [0] * len(used))
                fits = all(now <= max(most, then) for now, most, then in zip(used, account.most, before, strict=True))
            assert fits, f"after {event}: {account} holds more than it may"
            self._used[which] = used

    def drained(self) -> None:
        """Raise AssertionError unless everything was given back and every task of every job has succeeded once.

        Of cancelled jobs, tasks may be left.
        """
        state = self.state
        assert not state.jobs, f"jobs left: {list(state.jobs)}"
        assert not state.waiting, f"jobs wait that are over: {list(state.waiting)}"
        assert not state.containers, f"containers left: {[state.describe_container(c) for c in state.containers]}"
        assert not self._held, f"containers that never ended: {self._held}"
        assert not any(state.used), f"resources still held: {state.used}"
        assert self.placed == self.ended, f"{self.placed} tasks were started and {self.ended} ended"
        for job in (job for job in self._jobs.values() if job.id not in self._cancelled):
            for index, stage in enumerate(job.stages):
                done = len(self._done.get((job.id, index), ()))
                assert done == stage.tasks, f"{job.id}/{stage.name}: {done} of {stage.tasks} tasks succeeded"

    def _hear(self, event: Event) -> None:
        if isinstance(event, NodeAdded):
            self._free.setdefault(event.node.id, list(event.node.room))
            self._drained.discard(event.node.id)
        elif isinstance(event, NodeRemoved):
            self._drained.add(event.node)
            self._has_shrunk = True
        elif isinstance(event, NodeLost):
            self._lose(event.node)
        elif isinstance(event, JobCancelled):
            self._cancelled.add(event.job)
        elif isinstance(event, NodesRefused):
            self._refused[event.job] = event.nodes
        elif isinstance(event, JobSubmitted):
            self._jobs.setdefault(event.job.id, event.job)
            if event.again:
                self._cancelled.discard(event.job.id)
                self._refused.pop(event.job.id, None)
                self._done = {which: done for which, done in self._done.items() if which[0] != event.job.id}
        elif isinstance(event, TaskEnded):
            held = self._held.get(event.container)
            if held is not None and not held.idle and (held.stage, held.task) == (event.stage, event.task):
                held.idle = True
                self._succeed(held)
        elif isinstance(event, ContainerEnded) and event.container in self._held:
            held = self._held[event.container]
            self._give_back(event.container)
            if not held.idle:
                self._end(held, event.code)
        else:
            wild = NodeChanged | ContainerExpired
            assert not isinstance(event, wild), f"an audit keeps no books about {type(event).__name__}"

    def _lose(self, node: str) -> None:
        for number in [number for number, held in self._held.items() if held.node == node]:
            held = self._held[number]
            self._give_back(number)
            self.ended += not held.idle
        self._free.pop(node, None)
        self._has_shrunk = True

    def _end(self, held: _Held, code: int) -> None:
        if code == 0:
            self._succeed(held)
        else:
            self.ended += 1

    def _succeed(self, held: _Held) -> None:
        done = self._done.setdefault((held.job, held.stage), set())
        assert held.task not in done or held.copy, f"{held} succeeded twice"
        job = self._jobs[held.job]
        # A master's own stage is known to the scheduler alone.
        for edge in job.stages[held.stage].ties if held.stage < len(job.stages) else ():
            above = len(self._done.get((held.job, edge.parent), ()))
            assert edge.kind != "share" or above == job.stages[edge.parent].tasks, f"{held} ended before its parent"
        done.add(held.task)
        self.ended += 1

    def _give_back(self, container: int) -> None:
        held = self._held.pop(container)
        for r, amount in enumerate(held.demand):
            self._free[held.node][r] += amount

    def _book(self, decision: Decision) -> None:
        if isinstance(decision, Hold):
            assert isinstance(decision.reason, Reason), f"{decision} gives no reason of the closed set"
        elif isinstance(decision, Commit):
            self._bring(decision)
        elif isinstance(decision, Release):
            assert self._held[decision.container].idle, f"{decision} takes a busy executor"
            self._give_back(decision.container)
        elif isinstance(decision, Place | Run | Move):
            self._start(decision)
        elif isinstance(decision, Copy):
            self._copy(decision)

    def _bring(self, decision: Commit) -> None:
        demand = self._jobs[decision.job].stages[decision.stage].demand
        node = self._take(decision, decision.node, demand)
        self._held[decision.container] = _Held(node, decision.job, -1, -1, demand, idle=True)

    def _take(self, decision: Commit | Place | Copy | Run | Move, node: str, demand: Vector) -> str:
        """Take a new container's resources from its node; without a node, take an idle executor. Returns the node."""
        if node:
            assert node in self._free, f"{decision} names a node that is lost"
            assert node not in self._drained, f"{decision} names a node that is drained"
            refused = self._refused.get(decision.job, ())
            # Nobody asks the master where its own container is to be.
            is_master = self._jobs[decision.job].stages[decision.stage].master
            assert is_master or node not in refused, f"{decision} names a node that the job refuses"
            free = self._free[node]
            for r, amount in enumerate(demand):
                free[r] -= amount
            assert min(free) >= 0, f"{decision} over-commits its node: {free} left"
            return node
        held = self._held[decision.container]
        assert held.idle, f"{decision} takes a busy executor"
        assert held.demand == demand, f"{decision}: the executor has another size"
        return held.node

    def _start(self, decision: Place | Run | Move) -> None:
        job = self._jobs[decision.job]
        assert job.id not in self._cancelled, f"{decision} starts a task of a cancelled job"
        stage = job.stages[decision.stage]
        key = (decision.job, decision.stage)
        for edge in stage.edges:
            self._check_edge(decision, job, edge)
        assert 0 <= decision.task < stage.tasks, f"{decision}: no such task"
        assert decision.task not in self._done.get(key, ()), f"{decision} starts again what has succeeded"
        running = {(h.job, h.stage, h.task) for h in self._held.values() if not h.idle}
        assert (*key, decision.task) not in running, f"{decision} starts what already runs"
        self.placed += 1
        node = self._take(decision, decision.node if isinstance(decision, Place) else "", stage.demand)
        self._held[decision.container] = _Held(node, decision.job, decision.stage, decision.task, stage.demand)

    def _check_edge(self, decision: Place | Run | Move, job: Job, edge: Edge) -> None:
        done, tasks = self._done.get((job.id, edge.parent), ()), job.stages[edge.parent].tasks
        if edge.kind == "one_to_one":
            assert decision.task in done, f"{decision} starts before its task of parent stage {edge.parent}"
            return
        assert len(done) >= (edge.least(tasks) if edge.kind == "share" else tasks), (
            f"{decision} starts before its parent stage {edge.parent}"
        )
        begun = sum(1 for h in self._held.values() if (h.job, h.stage) == (job.id, edge.parent) and not h.idle)
        assert len(done) + begun >= tasks, f"{decision} takes room that its parent stage {edge.parent} waits for"

    def _copy(self, decision: Copy) -> None:
        stage = self._jobs[decision.job].stages[decision.stage]
        task = (decision.job, decision.stage, decision.task)
        others = [held for held in self._held.values() if (held.job, held.stage, held.task) == task]
        begun = others or decision.task in self._done.get((decision.job, decision.stage), ())
        assert begun, f"{decision} copies what has not begun"
        for held in others:
            held.copy = True
        self.placed += 1
        node = self._take(decision, decision.node, stage.demand)
        self._held[decision.container] = _Held(node, *task, stage.demand, copy=True)


class Audit(DeciderAudit):
    """Books about a scheduler, asked by the engine in the scheduler's place."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.scheduler = scheduler

    @property
    def policy(self) -> Policy:
        """See Scheduler.policy."""
        return self.scheduler.policy

    def next_change(self) -> int | None:
        """See Scheduler.next_change."""
        return self.scheduler.next_change()
