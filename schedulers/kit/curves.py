"""Shortest job first, and each job as wide as its speed-up is worth to the jobs behind."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from schedulers.core.abilities import NeedsEstimates
from schedulers.core.events import Event, NodeAdded, NodeChanged, NodeLost, NodeRemoved
from schedulers.core.policy import ClusterView, Offer, Outcome, Suggestion, TieSetting
from schedulers.core.state import JobState, StageState
from schedulers.core.vectors import fits
from schedulers.kit.ordered import Key
from schedulers.kit.partition import Partitioned, executors_of, to_start
from schedulers.kit.paths import critical_first
from schedulers.kit.speedups import shape_of, spans


class Constants(NamedTuple):
    """Numbers found by playing training seeds."""

    price: float
    """Price of all executors for one job behind."""
    fall: float
    """How the price falls with the part of the tasks that has not started."""
    growth: float
    """How the price grows with the jobs behind."""
    kept: float
    """Idle executors stay with their job up to so many times the number of the job."""
    warm: float
    """See Partitioned.warm."""
    scarce: float
    """Where containers end with their tasks, exponent of the part of the nodes that take a task."""


#: By the setting `learned`. False: found in Decima's batch setting; True: by evolution in the batch and in the stream
#: (`studies.student`), the last one on four classes of nodes (`studies.containers_student`).
CONSTANTS: Final[Mapping[bool, Constants]] = {
    False: Constants(4.0, 1.2, 0.81, math.inf, 0.0, 0.0),
    True: Constants(6.8, 2.7, 0.7, 1.0, 10.0, 1.5),
}
#: Work of a job without an estimate, s, and the number of executors up to which the job is served, as by `capped_sjf`.
_UNKNOWN_S: Final = 500.0
_UNKNOWN_WIDTH: Final = 8


class Curve(NamedTuple):
    """What a job promises alone, as its stages are estimated."""

    size_ms: float | None
    """The job's estimate of the time of the curve."""
    stages: tuple[float, ...]
    """Estimated run time of a task by stage, s."""
    work: float
    """Of all tasks, s."""
    executors: int
    """Of the cluster."""
    spans: tuple[tuple[int, float], ...]
    """T(n) by number of executors n, s."""


class CurvesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of all policies with curves."""

    inverted_levels: Annotated[
        bool,
        msgspec.Meta(
            description="whether widths and fit are those for executors as in decima-sim, where 9, 19, 39 and 49 "
            "are cheap, as with `inverted_levels` of a cluster's executors; false: 10, 20, 40 and 50"
        ),
    ] = True
    learned: Annotated[
        bool,
        msgspec.Meta(
            description="whether a job above its number lets idle executors go, a stage's last tasks are left to "
            "the executors at work on the stage, and the price of width is the one learned with both; where containers "
            "end with their tasks: whether tasks that few nodes take go before others"
        ),
    ] = False
    tie: TieSetting = "submit"


class Curves(Partitioned, NeedsEstimates):
    """Serves the job with the least T(1) x part of its work left first, each up to the width that pays.

    T(n) is the time that the job would take alone on n executors, by `schedulers.kit.speedups`.
    """

    bundles = True
    yields = True

    Params: type[msgspec.Struct] = CurvesSettings
    params: CurvesSettings

    def __init__(self, params: CurvesSettings, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        self._curves: dict[str, Curve] = {}
        self._parts: dict[int, float] = {}  # of the nodes, by size of the tasks that they take
        self._constants = CONSTANTS[params.learned]
        self.warm = self._constants.warm

    def observe(self, event: Event, view: ClusterView) -> None:
        """With other nodes, other parts of them take a task."""
        if isinstance(event, NodeAdded | NodeChanged | NodeLost | NodeRemoved):
            self._parts.clear()

    def ranked(self, view: ClusterView) -> list[JobState]:
        """See Partitioned.ranked."""
        jobs = super().ranked(view)
        self.yields = all(job.size_ms is not None for job in jobs)
        return jobs

    def key(self, job: JobState, view: ClusterView) -> Key:
        """See Ordered.key: T(1) by the part of the work left, of which tasks under way have half."""
        curve = self.curve(job, view)
        left = sum(
            task * (stage.tasks - stage.finished - stage.running / 2)
            for task, stage in zip(curve.stages, job.stages, strict=True)
        )
        # Where containers end with their tasks nothing of the fit holds but that less work ends sooner.
        alone = curve.spans[0][1] / curve.work if view.has_executors else 1.0
        first = math.inf if job.size_ms is None else alone * left
        return (first, view.tie(job, self.params.tie))

    def arrange(self, job: JobState, stages: Sequence[StageState], view: ClusterView) -> Iterable[StageState]:
        """See Ordered.arrange."""
        return critical_first(job, stages, view, "task")

    def most(self, job: JobState, view: ClusterView) -> float:
        """See Partitioned.most: no limit where containers end with their tasks, since width costs nothing there."""
        if not view.has_executors:
            return math.inf
        if job.size_ms is None:
            return _UNKNOWN_WIDTH
        unstarted, constants = to_start(job) / job.spec.tasks, self._constants
        price = constants.price * math.exp(-constants.fall * (unstarted - 0.5))
        price *= self._order.behind(job.id) ** constants.growth
        price *= self.price(job)
        executors = executors_of(view, {stage.demand for stage in job.stages})
        curve = self.curve(job, view)
        if curve.executors != executors:
            curve = self._curves[job.id] = _curve_of(job, view, inverted=self.params.inverted_levels)
        return min(curve.spans, key=lambda each: each[1] * (1 + price * each[0] / executors))[0]

    def _serve(self, view: ClusterView, offer: Offer, *, limited: bool) -> Generator[Suggestion, Outcome, bool]:
        """Where containers end with their tasks, stages whose tasks few nodes take are as those of shorter jobs."""
        # Where one part of the nodes takes every task, the order of the jobs is that of their stages.
        if not self._constants.scarce or len({self._part_of_nodes(size, view) for size in view.active_sizes}) == 1:
            return (yield from super()._serve(view, offer, limited=limited))
        keys = []
        for (first, tie), job in ((key, view.jobs[name]) for key, name in self._order.entries):
            fitting = [stage for stage in job.open_stages() if offer.fits(job, stage)]
            for place, stage in enumerate(self.arrange(job, fitting, view) if len(fitting) > 1 else fitting):
                scarcity = self._part_of_nodes(stage.size, view) ** self._constants.scarce
                keys.append((first * scarcity, tie, place, job.id, stage))
        for *_, name, stage in sorted(keys, key=lambda each: each[:3]):
            if (yield Suggestion(name, stage.index, count=stage.waiting)).placed:
                return True
        return False

    def _part_of_nodes(self, size: int, view: ClusterView) -> float:
        """Part of the nodes that would take a task of the size when empty."""
        part = self._parts.get(size)
        if part is None:
            nodes, demand = view.nodes.values(), view.demand(size)
            able = sum(size not in node.barred and fits(demand, node.spec.room) for node in nodes)
            part = self._parts[size] = able / len(nodes)
        return part

    def keeps(self, job: JobState, view: ClusterView) -> float:
        """See Partitioned.keeps."""
        kept = self._constants.kept
        return math.ceil(kept * self.most(job, view)) if self.yields and kept < math.inf else math.inf

    def price(self, job: JobState) -> float:
        """Factor on the price of the job's width."""
        return 1.0

    def curve(self, job: JobState, view: ClusterView) -> Curve:
        """The job's curve, as estimated now."""
        curve = self._curves.get(job.id)
        if curve is None or curve.size_ms != job.size_ms:
            curve = self._curves[job.id] = _curve_of(job, view, inverted=self.params.inverted_levels)
        return curve

    def _leave(self, name: str, view: ClusterView) -> None:
        super()._leave(name, view)
        if name not in view.jobs:
            self._curves.pop(name, None)


def _curve_of(job: JobState, view: ClusterView, *, inverted: bool) -> Curve:
    times = [view.task_ms(job.id, stage.index) for stage in job.stages]
    seconds = tuple((ms or 0.0) / 1000 for ms in times)
    shape = shape_of(job.spec.stages, seconds)
    if shape.work <= 0:
        seconds, shape = (_UNKNOWN_S / shape.tasks,) * len(seconds), shape._replace(work=_UNKNOWN_S)
    executors = executors_of(view, {stage.demand for stage in job.stages})
    return Curve(job.size_ms, seconds, shape.work, executors, tuple(spans(shape, executors, inverted=inverted)))
