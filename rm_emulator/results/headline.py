"""The result of a run in one sentence, by the figure for which its scenario is meant (`headline:` of the scenario).

A label is called better only where the paired 95 % interval over the seeds excludes "no change". Labels that are told
true run times are named as such, and lead only where no other label is left to compare with the baseline.
"""

from __future__ import annotations

import re
from typing import Final

from rich.console import Console

from rm_emulator.results import expect, sweep, table
from rm_emulator.results.contest import (
    USUAL,
    Contest,
    best,
    contenders,
    figure_name,
    lowest,
    told_truth,
    versus,
    winner,
)
from rm_emulator.results.figures import Summary, meaning
from rm_emulator.results.table import by_difference, by_headline, number

#: The axis of a sweep over a number of nodes.
_COUNT: Final = re.compile(r"cluster\.nodes\[\d+\]\.count")


def of(summary: Summary) -> str:
    """The result of a run or of a sweep in one sentence."""
    text = _of_points(summary) if summary.axes else _of_labels(summary)
    return text if text.startswith(tuple(summary.labels)) else text[0].upper() + text[1:]


def show(summary: Summary, console: Console) -> None:
    """Prints the sentence, and the table below."""
    console.print(of(summary), style="bold", highlight=False)
    (sweep if summary.axes else table).show(summary, console)


def _of_labels(summary: Summary) -> str:
    """The result in one sentence: the leading label against the baseline, or the next label where that leads."""
    label, baseline = best(summary), summary.baseline
    if len(summary.labels) == 1:
        return _alone(summary, label)
    if label == baseline:
        rivals = (each for each in contenders(summary) if each != baseline)
        label = max(rivals, key=lambda each: versus(summary, each, baseline).gain)
    against = versus(summary, label, baseline)
    return _of_jct(summary, against) if summary.headline == USUAL else _by_figure(summary, against)


def _alone(summary: Summary, label: str) -> str:
    mean = summary.mean(label, *expect.keys(summary.headline))
    if summary.headline == USUAL:
        return f"{_called(summary, label)} finishes a job in {number(mean)} s on average"
    return f"{_called(summary, label)}: {figure_name(summary.headline)} {_quantity(summary, mean)}"


def _of_jct(summary: Summary, contest: Contest) -> str:
    label, other = (_called(summary, each) for each in (contest.label, contest.other))
    if contest.value is None or contest.interval is None:
        return f"No job finished under both {label} and {other}"
    value, (low, high) = contest.value, contest.interval
    over = "" if len(summary.seeds) > 1 else " over the jobs of one seed"
    interval = f"95 % CI {low:.2f}\u2013{high:.2f}{over}"
    if contest.sure == 0:
        return f"{_undecided(summary)} {label} and {other}: jobs finish {value:.2f}\u00d7 as fast ({interval})"
    if value > 1:
        return f"{label} finishes jobs {value:.2f}\u00d7 sooner than {other} on average ({interval})"
    inverse = f"95 % CI {1 / high:.2f}\u2013{1 / low:.2f}{over}" if low > 0 else interval
    return f"{label} takes {1 / value:.2f}\u00d7 as long as {other} to finish a job on average ({inverse})"


def _by_figure(summary: Summary, contest: Contest) -> str:
    label, other = (_called(summary, each) for each in (contest.label, contest.other))
    means = [summary.mean(each, *expect.keys(summary.headline)) for each in (contest.label, contest.other)]
    mine, theirs = (_quantity(summary, mean) for mean in means)
    figure = figure_name(summary.headline)
    if contest.interval is None:
        return f"{_undecided(summary)} {label} and {other} in {figure}: {mine} against {theirs}"
    low, high = contest.interval
    unit = meaning(*expect.keys(summary.headline))[0]
    edge = f"{by_difference(summary, low, bare=True)} to {by_difference(summary, high)}" + (f" {unit}" if unit else "")
    interval = f"95 % CI of the difference {edge}"
    if contest.sure == 0:
        return f"{_undecided(summary)} {label} and {other} in {figure}: {mine} against {theirs} ({interval})"
    word = "better" if contest.sure > 0 else "worse"
    return f"{label} is {word} than {other} in {figure}: {mine} against {theirs} ({interval})"


def _undecided(summary: Summary) -> str:
    seeds = len(summary.seeds)
    return f"No difference that {f'{seeds} seeds show' if seeds > 1 else 'one seed can show'} between"


def _called(summary: Summary, label: str) -> str:
    """A label, with a word where its predictor knows true run times and another label's does not."""
    told = told_truth(summary)
    return f"{label} (told true run times)" if label in told and len(told) < len(summary.labels) else label


def _quantity(summary: Summary, value: float | None) -> str:
    unit = meaning(*expect.keys(summary.headline))[0]
    return by_headline(summary, value) + (f" {unit}" if unit else "")


def _of_points(summary: Summary) -> str:
    """A sweep in one sentence: for each label, the number of points at which the label leads beyond the noise."""
    if len(summary.labels) == 1:
        return _extremes(summary)
    count, figure, seeds = len(summary.points), figure_name(summary.headline), len(summary.seeds)
    find = winner if seeds > 1 else lowest
    winners = [find(point) for _, point in summary.points]
    if seeds > 1 and not any(winners):
        return f"At none of {count} points do {seeds} seeds show which label is best by {figure}"
    said = [f"{_called(summary, each)} at {winners.count(each)}" for each in summary.labels if each in winners]
    if None in winners:
        nothing = f"no difference that {seeds} seeds show" if seeds > 1 else "no single label"
        said.append(f"{nothing} at {winners.count(None)}")
    unproven = "" if seeds > 1 else ", by one seed, which shows no difference for sure"
    return f"Of {count} points, best by {figure}{unproven}: {', '.join(said)}"


def _extremes(summary: Summary) -> str:
    """With which values the figure is best and worst; over numbers of nodes, how the figure changes with them."""
    steps, label = expect.keys(summary.headline), summary.labels[0]
    found = [point.mean(label, *steps) for _, point in summary.points]
    means = {at: value for at, value in enumerate(found, 1) if value is not None}
    if not means:
        return f"{figure_name(summary.headline)} is known at no point"
    seeds = "" if len(summary.seeds) > 1 else "; one seed"
    if told := _by_nodes(summary, found):
        return told + seeds
    good = meaning(*steps)[1]
    first, last = (pick(means, key=lambda at: good * means[at]) for pick in (max, min))
    best_, worst = (_quantity(summary, means[at]) for at in (first, last))
    if best_ == worst:
        return f"{figure_name(summary.headline)} is {best_} at every point"
    there = (", ".join(sweep.named(summary.points[at - 1][0], summary, "")) for at in (first, last))
    at_best, at_worst = there
    return (
        f"{figure_name(summary.headline)} is best with {at_best} ({best_}) and worst with {at_worst} ({worst}){seeds}"
    )


def _by_nodes(summary: Summary, means: list[float | None]) -> str:
    """The figure at each number of nodes, of a sweep over the count of a group of nodes alone; '' for other sweeps.

    means: of the points, in order.
    """
    (axis, values), *others = summary.axes.items()
    if others or not _COUNT.fullmatch(axis):
        return ""
    unit = meaning(*expect.keys(summary.headline))[0]
    told = " \u2192 ".join(number(mean) for _, mean in sorted(zip(values, means, strict=True)))
    counts = ", ".join(map(str, sorted(values)))
    return f"{figure_name(summary.headline)} with {counts} nodes: {told}" + (f" {unit}" if unit else "")
