"""Containers longer than their tasks: an execution model of its own, as in Spark (Decima, section 6.2)."""

from __future__ import annotations

from rm_emulator.engine import containers
from rm_emulator.engine.calendar import START
from rm_emulator.engine.containers import Container
from rm_emulator.engine.features.feature import Feature
from rm_emulator.engine.profile import Engine
from schedulers.core.decisions import Commit, Move, Release, Run
from schedulers.core.events import ContainerStarted, TaskEnded


class KeptExecutors(Feature):
    """Executors kept by a job between tasks, and the decisions about executors."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        settings = engine.config.executors
        assert settings is not None
        self._moving_ms = settings.moving_ms
        self._containers, self._held = engine.containers, engine.control.containers
        engine.actions |= {Run: self._run, Move: self._move, Commit: self._commit, Release: self._release}

    @classmethod
    def is_in(cls, engine: Engine) -> bool:
        """Whether the cluster keeps executors."""
        return engine.config.executors is not None

    def granted(self, container: Container, at: int) -> int:
        """Add the time to take up an executor, new or from another job."""
        return at + self._moving_ms

    def ended(self, container: Container) -> bool:
        """Report a finished task; the executor may go on with the next task at once."""
        engine, job, ran = self.engine, container.master, container.runtime
        # Read before `count`, and before the decisions: a `Run` writes the next task into the same container.
        number, stage, task, attempt = container.container, container.stage, container.task, container.attempt
        engine.count(container)
        if container.code:
            engine.tell_end(container)  # a failed task takes its executor along
            return True
        ended = TaskEnded(engine.calendar.now, number, job.name, stage, task, attempt, ran)
        decisions = engine.tell_completion(ended)
        if decisions and type(decisions[0]) is Run:
            return False  # the executor went on with the same stage: nothing else has changed
        engine.profile.finish_if_over(job)
        return True

    def _run(self, decision: Run) -> None:
        container, now = self._containers[decision.container], self.engine.calendar.now
        if container.started_ms is None or now > container.started_ms + container.runtime:
            container.wave = "fresh"  # after a wait an executor counts as new (decima-sim: detach_node)
        else:
            container.wave = "rest" if container.stage == decision.stage else "first"
        container.stage, container.task, container.attempt = decision.stage, decision.task, decision.attempt
        container.granted_ms, container.pilot = now, self._held[decision.container].pilot
        self.engine.start(container, now)

    def _move(self, decision: Move) -> None:
        """Grant an executor a task of another stage, or job."""
        container, engine = self._containers[decision.container], self.engine
        container.wave = "fresh"
        container.take(decision, engine.jobs[decision.job], engine.calendar.now, self._held[decision.container].pilot)
        engine.launch(container)

    def _commit(self, decision: Commit) -> None:
        """Send an executor to a job with tasks to come."""
        engine, number = self.engine, decision.container
        # With a node the executor is new, without a node the executor comes from another job.
        if decision.node:
            engine.make_container(number, decision.node, decision.job)
        container = self._containers[number]
        container.master, container.job = engine.jobs[decision.job], decision.job
        container.stage, container.started_ms = -1, None
        # The way is drawn for the stage of the decision, although the executor has no task of the stage yet.
        way = containers.new_container(number, container.node, container.index, container.master)
        way.stage, way.attempt = decision.stage, number
        engine.calendar.at(engine.start_of(way, engine.calendar.now), START, number, self._arrived, container)

    def _arrived(self, container: Container) -> None:
        engine, number = self.engine, container.container
        if self._containers.get(number) is container:
            engine.tell(ContainerStarted(engine.calendar.now, number))
            engine.carry_on()

    def _release(self, decision: Release) -> None:
        del self._containers[decision.container]
