"""A folder: real runs against emulated runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from rm_emulator.fidelity.measures import FolderFidelity, Tolerances, compare
from rm_emulator.fidelity.runs import MeasuredRun, by_label, labels, read_runs, trace_jobs

Progress = Callable[[str, int, int], None]


class Emulated(msgspec.Struct, frozen=True):
    """An emulated run."""

    jobs: Mapping[str, tuple[int, int]]
    """(Submission, end) by job id, ms."""
    memory_mb: tuple[float, ...] = ()
    """Allocated memory per second, perhaps empty."""


Simulate = Callable[[Path, int], Emulated]


def check_folder(
    folder: Path,
    simulate: Simulate,
    *,
    seeds: int = 20,
    bars: Tolerances | None = None,
    files: Sequence[Path] | None = None,
    progress: Progress = lambda name, done, total: None,
) -> FolderFidelity:
    """Compare a folder's real runs (`files`, by default all stored runs) with seeds 1 to `seeds`.

    `progress` hears (folder's name, seeds done, seeds). Raises TraceError for the folder, ValueError for a
    simulation with different jobs than the folder's.
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
    return compare(name, real, emulated, bars or Tolerances())


def _run(emulated: Emulated, seed: int, starts: Mapping[int, list[str]], submitted: Mapping[str, int]) -> MeasuredRun:
    if set(emulated.jobs) != set(submitted):
        other = sorted(set(emulated.jobs) ^ set(submitted))
        raise ValueError(f"seed {seed}: these jobs are in the trace or in the simulation only: {', '.join(other[:5])}")
    durations = ((submitted[job], (end - start) / 1000) for job, (start, end) in emulated.jobs.items())
    return MeasuredRun(f"seed {seed}", by_label(starts, durations), emulated.memory_mb)
