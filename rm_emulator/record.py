"""The command `record`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rm_emulator.options import Context, Kubectl, Quiet


def record(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.jsonl", help="The log; a snapshot goes beside the log.")],
    kubeconfig: Annotated[Path, typer.Option("--kubeconfig", metavar="FILE", help="A live cluster.")],
    context: Context = None,
    kubectl: Kubectl = "kubectl",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long, such as 1h (default: to Ctrl-C).")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Record a live cluster: the event log of its brain, which replay takes, and a snapshot, which run takes."""
    from rm_emulator.scenario import live
    from rm_emulator.scenario import record as recording

    cluster = live.LiveCluster(kubeconfig, context, kubectl)
    recording.main(cluster, out, duration, (lambda _: None) if quiet else lambda line: typer.echo(line, err=True))
