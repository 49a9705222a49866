"""Policies with tasks assigned to nodes ahead of time, started there in turn.

The lines decide on starts. For `Assigned` a policy gives the order of assignment, a placer the node.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from schedulers.core.abilities import AssignsAhead, DecidesInCycles, KeepsNodes, OneTaskEach, WantsNodes
from schedulers.core.copies import of_task
from schedulers.core.events import (
    ContainerAdopted,
    ContainerObserved,
    Event,
    Heartbeat,
    LinksSet,
    NodeAdded,
    NodeChanged,
    NodeLost,
    NodeRemoved,
    OfferAsked,
    TaskFound,
    Tick,
)
from schedulers.core.explain import is_wall, show_time
from schedulers.core.live import RUNNING, JobState, NodeState, StageState
from schedulers.core.openings import UNKNOWN_MS, empty
from schedulers.core.placer import Placer
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, Triggers
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector, fits
from schedulers.kit.forecast import Forecast, Rates
from schedulers.kit.lines import Lines, Turn, without_turn
from schedulers.kit.ordered import Sequencing


class Choice(NamedTuple):
    """The node of a task, with start and end (ms)."""

    node: str
    start: float
    end: float
    parent: tuple[int, int] | None = None
    """Stage and task to be copied there first, or None."""
    copy_start: float = 0.0
    """Start of the copy, ms."""
    copy_end: float = 0.0
    """End of the copy, ms."""


class Assigner(Placer):
    """A placer that assigns each task to a node before its start; the task waits in the node's line.

    Tasks are assigned in the policy's order, which must not change by a start (`Ordered.order_is_stable`).
    """

    assigns = True
    #: Whether tasks are assigned as soon as all their parents are; False: once their parents are done.
    ahead = True

    @abstractmethod
    def choose(self, job: JobState, stage: StageState, forecast: Forecast, copies: int) -> Choice | None:
        """The node for a task of the stage, None if no node is large enough. copies: runs per task, 1: no copies."""

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick: for unassigned tasks (a gang, started where there is room)."""
        return nodes[0]

    def around(self, policy: Policy) -> Policy:
        """See Placer.around. The policy is asked for its order alone; its tasks wait in lines of nodes."""
        assert isinstance(policy, Sequencing)
        return Assigned(policy, self)


class Lined(Policy, AssignsAhead, DecidesInCycles, KeepsNodes, OneTaskEach, WantsNodes):
    """A policy with tasks waiting in lines of nodes: each task is assigned to a node as early as facts allow.

    In cycles all facts of an instant are known before anything is assigned. Turns of a job are assigned anew when its
    estimated size changes, all turns when nodes come, change or leave, and turns after a failed task when the failed
    task has a turn again. A subclass says `assign`.
    """

    #: Whether tasks are assigned as soon as all their parents are; False: once their parents are done.
    ahead = True
    #: Whether copies are made as planned; False: only copies still of use at their turn.
    follows = False

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.lines = Lines()
        self.one_node = False  # whether one node is offered at a time
        self._gathers = False  # whether facts are gathered for a cycle
        self._sizes: dict[str, float | None] = {}  # by job, its size when its tasks were assigned
        self._short: dict[str, None] = {}  # jobs that may have tasks to be assigned
        self._stuck: dict[str, None] = {}  # jobs with tasks too large for every node
        self._rates: Rates = {}
        self._glance: Forecast | None = None  # of what runs, for copies that wait
        self._partial: Forecast | None = None  # likewise, of the tasks that are copied alone

    def set_offers(self, offers: str) -> None:
        """How nodes are offered, as in SchedulerConfig; said once, before anything is heard."""
        self._gathers, self.one_node = offers == "cycle", offers == "heartbeat"
        if self.one_node:  # late tasks may go to a node with a later beat, so nodes are offered again
            self.triggers = Triggers(every_offer=True)

    @abstractmethod
    def assign(self, jobs: Sequence[JobState], forecast: Forecast, view: ClusterView) -> Iterable[str]:
        """Give turns to all tasks of the jobs that may have turns; returns jobs with tasks too large for every node."""

    # -- what has happened ------------------------------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """Take out invalid turns, and assign tasks without turns, at once or at the next cycle."""
        if isinstance(event, Heartbeat):
            return
        if isinstance(event, NodeAdded | NodeChanged | NodeRemoved | NodeLost | LinksSet):
            self._begin_anew(event, view)
        elif isinstance(event, ContainerObserved):
            self._make_room(event.node, view)
        elif isinstance(event, ContainerAdopted | TaskFound):
            turn = self.lines.tasks.get((event.job, event.stage), {}).get(event.task)
            if turn is not None:
                self.lines.take(turn)
        for name in view.changed():
            self._look(name, view)
        if self._short and (not self._gathers or isinstance(event, Tick | OfferAsked)):
            self._assign(view)
        self.needs_cycle = bool(self._short)
        if self.lines.copies:
            vain: list[Turn] = []
            self._look_anew()
            self.wanted_nodes = self._copies_come(view, vain)
            if not isinstance(event, Tick):  # which may not stand in the log
                self.lines.take_all(vain)
        else:
            self.wanted_nodes = ()

    def _begin_anew(self, event: Event, view: ClusterView) -> None:
        """Take in a change of nodes: assign all waiting tasks anew, or the tasks in the line of a lost node."""
        self._rates.clear()
        lost = self.lines.at.get(event.node, {}) if isinstance(event, NodeLost) else None
        turns = self.lines.in_turn() if lost is None else list(lost.values())
        self._short |= dict.fromkeys(turn.job for turn in turns) | self._stuck
        self._stuck.clear()
        self.lines.take_all(turns)
        for name in list(self._short):
            self._look(name, view)

    def _make_room(self, name: str, view: ClusterView) -> None:
        """Take in foreign use of a node: tasks forever too large for the rest are assigned anew."""
        self._short |= self._stuck
        self._stuck.clear()
        for turn in list(self.lines.at.get(name, {}).values()):
            if not fits(view.demand(turn.size), empty(view.nodes[name])):
                self.lines.take_all([turn])
                self._look(turn.job, view)

    def _look(self, name: str, view: ClusterView) -> None:
        """Look for tasks of a job without turns. Later turns are taken out: the first of all must wait for nobody."""
        job, lines = view.jobs.get(name), self.lines
        if job is None or job.cancelled:
            lines.take_all(lines.of.get(name, {}).values())
            for of in (self._sizes, self._short, self._stuck):
                of.pop(name, None)
            return
        if job.size_ms != self._sizes.get(name):
            lines.take_all(lines.of.get(name, {}).values())
        short = [stage.index for stage in job.stages if stage.waiting != len(lines.tasks.get((name, stage.index), ()))]
        if not short or not job.admitted:
            return
        behind = dict[int, None]()
        below = [child for index in short for child in job.children[index]] if self.ahead else []
        while below:
            child = below.pop()
            if child not in behind:
                behind[child] = None
                below += job.children[child]
        for child in behind:
            lines.take_all(lines.tasks.get((name, child), {}).values())
        if self.next_stages(job):
            self._short[name] = None
            self._stuck.pop(name, None)

    def _may_be_assigned(self, job: JobState, stage: StageState) -> bool:
        """Whether its tasks may get turns: their parents have them, or are done."""
        if not self.ahead:
            return stage.index in job.open
        above = (job.stages[parent] for parent in job.spec.stages[stage.index].above)
        return all(parent.waiting == len(self.lines.tasks.get((job.id, parent.index), ())) for parent in above)

    # -- assigning --------------------------------------------------------------------------------

    def _assign(self, view: ClusterView) -> None:
        jobs = [job for name in self._short if self.next_stages(job := view.jobs[name])]
        forecast = Forecast(view, self.lines.in_turn(), self._rates) if jobs else None
        if forecast is not None and forecast.nodes:
            for job in jobs:
                self._sizes[job.id] = job.size_ms
                view.recheck_reason(job.id)
            self._stuck |= dict.fromkeys(self.assign(jobs, forecast, view))
        else:
            self._stuck |= {job.id: None for job in jobs}
        self._short.clear()

    def next_stages(self, job: JobState) -> Sequence[StageState]:
        """Stages with tasks to be assigned now, by index."""
        tasks = self.lines.tasks
        return [
            stage
            for stage in job.stages
            if stage.waiting != len(tasks.get((job.id, stage.index), ())) and self._may_be_assigned(job, stage)
        ]

    def assign_stage(self, job: JobState, stage: StageState, placer: Assigner, forecast: Forecast) -> bool:
        """Turns, by the placer, for all tasks of a stage without turns; False if they fit no node."""
        whole = job.is_waiting_gang(stage)
        for task in without_turn(stage, self.lines.tasks.get((job.id, stage.index))):
            if whole:
                forecast.close(self._full_of(job, stage, forecast))
            choice = placer.choose(job, stage, forecast, forecast.copies)
            if choice is None:
                break
            self._give_turn(job, stage, task, choice, forecast)
        else:
            forecast.close(())
            return True
        if whole:
            self.lines.take_all(self.lines.tasks.get((job.id, stage.index), {}).values())
        forecast.close(())
        return False

    def _full_of(self, job: JobState, stage: StageState, forecast: Forecast) -> list[str]:
        """Nodes unable to run a further task of a gang together with the members already in line there."""
        turns = Counter(turn.node for turn in self.lines.tasks.get((job.id, stage.index), {}).values())
        if not self.one_node:
            return [n for n in forecast.column if forecast.at_once(n, stage.demand) <= turns[n]]
        elsewhere = [n for n in forecast.column if turns and not turns[n]]
        return elsewhere or [n for n in forecast.column if forecast.at_once(n, stage.demand) < stage.tasks]

    def _give_turn(self, job: JobState, stage: StageState, task: int, choice: Choice, forecast: Forecast) -> None:
        """Give a task its turn by the choice, behind the turn of the copy made for the task."""
        number, node = self.lines.next, choice.node
        if choice.parent is not None:
            parent, copied = choice.parent
            size, times = job.stages[parent].size, (choice.copy_start, choice.copy_end)
            self._give(Turn(number, job.id, parent, copied, size, node, *times, sake=number + 1), job, forecast)
            number += 1
        after = () if choice.parent is None else (choice.parent,)
        size, times = stage.size, (choice.start, choice.end)
        self._give(Turn(number, job.id, stage.index, task, size, node, *times, after=after), job, forecast)

    def _give(self, turn: Turn, job: JobState, forecast: Forecast) -> None:
        self.lines.add(turn)
        forecast.add(job, turn)

    def append(self, turn: Turn, job: JobState, forecast: Forecast) -> None:
        """Give a turn behind all others, whenever its time will be."""
        forecast.expect(job, turn)
        self.lines.add(turn)

    # -- starting ---------------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Start tasks whose turn has come, node by node; then late tasks, on nodes without a line."""
        if offer.job is not None:
            yield from self._serve_asked(view, offer)
            return
        at = self.lines.at
        names = list(at) if offer.nodes is None else [node.id for node in offer.nodes]
        for name in sorted((name for name in names if name in at), key=lambda name: next(iter(at[name]))):
            if name in at:  # nobody there has started with his gang
                for turn in self._come(view.nodes[name], view):
                    if turn.number in at.get(name, ()):  # it has not started with its gang
                        yield from self._start(turn, view)
        yield from self._relieve(view, offer)
        self._look_anew()
        self.wanted_nodes = self._copies_come(view) if self.lines.copies else ()

    def _start(self, turn: Turn, view: ClusterView, node: str | None = None) -> Suggestions:
        """Suggest a turn's task on its node (or another node); a started task has no turn any more."""
        job = view.jobs[turn.job]
        stage = job.stages[turn.stage]
        if job.is_waiting_gang(stage):
            if all(self._has_come(other, view) for other in self.lines.tasks[job.id, stage.index].values()):
                outcome = yield Suggestion(job.id, stage.index, count=stage.tasks)
                if outcome.placed:
                    self.lines.take_all(self.lines.tasks.get((job.id, stage.index), {}).values())
            return
        copy = bool(turn.sake) and not stage.is_waiting(turn.task)
        outcome = yield Suggestion(job.id, stage.index, node or turn.node, turn.task, copy=copy)
        if outcome.placed:
            self._look_anew()
            self.lines.take(turn)
            own = self.lines.tasks.get((job.id, stage.index), {}).get(turn.task)
            if own is not None:  # its copy has started first
                self.lines.make_copy(own)

    def _has_come(self, turn: Turn, view: ClusterView) -> bool:
        node = view.nodes.get(turn.node)
        return node is not None and any(other is turn for other in self._come(node, view))

    def _come(self, node: NodeState, view: ClusterView, vain: list[Turn] | None = None) -> Iterator[Turn]:
        """Turns of a node's line with tasks able to start now beside the room kept for all earlier turns.

        Turns waiting for room have it kept. Turns waiting for other tasks have kept only the room not freed before
        their expected start. Turns waiting for a shell, or at a limit, have none: such a wait may be long. vain:
        receives useless copies.
        """
        saved: dict[int, None] = {}  # turns for which a copy is yet to start
        left, demands = list(node.free), [view.demand(size) for size in self.lines.sizes.get(node.id, ())]
        ends: list[tuple[float, Vector]] | None = None  # of what runs here, the last in front
        for turn in list(self.lines.at.get(node.id, {}).values()) if not node.draining else ():
            job = view.jobs[turn.job]
            stage = job.stages[turn.stage]
            kept: Sequence[int] = stage.demand
            if stage.parents_left:
                ends = _ends(node, view) if ends is None else ends
                while ends and ends[-1][0] <= turn.start and any(kept):
                    _, freed = ends.pop()
                    kept = [max(0, wanted - amount) for wanted, amount in zip(kept, freed, strict=True)]
                saved[turn.sake] = None
            elif turn.sake and not stage.is_waiting(turn.task):
                if not self._helps(turn, job, stage, node, view):
                    if vain is not None:
                        vain.append(turn)
                    continue
                if not view.admits(stage):
                    continue
                saved[turn.sake] = None
                if fits(stage.demand, left):
                    yield turn
            elif stage.index not in job.open or not view.admits(stage):
                continue
            elif fits(stage.demand, left) and turn.number not in saved and not _is_copied(turn, node, view):
                yield turn
            left = [there - wanted for there, wanted in zip(left, kept, strict=True)]
            if not any(fits(demand, left) for demand in demands):
                return

    # -- copies -----------------------------------------------------------------------------------

    def _copies_come(self, view: ClusterView, vain: list[Turn] | None = None) -> tuple[str, ...]:
        """Nodes with the turn of a copy come; nothing else tells that the copy could start."""
        nodes = {turn.node: None for turn in self.lines.copies.values()}
        come = [turn for name in nodes for turn in self._come(view.nodes[name], view, vain)]
        return tuple(dict.fromkeys(turn.node for turn in come if turn.sake))

    def _helps(self, turn: Turn, job: JobState, stage: StageState, node: NodeState, view: ClusterView) -> bool:
        """Whether a copy would still be sooner than the time to be saved: its task's end, or the way of its output."""
        if not view.allows_copy(job, stage, turn.task, node):
            return False
        if self.follows:
            return True
        forecast = self._runs_of(job, stage, turn.task, view)
        column = forecast.column[node.id]
        end = forecast.now + float(forecast.times(job, stage)[column])
        if turn.sake == turn.number:
            return turn.task not in (stage.outputs or ()) and end < min(
                (at for _, at in forecast.runs(job, stage.index, turn.task)), default=0.0
            )
        child = self.lines.of[job.id].get(turn.sake)
        if child is None:
            return False
        return end < float(forecast.arrive(job, job.stages[child.stage], stage.index, turn.task)[column])

    def _runs_of(self, job: JobState, stage: StageState, task: int, view: ClusterView) -> Forecast:
        """A forecast with all runs of the task, made anew after every fact, a beat among them.

        The end of a running task depends on the task alone, so the forecast holds its runs and nothing else: a copy may
        wait for thousands of beats. The end of a task still waiting for its data depends on everything running before
        the task, so the forecast holds everything.
        """
        runs = of_task(view.containers, job, stage, task)
        if all(run.status == RUNNING for run in runs):
            self._partial = self._partial or Forecast(view, (), self._rates, ())
            self._partial.meet(runs)
            return self._partial
        self._glance = self._glance or Forecast(view, (), self._rates)
        return self._glance

    def _look_anew(self) -> None:
        """Drop the forecasts: a forecast is valid at the instant of its making, and not later."""
        self._glance = self._partial = None

    def _serve_asked(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Answer kube-scheduler on a stage: suggest a task of the stage in the line of an offered node."""
        turns = list(self.lines.tasks.get((offer.job or "", offer.stage or 0), {}).values())
        there = None if offer.nodes is None else {node.id for node in offer.nodes}
        for turn in turns:
            if (there is None or turn.node in there) and self._has_come(turn, view):
                yield from self._start(turn, view)
                return
        if turns and there is not None and all(turn.node not in there for turn in turns):
            outcome = yield Suggestion(turns[0].job, turns[0].stage, task=turns[0].task)
            if outcome.placed:
                self.lines.take(turns[0])

    # -- estimates were wrong ---------------------------------------------------------------------

    def _relieve(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Move late tasks to nodes without a line, if they are expected to end sooner there."""
        nodes = view.with_room() if offer.nodes is None else offer.nodes
        idle = [node for node in nodes if node.id not in self.lines.at]
        late = [turn for turn in self._firsts(view) if turn.start < view.now] if idle else []
        forecast = Forecast(view, (), self._rates) if late else None
        for turn in late:
            assert forecast is not None
            job = view.jobs[turn.job]
            stage = job.stages[turn.stage]
            ends = np.maximum(forecast.free(stage), forecast.inputs(job, stage).all) + forecast.times(job, stage)
            free = [node.id for node in idle if view.fits(stage, node)]
            best = min(free, key=lambda name: float(ends[forecast.column[name]]), default=None)
            if best is not None and ends[forecast.column[best]] < ends[forecast.column[turn.node]]:
                yield from self._start(turn, view, best)

    def _firsts(self, view: ClusterView) -> list[Turn]:
        """The first of each line, if only room keeps the task waiting; the earliest assigned is in front."""
        firsts = []
        for line in self.lines.at.values():
            turn = next(iter(line.values()))
            job = view.jobs[turn.job]
            if turn.stage in job.open and not turn.sake and not job.is_waiting_gang(job.stages[turn.stage]):
                firsts.append(turn)
        return sorted(firsts, key=lambda turn: turn.number)

    def next_change(self, view: ClusterView) -> int | None:
        """Next time at which a task is late while a node has no line; for a task already late, twice its delay.

        Where nodes beat, they are offered again and again anyway.
        """
        if not self._gathers or not self.lines.at or len(self.lines.at) >= len(view.nodes):
            return None
        now = view.now
        times = [2 * now - turn.start if turn.start < now else turn.start for turn in self._firsts(view)]
        return min((max(now, math.floor(at)) + 1 for at in times), default=None)

    # -- telling ----------------------------------------------------------------------------------

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """The line of the job's first task able to start."""
        turns = self.lines.of.get(job.id, {}).values()
        turn = next((turn for turn in turns if turn.stage in job.open and not turn.sake), None)
        if turn is None:
            return None
        at = show_time(round(turn.start)) if is_wall(view.now) else f"{turn.start / 1000:.1f} s"
        return Reason.ASSIGNED, {"node": turn.node, "before": self.lines.before(turn), "at": at}

    def dump(self) -> Any:
        """The lines, and the jobs to be assigned."""
        waiting = [list(self._short), list(self._stuck)]
        return {"lines": self.lines.dump(), "sizes": dict(self._sizes), "waiting": waiting}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self.lines.load(data["lines"])
        self._sizes = dict(data["sizes"])
        self._short, self._stuck = (dict.fromkeys(names) for names in data["waiting"])
        self.needs_cycle = bool(self._short)
        self.wanted_nodes = self._copies_come(view) if self.lines.copies else ()


class Assigned(Lined):
    """A policy asked for its order alone: in the order, a placer assigns the tasks."""

    def __init__(self, order: Sequencing, placer: Assigner) -> None:
        super().__init__(order.params, seed=order.seed)
        self.order, self.placer, self.ahead = order, placer, placer.ahead
        order.turns = self.lines.tasks

    def observe(self, event: Event, view: ClusterView) -> None:
        """See Policy.observe."""
        self.order.observe(event, view)
        super().observe(event, view)

    def assign(self, jobs: Sequence[JobState], forecast: Forecast, view: ClusterView) -> Iterable[str]:
        """See Lined.assign. Always the whole stage next in order by now."""
        contest, impossible = self.order.contest(view), dict[tuple[str, int], None]()

        def enter(job: JobState) -> None:
            stages = [stage for stage in self.next_stages(job) if (job.id, stage.index) not in impossible]
            if stages:
                contest.enter(job, stages)

        for job in jobs:
            enter(job)
        while (chosen := contest.take()) is not None:
            job, stage = chosen
            if not self.assign_stage(job, stage, self.placer, forecast):
                impossible[job.id, stage.index] = None
            enter(job)
        return [name for name, _ in impossible]

    def about(self, job: JobState) -> dict[str, Any]:
        """See Policy.about."""
        return self.order.about(job)

    def dump(self) -> Any:
        """See Lined.dump; and the memory of the order."""
        return {**super().dump(), "order": self.order.dump()}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self.order.load(data["order"], view)
        super().load(data, view)


def _is_copied(turn: Turn, node: NodeState, view: ClusterView) -> bool:
    """Whether a copy of a parent, made for the turn, runs on the turn's node."""
    if not turn.after:
        return False
    there = (view.containers[number] for number in node.containers)
    return any(c.job == turn.job and (c.stage, c.task) in turn.after for c in there)


def _ends(node: NodeState, view: ClusterView) -> list[tuple[float, Vector]]:
    """Expected end of each container on a node, with the room thereby freed; the last in front."""
    ends = []
    for number in node.containers:
        container = view.containers[number]
        lasts = view.task_ms_on(container.job, container.stage, node)
        begun = container.granted if container.started < 0 else container.started
        ends.append((begun + (UNKNOWN_MS / node.spec.speed if lasts is None else lasts), view.demand(container.size)))
    return sorted(ends, reverse=True)
