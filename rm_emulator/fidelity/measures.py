"""Distance of emulated from real runs: figures per job and per folder, and their bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from rm_emulator.fidelity.runs import MeasuredRun

#: A real run's seconds count from somewhere in its start-up, so curves begin with their first container, give or take.
_SHIFTS: Final = range(-8, 9)


class Tolerances(msgspec.Struct, frozen=True):
    """Accepted errors, in per cent of the real runs' mean; inside the real runs' range for a larger spread."""

    mean_pct: float = 5.0
    worst_pct: float = 10.0


class JobFidelity(msgspec.Struct, frozen=True):
    """Completion times of a job, s: in every real run and with every seed."""

    job: str
    real_s: tuple[float, ...]
    emulated_s: tuple[float, ...]

    @property
    def error_pct(self) -> float:
        """Emulated mean against real mean, signed."""
        return error_pct(self.emulated_s, self.real_s)


class FolderFidelity(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a folder. Errors are signed, in per cent."""

    name: str
    jobs: tuple[JobFidelity, ...]
    mean_error_pct: float
    worst_job: str
    """The job furthest off."""
    worst_job_error_pct: float
    ks: float
    """Largest distance between the distributions of all completion times, real and emulated, 0 to 1."""
    memory_pct: float | None
    """Distance of the curves of allocated memory; None without curves."""
    real_runs: int
    seeds: int
    faults: tuple[str, ...]
    """Sentences on bars not met."""

    @property
    def holds(self) -> bool:
        """Whether the folder meets the bars."""
        return not self.faults

    def as_data(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "mean_error_pct": round(self.mean_error_pct, 3),
            "worst_job_error_pct": round(self.worst_job_error_pct, 3),
            "worst_job": self.worst_job,
            "ks": round(self.ks, 4),
            "memory_pct": None if self.memory_pct is None else round(self.memory_pct, 3),
            "real_runs": self.real_runs,
            "seeds": self.seeds,
            "holds": self.holds,
            "faults": list(self.faults),
            "jobs": [{"job": j.job, "real_s": list(j.real_s), "emulated_s": list(j.emulated_s)} for j in self.jobs],
        }


def compare(
    name: str, real: Sequence[MeasuredRun], emulated: Sequence[MeasuredRun], bars: Tolerances
) -> FolderFidelity:
    """The figures of a folder; `real` and `emulated` need at least a run each, with the same jobs."""
    jobs = tuple(
        JobFidelity(job, tuple(r.seconds[job] for r in real), tuple(e.seconds[job] for e in emulated))
        for job in real[0].seconds
    )
    worst = max(jobs, key=lambda job: abs(job.error_pct))
    means = [run.mean for run in real]
    return FolderFidelity(
        name=name,
        jobs=jobs,
        mean_error_pct=error_pct([run.mean for run in emulated], means),
        worst_job=worst.job,
        worst_job_error_pct=worst.error_pct,
        ks=kolmogorov([s for j in jobs for s in j.real_s], [s for j in jobs for s in j.emulated_s]),
        memory_pct=curve_distance([r.memory_mb for r in real], [e.memory_mb for e in emulated]),
        real_runs=len(real),
        seeds=len(emulated),
        faults=tuple(_faults(jobs, means, [run.mean for run in emulated], bars)),
    )


def _faults(
    jobs: Sequence[JobFidelity], real: Sequence[float], emulated: Sequence[float], bars: Tolerances
) -> list[str]:
    faults = []
    if not accepted(real, emulated, bars.mean_pct):
        faults.append(f"mean {error_pct(emulated, real):+.1f} % (at most {bars.mean_pct:g} %)")
    outside = [job for job in jobs if not accepted(job.real_s, job.emulated_s, bars.worst_pct)]
    return faults + [f"job {job.job} {job.error_pct:+.1f} % (at most {bars.worst_pct:g} %)" for job in outside]


def accepted(real: Sequence[float], emulated: Sequence[float], bar_pct: float) -> bool:
    """Whether the emulated mean is within the bar, or where the real runs spread more, inside their range."""
    if abs(error_pct(emulated, real)) <= bar_pct:
        return True
    spread = 100 * (max(real) - min(real)) / _mean(real)
    return spread > bar_pct and min(real) <= _mean(emulated) <= max(real)


def error_pct(emulated: Sequence[float], real: Sequence[float]) -> float:
    """Difference of the means, signed, in per cent of the real mean."""
    return 100 * (_mean(emulated) / _mean(real) - 1)


def kolmogorov(one: Sequence[float], other: Sequence[float]) -> float:
    """Largest vertical distance between two empirical distributions, 0 to 1."""
    a, b = np.sort(np.asarray(one)), np.sort(np.asarray(other))
    points = np.concatenate([a, b])
    below = np.searchsorted(a, points, "right") / len(a) - np.searchsorted(b, points, "right") / len(b)
    return float(np.abs(below).max())


def curve_distance(real: Sequence[Sequence[float]], emulated: Sequence[Sequence[float]]) -> float | None:
    """Area between the mean curves in per cent of the real curve's area, at the best shift.

    None when either side has no curve, or the real curve is zero throughout.
    """
    if not all(real) or not all(emulated) or not real or not emulated:
        return None
    length = max(len(curve) for curve in (*real, *emulated)) + 2 * max(_SHIFTS)
    ours, theirs = _mean_curve(emulated, length), _mean_curve(real, length)
    area = float(theirs.sum())
    if area <= 0:
        return None
    return 100 * min(float(np.abs(np.roll(ours, shift) - theirs).sum()) for shift in _SHIFTS) / area


def _mean_curve(curves: Sequence[Sequence[float]], length: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The mean of curves, each from its first container on, with space to shift."""
    total = np.zeros(length)
    begin = max(_SHIFTS)
    for curve in curves:
        used = np.trim_zeros(np.asarray(curve), "f")
        total[begin : begin + len(used)] += used
    return total / len(curves)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
