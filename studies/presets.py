"""The presets of the synthetic workload beside the tables of the paper that they are set to (SLearn's, on 3Sigma).

    python -m studies.presets --seeds 10

3Sigma is asked twice: beforehand, each job when all earlier ones have ended, and in a run of GS, where it has not heard
of jobs that still wait. Kept runs are not run again. `--docs docs` writes the page as well.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.workload import describe
from rm_emulator.workload.model import PerTask, Workload, WorkloadJob
from rm_emulator.workload.work import mean_task_ms, window_loads, work_ms
from schedulers.core import keyed
from schedulers.core.errors import UnknownName
from schedulers.core.predictor import FinishedTask, Predictor, predictors
from studies.slearn import POLICIES
from studies.tables import document, filled, run

#: GS by its predictors, and LAS: whom the paper holds SLearn against (section 5.2.4).
RAN: Final = ("slearn", "three_sigma", "point_estimate", "las")
PAGE: Final = "research/presets-against-the-paper.md"
BINS: Final = ("thin_small", "wide_small", "thin_large", "wide_large")


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


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What the paper prints of runs of GS, of one workload; errors and queues of wide jobs, in %.

    errors, sampled: P50 and P90 of 3Sigma's and of SLearn's (section 4.3). estimates: jobs that 3Sigma over-estimates,
    mean and P50 of its positive errors, and of its negative ones (Table 10). queues, sampled_queues: right, too low
    and too high a priority queue of 3Sigma and of SLearn (Tables 7 and 10). by_bin: mean JCT with 3Sigma over that
    with SLearn, by bin (Figure 9), NaN without jobs. speedups: the same of all jobs, with 3Sigma, Point-Est and LAS
    (section 5.2.4).
    """

    errors: tuple[float, float]
    estimates: tuple[float, float, float, float, float]
    queues: tuple[float, float, float]
    sampled: tuple[float, float]
    sampled_queues: tuple[float, float, float]
    by_bin: tuple[float, ...]
    speedups: tuple[float, ...]


#: The same from the paper: Tables 4, 5, 7, 8 and 10, Figure 9, sections 4.3 and 5.2.4, and Table 6 for SLearn's P50.
#: What it prints of 2Sigma alone is left out of the others.
PAPER: Final[dict[str, Mapping[str, tuple[float, ...]]]] = {
    "2sigma-like": {
        "windows": (1.05, 0.13, 2.47),
        "time_cov": (1.00, 3.10),
        "space_cov": (0.18, 0.55),
        "bins_jobs": (4.55, 28.73, 14.29, 52.43),
        "bins_work": (0.01, 0.06, 5.41, 94.52),
        "history_error": (36.57, 475.78),
        "over": (59.78,),
        "sampling_error": (19.0, 58.66),
        "errors": (36.57, 475.78),
        "estimates": (59.78, 898.5, 48.0, -37.0, -28.57),
        "queues": (73.84, 17.50, 8.65),
        "sampled": (18.98, 58.66),
        "sampled_queues": (89.09, 3.54, 7.37),
        "by_bin": (10.54, 1.86, 0.80, 1.38),
        "speedups": (1.28, 1.42, 1.91),
    },
    "google11-like": {
        "windows": (1.01, 0.29, 1.49),
        "time_cov": (0.20, 0.73),
        "space_cov": (0.04, 0.58),
        "history_error": (21.39, 294.52),
        "sampling_error": (13.6, 49.95),
        "errors": (21.39, 294.52),
        "queues": (76.20,),
        "sampled": (13.68, 49.95),
        "sampled_queues": (86.45,),
        "speedups": (1.56, 2.17, 1.65),
    },
    "google19-like": {
        "windows": (1.04, 0.09, 0.91),
        "time_cov": (1.35, 1.67),
        "space_cov": (0.70, 1.33),
        "history_error": (71.56, 1927.51),
        "sampling_error": (47.1, 92.25),
        "errors": (71.56, 1927.51),
        "queues": (58.07,),
        "sampled": (51.84, 92.25),
        "sampled_queues": (73.96,),
        "speedups": (1.32, 1.54, 1.72),
    },
}
PAPER.update({f"{trace}-misjudged": PAPER[f"{trace}-like"] for trace in ("google11", "google19")})


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


def ran(preset: str, seeds: Sequence[int], out: Path, workers: int | None = None) -> dict[int, Ran]:
    """By seed the figures of the policies RAN on a preset, at the load of the preset; kept runs are read."""
    scenario = document(
        f"presets-{preset}",
        seeds,
        {label: POLICIES[label] for label in RAN},
        cluster={"nodes": [{"count": api.SLOTS, "capacity": {"cpu": 1, "memory": "4Gi"}}], "profile": "yarn"},
        workload={"kind": "synthetic", "preset": preset},
    )
    found = run(scenario, out / preset, workers)
    return {
        seed: figures_of(
            {label: found.jobs.filter(label=label, seed=seed) for label in RAN},
            {label: found.by_label[label][seed]["queue_placement"] for label in RAN},
        )
        for seed in seeds
    }


def figures_of(jobs: Mapping[str, pl.DataFrame], queues: Mapping[str, Mapping[str, float | None]]) -> Ran:
    """jobs: rows of jobs.parquet by label. queues: `queue_placement` of summary.json by label."""
    sampled, history = jobs["slearn"], jobs["three_sigma"]
    errors = _errors(history)
    high, low = errors[errors > 0], errors[errors < 0]
    slearn_s, *others_s = (float(np.mean(jobs[label]["jct_s"].to_numpy())) for label in RAN)
    by_bin = {label: dict(jobs[label].group_by("bin").agg(pl.col("jct_s").mean()).iter_rows()) for label in RAN[:2]}
    return Ran(
        errors=_quantiles(np.abs(errors)),
        estimates=(100 * len(high) / len(errors), *_middle(high), *_middle(low)),
        queues=_queues(queues["three_sigma"]),
        sampled=_quantiles(np.abs(_errors(sampled))),
        sampled_queues=_queues(queues["slearn"]),
        by_bin=tuple(by_bin["three_sigma"].get(name, math.nan) / by_bin["slearn"].get(name, math.nan) for name in BINS),
        speedups=tuple(each / slearn_s for each in others_s),
    )


def _errors(jobs: pl.DataFrame) -> api.Floats:
    """(estimate - truth) / truth of the work of each wide job with an estimate, in %."""
    wide = jobs.filter(pl.col("width") >= describe.THIN).drop_nulls("size_ms")
    errors: api.Floats = 100 * (wide["size_ms"] / wide["work_ms"] - 1).to_numpy()
    return errors


def _middle(values: api.Floats) -> tuple[float, float]:
    """Mean and median."""
    return float(values.mean()), float(np.median(values))


def _queues(found: Mapping[str, float | None]) -> tuple[float, float, float]:
    right, over, under = (100 * (found[name] or 0.0) for name in ("correct", "over", "under"))
    return right, over, under


_OTHER_BINS: Final = ("wide and small", "thin and large", "wide and large")
_QUEUES: Final = ("too low a priority", "too high a priority")
#: Field, what its figures are called, where the paper has them.
_ROWS: Final = (
    ("windows", ("load of 1000 s windows: mean", "P50", "P90"), "Table 5"),
    ("time_cov", ("CoV over time: P50", "P90"), "Table 4"),
    ("space_cov", ("CoV over space: P50", "P90"), "Table 4"),
    ("bins_jobs", ("jobs, %: thin and small", *_OTHER_BINS), "Table 8"),
    ("bins_work", ("work, %: thin and small", *_OTHER_BINS), "Table 8"),
    ("history_error", ("3Sigma's error beforehand, %: P50", "P90"), "section 4.3"),
    ("over", ("over-estimated by 3Sigma beforehand, % of wide jobs",), "Table 10"),
    ("sampling_error", ("error of 3 % pilots, %: P50", "P90"), "Table 6, section 4.3"),
)
_RAN_ROWS: Final = (
    ("errors", ("3Sigma's error in the run, %: P50", "P90"), "section 4.3"),
    (
        "estimates",
        (
            "over-estimated in the run, % of wide jobs",
            "positive errors, %: mean",
            "P50",
            "negative errors, %: mean",
            "P50",
        ),
        "Table 10",
    ),
    ("queues", ("3Sigma, % of wide jobs in: the right queue", *_QUEUES), "Tables 7, 10"),
    ("sampled", ("SLearn's error in the run, %: P50", "P90"), "Table 6, section 4.3"),
    ("sampled_queues", ("SLearn, % of wide jobs in: the right queue", *_QUEUES), "Tables 7, 10"),
    ("by_bin", ("SLearn over 3Sigma: thin and small", *_OTHER_BINS), "Figure 9"),
    ("speedups", ("SLearn over 3Sigma: all jobs", "over Point-Est", "over LAS"), "section 5.2.4"),
)


def table(preset: str, seeds: Sequence[int], runs: Mapping[int, Ran]) -> list[str]:
    """One preset beside the paper as a Markdown table: mean over seeds, and the least and largest.

    runs: what was measured in runs, by seed.
    """
    measured = [measure(api.synthetic(preset, seed=seed), seed=seed) for seed in seeds]
    text = [f"| {preset} | paper | measured | least .. largest | source |", "| --- | ---: | ---: | --- | --- |"]
    rows = [(*row, [_figures(each, row[0]) for each in measured]) for row in _ROWS]
    rows += [(*row, [getattr(runs[seed], row[0]) for seed in seeds]) for row in _RAN_ROWS]
    for field, labels, source, figures in rows:
        paper = PAPER[preset].get(field, ())
        for column, label in enumerate(labels):
            known = column < len(paper)
            printed = f"{paper[column]:.4g}" if known else "-"
            found = _spread(np.array(figures)[:, column])
            text.append(f"| {label} | {printed} | {found} | {source if known else '-'} |")
    return text


def _spread(values: api.Floats) -> str:
    """Cells with the mean, and with the least and the largest; NaN is left out."""
    known = values[~np.isnan(values)]
    return f"{known.mean():.3g} | {known.min():.3g} .. {known.max():.3g}" if len(known) else "no jobs | -"


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
    parser.add_argument("--out", type=Path, default=Path("out/presets"), help="where the runs are kept (out/presets)")
    parser.add_argument("--jobs", type=int, metavar="N", help="parallel processes; default: one per core")
    parser.add_argument("--docs", type=Path, metavar="DIR", help=f"write the page {PAGE} there, from its template")
    wanted = parser.parse_args(arguments)
    for name in wanted.presets:
        if name not in api.PRESETS:
            parser.error(str(UnknownName("preset", name, api.PRESETS)))
    if wanted.seeds < 1:
        parser.error(f"--seeds {wanted.seeds}: at least 1")
    seeds, tables = range(1, wanted.seeds + 1), {}
    wanted.out.mkdir(parents=True, exist_ok=True)
    for name in wanted.presets or api.PRESETS:
        tables[name] = "\n".join(table(name, seeds, ran(name, seeds, wanted.out, wanted.jobs)))
        sys.stdout.write(tables[name] + "\n\n")
    if wanted.docs is not None:
        page = wanted.docs / PAGE
        template = page.with_suffix(".in.md").read_text(encoding="utf-8")
        write_file(page, filled(template, tables=tables, seeds=len(seeds)))


if __name__ == "__main__":
    main()
