"""The comparison as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from rm_emulator.fidelity.measures import Bars, FolderFidelity, JobFidelity


def show(folders: Sequence[FolderFidelity], bars: Bars, console: Console) -> None:
    """One row a folder, then the jobs of folders outside the bars."""
    table = Table(title="job completion: emulator against real YARN", title_justify="left")
    table.add_column("folder")
    for heading in ("jobs", "real runs", "seeds", "mean", "worst job", "Kolmogorov", "memory"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for folder in folders:
        table.add_row(
            folder.name,
            str(len(folder.jobs)),
            str(folder.real_runs),
            str(folder.seeds),
            f"{folder.mean_error_pct:+.1f} %",
            f"{folder.worst_job_error_pct:+.1f} %",
            f"{folder.ks:.3f}",
            "" if folder.memory_pct is None else f"{folder.memory_pct:.1f} %",
            "ok" if folder.holds else "outside",
            style=None if folder.holds else "red",
        )
    console.print(table)
    for folder in folders:
        if not folder.holds:
            console.print(_jobs(folder))
    console.print(
        f"bars: mean within {bars.mean_pct:g} %, each job within {bars.worst_pct:g} %, "
        "or inside the real runs' range where they spread more",
        style="dim",
        highlight=False,
    )


def _jobs(folder: FolderFidelity) -> Table:
    table = Table(title=f"{folder.name}: {'; '.join(folder.faults)}", title_justify="left")
    table.add_column("job")
    for heading in ("real s", "range", "emulated s", "range", "error"):
        table.add_column(heading, justify="right")
    for job in folder.jobs:
        table.add_row(job.job, *_figures(job.real_s), *_figures(job.emulated_s), _error(job))
    return table


def _figures(seconds: Sequence[float]) -> tuple[str, str]:
    return f"{sum(seconds) / len(seconds):.1f}", f"{min(seconds):.1f}..{max(seconds):.1f}"


def _error(job: JobFidelity) -> str:
    return f"{job.error_pct:+.1f} %"
