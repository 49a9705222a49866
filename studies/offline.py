"""Every planner on real DAGs: makespans beside Graphene's and the bound, and plans made from wrong estimates.

Each DAG is planned alone on machines of its own (`dags.samples`). Results are kept line by line, so that a run that
is stopped goes on where it was; a change of the planners, of the DAGs or of the settings begins anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

import schedulers.planning
from rm_emulator import api
from schedulers.core import keyed
from schedulers.core.model import Stage
from schedulers.core.resources import Vector
from schedulers.planning.dags.lists import PLANNERS, Estimates, Planner, in_order
from schedulers.planning.dags.schedule import Plan
from schedulers.planning.graphene.construction import build_schedule
from studies import dags
from studies.dags import Sample
from studies.tables import show

#: Seconds that a search may take: a safety net, as no DAG here needs two.
PATIENCE_S: Final = 60.0


def _graphene(
    stages: tuple[Stage, ...],
    runtimes_ms: Estimates,
    capacity: Vector,
    machines: int,
    *,
    never_behind_lists: bool = True,
) -> Plan:
    until = time.monotonic() + PATIENCE_S
    return build_schedule(
        stages,
        runtimes_ms,
        capacity,
        machines,
        never_behind_lists=never_behind_lists,
        stop=lambda: time.monotonic() > until,
    )


#: `graphene_alone` does not begin with the critical-path schedule, which the paper does not do either.
ALL: Final[Mapping[str, Planner]] = {
    "graphene": _graphene,
    "graphene_alone": partial(_graphene, never_behind_lists=False),
    **PLANNERS,
}
#: Whose plans follow estimates of both kinds, of run times, and of demands.
MISLED: Final = ("graphene", "cp", "tetris")
#: Ranges of relative errors, one draw per stage for its run time and its demands; the paper's digits are lost.
ERRORS: Final = ((0.0, 0.0), (-0.75, -0.5), (-0.5, -0.25), (-0.25, 0.25), (0.25, 0.5), (0.5, 0.75))


class Planned(msgspec.Struct, frozen=True):
    """What came of one DAG, in ms. makespans: by planner; misled: by planner, then one for each of ERRORS.

    stopped: a search was ended by the clock, so that its makespan hangs on the machine.
    """

    id: str
    tasks: int
    bound: int
    makespans: dict[str, int]
    misled: dict[str, list[int]] = {}
    stopped: bool = False
    machines: int = 1


def plan(sample: Sample, seed: int, *, errors: bool) -> Planned:
    """Plan one DAG with everybody. errors: also from wrong estimates."""
    at = (sample.capacity, sample.machines)
    plans = {name: planner(sample.stages, sample.runtimes_ms, *at) for name, planner in ALL.items()}
    return Planned(
        id=sample.id,
        tasks=sum(stage.tasks for stage in sample.stages),
        bound=plans["graphene"].bound,
        makespans={name: made.makespan for name, made in plans.items()},
        misled={name: [misled(sample, ALL[name], seed, *error) for error in ERRORS] for name in MISLED}
        if errors
        else {},
        stopped=any(made.ended == "stop" for made in plans.values()),
        machines=sample.machines,
    )


def misled(sample: Sample, planner: Planner, seed: int, low: float, high: float) -> int:
    """Makespan in ms when the plan is made from wrong run times and demands, and its order is kept with true ones.

    Ready stages start as room allows, those that the plan starts first in front. The paper's scheduler also packs
    by wrong demands and suffers where machines are overrun; here what runs never exceeds a machine.
    """
    factors = [
        1 + low + (high - low) * keyed.uniform(seed, "misestimate", sample.id, index)
        for index in range(len(sample.stages))
    ]
    stages = tuple(
        msgspec.structs.replace(stage, demand=_scaled(stage.demand, factor, sample.capacity))
        for stage, factor in zip(sample.stages, factors, strict=True)
    )
    times = [ms * factor for ms, factor in zip(sample.runtimes_ms, factors, strict=True)]
    made = planner(stages, times, sample.capacity, sample.machines)
    ranks = _ranks(made, len(stages))
    return in_order(sample.stages, sample.runtimes_ms, sample.capacity, sample.machines, ranks=ranks).makespan


def _scaled(demand: Vector, factor: float, capacity: Vector) -> Vector:
    return tuple(min(most, max(1, round(amount * factor))) for amount, most in zip(demand, capacity, strict=True))


def _ranks(made: Plan, stages: int) -> list[float]:
    """The first start of each stage's tasks."""
    first = [0.0] * stages
    for place in reversed(made.schedule.placements):
        first[place.stage] = place.start
    return first


# -- All of them, and where they are kept ---------------------------------------------------------------------------


def plan_all(samples: Sequence[Sample], path: Path, seed: int, *, errors: bool = False, jobs: int = 2) -> list[Planned]:
    """Plan them in order, those apart that `path` holds already."""
    header = json.dumps({"code": _digest(), "seed": seed, "errors": errors, "machines": _machines(samples)})
    done = _stored(path, header)
    missing = [sample for sample in samples if sample.id not in done]
    with path.open("a" if done else "w", encoding="utf-8") as out:
        if not done:
            out.write(header + "\n")
        for planned in _planned(missing, partial(plan, seed=seed, errors=errors), jobs):
            done[planned.id] = planned
            out.write(msgspec.json.encode(planned).decode() + "\n")
    return [done[sample.id] for sample in samples]


def _digest() -> str:
    """Of the planners' code and of what makes the DAGs."""
    files = [*sorted(Path(schedulers.planning.__path__[0]).glob("*.py")), Path(dags.__file__)]
    digest = hashlib.sha256(json.dumps([list(ALL), MISLED, ERRORS]).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _machines(samples: Sequence[Sample]) -> list[int]:
    """Tells how many machines the DAGs were given: a sample of another size begins with the same."""
    return [sample.machines for sample in samples[:10]]


def _planned(samples: Sequence[Sample], work: Any, jobs: int) -> Iterator[Planned]:
    if jobs <= 1 or len(samples) < 20:
        yield from map(work, samples)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        yield from pool.map(work, samples, chunksize=5)
    finally:
        pool.shutdown(cancel_futures=True)


def _stored(path: Path, header: str) -> dict[str, Planned]:
    """What a file holds of the same settings, without a line that was cut short."""
    if not path.exists():
        return {}
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    if first != header:
        return {}
    whole = [msgspec.json.decode(line, type=Planned) for line in lines[:-1]]
    if lines and lines[-1]:
        path.write_text("\n".join([first, *lines[:-1], ""]), encoding="utf-8")
    return {each.id: each for each in whole}


#: How many DAGs, by part of the tasks that machines hold at once; None: all there are.
SHARES: Final[Mapping[float, int | None]] = {dags.SHARE: None, 0.1: 600, 0.5: 600}
#: How many DAGs are planned from wrong estimates as well.
WITH_ERRORS: Final = 600


class Measured(msgspec.Struct, frozen=True):
    """Plans by part of the tasks that machines hold at once, and those with wrong estimates; known: DAGs in the trace.

    tpch: plans of TPC-H's queries. production: of `dags.production`.
    """

    shares: dict[float, list[Planned]]
    errors: list[Planned]
    known: int
    tpch: list[Planned]
    production: list[Planned]

    @property
    def stopped(self) -> list[str]:
        """Ids of DAGs of which the clock ended a search."""
        every = [
            *self.errors,
            *self.tpch,
            *self.production,
            *(each for plans in self.shares.values() for each in plans),
        ]
        return list(dict.fromkeys(each.id for each in every if each.stopped))


def measure(out: Path, trace: Path, seed: int, jobs: int, most: int | None = None) -> Measured:
    """Everything that the tables need, at most so many DAGs of each kind."""
    workload = dags.read(trace, seed)

    def some(part: float, wanted: int | None, *, errors: bool) -> list[Planned]:
        chosen = dags.samples(workload, seed, part)[:wanted][:most]
        name = f"offline-{part}{'-errors' if errors else ''}.jsonl"
        return plan_all(chosen, out / name, seed, errors=errors, jobs=jobs)

    queries = dags.samples(dags.tpch(seed), seed)[:most]
    return Measured(
        shares={part: some(part, wanted, errors=False) for part, wanted in SHARES.items()},
        errors=some(dags.SHARE, WITH_ERRORS, errors=True),
        known=len(workload.jobs),
        tpch=plan_all(queries, out / "offline-tpch.jsonl", seed, jobs=jobs),
        production=plan_all(dags.production(seed)[:most], out / "offline-production.jsonl", seed, jobs=jobs),
    )


# -- Tables -----------------------------------------------------------------------------------------------------------

HEAD: Final = (
    "planner",
    "mean",
    "median",
    "P90",
    "largest",
    "longer, %",
    "shorter, %",
    "to the bound: mean",
    "at it, %",
)
HEAD_ERRORS: Final = (
    "errors",
    *(f"{name}: mean, P90" for name in MISLED),
    *(f"{name} to graphene" for name in MISLED[1:]),
)


def p90(ratios: api.Floats) -> api.Floats:
    """The ninth decile over the last axis."""
    quantiles: api.Floats = np.quantile(ratios, 0.9, axis=-1)
    return quantiles


def mean(ratios: api.Floats) -> api.Floats:
    """The mean over the last axis."""
    means: api.Floats = np.mean(ratios, axis=-1)
    return means


def median(ratios: api.Floats) -> api.Floats:
    """The median over the last axis."""
    medians: api.Floats = np.median(ratios, axis=-1)
    return medians


def ratios(pairs: Iterable[tuple[float, float]]) -> api.Floats:
    """The first of each pair by the second."""
    above, below = np.array(list(pairs), dtype=np.float64).T
    divided: api.Floats = above / below
    return divided


def against(plans: Sequence[Planned], name: str) -> str:
    """Mean of a planner's makespans by Graphene's, with its interval."""
    return figure(ratios((each.makespans[name], each.makespans["graphene"]) for each in plans))


def alone(plans: Sequence[Planned]) -> str:
    """Part of the plans that are for a single machine, %."""
    return f"{100 * sum(each.machines == 1 for each in plans) / len(plans):.0f}"


def figure(each: api.Floats, statistic: Callable[[api.Floats], api.Floats] = mean) -> str:
    """A statistic with its 95 % interval over resampled DAGs."""
    return show(api.resampled(each, statistic), digits=3)


def rows(plans: Sequence[Planned]) -> list[list[str]]:
    """Cells of HEAD: makespan by Graphene's, and by the bound."""
    made = []
    for name in plans[0].makespans:
        versus = ratios((each.makespans[name], each.makespans["graphene"]) for each in plans)
        bound = ratios((each.makespans[name], each.bound) for each in plans)
        made.append(
            [
                name,
                *(figure(versus, statistic) for statistic in (mean, median, p90)),
                f"{versus.max():.2f}",
                f"{100 * (versus > 1).mean():.1f}",
                f"{100 * (versus < 1).mean():.1f}",
                figure(bound),
                f"{100 * (bound == 1).mean():.1f}",
            ]
        )
    return made


def error_rows(plans: Sequence[Planned]) -> list[list[str]]:
    """Cells of HEAD_ERRORS: makespan by the one from true estimates, and others' by Graphene's."""
    made = []
    for e, (low, high) in enumerate(ERRORS):
        own = {name: ratios((each.misled[name][e], each.misled[name][0]) for each in plans) for name in MISLED}
        others = [ratios((each.misled[name][e], each.misled["graphene"][e]) for each in plans) for name in MISLED[1:]]
        made.append(
            [
                "none" if (low, high) == (0.0, 0.0) else f"{100 * low:+.0f} to {100 * high:+.0f} %",
                *(f"{figure(own[name])}, {p90(own[name]):.3f}" for name in MISLED),
                *(figure(versus) for versus in others),
            ]
        )
    return made
