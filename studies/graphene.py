"""Graphene's result tables: planners and scheduler on production-like DAGs, Alibaba's and TPC-H's, and sensitivity.

`make tables` runs it after `tables`. Runs are kept under OUT; docs/results-graphene.md is written from its template.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from studies import dags, offline, online, production
from studies.tables import filled, table

NAME: Final = "results-graphene"


def offline_tables(measured: offline.Measured) -> dict[str, object]:
    """What the template needs of the plans: numbers of DAGs, tables, and parts of plans for one machine."""
    return {
        "shares": {
            part: (len(plans), table(offline.HEAD, offline.rows(plans)), offline.alone(plans))
            for part, plans in measured.shares.items()
        },
        "errors": (len(measured.errors), table(offline.HEAD_ERRORS, offline.error_rows(measured.errors))),
        "dags": measured.known,
        "tpch": (len(measured.tpch), table(offline.HEAD, offline.rows(measured.tpch))),
        "production": (len(measured.production), table(offline.HEAD, offline.rows(measured.production))),
    }


def online_tables(results: Mapping[str, api.Results]) -> dict[str, str]:
    """What the template needs of the runs of all experiments, by table."""
    plain = {name: results[name] for name in ("tpch", "alibaba")}
    yarn = [row for name, runs in plain.items() for row in online.yarn_rows(name, results[f"{name}_as_yarn"], runs)]
    demands = {error: results[f"demands_{error}"] for error in online.ERRORS}
    return {
        **{
            name: table(online.HEAD, online.rows(results[name]))
            for name in (*plain, *production.MAIN, *production.LARGE)
        },
        "sweep": table(production.HEAD_SWEEP, list(production.sweep_rows(results))),
        "queues": table(online.HEAD_QUEUES, online.queue_rows(results["queues"], plain["alibaba"])),
        "errors": table(online.HEAD_ERRORS, online.error_rows(results["errors"], demands)),
        "as_yarn": table(online.HEAD_YARN, yarn),
        "overbook": table(online.HEAD_OVERBOOK, online.overbook_rows(results)),
        "remote": table(online.HEAD_SWEEP, online.sweep_rows(results["remote"], "remote_0_8")),
    }


def page(
    template: str, plans: offline.Measured, runs: Mapping[str, api.Results], seeds: int, tables: Mapping[str, str]
) -> str:
    """The page: the template with measured tables, and with figures in its prose. tables: from `online_tables`.

    In the template `jct` and `makespan` take an experiment, a label and the label to divide by; `planned` takes a
    planner and says its makespans by Graphene's on `production_dags`.
    """

    def jct(name: str, label: str, against: str) -> str:
        return online.jct(runs[name], label, runs[name], against)

    def makespan(name: str, label: str, against: str) -> str:
        return online.makespan(runs[name], label, runs[name], against, sorted(runs[name].by_label[label]))

    return filled(
        template,
        offline=offline_tables(plans),
        online=tables,
        seeds=seeds,
        nodes=online.NODES,
        production=production,
        planned=lambda name: offline.against(plans.production, name),
        jct=jct,
        makespan=makespan,
    )


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/graphene"),
    docs: Annotated[Path, typer.Option(help="the folder with results-graphene.in.md")] = Path("docs"),
    trace: Annotated[Path, typer.Option(help="Alibaba's batch_task table of 2018")] = dags.TRACE,
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds of the runs")] = 10,
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
    experiments = {**production.MAIN, **production.LARGE, **online.EXPERIMENTS, **production.SWEPT}
    runs = online.measure(experiments, range(1, seeds + 1), out, jobs)
    write_file(docs / f"{NAME}.md", page(template, plans, runs, seeds, online_tables(runs)))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
