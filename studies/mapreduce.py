"""Omega's MapReduce scheduler: jobs that take idle resources beyond the workers they ask for (EuroSys 2013, section 6).

A job has activities of equal length and asks for workers, as many of its activities run at once. Three policies let a
job have more while the cell has room. The jobs are made up: only the shapes of Figure 15 can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
import polars as pl

from rm_emulator import api
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.model import Job, Stage
from schedulers.core.policy import ClusterView, Offer, Policy, Suggestion, Suggestions, policies
from schedulers.core.state import JobState
from studies.kept import measured
from studies.omega import CORES, Cell, workload
from studies.tables import document, over_seeds, table

#: Parts of the cell that services hold: about as much as in an emptier and in a fuller cell.
HELD: Final = (0.35, 0.65)
#: Numbers of workers that people ask for, and how often (made up, but for the peaks at 5, 11 and 200).
WORKERS: Final = (5, 11, 200)
_PARTS: Final = (0.6, 0.35, 0.05)
#: Activities for each worker are drawn evenly on a logarithmic scale from 1 up to this number.
_ROUNDS: Final = 20.0
_ACTIVITY_S: Final = 60.0
_GAP_S: Final = 400.0
#: Multiple of the asked workers with `relative`, and the use of the cell above which `cap` gives no more.
_MULTIPLE: Final = 4
_CAP: Final = 0.6
MORE: Final = {
    "none": "workers as asked",
    "any": "max-parallelism",
    "cap": "global cap",
    "relative": "relative job size",
}
QUEUE: Final = "mapreduce"


class Workers(Policy):
    """Serves jobs in order of submission; a job's `app` may be the number of its tasks that run at once.

    Such a job may have more where `more` says so: any number, as long as tasks hold less than 60 % of the cell (cap),
    or four times as many (relative).
    """

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        more: Annotated[
            Literal["none", "any", "cap", "relative"],
            msgspec.Meta(description="what a job may have beyond its workers"),
        ] = "none"

    params: Params

    def schedule(self, view: ClusterView, offer: Offer) -> Suggestions:
        """See Policy.schedule."""
        for job in list(view.waiting.values()):
            for stage in tuple(job.open_stages()):
                count = min(stage.waiting, self._most(job, view) - job.running)
                if count > 0 and offer.fits(job, stage):
                    yield Suggestion(job.id, stage.index, count=count)

    def _most(self, job: JobState, view: ClusterView) -> int:
        """Tasks of the job that may run at once."""
        tasks, more = sum(stage.tasks for stage in job.spec.stages), self.params.more
        if not job.spec.app or more == "any":
            return tasks
        workers = int(job.spec.app)
        if more == "relative":
            return _MULTIPLE * workers
        if more == "cap":
            left = int(_CAP * view.capacity[0]) - (view.capacity[0] - view.spare()[0])
            return max(workers, job.running + left // job.spec.stages[0].demand[0])
        return workers


def register() -> None:
    """Make the policy known as `workers`; not on import, after which lists of the product's policies would have it."""
    policies.register("workers", source="Omega (EuroSys 2013), section 6.1", worlds=("emulator",))(Workers)


class Ran(msgspec.Struct, frozen=True):
    """One run. jct_s: by MapReduce job of the counted time. others_s: mean time until another job's first task."""

    jct_s: dict[str, float]
    others_s: float


def jobs_of(cell: Cell, seed: int) -> Workload:
    """The cell's jobs, and those of MapReduce."""
    random, at, made = keyed.generator(seed, "omega mapreduce"), 0.0, list[WorkloadJob]()
    while (at := at + float(random.exponential(_GAP_S))) < cell.end_s:
        made.append(_job(len(made), at, random))
    others = workload(cell, 1, seed)
    jobs = sorted((*others.jobs, *made), key=lambda each: each.submit_ms)
    return msgspec.structs.replace(others, jobs=tuple(jobs))


def _job(number: int, at_s: float, random: np.random.Generator) -> WorkloadJob:
    workers = int(random.choice(WORKERS, p=_PARTS))
    activities = round(workers * float(np.exp(random.uniform(0, np.log(_ROUNDS)))))
    ms = max(1, round(1000 * float(random.exponential(_ACTIVITY_S))))
    stage = Stage(name="map", tasks=activities, demand=(1000,))
    job = Job(id=f"{QUEUE}-{number:05}", stages=(stage,), queue=QUEUE, app=str(workers))
    return WorkloadJob(job=job, submit_ms=round(1000 * at_s), runtimes=(Fixed(ms),))


def measure(more: str, cell: Cell, seed: int) -> Ran:
    """Run one seed, and count after the warm-up."""
    register()
    nodes = [{"name": "m", "count": cell.machines, "capacity": {"cpu": CORES}}]
    policy = {"kind": "workers", "more": more, "placement": {"kind": "random_fit"}}
    cluster = {"nodes": nodes, "profile": "events"}
    until = f"{round(cell.end_s)}s"
    made = document("mapreduce", [seed], {more: policy}, cluster=cluster, workload=jobs_of(cell, seed), until=until)
    counted = api.play(made).jobs.filter(pl.col("submit_ms") >= 1000 * cell.warm_s)
    done = counted.filter((pl.col("queue") == QUEUE) & pl.col("finish_ms").is_not_null())
    jct_s = done.select("id", (pl.col("finish_ms") - pl.col("submit_ms")) / 1000)
    others = counted.filter(pl.col("queue") != QUEUE)
    waits = (others["first_start_ms"] - others["submit_ms"]).drop_nulls()
    return Ran(dict(jct_s.iter_rows()), float(np.mean(waits.to_numpy())) / 1000)


def speedups(base: Ran, other: Ran) -> list[float]:
    """Run time with the asked workers over run time with more, by job that ended in both runs."""
    return [jct_s / other.jct_s[job] for job, jct_s in base.jct_s.items() if job in other.jct_s]


def rows(runs: Mapping[str, Sequence[Ran]]) -> list[list[str]]:
    """Speed-ups over the run with the asked workers, and what becomes of the other jobs. runs: by `more`."""
    lines = []
    for more, seeds in runs.items():
        each = [speedups(base, other) for base, other in zip(runs["none"], seeds, strict=True)]
        figures = [over_seeds([100 * float(np.mean(np.array(one) > 1.1)) for one in each])] + [
            over_seeds([float(np.quantile(one, q)) for one in each], 2) for q in (0.5, 0.8)
        ]
        waits = over_seeds([other.others_s for other in seeds], 2)
        lines.append([MORE[more], *(figures if more != "none" else "---"), waits])
    return lines


def tables(out: Path, seeds: int, jobs: int) -> dict[str, Any]:
    """What the page of results shows of the MapReduce scheduler, by its names there."""
    cells = [(more, Cell(held=held), s) for s in range(1, seeds + 1) for held in HELD for more in MORE]
    found = dict(zip(cells, measured(out, Ran, measure, cells, jobs), strict=True))
    head = ("policy", "jobs faster by a tenth, %", "median speed-up", "80th percentile", "wait of other jobs, s")
    made = {}
    for held in HELD:
        runs = {more: [found[more, Cell(held=held), s] for s in range(1, seeds + 1)] for more in MORE}
        made[f"services hold {100 * held:.0f} %"] = table(head, rows(runs))
    ended = [len(found["none", Cell(held=HELD[0]), s].jct_s) for s in range(1, seeds + 1)]
    return {"policies": made, "jobs": over_seeds(ended)}
