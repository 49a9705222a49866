"""The description of a workload as text for a terminal, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from rm_emulator.program import prints_apart
from rm_emulator.workload import formats, tables
from rm_emulator.workload.contents import plain
from rm_emulator.workload.describe import (
    MIN_RUNS,
    ArrivalFigures,
    Description,
    Groups,
    Load,
    describe,
    describe_table,
)
from rm_emulator.workload.model import Workload
from rm_emulator.workload.profiles import from_profiles
from rm_emulator.workload.quantiles import Quantiles
from rm_emulator.workload.sizes import MOST_JOBS, ClusterSizes, Wanted

if TYPE_CHECKING:
    from rm_emulator.workload.profiles import TpchProfiles

#: Bytes of a file from which on progress is reported.
LARGE: Final = 20_000_000


def lines(description: Description) -> list[str]:
    """The description as text for a terminal, the verdict last."""
    d = description
    text = [
        f"{d.name}: {d.jobs:,} jobs, {d.tasks:,} tasks, {d.history:,} past jobs"
        + (f" ({d.source})" if d.source else ""),
        *([f"time 0 is {d.began:%Y-%m-%d %H:%M:%S} UTC"] if d.began else []),
        _arrival_line(d.arrivals),
        *_summary_lines((("job size, s", d.size_s), ("job width, tasks", d.width), ("task run time, s", d.task_s))),
        "jobs (share of jobs, share of work), small below 1000 s, thin below 3 tasks:",
        "  " + "   ".join(f"{b.name} {b.jobs:.1%}, {b.work:.1%}" for b in d.bins),
        *_load_lines(d.load),
        *_summary_lines((("CoV over time", d.cov_time), ("CoV over space", d.cov_space))),
    ]
    if d.time_above_space is not None:
        text.append(f"CoV over time is the larger one for {d.time_above_space:.1%} of the jobs")
    if d.teachers is None or d.teachers.gang + d.teachers.thin + d.teachers.unknown < 1:
        text += [line for groups in d.groups for line in _group_lines(groups)]
    text += [d.recurring.sentence()] if d.recurring and d.recurring.of else []
    text += _size_lines(d.sizes)
    text += [f"note: {note}" for note in d.notes]
    lacks = d.contents.lacks if d.contents else {}
    text += [f"not in the trace, {plain(fact)}: {assumed}" for fact, assumed in lacks.items()]
    return [*text, d.verdict]


def show(
    workload: Workload,
    slots: int | None,
    json: bool,
    *,
    profiles: TpchProfiles | None = None,
    notes: Sequence[str] = (),
    wanted: Wanted | None = None,
) -> None:
    """Print the description of a workload as text or as a JSON document.

    `profiles`: the measurements for its `Waves`, taken at 50 executors. `wanted`: the cluster to be sized.
    """
    sampler = from_profiles(profiles) if profiles else None
    show_description(describe(workload, slots, sampler=sampler, notes=notes, wanted=wanted), json)


def show_trace(
    path: Path,
    name: str | None,
    slots: int | None,
    json: bool,
    *,
    texts: Iterable[str] = (),
    skip_bad_rows: bool = False,
    wanted: Wanted | None = None,
    report: Callable[[str], None],
) -> None:
    """As `show`, of a trace or a stored workload; parameters and errors as of `formats.opened`.

    report: told of progress with a large file.
    """
    tables.listener.set(_reading(report))
    with prints_apart():  # a plug-in's reader may print
        found = formats.tabulated(path, name, texts, skip_bad_rows=skip_bad_rows)
        trace = formats.opened(path, name, texts, skip_bad_rows=skip_bad_rows) if found is None else None
    if trace is not None:
        show(trace.workload, slots, json, profiles=trace.profiles, notes=trace.notes, wanted=wanted)
        return
    assert found is not None
    if path.is_file() and path.stat().st_size >= LARGE:
        report(f"describing {found.table.jobs.height:,} jobs")
    show_description(describe_table(found.table, slots, notes=found.notes, wanted=wanted), json)


def _reading(report: Callable[[str], None]) -> Callable[[Path, int, int], None]:
    """Reports of how much of a large file is read: at once, then every two seconds."""
    last: dict[Path, float] = {}

    def told(path: Path, read: int, size: int) -> None:
        if size < LARGE:
            return
        if path not in last:
            last[path] = monotonic()
            report(f"reading {path.name}, {size / 1e6:,.0f} MB")
        elif monotonic() - last[path] > 2:
            last[path] = monotonic()
            report(f"reading {path.name}: {read / size:.0%}")

    return told


def show_description(described: Description, json: bool) -> None:
    """Print a description as text or as a JSON document."""
    encoded = msgspec.json.format(msgspec.json.encode(described), indent=1).decode()
    sys.stdout.write((encoded if json else "\n".join(lines(described))) + "\n")


def _arrival_line(arrivals: ArrivalFigures) -> str:
    if arrivals.gap_mean_s is None:
        return "arrivals: one job"
    cov = "" if arrivals.gap_cov is None else f", CoV of the gaps {arrivals.gap_cov:.2f} (1: Poisson)"
    return f"arrivals: over {arrivals.span_s:,.0f} s, every {arrivals.gap_mean_s:,.1f} s on average{cov}"


def _summary_lines(rows: Iterable[tuple[str, Quantiles | None]]) -> list[str]:
    return [
        f"{label}: mean {_number(row.mean)}, P50 {_number(row.p50)}, P90 {_number(row.p90)}, max {_number(row.max)}"
        for label, row in rows
        if row is not None
    ]


def _load_lines(load: Load | None) -> list[str]:
    if load is None:
        return []
    what = f"load on {load.slots:,} slots" if load.slots else "slots kept busy"
    offered = "" if load.offered is None else f"{_number(load.offered)} over the whole span; "
    return [
        f"{what}: {offered}1000 s windows: mean {_number(load.mean)}, P50 {_number(load.p50)}, "
        f"P90 {_number(load.p90)}, {load.empty:.0%} without a job"
    ]


def _group_lines(groups: Groups) -> list[str]:
    if groups.cov_time is None or groups.cov_space is None or groups.pilots is None:
        return [f"by {groups.feature}: no value with {MIN_RUNS} runs and a wide job"]
    count = "1 group" if groups.groups == 1 else f"{groups.groups:,} groups"
    needed = "" if groups.needed is None else f", pilots needed P50 {_number(groups.needed.p50)}"
    work = "" if groups.better_work is None else f" ({groups.better_work:.0%} of their work)"
    return [
        f"by {groups.feature}: {count} with {groups.work:.0%} of the work; CoV over time P50 "
        f"{_number(groups.cov_time.p50)}, inside a run P50 {_number(groups.cov_space.p50)}{needed}, 3 % are "
        f"{_number(groups.pilots.p50)}; sampling better for {groups.better_groups or 0:.0%} of the groups{work}"
    ]


def _size_lines(sizes: ClusterSizes | None) -> list[str]:
    if sizes is None:
        return []
    text = []
    for d in sizes.demands:
        unit = f" {d.unit}" if d.unit else ""
        loads = [] if d.mean_load is None else [f"mean {_number(d.mean_load)}{unit}"]
        if d.mean_load is None or d.peak_load > d.mean_load:  # arrivals within less than an hour have no busiest one
            loads.append(f"busiest hour {_number(d.peak_load)}{unit} (hour {d.peak_hour})")
        text.append(
            f"{d.resource} of a task: P50 {_number(d.p50)}, P90 {_number(d.p90)}, max {_number(d.max)}{unit}; load by "
            f"arrivals: {', '.join(loads)}; in all {_number(d.total_hours)}{unit} x h"
        )
    text += [f"widest gang: {sizes.widest_gang:,} tasks"] if sizes.widest_gang else []
    given = "as given" if sizes.own is None else f"the scenario has {sizes.own:,}; --node changes them"
    why = "from the largest task and the work's proportions; --node changes it" if sizes.derived else given
    text.append(counts(sizes, f" ({why})"))
    text += [
        f"  on {_nodes(row.nodes)}: a job waits {_time(row.p50_s)} (P50), {_time(row.p90_s)} (P90)"
        for row in sizes.waits
    ]
    busiest = f"the busiest {sizes.judged:,} jobs in a row" if sizes.judged >= MOST_JOBS else "all jobs"
    text.append(
        f"  waits are estimated for {busiest}, first come, first served; `init --from` writes a scenario to run"
    )
    return text


def counts(sizes: ClusterSizes, why: str = "") -> str:
    """Numbers of nodes of a cluster as a sentence: on which nothing is refused, and on which few jobs wait long.

    why: where the node comes from, to stand behind its resources.
    """
    node = ",".join(f"{name}={amount}" for name, amount in sizes.node.items())
    bound = f"90% of the jobs wait {_time(sizes.wait_s)} at most"
    enough = f"no number of nodes makes {bound}" if sizes.enough is None else f"{bound} from {sizes.enough:,} on"
    return f"nodes of {node}{why}: nothing is refused from {_nodes(sizes.least)} on; {enough}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{_number(seconds / 3600)} h"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
