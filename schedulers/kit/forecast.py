"""Expectations by estimates: times of room on nodes from now on, and arrival times of a task's data."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from schedulers.core.live import RUNNING
from schedulers.core.openings import UNKNOWN_MS, empty
from schedulers.core.transfers import rate_between, transfer_ms
from schedulers.core.vectors import times_in

if TYPE_CHECKING:
    from schedulers.core.live import ContainerState, JobState, NodeState, StageState
    from schedulers.core.model import Edge
    from schedulers.core.policy import ClusterView
    from schedulers.core.resources import Vector
    from schedulers.kit.node_queues import QueuedTask

Floats: TypeAlias = npt.NDArray[np.float64]
#: By (node, is gone): the distinct rates from the node, and the index among them for each target node.
Rates: TypeAlias = dict[tuple[str, bool], tuple[list[int | None], npt.NDArray[np.intp]]]


class InputTimes:
    """Arrival times of the input of a stage's tasks, per node: the same for all tasks of the stage.

    floor: earliest start of the stage on any node. rows: (stage, task) of each parent's task with data for the stage.
    arrive: [rows, nodes], arrival of a row's data, from the earliest run.
    """

    def __init__(self, floor: float, nodes: int, rows: dict[tuple[int, int], int], arrive: Floats) -> None:
        self.floor, self.rows, self._arrivals = floor, rows, arrive
        self._keys = list(rows)
        self._columns = np.arange(nodes)
        self.all = np.full(nodes, floor)
        """[nodes], arrival of all of it."""
        self._last: tuple[npt.NDArray[np.intp], Floats] | None = None
        if rows:
            np.maximum(self.all, arrive.max(axis=0), out=self.all)

    def add_run(self, stage: int, task: int, arrive: Floats) -> None:
        """Take in another run of a parent's task: its output is there at `arrive`, at the latest."""
        row = self._arrivals[self.rows[stage, task]]
        np.minimum(row, arrive, out=row)
        self.all = np.maximum(self.floor, self._arrivals.max(axis=0))
        self._last = None

    @property
    def last(self) -> tuple[npt.NDArray[np.intp], Floats]:
        """[nodes]: the row to arrive last (the lowest of equals), and the arrival of all other rows."""
        if self._last is None:
            rows = self._arrivals.argmax(axis=0)
            others = self._arrivals.copy()
            others[rows, self._columns] = self.floor
            self._last = rows, np.maximum(self.floor, others.max(axis=0))
        return self._last

    def parent(self, row: int) -> tuple[int, int]:
        """Stage and task of a row."""
        return self._keys[row]


class Forecast:
    """Made for a round of assignments, from the state and the node queues; columns stand for nodes in order of arrival.

    A container running longer than expected is expected to run on for as long again as its delay. rates: kept by the
    owner of forecasts, for the next forecast as long as nodes and links are the same. containers: initial containers,
    all by default; `add_containers` adds further containers.
    """

    def __init__(
        self,
        view: ClusterView,
        entries: Iterable[QueuedTask],
        rates: Rates,
        containers: Iterable[ContainerState] | None = None,
    ) -> None:
        self._view, self.now = view, float(view.now)
        self.copies = view.copies
        """How often a task may run, 1: no copies."""
        self.nodes: list[NodeState] = [node for node in view.nodes.values() if not node.draining]
        self.column = {node.id: column for column, node in enumerate(self.nodes)}
        self._rooms = [empty(node) for node in self.nodes]
        #: Per node the changes of held room: (time, 0 for an end or 1 for a start, demand), in order.
        self._room_changes: list[list[tuple[float, int, Vector]]] = [[] for _ in self.nodes]
        self._free: dict[int, Floats] = {}
        self._times: dict[tuple[str, int], Floats] = {}
        self._runs: dict[tuple[str, int], dict[int, list[tuple[str, float]]]] = {}
        self._inputs: dict[tuple[str, int], InputTimes] = {}
        self._closed: set[int] = set()
        self._speeds = np.array([node.spec.speed for node in self.nodes])
        self._rates = rates
        self._transfers: dict[tuple[int, int, str], Floats] = {}
        self._added: set[int] = set()
        self.add_containers(view.containers.values() if containers is None else containers)
        for entry in entries:
            self.add_last(view.jobs[entry.job], entry)

    # -- what is there ----------------------------------------------------------------------------

    def add_containers(self, containers: Iterable[ContainerState]) -> None:
        """Take the containers' room until their expected end; containers taken in before stay as they are."""
        for container in containers:
            if container.id not in self._added:
                self._added.add(container.id)
                self._add_container(container)

    def _add_container(self, container: ContainerState) -> None:
        """Take a container's room until its expected end."""
        job, column = self._view.jobs.get(container.job), self.column.get(container.node)
        end = self.end_of(container)
        if column is not None:
            self._take_room(column, self.now, end, self._view.demand(container.size))
        if job is not None and container.stage >= 0:
            self._add_run(job, container.stage, container.task, container.node, end)

    def end_of(self, container: ContainerState) -> float:
        """When a container is expected to end."""
        job, column = self._view.jobs.get(container.job), self.column.get(container.node)
        if job is None or column is None or container.stage < 0:
            return self.now
        stage = job.stages[container.stage]
        lasts = float(self.times(job, stage)[column])
        if container.status == RUNNING:
            end = container.started + lasts
            return end if end >= self.now else 2 * self.now - end
        return max(self.now, float(self.inputs(job, stage).all[column])) + lasts

    def add_last(self, job: JobState, entry: QueuedTask) -> None:
        """Place a queued task behind everything present, and set its start and end."""
        stage, column = job.stages[entry.stage], self.column[entry.node]
        start = max(float(self.free(stage)[column]), float(self.inputs(job, stage).all[column]))
        entry.start, entry.end = start, start + float(self.times(job, stage)[column])
        self.add(job, entry)

    def add(self, job: JobState, entry: QueuedTask) -> None:
        """Take in a task to run on a node from `start` to `end`, behind everything present."""
        column = self.column[entry.node]
        self._take_room(column, entry.start, entry.end, job.stages[entry.stage].demand)
        for size, free in self._free.items():
            free[column] = self._free_on(column, size)
        self._add_run(job, entry.stage, entry.task, entry.node, entry.end)

    def _take_room(self, column: int, start: float, end: float, demand: Vector) -> None:
        insort(self._room_changes[column], (start, 1, demand))
        insort(self._room_changes[column], (end, 0, demand))

    def _add_run(self, job: JobState, stage: int, task: int, node: str, end: float) -> None:
        self._runs.setdefault((job.id, stage), {}).setdefault(task, []).append((node, end))
        for child in job.children[stage]:
            inputs = self._inputs.get((job.id, child))
            if inputs is not None and (stage, task) in inputs.rows:
                data = next(edge.data for edge in job.spec.stages[child].edges if edge.parent == stage)
                parts = job.stages[stage].tasks * job.stages[child].tasks
                inputs.add_run(stage, task, end + self._transfer_ms(data, parts, node))

    def runs(self, job: JobState, stage: int, task: int) -> list[tuple[str, float]]:
        """Nodes of past, present and planned runs of a task, with the ends."""
        outputs = job.stages[stage].outputs
        done: list[tuple[str, float]] = [(node, float(at)) for node, at in (outputs or {}).get(task, ())]
        return done + self._runs.get((job.id, stage), {}).get(task, [])

    # -- what nodes can do ------------------------------------------------------------------------

    def times(self, job: JobState, stage: StageState) -> Floats:
        """[nodes]: estimated run time of a task of the stage, ms."""
        known = self._times.get((job.id, stage.index))
        if known is None:
            view, usual = self._view, self._view.task_ms(job.id, stage.index)
            if usual is not None and view.has_times_by_node(job.id, stage.index):
                told = (view.task_ms_on(job.id, stage.index, node) for node in self.nodes)
                known = np.array([usual if ms is None else ms for ms in told], dtype=np.float64)
            else:
                known = (UNKNOWN_MS if usual is None else usual) / self._speeds
            self._times[job.id, stage.index] = known
        return known

    def free(self, stage: StageState) -> Floats:
        """[nodes]: time from which on a task of the stage always has room, beside all planned runs; inf: never."""
        known = self._free.get(stage.size)
        if known is None:
            free = map(partial(self._free_on, size=stage.size), range(len(self.nodes)))
            known = self._free[stage.size] = np.array(list(free), dtype=np.float64)
        return known

    def may_run(self, stage: StageState, node: str) -> bool:
        """Whether a task of the stage could ever run on the node."""
        return bool(np.isfinite(self.free(stage)[self.column[node]]))

    def _free_on(self, column: int, size: int) -> float:
        demand = self._view.demand(size)
        left = [there - wanted for there, wanted in zip(self._rooms[column], demand, strict=True)]
        if min(left) < 0 or column in self._closed or size in self.nodes[column].barred:
            return np.inf
        for at, is_start, held in reversed(self._room_changes[column]):
            if is_start:
                left = [there + taken for there, taken in zip(left, held, strict=True)]
                continue
            left = [there - taken for there, taken in zip(left, held, strict=True)]
            if min(left) < 0:
                return max(self.now, at)
        return self.now

    def count_at_once(self, node: str, demand: Vector) -> int:
        """Number of tasks of the demand the node can run at once if nothing else of ours runs there."""
        return times_in(demand, self._rooms[self.column[node]])

    def close(self, nodes: Iterable[str]) -> None:
        """Let the nodes take nothing until other nodes are closed instead."""
        closed = {self.column[node] for node in nodes}
        if closed != self._closed:
            self._closed = closed
            self._free.clear()

    # -- when data is there -----------------------------------------------------------------------

    def inputs(self, job: JobState, stage: StageState) -> InputTimes:
        """Arrival of the stage's input; its parents are done, or all of their tasks run or are in queues."""
        known = self._inputs.get((job.id, stage.index))
        if known is None:
            known = self._inputs[job.id, stage.index] = self._gather(job, stage)
        return known

    def _gather(self, job: JobState, stage: StageState) -> InputTimes:
        floor, rows, arrive = self.now, dict[tuple[int, int], int](), list[Floats]()
        for edge in sorted(job.spec.stages[stage.index].edges, key=lambda edge: edge.parent):
            parent = job.stages[edge.parent]
            running = self._runs.get((job.id, edge.parent), {})
            floor = max([floor, *(min(end for _, end in runs) for runs in running.values())])
            if not edge.data or self._view.links is None:
                continue
            for task in sorted({*(parent.outputs or ()), *running}):
                rows[edge.parent, task] = len(arrive)
                arrive.append(self._arrivals(job, stage, edge, task))
        return InputTimes(floor, len(self.nodes), rows, np.array(arrive) if arrive else np.empty((0, len(self.nodes))))

    def arrive(self, job: JobState, stage: StageState, parent: int, task: int) -> Floats:
        """[nodes]: arrival of the output of a parent's task for a task of the stage, from the earliest run."""
        edge = next(edge for edge in job.spec.stages[stage.index].edges if edge.parent == parent)
        return self._arrivals(job, stage, edge, task)

    def _arrivals(self, job: JobState, stage: StageState, edge: Edge, task: int) -> Floats:
        return self.arrive_from(self.runs(job, edge.parent, task), job, stage, edge)

    def arrive_from(self, runs: Iterable[tuple[str, float]], job: JobState, stage: StageState, edge: Edge) -> Floats:
        """[nodes]: arrival, from the earliest of the runs (node, end), of a parent's task's output for the stage."""
        if not edge.data or self._view.links is None:
            return np.full(len(self.nodes), min(end for _, end in runs))
        parts = job.stages[edge.parent].tasks * stage.tasks
        found: Floats = np.minimum.reduce([end + self._transfer_ms(edge.data, parts, node) for node, end in runs])
        return found

    def _transfer_ms(self, data: int, parts: int, source: str) -> Floats:
        """[nodes]: time for one of `parts` equal parts of the data from the source."""
        known = self._transfers.get((data, parts, source))
        if known is None:
            rates, which = self._rates_of(source)
            took = np.array([transfer_ms(data, parts, rate) for rate in rates], dtype=np.float64)
            known = self._transfers[data, parts, source] = took[which]
        return known

    def rates_from(self, source: str) -> Floats:
        """[nodes]: bytes per second from the source, inf where data takes no time. There are links."""
        rates, which = self._rates_of(source)
        found: Floats = np.array([np.inf if rate is None else rate for rate in rates], dtype=np.float64)[which]
        return found

    def _rates_of(self, source: str) -> tuple[list[int | None], npt.NDArray[np.intp]]:
        """The distinct rates from a node, and the index among them for each node."""
        there = self._view.nodes.get(source)  # the rack of a node that is gone is unknown
        known = self._rates.get((source, there is None))
        if known is None:
            links = self._view.links
            assert links is not None
            rates: dict[int | None, int] = {}
            which = [rates.setdefault(rate_between(links, there, source, node), len(rates)) for node in self.nodes]
            known = self._rates[source, there is None] = list(rates), np.array(which, dtype=np.intp)
        return known
