"""Places of the input of a job's tasks: the waiting task nearest to its data on a node.

Tasks are looked up per node and per rack, so that a job of many tasks costs no more than a small job. The lists drop
started tasks; tasks to be run again are looked for among the stage's returned tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from schedulers.core.model import Job, Node, Stage
from schedulers.core.state import StageState


class Near(IntEnum):
    """How near a task is to its input; FREE: there is no input to be near to."""

    NODE = 0
    FREE = 1
    RACK = 2
    ANY = 3


class StageInputs:
    """A stage's tasks by place of input. racks: rack ('': unknown) of each node that takes containers."""

    __slots__ = ("_by_node", "_by_rack", "_free", "_racks", "_spec")

    def __init__(self, spec: Stage, racks: Mapping[str, str]) -> None:
        self._spec, self._racks = spec, racks
        self._by_node: dict[str, list[int]] = {}
        self._by_rack: dict[str, list[int]] = {}
        self._free: list[int] = []
        for task in reversed(range(spec.tasks)):  # the next one is the last of each list
            hosts = self._hosts(task)
            for host in hosts:
                self._by_node.setdefault(host, []).append(task)
            for rack in self._racks_of(hosts):
                self._by_rack.setdefault(rack, []).append(task)
            if not hosts:
                self._free.append(task)

    def _hosts(self, task: int) -> dict[str, None]:
        return dict.fromkeys(host for host in self._spec.hosts_of(task) if host in self._racks)

    def _racks_of(self, hosts: Mapping[str, None]) -> dict[str, None]:
        return dict.fromkeys(rack for host in hosts if (rack := self._racks[host]))

    def nearest(self, stage: StageState, node: Node) -> tuple[Near, int | None]:
        """Distance of the nearest waiting task from its input on the node, and the task (None: any)."""
        task = self._first(stage, self._by_node.get(node.id), Near.NODE, node)
        if task is not None:
            return Near.NODE, task
        task = self.free(stage)
        if task is not None:
            return Near.FREE, task
        task = self._first(stage, self._by_rack.get(node.rack), Near.RACK, node)
        return (Near.ANY, None) if task is None else (Near.RACK, task)

    def free(self, stage: StageState) -> int | None:
        """The first waiting task without input on any node."""
        return self._first(stage, self._free, Near.FREE, None)

    def _first(self, stage: StageState, tasks: list[int] | None, near: Near, node: Node | None) -> int | None:
        again = min((task for task in stage.returned if self._near(task, node) is near), default=None)
        while tasks and not stage.is_waiting(tasks[-1]):
            tasks.pop()
        if not tasks:
            return again
        return tasks[-1] if again is None else min(again, tasks[-1])

    def _near(self, task: int, node: Node | None) -> Near:
        hosts = self._hosts(task)
        if not hosts:
            return Near.FREE
        if node is None:
            return Near.ANY
        if node.id in hosts:
            return Near.NODE
        return Near.RACK if node.rack in self._racks_of(hosts) else Near.ANY


class Inputs:
    """The stages of a job with input on nodes. A gang starts whole or not at all, so its input does not matter.

    tasks: number of tasks with input on some node. replicas: mean number of nodes with the input of a task.
    """

    __slots__ = ("_stages", "replicas", "tasks")

    def __init__(self, job: Job, racks: Mapping[str, str]) -> None:
        placed = [(i, stage) for i, stage in enumerate(job.stages) if stage.hosts and not stage.gang]
        self._stages = {index: StageInputs(stage, racks) for index, stage in placed}
        copies = [sum(h in racks for h in stage.hosts_of(task)) for _, stage in placed for task in range(stage.tasks)]
        stored = [count for count in copies if count]
        self.tasks, self.replicas = len(stored), sum(stored) / len(stored) if stored else 0.0

    def nearest(self, stage: StageState, node: Node) -> tuple[Near, int | None]:
        """See StageInputs.nearest."""
        known = self._stages.get(stage.index)
        return (Near.FREE, None) if known is None else known.nearest(stage, node)

    def has_free(self, stage: StageState) -> bool:
        """Whether a waiting task of the stage has no input to be near to."""
        known = self._stages.get(stage.index)
        return known is None or known.free(stage) is not None
