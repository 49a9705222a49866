"""All folders: real runs against emulated ones, with a table for people and data for machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rm_emulator.lab.fidelity.measures import Bars, FolderFidelity, compare
from rm_emulator.lab.fidelity.runs import Run, by_label, labels, read_runs, trace_jobs

Progress = Callable[[str, int, int], None]


class Emulation(Protocol):
    """What a simulation gives back."""

    @property
    def jobs(self) -> Mapping[str, tuple[int, int]]:
        """(Submission, end) in ms by job id."""

    @property
    def memory_mb(self) -> Sequence[float]:
        """Allocated memory per second; empty when it is not known."""


Simulate = Callable[[Path, int], Emulation]


def check_folder(
    folder: Path,
    simulate: Simulate,
    *,
    seeds: int = 20,
    bars: Bars | None = None,
    files: Sequence[Path] | None = None,
    progress: Progress = lambda name, done, total: None,
) -> FolderFidelity:
    """One folder: its real runs (`files`, all stored ones unless given) against seeds 1 to `seeds`.

    progress: hears (folder's name, seeds done, seeds). Raises TraceError for the folder, ValueError for a
    simulation whose jobs are not the folder's.
    """
    name = folder.resolve().name
    real = read_runs(folder, files)
    jobs = trace_jobs(folder)
    starts, submitted = labels(jobs), {job.id: job.start_ms for job in jobs}
    emulated = []
    for seed in range(1, seeds + 1):
        progress(name, seed - 1, seeds)
        emulated.append(_run(simulate(folder, seed), seed, starts, submitted))
    progress(name, seeds, seeds)
    return compare(name, real, emulated, bars or Bars())


def _run(found: Emulation, seed: int, starts: Mapping[int, list[str]], submitted: Mapping[str, int]) -> Run:
    if set(found.jobs) != set(submitted):
        other = sorted(set(found.jobs) ^ set(submitted))
        raise ValueError(f"seed {seed}: these jobs are in the trace or in the simulation only: {', '.join(other[:5])}")
    durations = ((submitted[job], (end - start) / 1000) for job, (start, end) in found.jobs.items())
    return Run(f"seed {seed}", by_label(starts, durations), tuple(found.memory_mb))


def as_data(folders: Sequence[FolderFidelity]) -> dict[str, Any]:
    """The document of --json."""
    return {"folders": [folder.as_data() for folder in folders]}
