"""The comparison as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rm_emulator.fidelity.measures import FolderFidelity, JobFidelity, Tolerances


def show(folders: Sequence[FolderFidelity], bars: Tolerances, console: Console) -> None:
    """A row per folder, then the jobs of folders outside the bars."""
    table = _table("job completion: emulator against real YARN", "folder")
    for heading in ("jobs", "runs", "mean", "worst job", "KS", "memory", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for folder in folders:
        table.add_row(
            folder.name,
            str(len(folder.jobs)),
            f"{folder.real_runs}:{folder.seeds}",
            f"{folder.mean_error_pct:+.1f} %",
            f"{folder.worst_job_error_pct:+.1f} %",
            f"{folder.ks:.3f}",
            "" if folder.memory_pct is None else f"{folder.memory_pct:.1f} %",
            "ok" if folder.holds else "off",
            style=None if folder.holds else "red",
        )
    console.print(table)
    for folder in folders:
        if not folder.holds:
            console.print(_jobs(folder))
    console.print(
        f"runs: real and emulated; bars: mean within {bars.mean_pct:g} %, each job within {bars.worst_pct:g} %, "
        "or inside the real runs' range where they spread more;\n"
        "KS: largest distance of the distributions of completion times; memory: area between the curves of allocation",
        style="dim",
        highlight=False,
    )


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
    table.add_column(first, no_wrap=True)
    return table


def _jobs(folder: FolderFidelity) -> Table:
    table = _table(folder.name, "job")
    for heading in ("real s", "range", "emulated s", "range", "error"):
        table.add_column(heading, justify="right")
    for job in folder.jobs:
        table.add_row(job.job, *_figures(job.real_s), *_figures(job.emulated_s), _error(job))
    return table


def _figures(seconds: Sequence[float]) -> tuple[str, str]:
    return f"{sum(seconds) / len(seconds):.1f}", f"{min(seconds):.1f}..{max(seconds):.1f}"


def _error(job: JobFidelity) -> str:
    return f"{job.error_pct:+.1f} %"
