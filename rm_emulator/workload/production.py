"""Large DAGs of unlike tasks, after what Graphene's paper prints about the jobs of a production cluster.

Source: Grandl et al., "Graphene: Packing and Dependency-Aware Scheduling for Data-Parallel Clusters", OSDI 2016,
section 2.2. Most digits of the text at hand are lost; these are not:

- half of the DAGs are deeper than five edges, a quarter deeper than ten;
- a job has tens of stages, and thousands of tasks (on a share of twenty nodes and more here);
- most edges are no barriers;
- tasks take from below a second to hundreds of seconds, and the tasks of a stage alike;
- tasks use cores, memory, disk and network, very differently by stage.

Chosen here:

- The depth is log-normal by the two quantiles, the run time of a stage log-uniform, the demand of a stage for each
  resource uniform, drawn alone (as Decima, section 7.3, draws memory), tasks of a stage log-normal around its time.
- A stage has a parent in the level above, and often another in any level above. A stage *works on the parts* of a
  parent with as many tasks: an edge one to one. Other edges are barriers.
- Work and critical path are equally long on the job's share of the cluster, so neither packing nor dependencies alone
  decide: TWork / CPLength is 1, but for whole numbers of tasks.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.errors import InvalidParameters
from schedulers.core.model import Edge, Job, Node, Stage
from schedulers.core.resources import Resources, Vector

#: Depth in edges: median, and logarithm of the third quartile by the median over that of the normal distribution.
DEPTH: Final = 5.0
_DEPTH_SIGMA: Final = math.log(10 / 5) / 0.6745
#: Mean run time of a stage, shortest and longest, ms.
SHORTEST_MS: Final = 500.0
LONGEST_MS: Final = 300_000.0
#: Coefficient of variation of run times inside a stage.
COV: Final = 0.1
#: Chance of a second parent, and spread (sigma) of the log-normal widths of stages.
_JOINS: Final = 0.3
_WIDTHS: Final = 1.0


class ProductionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs as large and as mixed as those of Graphene's production cluster."""

    jobs: Annotated[int, Meta(ge=1, le=10_000, description="number of jobs, one DAG each")] = 20
    stages: Annotated[
        tuple[Annotated[int, Meta(ge=3, le=1000)], Annotated[int, Meta(ge=3, le=1000)]],
        Meta(description="least and largest number of stages of a job"),
    ] = (30, 60)
    share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="a job's part of the cluster, on which its work takes as long as its critical path; larger: "
            "more tasks",
        ),
    ] = 0.05
    one_to_one: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="part of the stages that work on a parent's parts, task by task, without a barrier",
        ),
    ] = 0.7
    load: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="total work / (cluster x arrival span), met exactly; null: all jobs at time 0"),
    ] = None
    queue: Annotated[str, Meta(description="queue of all jobs")] = "default"
    drawn: Annotated[
        dict[str, Any],
        Meta(
            description="resources of which a task of each stage demands a random part, (0, 1] of these quantities",
            examples=[{"cpu": 1, "network": "100M"}],
        ),
    ] = msgspec.field(default_factory=lambda: {"cpu": 1, "memory": "1Gi", "disk": "1Gi", "network": "1Gi"})


def generate(settings: ProductionSettings, resources: Resources, nodes: Sequence[Node], *, seed: int) -> Workload:
    """The jobs of the seed for a cluster of these nodes; more jobs leave the first jobs unchanged, arrivals apart.

    Raises InvalidParameters for impossible settings, and InvalidQuantity for `drawn`.
    """
    unit = resources.demand(settings.drawn)
    cluster = [sum(node.capacity[r] * node.speed for node in nodes) for r in range(len(unit))]
    _check(settings, unit, cluster, resources)
    share = [settings.share * whole for whole in cluster]
    width = len(str(settings.jobs - 1))
    made = [
        _job(f"production-{number:0{width}d}", settings, unit, share, seed, number) for number in range(settings.jobs)
    ]
    submits = _submits(settings, sum(each.work_ms(cluster) for each in made), seed)
    return Workload(
        name="production_dags",
        jobs=tuple(
            WorkloadJob(job=job, submit_ms=at, runtimes=tuple(Drawn(mean_ms=ms, cov=COV) for ms in means))
            for (job, means), at in zip(made, submits, strict=True)
        ),
        resources=resources.names,
        source="drawn, after Graphene, OSDI 2016, section 2.2",
    )


class _Made(NamedTuple):
    job: Job
    means: list[float]
    """Run time of a task of each stage, ms."""

    def work_ms(self, capacity: Sequence[float]) -> float:
        """TWork on so much capacity."""
        stages = self.job.stages
        return _work_ms([s.tasks for s in stages], self.means, [s.demand for s in stages], capacity)


def _check(settings: ProductionSettings, unit: Vector, cluster: Sequence[float], resources: Resources) -> None:
    least, most = settings.stages
    if least > most:
        raise InvalidParameters(f"production_dags: stages [{least}, {most}] (the least number first)")
    if not any(unit):
        raise InvalidParameters(f"production_dags: drawn {settings.drawn} asks for nothing (one resource at least)")
    for name, wanted, there in zip(resources.names, unit, cluster, strict=True):
        if wanted and not there:
            raise InvalidParameters(
                f"production_dags: tasks demand {name}, of which the nodes have none (`drawn` names the resources)"
            )
    if settings.load is not None and settings.jobs < 2:
        raise InvalidParameters("production_dags: load needs two jobs at least (the load is over the arrival span)")


def _submits(settings: ProductionSettings, work_ms: float, seed: int) -> list[int]:
    """Arrival times in ms, ascending, the first at 0. work_ms: of all jobs on the whole cluster."""
    if settings.load is None:
        return [0] * settings.jobs
    gaps = keyed.generator(seed, "production arrivals").exponential(1.0, settings.jobs - 1)
    times = list(accumulate([0.0, *gaps.tolist()]))
    return [round(at / times[-1] * work_ms / settings.load) for at in times]


def _job(
    ident: str, settings: ProductionSettings, unit: Vector, share: Sequence[float], seed: int, number: int
) -> _Made:
    shape = keyed.generator(seed, "production shape", number)
    least, most = settings.stages
    count = least + int(shape.random() * (most + 1 - least))
    parents, widths = _shape(_levels(count, shape), settings.one_to_one, shape)
    means = [SHORTEST_MS * (LONGEST_MS / SHORTEST_MS) ** draw for draw in shape.random(count).tolist()]
    draws = keyed.generator(seed, "production demands", number).random((count, len(unit))).tolist()
    demands = [tuple(math.ceil((1 - draw) * amount) for draw, amount in zip(row, unit, strict=True)) for row in draws]
    path = _path_ms(parents, means)
    scale = path / _work_ms(widths, means, demands, share)
    stages = tuple(
        Stage(
            name=f"s{index:0{len(str(count - 1))}d}",
            tasks=max(1, round(scale * widths[index])),
            demand=demands[index],
            parents=tuple(
                # As wide to the last digit only by working on its parts: see `_shape`.
                Edge(parent=above, kind="one_to_one") if widths[above] == widths[index] else above
                for above in parents[index]
            ),
        )
        for index in range(count)
    )
    return _Made(Job(id=ident, stages=stages, name=ident, app="production", queue=settings.queue), means)


def _levels(count: int, shape: np.random.Generator) -> list[int]:
    """Level of each stage, ascending: none is empty."""
    depth = round(DEPTH * math.exp(_DEPTH_SIGMA * float(shape.standard_normal())))
    levels = min(max(depth, 1), count - 1) + 1
    return sorted([*range(levels), *(int(draw * levels) for draw in shape.random(count - levels).tolist())])


def _shape(
    levels: Sequence[int], one_to_one: float, shape: np.random.Generator
) -> tuple[list[tuple[int, ...]], list[float]]:
    """Per stage its parents, and its width relative to others: a parent's if the stage works on its parts."""
    parents: list[tuple[int, ...]] = []
    widths: list[float] = []
    wide = np.exp(_WIDTHS * shape.standard_normal(len(levels))).tolist()
    for index, (first, joins, second, local) in enumerate(shape.random((len(levels), 4)).tolist()):
        level = levels[index]
        if not level:
            parents.append(())
            widths.append(wide[index])
            continue
        start, end = bisect_left(levels, level - 1), bisect_left(levels, level)
        chosen = {start + int(first * (end - start))}
        widths.append(widths[min(chosen)] if local < one_to_one else wide[index])
        if joins < _JOINS:
            chosen.add(int(second * end))
        parents.append(tuple(sorted(chosen)))
    return parents, widths


def _path_ms(parents: Sequence[Sequence[int]], means: Sequence[float]) -> float:
    """CPLength: the longest path through the stages, parents before children."""
    ends: list[float] = []
    for above, mean in zip(parents, means, strict=True):
        ends.append(mean + max((ends[parent] for parent in above), default=0.0))
    return max(ends)


def _work_ms(
    tasks: Sequence[float], means: Sequence[float], demands: Sequence[Vector], capacity: Sequence[float]
) -> float:
    """TWork: the time that the work takes at full use of the resource in shortest supply."""
    return max(
        sum(n * ms * demand[r] for n, ms, demand in zip(tasks, means, demands, strict=True)) / whole
        for r, whole in enumerate(capacity)
        if whole
    )
