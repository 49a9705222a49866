"""Speculation: masters that ask for copies of tasks that run late.

A running task reports a progress that grows evenly over its run time. A task that hangs, or whose node is not heard,
reports nothing new, and its expected end moves away with the time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from rm_emulator.engine.calendar import ASK
from rm_emulator.engine.containers import Container, Master
from rm_emulator.engine.features.failing_tasks import FailingTasks
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.features.node_faults import NodeFaults
from rm_emulator.engine.profile import Engine
from rm_emulator.engine.speculation import LOOK_MS, RULES, ReportedTask, StageReport, takes_ms
from schedulers.core.events import CopyAsked
from schedulers.core.resources import Vector
from schedulers.core.vectors import times_in


@dataclass(slots=True, eq=False)
class _Seen:
    """What a master knows of its job."""

    containers: dict[int, Container] = field(default_factory=dict)
    """Granted containers, by number; those that are gone leave with the next look."""
    took: dict[int, list[int]] = field(default_factory=dict)
    """Run times of finished tasks, ms, by stage."""
    done: Counter[str] = field(default_factory=Counter)
    """Finished tasks, by node."""
    next_look: int = -1
    """Earliest time of the next look, ms."""
    looks: bool = False
    """Whether a look is on the calendar."""


class Speculation(Feature):
    """Masters of batch jobs look for slow tasks every second from their job's arrival on, while containers are held.

    Of a gang, all members work in step: none is copied.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        faults = engine.config.faults
        assert faults is not None
        assert faults.speculation is not None
        self._rule = RULES[faults.speculation]()
        self._jobs: dict[str, _Seen] = {}
        self._slots: dict[Vector, int] = {}

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether masters ask for copies."""
        return engine.config.faults is not None and engine.config.faults.speculation is not None

    def granted(self, container: Container, at: int) -> int:
        """Note a container, and look at its job from now on."""
        job = container.master
        if not job.is_service and container.stage != job.master_stage:
            seen = self._jobs.setdefault(job.name, _Seen())
            seen.containers[container.container] = container
            if not seen.looks:
                self._look_later(job, seen, max(self.engine.calendar.now + 1, seen.next_look))
        return at

    def counts(self, container: Container) -> bool:
        """Note the run time of a finished task; called for the first success alone."""
        if (seen := self._jobs.get(container.job)) is not None:
            seen.took.setdefault(container.stage, []).append(container.runtime)
            seen.done[container.node] += 1
        return True

    def begins_anew(self, job: Master) -> None:
        """Forget what the former master knew."""
        self._jobs.pop(job.name, None)

    def job_over(self) -> None:
        """Forget ended jobs."""
        for name in [name for name in self._jobs if name not in self.engine.jobs]:
            del self._jobs[name]

    # Asked for late, since features are made one by one.
    @cached_property
    def _failing(self) -> FailingTasks | None:
        return self.engine.feature(FailingTasks)

    @cached_property
    def _nodes(self) -> NodeFaults | None:
        return self.engine.feature(NodeFaults)

    # -- a look -----------------------------------------------------------------------------------

    def _look_later(self, job: Master, seen: _Seen, at: int) -> None:
        """Enter a look at this time, or at the first full second of the job behind it."""
        at += (job.source.submit_ms - at) % LOOK_MS
        seen.looks, seen.next_look = True, at
        self.engine.calendar.at(at, ASK, job.number, self._look, job)

    def _look(self, job: Master) -> None:
        # A job that has begun anew since has a master of its own.
        if (seen := self._jobs.get(job.name)) is None or self.engine.jobs.get(job.name) is not job:
            return
        engine, now = self.engine, self.engine.calendar.now
        there = engine.containers
        seen.containers = {number: each for number, each in seen.containers.items() if there.get(number) is each}
        pause, seen.looks = LOOK_MS, False
        for stage, tasks in self._under_way(job, seen).items():
            task = self._rule.choose(self._report(job, seen, stage, tasks))
            if task is not None:
                pause = self._rule.pause_ms
                engine.tell(CopyAsked(now, job.name, stage, task, self._rule.slow_nodes(self._progress(seen))))
        seen.next_look = now + pause
        if seen.containers and not seen.looks:
            self._look_later(job, seen, seen.next_look)
        engine.carry_on()

    def _under_way(self, job: Master, seen: _Seen) -> dict[int, dict[int, list[Container]]]:
        """By stage and task the containers of stages of which no task waits, in the order of stages."""
        found: dict[int, dict[int, list[Container]]] = {}
        for container in seen.containers.values():
            if not container.has_ended:
                found.setdefault(container.stage, {}).setdefault(container.task, []).append(container)
        spec, state = job.source.job.stages, job.state.stages
        # An ask for a copy waits as all others do.
        return {stage: found[stage] for stage in sorted(found) if not state[stage].waiting and not spec[stage].gang}

    def _report(self, job: Master, seen: _Seen, stage: int, tasks: dict[int, list[Container]]) -> StageReport:
        spec = job.source.job.stages[stage]
        alone = [each[0] for each in tasks.values() if len(each) == 1]
        return StageReport(
            now=self.engine.calendar.now,
            tasks=spec.tasks,
            slots=self._slots_of(spec.demand),
            took=seen.took.get(stage, ()),
            single=[self._running(each) for each in alone if each.started_ms is not None and each.runtime],
            under_way=len(tasks),
            copied=len(tasks) - len(alone),
        )

    def _slots_of(self, demand: Vector) -> int:
        """Number of such tasks that the cluster holds at once."""
        if demand not in self._slots:
            self._slots[demand] = sum(times_in(demand, node.room) for node in self.engine.config.nodes)
        return self._slots[demand]

    def _running(self, container: Container) -> ReportedTask:
        assert container.started_ms is not None
        elapsed = self.engine.calendar.now - container.started_ms
        return ReportedTask(
            container.task, container.started_ms, takes_ms(container.runtime, self._worked(container), elapsed)
        )

    def _worked(self, container: Container) -> int:
        """Time for which a running task has reported progress, ms."""
        assert container.started_ms is not None
        until = self.engine.calendar.now
        if self._failing is not None:
            until = min(until, self._failing.hung.get(container.container, until))
        if self._nodes is not None and (since := self._nodes.unheard_since(container.index)) is not None:
            until = min(until, since)
        return until - container.started_ms

    def _progress(self, seen: _Seen) -> dict[str, float]:
        """By node the progress of the job's tasks there, done ones counting 1."""
        progress = {node: float(count) for node, count in seen.done.items()}
        for container in seen.containers.values():
            if container.started_ms is not None and not container.has_ended and container.runtime:
                there = max(0, self._worked(container)) / container.runtime
                progress[container.node] = progress.get(container.node, 0.0) + there
        return progress
