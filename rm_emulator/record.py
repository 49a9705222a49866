"""The commands `snapshot` and `record`, which write what a live cluster tells into files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rm_emulator import options
from rm_emulator.options import Quiet

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")]


def snapshot(
    kubeconfig: options.Kubeconfig = None,
    from_files: options.FromFiles = None,
    context: options.Context = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of printing.")] = None,
    kubectl: options.Kubectl = "kubectl",
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """A live cluster's nodes, queues and jobs as a file that `run` takes."""
    from rm_emulator.files import write_file
    from rm_emulator.scenario import live

    live.refuse_existing([] if out is None else [out], overwrite=overwrite)
    taken = live.asked(kubeconfig, from_files or (), context=context, kubectl=kubectl)
    for note in () if quiet else taken.notes:
        typer.echo(note, err=True)
    if out is None:
        typer.echo(taken.text(), nl=False)
    else:
        write_file(out, taken.text())


def record(
    out: Annotated[Path, typer.Option("--out", metavar="FILE.jsonl", help="The log; a snapshot goes beside the log.")],
    kubeconfig: Annotated[Path, typer.Option("--kubeconfig", metavar="FILE", help="A live cluster.")],
    context: options.Context = None,
    kubectl: options.Kubectl = "kubectl",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long, such as 1h (default: to Ctrl-C).")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Record a live cluster: the event log of its brain, which replay takes, and a snapshot, which run takes."""
    from rm_emulator.scenario import live
    from rm_emulator.scenario import record as recording

    live.refuse_existing([out, out.with_suffix(".yaml")], overwrite=overwrite)
    cluster = live.LiveCluster(kubeconfig, context, kubectl)
    recording.main(cluster, out, duration, (lambda _: None) if quiet else lambda line: typer.echo(line, err=True))
