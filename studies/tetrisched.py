"""TetriSched's tables: deadlines met beside its ablations and guaranteed queues, by how wrong estimates are.

`make tables` runs it. Runs are kept under OUT; docs/results-wishes.md is written from its template.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import polars as pl
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from rm_emulator.workload.model import Drawn, PerNode, RunTimes, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.decisions import Decision
from schedulers.core.events import Event, Tick
from schedulers.core.model import Job, Stage, Wish, Wishes
from schedulers.core.scheduler import Scheduler
from studies.jockey import DUE, OTHERS, REST, said
from studies.kept import measured
from studies.tables import document, filled, over_seeds, table

NAME: Final = "results-wishes"
#: Racks of so many nodes, each with room for one task; the first of them have GPUs.
RACKS, RACK, GPU_RACKS = 8, 8, 2
#: Relative errors of all estimates.
ERRORS: Final = (-0.5, 0.0, 0.5)
#: Jobs of a seed, and the mean time between two: a load of about 1.
JOBS: Final = 80
_APART_S: Final = 6.0
#: How many times as long tasks take on nodes that are not those that their job would like.
_SLOWER: Final = 1.5
#: Times over what a job takes at best that it has until its deadline.
_FACTORS: Final = (1.5, 4.0)
BASELINE: Final = "tetrisched"
POLICIES: Final[Mapping[str, dict[str, Any]]] = {
    BASELINE: {},
    "no_preferences": {"preferences": "none"},
    "no_global_plan": {"search": "one_by_one"},
    "no_plan_ahead": {"plan_ahead_s": 0.0},
    "hard": {"preferences": "hard"},
}
HEAD: Final = (
    "policy",
    "deadlines met, %",
    "minus tetrisched's, points",
    "accepted, %",
    "met of these, %",
    "mean JCT of best effort, s",
    "cycle, ms",
    "longest, ms",
)


class Measured(msgspec.Struct, frozen=True):
    """One run. cycles: CPU seconds of each plan. rest_s: mean JCT without deadlines.

    due: jobs with a deadline. met: those that kept it. accepted: those that a plan ever had keep it. kept: both.
    """

    due: int
    met: int
    accepted: int
    kept: int
    rest_s: float
    cycles: tuple[float, ...]


class Watched:
    """Remembers which deadlines a plan has ever kept, and how long each tick took at which anybody waited."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.cycles: list[float] = []

    def __call__(self, scheduler: Scheduler, event: Event, decide: api.Decide) -> list[Decision]:
        """See `api.Watch`."""
        if not (isinstance(event, Tick) and scheduler.state.waiting):
            return decide(event)
        begun = time.process_time()
        decisions = decide(event)
        self.cycles.append(time.process_time() - begun)
        state, policy = scheduler.state, scheduler.policy
        self.accepted |= {name for name, job in state.jobs.items() if policy.about(job).get("accepted")}
        return decisions


#: By name of each rack the instance type of its nodes, which have room for one task each.
KINDS: Final = {f"{'gpu' if rack < GPU_RACKS else 'plain'}-{rack}": rack < GPU_RACKS for rack in range(RACKS)}
NODES: Final = {f"{rack}-{number + 1}": has_gpus for rack, has_gpus in KINDS.items() for number in range(RACK)}


def cluster() -> dict[str, Any]:
    """Racks of equal nodes that decide at once."""
    racks = [
        {
            "name": f"{rack}-",
            "count": RACK,
            "capacity": {"cpu": 1},
            "rack": rack,
            "kind": "gpu" if has_gpus else "plain",
        }
        for rack, has_gpus in KINDS.items()
    ]
    return {"nodes": racks, "profile": "events"}


def workload(seed: int) -> Workload:
    """The jobs of a seed."""
    random = keyed.generator(seed, "tetrisched's jobs")
    arrivals = np.cumsum(random.exponential(1000 * _APART_S, JOBS))
    made = (_job(f"j{number:02}", int(at), random) for number, at in enumerate(arrivals))
    return Workload(name=f"jobs-{seed}", jobs=tuple(made), resources=("cpu",))


def _job(name: str, at: int, random: np.random.Generator) -> WorkloadJob:
    """Three of four have a deadline: gangs that would like GPUs, or one rack for all. The others take what there is."""
    kind = ("gpu", "mpi", "rest")[int(random.choice(3, p=(0.375, 0.375, 0.25)))]
    mean, tasks = float(random.uniform(20_000, 80_000)), int(random.integers(4, 25 if kind == "rest" else 9))
    due = at + round(float(random.uniform(*_FACTORS)) * mean)
    stage = Stage(name=kind, tasks=tasks, demand=(1000,), gang=kind != "rest")
    job = Job(id=name, name=kind, stages=(stage,), queue=REST if kind == "rest" else DUE)
    times: RunTimes = Drawn(mean, 0.1)
    if kind == "gpu":
        job = msgspec.structs.replace(job, deadline=due, wishes=Wishes(prefer=(Wish(device="gpu"), Wish())))
        times = _by_kind(mean, tasks, random)
    elif kind == "mpi":
        ways = Wish(same_rack=True), Wish(slowdown=_SLOWER)
        job = msgspec.structs.replace(job, deadline=due, wishes=Wishes(prefer=ways))
    return WorkloadJob(job=job, submit_ms=at, runtimes=(times,), apart=_SLOWER if kind == "mpi" else 1.0)


def _by_kind(mean: float, tasks: int, random: np.random.Generator) -> PerNode:
    """Run times of tasks that are faster on nodes with GPUs."""
    there = {node: 1.0 if has_gpus else _SLOWER for node, has_gpus in NODES.items()}
    drawn = np.maximum(1.0, random.normal(mean, 0.1 * mean, tasks))
    return PerNode(tuple(there), tuple(tuple(round(ms * factor) for factor in there.values()) for ms in drawn))


def measure(label: str, error: float | None, seed: int) -> Measured:
    """Run one seed under one of POLICIES with estimates as wrong as this, or under one of OTHERS (None)."""
    if error is None:
        return _run(OTHERS[label], {}, seed)
    told = {"predictor": {"kind": "oracle", "error": [error, error]}}
    return _run({"kind": "tetrisched", **POLICIES[label]}, told, seed)


def _run(policy: Mapping[str, Any], told: Mapping[str, Any], seed: int) -> Measured:
    queues = [{"name": DUE, "guaranteed": "75%"}, {"name": REST, "guaranteed": "25%"}]
    made = document(
        "wishes", [seed], {"one": {**policy, **told}}, cluster=cluster(), queues=queues, workload=workload(seed)
    )
    watched = Watched()
    ended = api.play(made, watch=watched).jobs
    finished, jct_s = pl.col("finish_ms"), (pl.col("finish_ms") - pl.col("submit_ms")).mean() / 1000
    hurried = ended.filter(pl.col("deadline_ms").is_not_null())
    due = dict(hurried.select("id", (finished <= pl.col("deadline_ms")).fill_null(False)).iter_rows())
    rest = ended.filter(pl.col("deadline_ms").is_null() & finished.is_not_null())
    return Measured(
        due=len(due),
        met=sum(due.values()),
        accepted=len(watched.accepted),
        kept=sum(due[name] for name in watched.accepted),
        rest_s=rest.select(jct_s).item(),
        cycles=tuple(watched.cycles),
    )


def rows(
    runs: Mapping[str, Sequence[Measured]], beside: Sequence[Measured], *, plans: bool = True
) -> Iterator[list[str]]:
    """Cells of HEAD; runs: by policy, one for each seed. beside: what each is compared with, seed by seed."""
    for label, seeds in runs.items():
        less = [100 * (one.met - other.met) / one.due for one, other in zip(seeds, beside, strict=True)]
        cycles = [1000 * cycle for each in seeds for cycle in each.cycles]
        accepted = (
            over_seeds([100 * each.accepted / each.due for each in seeds]),
            over_seeds([100 * each.kept / each.accepted for each in seeds if each.accepted]),
        )
        yield [
            label,
            over_seeds([100 * each.met / each.due for each in seeds]),
            "-" if seeds == beside else over_seeds(less),
            *(accepted if plans else "--"),
            over_seeds([each.rest_s for each in seeds]),
            *((f"{fmean(cycles):.0f}", f"{max(cycles):.0f}") if plans else "--"),
        ]


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/wishes"),
    docs: Annotated[Path, typer.Option(help="the folder with results-wishes.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="number of seeds")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Run everything, and write docs/results-wishes.md."""
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    kinds = [*((label, error) for error in ERRORS for label in POLICIES), *((label, None) for label in OTHERS)]
    cells = [(label, error, seed) for label, error in kinds for seed in range(1, seeds + 1)]
    found = dict(zip(cells, measured(out, Measured, measure, cells, jobs), strict=True))

    def of(labels: Iterable[str], error: float | None) -> dict[str, list[Measured]]:
        return {label: [found[label, error, seed] for seed in range(1, seeds + 1)] for label in labels}

    best = {error: [found[BASELINE, error, seed] for seed in range(1, seeds + 1)] for error in ERRORS}
    known = {said(error, error): table(HEAD, list(rows(of(POLICIES, error), best[error]))) for error in ERRORS}
    others = table(HEAD, list(rows(of(OTHERS, None), best[0.0], plans=False)))
    write_file(docs / f"{NAME}.md", filled(template, tetrisched=known, others=others, seeds=seeds, jobs=JOBS))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
