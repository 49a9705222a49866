"""Paired comparisons: how much sooner do jobs finish under one label than under the baseline?

The ratio of a job is JCT(baseline) / JCT(label), of the same job on the same seed: above 1 the label is
faster ("speedup"). Three averages, because they answer different questions and published figures often
do not say which one they are (SLearn, NSDI'22, sections 6.3 and 6.4, prints two of them):

ratio_of_means
    mean JCT(baseline) / mean JCT(label): what the cluster's users gain in total; long jobs weigh most.
mean_of_ratios
    the mean over jobs of the ratio: every job counts the same, a few rescued jobs can carry it.
p50_of_ratios
    the median job's ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from rm_emulator.results.figures import BINS, Bins, ComparedBin, LabelComparison, RatioQuantiles, Speedup, Speedups
from rm_emulator.results.metrics import Floats, average, figure, spread, timed
from schedulers.core.keyed import generator

Codes = npt.NDArray[np.int8]
_PLACE: Final = {name: place for place, name in enumerate(BINS)}

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 1000
#: Draws over all resamples of one bootstrap: bounds its time for runs of very many jobs.
DRAWS: Final = 20_000_000
#: Of these, so many are drawn at once: more of them leave the caches.
_AT_ONCE: Final = 30_000


class Pairs(msgspec.Struct, frozen=True):
    """JCTs in seconds of the jobs that finished under both, in order of id."""

    baseline: Floats
    label: Floats
    bins: Codes
    """The place of each job's bin in `figures.BINS`."""
    ids: Sequence[str] = ()
    """Empty where only figures of all jobs are wanted: ids are most of the memory."""

    def only(self, name: str) -> Pairs:
        """The pairs of one bin of Table 8, without ids."""
        mine = self.bins == BINS.index(name)
        return Pairs(self.baseline[mine], self.label[mine], self.bins[mine])

    @property
    def ratios(self) -> Floats:
        """JCT(baseline) / JCT(label) of each job."""
        ratios: Floats = self.baseline / self.label
        return ratios


def averages(values: Floats) -> Floats:
    """Arithmetic means over the last axis, by exact summation."""
    rows = values.reshape(-1, values.shape[-1])
    return np.array([average(row) for row in rows.tolist()]).reshape(values.shape[:-1])


def ratio_of_means(baseline: Floats, label: Floats) -> Floats:
    """Mean JCT of the baseline / mean JCT of the label."""
    ratios: Floats = averages(baseline) / averages(label)
    return ratios


def mean_of_ratios(baseline: Floats, label: Floats) -> Floats:
    """Mean over jobs of JCT(baseline) / JCT(label)."""
    return averages(baseline / label)


def p50_of_ratios(baseline: Floats, label: Floats) -> Floats:
    """Median over jobs of JCT(baseline) / JCT(label)."""
    medians: Floats = np.median(baseline / label, axis=-1)
    return medians


#: Of the jobs on the last axis, for any number of draws at once.
Statistic = Callable[[Floats, Floats], Floats]
SPEEDUPS: Final[dict[str, Statistic]] = {
    "ratio_of_means": ratio_of_means,
    "mean_of_ratios": mean_of_ratios,
    "p50_of_ratios": p50_of_ratios,
}


class FinishedJobs(NamedTuple):
    """The finished jobs of a cell in order of id. jct_s: 0 counts as 1 ms, for finite ratios; bins: as of `Pairs`."""

    ids: pl.Series
    jct_s: Floats
    bins: Codes


def finished(jobs: pl.DataFrame) -> FinishedJobs:
    """jobs: timed, in order of id."""
    times = jobs["jct_s"].to_numpy()
    known = ~np.isnan(times)
    ids = jobs["id"] if known.all() else jobs["id"].filter(pl.Series(known))
    bins = np.array([_PLACE[name] for name in jobs["bin"].to_list()], dtype=np.int8)
    return FinishedJobs(ids, np.maximum(times[known], 0.001), bins[known])


def pair(baseline: pl.DataFrame, label: pl.DataFrame) -> Pairs:
    """Matches the jobs of two jobs.parquet frames by id; jobs that did not finish in both are left out."""
    return matched(*(finished(timed(each).sort("id")) for each in (baseline, label)), with_ids=True)


def matched(baseline: FinishedJobs, label: FinishedJobs, *, with_ids: bool = False) -> Pairs:
    """The pairs of the jobs of two cells."""
    first: Any = slice(None)
    second: Any = slice(None)
    if not baseline.ids.equals(label.ids):
        frames = (each.ids.to_frame().with_row_index("row") for each in (baseline, label))
        both = next(frames).join(next(frames), on="id", maintain_order="left")
        first, second = both["row"].to_numpy(), both["row_right"].to_numpy()
    ids = baseline.ids[first].to_list() if with_ids else ()
    return Pairs(baseline.jct_s[first], label.jct_s[second], baseline.bins[first], ids)


def student_t(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of at least two independent values, from Student's t distribution.

    >>> [round(x, 4) for x in student_t([1.0, 2.0, 3.0])]
    [-0.4841, 4.4841]
    """
    from scipy.special import stdtrit

    sample = np.asarray(values, dtype=np.float64)
    half = float(stdtrit(len(sample) - 1, (1 + CONFIDENCE) / 2)) * sample.std(ddof=1) / np.sqrt(len(sample))
    return float(sample.mean() - half), float(sample.mean() + half)


def bootstrap(pairs: Pairs, *statistics: Statistic) -> list[tuple[float, float]]:
    """95 % percentile interval of each statistic over resampled jobs, baseline and label drawn together.

    For a single seed. It tells how much the figure rests on a few jobs of this one workload; jobs share a
    cluster, so it says nothing about another arrival of the same kind of work: that takes several seeds.
    """
    n = len(pairs.baseline)
    rng = generator(0, "bootstrap", n)
    times = max(100, min(RESAMPLES, DRAWS // max(1, n)))
    rows = max(1, _AT_ONCE // max(1, n))
    values: list[list[Floats]] = [[] for _ in statistics]
    for done in range(0, times, rows):
        chosen = rng.integers(0, n, (min(rows, times - done), n))
        baseline, label = pairs.baseline[chosen], pairs.label[chosen]
        for found, statistic in zip(values, statistics, strict=True):
            found.append(statistic(baseline, label))
    edges = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = np.quantile([np.concatenate(found) for found in values], edges, axis=1)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def speedups(seeds: Sequence[Pairs]) -> Speedups:
    """All three averages: means over seeds, their intervals with `student_t`; of one seed with `bootstrap`.

    Few and different seeds can give a wide interval; it is cut at 0, as no ratio is below. Without figures when no
    job finished in both.
    """
    known = [pairs for pairs in seeds if len(pairs.baseline)]
    if not known:
        return Speedups()
    values = [[float(each(pairs.baseline, pairs.label)) for pairs in known] for each in SPEEDUPS.values()]
    several = len(known) > 1
    intervals = [student_t(each) for each in values] if several else bootstrap(known[0], *SPEEDUPS.values())
    return Speedups(
        **{
            name: Speedup(value=figure(average(each)), ci95=[figure(max(0.0, low)), figure(high)])
            for name, each, (low, high) in zip(SPEEDUPS, values, intervals, strict=True)
        }
    )


def compare(label: str, baseline: str, seeds: Mapping[int, Pairs]) -> LabelComparison:
    """The speedups, quantiles of the per-job ratio, and Table 8's bins."""
    each = [seeds[seed] for seed in sorted(seeds)]
    ratios = all_ratios(each)
    return LabelComparison(
        label=label,
        baseline=baseline,
        seeds=sorted(seeds),
        interval=f"Student's t over {len(each)} seeds" if len(each) > 1 else "bootstrap over the jobs of one seed",
        speedup=speedups(each),
        ratio_quantiles=spread(ratios, RatioQuantiles),
        jobs_faster=figure((ratios > 1).mean()) if len(ratios) else None,
        jobs_slower=figure((ratios < 1).mean()) if len(ratios) else None,
        bins=Bins(**{name: _bin(each, name) for name in BINS}),
    )


def all_ratios(seeds: Iterable[Pairs]) -> Floats:
    """The ratios of the jobs of all seeds."""
    ratios: Floats = np.concatenate([np.empty(0), *(pairs.ratios for pairs in seeds)])
    return ratios


def _bin(each: Sequence[Pairs], name: str) -> ComparedBin:
    parts = [pairs.only(name) for pairs in each]
    ratios = all_ratios(parts)
    faster = figure((ratios > 1).mean()) if len(ratios) else None
    return ComparedBin(pairs=len(ratios), jobs_faster=faster, speedup=speedups(parts))
