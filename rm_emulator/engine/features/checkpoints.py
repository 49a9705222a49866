"""Checkpoints: work that a further attempt need not repeat, and gangs whose members work in step.

A task saves its work every so often, and stands still meanwhile. An attempt that ends early loses what came after the
last checkpoint; the next attempt is restarted first, and goes on from there. The members of a gang save together. With
the loss of one member all others exit, as under torchrun or JobSet, so that the gang starts anew as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rm_emulator.engine.calendar import END
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.execution import draw
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.preemptions import GANG_PARTED
from rm_emulator.engine.profile import Engine
from rm_emulator.workload.model import Fixed
from schedulers.core import keyed
from schedulers.core.decisions import Preempt

#: In place of a task: all tasks of a stage.
_GANG: Final = -1


@dataclass(slots=True, eq=False)
class _Member:
    """An attempt that saves its work."""

    container: Container
    work_ms: int
    """Run time of the whole task on this node, ms."""
    began_ms: int
    """Work that earlier attempts had saved, ms."""
    is_dead: bool = False
    """Whether its node is dead; nobody may have noticed."""


@dataclass(slots=True, eq=False)
class _Work:
    """The work of a task, or of a gang."""

    tasks: int
    saved_ms: int = 0
    """Work of each member in the last checkpoint, ms."""
    stops: int = 0
    """Times at which the work was stopped."""
    members: dict[int, _Member] = field(default_factory=dict)
    """The attempts that run, by container."""
    has_ended: bool = False
    """Whether a member has ended, heard or not."""
    since_ms: int | None = None
    """From when on the members work; in the future during a restart; None while a member is missing."""
    is_parting: bool = False
    """Whether the members are leaving, because one of them has left."""


class Checkpoints(Feature):
    """Tasks of batch jobs that save their work; a copy saves for itself."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        faults = engine.config.faults
        assert faults is not None
        assert faults.checkpoints is not None
        self._rules = faults.checkpoints
        self._saved: dict[str, dict[tuple[int, int], _Work]] = {}  # by job, then by stage and task
        self._of: dict[int, _Work] = {}  # by container
        # Replaced rather than hooked into: a hook comes after the record of the attempt.
        self._over: Callable[[Container], None] = engine.over
        engine.over = self._ends  # type: ignore[method-assign]

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether tasks save their work."""
        faults = engine.config.faults
        return faults is not None and faults.checkpoints is not None

    # -- an attempt begins --------------------------------------------------------------------------

    def runs(self, container: Container) -> None:
        """Let the attempt work from the last checkpoint on, as soon as the whole gang is there."""
        work = self._of[container.container] = self._work_of(container)
        work.members[container.container] = _Member(container, container.runtime, work.saved_ms)
        container.runtime = 0
        if len(work.members) == work.tasks and not any(each.is_dead for each in work.members.values()):
            self._go_on(work, container)

    def _work_of(self, container: Container) -> _Work:
        stage, works = container.stage, self._saved.setdefault(container.job, {})
        spec = container.master.source.job.stages[stage]
        if container.copy:
            return _Work(1)
        if not spec.gang:
            return works.setdefault((stage, container.task), _Work(1))
        gang = works.setdefault((stage, _GANG), _Work(spec.tasks))
        if gang.has_ended or gang.since_ms is not None:
            # Members without the others, who are done or go on: a task whose end nobody heard runs again alone.
            return works.setdefault((stage, container.task), _Work(1, gang.saved_ms, stops=1))
        return gang

    def _go_on(self, work: _Work, last: Container) -> None:
        """Let all members work from now on, or from the end of the restart on."""
        work.since_ms = self.engine.calendar.now + (self._restart(work, last) if work.stops else 0)
        self._enter_ends(work, work.since_ms)

    def _enter_ends(self, work: _Work, since_ms: int) -> None:
        for member in work.members.values():
            ends = since_ms + self._lasts(max(1, member.work_ms - work.saved_ms))
            container = member.container
            assert container.started_ms is not None
            container.runtime = ends - container.started_ms
            self.engine.enter_end(ends, END, container.container, self.engine.over, container)

    def _restart(self, work: _Work, last: Container) -> int:
        restart = self._rules.restart
        if isinstance(restart, Fixed):
            return restart.ms
        which = last.job, last.stage, _GANG if work.tasks > 1 else last.task, work.stops
        return draw(restart, keyed.generator(self.engine.seed, "restarts", *which), 1)[0]

    def saves(self, container: Container) -> bool:
        """Whether an attempt saves its work."""
        return container.container in self._of

    def retime(self) -> None:
        """Let all attempts go on under the present run times of their tasks, each longer than what is done."""
        now = self.engine.calendar.now
        for work in {id(work): work for work in self._of.values()}.values():
            done = work.saved_ms + self._worked(work, now)
            for member in work.members.values():
                runtime = member.container.runtime
                self.engine.set_run_time(member.container)
                member.work_ms, member.container.runtime = max(member.container.runtime, done + 1), runtime
            if work.since_ms is not None:
                self._enter_ends(work, work.since_ms)

    def _worked(self, work: _Work, now: int) -> int:
        """Work since the last begin, saved or not, ms."""
        if work.since_ms is None:
            return 0
        rounds, rest = divmod(max(0, now - work.since_ms), self._rules.every_ms + self._rules.cost_ms)
        return rounds * self._rules.every_ms + min(rest, self._rules.every_ms)

    def _lasts(self, work_ms: int) -> int:
        """Time for so much work, ms; nobody saves at the very end."""
        return work_ms + (work_ms - 1) // self._rules.every_ms * self._rules.cost_ms

    # -- an attempt ends ----------------------------------------------------------------------------

    def _ends(self, container: Container) -> None:
        """End an attempt; nothing for an entry of the calendar that is void."""
        work = self._of.get(container.container)
        if work is None:
            # A service's task saves nothing. An attempt that saved has ended before, perhaps unheard.
            if container.useful_ms is None:
                self._over(container)
            return
        if container.code:
            self.removed(container)
        elif container.started_ms is not None and container.started_ms + container.runtime == self.engine.calendar.now:
            del self._of[container.container]
            member, work.has_ended = work.members.pop(container.container), True
            container.useful_ms = max(1, member.work_ms - member.began_ms)
        else:
            return
        self._over(container)

    def removed(self, container: Container) -> None:
        """Let a container leave before its end, and with it the others of its gang."""
        if (work := self._of.pop(container.container, None)) is None:
            return
        member = work.members.pop(container.container)
        self._stop(work)
        container.useful_ms = max(0, work.saved_ms - member.began_ms)
        self._part(work)

    def stand_still(self, container: Container) -> None:
        """Let the work stop though all are there, until somebody ends the container."""
        if (work := self._of.get(container.container)) is not None:
            self._stop(work)

    def node_died(self, node: int) -> None:
        """Stop the work of all on a node from now on, whenever the death is noticed."""
        there = []
        for number, work in self._of.items():
            member = work.members[number]
            if member.container.index == node:
                member.is_dead = True
                there.append(work)
        for work in there:
            self._stop(work)
            self._part(work)

    def _stop(self, work: _Work) -> None:
        """Keep what is saved; the ends of all members on the calendar are void."""
        if work.since_ms is None:
            return
        worked = max(0, self.engine.calendar.now - work.since_ms)
        work.saved_ms += worked // (self._rules.every_ms + self._rules.cost_ms) * self._rules.every_ms
        work.since_ms, work.stops = None, work.stops + 1
        for member in work.members.values():
            member.container.runtime = 0

    def _part(self, work: _Work) -> None:
        """Let all other members exit; one that nobody hears exits later."""
        # Each that leaves would send away all others, a call within a call for each member.
        if work.is_parting:
            return
        work.is_parting = True
        for number, member in list(work.members.items()):
            self.engine.actions[Preempt](Preempt(number, GANG_PARTED, member.container.job))
        work.is_parting = False

    def begins_anew(self, job: Master) -> None:
        """Forget what the job has saved."""
        self._saved.pop(job.name, None)

    def job_over(self) -> None:
        """Forget what ended jobs have saved."""
        for name in [name for name in self._saved if name not in self.engine.jobs]:
            del self._saved[name]
