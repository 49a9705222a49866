"""Speed-up curves of TPC-H jobs: each profile played alone at each number of executors, and a fit for any job.

    python -m studies.speedups --data DIR

Prints the coefficients of `schedulers.kit.speedups`: with executors as in decima-sim, whose interpolation between
measured numbers of executors is inverted, and with the interpolation mended. Kept runs are not run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import numpy as np
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from schedulers.core.decisions import Decision
from schedulers.core.events import Estimated, Event, JobSubmitted
from schedulers.core.scheduler import Scheduler
from schedulers.kit.speedups import FITS, Shape, explained, shape_of
from studies.decima import ORACLE
from studies.learned_settings import PROFILES
from studies.tables import document, table

#: Weight of c1 to c3 beside the squared errors of ln T: on one executor, W and 0.8 W + P + 0.5 D tell much the same.
_RIDGE: Final = 0.1


def scenario(executors: int, *, inverted: bool, **workload: Any) -> dict[str, Any]:
    """Jobs so far apart that each is alone on so many executors."""
    return document(
        "alone",
        [5001],
        {"alone": {"kind": "capped_sjf", "predictor": ORACLE}},
        cluster={
            "nodes": [{"count": executors, "capacity": {"cpu": 1, "memory": "2Gi"}}],
            "profile": "events",
            "executors": {"moving_delay": "2s", "warmup": "1s", "inverted_levels": inverted},
        },
        workload={"kind": "tpch", "interarrival": "1000000s", "history": 0, **workload},
    )


def alone(scenario: Mapping[str, Any]) -> list[tuple[str, Shape, float]]:
    """Query, shape as promised, and time in s of each job."""
    told: dict[str, tuple[int, ...]] = {}
    shapes: dict[str, Shape] = {}

    def watch(_: Scheduler, event: Event, decide: api.Decide) -> list[Decision]:
        if isinstance(event, Estimated):
            told[event.job] = event.runtimes_ms
        elif isinstance(event, JobSubmitted):
            shapes[event.job.id] = shape_of(event.job.stages, [ms / 1000 for ms in told[event.job.id]])
        return decide(event)

    ended = api.play(scenario, watch=watch).jobs.select("id", "name", "submit_ms", "finish_ms").rows()
    return [(name, shapes[job], (finish - submit) / 1000) for job, name, submit, finish in ended]


def fitted(jobs: Iterable[tuple[str, Shape, float]], executors: int) -> tuple[list[float], float]:
    """c0 to c3, and the rms error of ln T for the jobs of a query by a fit to the other queries.

    Jobs of equal shape are one, with the mean of their times.
    """
    times: dict[tuple[str, Shape], list[float]] = {}
    for name, shape, time in jobs:
        times.setdefault((name, shape), []).append(time)
    rows = np.array([explained(shape, executors) for _, shape in times])
    logs = np.log([fmean(each) for each in times.values()])
    names = np.array([name for name, _ in times])
    errors = np.empty(len(logs))
    for name in set(names):
        own = names == name
        errors[own] = rows[own] @ _solved(rows[~own], logs[~own]) - logs[own]
    return _solved(rows, logs).tolist(), float(np.sqrt(np.mean(errors**2)))


def _solved(rows: api.Floats, logs: api.Floats) -> api.Floats:
    ridge = np.diag([0.0, _RIDGE, _RIDGE, _RIDGE])
    return np.asarray(np.linalg.solve(rows.T @ rows + ridge, rows.T @ logs), np.float64)


def main(
    data: Annotated[Path, typer.Option(help=f"folder with {PROFILES}")],
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/speedups"),
    jobs: Annotated[int, typer.Option(min=100, help="number of jobs drawn, each query on six sizes of data")] = 500,
) -> None:
    """Play each job alone at each number of executors and print the fits."""
    drawn = {"jobs": jobs, "sizes": [2, 5, 10, 20, 50, 100], "profiles": str((data / PROFILES).resolve())}
    out.mkdir(parents=True, exist_ok=True)
    for inverted, fit in FITS.items():
        made = []
        for executors, *_ in fit:
            kept = out / f"{'inverted' if inverted else 'mended'}-{executors}-{jobs}.json"
            if not kept.exists():
                write_file(kept, json.dumps(alone(scenario(executors, inverted=inverted, **drawn))))
            played = [(name, Shape(*shape), time) for name, shape, time in json.loads(kept.read_bytes())]
            coefficients, error = fitted(played, executors)
            made.append([str(executors), *(f"{c:.3f}" for c in coefficients), f"{100 * error:.0f} %"])
        typer.echo(f"inverted_levels: {str(inverted).lower()}\n{table(('n', 'c0', 'c1', 'c2', 'c3', 'error'), made)}\n")


if __name__ == "__main__":
    end(lambda: typer.run(main))
