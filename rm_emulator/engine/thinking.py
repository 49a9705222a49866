"""Schedulers that take their time: each has a queue of jobs, thinks about one at a time, and claims what it chose."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rm_emulator.engine import containers
from rm_emulator.engine.calendar import ASK, BEAT, TICK
from rm_emulator.engine.config import Thinker
from rm_emulator.engine.config import Thinking as Settings
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.profile import Profile
from rm_emulator.engine.recording import Try
from rm_emulator.engine.several import Several
from rm_emulator.engine.simulation import Simulation
from schedulers.core.decisions import Place
from schedulers.core.events import ClaimRefused, JobCancelled, JobChanged, OthersSeen, StageWithdrawn, Thought
from schedulers.core.nodes import OTHERS
from schedulers.core.resources import Vector
from schedulers.core.scheduler import Scheduler


@dataclass(slots=True, eq=False)
class Desk:
    """A scheduler at work.

    job: what it thinks about, since `began`, where `asked` tasks were to be placed. copied: how many commits there were
    when it looked at the cluster. stale: nodes of which others may hold another amount than it knows.
    """

    number: int
    thinker: Thinker
    scheduler: Scheduler
    job: str | None = None
    began: int = 0
    asked: int = 0
    copied: int = 0
    stale: dict[int, None] = field(default_factory=dict)

    @property
    def wants(self) -> bool:
        """Whether it could think about something: it is idle, and a job waits."""
        return self.job is None and bool(self.scheduler.state.waiting)


@dataclass(slots=True)
class _Tries:
    """How often a job was tried, and whether any of its tasks was placed."""

    count: int = 0
    placed: bool = False


class Thinking(Profile):
    """Schedulers that think, as in Omega's simulator (google/cluster-scheduler-simulator).

    An attempt at a job takes t_job, and t_task for each of its tasks that are not placed. Which job is next is for the
    policy to say. Where its tasks go is said at the end, by policy and placer, in the scheduler's own view: these are
    its claims. A job with tasks left is in the queue again after a while, and given up after many attempts.

    free: by node what really nobody holds. hears: whether a scheduler hears of ends of its tasks while it thinks.
    """

    offers = "thought"
    asks = "all"
    hears = False

    engine: Simulation

    def __init__(self, engine: Simulation) -> None:
        super().__init__(engine)
        settings, control = engine.config.architecture, engine.control
        assert isinstance(settings, Settings)
        assert isinstance(control, Several)
        self.settings, self.control = settings, control
        self.desks = [
            Desk(number, thinker, scheduler)
            for number, (thinker, scheduler) in enumerate(zip(self.thinkers, control.schedulers, strict=True))
        ]
        self.free = [list(node.room) for node in engine.config.nodes]
        self._nothing = (0,) * len(engine.config.resources)
        self._names = [node.id for node in engine.config.nodes]
        self.index = {name: index for index, name in enumerate(self._names)}
        self._tries: dict[str, _Tries] = {}
        self._given_up: dict[str, Master] = {}
        self._is_due = False
        self._turns = 0

    @property
    @abstractmethod
    def thinkers(self) -> tuple[Thinker, ...]:
        """The schedulers."""

    # -- what an architecture decides -----------------------------------------------------------

    def next_desks(self) -> Iterator[Desk]:
        """Who begins to think now, one after the other: whoever is idle and has a job."""
        return (desk for desk in self.desks if desk.wants)

    def look(self, desk: Desk) -> None:
        """A scheduler that begins to think looks at the cluster."""

    def think_ms(self, desk: Desk, job: str) -> int:
        """How long it thinks about a job."""
        return desk.thinker.t_job_ms + desk.thinker.t_task_ms * desk.asked

    def is_enough(self, desk: Desk, chosen: list[Place]) -> bool:
        """Whether it claims what it has chosen; else it claims nothing."""
        return True

    def refused(self, desk: Desk, claims: list[Place]) -> list[Place]:
        """Which of the claims of an attempt cannot be carried out; the others are then."""
        return []

    def through(self, desk: Desk) -> None:
        """An attempt has ended, and its claims are carried out."""

    def changed(self, node: int, by: int) -> None:
        """What is really free on a node is another amount now, by the doing of the scheduler with this number."""

    # -- an attempt -----------------------------------------------------------------------------

    def offer(self) -> None:
        """See Profile. Whoever is idle begins when all facts of the instant are in."""
        if not self._is_due and any(desk.wants for desk in self.desks):
            self._is_due = True
            self.engine.calendar.at(self.engine.calendar.now, TICK, 0, self._begin_all)

    def _begin_all(self, _: None) -> None:
        self._is_due = False
        for desk in self.next_desks():
            self._begin(desk)

    def _begin(self, desk: Desk) -> None:
        """It begins to think about the job that is next, if its policy does not hold back all of them."""
        now = self.engine.calendar.now
        name = desk.scheduler.first_in_line()
        if name is None:
            return
        self.look(desk)
        job = desk.scheduler.state.jobs[name]
        desk.job, desk.began, desk.asked = name, now, job.waiting
        if not self.hears:
            self.control.deaf[desk.number] = []
        self._turns += 1
        self.engine.calendar.at(now + self.think_ms(desk, name), BEAT, self._turns, self._end, desk)

    def _end(self, desk: Desk) -> None:
        """It has thought: its claims are carried out or refused, then it hears what it has missed."""
        engine, name, now = self.engine, desk.job, self.engine.calendar.now
        assert name is not None
        missed = self.control.deaf.pop(desk.number, [])
        decisions = engine.handle(Thought(now, name))
        chosen = [decision for decision in decisions if isinstance(decision, Place)]
        claims = chosen if self.is_enough(desk, chosen) else []
        refused = self.refused(desk, claims)
        gone = {place.container for place in (refused if claims else chosen)}
        engine.obey([d for d in decisions if not isinstance(d, Place) or d.container not in gone])
        for place in chosen:
            if place.container in gone:
                engine.tell(ClaimRefused(now, place.container))
            else:
                demand = engine.jobs[place.job].source.job.stages[place.stage].demand
                self._add(self.index[place.node], demand, -1, desk.number)
        for event in missed:
            engine.tell(msgspec.structs.replace(event, at=now))
        desk.job = None
        self.through(desk)
        self._requeue(desk, name, len(claims) - len(refused), len(refused))
        engine.carry_on()

    def _requeue(self, desk: Desk, name: str, placed: int, refused: int) -> None:
        """A job with tasks left is in the queue again later, or given up."""
        now, job = self.engine.calendar.now, desk.scheduler.state.jobs.get(name)
        given_up = False
        if job is not None:
            tries = self._tries.setdefault(name, _Tries())
            tries.count += 1
            tries.placed = tries.placed or placed > 0
            end = self.settings.give_up
            in_vain = not tries.placed and tries.count > end.none_placed
            given_up = bool(job.waiting) and (in_vain or tries.count > end.attempts)
            if given_up:
                self._give_up(job.id, tries)
            elif job.waiting:
                stages = tuple(job.open)
                for stage in stages:
                    self.engine.tell(StageWithdrawn(now, name, stage))
                self._turns += 1
                self.engine.later(now + self.settings.retry_ms, ASK, self._turns, self._again, (name, stages))
        self.engine.record.tried(
            Try(
                scheduler=desk.thinker.name,
                job=name,
                began_ms=desk.began,
                ended_ms=now,
                asked=desk.asked,
                placed=placed,
                refused=refused,
                given_up=given_up,
            )
        )

    def _again(self, withdrawn: tuple[str, tuple[int, ...]]) -> None:
        name, stages = withdrawn
        self.engine.tell(JobChanged(self.engine.calendar.now, name, stages))

    def _give_up(self, name: str, tries: _Tries) -> None:
        """Nothing more of the job starts; it is over when nothing of it runs."""
        placed = "" if tries.placed else ", none of which placed any of its tasks"
        why = f"given up after {tries.count} attempts{placed}"
        self.engine.tell(JobCancelled(self.engine.calendar.now, name, why))
        job = self._given_up[name] = self.engine.jobs[name]
        self.finish_if_over(job)

    # -- a task's life --------------------------------------------------------------------------

    def ended(self, container: Container) -> bool:
        """See Profile. What it held is free at once; a scheduler that thinks may hear of it later."""
        self.release(container)
        return super().ended(container)

    def release(self, container: Container) -> None:
        """What a container held is free."""
        demand = container.master.source.job.stages[container.stage].demand
        self._add(container.index, demand, 1, self.control.of[container.job])

    def finish_if_over(self, job: Master) -> None:
        """See Profile. By what has ended, not by what the scheduler has heard of."""
        if job.name in self._given_up:
            if not any(container.master is job for container in self.engine.containers.values()):
                del self._given_up[job.name], self.engine.jobs[job.name]
                self.engine.record.job(containers.result(job, None))
                if not job.lasts:
                    self.engine.one_is_over()
        elif not any(job.left):
            self.engine.finish(job)

    def _add(self, node: int, demand: Vector, sign: int, by: int) -> None:
        free = self.free[node]
        for r, amount in enumerate(demand):
            free[r] += sign * amount
        self.changed(node, by)

    # -- what others hold -----------------------------------------------------------------------

    def show(self, desk: Desk, nodes: Iterable[int], free: Any) -> None:
        """Tell a scheduler what others hold on these nodes, so that it sees free what `free` says by node."""
        there, names, seen = desk.scheduler.state.nodes, self._names, dict[str, Vector | None]()
        for index in nodes:
            node = there[names[index]]
            if node.free != free[index]:
                held = node.foreign.get(OTHERS, self._nothing)
                now = tuple(map(sum, zip(held, node.free, map(int.__neg__, free[index]), strict=True)))
                seen[names[index]] = now if any(now) else None
        if seen:
            desk.scheduler.handle(OthersSeen(self.engine.calendar.now, seen))
