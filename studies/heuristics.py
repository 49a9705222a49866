"""Planners of DAGs on unlike machines: on random DAGs of the HEFT literature and on LACHESIS's batches, beside SAGA's.

    python -m studies.heuristics --docs docs [--saga PYTHON]

Every plan passes `rm_emulator.known_answers.schedules`, or the run ends. SAGA runs in an environment of its own, if one
is given, and knows machines only that differ in speed. What has been planned is kept, so that a run that is stopped
goes on where it was; a change of planners, DAGs or settings begins anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import typer

import schedulers.planning.unrelated
from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.known_answers.schedules import Problem, TaskRun, violations
from rm_emulator.program import end
from rm_emulator.workload.model import Fixed
from schedulers.planning.unrelated.deft import ORDERS, deft
from schedulers.planning.unrelated.dfrn import dfrn
from schedulers.planning.unrelated.instance import Edge, Instance
from schedulers.planning.unrelated.planners import PLANNERS
from schedulers.planning.unrelated.ranks import rank_up, static_levels
from schedulers.planning.unrelated.tdca import tdca
from schedulers.planning.unrelated.tds import tds
from schedulers.planning.unrelated.timelines import TimelinePlan
from studies import beside_saga
from studies.tables import filled, show, table

Planner = Callable[[Instance], TimelinePlan]
SEEDS: Final = 10
#: Random DAGs of a seed: 300 in all.
DAGS: Final = 30
#: Machines of the random DAGs.
MACHINES: Final = 8
#: Executors and numbers of jobs of LACHESIS's batches. SAGA, whose ETF would take minutes, has the small ones.
EXECUTORS: Final = 50
BATCHES: Final = (1, 5, 10, 20, 50)
SMALL: Final = 20
#: How long the mean transfer of a batch takes beside its mean task.
CCR: Final = 5.0


def _deft(made: Instance, order: str, *, copies: bool) -> TimelinePlan:
    return deft(made, ORDERS[order](made), runs=math.inf if copies else 1)


def _copying() -> Iterator[tuple[str, tuple[Planner, Planner]]]:
    for order in ORDERS:
        yield f"deft, {order}", (partial(_deft, order=order, copies=True), partial(_deft, order=order, copies=False))
    yield "deft, insertion", (partial(deft, insertion=True), partial(deft, insertion=True, runs=1))
    yield "tds", (tds, partial(tds, copies=False))
    yield "dfrn", (dfrn, partial(dfrn, copies=False))
    yield "tdca", (tdca, partial(tdca, copies=False))


#: Our HEFT by SAGA's means, which should be SAGA's.
ALIKE: Final = "heft by SAGA's means"
#: Those that copy, and the same without copies.
COPYING: Final[Mapping[str, tuple[Planner, Planner]]] = dict(_copying())
ALL: Final[Mapping[str, Planner]] = {
    **{name: planner for name, planner in PLANNERS.items() if name in ("heft", "cpop", "dls", "peft", "etf")},
    **{name: planner for name, (planner, _) in COPYING.items()},
}


class Sample(msgspec.Struct, frozen=True):
    """One DAG to plan. sizes and speeds: where these alone make the times, for SAGA."""

    seed: int
    times: Sequence[Sequence[float]]
    edges: Sequence[Edge]
    rate: float
    sizes: Sequence[float] = ()
    speeds: Sequence[float] = ()


class Planned(msgspec.Struct, frozen=True):
    """What came of a DAG: makespan, without copies, copies, and CPU ms per task, by planner.

    sequential: all tasks on the best single machine; path: the longest way by each task's least time.
    """

    seed: int
    tasks: int
    sequential: float
    path: float
    makespans: dict[str, float]
    without: dict[str, float]
    copies: dict[str, int]
    ms: dict[str, float]


# -- What is planned --------------------------------------------------------------------------------------------------


def literature(seeds: int, count: int, *, related: bool = False) -> Iterator[Sample]:
    """Random DAGs with the shapes of the HEFT paper. related: on machines of LACHESIS's speeds; else unrelated."""
    for seed in range(1, seeds + 1):
        speeds = api.executor_speeds(MACHINES, seed=seed)
        for made in api.literature_dags(count, speeds if related else MACHINES, seed=seed):
            if related:
                times = np.array(made.sizes, dtype=np.float64)[:, None] / np.array(speeds)
                yield Sample(seed, times.tolist(), made.edges, made.rate / 1000, made.sizes, speeds)
            else:
                yield Sample(seed, made.times, made.edges, made.rate / 1000)


def batches(seeds: int, jobs: int) -> Iterator[Sample]:
    """LACHESIS's batches of so many jobs at once, a stage as one task, as one DAG each."""
    for seed in range(1, seeds + 1):
        speeds = api.executor_speeds(EXECUTORS, seed=seed)
        cluster = {"nodes": [{"capacity": {"cpu": 1}, "speed": speed} for speed in speeds]}
        made = api.generated({"kind": "lachesis", "jobs": jobs, "ccr": CCR}, seed=seed, cluster=cluster)
        sizes: list[float] = []
        edges: list[Edge] = []
        for entry in made.jobs:
            first = len(sizes)
            for number, (stage, times) in enumerate(zip(entry.job.stages, entry.runtimes, strict=True)):
                assert isinstance(times, Fixed), "a stage is one task"
                sizes.append(times.ms)
                edges += [(first + edge.parent, first + number, edge.data) for edge in stage.edges]
        matrix = np.array(sizes)[:, None] / np.array(speeds)
        yield Sample(seed, matrix.tolist(), edges, api.DAG_RATE / 1000, sizes, speeds)


def plan(sample: Sample) -> Planned:
    """Plan one DAG with everybody. Raises ValueError for a plan that is no schedule."""
    made = Instance(sample.times, sample.edges, sample.rate)
    plans, ms = {}, {}
    for name, planner in ALL.items():
        begun = time.process_time()
        plans[name] = planner(made)
        ms[name] = 1000 * (time.process_time() - begun) / made.tasks
    for name, each in plans.items():
        _check(sample, name, each)
    return Planned(
        seed=sample.seed,
        tasks=made.tasks,
        sequential=float(made.times.sum(axis=0).min()),
        path=max(static_levels([float(x) for x in made.times.min(axis=1)], made)),
        makespans={name: each.makespan for name, each in plans.items()},
        without={name: without(made).makespan for name, (_, without) in COPYING.items()},
        copies={name: plans[name].copies for name in COPYING},
        ms=ms,
    )


def _check(sample: Sample, name: str, made: TimelinePlan) -> None:
    machines = len(sample.times[0])
    problem = Problem(
        times=sample.times,
        machines=machines,
        edges=sample.edges,
        rates=sample.rate,
        copies=machines if name in COPYING else 1,
    )
    for wrong in violations(problem, [TaskRun(p.task, p.machine, p.start, p.end, p.copy) for p in made.placements]):
        raise ValueError(f"a plan by {name} is none: {wrong}")


def with_saga(python: str, samples: Sequence[Sample], planned: Sequence[Planned]) -> list[Planned]:
    """The same with SAGA's makespans and times, as `SAGA HEFT` and so on."""
    asked = "".join(
        json.dumps({"sizes": s.sizes, "speeds": s.speeds, "edges": s.edges, "rate": s.rate}) + "\n" for s in samples
    )
    ran = subprocess.run(  # noqa: S603 (the user's own choice)
        [python, beside_saga.__file__],
        input=asked,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    made = []
    for sample, each, line in zip(samples, planned, ran.stdout.splitlines(), strict=True):
        answers: dict[str, tuple[float, float]] = {f"SAGA {name}": both for name, both in json.loads(line).items()}
        makespans = each.makespans | {name: makespan for name, (makespan, _) in answers.items()}
        makespans[ALIKE] = _with_its_means(sample)
        ms = each.ms | {name: 1000 * seconds / each.tasks for name, (_, seconds) in answers.items()}
        made.append(msgspec.structs.replace(each, makespans=makespans, ms=ms))
    return made


def _with_its_means(sample: Sample) -> float:
    """Our HEFT's makespan by SAGA's ranks: its mean transfer also counts one of no time within each machine."""
    made = Instance(sample.times, sample.edges, sample.rate)
    part = (made.machines - 1) / (made.machines + 1)
    ranks = rank_up(
        made.mean_times(), [(parent, child, part * transfer) for parent, child, transfer in made.mean_edges]
    )
    return deft(made, ranks, insertion=True, runs=1).makespan


# -- Tables -----------------------------------------------------------------------------------------------------------

HEAD: Final = (
    "planner",
    "makespan / HEFT's",
    "speedup",
    "speedup minus HEFT's",
    "SLR",
    "SLR minus HEFT's",
    "shortest, %",
    "copies per task",
    "copies save, %",
    "ms per task: P50, P98",
)


def rows(planned: Sequence[Planned]) -> list[list[str]]:
    """Cells of HEAD. Intervals are over seeds' means of what is paired DAG by DAG; shortest: no plan of ours is."""
    shortest = np.array([min(each.makespans[name] for name in ALL) for each in planned])
    sequential, path = np.array([each.sequential for each in planned]), np.array([each.path for each in planned])
    heft = np.array([each.makespans["heft"] for each in planned])
    made = []
    for name in planned[0].makespans:
        makespans = np.array([each.makespans[name] for each in planned])
        ms = np.array([each.ms[name] for each in planned if name in each.ms])
        saved = copies = "-"
        if name in COPYING:
            without = np.array([each.without[name] for each in planned])
            saved = over_seeds(planned, 100 * (1 - makespans / without), digits=1)
            copies = f"{sum(each.copies[name] for each in planned) / sum(each.tasks for each in planned):.2f}"
        made.append(
            [
                name,
                over_seeds(planned, makespans / heft),
                f"{(sequential / makespans).mean():.2f}",
                over_seeds(planned, sequential / makespans - sequential / heft),
                f"{(makespans / path).mean():.2f}",
                over_seeds(planned, makespans / path - heft / path),
                f"{100 * (makespans <= shortest * (1 + 1e-9)).mean():.0f}",
                copies,
                saved,
                f"{np.quantile(ms, 0.5):.3f}, {np.quantile(ms, 0.98):.3f}" if len(ms) else "-",
            ]
        )
    return made


def over_seeds(planned: Sequence[Planned], values: Any, digits: int = 3) -> str:
    """The mean with its 95 % interval by Student's t over seeds, DAGs of one seed together."""
    by_seed: dict[int, list[float]] = {}
    for each, value in zip(planned, values, strict=True):
        by_seed.setdefault(each.seed, []).append(float(value))
    means = [float(np.mean(of_seed)) for of_seed in by_seed.values()]
    return show(api.interval(means), digits)


class Measured(msgspec.Struct, frozen=True):
    """Plans of DAGs on unrelated machines, on machines of unlike speed, and of batches by number of jobs."""

    unrelated: list[Planned]
    related: list[Planned]
    batches: dict[int, list[Planned]]


def measure(
    out: Path, seeds: int = SEEDS, count: int = DAGS, jobs: Sequence[int] = BATCHES, saga: str | None = None
) -> Measured:
    """Everything that the page needs, or what `out` keeps of it; saga: a Python that has it."""

    def some(name: str, made: Iterable[Sample], *, beside: bool) -> list[Planned]:
        samples = list(made)
        path, header = out / f"{name}.jsonl", f"{_digest(samples)} {bool(saga)}"
        if path.exists():
            first, *lines = path.read_text(encoding="utf-8").splitlines()
            if first == header:
                return [msgspec.json.decode(line, type=Planned) for line in lines]
        planned = list(map(plan, samples))
        if beside and saga:
            planned = with_saga(saga, samples, planned)
        write_file(path, "\n".join([header, *(msgspec.json.encode(each).decode() for each in planned), ""]))
        return planned

    return Measured(
        unrelated=some("unrelated", literature(seeds, count), beside=False),
        related=some("related", literature(seeds, count, related=True), beside=True),
        batches={number: some(f"batches-{number}", batches(seeds, number), beside=number <= SMALL) for number in jobs},
    )


def _digest(samples: Sequence[Sample]) -> str:
    """Of the DAGs and of the planners' code."""
    digest = hashlib.sha256(msgspec.json.encode([list(ALL), samples]))
    for file in [*sorted(Path(schedulers.planning.unrelated.__path__[0]).glob("*.py")), Path(beside_saga.__file__)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def page(measured: Measured, template: str) -> str:
    """The page: the template's prose with the measured tables in it."""
    return filled(
        template,
        unrelated=table(HEAD, rows(measured.unrelated)),
        related=table(HEAD, rows(measured.related)),
        batches={number: table(HEAD, rows(planned)) for number, planned in measured.batches.items()},
        seeds=len({each.seed for each in measured.unrelated}),
        dags=len(measured.unrelated),
        machines=MACHINES,
        executors=EXECUTORS,
        ccr=f"{CCR:g}",
        saga=any(ALIKE in each.makespans for each in measured.related),
        alike=sum(
            math.isclose(each.makespans[ALIKE], each.makespans["SAGA HEFT"], rel_tol=1e-9)
            for each in measured.related
            if ALIKE in each.makespans
        ),
    )


def main(
    out: Annotated[Path, typer.Option(help="where the plans' lengths are kept")] = Path("out/heuristics"),
    docs: Annotated[Path, typer.Option(help="the folder with results-heuristics.in.md")] = Path("docs"),
    saga: Annotated[str, typer.Option(help="a Python that has anrg-saga; without one its rows are left out")] = "",
) -> None:
    """Plan all DAGs with everybody and write docs/results-heuristics.md."""
    out.mkdir(parents=True, exist_ok=True)
    template = (docs / "results-heuristics.in.md").read_text(encoding="utf-8")
    write_file(docs / "results-heuristics.md", page(measure(out, saga=saga or None), template))
    typer.echo(f"{docs / 'results-heuristics.md'} written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
