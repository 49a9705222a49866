"""Plans of DAGs on unlike machines, made ahead and followed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.model import topological_order
from schedulers.core.policy import ClusterView
from schedulers.kit.assigned import Assigner, AssigningPolicy
from schedulers.kit.node_queues import QueuedTask, unqueued_tasks
from schedulers.planning.unrelated.instance import Instance

if TYPE_CHECKING:
    from schedulers.core.state import JobState, StageState
    from schedulers.kit.forecast import Floats, Forecast
    from schedulers.planning.unrelated.timelines import TimelinePlacement, TimelinePlan

#: Told to planners: on barred nodes a task takes so many times as long as anywhere else.
_NEVER: Final = 1e3


#: Stages whose tasks cannot be assigned.
Unqueued: TypeAlias = "dict[tuple[JobState, int], None]"


class Item(NamedTuple):
    """A task to be planned."""

    job: JobState
    stage: StageState
    task: int


class ItemRun(NamedTuple):
    """A run of an item on a node. sake: the place in the plan of the first run there to take the copy's output."""

    item: int
    node: str
    copy: bool = False
    copy_for: int | None = None


class Followed(AssigningPolicy, NeedsEstimates):
    """Lays out all jobs of the same instant as a single DAG, behind earlier work, and follows the plan.

    Each node is a machine, or as many machines as it can run of the largest task at once. Tasks to be assigned anew
    (after a failure, say) are planned anew. Copies are made as planned, where copies are on. placer: for gangs, and for
    tasks planned on a node barred to them.
    """

    copies_as_planned = True

    def __init__(self, params: msgspec.Struct, placer: Assigner, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._placer = placer

    @abstractmethod
    def plan(self, layout: Layout, most: int, view: ClusterView) -> TimelinePlan:
        """The plan of all tasks to be assigned now, with at most so many runs of a task if possible."""

    def assign(self, jobs: Sequence[JobState], forecast: Forecast, view: ClusterView) -> Iterable[str]:
        """See Lined.assign. A gang is assigned as a whole where its tasks end first together."""
        items, never = self._items(jobs, forecast)
        if items:
            layout = Layout(items, forecast, view)
            runs = layout.runs(self.plan(layout, forecast.copies, view), forecast.copies)
            never |= self._follow(runs, layout, forecast)
        return dict.fromkeys(job.id for job, _ in never)

    def _items(self, jobs: Sequence[JobState], forecast: Forecast) -> tuple[list[Item], Unqueued]:
        """The tasks in no queue, and the stages with tasks that cannot be assigned now."""
        items: list[Item] = []
        never: Unqueued = {}
        later: Unqueued = {}
        for job in jobs:
            for index in topological_order(job.spec.stages):
                stage = job.stages[index]
                # A parent's task that is kept back would come behind its children, and never have a turn.
                kept_back = any(job.stages[parent].kept_back for parent in job.spec.stages[index].above)
                if kept_back or _depends_on(job, index, later):
                    later[job, index] = None
                    continue
                tasks = unqueued_tasks(stage, self.node_queues.by_stage.get((job.id, index)))
                if tasks and (_depends_on(job, index, never) or not np.isfinite(forecast.free(stage)).any()):
                    never[job, index] = None
                else:
                    items += [Item(job, stage, task) for task in tasks]
        return items, never

    def _follow(self, runs: Sequence[ItemRun], layout: Layout, forecast: Forecast) -> Unqueued:
        """Queue tasks in the order of the plan's starts; returns the stages not assigned."""
        entries: dict[int, QueuedTask] = {}
        never: Unqueued = {}
        copied: dict[int, list[tuple[int, int]]] = {}
        for place, run in enumerate(runs):
            job, stage, task = layout.items[run.item]
            key = (job, stage.index)
            if key in never or _depends_on(job, stage.index, never):
                never[key] = None
            elif job.is_waiting_gang(stage):
                if not run.copy and (job.id, stage.index) not in self.node_queues.by_stage:
                    fits = self.assign_stage(job, stage, self._placer, forecast)
                    never |= {} if fits else {key: None}
            elif not run.copy or forecast.may_run(stage, run.node):
                node = run.node
                if not forecast.may_run(stage, node):  # the planner was told of a very long time there
                    choice = self._placer.choose(job, stage, forecast, 1)
                    node = node if choice is None else choice.node
                number, size, after = self.node_queues.next_number, stage.size, tuple(copied.get(place, ()))
                sake = number if run.copy else 0
                entry = QueuedTask(
                    number, job.id, stage.index, task, size, node, 0.0, 0.0, copy_for=sake, copied_parents=after
                )
                self.append(entry, job, forecast)
                entries[place] = entry
                if run.copy_for is not None:
                    copied.setdefault(run.copy_for, []).append((stage.index, task))
        for place, run in enumerate(runs):
            if run.copy_for is not None and place in entries and run.copy_for in entries:
                entries[place].copy_for = entries[run.copy_for].number
        return never


def _depends_on(job: JobState, stage: int, never: Unqueued) -> bool:
    """Whether a parent of the stage is among the stages not assigned."""
    return any((job, parent) in never for parent in job.spec.stages[stage].above)


class Layout:
    """Tasks as an instance of the planners' problem."""

    def __init__(self, items: Sequence[Item], forecast: Forecast, view: ClusterView) -> None:
        self.items = items
        self._index = {(item.job.id, item.stage.index, item.task): index for index, item in enumerate(items)}
        self._machines = _machines(items, forecast)
        self._nodes = [node.id for node in forecast.nodes]
        stages = {(item.job.id, item.stage.index): item for item in items}
        times = {key: _times(item, forecast)[self._machines] for key, item in stages.items()}
        self.instance = Instance(
            [times[item.job.id, item.stage.index] for item in items],
            [edge for item in stages.values() for edge in self._edges(item)],
            _rates(forecast, view)[np.ix_(self._machines, self._machines)],
            _busy(stages.values(), forecast, view.now)[self._machines],
        )

    def _edges(self, child: Item) -> Iterator[tuple[int, int, float]]:
        """Edges between all planned tasks of a stage and its parents' tasks, with bytes."""
        job, stage = child.job, child.stage
        children = [index for task in range(stage.tasks) if (index := self._at(job, stage.index, task)) is not None]
        for edge in job.spec.stages[stage.index].edges:
            parts = job.stages[edge.parent].tasks * stage.tasks
            for task in range(job.stages[edge.parent].tasks):
                parent = self._at(job, edge.parent, task)
                if parent is not None:
                    yield from ((parent, index, edge.data / parts) for index in children)

    def _at(self, job: JobState, stage: int, task: int) -> int | None:
        return self._index.get((job.id, stage, task))

    def runs(self, plan: TimelinePlan, most: int) -> list[ItemRun]:
        """The planned runs, by start, with at most so many runs of a task."""
        placements = plan.placements
        where: dict[int, list[str]] = {}
        for placed in sorted(placements, key=lambda p: p.copy):
            node = self._nodes[self._machines[placed.machine]]
            there = where.setdefault(placed.task, [])
            if len(there) < (most if placed.copy else 1) and node not in there:
                there.append(node)
        order = self._order(placements, where)
        kept: list[ItemRun] = []  # the last in front
        for index in reversed(order):
            placed, node = placements[index], self._nodes[self._machines[placements[index].machine]]
            if not placed.copy:
                kept.append(ItemRun(placed.task, node))
            elif node in where[placed.task][1:]:
                children = {child for child, _ in self.instance.children[placed.task]}
                users = [at for at, run in enumerate(kept) if run.node == node and run.item in children]
                kept.append(ItemRun(placed.task, node, copy=True, copy_for=users[-1] if users else None))
        last = len(kept) - 1
        return [run._replace(copy_for=None if run.copy_for is None else last - run.copy_for) for run in reversed(kept)]

    def _order(self, placements: Sequence[TimelinePlacement], where: Mapping[int, Sequence[str]]) -> list[int]:
        """By start, but behind the first kept run of each parent: the first task served must not wait for others."""
        starts: dict[int, list[tuple[float, int]]] = {}
        for index, placed in enumerate(placements):
            if not placed.copy or self._nodes[self._machines[placed.machine]] in where[placed.task][1:]:
                starts.setdefault(placed.task, []).append((placed.start, index))
        first: dict[int, float] = {}
        keys: dict[int, float] = {}
        for task in self.instance.order:
            behind = max((first[parent] for parent, _ in self.instance.parents[task]), default=0.0)
            keys |= {index: max(start, behind) for start, index in starts[task]}
            first[task] = max(min(starts[task])[0], behind)
        return sorted(keys, key=lambda index: (keys[index], index))


def _machines(items: Sequence[Item], forecast: Forecast) -> list[int]:
    """The column of each machine: a node has as many machines as it can run of the largest task at once, at least 1."""
    largest = tuple(max(parts) for parts in zip(*(item.stage.demand for item in items), strict=True))
    counts = [max(1, forecast.count_at_once(node.id, largest)) for node in forecast.nodes]
    return [column for column, count in enumerate(counts) for _ in range(count)]


def _times(item: Item, forecast: Forecast) -> Floats:
    """[nodes]: time of a task, far too much on nodes barred to the task."""
    times, may = forecast.times(item.job, item.stage), np.isfinite(forecast.free(item.stage))
    never: Floats = np.where(may, times, _NEVER * (1 + times[may].max()))
    return never


def _busy(items: Iterable[Item], forecast: Forecast, now: int) -> Floats:
    """[nodes]: time until there is room for every stage, beside earlier tasks, ms."""
    frees = np.array([forecast.free(item.stage) for item in items])
    busy: Floats = np.where(np.isfinite(frees), frees - now, 0.0).max(axis=0)
    return np.maximum(busy, 0.0)


def _rates(forecast: Forecast, view: ClusterView) -> Floats:
    """[nodes, nodes]: bytes per ms, infinite where data takes no time."""
    if view.links is None:
        return np.full((len(forecast.nodes), len(forecast.nodes)), np.inf)
    return np.array([forecast.rates_from(node.id) for node in forecast.nodes]) / 1000
