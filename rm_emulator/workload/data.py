"""Where the tasks' input lies: replicas on random nodes, spread as HDFS spreads them by default.

The first replica is on any node, the second on a node of another rack, the third on another node of the second's
rack, all others anywhere; no node has two. Without racks all are anywhere (Hadoop's BlockPlacementPolicyDefault with
a writer outside the cluster). Draws are keyed by (seed, job, stage) with a row per task, so that neither
further jobs nor any order matters.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import msgspec

from rm_emulator.workload.model import Remote, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.fields import Count
from schedulers.core.model import Node, Stage


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the tasks of stages without parents, and the cost of distance from the input."""

    replicas: Count | None = None
    """Number of random nodes with each task's input, spread over racks as in HDFS; a stage with hosts keeps its hosts,
    e.g. `3`.
    """
    remote: Remote = Remote()
    """Cost of distance, in true run times alone, e.g. `{rack: 1.2, off: 1.5}`."""


def given(workload: Workload, nodes: Sequence[Node], settings: Data, seed: int) -> Workload:
    """The workload with input on nodes, and with the cost of distance. Raises ValueError as `place`."""
    if settings.replicas is not None:
        workload = place(workload, nodes, settings.replicas, seed)
    return msgspec.structs.replace(workload, remote=settings.remote)


def place(workload: Workload, nodes: Sequence[Node], replicas: int, seed: int) -> Workload:
    """The workload with input for each task of each stage without parents; stages with hosts keep their hosts.

    Raises ValueError for more replicas than nodes.
    """
    if not 1 <= replicas <= len(nodes):
        raise ValueError(f"{replicas} replicas need as many nodes (there are {len(nodes)})")
    spread = _Spread(nodes)
    jobs = tuple(_placed(entry, spread, replicas, seed) for entry in workload.jobs)
    return msgspec.structs.replace(workload, jobs=jobs)


def _placed(entry: WorkloadJob, spread: _Spread, replicas: int, seed: int) -> WorkloadJob:
    replace, job = msgspec.structs.replace, entry.job

    def reading(index: int, stage: Stage) -> Stage:
        if stage.parents or stage.hosts or stage.master:
            return stage
        draws = keyed.generator(seed, "data", job.id, index).random((stage.tasks, replicas))
        return replace(stage, hosts=tuple(spread.hosts(row) for row in draws.tolist()))

    stages = tuple(reading(index, stage) for index, stage in enumerate(job.stages))
    return replace(entry, job=replace(job, stages=stages))


class _Spread:
    """Chooses nodes for the replicas of a task."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._ids = [node.id for node in nodes]
        self._racks = [node.rack for node in nodes]
        self._all = list(range(len(nodes)))
        names = dict.fromkeys(self._racks)
        self._inside = {rack: [i for i in self._all if self._racks[i] == rack] for rack in names}
        self._outside = {rack: [i for i in self._all if self._racks[i] != rack] for rack in names}

    def hosts(self, draws: Sequence[float]) -> tuple[str, ...]:
        """As many nodes as there are draws from [0, 1)."""
        chosen: list[int] = []
        taken: list[int] = []  # the same, sorted
        for draw in draws:
            chosen.append(_pick(self._pool(chosen, taken), taken, draw))
            insort(taken, chosen[-1])
        return tuple(self._ids[index] for index in chosen)

    def _pool(self, chosen: Sequence[int], taken: Sequence[int]) -> list[int]:
        """Nodes for the next replica; taken nodes are left out later."""
        pool = self._all
        if len(chosen) == 1:
            pool = self._outside[self._racks[chosen[0]]]
        elif len(chosen) == 2:
            pool = self._inside[self._racks[chosen[1]]]
        return pool if any(index not in taken for index in pool[: len(taken) + 1]) else self._all


def _pick(pool: Sequence[int], taken: Sequence[int], draw: float) -> int:
    """The node at place `draw` among the free nodes of the sorted pool; `taken` is sorted as well."""
    gone = [at for index in taken if (at := bisect_left(pool, index)) < len(pool) and pool[at] == index]
    place = int(draw * (len(pool) - len(gone)))
    for at in gone:
        place += at <= place
    return pool[place]
