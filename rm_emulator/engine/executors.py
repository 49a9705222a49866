"""Containers that outlive tasks: an execution model of its own, as in Spark (Decima, section 6.2)."""

from __future__ import annotations

from rm_emulator.engine.calendar import START
from rm_emulator.engine.containers import Container
from rm_emulator.engine.simulation import Simulation
from schedulers.core.decisions import Commit, Move, Release, Run
from schedulers.core.events import ContainerStarted, TaskEnded


class KeptExecutors:
    """Executors that a job keeps between tasks, and the decisions that concern them.

    moving_ms: what it costs to take one up, new or from another job.
    """

    def __init__(self, engine: Simulation, moving_ms: int) -> None:
        self._engine, self._moving_ms = engine, moving_ms
        self._containers, self._held = engine.containers, engine.control.held
        engine.obeys |= {Run: self._run, Move: self._move, Commit: self._commit, Release: self._release}

    def launch(self, container: Container) -> int:
        """When an executor that is granted now starts its first task, see Profile.launch."""
        return self._engine.calendar.now + self._moving_ms

    def ended(self, container: Container) -> bool:
        """It reports a finished task, see Profile.ended."""
        engine, job, ran = self._engine, container.master, container.runtime
        number, stage, task, attempt = container.container, container.stage, container.task, container.attempt
        engine.count(container)
        decisions = engine.tell_completion(TaskEnded(engine.calendar.now, number, job.name, stage, task, attempt, ran))
        if decisions and type(decisions[0]) is Run:
            return False  # it went on with the same stage: nothing else has changed
        engine.profile.finish_if_over(job)
        return True

    def _run(self, decision: Run) -> None:
        container, now = self._containers[decision.container], self._engine.calendar.now
        if container.started_ms is None or now > container.started_ms + container.runtime:
            container.wave = "fresh"  # an executor that has waited counts as new (decima-sim: detach_node)
        else:
            container.wave = "rest" if container.stage == decision.stage else "first"
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        container.granted_ms, container.pilot = now, self._held[decision.container].pilot
        self._engine.start(container, now)

    def _move(self, decision: Move) -> None:
        container = self._engine.containers[decision.container]
        container.wave = "fresh"
        self._engine.grant(container, decision)

    def _commit(self, decision: Commit) -> None:
        """An executor sets out for a job that will have tasks for it."""
        engine, number = self._engine, decision.container
        if decision.node:
            engine.contain(number, decision.node, decision.job)
        container = engine.containers[number]
        container.master, container.job = engine.jobs[decision.job], decision.job
        container.stage, container.started_ms = -1, None
        at = engine.delayed(engine.calendar.now + self._moving_ms, decision.job, decision.stage, -1, number)
        engine.calendar.at(at, START, number, self._arrived, container)

    def _arrived(self, container: Container) -> None:
        engine, number = self._engine, container.container
        if engine.containers.get(number) is container:
            engine.tell(ContainerStarted(engine.calendar.now, number))
            engine.carry_on()

    def _release(self, decision: Release) -> None:
        del self._engine.containers[decision.container]
