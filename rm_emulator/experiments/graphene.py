"""Graphene's result tables: planners on real DAGs, the scheduler on TPC-H and Alibaba's jobs, sensitivity.

`make tables` runs it after `tables`. Runs are kept under OUT; docs/results-graphene.md is written from its template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from rm_emulator.experiments import api, dags, offline, online
from rm_emulator.experiments.tables import filled, table
from rm_emulator.results.record import write_file

NAME: Final = "results-graphene"


def offline_tables(found: offline.Measured) -> dict[str, object]:
    """What the template needs of the plans."""
    return {
        "shares": {
            part: (len(plans), table(offline.HEAD, offline.rows(plans))) for part, plans in found.shares.items()
        },
        "errors": (len(found.errors), table(offline.HEAD_ERRORS, offline.error_rows(found.errors))),
        "dags": found.there,
    }


def online_tables(found: dict[str, api.Results]) -> dict[str, str]:
    """What the template needs of the runs, by experiment."""
    made: dict[str, Callable[[api.Results], tuple[Sequence[str], list[list[str]]]]] = {
        "queues": lambda runs: (online.HEAD_QUEUES, online.queue_rows(runs, found["alibaba"])),
        "errors": lambda runs: (online.HEAD_ERRORS, online.error_rows(runs)),
        "eta": lambda runs: (online.HEAD_SWEEP, online.sweep_rows(runs, "k_5")),
        "remote": lambda runs: (online.HEAD_SWEEP, online.sweep_rows(runs, "remote_0_8")),
    }
    return {name: table(*made.get(name, _compared)(runs)) for name, runs in found.items()}


def _compared(runs: api.Results) -> tuple[Sequence[str], list[list[str]]]:
    return online.HEAD, online.rows(runs)


def page(template: str, plans: offline.Measured, runs: dict[str, api.Results], seeds: int) -> str:
    """The page: the template's prose with the measured tables in it."""
    tables = {"offline": offline_tables(plans), "online": online_tables(runs)}
    return filled(template, **tables, seeds=seeds, nodes=online.NODES)


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/graphene"),
    docs: Annotated[Path, typer.Option(help="the folder with results-graphene.in.md")] = Path("docs"),
    trace: Annotated[Path, typer.Option(help="Alibaba's batch_task table of 2018")] = dags.TRACE,
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds of the runs")] = 3,
    sample: Annotated[int | None, typer.Option(min=2, help="so many DAGs at most; default: as the page says")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Plan and run everything, and write docs/results-graphene.md."""
    if not trace.exists():
        typer.echo(f"{trace}: not there, so Graphene's tables stay as they are", err=True)
        return
    out.mkdir(parents=True, exist_ok=True)
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    plans = offline.measure(out, trace, 1, jobs, sample)
    if plans.stopped:
        typer.echo(
            f"the clock ended the search for {', '.join(plans.stopped)}: these plans hang on the machine", err=True
        )
    online.prepare(out, trace)
    runs = {name: online.measure(name, range(1, seeds + 1), out, jobs) for name in online.EXPERIMENTS}
    write_file(docs / f"{NAME}.md", page(template, plans, runs, seeds))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    typer.run(main)
