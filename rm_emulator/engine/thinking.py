"""Schedulers with think times: each has a queue of jobs, thinks about a single job, then claims nodes for tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rm_emulator.engine import containers
from rm_emulator.engine.calendar import ASK, BEAT, TICK
from rm_emulator.engine.config import Thinker
from rm_emulator.engine.config import Thinking as Settings
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers
from rm_emulator.engine.profile import Profile
from rm_emulator.engine.recording import SchedulingAttempt
from rm_emulator.engine.simulation import Simulation
from schedulers.core.decisions import Place
from schedulers.core.events import (
    ClaimRefused,
    JobCancelled,
    JobChanged,
    NodeLost,
    NodeRemoved,
    StageWithdrawn,
    Thought,
)
from schedulers.core.resources import Vector

#: In place of a scheduler's number: no scheduler has changed anything.
NOBODY: Final = -1
_ByNode = Sequence[Sequence[int]] | Mapping[int, Sequence[int]]


@dataclass(slots=True, eq=False)
class ThinkingScheduler:
    """A scheduler with think times, as seen by its architecture; `number` is the scheduler's number in the control."""

    number: int
    thinker: Thinker
    waiting: Collection[str]
    """The jobs in its queue, kept up to date."""
    job: str | None = None
    """The job under thought; None: the scheduler is idle."""
    began_ms: int = 0
    """Begin of the attempt at this job, ms."""
    tasks_asked: int = 0
    """Tasks to be placed at the begin of the attempt."""
    commits_seen: int = 0
    """Number of commits at the scheduler's last look at the cluster."""
    stale_nodes: dict[int, None] = field(default_factory=dict)
    """Nodes with use by others that may differ from the scheduler's view."""
    unheard_closed: Collection[str] = ()
    """Nodes lost or drained during the attempt, of which the scheduler has not heard."""

    @property
    def can_begin(self) -> bool:
        """Whether the scheduler is idle while a job waits."""
        return self.job is None and bool(self.waiting)


@dataclass(slots=True)
class _JobAttempts:
    """Number of attempts at a job, and whether any task of the job was placed."""

    count: int = 0
    placed: bool = False


class ThinkingProfile(Profile):
    """Schedulers with think times, as in Omega's simulator (google/cluster-scheduler-simulator).

    An attempt at a job takes t_job, and t_task for each task not placed yet. The policy names the next job. At the end
    of the attempt policy and placer choose nodes in the scheduler's own view: the claims. A job with tasks left is in
    the queue again after a while, and given up after many attempts.
    """

    offers = "thought"
    asks = "all"
    hears_ends = False
    """Whether a scheduler hears of ends of its tasks during an attempt."""

    engine: Simulation

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        settings, control = engine.config.architecture, engine.control
        assert isinstance(settings, Settings)
        assert isinstance(control, MultipleSchedulers)
        self.settings, self.control = settings, control
        self.schedulers = [
            ThinkingScheduler(number, thinker, waiting)
            for number, (thinker, waiting) in enumerate(zip(self.thinkers, control.queues, strict=True))
        ]
        self.free = [list(node.room) for node in engine.config.nodes]
        """By node the amounts held by nobody, in truth."""
        self._names = [node.id for node in engine.config.nodes]
        self.index = {name: index for index, name in enumerate(self._names)}
        self._attempts: dict[str, _JobAttempts] = {}
        self._given_up: dict[str, Master] = {}
        self._is_due = False
        self._entries = 0

    @property
    @abstractmethod
    def thinkers(self) -> tuple[Thinker, ...]:
        """The schedulers."""

    # -- what an architecture decides -----------------------------------------------------------

    def next_to_think(self) -> Iterator[ThinkingScheduler]:
        """The schedulers that begin an attempt now, in turn: all idle schedulers with a waiting job."""
        return (scheduler for scheduler in self.schedulers if scheduler.can_begin)

    def refresh_view(self, scheduler: ThinkingScheduler) -> None:
        """Bring the scheduler's view of the cluster up to date at the begin of an attempt."""

    def think_ms(self, scheduler: ThinkingScheduler, job: str) -> int:
        """Length of an attempt at a job, ms."""
        return scheduler.thinker.t_job_ms + scheduler.thinker.t_task_ms * scheduler.tasks_asked

    def claims_choices(self, scheduler: ThinkingScheduler, chosen: list[Place]) -> bool:
        """Whether the scheduler claims its choices; otherwise the attempt claims nothing."""
        return True

    def refused_claims(self, scheduler: ThinkingScheduler, claims: list[Place]) -> list[Place]:
        """The claims of an attempt that are refused; the rest is carried out."""
        return [claim for claim in claims if claim.node in scheduler.unheard_closed]

    def attempt_ended(self, scheduler: ThinkingScheduler) -> None:
        """An attempt has ended, with its claims carried out."""

    def node_changed(self, node: int, by: int) -> None:
        """The free amount of a node has changed, caused by the scheduler with number `by`."""

    # -- an attempt -----------------------------------------------------------------------------

    def offer(self) -> None:
        """Let idle schedulers begin an attempt once all facts of the instant are in."""
        if not self._is_due and any(scheduler.can_begin for scheduler in self.schedulers):
            # A separate entry of rank TICK: facts of the same instant come first, whatever the order of entry.
            self._is_due = True
            self.engine.calendar.at(self.engine.calendar.now, TICK, 0, self._begin_attempts)

    def _begin_attempts(self, _: None) -> None:
        self._is_due = False
        for scheduler in self.next_to_think():
            self._begin_attempt(scheduler)

    def _begin_attempt(self, scheduler: ThinkingScheduler) -> None:
        """Begin an attempt at the next job, unless the policy holds back all jobs."""
        now = self.engine.calendar.now
        job = self.control.first_in_line(scheduler.number)
        if job is None:
            return
        self.refresh_view(scheduler)
        scheduler.job, scheduler.began_ms, scheduler.tasks_asked = job.id, now, job.waiting
        # Ends wait in the control until the attempt is over: Omega works on a private copy.
        if not self.hears_ends:
            self.control.defer_ends(scheduler.number)
        self._entries += 1
        self.engine.calendar.at(
            now + self.think_ms(scheduler, job.id), BEAT, self._entries, self._end_attempt, scheduler
        )

    def _end_attempt(self, scheduler: ThinkingScheduler) -> None:
        """End an attempt: claims are carried out or refused, then the scheduler hears the deferred facts."""
        engine, name, now = self.engine, scheduler.job, self.engine.calendar.now
        assert name is not None
        deferred = self.control.take_deferred(scheduler.number)
        # Also where the node is back by now: the scheduler hears of the loss only after this claim.
        scheduler.unheard_closed = {fact.node for fact in deferred if isinstance(fact, NodeLost | NodeRemoved)}
        decisions = engine.handle(Thought(now, name))
        chosen = [decision for decision in decisions if isinstance(decision, Place)]
        # Refused places must stay out of `carry_out`: a container for a refused claim would start.
        claims = chosen if self.claims_choices(scheduler, chosen) else []
        refused = self.refused_claims(scheduler, claims)
        gone = {place.container for place in (refused if claims else chosen)}
        engine.carry_out([d for d in decisions if not isinstance(d, Place) or d.container not in gone])
        for place in chosen:
            if place.container in gone:
                engine.tell(ClaimRefused(now, place.container))
            else:
                # What was placed is taken from the truth, not from any view: later commits are held against the truth.
                demand = engine.jobs[place.job].source.job.stages[place.stage].demand
                self._add_free(self.index[place.node], demand, -1, scheduler.number)
        # Deferred facts only now: heard before the claims, the claims would meet a view that the attempt never saw.
        for event in deferred:
            engine.facts += 1
            engine.carry_out(self.control.handle_one(scheduler.number, msgspec.structs.replace(event, at=now)))
        scheduler.job = None
        self.attempt_ended(scheduler)
        self._requeue(scheduler, name, len(claims) - len(refused), len(refused))
        engine.carry_on()

    def _requeue(self, scheduler: ThinkingScheduler, name: str, placed: int, refused: int) -> None:
        """Put a job with tasks left into the queue again later, or give the job up."""
        now, job = self.engine.calendar.now, self.control.job_if_live(name)
        given_up = False
        if job is not None:
            attempts = self._attempts.setdefault(name, _JobAttempts())
            attempts.count += 1
            # Omega counts attempts without any placed task by a limit of their own.
            attempts.placed = attempts.placed or placed > 0
            end = self.settings.give_up
            in_vain = not attempts.placed and attempts.count > end.none_placed
            given_up = bool(job.waiting) and (in_vain or attempts.count > end.attempts)
            if given_up:
                self._give_up(job.id, attempts)
            elif job.waiting:
                stages, master = tuple(job.open), self.engine.jobs[name]
                master.withdrawals.update(stages)
                # The withdrawal keeps the policy from choosing the job again before the retry is due.
                for stage in stages:
                    self.engine.tell(StageWithdrawn(now, name, stage))
                self._entries += 1
                self.engine.later(now + self.settings.retry_ms, ASK, self._entries, self._retry, (master, stages))
        self.engine.record.scheduling_attempt(
            SchedulingAttempt(
                scheduler=scheduler.thinker.name,
                job=name,
                began_ms=scheduler.began_ms,
                ended_ms=now,
                asked=scheduler.tasks_asked,
                placed=placed,
                refused=refused,
                given_up=given_up,
            )
        )

    def _retry(self, withdrawn: tuple[Master, tuple[int, ...]]) -> None:
        job, stages = withdrawn
        job.withdrawals.subtract(stages)
        if asked := tuple(stage for stage in stages if not job.withdrawals[stage]):
            self.engine.tell(JobChanged(self.engine.calendar.now, job.name, asked))

    def _give_up(self, name: str, attempts: _JobAttempts) -> None:
        """Start no further task of the job; the job is over once its last container has ended."""
        placed = "" if attempts.placed else ", none of which placed any of its tasks"
        why = f"given up after {attempts.count} attempts{placed}"
        self.engine.tell(JobCancelled(self.engine.calendar.now, name, why))
        job = self._given_up[name] = self.engine.jobs[name]
        self.finish_if_over(job)

    # -- a task's life --------------------------------------------------------------------------

    def ended(self, container: Container) -> bool:
        """Free the container's amounts at once; a scheduler in the middle of an attempt may hear of the end later."""
        self.release(container)
        return super().ended(container)

    def release(self, container: Container) -> None:
        """Give the amounts of a container back to its node."""
        demand = container.master.source.job.stages[container.stage].demand
        self._add_free(container.index, demand, 1, self.control.scheduler_of[container.job])

    def removed(self, container: Container) -> None:
        """Free the container's amounts."""
        self.release(container)

    def freed(self, node: int | None) -> None:
        """End each job that was given up and has lost its last container to preemption."""
        self._finish_given_up()

    def _finish_given_up(self) -> None:
        for job in list(self._given_up.values()):
            self.finish_if_over(job)

    def finish_if_over(self, job: Master) -> None:
        """Judge by the ends on the nodes, since the scheduler may not have heard of all of them."""
        if job.name in self._given_up:
            # A job that was given up may have running containers: the job ends with the last of them.
            if not any(container.master is job for container in self.engine.containers.values()):
                del self._given_up[job.name], self.engine.jobs[job.name]
                self.engine.record.job(containers.job_row(job, None))
                if not job.is_service:
                    self.engine.tell_job_over()
        elif not any(job.tasks_left):
            self.engine.finish(job)

    def _add_free(self, node: int, demand: Vector, sign: int, by: int) -> None:
        free = self.free[node]
        for r, amount in enumerate(demand):
            free[r] += sign * amount
        self.node_changed(node, by)

    # -- nodes come and go ----------------------------------------------------------------------

    def closed(self, node: int) -> None:
        """A node takes no further tasks; jobs that were given up may have lost their last container there."""
        self.node_changed(node, NOBODY)
        self._finish_given_up()

    def heard_again(self, node: int) -> None:
        """A node may take tasks again; who hears at once also hears what others still hold on a drained node."""
        self.node_changed(node, NOBODY)
        for scheduler in self.schedulers if self.hears_ends else ():
            self.set_foreign_use(scheduler, [node], self.free)

    # -- what others hold -----------------------------------------------------------------------

    def set_foreign_use(self, scheduler: ThinkingScheduler, nodes: Collection[int], free: _ByNode) -> None:
        """Tell a scheduler the use by others on these nodes, so that its view of free room is `free`, by node."""
        # No call for each node: an attempt looks at thousands of nodes.
        seen = zip(map(self._names.__getitem__, nodes), map(free.__getitem__, nodes), strict=True)
        self.control.set_foreign_use(scheduler.number, self.engine.calendar.now, seen)
