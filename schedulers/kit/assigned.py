"""Policies with tasks assigned to nodes ahead of time, started there in that order.

The queues decide on starts. For `Assigned` a policy gives the order of assignment, a placer the node.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
    NodesRefused,
    OfferAsked,
    TaskFound,
    Tick,
)
from schedulers.core.explain import is_wall, show_time
from schedulers.core.live import RUNNING, JobState, NodeState, StageState
from schedulers.core.old_names import OldName, TakesOldNames, old_classes
from schedulers.core.openings import UNKNOWN_MS, empty
from schedulers.core.placer import Placer
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, Triggers
from schedulers.core.reasons import Reason
from schedulers.core.resources import Vector
from schedulers.core.vectors import fits
from schedulers.kit.asked_copies import AskedCopies
from schedulers.kit.forecast import Forecast, Rates
from schedulers.kit.node_queues import NodeQueues, QueuedTask, unqueued_tasks
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


class Assigner(TakesOldNames, Placer):
    """A placer that assigns each task to a node before its start; the task waits in the node's queue.

    Tasks are assigned in the policy's order, which must not change by a start (`Ordered.order_is_stable`).
    """

    assigns = True
    #: Whether tasks are assigned as soon as all their parents are; False: once their parents are done.
    assigns_early = True
    ahead = OldName("assigns_early")

    @abstractmethod
    def choose(self, job: JobState, stage: StageState, forecast: Forecast, copies: int) -> Choice | None:
        """The node for a task of the stage, None if no node is large enough. copies: runs per task, 1: no copies."""

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick: for unassigned tasks (a gang, started where there is room)."""
        return nodes[0]

    def around(self, policy: Policy) -> Policy:
        """See Placer.around. The policy is asked for its order alone; its tasks wait in queues of nodes."""
        assert isinstance(policy, Sequencing)
        return Assigned(policy, self)


class AssigningPolicy(Policy, AssignsAhead, DecidesInCycles, KeepsNodes, OneTaskEach, WantsNodes):
    """A policy with tasks waiting in queues of nodes: each task is assigned to a node as early as facts allow.

    In cycles all facts of an instant are known before anything is assigned. Tasks of a job are assigned anew when its
    estimated size changes, all tasks when nodes come, change or leave, and tasks behind a failed task when the failed
    task is in a queue again. A subclass says `assign`.
    """

    #: Whether tasks are assigned as soon as all their parents are; False: once their parents are done.
    assigns_early = True
    #: Whether copies are made as planned; False: only copies still of use when they could start.
    copies_as_planned = False
    ahead = OldName("assigns_early")
    follows = OldName("copies_as_planned")
    lines = OldName("node_queues")

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self.node_queues = NodeQueues()
        self.one_node = False  # whether one node is offered at a time
        self._in_cycles = False  # whether facts are gathered for a cycle
        self._sizes: dict[str, float | None] = {}  # by job, its size when its tasks were assigned
        self._unassigned: dict[str, None] = {}  # jobs that may have tasks to be assigned
        self._too_large: dict[str, None] = {}  # jobs with tasks too large for every node
        self._asked = AskedCopies()
        self._rates: Rates = {}
        self._forecast_of_all: Forecast | None = None  # of what runs, for copies that wait
        self._forecast_of_copied: Forecast | None = None  # likewise, of the tasks that are copied alone

    def set_offers(self, offers: str) -> None:
        """How nodes are offered, as in SchedulerConfig; said once, before anything is heard."""
        self._in_cycles, self.one_node = offers == "cycle", offers == "heartbeat"
        if self.one_node:  # late tasks may go to a node with a later beat, so nodes are offered again
            self.triggers = Triggers(every_offer=True)

    @abstractmethod
    def assign(self, jobs: Sequence[JobState], forecast: Forecast, view: ClusterView) -> Iterable[str]:
        """Queue all tasks of the jobs that may be assigned; returns jobs with tasks too large for every node."""

    # -- what has happened ------------------------------------------------------------------------

    def observe(self, event: Event, view: ClusterView) -> None:
        """Remove invalid entries, and assign tasks that are in no queue, at once or at the next cycle."""
        if isinstance(event, Heartbeat):
            return
        if isinstance(event, NodeAdded | NodeChanged | NodeRemoved | NodeLost | LinksSet):
            self._assign_anew(event, view)
        elif isinstance(event, ContainerObserved):
            self._hear_foreign_use(event.node, view)
        elif isinstance(event, ContainerAdopted | TaskFound):
            entry = self.node_queues.by_stage.get((event.job, event.stage), {}).get(event.task)
            if entry is not None:
                self.node_queues.remove(entry)
        elif isinstance(event, NodesRefused):
            self.node_queues.remove_all(self.node_queues.by_job.get(event.job, {}).values())
        self._asked.observe(event)
        for name in _changed(view):
            self._update_job(name, view)
        if self._unassigned and (not self._in_cycles or isinstance(event, Tick | OfferAsked)):
            self._assign(view)
        self.needs_cycle = bool(self._unassigned)
        if self.node_queues.copies:
            vain: list[QueuedTask] = []
            self._drop_forecasts()
            self.wanted_nodes = self._nodes_of_ready_copies(view, vain)
            if not isinstance(event, Tick):  # which may not stand in the log
                self.node_queues.remove_all(vain)
        else:
            self.wanted_nodes = ()

    def _assign_anew(self, event: Event, view: ClusterView) -> None:
        """Take in a change of nodes: assign all waiting tasks anew, or the tasks in the queue of a lost node."""
        self._rates.clear()
        lost = self.node_queues.by_node.get(event.node, {}) if isinstance(event, NodeLost) else None
        entries = self.node_queues.in_order() if lost is None else list(lost.values())
        self._unassigned |= dict.fromkeys(entry.job for entry in entries) | self._too_large
        self._too_large.clear()
        self.node_queues.remove_all(entries)
        for name in list(self._unassigned):
            self._update_job(name, view)

    def _hear_foreign_use(self, name: str, view: ClusterView) -> None:
        """Take in foreign use of a node: tasks forever too large for the rest are assigned anew."""
        self._unassigned |= self._too_large
        self._too_large.clear()
        for entry in list(self.node_queues.by_node.get(name, {}).values()):
            if not fits(view.demand(entry.size), empty(view.nodes[name])):
                self.node_queues.remove_all([entry])
                self._update_job(entry.job, view)

    def _update_job(self, name: str, view: ClusterView) -> None:
        """Look for tasks of a job in no queue. Later entries are removed: the first of all must wait for nobody."""
        job, queues = view.jobs.get(name), self.node_queues
        if job is None or job.cancelled:
            queues.remove_all(queues.by_job.get(name, {}).values())
            for of in (self._sizes, self._unassigned, self._too_large):
                of.pop(name, None)
            return
        if job.size_ms != self._sizes.get(name):
            queues.remove_all(queues.by_job.get(name, {}).values())
        short = [stage.index for stage in job.stages if not queues.holds_all(name, stage)]
        if not short or not job.admitted:
            return
        behind = dict[int, None]()
        below = [child for index in short for child in job.children[index]] if self.assigns_early else []
        while below:
            child = below.pop()
            if child not in behind:
                behind[child] = None
                below += job.children[child]
        for child in behind:
            queues.remove_all(queues.by_stage.get((name, child), {}).values())
        if self.next_stages(job):
            self._unassigned[name] = None
            self._too_large.pop(name, None)

    def _may_be_assigned(self, job: JobState, stage: StageState) -> bool:
        """Whether its tasks may be assigned: their parents are in queues, or done."""
        if not self.assigns_early:
            return stage.index in job.open
        above = (job.stages[parent] for parent in job.spec.stages[stage.index].above)
        # A parent's task that is kept back would come behind its children, and never have a turn.
        return all(not parent.kept_back and self.node_queues.holds_all(job.id, parent) for parent in above)

    # -- assigning --------------------------------------------------------------------------------

    def _assign(self, view: ClusterView) -> None:
        jobs = [job for name in self._unassigned if self.next_stages(job := view.jobs[name])]
        forecast = Forecast(view, self.node_queues.in_order(), self._rates) if jobs else None
        if forecast is not None and forecast.nodes:
            for job in jobs:
                self._sizes[job.id] = job.size_ms
                view.recheck_reason(job.id)
            self._too_large |= dict.fromkeys(self.assign(jobs, forecast, view))
        else:
            self._too_large |= {job.id: None for job in jobs}
        self._unassigned.clear()

    def next_stages(self, job: JobState) -> Sequence[StageState]:
        """Stages with tasks to be assigned now, by index."""
        queues = self.node_queues
        short = (stage for stage in job.stages if not queues.holds_all(job.id, stage))
        return [stage for stage in short if self._may_be_assigned(job, stage)]

    def assign_stage(self, job: JobState, stage: StageState, placer: Assigner, forecast: Forecast) -> bool:
        """Assign, by the placer, all tasks of a stage that are in no queue; False if they fit no node."""
        whole = job.is_waiting_gang(stage)
        for task in unqueued_tasks(stage, self.node_queues.by_stage.get((job.id, stage.index))):
            if whole:
                forecast.close(self._full_nodes(job, stage, forecast))
            choice = placer.choose(job, stage, forecast, forecast.copies)
            if choice is None:
                break
            self._queue_choice(job, stage, task, choice, forecast)
        else:
            forecast.close(())
            return True
        if whole:
            self.node_queues.remove_all(self.node_queues.by_stage.get((job.id, stage.index), {}).values())
        forecast.close(())
        return False

    def _full_nodes(self, job: JobState, stage: StageState, forecast: Forecast) -> list[str]:
        """Nodes unable to run a further task of a gang together with the members already in the queue there."""
        entries = Counter(entry.node for entry in self.node_queues.by_stage.get((job.id, stage.index), {}).values())
        if not self.one_node:
            return [n for n in forecast.column if forecast.count_at_once(n, stage.demand) <= entries[n]]
        elsewhere = [n for n in forecast.column if entries and not entries[n]]
        return elsewhere or [n for n in forecast.column if forecast.count_at_once(n, stage.demand) < stage.tasks]

    def _queue_choice(self, job: JobState, stage: StageState, task: int, choice: Choice, forecast: Forecast) -> None:
        """Put a task into the queue of the chosen node, behind the copy made for the task."""
        number, node = self.node_queues.next_number, choice.node
        if choice.parent is not None:
            parent, copied = choice.parent
            size, times = job.stages[parent].size, (choice.copy_start, choice.copy_end)
            copy = QueuedTask(number, job.id, parent, copied, size, node, *times, copy_for=number + 1)
            self._queue(copy, job, forecast)
            number += 1
        after = () if choice.parent is None else (choice.parent,)
        size, times = stage.size, (choice.start, choice.end)
        self._queue(
            QueuedTask(number, job.id, stage.index, task, size, node, *times, copied_parents=after), job, forecast
        )

    def _queue(self, entry: QueuedTask, job: JobState, forecast: Forecast) -> None:
        self.node_queues.add(entry)
        forecast.add(job, entry)

    def append(self, entry: QueuedTask, job: JobState, forecast: Forecast) -> None:
        """Append an entry behind all others, whenever its time will be."""
        forecast.add_last(job, entry)
        self.node_queues.add(entry)

    # -- starting ---------------------------------------------------------------------------------

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Start queued tasks that are ready, node by node; then late tasks, on nodes without a queue."""
        if offer.job is not None:
            yield from self._serve_asked(view, offer)
            return
        at = self.node_queues.by_node
        names = list(at) if offer.nodes is None else [node.id for node in offer.nodes]
        for name in sorted((name for name in names if name in at), key=lambda name: next(iter(at[name]))):
            if name in at:  # nobody there has started with his gang
                for entry in self._ready_tasks(view.nodes[name], view):
                    if entry.number in at.get(name, ()):  # it has not started with its gang
                        yield from self._start(entry, view)
        yield from self._start_late_tasks(view, offer)
        yield from self._asked.suggest(view)
        self._drop_forecasts()
        self.wanted_nodes = self._nodes_of_ready_copies(view) if self.node_queues.copies else ()

    def _start(self, entry: QueuedTask, view: ClusterView, node: str | None = None) -> Suggestions:
        """Suggest a queued task on its node (or another node); a started task leaves its queue."""
        job = view.jobs[entry.job]
        stage = job.stages[entry.stage]
        if job.is_waiting_gang(stage):
            if all(self._is_ready(other, view) for other in self.node_queues.by_stage[job.id, stage.index].values()):
                outcome = yield Suggestion(job.id, stage.index, count=stage.tasks)
                if outcome.placed:
                    self.node_queues.remove_all(self.node_queues.by_stage.get((job.id, stage.index), {}).values())
            return
        copy = bool(entry.copy_for) and not stage.is_waiting(entry.task)
        outcome = yield Suggestion(job.id, stage.index, node or entry.node, entry.task, copy=copy)
        if outcome.placed:
            self._drop_forecasts()
            self.node_queues.remove(entry)
            own = self.node_queues.by_stage.get((job.id, stage.index), {}).get(entry.task)
            if own is not None:  # its copy has started first
                self.node_queues.make_copy(own)

    def _is_ready(self, entry: QueuedTask, view: ClusterView) -> bool:
        node = view.nodes.get(entry.node)
        return node is not None and any(other is entry for other in self._ready_tasks(node, view))

    def _ready_tasks(
        self, node: NodeState, view: ClusterView, useless: list[QueuedTask] | None = None
    ) -> Iterator[QueuedTask]:
        """Entries of a node's queue with tasks able to start now beside the room kept for all earlier entries.

        Entries waiting for room have it kept. Entries waiting for other tasks have kept only the room not freed before
        their expected start. Entries waiting for a shell, or at a limit, have none: such a wait may be long. vain:
        receives useless copies.
        """
        saved: dict[int, None] = {}  # entries for which a copy is yet to start
        left, demands = list(node.free), [view.demand(size) for size in self.node_queues.size_counts.get(node.id, ())]
        ends: list[tuple[float, Vector]] | None = None  # of what runs here, the last in front
        for entry in list(self.node_queues.by_node.get(node.id, {}).values()) if not node.draining else ():
            job = view.jobs[entry.job]
            stage = job.stages[entry.stage]
            kept: Sequence[int] = stage.demand
            if stage.parents_left and not _waits_for_master(job):
                ends = _ends(node, view) if ends is None else ends
                while ends and ends[-1][0] <= entry.start and any(kept):
                    _, freed = ends.pop()
                    kept = [max(0, wanted - amount) for wanted, amount in zip(kept, freed, strict=True)]
                saved[entry.copy_for] = None
            elif entry.copy_for and not stage.is_waiting(entry.task):
                if not self._is_useful(entry, job, stage, node, view):
                    if useless is not None:
                        useless.append(entry)
                    continue
                if not view.admits(stage):
                    continue
                saved[entry.copy_for] = None
                if fits(stage.demand, left):
                    yield entry
            elif stage.index not in job.open or not view.admits(stage):
                continue
            elif fits(stage.demand, left) and entry.number not in saved and not _copy_runs(entry, node, view):
                yield entry
            left = [there - wanted for there, wanted in zip(left, kept, strict=True)]
            if not any(fits(demand, left) for demand in demands):
                return

    # -- copies -----------------------------------------------------------------------------------

    def _nodes_of_ready_copies(self, view: ClusterView, useless: list[QueuedTask] | None = None) -> tuple[str, ...]:
        """Nodes with a copy ready to start; nothing else tells that the copy could start."""
        nodes = {entry.node: None for entry in self.node_queues.copies.values()}
        come = [entry for name in nodes for entry in self._ready_tasks(view.nodes[name], view, useless)]
        return tuple(dict.fromkeys(entry.node for entry in come if entry.copy_for))

    def _is_useful(
        self, entry: QueuedTask, job: JobState, stage: StageState, node: NodeState, view: ClusterView
    ) -> bool:
        """Whether a copy would still be sooner than the time to be saved: its task's end, or the way of its output."""
        if not view.allows_copy(job, stage, entry.task, node):
            return False
        if self.copies_as_planned:
            return True
        forecast = self._forecast_of(job, stage, entry.task, view)
        column = forecast.column[node.id]
        end = forecast.now + float(forecast.times(job, stage)[column])
        if entry.copy_for == entry.number:
            return entry.task not in (stage.outputs or ()) and end < min(
                (at for _, at in forecast.runs(job, stage.index, entry.task)), default=0.0
            )
        child = self.node_queues.by_job[job.id].get(entry.copy_for)
        if child is None:
            return False
        return end < float(forecast.arrive(job, job.stages[child.stage], stage.index, entry.task)[column])

    def _forecast_of(self, job: JobState, stage: StageState, task: int, view: ClusterView) -> Forecast:
        """A forecast with all runs of the task, made anew after every fact, a beat among them.

        The end of a running task depends on the task alone, so the forecast holds its runs and nothing else: a copy may
        wait for thousands of beats. The end of a task still waiting for its data depends on everything running before
        the task, so the forecast holds everything.
        """
        runs = of_task(view.containers, job, stage, task)
        if all(run.status == RUNNING for run in runs):
            self._forecast_of_copied = self._forecast_of_copied or Forecast(view, (), self._rates, ())
            self._forecast_of_copied.add_containers(runs)
            return self._forecast_of_copied
        self._forecast_of_all = self._forecast_of_all or Forecast(view, (), self._rates)
        return self._forecast_of_all

    def _drop_forecasts(self) -> None:
        """Drop the forecasts: a forecast is valid at the instant of its making, and not later."""
        self._forecast_of_all = self._forecast_of_copied = None

    def _serve_asked(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Answer kube-scheduler on a stage: suggest a task of the stage in the queue of an offered node."""
        entries = list(self.node_queues.by_stage.get((offer.job or "", offer.stage or 0), {}).values())
        there = None if offer.nodes is None else {node.id for node in offer.nodes}
        for entry in entries:
            if (there is None or entry.node in there) and self._is_ready(entry, view):
                yield from self._start(entry, view)
                return
        if entries and there is not None and all(entry.node not in there for entry in entries):
            outcome = yield Suggestion(entries[0].job, entries[0].stage, task=entries[0].task)
            if outcome.placed:
                self.node_queues.remove(entries[0])

    # -- estimates were wrong ---------------------------------------------------------------------

    def _start_late_tasks(self, view: ClusterView, offer: Offer) -> Suggestions:
        """Move late tasks to nodes without a queue, if they are expected to end sooner there."""
        nodes = view.with_room() if offer.nodes is None else offer.nodes
        idle = [node for node in nodes if node.id not in self.node_queues.by_node]
        late = [entry for entry in self._first_of_each_queue(view) if entry.start < view.now] if idle else []
        forecast = Forecast(view, (), self._rates) if late else None
        for entry in late:
            assert forecast is not None
            job = view.jobs[entry.job]
            stage = job.stages[entry.stage]
            ends = np.maximum(forecast.free(stage), forecast.inputs(job, stage).all) + forecast.times(job, stage)
            free = [node.id for node in idle if view.fits(stage, node)]
            best = min(free, key=lambda name: float(ends[forecast.column[name]]), default=None)
            if best is not None and ends[forecast.column[best]] < ends[forecast.column[entry.node]]:
                yield from self._start(entry, view, best)

    def _first_of_each_queue(self, view: ClusterView) -> list[QueuedTask]:
        """The first of each queue, if only room keeps the task waiting; the earliest assigned is in front."""
        firsts = []
        for queue in self.node_queues.by_node.values():
            entry = next(iter(queue.values()))
            job = view.jobs[entry.job]
            if entry.stage in job.open and not entry.copy_for and not job.is_waiting_gang(job.stages[entry.stage]):
                firsts.append(entry)
        return sorted(firsts, key=lambda entry: entry.number)

    def next_change(self, view: ClusterView) -> int | None:
        """Next time at which a task is late while a node has no queue; for a task already late, twice its delay.

        Where nodes beat, they are offered again and again anyway.
        """
        if not self._in_cycles or not self.node_queues.by_node or len(self.node_queues.by_node) >= len(view.nodes):
            return None
        now = view.now
        starts = (entry.start for entry in self._first_of_each_queue(view))
        times = (2 * now - start if start < now else start for start in starts)
        return min((max(now, math.floor(at)) + 1 for at in times), default=None)

    # -- telling ----------------------------------------------------------------------------------

    def why(self, job: JobState, view: ClusterView) -> tuple[Reason, dict[str, object]] | None:
        """The queue of the job's first task able to start."""
        entries = self.node_queues.by_job.get(job.id, {}).values()
        entry = next((entry for entry in entries if entry.stage in job.open and not entry.copy_for), None)
        if entry is None:
            return None
        at = show_time(round(entry.start)) if is_wall(view.now) else f"{entry.start / 1000:.1f} s"
        return Reason.ASSIGNED, {"node": entry.node, "before": self.node_queues.count_before(entry), "at": at}

    def dump(self) -> Any:
        """The queues, and the jobs to be assigned."""
        waiting = [list(self._unassigned), list(self._too_large)]
        return {"lines": self.node_queues.dump(), "sizes": dict(self._sizes), "waiting": waiting}

    def load(self, data: Any, view: ClusterView) -> None:
        """See Policy.load."""
        self.node_queues.load(data["lines"])
        self._sizes = dict(data["sizes"])
        self._unassigned, self._too_large = (dict.fromkeys(names) for names in data["waiting"])
        self._asked.load(view)
        self.needs_cycle = bool(self._unassigned)
        self.wanted_nodes = self._nodes_of_ready_copies(view) if self.node_queues.copies else ()


class Assigned(AssigningPolicy):
    """A policy asked for its order alone: in the order, a placer assigns the tasks."""

    def __init__(self, order: Sequencing, placer: Assigner) -> None:
        super().__init__(order.params, seed=order.seed)
        self.order, self.placer, self.assigns_early = order, placer, placer.assigns_early
        order.queued_tasks = self.node_queues.by_stage

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


def _changed(view: ClusterView) -> list[str]:
    """Jobs that have changed, in order of submission: which changes are new depends on ticks that stand in no log."""
    jobs = view.jobs
    return sorted(view.changed(), key=lambda name: jobs[name].seq if name in jobs else -1)


def _waits_for_master(job: JobState) -> bool:
    """Whether the job's application master, its last stage, has yet to start."""
    # The master may stand behind the tasks of its job: room kept for them would be kept for ever.
    return job.spec.stages[-1].master and job.stages[-1].waiting > 0


def _copy_runs(entry: QueuedTask, node: NodeState, view: ClusterView) -> bool:
    """Whether a copy of a parent, made for the entry, runs on the entry's node."""
    if not entry.copied_parents:
        return False
    there = (view.containers[number] for number in node.containers)
    return any(c.job == entry.job and (c.stage, c.task) in entry.copied_parents for c in there)


def _ends(node: NodeState, view: ClusterView) -> list[tuple[float, Vector]]:
    """Expected end of each container on a node, with the room thereby freed; the last in front."""
    ends = []
    for number in node.containers:
        container = view.containers[number]
        lasts = view.task_ms_on(container.job, container.stage, node)
        begun = container.granted if container.started < 0 else container.started
        ends.append((begun + (UNKNOWN_MS / node.spec.speed if lasts is None else lasts), view.demand(container.size)))
    return sorted(ends, reverse=True)


if not TYPE_CHECKING:  # a type checker would take every name for an attribute of this module
    __getattr__ = old_classes(__name__, {"Lined": "AssigningPolicy"})
