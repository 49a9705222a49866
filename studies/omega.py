"""Omega beside what it is compared with: one scheduler, two levels, shared state, over think times, load, schedulers.

A cell is in a steady state from the start: as many services run as run on average, and services end. The figures are
those of a day after a warm-up. Sizes are made up, so it is the shapes of the paper's figures (EuroSys 2013) that can
be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator import api
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.model import Job, Stage
from studies.kept import measured
from studies.steady import marked, quarters
from studies.tables import document, over_seeds, table

#: Think times of services per job, s; a batch job takes the usual 0.1 s (google/cluster-scheduler-simulator).
T_JOBS: Final = (0.1, 10.0, 30.0, 100.0)
#: Of services that are thought about so long, how a claim is refused is compared.
LONG: Final = T_JOBS[1:]
#: Factors on the number of batch jobs; with the factor BUSY more batch schedulers share the jobs.
ARRIVALS: Final = (1, 2, 4, 6, 10)
BUSY: Final = 6
SCHEDULERS: Final = (1, 4, 8, 32)
#: With more batch jobs or schedulers a batch job takes so long, s: one scheduler is saturated inside the table.
SLOW_BATCH_S: Final = 10.0
CORES: Final = 4
#: A scheduler that is busier has no steady state within a day.
OVERLOADED: Final = 0.99


class Cell(msgspec.Struct, frozen=True):
    """Machines of four cores, and two streams of jobs with exponential gaps, widths and run times; times in s.

    Tasks of a job take equally long, one core each. held: the part of the cell that services hold on average.
    Defaults: batch jobs hold 2.5 % of the cell.
    """

    machines: int = 1000
    warm_s: float = 7200.0
    counted_s: float = 86400.0
    batch_gap_s: float = 60.0
    batch_tasks: float = 10.0
    batch_task_s: float = 600.0
    service_gap_s: float = 150.0
    service_tasks: float = 10.0
    held: float = 0.5

    @property
    def service_s(self) -> float:
        """Mean run time of services: by Little's law services then hold their part."""
        return self.held * CORES * self.machines * self.service_gap_s / self.service_tasks

    @property
    def end_s(self) -> float:
        """End of the run."""
        return self.warm_s + self.counted_s


class Case(msgspec.Struct, frozen=True):
    """Who decides, how long about a job, and how many batch jobs come. arrivals: factor on their number."""

    architecture: str = "shared state"
    service_s: float = 0.1
    batch_s: float = 0.1
    schedulers: int = 1
    conflict: str = "resource_fit"
    commit: str = "incremental"
    arrivals: int = 1


class Figures(msgspec.Struct, frozen=True):
    """Of the jobs of a kind in the counted time.

    jobs: submitted. wait_s: mean time until the first attempt begins, of a job without any the time until the end.
    busyness: of the average scheduler of the kind. conflicts: attempts with a refused claim. done: attempts after
    which no task was left. short: attempts that found too little room. given_up: abandoned jobs. quarters_s: waits.
    """

    jobs: int
    wait_s: float
    busyness: float
    conflicts: int
    done: int
    short: int
    given_up: int
    quarters_s: tuple[float, ...]


class Measured(msgspec.Struct, frozen=True):
    """One run."""

    batch: Figures
    service: Figures


Architecture = Mapping[str, Any]
Runs = Mapping[Case, Sequence[Measured]]

COMMITS: Final = {
    "fit, incremental": ("resource_fit", "incremental"),
    "sequence, incremental": ("sequence", "incremental"),
    "fit, all or nothing": ("resource_fit", "all_or_nothing"),
    "sequence, all or nothing": ("sequence", "all_or_nothing"),
}
RIVALS: Final = ("single path", "multi path", "two-level", "shared state")


def settings(case: Case) -> Architecture:
    """The block `architecture`. Services that run from the start are placed by a scheduler of their own, at once."""
    service, batch = (f"{round(1000 * each)}ms" for each in (case.service_s, case.batch_s))
    at_once = {"queues": ["present"], "t_job": "0ms", "t_task": "0ms"}
    if "path" in case.architecture:
        paths = [{"queues": ["service"], "t_job": service, "t_task": "5ms"}]
        usual = service if case.architecture == "single path" else batch
        return {"kind": "central", "t_job": usual, "t_task": "5ms", "paths": [at_once, *paths]}
    schedulers = [
        {"name": "present", **at_once},
        {"name": "service", "queues": ["service"], "t_job": service},
        {"name": "batch", "count": case.schedulers, "t_job": batch},
    ]
    if case.architecture == "two-level":
        return {"kind": "two_level", "schedulers": schedulers}
    return {"kind": "shared_state", "schedulers": schedulers, "conflict": case.conflict, "commit": case.commit}


# -- Jobs ------------------------------------------------------------------------------------------------------------


def workload(cell: Cell, arrivals: int, seed: int) -> Workload:
    """The jobs of a seed: queues `batch`, `service`, and `present` for services that run from the start."""
    batch = _stream("batch", seed, cell.batch_gap_s / arrivals, cell.batch_tasks, cell.batch_task_s, cell.end_s)
    service = _stream("service", seed, cell.service_gap_s, cell.service_tasks, cell.service_s, cell.end_s)
    jobs = [*_present(cell, seed), *batch, *service]
    return Workload(name=f"cell-{seed}", jobs=tuple(sorted(jobs, key=lambda each: each.submit_ms)), resources=("cpu",))


def _stream(queue: str, seed: int, gap_s: float, tasks: float, task_s: float, end_s: float) -> Iterator[WorkloadJob]:
    random, at = keyed.generator(seed, f"omega {queue}"), 0.0
    number = 0
    while (at := at + float(random.exponential(gap_s))) < end_s:
        yield _job(queue, number, at, tasks, task_s, random)
        number += 1


def _present(cell: Cell, seed: int) -> Iterator[WorkloadJob]:
    """A Poisson number of services; what is left of an exponential run time is as long as the whole."""
    random = keyed.generator(seed, "omega present")
    for number in range(int(random.poisson(cell.service_s / cell.service_gap_s))):
        yield _job("present", number, 0.0, cell.service_tasks, cell.service_s, random)


def _job(queue: str, number: int, at_s: float, tasks: float, task_s: float, random: np.random.Generator) -> WorkloadJob:
    """One job. tasks, task_s: means."""
    width, run_s = max(1, math.ceil(random.exponential(tasks) - 0.5)), float(random.exponential(task_s))
    stage = Stage(name="tasks", tasks=width, demand=(1000,))
    job = Job(id=f"{queue}-{number:05}", stages=(stage,), queue=queue)
    return WorkloadJob(job=job, submit_ms=round(1000 * at_s), runtimes=(Fixed(max(1, round(1000 * run_s))),))


# -- A run -----------------------------------------------------------------------------------------------------------


def measure(case: Case, cell: Cell, seed: int) -> Measured:
    """Run one seed, and count after the warm-up."""
    nodes = [{"name": "m", "count": cell.machines, "capacity": {"cpu": CORES}}]
    cluster = {"nodes": nodes, "profile": "events", "architecture": settings(case)}
    policy = {"kind": "requeue", "placement": {"kind": "random_fit"}}
    jobs = workload(cell, case.arrivals, seed)
    until = f"{round(cell.end_s)}s"
    made = document("omega", [seed], {"requeue": policy}, cluster=cluster, workload=jobs, until=until)
    tries = api.play(made).tries
    if "path" in case.architecture:
        return Measured(*(_figures(tries, jobs, queue, cell, "all") for queue in ("batch", "service")))
    return Measured(
        _figures(tries, jobs, "batch", cell, "batch", case.schedulers),
        _figures(tries, jobs, "service", cell, "service"),
    )


def _figures(
    tries: pl.DataFrame, jobs: Workload, queue: str, cell: Cell, scheduler: str, schedulers: int = 1
) -> Figures:
    """Of the jobs of a queue. scheduler, schedulers: begin of the names and number of those that think about them."""
    warm, end = 1000 * cell.warm_s, 1000 * cell.end_s
    submitted = [(each.job.id, each.submit_ms) for each in jobs.jobs if each.job.queue == queue]
    own = tries.filter(pl.col("job").str.starts_with(f"{queue}-"))
    first = dict(own.group_by("job").agg(pl.col("began_ms").min()).iter_rows())
    waits = [first.get(name, end) - at for name, at in submitted if at >= warm]
    who = tries.filter(pl.col("scheduler").str.starts_with(scheduler))
    thought = float((who["ended_ms"].clip(warm, end) - who["began_ms"].clip(warm, end)).sum())
    counted = own.filter(pl.col("ended_ms") >= warm)
    placed, refused, asked = counted["placed"], counted["refused"], counted["asked"]
    return Figures(
        jobs=len(waits),
        wait_s=sum(waits) / len(waits) / 1000,
        busyness=thought / (end - warm) / schedulers,
        conflicts=int((refused > 0).sum()),
        done=int((placed == asked).sum()),
        short=int((placed + refused < asked).sum()),
        given_up=int(counted["given_up"].sum()),
        quarters_s=quarters([wait / 1000 for wait in waits]),
    )


# -- Tables ----------------------------------------------------------------------------------------------------------

Figure = Callable[[Measured], float]
#: What tables show of a run, by name: figures of batch jobs and of services.
SHOWN: Final[Mapping[str, Figure]] = {
    "batch_wait": lambda one: one.batch.wait_s,
    "service_wait": lambda one: one.service.wait_s,
    "batch_busyness": lambda one: one.batch.busyness,
    "service_busyness": lambda one: one.service.busyness,
    "batch_conflicts": lambda one: one.batch.conflicts / max(1, one.batch.done),
    "service_conflicts": lambda one: one.service.conflicts / max(1, one.service.done),
}


def shown(runs: Sequence[Measured], figure: str) -> str:
    """The mean over seeds with its interval, in three significant digits or so; waits that grow in italics.

    Jobs whose turn never came count with their wait until the end, so that waits for an overloaded scheduler do not
    grow towards it: there the scheduler's busyness tells.
    """
    values = [SHOWN[figure](one) for one in runs]
    largest = max(map(abs, values))
    found = over_seeds(values, 0 if largest >= 100 else 1 if largest >= 10 else 2 if largest >= 1 else 3)
    kind = figure.removesuffix("_wait")
    if kind == figure:
        return found
    waited: list[Figures] = [getattr(one, kind) for one in runs]
    overloaded = fmean(each.busyness for each in waited) > OVERLOADED
    return f"*{found}*" if overloaded else marked(found, [each.quarters_s for each in waited])


def rivals(t_job_s: float) -> dict[str, Case]:
    """By row of the tables."""
    return {name: Case(architecture=name, service_s=t_job_s) for name in RIVALS}


def commits(t_job_s: float) -> dict[str, Case]:
    """By row of the table: what refuses a claim, and what that means for the others of its attempt."""
    return {
        name: Case(service_s=t_job_s, conflict=conflict, commit=commit) for name, (conflict, commit) in COMMITS.items()
    }


def more(arrivals: int, schedulers: int = 1) -> Case:
    """More batch jobs, about which schedulers think for long."""
    return Case(service_s=SLOW_BATCH_S, batch_s=SLOW_BATCH_S, arrivals=arrivals, schedulers=schedulers)


def cases() -> list[Case]:
    """All, those of the first tables first."""
    long = [case for t_job_s in LONG for case in commits(t_job_s).values()]
    many = [more(BUSY, count) for count in SCHEDULERS]
    each = [case for t_job_s in T_JOBS for case in rivals(t_job_s).values()]
    return list(dict.fromkeys([*each, *long, *map(more, ARRIVALS), *many]))


def _by_time(runs: Runs, rows: Callable[[float], Mapping[str, Case]], times: Sequence[float], figure: str) -> str:
    """A row per case, a column per think time of services."""
    columns = [rows(t_job_s) for t_job_s in times]
    lines = [[name, *(shown(runs[column[name]], figure) for column in columns)] for name in columns[0]]
    return table(("", *(f"t_job {t_job_s:g} s" for t_job_s in times)), lines)


def _by_case(runs: Runs, name: str, rows: Mapping[int, Case], figures: Mapping[str, str]) -> str:
    """A row per case, a column per figure. figures: by their titles."""
    lines = [[str(row), *(shown(runs[case], figure) for figure in figures.values())] for row, case in rows.items()]
    return table((name, *figures), lines)


def tables(out: Path, seeds: int, jobs: int, cell: Cell = Cell()) -> dict[str, Any]:  # noqa: B008 (frozen)
    """What the page of results shows of Omega, by its names there."""
    kinds = cases()
    found = measured(out, Measured, measure, [(c, cell, s) for s in range(1, seeds + 1) for c in kinds], jobs)
    runs = {case: found[number :: len(kinds)] for number, case in enumerate(kinds)}
    load = {
        "wait of a batch job, s": "batch_wait",
        "busyness of each batch scheduler": "batch_busyness",
        "conflicts per batch job": "batch_conflicts",
        "wait of a service, s": "service_wait",
        "conflicts per service": "service_conflicts",
    }
    usual = runs[rivals(T_JOBS[0])["shared state"]]
    of_all = [each for one in found for each in (one.batch, one.service)]
    return {
        **{figure: _by_time(runs, rivals, T_JOBS, figure) for figure in SHOWN},
        "commits": _by_time(runs, commits, LONG, "service_conflicts"),
        "commit_waits": _by_time(runs, commits, LONG, "service_wait"),
        "arrivals": _by_case(runs, "batch jobs", {each: more(each) for each in ARRIVALS}, load),
        "schedulers": _by_case(runs, "schedulers", {each: more(BUSY, each) for each in SCHEDULERS}, load),
        "jobs": over_seeds([one.batch.jobs for one in usual]),
        "services": over_seeds([one.service.jobs for one in usual]),
        "submitted": f"{sum(each.jobs for each in of_all):,}",
        "abandoned": sum(each.given_up for each in of_all),
        "short": f"{sum(each.short for each in of_all):,}",
    }
