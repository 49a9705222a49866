"""Policies by ranks in the DAG: distance of a task from the end, or from the beginning (LACHESIS, section 5)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.events import Event, LinksSet, NodeAdded, NodeChanged, NodeLost, NodeRemoved
from schedulers.core.policy import ClusterView
from schedulers.kit.ordered import Key, Ordered, TieParams

if TYPE_CHECKING:
    from schedulers.core.model import Links
    from schedulers.core.state import JobState, NodeState, StageState

#: Digits of a rank that count: ranks are means of floats, and further digits are noise.
_DIGITS = 9
#: (parent, child, ms)
Transfer: TypeAlias = tuple[int, int, float]


class Lengths:
    """Lengths of path segments: tasks at the mean speed of the nodes, transfers at the mean rate of links.

    Times told by node count with their harmonic mean, which is the same.
    """

    def __init__(self) -> None:
        self._speed: float | None = None  # the mean of the nodes; None: to be looked up
        self._rate: float | None = None  # the mean of the links, bytes per second; None: they take no time
        self._known: dict[str, tuple[list[float], list[Transfer]]] = {}

    def of(self, job: JobState, view: ClusterView) -> tuple[list[float], list[Transfer]]:
        """Times of a task of each stage, ms, 0 without an estimate; (parent, child, ms) of two tasks along each edge.

        The same object until the estimates of the job or the nodes are others.
        """
        if self._speed is None:
            self.measure(view)
        times = [self._task_ms(job.id, stage.index, view) for stage in job.stages]
        known = self._known.get(job.id)
        if known is not None and known[0] == times:
            return known
        edges = []
        for stage in job.stages:
            for edge in job.spec.stages[stage.index].edges:
                pairs = stage.tasks * job.stages[edge.parent].tasks
                moves = 1000 * edge.data / (pairs * self._rate) if self._rate is not None else 0.0
                edges.append((edge.parent, stage.index, moves))
        self._known[job.id] = times, edges
        return self._known[job.id]

    def forget(self, job: str) -> None:
        """A job is gone."""
        self._known.pop(job, None)

    def _task_ms(self, job: str, stage: int, view: ClusterView) -> float:
        """Run time of a task on the mean node; 0 without an estimate."""
        assert self._speed is not None
        usual = view.task_ms(job, stage)
        if usual is None or not view.has_times_by_node(job, stage):
            return (usual or 0.0) / self._speed
        times = [view.task_ms_on(job, stage, node) or 0.0 for node in _serving(view)]
        return len(times) / sum(1 / ms for ms in times) if all(times) else 0.0

    def measure(self, view: ClusterView) -> None:
        """Look up speeds and rates."""
        nodes = _serving(view)
        self._speed = sum(node.spec.speed for node in nodes) / len(nodes) if nodes else 1.0
        self._rate = mean_rate(view.links, nodes) if view.links is not None else None
        self._known.clear()

    @property
    def measured(self) -> bool:
        """Whether the nodes are unchanged since the last look at speeds and rates."""
        return self._speed is not None

    def observe(self, event: Event) -> None:
        """With other nodes all lengths are others."""
        if isinstance(event, NodeAdded | NodeChanged | NodeLost | NodeRemoved | LinksSet):
            self._speed = None


class Ranked(Ordered, NeedsEstimates):
    """Serves the job with the open stage of the highest rank, and in the job the stage; ties: the lowest index.

    A rank belongs to a task: run times of tasks and transfers between two tasks (`Lengths`).
    """

    bundles = True
    order_is_stable = True
    Params = TieParams
    params: TieParams

    def __init__(self, params: TieParams, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._lengths = Lengths()
        self._ranks: dict[str, tuple[object, list[float]]] = {}  # by job: what its ranks are of, and these

    @abstractmethod
    def ranks(self, times: Sequence[float], edges: Sequence[tuple[int, int, float]]) -> list[float]:
        """Rank per stage. times: of a task of each stage, ms. edges: parent, child, ms of a transfer between tasks."""

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key."""
        return self.key_among(job, tuple(job.open_stages()), view)

    def key_among(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Key:
        """See Ordered.key_among."""
        ranks = self._ranks_of(job, view)
        return (-max((ranks[stage.index] for stage in stages), default=0.0), view.tie(job, self.params.tie))

    def arrange(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Iterable[StageState]:
        """See Ordered.arrange."""
        ranks = self._ranks_of(job, view)
        return sorted(stages, key=lambda stage: -ranks[stage.index])

    def _ranks_of(self, job: JobState, view: ClusterView) -> list[float]:
        """Per stage; worked out anew when the estimates of the job or the nodes have changed."""
        lengths = self._lengths.of(job, view)
        known = self._ranks.get(job.id)
        if known is not None and known[0] is lengths:
            return known[1]
        ranks = [float(f"{rank:.{_DIGITS}g}") for rank in self.ranks(*lengths)]
        self._ranks[job.id] = lengths, ranks
        return ranks

    def observe(self, event: Event, view: ClusterView) -> None:
        """With other nodes all ranks are others."""
        self._lengths.observe(event)

    def _refresh(self, view: ClusterView) -> None:
        if self._lengths.measured:
            super()._refresh(view)
            return
        view.changed()
        self._lengths.measure(view)
        self._sort(view)

    def _leave(self, name: str, view: ClusterView) -> None:
        super()._leave(name, view)
        if name not in view.jobs:
            self._ranks.pop(name, None)
            self._lengths.forget(name)


def _serving(view: ClusterView) -> list[NodeState]:
    return [node for node in view.nodes.values() if not node.draining]


def mean_rate(links: Links, nodes: Collection[NodeState]) -> float | None:
    """Mean bytes per second over all pairs of different nodes with transfer times; None without such pairs.

    O(nodes + named pairs).
    """
    racks = {node.id: node.spec.rack for node in nodes}
    pairs: Counter[int | None] = Counter()
    near = sum(count * (count - 1) for rack, count in Counter(racks.values()).items() if rack)
    pairs[links.rate if links.in_rack is None else links.in_rack] += near
    pairs[links.rate] += len(racks) * (len(racks) - 1) - near
    for one, rates in links.pairs.items():
        for other in rates if one in racks else ():
            if other in racks and other != one:
                in_rack = bool(racks[one]) and racks[one] == racks[other]
                pairs[links.in_rack if in_rack and links.in_rack is not None else links.rate] -= 1
                pairs[rates[other]] += 1
    timed = {rate: count for rate, count in pairs.items() if rate is not None and count}
    return sum(rate * count for rate, count in timed.items()) / sum(timed.values()) if timed else None
