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
from typing import Final

import msgspec
import numpy as np
import polars as pl

from rm_emulator.results.figures import BINS, Bins, ComparedBin, LabelComparison, RatioQuantiles, Speedup, Speedups
from rm_emulator.results.metrics import Floats, average, figure, spread, timed
from schedulers.core.keyed import generator

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 1000
#: Draws over all resamples of one bootstrap: bounds its time for runs of very many jobs.
DRAWS: Final = 20_000_000
#: Of these, so many are drawn at once: more of them leave the caches.
_AT_ONCE: Final = 30_000


class Pairs(msgspec.Struct, frozen=True):
    """JCTs in seconds of the jobs that finished under both, in order of id, with the bin of each."""

    ids: list[str]
    baseline: Floats
    label: Floats
    bins: list[str]

    def only(self, name: str) -> Pairs:
        """The pairs of one bin of Table 8."""
        mask = np.array([b == name for b in self.bins], dtype=bool)
        ids = [job for job, of_bin in zip(self.ids, mask, strict=True) if of_bin]
        return Pairs(ids, self.baseline[mask], self.label[mask], [name] * len(ids))

    @property
    def ratios(self) -> Floats:
        """JCT(baseline) / JCT(label) of each job."""
        ratios: Floats = self.baseline / self.label
        return ratios


def averages(values: Floats) -> Floats:
    """Arithmetic means over the last axis, by exact summation."""
    rows = values.reshape(-1, values.shape[-1])
    return np.array([average(row) for row in rows]).reshape(values.shape[:-1])


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


def pair(baseline: pl.DataFrame, label: pl.DataFrame) -> Pairs:
    """Matches the jobs of two jobs.parquet frames by id; jobs that did not finish in both are left out.

    A JCT of 0 counts as 1 ms, so that every ratio is finite.
    """
    left = timed(baseline).select("id", "bin", base=pl.col("jct_s").clip(lower_bound=0.001))
    right = timed(label).select("id", other=pl.col("jct_s").clip(lower_bound=0.001))
    both = left.join(right, on="id").drop_nulls().sort("id")
    return Pairs(
        both["id"].to_list(),
        both["base"].to_numpy().astype(np.float64),
        both["other"].to_numpy().astype(np.float64),
        both["bin"].to_list(),
    )


def student_t(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of at least two independent values, from Student's t distribution.

    >>> [round(x, 4) for x in student_t([1.0, 2.0, 3.0])]
    [-0.4841, 4.4841]
    """
    from scipy.special import stdtrit

    sample = np.asarray(values, dtype=np.float64)
    half = float(stdtrit(len(sample) - 1, (1 + CONFIDENCE) / 2)) * sample.std(ddof=1) / np.sqrt(len(sample))
    return float(sample.mean() - half), float(sample.mean() + half)


def bootstrap(pairs: Pairs, statistic: Statistic) -> tuple[float, float]:
    """95 % percentile interval of a statistic over resampled jobs, baseline and label drawn together.

    For a single seed. It tells how much the figure rests on a few jobs of this one workload; jobs share a
    cluster, so it says nothing about another arrival of the same kind of work: that takes several seeds.
    """
    n = len(pairs.baseline)
    rng = generator(0, "bootstrap", n)
    times = max(100, min(RESAMPLES, DRAWS // max(1, n)))
    rows = max(1, _AT_ONCE // max(1, n))
    drawn = (rng.integers(0, n, (min(rows, times - done), n)) for done in range(0, times, rows))
    values = [statistic(pairs.baseline[chosen], pairs.label[chosen]) for chosen in drawn]
    low, high = np.quantile(np.concatenate(values), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def speedup(seeds: Sequence[Pairs], statistic: Statistic) -> Speedup:
    """Mean over seeds of the statistic, its interval with `student_t`; of one seed with `bootstrap`.

    Few and different seeds can give a wide interval; it is cut at 0, as no ratio is below. Without figures when no
    job finished in both.
    """
    known = [pairs for pairs in seeds if len(pairs.baseline)]
    if not known:
        return Speedup()
    values = [float(statistic(pairs.baseline, pairs.label)) for pairs in known]
    low, high = student_t(values) if len(values) > 1 else bootstrap(known[0], statistic)
    return Speedup(value=figure(average(values)), ci95=[figure(max(0.0, low)), figure(high)])


def speedups(seeds: Sequence[Pairs]) -> Speedups:
    """All three averages."""
    return Speedups(**{name: speedup(seeds, statistic) for name, statistic in SPEEDUPS.items()})


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
