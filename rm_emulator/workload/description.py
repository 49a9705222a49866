"""The description of a workload as text for a terminal, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from rm_emulator.workload.contents import plain
from rm_emulator.workload.describe import (
    MIN_RUNS,
    ArrivalFigures,
    Description,
    Groups,
    Load,
    describe,
    from_profiles,
)
from rm_emulator.workload.model import Workload
from rm_emulator.workload.quantiles import Quantiles

if TYPE_CHECKING:
    from rm_emulator.workload.profiles import TpchProfiles


def lines(description: Description) -> list[str]:
    """The description as text for a terminal, the verdict last."""
    d = description
    text = [
        f"{d.name}: {d.jobs:,} jobs, {d.tasks:,} tasks, {d.history:,} past jobs"
        + (f" ({d.source})" if d.source else ""),
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
) -> None:
    """Print the description of a workload as text or as a JSON document.

    `profiles`: the measurements for its `Waves`, taken at 50 executors.
    """
    described = describe(workload, slots, sampler=from_profiles(profiles) if profiles else None, notes=notes)
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


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
