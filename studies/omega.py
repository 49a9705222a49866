"""Omega beside what it is compared with: one scheduler, two levels, shared state, over think times and schedulers.

    python -m studies.omega

The cell is the example of Omega's public simulator at a fortieth of its size and more load (`workload.mixed`): its
numbers are made up there, so it is the shapes of the paper's figures (EuroSys 2013) that can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import typer

from rm_emulator import api
from rm_emulator.program import end
from studies.tables import document, table

#: Think times of services per job that are compared, s; a batch job takes the usual 0.1 s.
T_JOBS: Final = (0.1, 1.0, 10.0, 30.0, 100.0)
#: So many schedulers share the batch jobs, each of which they think about for 2 s.
SCHEDULERS: Final = (1, 2, 4, 8, 16)
BATCH_T_JOB_MS: Final = 2000
#: The usual think times, of a job and for each of its tasks.
BATCH: Final = {"t_job": "100ms", "t_task": "5ms"}
MACHINES: Final = 250
CELL: Final[Mapping[str, float]] = {
    "span_s": 1200.0,
    "batch_interarrival_s": 5.0,
    "batch_tasks": 50.0,
    "batch_task_s": 60.0,
    "service_interarrival_s": 60.0,
    "service_tasks": 5.0,
}
SEEDS: Final = (1, 2)


Architecture = Mapping[str, Any]


def played(architecture: Architecture, cell: Mapping[str, float], machines: int, seed: int) -> api.Played:
    """One run on machines of four cores."""
    nodes = [{"name": "m", "count": machines, "capacity": {"cpu": 4, "memory": "16Gi"}}]
    cluster = {"nodes": nodes, "profile": "events", "architecture": architecture}
    policy = {"kind": "requeue", "placement": {"kind": "random_fit"}}
    return api.play(document("omega", [seed], {"requeue": policy}, cluster=cluster, workload={"kind": "mixed", **cell}))


def rivals(t_job_s: float) -> dict[str, Architecture]:
    """The architectures, with services that are thought about for so long."""
    t_job = f"{round(1000 * t_job_s)}ms"
    service, batch = {"name": "service", "kinds": ["service"], "t_job": t_job}, {"name": "batch"}
    return {
        "one path": {"kind": "central", **BATCH, "t_job": t_job},
        "several paths": {**BATCH, "kind": "central", "paths": [{"kinds": ["service"], **BATCH, "t_job": t_job}]},
        "two-level": {"kind": "two_level", "schedulers": [service, batch]},
        "shared state": {"kind": "shared_state", "schedulers": [service, batch]},
    }


def commits(t_job_s: float) -> dict[str, Architecture]:
    """Shared state by what refuses a claim, and what that means for the others."""
    shared = rivals(t_job_s)["shared state"]
    return {
        "fit, incremental": shared,
        "sequence, incremental": {**shared, "conflict": "sequence"},
        "fit, all or nothing": {**shared, "commit": "all_or_nothing"},
        "sequence, all or nothing": {**shared, "conflict": "sequence", "commit": "all_or_nothing"},
    }


def many(count: int) -> Architecture:
    """So many schedulers share the batch jobs."""
    batch = [{"name": f"batch-{number}", "t_job": f"{BATCH_T_JOB_MS}ms"} for number in range(count)]
    return {"kind": "shared_state", "schedulers": [{"name": "service", "kinds": ["service"]}, *batch]}


def runs(
    architecture: Architecture,
    cell: Mapping[str, float] = CELL,
    machines: int = MACHINES,
    seeds: Sequence[int] = SEEDS,
) -> list[api.Played]:
    """One run per seed."""
    return [played(architecture, cell, machines, seed) for seed in seeds]


def _mean(found: Sequence[api.Played], scheduler: str, figure: str) -> float:
    """Of all schedulers whose name begins so; over the seeds. Of a fraction all conflicts over all jobs."""
    each = [[thinker for name, thinker in ran.schedulers.items() if name.startswith(scheduler)] for ran in found]
    if figure == "conflict_fraction":
        return fmean(sum(t.conflicts for t in some) / max(1, sum(t.jobs for t in some)) for some in each)
    if figure == "wait_s":
        waits = ((t.wait_s.mean or 0, t.jobs) for some in each for t in some)
        pairs = list(waits)
        return sum(wait * jobs for wait, jobs in pairs) / max(1, sum(jobs for _, jobs in pairs))
    return fmean(fmean(getattr(t, figure) or 0 for t in some) for some in each)


def rival_table(found: Mapping[tuple[float, str], Sequence[api.Played]], figure: str, scheduler: str) -> str:
    """A row per architecture, a column per think time of services. scheduler: of several, whose figure."""
    times = list(dict.fromkeys(t for t, _ in found))
    rows = []
    for name in rivals(1.0):
        who = "all" if "path" in name else scheduler
        rows.append([name, *(f"{_mean(found[t, name], who, figure):.3g}" for t in times)])
    return table(("architecture", *(f"t_job {t:g} s" for t in times)), rows)


def commit_table(found: Mapping[tuple[float, str], Sequence[api.Played]]) -> str:
    """Conflicts per service by how claims are refused."""
    times = list(dict.fromkeys(t for t, _ in found))
    rows = [
        [name, *(f"{_mean(found[t, name], 'service', 'conflict_fraction'):.3g}" for t in times)] for name in commits(1)
    ]
    return table(("claims", *(f"t_job {t:g} s" for t in times)), rows)


def many_table(found: Mapping[int, Sequence[api.Played]]) -> str:
    """What becomes of batch jobs with more schedulers."""
    rows = [
        [
            str(count),
            *(f"{_mean(ran, 'batch', figure):.3g}" for figure in ("busyness", "conflict_fraction", "wait_s")),
        ]
        for count, ran in found.items()
    ]
    return table(("batch schedulers", "busyness of each", "conflicts per job", "mean wait, s"), rows)


def tables() -> dict[str, str]:
    """Omega's tables by the names that the page of results has for them."""
    found = {(t, name): runs(each) for t in T_JOBS for name, each in rivals(t).items()}
    refused = {(t, name): runs(each) for t in T_JOBS[1:4] for name, each in commits(t).items()}
    return {
        "omega_service_busyness": rival_table(found, "busyness", "service"),
        "omega_batch_wait": rival_table(found, "wait_s", "batch"),
        "omega_conflicts": rival_table(found, "conflict_fraction", "service"),
        "omega_commits": commit_table(refused),
        "omega_schedulers": many_table({count: runs(many(count)) for count in SCHEDULERS}),
    }


def main() -> None:
    """Print the tables."""
    for name, made in tables().items():
        typer.echo(f"{name}\n\n{made}\n")


if __name__ == "__main__":
    end(lambda: typer.run(main))
