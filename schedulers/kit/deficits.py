"""Deficit counters: the debt to each group, compared with its fair share, so that unfairness can be bounded.

When a task of a group starts, the group's counter changes by factor x (its fair share - 1) and the counter of every
other group by factor x its own fair share (Graphene, OSDI'16, section 5). As fair shares sum to 1, the counters sum to
0. While no counter has reached kappa x C, a policy may serve any group; after that, the group with the largest debt. So
kappa = 0 is pure fairness, and no group is ever behind by much more than kappa times the cluster.

The factor is the shared good: `slot`, 1 per task; `drf`, the task's dominant share of the cluster. C is the cluster in
the same unit: the number of tasks of the mean size so far that it holds, or 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from schedulers.core.model import Job
from schedulers.core.policy import ClusterView
from schedulers.core.queues import QueueTree
from schedulers.core.resources import Vector
from schedulers.core.state import JobState
from schedulers.core.vectors import dominant_share
from schedulers.kit.parties import DIGITS

Level = Annotated[
    Literal["queue", "job"],
    msgspec.Meta(description="holders of deficits: leaf queues, or jobs, each with a share by all weights"),
]
Factor = Annotated[
    Literal["slot", "drf"],
    msgspec.Meta(description="amount of a task in deficits: its dominant share of the cluster (drf), or 1 (slot)"),
]
Kappa = Annotated[
    float,
    msgspec.Meta(
        ge=0,
        description="deficit, as a part of the cluster, at which a queue or job goes before the policy's "
        "order; larger: less fair, 0: always fair",
    ),
]


class Deficits:
    """A counter per group, in the unit of the factor. A group without charges and debts has 0."""

    __slots__ = ("_counters",)

    def __init__(self) -> None:
        self._counters: dict[str, float] = {}

    def __getitem__(self, group: str) -> float:
        return self._counters.get(group, 0.0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counters)

    def sum(self) -> float:
        """0, but for floating-point noise."""
        return math.fsum(self._counters.values())

    def charge(self, group: str, factor: float, shares: Mapping[str, float]) -> None:
        """Count a started task of the group. shares: fair shares of all groups with wishes, 1 in sum."""
        for other, share in shares.items():
            self._counters[other] = self[other] + factor * share
        self._counters[group] = self[group] - factor

    def keep(self, groups: Iterable[str]) -> None:
        """Forget all other groups; their debts, or credits, are spread evenly, so that the sum stays."""
        there = dict.fromkeys(groups)
        gone = [group for group in self._counters if group not in there]
        rest = math.fsum(self._counters.pop(group) for group in gone)
        for group in there:
            if rest:
                self._counters[group] = self[group] + rest / len(there)

    def owed(self, groups: Iterable[str], bound: float) -> list[str]:
        """Groups with a counter at the bound, the largest debt first, equal debts by name."""
        counters = {group: round(self[group], DIGITS) for group in groups}
        reached = [group for group, counter in counters.items() if counter >= round(bound, DIGITS)]
        return sorted(reached, key=lambda group: (-counters[group], group))

    def dump(self) -> dict[str, float]:
        """The counters, as plain data."""
        return dict(self._counters)

    def load(self, data: Mapping[str, float]) -> None:
        """Takes over the data of `dump`."""
        self._counters = dict(data)


def fair_shares(queues: Iterable[str], tree: QueueTree) -> dict[str, float]:
    """Part of the cluster of each queue, by the weights on its way up, 1 in sum.

    Unnamed queues with nobody named below are out: their parts go to their siblings. In a queue with jobs of its own
    and queues below, the jobs count as a single child of weight 1.
    """
    ways = {queue: tree.up(queue)[::-1] for queue in queues}
    below: dict[str, dict[str, float]] = {}
    for way in ways.values():
        for parent, child in zip(["", *way], way, strict=False):
            below.setdefault(parent, {})[child] = tree.queues[child].weight if child in tree.queues else 1.0
    for queue, way in ways.items():
        if queue in below:
            below[queue][""] = 1.0
            way.append("")
    return {
        queue: math.prod(
            below[parent][child] / sum(below[parent].values()) for parent, child in zip(["", *way], way, strict=False)
        )
        for queue, way in ways.items()
    }


class Balance:
    """Deficits of a policy's groups: the groups to be served first, and the changes made by a started task.

    A group counts as long as tasks of the group wait to start; the counters of the others stand still. A group without
    live jobs is forgotten. With executors that outlive tasks only tasks started by the policy are charged.
    """

    def __init__(self, level: str, factor: str, kappa: float) -> None:
        self._level, self._factor, self._kappa = level, factor, kappa
        self.deficits = Deficits()
        self._charged = 0  # tasks so far
        self._mean = 0.0  # their mean dominant share: 1 / C for slots
        self._shares: dict[str, float] = {}  # of the groups that want something
        self._swept = False

    def group_of(self, job: Job) -> str:
        """The group of a job."""
        return job.queue if self._level == "queue" else job.id

    def begin(self, view: ClusterView) -> None:
        """Begin a round: look for groups with waiting tasks."""
        self._shares, self._swept = self._fair_shares(view), False

    def owed(self) -> list[str]:
        """Groups at the bound with waiting tasks, the largest debt first: the first able to start goes first."""
        return self.deficits.owed(self._shares, self._bound())

    def charge(self, job: JobState, demand: Vector, tasks: int, view: ClusterView) -> None:
        """So many tasks of a job have just started."""
        if not self._swept:  # only in rounds that start something, for the others leave no trace in the log
            self._swept = True
            if any(group not in self._shares for group in self.deficits):
                self.deficits.keep(dict.fromkeys(self.group_of(live.spec) for live in view.jobs.values()))
        size = dominant_share(demand, view.capacity)
        for _ in range(tasks):
            self._charged += 1
            self._mean += (size - self._mean) / self._charged
            self.deficits.charge(self.group_of(job.spec), size if self._factor == "drf" else 1.0, self._shares)
        if job.id not in view.waiting:
            self._shares = self._fair_shares(view)

    def _fair_shares(self, view: ClusterView) -> dict[str, float]:
        wanting = view.waiting.values()
        by_queue = fair_shares(dict.fromkeys([job.spec.queue for job in wanting]), view.tree)
        if self._level == "queue":
            return by_queue
        weights: dict[str, float] = dict.fromkeys(by_queue, 0.0)
        for job in wanting:
            weights[job.spec.queue] += job.spec.weight
        return {job.id: by_queue[job.spec.queue] * job.spec.weight / weights[job.spec.queue] for job in wanting}

    def _bound(self) -> float:
        """Kappa x C in the factor's unit; before anything was charged nobody is owed anything."""
        if not self._kappa or self._factor == "drf":
            return self._kappa
        return self._kappa / self._mean if self._mean else math.inf

    def dump(self) -> Any:
        """The memory, as plain data."""
        return {"deficits": self.deficits.dump(), "charged": self._charged, "mean": self._mean}

    def load(self, data: Any) -> None:
        """Takes over the data of `dump`."""
        self.deficits.load(data["deficits"])
        self._charged, self._mean = data["charged"], data["mean"]
