"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rm_emulator import completion


def _loaded(files: list[Path] | None) -> list[str]:
    """Load plug-ins while the command line is read, before any name is looked up."""
    from rm_emulator.plugins import load_plugins

    return load_plugins(files or ())


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output and nothing else.")]
Plugin = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        callback=_loaded,
        help="Python file that registers policies, predictors, placers, profiles, formats or charts.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change one value, such as spec.workload.load=0.8."),
]
Players = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, max=1000, help="Processes that play (default: one a core).")
]
Profiles = Annotated[
    Path | None,
    typer.Option("--profiles", metavar="FILE", help="Full TPC-H profiles instead of the built-in summary."),
]
Engine = Annotated[
    str | None,
    typer.Option("--engine", metavar="dask://HOST:PORT", help="Run on a Dask cluster's workers, or on dask:local."),
]
Seeds = Annotated[str | None, typer.Option("--seeds", metavar="1..5", help="Seeds instead of the scenario's.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="L", help="Label of a policy in the run.", autocompletion=completion.labels),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="L", help="Label of the run (default: the first).", autocompletion=completion.labels
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="S", help="Seed of the run (default: the first).")]
Option = Annotated[list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="A setting of the format.")]
NodeShape = Annotated[
    str | None,
    typer.Option("--node", metavar="cpu=32,memory=128Gi", help="Resources of a node (default: by the largest demand)."),
]
Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="Of a trace (default: seen from its first bytes).")
]
Wait = Annotated[
    str | None, typer.Option("--wait", metavar="TIME", help="90 % of the jobs should wait no longer (default: 10m).")
]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave out, count and name rows that cannot be read.")
]
ScenarioFile = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO.yaml",
        help="A scenario file, a packaged example's name, or - for standard input.",
        autocompletion=completion.scenarios,
    ),
]
Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Only this one, in full.", autocompletion=completion.registered)
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no notes: say only what is wrong.")]

# -- of `simulate` ----------------------------------------------------------------------------------

Source = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RUN_DIR@TIME|FILE",
        help="A cell of a run at a moment, such as out/demo@2h; or a file of `snapshot`.",
    ),
]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="The live cluster, as kubectl reaches it.")
]
Context = Annotated[str | None, typer.Option("--context", help="Which of its contexts (default: the current).")]
Kubectl = Annotated[str, typer.Option("--kubectl", metavar="PROGRAM", help="The kubectl to use.")]
JobFile = Annotated[
    Path | None, typer.Option("-f", "--file", metavar="JOB.yaml", help="Ask about this DagJob, Job or Pod.")
]
Draws = Annotated[int, typer.Option("--draws", metavar="N", min=1, max=10_000, help="Plays with run times drawn anew.")]
GoOnToArrive = Annotated[
    str | None,
    typer.Option("--arrivals", metavar="TIME", help="Jobs go on to arrive as in the last TIME (default: none)."),
]
Earlier = Annotated[
    int | None,
    typer.Option("--earlier", metavar="N", min=0, max=100, help="Earlier moments that judge such answers (3)."),
]
NoTries = Annotated[bool, typer.Option("--no-tries", help="Do not try what would let the job of -f end sooner.")]
OtherPolicy = Annotated[
    str | None,
    typer.Option("--policy", metavar="KIND|YAML", help="Compare with this policy from the moment on."),
]
ReplayPolicy = Annotated[
    str | None,
    typer.Option("--policy", metavar="KIND|YAML", help="Name the first decision that this policy makes otherwise."),
]
Drain = Annotated[
    list[str] | None,
    typer.Option("--drain", metavar="NODE", help="Compare with this node taking nothing new from the moment on."),
]
Add = Annotated[
    list[str] | None, typer.Option("--add", metavar="NxNODE", help="Compare with N more nodes like this one.")
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        metavar="PCT",
        min=0,
        max=1_000_000,
        help="By so much longer may the live jobs take with the change (exit 0).",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE.html", help="Draw ends and delays there, or into the run's report.html."),
]
FromFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--from-files", metavar="FILE", help="In place of a cluster: what `kubectl get -o yaml` wrote (repeat)."
    ),
]
