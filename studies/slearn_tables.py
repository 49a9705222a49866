"""The tables of the SLearn paper (NSDI 2022) from our runs, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from rm_emulator import api
from studies.tables import mean, over_seeds, show, table

Measured = Mapping[str, api.Results]
#: Three averages of the speedup, as `Results.versus` has them.
SPEEDUPS: Final = ("ratio_of_means", "mean_of_ratios", "p50_of_ratios")
#: SLearn's average speedup over each (and the median of ratios where the paper prints it), sections 5.2.4 and 6.
PAPER: Final[Mapping[str, Mapping[str, str]]] = {
    "2sigma": {
        "three_sigma": "1.28 (P50 0.92)",
        "three_sigma_tl": "1.26",
        "point_estimate": "1.42",
        "las": "1.91 (P50 1.29)",
        "fifo": "3.29 (P50 8.45)",
        "oracle": "0.79 (P50 0.73)",
    },
    "google11": {
        "three_sigma": "1.56 (P50 1.00)",
        "three_sigma_tl": "1.55",
        "point_estimate": "2.17",
        "las": "1.65",
    },
    "google19": {
        "three_sigma": "1.32 (P50 1.07)",
        "three_sigma_tl": "1.32",
        "point_estimate": "1.54",
        "las": "1.72",
    },
    "gtrace19-dag": {"three_sigma_dag": "1.26", "point_estimate_dag": "1.74", "las": "2.15"},
}
#: The label whose speedups PAPER has, where not `slearn`.
SAMPLING: Final[Mapping[str, str]] = {"gtrace19-dag": "slearn_dag"}
#: Correct queue % (Table 7), P50 and P90 of the error in % (section 4.3 and the abstract); of chains P50 alone (6).
PAPER_ACCURACY: Final[Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    "2sigma": {"slearn": (89.09, 18.98, 58.66), "three_sigma": (73.84, 36.57, 475.78)},
    "google11": {"slearn": (86.45, 13.68, 49.95), "three_sigma": (76.20, 21.39, 294.52)},
    "google19": {"slearn": (73.96, 51.84, 92.25), "three_sigma": (58.07, 71.56, 1927.51)},
    "gtrace19-dag": {"slearn_dag": (33.90,), "three_sigma_dag": (47.21,)},
}
#: Table 6, by part of pilots in %: P50 of the error in %, average and median speedup over 3Sigma; None: adaptive.
PAPER_PERCENTS: Final[Mapping[str, Mapping[int | None, tuple[float, float, float]]]] = {
    "2sigma": {
        1: (19.4, 1.24, 0.93),
        2: (19.0, 1.23, 0.92),
        3: (19.0, 1.27, 0.93),
        4: (18.7, 1.26, 0.92),
        5: (18.4, 1.27, 0.93),
        10: (16.9, 1.28, 0.91),
        None: (19.0, 1.28, 0.92),
    },
    "google11": {
        1: (14.4, 1.52, 1.00),
        2: (14.0, 1.55, 1.00),
        3: (13.6, 1.54, 1.00),
        4: (13.1, 1.56, 1.00),
        5: (12.7, 1.58, 1.00),
        10: (9.09, 1.51, 1.00),
        None: (13.7, 1.56, 1.00),
    },
    "google19": {
        1: (55.7, 1.31, 1.07),
        2: (53.8, 1.31, 1.07),
        3: (47.1, 1.31, 1.05),
        4: (46.5, 1.32, 1.05),
        5: (42.1, 1.28, 1.01),
        10: (36.1, 1.24, 1.00),
        None: (51.8, 1.32, 1.07),
    },
}
PERCENTS: Final = tuple(percent for percent in PAPER_PERCENTS["2sigma"] if percent is not None)
#: Table 9: average speedup over 3Sigma by thinLimit; 3 is the default.
PAPER_THIN: Final[Mapping[str, Mapping[int, float]]] = {
    "2sigma": {2: 1.23, 3: 1.28, 4: 1.14, 5: 0.97, 6: 0.84},
    "google11": {2: 1.54, 3: 1.56, 4: 1.55, 5: 1.54, 6: 1.53},
    "google19": {2: 1.33, 3: 1.32, 4: 1.32, 5: 1.30, 6: 1.29},
}
#: `slearn` itself has 3.
THIN_LIMITS: Final = tuple(limit for limit in PAPER_THIN["2sigma"] if limit != 3)
#: Table 8 and section 5.2.7, by bin: jobs in %, work in %, average speedup over 3Sigma, all of the 2Sigma trace.
PAPER_BINS: Final[Mapping[str, tuple[float, float, float]]] = {
    "thin_small": (4.55, 0.01, 10.54),
    "wide_small": (28.73, 0.06, 1.86),
    "thin_large": (14.29, 5.41, 0.80),
    "wide_large": (52.43, 94.52, 1.38),
}
#: Table 10, 2Sigma trace: over-estimated wide jobs, over-estimated and misplaced, mean and P50 of their error; the same
#: of under-estimated jobs; all in %.
PAPER_PLACES: Final[Mapping[str, tuple[float, ...]]] = {
    "three_sigma": (59.78, 17.50, 898.5, 48.00, 40.22, 8.65, -37.0, -28.57),
    "slearn": (43.75, 3.54, 30.65, 18.19, 55.45, 7.37, -26.79, -20.69),
}
#: Figure 7, Google 2011 trace: normalised waits that part the jobs in three, and each part's share in %.
WAITS: Final = (0.04, 1.90)
PAPER_WAITS: Final = (36.58, 30.51, 32.91)
#: Loads that part jobs by the window before their arrival, and this window (appendix, Figure 11).
BUSY: Final = (1.0, 3.0)
WINDOW_MS: Final = 1_000_000
#: The predictors whose best is the measure of another one.
PARENTS: Final = ("slearn", "slearn_dag", "three_sigma", "three_sigma_dag")


def trace_of(name: str) -> str:
    """The paper's trace that an experiment stands in for; of other workloads the name itself."""
    return next((trace for trace in PAPER if name.startswith(trace)), name)


def tables(measured: Measured) -> dict[str, Any]:
    """All that the page's template needs: functions of an experiment's name, and whole tables."""

    def gain(label: str, baseline: str, name: str, average: str = "ratio_of_means") -> str:
        """For the prose: one speedup with its interval, so that text and tables cannot disagree."""
        return show(getattr(measured[name].versus(label, baseline), average))

    def speedups(name: str, label: str | None = None) -> str:
        label = label or SAMPLING.get(name, "slearn")
        return table(
            ["over", *(average.replace("_", " ") for average in SPEEDUPS), "paper"],
            speedup_rows(measured[name], name, label),
        )

    def accuracy(name: str) -> str:
        return table(HEAD_ACCURACY, accuracy_rows(measured[name], name))

    names = [name for name in measured if name.endswith("-settings")]
    return {
        "gain": gain,
        "speedups": speedups,
        "accuracy": accuracy,
        "load": lambda name: table(HEAD_LOAD, load_rows(measured[name])),
        "r": lambda label, name: over_seeds(by_the_best(measured[name], label)[1], 3),
        "best": table(HEAD_BEST, best_rows(measured)),
        "bins": lambda name: table(HEAD_BINS, bin_rows(measured[name])),
        "places": lambda name: table(HEAD_PLACES, place_rows(measured[name])),
        "waits": lambda name: table(HEAD_WAITS, wait_rows(measured[name])),
        "windows": lambda name, slots=150: table(HEAD_WINDOWS, window_rows(measured[name], slots)),
        "occupancy": lambda name: table(HEAD_OCCUPANCY, occupancy_rows(measured[name])),
        "percents": table(HEAD_PERCENTS, [row for name in names for row in percent_rows(name, measured[name])]),
        "thin": table(HEAD_THIN, [thin_row(name, measured[name]) for name in names]),
        "seeds": lambda name: len(next(iter(measured[name].by_label.values()))),
        "workloads": list(measured),
    }


# -- Who is sooner ------------------------------------------------------------------------------------------------


def speedup_rows(results: api.Results, name: str, label: str) -> list[list[str]]:
    """Cells: baseline, three averages with intervals, the paper's figure."""
    rows = []
    for baseline in results.by_label:
        if baseline != label:
            averages = results.versus(label, baseline)
            known = PAPER.get(trace_of(name), {}) if label == SAMPLING.get(trace_of(name), "slearn") else {}
            paper = known.get(baseline, "-")
            rows.append([baseline, *(show(getattr(averages, each)) for each in SPEEDUPS), paper])
    return rows


def by_the_best(results: api.Results, label: str) -> tuple[str, list[float]]:
    """The best of PARENTS by mean completion time over all seeds, and r of a label by seed.

    r: mean completion time under the label by that under the best.
    """
    jcts = {each: [run["jct_s"]["mean"] for run in results.by_label[each].values()] for each in results.by_label}
    best = min((each for each in PARENTS if each in jcts), key=lambda each: sum(jcts[each]))
    return best, [mine / its for mine, its in zip(jcts[label], jcts[best], strict=True)]


#: Whose r is shown: our predictor, the same with least work left first inside queues, and the bound.
WHOSE: Final = ("posterior", "posterior_left", "oracle")
HEAD_BEST: Final = ("workload", "best of four", *(f"r of {label}" for label in WHOSE))


def best_rows(measured: Measured) -> list[list[str]]:
    """Cells of HEAD_BEST."""
    return [
        [name, by_the_best(results, WHOSE[0])[0], *(over_seeds(by_the_best(results, label)[1], 3) for label in WHOSE)]
        for name, results in measured.items()
        if set(WHOSE) <= set(results.by_label)
    ]


HEAD_BINS: Final = ("bin", "jobs, %", "paper", "work, %", "paper", "speedup over 3Sigma", "mean of ratios", "paper")


def bin_rows(results: api.Results) -> list[list[str]]:
    """Cells of HEAD_BINS: Table 8 and Figure 9; speedups of `slearn` over the baseline."""
    compared = next(each for each in results.summary["comparisons"] if each["label"] == "slearn")["bins"]
    runs = list(results.by_label["slearn"].values())
    rows = []
    for name, (jobs, work, speedup) in PAPER_BINS.items():
        shares = [mean([run["bins"][name][part] for run in runs]) or 0.0 for part in ("jobs_fraction", "work_fraction")]
        found = (api.Speedup(**compared[name]["speedup"][each]) for each in SPEEDUPS[:2])
        ours = [f"{100 * share:.2f}" for share in shares]
        rows.append(
            [name.replace("_", " and "), ours[0], str(jobs), ours[1], str(work), *map(show, found), f"{speedup}"]
        )
    return rows


# -- How right the estimates are ----------------------------------------------------------------------------------

HEAD_ACCURACY: Final = ("predictor", "correct queue %", "error P50 %", "error P90 %", "paper")


def accuracy_rows(results: api.Results, name: str) -> list[list[str]]:
    """Cells of HEAD_ACCURACY; the paper's three."""
    rows = []
    for label, runs in results.by_label.items():
        correct = mean([run["queue_placement_correct"] for run in runs.values()])
        if correct is None:
            continue
        errors = [mean([run["prediction_error_pct"][q] for run in runs.values()]) for q in ("p50", "p90")]
        known = PAPER_ACCURACY.get(trace_of(name), {}).get(label)
        paper = " / ".join(f"{x:.1f}" for x in known) if known else "-"
        rows.append([label, f"{100 * correct:.1f}", *("-" if e is None else f"{e:.1f}" for e in errors), paper])
    return rows


HEAD_PLACES: Final = (
    "predictor",
    "over-estimated %",
    "and misplaced %",
    "mean error %",
    "P50 error %",
    "under-estimated %",
    "and misplaced %",
    "mean error %",
    "P50 error %",
)


def place_rows(results: api.Results) -> list[list[str]]:
    """Cells of HEAD_PLACES: Table 10 of wide jobs, each of ours before the paper's row."""
    rows = []
    for label, paper in PAPER_PLACES.items():
        each = [_places(results, label, seed) for seed in results.by_label[label]]
        ours = np.mean(each, axis=0)
        rows += [[label, *(f"{x:.1f}" for x in ours)], ["the paper's", *(f"{x:.1f}" for x in paper)]]
    return rows


def _places(results: api.Results, label: str, seed: int) -> list[float]:
    """Of the sized wide jobs of a run what PAPER_PLACES has, in %."""
    wide = _wide(results.jobs, label, seed).drop_nulls("size_ms")
    error = 100 * (wide["size_ms"] / wide["work_ms"] - 1).to_numpy()
    placed = results.by_label[label][seed]["queue_placement"]
    return [
        figure
        for side, misplaced in ((error > 0, placed["over"]), (error < 0, placed["under"]))
        for figure in (
            100 * float(np.mean(side)),
            100 * misplaced,
            float(np.mean(error[side])),
            float(np.median(error[side])),
        )
    ]


def _of(frame: pl.DataFrame, label: str, seed: int) -> pl.DataFrame:
    """The rows of a cell."""
    return frame.filter((pl.col("label") == label) & (pl.col("seed") == seed))


def _wide(jobs: pl.DataFrame, label: str, seed: int) -> pl.DataFrame:
    """The jobs of a cell with three tasks or more."""
    return _of(jobs, label, seed).filter(pl.col("bin").str.starts_with("wide"))


# -- What sampling costs ------------------------------------------------------------------------------------------

HEAD_WAITS: Final = (
    "normalised wait",
    "jobs, % (slearn)",
    "paper",
    "in both, %",
    "of these sooner under slearn, %",
    "paper",
)
_SOONER: Final = ("-", "29.8", "83.1")


def wait_rows(results: api.Results) -> list[list[str]]:
    """Cells of HEAD_WAITS: Figure 7 in three parts, wide jobs; means over seeds.

    A job's normalised wait: mean over its tasks of the time from submission to start, by its mean task run time.
    """
    found = np.mean([_waits(results, seed) for seed in results.by_label["slearn"]], axis=0)
    names = (f"below {WAITS[0]}", f"{WAITS[0]} to {WAITS[1]}", f"above {WAITS[1]}")
    return [
        [name, f"{share:.1f}", f"{paper:.1f}", f"{both:.1f}", f"{sooner:.1f}", known]
        for name, paper, known, (share, both, sooner) in zip(names, PAPER_WAITS, _SOONER, found, strict=True)
    ]


def _waits(results: api.Results, seed: int) -> list[list[float]]:
    """By part: share of jobs under `slearn`, share in the same part under `three_sigma`, of these sooner ones; in %."""
    mine, other = (_normalised_waits(results, label, seed) for label in ("slearn", "three_sigma"))
    parts, same = (np.searchsorted(WAITS, waits) for waits in (mine, other))
    rows = []
    for part in range(3):
        both = (parts == part) & (same == part)
        sooner = float(np.mean(mine[both] < other[both])) if both.any() else 0.0
        rows.append([100 * float(np.mean(parts == part)), 100 * float(np.mean(both)), 100 * sooner])
    return rows


def _normalised_waits(results: api.Results, label: str, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of the wide jobs in order of id."""
    jobs = _wide(results.jobs, label, seed).select("id", "submit_ms")
    ran = _of(results.tasks, label, seed).join(jobs, left_on="job", right_on="id")
    wait = (pl.col("started_ms") - pl.col("submit_ms")).mean() / (pl.col("ended_ms") - pl.col("started_ms")).mean()
    return ran.group_by("job").agg(wait.alias("wait")).sort("job")["wait"].to_numpy()


HEAD_WINDOWS: Final = ("load of the 1000 s before", "jobs, %", "speedup over 3Sigma", "mean of ratios")


def window_rows(results: api.Results, slots: int) -> list[list[str]]:
    """Cells of HEAD_WINDOWS: the appendix's claim (Figure 11) that the gain comes while the load is high.

    Load: work of the jobs that arrived in the 1000 s up to a job's arrival, by what all slots do in that time.
    """
    by_seed = [_windows(results, slots, seed) for seed in results.by_label["slearn"]]
    rows = []
    for part, name in enumerate((f"below {BUSY[0]:g}", f"{BUSY[0]:g} to {BUSY[1]:g}", f"above {BUSY[1]:g}")):
        jobs, means, ratios = zip(*(parts[part] for parts in by_seed), strict=True)
        rows.append([name, f"{np.mean(jobs):.1f}", over_seeds(means, 2), over_seeds(ratios, 2)])
    return rows


def _windows(results: api.Results, slots: int, seed: int) -> list[tuple[float, float, float]]:
    """By part of BUSY: share of the jobs in %, ratio of means and mean of ratios."""
    mine, other = (_of(results.jobs, label, seed).sort("submit_ms", "id") for label in ("slearn", "three_sigma"))
    at, work = (mine[column].cast(pl.Float64).to_numpy() for column in ("submit_ms", "work_ms"))
    before = np.concatenate(([0.0], np.cumsum(work)))
    arrived = before[np.arange(len(at)) + 1] - before[np.searchsorted(at, at - WINDOW_MS, side="right")]
    parts = np.searchsorted(BUSY, arrived / (slots * WINDOW_MS), side="right")
    ours, theirs = (each["jct_s"].to_numpy() for each in (mine, other))
    found = []
    for part in range(len(BUSY) + 1):
        of = parts == part
        ratio = float(theirs[of].mean() / ours[of].mean()), float((theirs[of] / ours[of]).mean())
        found.append((100 * float(of.mean()), *ratio))
    return found


HEAD_OCCUPANCY: Final = ("predictor", "JCT with sizes by occupancy / by run times")


def occupancy_rows(results: api.Results) -> list[list[str]]:
    """Cells of HEAD_OCCUPANCY; the ratio of mean completion times, seed by seed."""
    rows = []
    for label in results.by_label:
        if (with_it := f"{label}_occupancy") in results.by_label:
            runs = zip(results.by_label[with_it].values(), results.by_label[label].values(), strict=True)
            rows.append([label, over_seeds([mine["jct_s"]["mean"] / its["jct_s"]["mean"] for mine, its in runs], 2)])
    return rows


HEAD_PERCENTS: Final = ("workload", "pilots, %", "error P50 %", "paper", "speedup over 3Sigma", "paper", "P50", "paper")


def percent_rows(name: str, results: api.Results) -> list[list[str]]:
    """Cells of HEAD_PERCENTS: Table 6 of one trace, the adaptive part last."""
    rows = []
    for percent, (known, average, median) in PAPER_PERCENTS[trace_of(name)].items():
        label = "slearn" if percent is None else f"percent_{percent}"
        error = mean([run["prediction_error_pct"]["p50"] for run in results.by_label[label].values()])
        speedups = results.versus(label, "three_sigma")
        ours = [f"{error:.1f}", show(speedups.ratio_of_means), show(speedups.p50_of_ratios)]
        shown = [name.removesuffix("-settings"), "adaptive" if percent is None else f"{percent}"]
        rows.append([*shown, ours[0], str(known), ours[1], str(average), ours[2], str(median)])
    return rows


HEAD_THIN: Final = ("workload", *(f"{limit}" for limit in sorted({3, *THIN_LIMITS})))


def thin_row(name: str, results: api.Results) -> list[str]:
    """Cells of HEAD_THIN: Table 9 of one trace, the paper's figure in parentheses."""
    row = [name.removesuffix("-settings")]
    for limit, paper in sorted(PAPER_THIN[trace_of(name)].items()):
        label = "slearn" if limit == 3 else f"thin_{limit}"
        row.append(f"{show(results.versus(label, 'three_sigma').ratio_of_means)} ({paper})")
    return row


HEAD_LOAD: Final = ("policy", "load", "held load", "mean JCT, s")


def load_rows(results: api.Results) -> list[list[str]]:
    """Cells of HEAD_LOAD: what was offered, what containers held with their launches, and the mean completion time."""
    return [
        [
            label,
            *(f"{mean([run[key] for run in runs.values()]):.2f}" for key in ("load", "held_load")),
            over_seeds([run["jct_s"]["mean"] for run in runs.values()], 1),
        ]
        for label, runs in results.by_label.items()
    ]
