"""Events of the job's tasks: granted, started, done, copied, lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rm_emulator.results.chapters.diary import Diary, clock, plural
from rm_emulator.results.chapters.losses import Losses, ended_with
from rm_emulator.results.chapters.outages import Outages, Turn
from schedulers.core.copies import COPY
from schedulers.core.decisions import Copy, Decision, Move, Place, Preempt, Reserve, Run
from schedulers.core.events import (
    ClaimRefused,
    ContainerEnded,
    ContainerExpired,
    ContainerStarted,
    Event,
    NodeAdded,
    NodeLost,
    NodeRemoved,
    TaskEnded,
)
from schedulers.core.explain import show_nodes
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import RUNNING, JobState
from schedulers.core.transfers import Parcel, parcels
from schedulers.decentralised.decider import Decentraliser


class TaskAttempt(msgspec.Struct):
    """A task of the job in a container. parcel: the last part of its input to arrive, None with all input present."""

    stage: int
    task: int
    attempt: int
    node: str
    pilot: bool
    started: int | None = None
    copy: bool = False
    parcel: Parcel | None = None

    @property
    def which(self) -> tuple[int, int]:
        """Stage and index of the task."""
        return self.stage, self.task


class Tally:
    """Counts of a stage so far; run times in ms."""

    def __init__(self) -> None:
        self.started = self.ended = self.lost = self.moved = self.total = self.longest = self.last_start = 0
        self.nodes: dict[str, None] = {}


class Tasks:
    """The job's tasks by container, and the counts of each stage. task: (stage, index) of a task told in detail."""

    def __init__(
        self,
        scheduler: Scheduler | Decentraliser,
        state: JobState,
        task: tuple[int, int] | None,
        outages: Outages,
        diary: Diary,
    ) -> None:
        self._scheduler, self._state, self._spec, self._task, self._diary = scheduler, state, state.spec, task, diary
        self._outages = outages
        self.losses = Losses(state.spec, diary)
        self.held: dict[int, TaskAttempt] = {}
        self._tallies = [Tally() for _ in state.spec.stages]
        self._done: set[tuple[int, int]] = set()
        self._refusals = 0
        self._hears: dict[type[Event], Callable[[Any], None]] = {
            ContainerStarted: self._started,
            ContainerEnded: self._ended,
            TaskEnded: self._task_ended,
            ContainerExpired: self._expired,
            ClaimRefused: self._refused,
            NodeLost: self._node_lost,
            NodeRemoved: lambda event: self._note_nodes(
                event.at, f"node {outages.named(event.node)} takes no more tasks"
            ),
            NodeAdded: lambda event: self._note_nodes(event.at, f"node {event.node.id} is there"),
        }

    @property
    def run(self) -> bool:
        """Whether a task runs; copies of finished tasks do not count, nor tasks on dead nodes."""
        return any(
            attempt.started is not None and attempt.which not in self._done and not self._outages.is_dead(attempt.node)
            for attempt in self.held.values()
        )

    @property
    def on_dead_nodes(self) -> list[TaskAttempt]:
        """Attempts that have ended with their node, unheard."""
        return [attempt for attempt in self.held.values() if self._outages.is_dead(attempt.node)]

    def take_up(self) -> None:
        """Take in the containers at the log's begin."""
        for container in self._scheduler.state.containers.values():
            if container.job == self._spec.id:
                started = container.started if container.status == RUNNING else None
                which = container.stage, container.task, container.attempt
                self.held[container.id] = TaskAttempt(*which, container.node, container.pilot, started, container.copy)
        for stage, tally in zip(self._state.stages, self._tallies, strict=True):
            tally.ended = stage.finished
            tally.started = stage.finished + stage.running

    def hear(self, event: Event) -> None:
        """Take in a fact, after the scheduler has heard the fact."""
        self.losses.hear(event)
        hear = self._hears.get(type(event))
        if hear is not None:
            hear(event)

    def decided(self, decision: Decision, at: int) -> None:
        """Take in a decision, after the scheduler has carried out the decision."""
        if isinstance(decision, Place | Run | Move):
            if decision.job == self._spec.id:
                self._granted(decision, at)
            else:
                self.held.pop(decision.container, None)
        elif isinstance(decision, Copy) and decision.job == self._spec.id:
            self._copied(decision, at)
        elif isinstance(decision, Preempt) and decision.rule == COPY:
            return
        elif isinstance(decision, Preempt) and decision.container in self.held:
            attempt = self.held[decision.container]
            cause = f" to make room for {decision.cause}" if decision.cause else ""
            self._diary.note("lost", at, f"{self.called(attempt)} is preempted ({decision.rule}){cause}")
        elif isinstance(decision, Reserve) and decision.job == self._spec.id:
            stage = self._spec.stages[decision.stage].name
            nodes, starts = show_nodes(decision), clock(decision.starts)
            self._diary.note(
                "reserved", at, f"reserved for stage {stage}: {nodes}, where it is expected to start at {starts}"
            )

    def _granted(self, decision: Place | Run | Move, at: int) -> None:
        container = self._scheduler.state.containers.get(decision.container)
        node = container.node if container is not None else ""
        pilot = container is not None and container.pilot
        parcel = self._parcel(decision.stage, node, at)
        attempt = TaskAttempt(decision.stage, decision.task, decision.attempt, node, pilot, parcel=parcel)
        self.held[decision.container] = attempt
        self._tallies[attempt.stage].moved += isinstance(decision, Move)
        if attempt.which == self._task:
            how = "placed" if isinstance(decision, Place) else "given an executor that stays"
            how = "given an executor of another job" if isinstance(decision, Move) else how
            self._diary.note("task", at, f"{self.called(attempt)} is {how} on node {node}")
        if isinstance(decision, Run):
            self._begin(attempt, at)

    def _copied(self, decision: Copy, at: int) -> None:
        parcel = self._parcel(decision.stage, decision.node, at)
        attempt = TaskAttempt(
            decision.stage, decision.task, decision.attempt, decision.node, False, copy=True, parcel=parcel
        )
        self.held[decision.container] = attempt
        done = ", which is done," if attempt.which in self._done else ""
        self._diary.note("copy", at, f"{self.called(attempt)}{done} is copied to node {decision.node}")

    def _parcel(self, stage: int, node: str, at: int) -> Parcel | None:
        """The last input of the stage to arrive on a node, None with all input present."""
        state = self._scheduler.state
        if state.links is None or node not in state.nodes:
            return None
        found = parcels(self._state, self._state.stages[stage], state.nodes[node], state.links, state.nodes)
        return found[0] if found and found[0].at > at else None

    def _started(self, event: ContainerStarted) -> None:
        attempt = self.held.get(event.container)
        if attempt is not None and attempt.started is None:
            self._begin(attempt, event.at)

    def _begin(self, attempt: TaskAttempt, at: int) -> None:
        attempt.started = at
        if attempt.copy:
            return
        tally, stage = self._tallies[attempt.stage], self._spec.stages[attempt.stage]
        if not tally.started:
            pilot = ", a pilot," if attempt.pilot else ""
            self._diary.note(
                "stage", at, f"stage {stage.name} begins: task {attempt.task}{pilot} on node {attempt.node}"
            )
        elif attempt.which == self._task:
            self._diary.note("task", at, f"{self.called(attempt)} starts")
        tally.started += 1
        tally.last_start = at
        tally.nodes[attempt.node] = None

    def _task_ended(self, event: TaskEnded) -> None:
        attempt = self.held.get(event.container)
        ended = event.stage, event.task, event.attempt
        if attempt is not None and (attempt.stage, attempt.task, attempt.attempt) == ended:
            del self.held[event.container]
            self._succeeded(attempt, event.runtime_ms, event.at)

    def _ended(self, event: ContainerEnded) -> None:
        attempt = self.held.pop(event.container, None)
        if attempt is None:
            return
        if event.code == 0:
            self._succeeded(attempt, event.runtime_ms, event.at)
        else:
            self._lost(attempt, event.at, ended_with(event.code), event.runtime_ms)

    def _succeeded(self, attempt: TaskAttempt, runtime_ms: int, at: int) -> None:
        if attempt.which in self._done:
            return
        self._done.add(attempt.which)
        tally, stage = self._tallies[attempt.stage], self._spec.stages[attempt.stage]
        tally.ended += 1
        tally.nodes[attempt.node] = None
        tally.total += runtime_ms
        tally.longest = max(tally.longest, runtime_ms)
        if attempt.which == self._task:
            self._diary.note("task", at, f"{self.called(attempt)} is done after {clock(runtime_ms)}")
        if tally.ended == stage.tasks:
            self._diary.note("stage", at, self._stage_done(stage.name, stage.tasks, tally))

    @staticmethod
    def _stage_done(name: str, tasks: int, tally: Tally) -> str:
        text = f"stage {name} is done"
        if tasks > 1:
            nodes = len(tally.nodes)
            text += (
                f": {tasks} tasks on {nodes} {plural(nodes, 'node', 'nodes')}, the last began at "
                f"{clock(tally.last_start)}; they took {clock(tally.total // tasks)} on average, "
                f"the longest {clock(tally.longest)}"
            )
        if tally.moved:
            text += f"; {tally.moved} {plural(tally.moved, 'executor', 'executors')} came from other jobs"
        if tally.lost:
            text += f"; {tally.lost} {plural(tally.lost, 'attempt', 'attempts')} failed"
        return text

    def _expired(self, event: ContainerExpired) -> None:
        attempt = self.held.get(event.container)
        if attempt is not None and event.container not in self._scheduler.state.containers:
            del self.held[event.container]
            self._lost(attempt, event.at, "was not started in time")

    def _refused(self, event: ClaimRefused) -> None:
        """Note a refusal; all refusals of an instant share a moment."""
        if self.held.pop(event.container, None) is None:
            return
        last = self._diary.moments[-1]
        again = last.kind == "refused" and last.at_ms == event.at
        self._refusals = self._refusals + 1 if again else 1
        if again:
            self._diary.moments.pop()
        claims = f"{self._refusals} {plural(self._refusals, 'claim was', 'claims were')}"
        self._diary.note("refused", event.at, f"{claims} refused: others were faster, or all or nothing was asked for")

    def _node_lost(self, event: NodeLost) -> None:
        for container, attempt in list(self.held.items()):
            if attempt.node == event.node:
                del self.held[container]
                self._lost(attempt, event.at, f"is lost with node {self._outages.named(event.node)}")
        self._note_nodes(event.at, f"node {self._outages.named(event.node)} is lost")

    def turned(self, turn: Turn) -> bool:
        """Tell of a node that is out of hearing from now on, or no longer; False where the job is not concerned."""
        here = [attempt for attempt in self.held.values() if attempt.node == turn.node]
        if not (here or self._state.waiting):
            return False
        text = f"node {turn.node} {turn.text}"
        if turn.silences:
            with_ = self.called(here[0]) if len(here) == 1 else f"{len(here)} tasks"
            text += f"{f' with {with_} of it' if here else ''}, and nobody notices yet"
        self._diary.note("nodes", turn.at, text)
        return True

    def _note_nodes(self, at: int, what: str) -> None:
        """Note that there are other nodes, while tasks of the job wait for room."""
        if self._state.waiting:
            count = sum(not node.draining for node in self._scheduler.state.nodes.values())
            self._diary.note("nodes", at, f"{what}: {count} {plural(count, 'node takes', 'nodes take')} tasks")

    def _lost(self, attempt: TaskAttempt, at: int, why: str, ran_ms: int = 0) -> None:
        """Tell of an attempt that ended early. ran_ms: its run time, where the end told of it."""
        if attempt.which in self._done:
            return
        others = [each for each in self.held.values() if each.which == attempt.which]
        if others or attempt.copy:
            self._diary.note("lost", at, f"{self.called(attempt)} {why}; another copy of it goes on")
            return
        self._tallies[attempt.stage].lost += 1
        if attempt.started is not None:
            self._tallies[attempt.stage].started -= 1
        ran = None if attempt.started is None else ran_ms or self._outages.ran_until(attempt.node, at) - attempt.started
        who, again, apart = self.called(attempt), not self._state.cancelled, attempt.which == self._task
        self.losses.ended(attempt.stage, who, why, at, ran, again=again, apart=apart)

    def called(self, attempt: TaskAttempt) -> str:
        """Name of an attempt in the story."""
        name = f"task {self._spec.stages[attempt.stage].name}/{attempt.task}"
        if attempt.pilot:
            name += " (a pilot)"
        return name + (f", attempt {attempt.attempt + 1}," if attempt.attempt else "")
