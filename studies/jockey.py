"""Jockey's tables: deadlines missed and containers asked for, by how allocations are found and how wrong estimates are.

`make tables` runs it. Runs are kept under OUT; docs/results-deadlines.md is written from its template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import polars as pl
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.abilities import Rehearses, ability
from schedulers.core.model import Job, Stage
from studies.tables import document, filled, mean, over_seeds, run, table

NAME: Final = "results-deadlines"
SLOTS: Final = 50
#: Relative errors of estimates, [lowest, highest], one draw per stage.
ERRORS: Final = ((0.0, 0.0), (-0.5, -0.5), (-0.5, 0.5), (0.5, 0.5))
#: The queues of jobs with and without deadline, half the cluster guaranteed to each under `capacity`.
DUE, REST = "due", "rest"
#: Jobs of a seed, and the mean time between two: a load of about 0.9.
JOBS: Final = 20
_APART_S: Final = 95.0
#: Times over what a job takes at most alone on the cluster that it has until its deadline, of half of the jobs.
FACTORS: Final = (1.0, 3.0)
JOCKEY: Final[Mapping[str, Any]] = {
    "kind": "jockey",
    "policy": {"kind": "fair"},
    "period_ms": 15_000,
    "dead_zone_ms": 20_000,
    "utility": [[0, 1], [120_000, -1], [12_000_000, -1000]],
}
CONTROLS: Final = ("loop", "amdahl", "static", "max")
#: Both queues may have all of the cluster while the other one leaves it.
_ELASTIC: Final = {f"root.{queue}": {"user_limit_factor": 4} for queue in (DUE, REST)}
#: Policies that know no deadline, and guaranteed queues: kept as it is, shared, shared and taken back.
OTHERS: Final[Mapping[str, dict[str, Any]]] = {
    "fifo": {"kind": "fifo"},
    "fair": {"kind": "fair"},
    "capacity": {"kind": "capacity"},
    "capacity_elastic": {"kind": "capacity", "queues": _ELASTIC},
    "capacity_preempting": {"kind": "capacity", "queues": _ELASTIC, "preemption": {"enabled": True}},
}
HEAD: Final = (
    "policy",
    "deadlines met, %",
    "minus loop's, points",
    "late by, s",
    "containers over the oracle's",
    "mean JCT of the others, s",
)


def cluster() -> dict[str, Any]:
    """One-core nodes that beat each second."""
    return {"nodes": [{"count": SLOTS, "capacity": {"cpu": 1}}], "profile": "yarn", "heartbeat": "1s"}


def prepare(out: Path, seed: int) -> Path:
    """Store the jobs of a seed, those with a deadline in a queue of their own; returns the folder."""
    folder = out / f"jobs-{seed}"
    if not api.is_workload(folder):
        random = keyed.generator(seed, "jockey's jobs")
        arrivals = np.cumsum(random.exponential(1000 * _APART_S, JOBS))
        made = (_job(f"j{number:02}", int(at), random) for number, at in enumerate(arrivals))
        plain = Workload(name=f"jobs-{seed}", jobs=tuple(made), resources=("cpu",))
        due = api.with_deadlines(plain, (1000 * SLOTS,), part=0.5, factor=FACTORS, seed=seed)
        replace = msgspec.structs.replace
        jobs = tuple(
            replace(entry, job=replace(entry.job, queue=REST if entry.job.deadline is None else DUE))
            for entry in due.jobs
        )
        api.save_workload(replace(due, jobs=jobs), folder)
    return folder


def _job(name: str, at: int, random: np.random.Generator) -> WorkloadJob:
    """Two to six stages of 5 to 60 tasks of 15 to 60 s on average, each under one or two of those before it."""
    stages, runtimes = [], []
    for index in range(int(random.integers(2, 7))):
        above = {int(random.integers(0, index)) for _ in range(int(random.integers(1, 3)))} if index else set()
        tasks = int(random.integers(5, 61))
        stages.append(Stage(name=f"s{index}", tasks=tasks, demand=(1000,), parents=tuple(sorted(above))))
        runtimes.append(Drawn(float(random.uniform(15_000, 60_000)), 0.3))
    return WorkloadJob(job=Job(id=name, name=name, stages=tuple(stages)), submit_ms=at, runtimes=tuple(runtimes))


def measure(out: Path, seed: int, error: tuple[float, float] | None, jobs: int) -> api.Results:
    """Run one seed under Jockey with estimates as wrong as this, or under the others (None)."""
    if error is None:
        policies = dict(OTHERS)
    else:
        predictor = {"kind": "oracle", "error": list(error)}
        policies = {name: {**JOCKEY, "control": name, "predictor": predictor} for name in CONTROLS}
    name = f"others-{seed}" if error is None else f"jockey-{seed}-{error[0]:g}-{error[1]:g}"
    scenario = document(
        name,
        [seed],
        policies,
        cluster=cluster(),
        queues=[{"name": DUE, "guaranteed": "50%"}, {"name": REST, "guaranteed": "50%"}],
        workload={"kind": "trace", "path": str(prepare(out, seed).resolve())},
    )
    scenario["spec"]["log"] = "full"
    return run(scenario, out / name, jobs)


def of_run(results: api.Results, label: str) -> pl.DataFrame:
    """The jobs under a label; there is one seed."""
    return results.jobs.filter(pl.col("label") == label)


def given_ms(results: api.Results, label: str, seed: int) -> dict[str, int]:
    """By job with a deadline its allocation summed over its life (containers x ms), read off a replay of the log."""
    ends = dict(of_run(results, label).select("id", "finish_ms").drop_nulls().iter_rows())
    given: dict[str, int] = {}
    last: dict[str, tuple[int, int]] = {}  # since when, and how many
    replay = results.replayed(label, seed)
    for _ in replay:
        rehearses = ability(replay.scheduler.policy, Rehearses)
        assert rehearses is not None
        for name, promise in rehearses.new_promises().items():
            since, containers = last.get(name, (promise.made, 0))
            given[name] = given.get(name, 0) + containers * (promise.made - since)
            last[name] = promise.made, promise.containers
    for name, (since, containers) in last.items():
        given[name] += containers * max(0, ends.get(name, since) - since)
    return given


def over_oracle(results: api.Results, label: str, seed: int) -> float:
    """Containers given over time to jobs with deadlines, over their true work, less 1 (what an oracle gives)."""
    work = dict(of_run(results, label).select("id", "work_ms").iter_rows())
    given = given_ms(results, label, seed)
    return float(sum(given.values()) / sum(work[name] for name in given) - 1)


def met_of(measured: Mapping[int, api.Results], label: str) -> list[float]:
    """By seed how many of the deadlines a policy met, in %."""
    return [100 * results.by_label[label][seed]["deadlines"]["met"] for seed, results in measured.items()]


def rows(measured: Mapping[int, api.Results], labels: Sequence[str], loop: Sequence[float]) -> Iterator[list[str]]:
    """Cells of HEAD by policy; measured: by seed. loop: what each is compared with, seed by seed."""
    for label in labels:
        runs = [results.by_label[label][seed] for seed, results in measured.items()]
        met = met_of(measured, label)
        less = "-" if label == CONTROLS[0] else over_seeds([one - other for one, other in zip(met, loop, strict=True)])
        late = mean([each["deadlines"]["late_s"]["mean"] for each in runs])
        others = over_seeds([each["queues"][REST]["jct_s"]["mean"] for each in runs])
        over = None
        if label in CONTROLS:
            over = mean([100 * over_oracle(results, label, seed) for seed, results in measured.items()])
        cells = ("-" if late is None else f"{late:.0f}", "-" if over is None else f"{over:+.0f} %", others)
        yield [label, over_seeds(met), less, *cells]


def said(low: float, high: float) -> str:
    """A range of relative errors, in words."""
    ends = [f"{100 * error:+.0f} %" if error else "0 %" for error in dict.fromkeys((low, high))]
    return " to ".join(ends)


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/deadlines"),
    docs: Annotated[Path, typer.Option(help="the folder with results-deadlines.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="number of seeds")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Run everything, and write docs/results-deadlines.md."""
    out.mkdir(parents=True, exist_ok=True)
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    numbers = range(1, seeds + 1)
    known = {}
    for low, high in ERRORS:
        measured = {seed: measure(out, seed, (low, high), jobs) for seed in numbers}
        known[said(low, high)] = table(HEAD, list(rows(measured, CONTROLS, met_of(measured, CONTROLS[0]))))
    told = {seed: measure(out, seed, ERRORS[0], jobs) for seed in numbers}
    others = {seed: measure(out, seed, None, jobs) for seed in numbers}
    shown = table(HEAD, list(rows(others, tuple(OTHERS), met_of(told, CONTROLS[0]))))
    write_file(docs / f"{NAME}.md", filled(template, jockey=known, others=shown, seeds=seeds))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
