"""Figure 1 of SLearn's paper (section 4.2): variation over time, by the length of the history, against that over space.

    python -m studies.variation --data DIR

Parts (d) and (e), CPU use and disk time, cannot be drawn: no preset and no trace here has them by task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from rm_emulator import api
from rm_emulator.program import end
from rm_emulator.workload import describe
from rm_emulator.workload.model import Workload
from rm_emulator.workload.work import mean_task_ms
from schedulers.core.model import Job, PastJob
from studies.tables import table

WINDOWS: Final = (3, 7, 14)
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
#: P50 and P90 over time, with the best window, and over space (Table 4).
PAPER: Final[Mapping[str, tuple[str, str]]] = {
    "2sigma-like": ("1.00 (3.10), 14 days", "0.18 (0.55)"),
    "google11-like": ("0.20 (0.73), 3 days", "0.04 (0.58)"),
    "google19-like": ("1.35 (1.67), 3 days", "0.70 (1.33)"),
}
#: A trace of three months in which programs and users recur; its jobs have a single run time, none by task.
TRACE: Final = "NASA-iPSC-1993-3.1-cln.swf.gz"
HEAD: Final = (
    "workload",
    *(f"over time, {days} days" for days in WINDOWS),
    "over space",
    "paper: over time, best window",
    "paper: over space",
)


def cov_over_time(workload: Workload, days: float) -> list[float | None]:
    """Per job, std / mean of the mean task run time over the similar runs submitted in the `days` before it.

    History's runs and the workload's own. Similar: same value of a feature; the feature with the least variation counts
    (section 4.2). None without a feature of at least 2 runs.
    """
    runs = [(past.submitted, _mean(past), _past_features(past)) for past in workload.history]
    ran = [
        (entry.submit_ms, mean_task_ms(entry) or 0.0, _features(entry.job, entry.submit_ms)) for entry in workload.jobs
    ]
    least = np.full(len(runs) + len(ran), np.nan)
    groups: dict[tuple[int, str], list[int]] = {}
    everything = runs + ran
    for number in sorted(range(len(everything)), key=lambda n: everything[n][0]):
        for feature, value in enumerate(everything[number][2]):
            if value:
                groups.setdefault((feature, value), []).append(number)
    for numbers in groups.values():
        at = np.array([everything[n][0] for n in numbers], dtype=np.float64)
        means = np.array([everything[n][1] for n in numbers])
        least[numbers] = np.fmin(least[numbers], _sliding(at, means, days * DAY_MS))
    return [None if np.isnan(cov) else float(cov) for cov in least[len(runs) :]]


def _sliding(at: api.Floats, means: api.Floats, window_ms: float) -> api.Floats:
    """Per run, std / mean of the runs in the window before it; nan for fewer than two. at: ascending."""
    first, last = np.searchsorted(at, at - window_ms), np.searchsorted(at, at)
    centre = means.mean()  # squares of differences: run times of hours would lose digits
    sums, squares = (np.concatenate(([0.0], np.cumsum((means - centre) ** k))) for k in (1, 2))
    count = np.where(last - first > 1, last - first, np.nan)
    off = (sums[last] - sums[first]) / count
    variance = np.maximum(0.0, (squares[last] - squares[first]) / count - off**2)
    mean = np.maximum(centre + off, 1e-9)
    covs: api.Floats = np.sqrt(variance) / mean
    return covs


def _features(job: Job, at: int) -> tuple[str, ...]:
    return (job.name, job.user, job.app, str(job.stages[0].demand), *_when(at))


def _past_features(job: PastJob) -> tuple[str, ...]:
    return (job.name, job.user, job.app, str(job.demand), *_when(job.submitted))


def _when(at: int) -> tuple[str, str]:
    return str(at // DAY_MS % 7), str(at // HOUR_MS % 24)


def _mean(job: PastJob) -> float:
    tasks = sum(n for n, _ in job.stages)
    return sum(n * ms for n, ms in job.stages) / tasks


def row(name: str, workload: Workload) -> list[str]:
    """Cells of HEAD."""
    over_time = [_cell(cov_over_time(workload, days)) for days in WINDOWS]
    return [name, *over_time, _cell(describe.cov_over_space(workload)), *PAPER.get(name, ("-", "-"))]


def _cell(covs: Sequence[float | None]) -> str:
    """P50 (P90)."""
    known = [cov for cov in covs if cov is not None]
    if not known:
        return "-"
    p50, p90 = np.quantile(known, (0.5, 0.9))
    return f"{p50:.2f} ({p90:.2f})"


def variation(data: Path, presets: Sequence[str] = tuple(PAPER), **settings: Any) -> str:
    """The table: the presets, and the trace where it is in `data`. settings: of `api.synthetic`, for tests."""
    rows = [row(name, api.synthetic(name, **settings)) for name in presets]
    if (data / TRACE).exists():
        rows.append(row("NASA iPSC, 1993", api.read_trace("swf", data / TRACE)))
    return table(HEAD, rows)


def main(data: Annotated[Path, typer.Option(help=f"folder with {TRACE}")] = Path("../shared/data")) -> None:
    """Print the table: P50 (P90) of the coefficients of variation over jobs."""
    typer.echo(variation(data))


if __name__ == "__main__":
    end(lambda: typer.run(main))
