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
