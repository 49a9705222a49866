"""Two runs, or two labels of a run, side by side: `rm-emulator compare`.

Everything is said of the second, B, relative to the first, A: B is better or worse, its jobs are faster or slower.
A score card with the good direction of each figure, the quantiles of the per-job ratio, winners and losers, also
by bin, and the first event of difference between the two logs.
"""

from __future__ import annotations

import gzip
import json as json_format
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rm_emulator.program import as_json
from rm_emulator.results import contest, expect, statistics
from rm_emulator.results.figures import BINS, Speedup, Summary, meaning
from rm_emulator.results.metrics import figure
from rm_emulator.results.replay import logs_of
from rm_emulator.results.summary import MissingCell, cell_dir, paired, read_summary
from rm_emulator.results.sweep import name_one
from rm_emulator.results.table import BIN_NAMES, interval, number, times
from schedulers.core.errors import nearest

#: Figures and where they are in `figures.Run`.
SCORES: Final = {
    "mean JCT": ("jct_s", "mean"),
    "p50 JCT": ("jct_s", "p50"),
    "p90 JCT": ("jct_s", "p90"),
    "p99 JCT": ("jct_s", "p99"),
    "mean wait": ("wait_s", "mean"),
    "p90 wait": ("wait_s", "p90"),
    "mean slowdown": ("slowdown", "mean"),
    "makespan": ("makespan_s",),
    "fairness (Jain)": ("jain",),
    "jobs in the right queue": ("queue_placement_correct",),
    "prediction error p50": ("prediction_error_pct", "p50"),
    "prediction error p90": ("prediction_error_pct", "p90"),
    "failed tasks": ("failed_tasks",),
    "unfinished jobs": ("unfinished_jobs",),
    "failed jobs": ("faults", "failed_jobs"),
    "lost node time": ("faults", "lost_node_s"),
    "goodput": ("faults", "goodput"),
    "ETTR": ("faults", "ettr"),
    "wait after a loss": ("faults", "wait_again_s", "mean"),
}
#: Jobs listed as winners and as losers.
SHOWN: Final = 5
#: Figures that differ by less, relative to the larger one, count as the same: they print as +0.0 %.
SAME: Final = 5e-4


class CompareError(ValueError):
    """The runs, labels or seeds to compare do not exist."""


class Side(msgspec.Struct, frozen=True):
    """A side of a comparison: a run directory, a label, and the summary of the run."""

    directory: Path
    label: str
    summary: Summary

    @property
    def seeds(self) -> list[int]:
        """The seeds of the label."""
        return [run.seed for run in self.summary.of(self.label)]


class Divergence(msgspec.Struct, frozen=True):
    """The first difference between two logs."""

    line: int
    """Line number, from 1."""
    same: int
    """Equal lines before, without the headers."""
    at_ms: int | None
    """Simulated time of the difference; between decisions the time of the event before."""
    left: str | None
    """Line of the left log, None after its end."""
    right: str | None
    """Line of the right log, None after its end."""


def main(
    run_dirs: Sequence[Path],
    labels: Sequence[str] = (),
    json: bool = False,
    seed: int | None = None,
) -> int:
    """Compares and prints; returns the exit code: 0, or 2 when a side does not exist.

    run_dirs: a run directory (two of its labels), or two. labels: none, a label for both runs, or a label per side.
    seed: for the logs; by default the first common seed. json: print a JSON document.
    """
    try:
        left, right = sides(run_dirs, labels)
        card = compare(left, right, seed)
    except (CompareError, MissingCell) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 (the message for the user)
        return 2
    if json:
        sys.stdout.write(as_json(card) + "\n")
    else:
        show(card, Console())
    return 0


def sides(run_dirs: Sequence[Path], labels: Sequence[str]) -> tuple[Side, Side]:
    """The two sides to compare. Raises CompareError, and summary.MissingCell for a directory without a run.

    One directory: the two labels named, or the baseline and the label named, or the baseline and the first label
    besides. Two directories: the label of each, by default the first.
    """
    if not 1 <= len(run_dirs) <= 2:
        raise CompareError(f"expected one or two run directories, found {len(run_dirs)}")
    if len(labels) > 2:
        raise CompareError(f"expected at most two labels, found {len(labels)}: {', '.join(labels)}")
    first, last = run_dirs[0], run_dirs[-1]
    summaries = [read_summary(first)]
    summaries += [read_summary(last) if len(run_dirs) > 1 else summaries[0]]
    for directory, summary in zip((first, last), summaries, strict=True):
        if summary.axes:
            raise CompareError(f"{directory} {name_one(directory, summary.axes)}")
    if len(run_dirs) == 1:
        chosen = _two_labels(summaries[0], list(labels), first)
    else:
        named = [labels[0], labels[-1]] if labels else [s.labels[0] for s in summaries]
        chosen = (named[0], named[1])
    left, right = (Side(d, label, s) for d, label, s in zip((first, last), chosen, summaries, strict=True))
    _check(left)
    _check(right)
    return left, right


def _two_labels(summary: Summary, labels: list[str], directory: Path) -> tuple[str, str]:
    known = summary.labels
    if len(labels) == 2:
        return labels[0], labels[1]
    if len(known) < 2:
        raise CompareError(f"{directory} has one label only ('{known[0]}'): name a second run directory")
    baseline = summary.baseline
    others = [label for label in (labels or known) if label != baseline]
    return baseline, others[0] if others else next(label for label in known if label != baseline)


def _check(side: Side) -> None:
    known = side.summary.labels
    if side.label not in known:
        near = nearest(side.label, known)
        hint = f", did you mean '{near}'?" if near else ""
        raise CompareError(f"{side.directory} has no label '{side.label}'{hint} (it has: {', '.join(known)})")


def compare(left: Side, right: Side, seed: int | None = None) -> dict[str, Any]:
    """The whole comparison as plain data, of the right side relative to the left.

    Changes are (right - left) / left; ratios are JCT(left) / JCT(right), above 1 where the right side is faster.
    Raises CompareError when the sides have no seed or no job in common.
    """
    theirs = set(right.seeds)
    common = [s for s in left.seeds if s in theirs]
    if not common:
        raise CompareError(f"no seed in common: {left.label} has {left.seeds}, {right.label} has {right.seeds}")
    if seed is not None and seed not in common:
        raise CompareError(f"seed {seed} is not among those that both have: {', '.join(map(str, common))}")
    pairs = dict[int, statistics.Pairs]()
    most = extremes(_kept(left, right, common, pairs))
    if not any(len(pair.baseline) for pair in pairs.values()):
        raise CompareError("no job finished on both sides under the same id: these are runs of different workloads")
    shown = common[0] if seed is None else seed
    parting = first_difference(_log(left, shown), _log(right, shown))
    compared = msgspec.to_builtins(statistics.compare(right.label, left.label, pairs))
    return {
        "direction": "right relative to left",
        "left": {"run": str(left.directory), "label": left.label},
        "right": {"run": str(right.directory), "label": right.label},
        "seeds": common,
        "scores": _scores(left, right, common),
        "finished": {
            **{name: _finished(side, common) for name, side in (("left", left), ("right", right))},
            "both": sum(len(pair.baseline) for pair in pairs.values()),
        },
        **{key: compared[key] for key in ("speedup", "interval", "ratio_quantiles", "jobs_faster", "jobs_slower")},
        "bins": {name: _bin(pairs, name) for name in BINS},
        **most,
        "log_seed": shown,
        "first_difference": None if parting is None else msgspec.to_builtins(parting),
        "logs": parting is not None or _same_hash(left, right, shown),
    }


def _kept(
    left: Side, right: Side, seeds: Sequence[int], kept: dict[int, statistics.Pairs]
) -> Iterator[tuple[int, statistics.Pairs]]:
    """Each seed with its pairs, which stay in `kept` without their ids."""
    for seed, pair in paired((left.directory, left.label), (right.directory, right.label), seeds):
        kept[seed] = msgspec.structs.replace(pair, ids=())
        yield seed, pair


def _finished(side: Side, seeds: Sequence[int]) -> int:
    """Jobs that finished, over all these seeds."""
    return sum(run.jobs - run.unfinished_jobs for run in side.summary.of(side.label) if run.seed in seeds)


def _scores(left: Side, right: Side, seeds: Sequence[int]) -> list[dict[str, Any]]:
    resources = dict.fromkeys(name for side in (left, right) for run in side.summary.runs for name in run.utilisation)
    use = {f"{name} utilisation": ("utilisation", name) for name in resources}
    wanted = set(seeds)
    common = [
        msgspec.structs.replace(side.summary, runs=[run for run in side.summary.of(side.label) if run.seed in wanted])
        for side in (left, right)
    ]
    rows = []
    told = right.summary.headline
    first = {contest.figure_name(told): expect.keys(told)}  # the others are told below the headline's figure
    for name, path in {**first, **{n: p for n, p in {**SCORES, **use}.items() if p not in first.values()}}.items():
        unit, good = meaning(*path)
        one, other = (summary.mean(side.label, *path) for summary, side in zip(common, (left, right), strict=True))
        rows.append({"name": name, "unit": unit, **_verdict(one, other, good)})
    return rows


def _verdict(left: float | None, right: float | None, sign: int) -> dict[str, Any]:
    """Change of a figure from left to right, with a verdict."""
    verdict, change = None, None
    if left is not None and right is not None:
        gain = sign * (right - left)
        same = gain == 0 or abs(gain) < SAME * max(abs(left), abs(right))
        verdict = "same" if same else "better" if gain > 0 else "worse"
        change = figure(100 * (right - left) / abs(left)) if left else None
    good = "lower" if sign < 0 else "higher"
    return {"good": good, "left": left, "right": right, "change_pct": change, "verdict": verdict}


def _bin(pairs: Mapping[int, statistics.Pairs], name: str) -> dict[str, Any]:
    ratios = statistics.all_ratios(pair.only(name) for pair in pairs.values())
    if len(ratios) == 0:
        return {"jobs": 0, "faster": None, "slower": None, "median_ratio": None}
    return {
        "jobs": len(ratios),
        "faster": int((ratios > 1).sum()),
        "slower": int((ratios < 1).sum()),
        "median_ratio": figure(np.median(ratios)),
    }


def extremes(pairs: Iterable[tuple[int, statistics.Pairs]]) -> dict[str, list[dict[str, Any]]]:
    """The jobs with the largest and the smallest ratio over all seeds (ties: id). pairs: seed and pairs with ids."""
    up, down = list[dict[str, Any]](), list[dict[str, Any]]()
    for seed, pair in pairs:
        jobs = [
            {"job": job, "seed": seed, "left_s": figure(left), "right_s": figure(right), "ratio": figure(left / right)}
            for job, left, right in zip(pair.ids, pair.baseline.tolist(), pair.label.tolist(), strict=True)
        ]
        up = nsmallest(SHOWN, [*up, *jobs], key=lambda job: (-job["ratio"], job["job"], job["seed"]))
        down = nsmallest(SHOWN, [*down, *jobs], key=lambda job: (job["ratio"], job["job"], job["seed"]))
    return {"winners": [job for job in up if job["ratio"] > 1], "losers": [job for job in down if job["ratio"] < 1]}


def _log(side: Side, seed: int) -> Path | None:
    """Its log; None where none was kept, or several schedulers have each its own."""
    logs = logs_of(cell_dir(side.directory, side.label, seed))
    return logs[0] if len(logs) == 1 else None


def _same_hash(left: Side, right: Side, seed: int) -> bool:
    """Whether the two logs are known to be the same, by their hashes or by having been read."""
    if _log(left, seed) and _log(right, seed):
        return True
    hashes = [next(run.log_sha256 for run in side.summary.of(side.label) if run.seed == seed) for side in (left, right)]
    return hashes[0] is not None and hashes[0] == hashes[1]


def lines(path: Path) -> Iterator[str]:
    """The lines of a log, plain or gzip, one at a time. Raises CompareError for a damaged file."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as log:
            for line in log:
                yield line.rstrip("\n")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise CompareError(f"{path}: cannot be read to its end ({error})") from None


def first_difference(left: Path | None, right: Path | None) -> Divergence | None:
    """The first different line of two logs after the headers; None for equal logs and without two logs.

    The headers (line 1) name policy and predictor and differ in any comparison worth making.
    """
    if left is None or right is None:
        return None
    before: str | None = None
    for index, (ours, theirs) in enumerate(zip_longest(lines(left), lines(right))):
        if index and ours != theirs:
            moments = [at for at in (_moment(ours), _moment(theirs)) if at is not None]
            return Divergence(index + 1, index - 1, min(moments, default=_moment(before)), ours, theirs)
        if index and '"at":' in ours:
            before = ours
    return None


def _moment(line: str | None) -> int | None:
    """The `at` of a line of the log, at any depth."""
    if line is None:
        return None
    try:
        waiting: list[Any] = [json_format.loads(line)]
    except ValueError:
        return None
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            if isinstance(value.get("at"), int):
                return int(value["at"])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return None


def show(card: Mapping[str, Any], console: Console) -> None:
    """Prints a comparison for people."""
    left, right = (_title(card[side], card) for side in ("left", "right"))
    console.print(Text(f"B ({right}) relative to A ({left})", style="bold"))
    console.print(_score_table(card, ascii_only=console.options.ascii_only))
    finished = card["finished"]
    # Without the others a side seems faster for its long jobs that failed.
    if finished["both"] < max(finished["left"], finished["right"]):
        counts = (
            f"{finished['left']:,} in A, {finished['right']:,} in B; speeds are those of {finished['both']:,} in both"
        )
        console.print(f"times above are those of jobs that finished: {counts}\n", style="bold", highlight=False)
    means = msgspec.convert(card["speedup"]["ratio_of_means"], Speedup)
    text = Text(f"B relative to A: speed by mean JCT {times(means.value)} {interval(means)}, ", style="bold")
    text.append(f"of the median job {times(card['speedup']['p50_of_ratios']['value'])}; under B ")
    text.append(f"{100 * card['jobs_faster']:.0f} % of the jobs are faster, {100 * card['jobs_slower']:.0f} % slower")
    console.print(text)
    quantiles = "   ".join(f"{name} {times(value)}" for name, value in card["ratio_quantiles"].items())
    console.print(f"speed of each job, JCT of A / JCT of B (above 1: B is faster): {quantiles}", highlight=False)
    console.print(f"interval: {card['interval']}\n", style="dim", highlight=False)
    console.print(_bin_table(card))
    for heading, key in (("won most from A to B", "winners"), ("lost most from A to B", "losers")):
        if card[key]:
            console.print(_job_table(heading, card[key]))
    _show_divergence(card, console, left, right)


def _title(side: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    if card["left"]["label"] != card["right"]["label"]:
        return str(side["label"])
    return f"{side['label']} in {side['run']}"


def _table(title: str | None, first: str, *figures: str) -> Table:
    """An empty table: a column of names, then columns of figures."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column(first)
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def _score_table(card: Mapping[str, Any], *, ascii_only: bool) -> Table:
    table = _table(None, "", "A", "B")
    table.add_column("from A to B")
    for row in card["scores"]:
        if row["verdict"] is None:
            continue
        values = [number(row[side]) + (f" {row['unit']}" if row["unit"] else "") for side in ("left", "right")]
        table.add_row(row["name"], *values, _sentence(row, ascii_only=ascii_only))
    return table


def _sentence(row: Mapping[str, Any], *, ascii_only: bool = False) -> Text:
    """A row as a sentence on B."""
    marks = {"better": "+", "worse": "-", "same": "="} if ascii_only else {"better": "▲", "worse": "▼", "same": "="}
    mark, style = marks[row["verdict"]], {"better": "green", "worse": "red", "same": "dim"}[row["verdict"]]
    if row["verdict"] == "same":
        return Text(f"{mark} B is the same", style=style)
    amount = "" if row["change_pct"] is None else f"{abs(row['change_pct']):.1f} % "
    return Text(
        f"{mark} B is {row['verdict']}: {amount}{'lower' if row['right'] < row['left'] else 'higher'}", style=style
    )


def _bin_table(card: Mapping[str, Any]) -> Table:
    table = _table("who won, who lost from A to B", "bin", "jobs", "faster", "slower", "median speed")
    for name, row in card["bins"].items():
        sides = [str(row[key]) if row["jobs"] else number(None) for key in ("faster", "slower")]
        table.add_row(BIN_NAMES[name], str(row["jobs"]), *sides, times(row["median_ratio"]))
    return table


def _job_table(heading: str, jobs: Sequence[Mapping[str, Any]]) -> Table:
    table = _table(heading, "job", "seed", "A s", "B s", "speed")
    for job in jobs:
        cells = (number(job["left_s"]), number(job["right_s"]), times(job["ratio"]))
        table.add_row(str(job["job"]), str(job["seed"]), *cells)
    return table


def _show_divergence(card: Mapping[str, Any], console: Console, left: str, right: str) -> None:
    parting = card["first_difference"]
    if parting is None:
        unknown = "no event logs of both sides to compare, and their hashes differ"
        console.print(f"seed {card['log_seed']}: {'the logs agree line by line' if card['logs'] else unknown}")
        return
    at = "" if parting["at_ms"] is None else f" at {parting['at_ms'] / 1000:,.3f} s"
    same = f"{parting['same']:,} equal line{'' if parting['same'] == 1 else 's'}"
    console.print(
        f"\nseed {card['log_seed']}: the logs part{at}, line {parting['line']:,}, after {same}", highlight=False
    )
    for title, key in ((left, "left"), (right, "right")):
        line = "(ended)" if parting[key] is None else parting[key]
        shown = line if len(line) <= 400 else line[:400] + " ..."
        console.print(Text(f"  {title}: ", style="bold").append(shown, style="not bold"))
