"""Which label is better than which by the headline's figure, and whether the seeds show a difference.

The figure is the one for which a scenario is meant (`headline:` of the scenario). A label is better only where the
paired 95 % interval over the seeds excludes "no change".
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from rm_emulator.results import expect
from rm_emulator.results.figures import Run, Speedup, Summary, meaning, value
from schedulers.core.errors import UnknownName
from schedulers.core.predictor import predictors

#: The figure of a scenario that names none.
USUAL: Final = "jct_s.mean"


#: How a sentence calls a figure; other figures are called by their path.
_NAMES: Final = {
    "jct_s.mean": "mean JCT",
    "jct_s.p90": "90th percentile of the JCT",
    "wait_s.mean": "mean wait",
    "wait_s.p90": "90th percentile of waits",
    "makespan_s": "makespan",
    "deadlines.met": "share of deadlines met",
    "conflict_fraction": "conflicts per job",
    "busyness": "busyness of the busiest scheduler",
    "services.in_time": "share of services in time",
}


class Contest(NamedTuple):
    """A label against another by the headline's figure, over the seeds that both have."""

    label: str
    other: str
    value: float | None
    """Ratio of mean JCTs, other / label, for the usual figure; mean difference, label - other, for all others."""
    interval: tuple[float, float] | None
    """95 % interval of the value; None for a figure that does not apply, and for the difference of one seed."""
    even: float
    """The value of two equal labels: 1 for a ratio, 0 for a difference."""
    good: int
    """1 where a higher value is better for the label, -1 where a lower one is."""

    @property
    def sure(self) -> int:
        """1 where the label is better beyond the noise, -1 where worse, 0 where the seeds show no difference."""
        if self.interval is None:
            return 0
        low, high = self.interval
        return self.good * ((low > self.even) - (high < self.even))

    @property
    def gain(self) -> float:
        """How much better the label is, 0 for equal labels and for an unknown value."""
        return 0.0 if self.value is None else self.good * (self.value - self.even)


def told_truth(summary: Summary) -> set[str]:
    """Labels whose predictor knows true run times."""
    return {run.label for run in summary.runs if _told(run)}


def _told(run: Run) -> bool:
    try:
        return run.predictor is not None and predictors.entry(run.predictor).cls.told_truth
    except UnknownName:
        return False


def contenders(summary: Summary) -> list[str]:
    """Labels that may lead: those without true run times; all labels where only the baseline would be left."""
    told = told_truth(summary)
    honest = [label for label in summary.labels if label not in told]
    return honest if set(honest) - {summary.baseline} else summary.labels


def best(summary: Summary) -> str:
    """Of the contenders with fewest unfinished jobs the best by the headline's figure; the baseline where none is."""
    left = {label: sum(run.unfinished_jobs for run in summary.of(label)) for label in summary.labels}
    gain = {label: versus(summary, label, summary.baseline).gain for label in summary.labels}
    gain[summary.baseline] = 0.0
    return min(contenders(summary), key=lambda label: (left[label], -gain[label]))


def values(summary: Summary, label: str) -> dict[int, float | None]:
    """The headline's figure of a label by seed; None where the figure does not apply."""
    steps = expect.keys(summary.headline)
    return {run.seed: value(run, *steps) for run in summary.of(label)}


def versus(summary: Summary, label: str, other: str) -> Contest:
    """A label against another. The usual figure is paired job by job where `other` is the baseline, else by seed."""
    if summary.headline == USUAL and other == summary.baseline:
        found = (each.speedup.ratio_of_means for each in summary.comparisons if each.label == label)
        ratio = next(found, Speedup())
        return Contest(label, other, ratio.value, None if ratio.ci95 is None else (ratio.ci95[0], ratio.ci95[1]), 1, 1)
    from rm_emulator.results import statistics  # here, as `check` needs none of its tables

    good = meaning(*expect.keys(summary.headline))[1]
    mine, theirs = values(summary, label), values(summary, other)
    both = [(a, b) for seed, a in mine.items() if a is not None and (b := theirs.get(seed)) is not None]
    differences = [a - b for a, b in both]
    interval = statistics.student_t(differences) if len(differences) > 1 else None
    mean = math.fsum(differences) / len(differences) if differences else None
    return Contest(label, other, mean, interval, 0, good)


def winner(point: Summary) -> str | None:
    """The label that is better than every other beyond the noise of the seeds, None where there is none."""
    first = lowest(point)
    apart = msgspec.structs.replace(point, baseline="")  # paired by seed, whichever label is the baseline
    others = [label for label in point.labels if label != first]
    return first if first and all(versus(apart, first, other).sure > 0 for other in others) else None


def lowest(point: Summary) -> str | None:
    """The label with the best mean of the headline's figure, None for a tie and where no label has the figure."""
    steps = expect.keys(point.headline)
    good = meaning(*steps)[1]
    means = {label: point.mean(label, *steps) for label in point.labels}
    known = sorted(((good * mean, label) for label, mean in means.items() if mean is not None), reverse=True)
    return known[0][1] if len(known) == 1 or (known and known[0][0] > known[1][0]) else None


def figure_name(figure: str) -> str:
    """How sentences and tables call a figure."""
    return _NAMES.get(figure, figure)


def check(figure: str) -> None:
    """Raises expect.ExpectError for a figure that no run has, or of which neither high nor low is better."""
    expect.check(expect.parse(f"label.{figure} < 0"), ["label"])
    if meaning(*expect.keys(figure))[1] == 0:
        known = ", ".join(_NAMES)
        raise expect.ExpectError(figure, 1, f"neither high nor low is better (figures such as {known})")
