"""The presets of the synthetic workload beside the tables of the paper that they are set to (SLearn's, on 3Sigma).

python -m studies.presets --seeds 10
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from rm_emulator import api
from rm_emulator.workload import describe
from rm_emulator.workload.model import PerTask, Workload, WorkloadJob
from rm_emulator.workload.work import mean_task_ms, window_loads, work_ms
from schedulers.core import keyed
from schedulers.core.errors import UnknownName
from schedulers.core.predictor import FinishedTask, Predictor, predictors


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the paper's tables report, measured on one workload.

    windows: mean, P50, P90 (Table 5). time_cov, space_cov: P50, P90 (Table 4). bins: % of jobs and % of work of
    thin-small, wide-small, thin-large, wide-large (Table 8). history_error, sampling_error: % P50, P90 over wide
    jobs (section 4.3, Table 6). over: % of wide jobs over-estimated from history (Table 10).
    """

    windows: tuple[float, float, float]
    time_cov: tuple[float, float]
    space_cov: tuple[float, float]
    bins: tuple[tuple[float, float], ...]
    history_error: tuple[float, float]
    over: float
    sampling_error: tuple[float, float]


#: The same from the paper: Tables 4, 5, 8 (2Sigma only), section 4.3 and, for the median of sampling, Table 6 at 3 %.
PAPER: Final[Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    "2sigma-like": {
        "windows": (1.05, 0.13, 2.47),
        "time_cov": (1.00, 3.10),
        "space_cov": (0.18, 0.55),
        "bins_jobs": (4.55, 28.73, 14.29, 52.43),
        "bins_work": (0.01, 0.06, 5.41, 94.52),
        "history_error": (36.57, 475.78),
        "over": (59.78,),
        "sampling_error": (19.0, 58.66),
    },
    "google11-like": {
        "windows": (1.01, 0.29, 1.49),
        "time_cov": (0.20, 0.73),
        "space_cov": (0.04, 0.58),
        "history_error": (21.39, 294.52),
        "sampling_error": (13.6, 49.95),
    },
    "google19-like": {
        "windows": (1.04, 0.09, 0.91),
        "time_cov": (1.35, 1.67),
        "space_cov": (0.70, 1.33),
        "history_error": (71.56, 1927.51),
        "sampling_error": (47.1, 92.25),
    },
}


def measure(workload: Workload, *, slots: int = api.SLOTS, seed: int = 1) -> Measured:
    """The paper's figures of one workload of single-stage jobs with a history."""
    submit = np.array([job.submit_ms for job in workload.jobs], dtype=np.int64)
    work = np.array([work_ms(job) for job in workload.jobs], dtype=np.float64)
    loads = window_loads(submit, work, slots)
    bins = describe.job_bins([job.job.width for job in workload.jobs], work.tolist())
    history = 100 * history_errors(workload)
    sampling = 100 * sampling_errors(workload, seed=seed)
    return Measured(
        windows=(float(loads.mean()), *_quantiles(loads)),
        time_cov=_quantiles([c for c in describe.cov_over_time(workload) if c is not None]),
        space_cov=_quantiles([c for c in describe.cov_over_space(workload) if c is not None]),
        bins=tuple((100 * b.jobs, 100 * b.work) for b in bins),
        history_error=_quantiles(np.abs(history)),
        over=100 * float((history > 0).mean()),
        sampling_error=_quantiles(np.abs(sampling)),
    )


def history_errors(workload: Workload, predictor: str = "three_sigma", **settings: Any) -> api.Floats:
    """(estimate - truth) / truth of the mean task run time of each wide job, the predictor asked at submission.

    Jobs finish before the next one comes, so that history is as fresh as it can be (paper, section 4.3).
    """
    cls, params = predictors.parse({"kind": predictor, **settings})
    teacher: Predictor = cls(params, seed=0)
    teacher.prime(workload.history)
    errors = []
    for job in workload.jobs:
        teacher.submitted(job.job, job.submit_ms)
        said, truth = teacher.estimate(job.job.id, 0), mean_task_ms(job)
        if said is not None and truth and job.job.width >= describe.THIN:
            errors.append(said.task_ms / truth - 1)
        for index, ms in enumerate(_task_ms(job)):
            teacher.finished(FinishedTask(job.job.id, 0, index, pilot=False), ms, 1.0, job.submit_ms)
        teacher.job_done(job.job, job.submit_ms)
    return np.array(errors)


def sampling_errors(workload: Workload, *, ratio: float = describe.SAMPLED, seed: int = 1) -> api.Floats:
    """(mean of random pilots - truth) / truth of each wide job, with max(1, ratio x tasks) pilots, rounded down.

    That is how the accuracy study of the paper samples (section 4.3).
    """
    errors = []
    for job in workload.jobs:
        times = np.array(_task_ms(job), dtype=np.float64)
        if len(times) >= describe.THIN:
            count = max(1, int(ratio * len(times) + 1e-9))
            chosen = np.argsort(keyed.generator(seed, "accuracy study", job.job.id).random(len(times)))[:count]
            errors.append(times[chosen].mean() / times.mean() - 1)
    return np.array(errors)


def _task_ms(job: WorkloadJob) -> tuple[int, ...]:
    times = job.runtimes[0]
    if not isinstance(times, PerTask):
        raise TypeError(f"job '{job.job.id}' has no run time per task")
    return times.ms


def _quantiles(values: api.Floats | Sequence[float]) -> tuple[float, float]:
    p50, p90 = np.quantile(values, (0.5, 0.9))
    return float(p50), float(p90)


_OTHER_BINS: Final = ("wide and small", "thin and large", "wide and large")
_ROWS: Final = (
    ("windows", ("load of 1000 s windows: mean", "P50", "P90"), "Table 5"),
    ("time_cov", ("CoV over time: P50", "P90"), "Table 4"),
    ("space_cov", ("CoV over space: P50", "P90"), "Table 4"),
    ("history_error", ("3Sigma's error, %: P50", "P90"), "section 4.3"),
    ("over", ("over-estimated by 3Sigma, % of wide jobs",), "Table 10"),
    ("sampling_error", ("error of 3 % pilots, %: P50", "P90"), "Table 6, section 4.3"),
    ("bins_jobs", ("jobs, %: thin and small", *_OTHER_BINS), "Table 8"),
    ("bins_work", ("work, %: thin and small", *_OTHER_BINS), "Table 8"),
)


def table(preset: str, seeds: Sequence[int]) -> list[str]:
    """One preset beside the paper as a Markdown table: mean over seeds, and the least and largest."""
    measured = [measure(api.synthetic(preset, seed=seed), seed=seed) for seed in seeds]
    text = [f"| {preset} | paper | measured | least .. largest | source |", "| --- | ---: | ---: | --- | --- |"]
    for field, labels, source in _ROWS:
        figures = np.array([_figures(each, field) for each in measured])
        paper = PAPER[preset].get(field, ())
        for column, label in enumerate(labels):
            values = figures[:, column]
            printed = f"{paper[column]:.4g}" if paper else "-"
            spread = f"{values.min():.3g} .. {values.max():.3g}"
            text.append(f"| {label} | {printed} | {values.mean():.3g} | {spread} | {source if paper else '-'} |")
    return text


def _figures(measured: Measured, field: str) -> tuple[float, ...]:
    if field == "over":
        return (measured.over,)
    if field.startswith("bins"):
        return tuple(pair[field == "bins_work"] for pair in measured.bins)
    figures: tuple[float, ...] = getattr(measured, field)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every preset beside the paper."""
    parser = argparse.ArgumentParser(prog="python -m studies.presets", description=main.__doc__)
    parser.add_argument("presets", nargs="*", metavar="PRESET", help=f"{', '.join(api.PRESETS)}; all unless given")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="measure seeds 1 to N (5)")
    wanted = parser.parse_args(arguments)
    for name in wanted.presets:
        if name not in api.PRESETS:
            parser.error(str(UnknownName("preset", name, api.PRESETS)))
    if wanted.seeds < 1:
        parser.error(f"--seeds {wanted.seeds}: at least 1")
    for name in wanted.presets or api.PRESETS:
        sys.stdout.write("\n".join(table(name, range(1, wanted.seeds + 1))) + "\n\n")


if __name__ == "__main__":
    main()
