"""Queues of tasks at nodes: each waiting task was assigned to a node, and starts there in order.

Queued tasks are numbered over all nodes in the order of assignment, parents before children, so the first of all waits
for no other queued task. Invalid entries are removed, and their tasks assigned anew, behind the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from schedulers.core.live import StageState
from schedulers.core.old_names import old_classes


class QueuedTask(msgspec.Struct, eq=False):
    """A task in the queue of a node; the dump names fields as written by older versions."""

    number: int
    job: str
    stage: int
    task: int
    size: int
    """Number of the size of its demand."""
    node: str
    start: float
    """Expected start, ms."""
    end: float
    """Expected end, ms."""
    copy_for: int = msgspec.field(default=0, name="sake")
    """Number of the queued child, for the copy of a parent; its own number if its task runs elsewhere already; 0: the
    task itself, no copy.
    """
    copied_parents: tuple[tuple[int, int], ...] = msgspec.field(default=(), name="after")
    """Stages and tasks of the parents with copies on the node to wait for."""


class NodeQueues:
    """The queues of all nodes. The memory of an assigner; `dump` and `load` cover all of it."""

    def __init__(self) -> None:
        self.next_number = 1
        """Number of the next queued task."""
        self.by_node: dict[str, dict[int, QueuedTask]] = {}
        """Queued tasks of each node, by number, the first in front; no empty queues."""
        self.size_counts: dict[str, Counter[int]] = {}
        """By node, number of queued tasks of each size."""
        self.by_job: dict[str, dict[int, QueuedTask]] = {}
        """Queued tasks of each job, by number."""
        self.by_stage: dict[tuple[str, int], dict[int, QueuedTask]] = {}
        """Queued tasks by job and stage, then by task, without copies; no empty stages."""
        self.copies: dict[int, QueuedTask] = {}
        """Queued copies, by number."""

    def add(self, entry: QueuedTask) -> None:
        """Append a task, with the next number or from a dump, to the queue of its node."""
        self.next_number = max(self.next_number, entry.number + 1)
        self.by_node.setdefault(entry.node, {})[entry.number] = entry
        self.size_counts.setdefault(entry.node, Counter())[entry.size] += 1
        self.by_job.setdefault(entry.job, {})[entry.number] = entry
        if entry.copy_for:
            self.copies[entry.number] = entry
        else:
            self.by_stage.setdefault((entry.job, entry.stage), {})[entry.task] = entry

    def remove(self, entry: QueuedTask) -> None:
        """Remove a started or unwanted task from its queue, and the copies made for the task."""
        _cut(self.by_node, entry.node, entry.number)
        self.size_counts[entry.node] -= Counter([entry.size])
        _cut(self.by_job, entry.job, entry.number)
        if entry.copy_for:
            del self.copies[entry.number]
        else:
            _cut(self.by_stage, (entry.job, entry.stage), entry.task)
        if entry.copied_parents:
            for other in [t for t in self.by_node.get(entry.node, {}).values() if t.copy_for == entry.number]:
                self.remove(other)

    def make_copy(self, entry: QueuedTask) -> None:
        """Make the queued task a copy: the task has started elsewhere."""
        entry.copy_for = entry.number
        self.copies[entry.number] = entry
        _cut(self.by_stage, (entry.job, entry.stage), entry.task)

    def remove_all(self, entries: Iterable[QueuedTask]) -> None:
        """Remove the given tasks from their queues."""
        for entry in list(entries):
            if entry.number in self.by_job.get(entry.job, ()):  # it has not gone with another
                self.remove(entry)

    def holds_all(self, job: str, stage: StageState) -> bool:
        """Whether every waiting task of the stage is in a queue; copies asked for by masters come in none."""
        return stage.waiting - len(stage.copies) == len(self.by_stage.get((job, stage.index), ()))

    def in_order(self) -> list[QueuedTask]:
        """All queued tasks by number."""
        return sorted(
            (entry for queue in self.by_node.values() for entry in queue.values()), key=lambda entry: entry.number
        )

    def count_before(self, entry: QueuedTask) -> int:
        """Number of tasks before the given task in its queue."""
        return sum(number < entry.number for number in self.by_node[entry.node])

    def dump(self) -> Any:
        """As plain data."""
        return {"turns": msgspec.to_builtins(self.in_order()), "next": self.next_number}

    def load(self, data: Any) -> None:
        """Take over the data of `dump`."""
        for entry in msgspec.convert(data["turns"], list[QueuedTask]):
            self.add(entry)
        self.next_number = data["next"]


def _cut(of: dict[Any, dict[int, QueuedTask]], key: Any, entry: int) -> None:
    entries = of[key]
    del entries[entry]
    if not entries:
        del of[key]


def waiting_tasks(stage: StageState) -> Iterator[int]:
    """Waiting tasks of the stage, in the order of starting: pilots, returned tasks, the rest."""
    yield from stage.pilots
    yield from sorted(stage.returned)
    if stage.waiting > len(stage.pilots) + len(stage.returned) + len(stage.copies):
        yield from (task for task in range(stage.next, stage.tasks) if task not in stage.taken)


def unqueued_tasks(stage: StageState, entries: dict[int, QueuedTask] | None) -> Sequence[int]:
    """Waiting tasks of the stage that are in no queue; every queued task waits."""
    if stage.waiting - len(stage.copies) == len(entries or ()):
        return ()
    return [task for task in waiting_tasks(stage) if entries is None or task not in entries]


if not TYPE_CHECKING:  # a type checker would take every name for an attribute of this module
    __getattr__ = old_classes(__name__, {"Lines": "NodeQueues", "Turn": "QueuedTask"})
