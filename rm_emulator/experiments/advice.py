"""Advice: changes that would have let a job end sooner, each tried in a new emulation of the job's cell.

Same scenario, policy, seed and true run times; decisions are made anew, by the engine. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec

from rm_emulator.engine.control import Stalled
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.experiments.assembly import assemble, cluster_of
from rm_emulator.experiments.cell import Cell, inputs_of
from rm_emulator.experiments.changes import CellSetting, Change, changes
from rm_emulator.experiments.directory import stored, stored_key
from rm_emulator.experiments.grid import cells
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.results.story import Story, clock
from rm_emulator.results.summary import read_table
from rm_emulator.results.unused import uses_of_queues
from rm_emulator.scenario.cluster import container_sizes
from rm_emulator.scenario.load import load
from rm_emulator.scenario.schema import Scenario
from schedulers.core.resources import Resources

#: A job that ends less than so much (percent of its JCT) sooner is not helped: meeting other heartbeats does as much.
HELPS_PCT: Final = 5.0
#: Kinds of changes that ask something of the job's tasks.
_OWN: Final = ("ask_less", "ask_less_of_all", "fewer_tasks", "no_gang")
Progress = Callable[[str], None]


class TriedChange(msgspec.Struct, frozen=True):
    """A change and its effect."""

    kind: str
    """Kind of the change, see `changes.Change`."""
    change: str
    """The change in words."""
    finished_ms: int | None
    """End of the job with the change, None for a job without an end."""
    sooner_pct: float | None
    """Reduction of the job's JCT by the change, below 0 for a longer JCT; None without anything to compare."""
    others_pct: float | None
    """Increase of the mean JCT of all other jobs; None without anything to compare."""
    helped: bool
    """Whether the JCT was at least 5 % less."""


class Advice(msgspec.Struct, frozen=True):
    """The changes tried for a job."""

    others: int
    """Number of other jobs."""
    tried: tuple[TriedChange, ...]
    """The changes, the most helpful first."""


class RecordedCell(msgspec.Struct, frozen=True):
    """A finished cell of a run directory with an unchanged key. wall_s: wall-clock time of the cell, s."""

    cell: Cell
    scenario: Scenario
    setting: CellSetting
    directory: Path
    wall_s: float


def recorded_cell(log: Path, plugins: Sequence[str | Path] = ()) -> RecordedCell:
    """The cell of an event log.

    Raises InvalidInput for a log outside a run directory, and for a cell made from a different scenario, trace, plug-in
    or program: effects of a change could not be told from effects of these differences.
    """
    directory = log.resolve().parent
    runs = directory.parent.parent
    source = runs.parent / "scenario.yaml"
    if runs.name != "runs" or not source.is_file():
        message = "is not in a run directory, whose scenario could be run again"
        raise InvalidInput([Issue(str(log), message)])
    place = directory.relative_to(source.parent)
    cell = next((cell for cell in cells(load(source), [str(file) for file in plugins]) if cell.place == place), None)
    if cell is None:
        raise InvalidInput([Issue(str(source), f"has no policy and seed of {place}")])
    made = rebuilt(cell, directory, stored(directory)["wall_s"])
    if stored_key(directory) != cell.key:
        message = "was made by another version of rm-emulator, from another trace or with other plug-ins"
        hint = "run the scenario again"
        raise InvalidInput([Issue(str(directory), message, hint=hint)])
    return made


def rebuilt(cell: Cell, directory: Path, wall_s: float) -> RecordedCell:
    """The same cell, for a process that need not have its directory. Raises InvalidInput as `load` does."""
    scenario, built = inputs_of(cell)
    resources = Resources(built.workload.resources)
    sizes = scenario.spec.cluster.sizes
    setting = CellSetting(
        cluster_of(scenario, built),
        built,
        cell.seed,
        None if sizes is None else container_sizes(sizes, resources),
        "weight" in uses_of_queues(cell.scenario["spec"]["policies"][0]),
    )
    return RecordedCell(cell, scenario, setting, directory, wall_s)


def try_changes(run: RecordedCell, story: Story, progress: Progress | None = None) -> Advice:
    """Try the changes that might have let the job end sooner. progress: called with a line on each change.

    Raises MissingCell when the cell has lost its jobs.parquet.
    """
    before = _jcts(read_table(run.directory, "jobs", ["id", "submit_ms", "finish_ms"]).iter_rows())
    others = len(before) - 1
    worth = changes(run.setting, story.job, [part.reason for part in story.reasons])
    report = progress or (lambda _: None)
    if worth:
        report(f"trying {len(worth)} changes, each in a run of its own (the last one took {run.wall_s:.1f} s)")
    tried: list[TriedChange] = []
    for number, change in enumerate(worth, start=1):
        if change.kind == "ask_less_of_all" and any(each.helped and each.kind == "ask_less" for each in tried):
            report(f"[{number}/{len(worth)}] {change.words}: not tried, less of one resource helps")
            continue
        tried.append(_tried(change, story, before, _emulated(run, change.setting)))
        report(f"[{number}/{len(worth)}] {change.words}: {_outcome(tried[-1])}")
    return Advice(others, tuple(sorted(tried, key=lambda each: -_gain(each))))


Jcts = Mapping[str, int | None]


def _jcts(rows: Iterable[tuple[Any, ...]]) -> Jcts:
    """JCT by job (ms), None for a job without an end. rows: job, submission, end."""
    return {job: None if done is None else done - submitted for job, submitted, done in rows}


def _emulated(run: RecordedCell, setting: CellSetting) -> Jcts | None:
    """JCT by job (ms) in a changed setting; None for a setting in which jobs can never finish."""
    times, entry = MemoryRecording(attempts=False), run.cell.scenario["spec"]["policies"][0]
    made = assemble(run.scenario, entry, run.cell.seed, setting.built, times, config=setting.config)
    try:
        made.simulation.run(run.scenario.spec.until)
    except Stalled:
        return None
    return _jcts((row.id, row.submit_ms, row.finish_ms) for row in times.jobs)


def _tried(change: Change, story: Story, before: Jcts, after: Jcts | None) -> TriedChange:
    if after is None:
        return TriedChange(change.kind, change.words, None, None, None, helped=False)
    was, now = before[story.job], after[story.job]
    sooner = None if was is None or now is None else 100 * (was - now) / was
    others = [
        (a, b) for job, a in before.items() if job != story.job and a is not None and (b := after[job]) is not None
    ]
    others_pct = 100 * (fmean(b for _, b in others) / fmean(a for a, _ in others) - 1) if others else None
    return TriedChange(
        change.kind,
        change.words,
        None if now is None else story.submitted_ms + now,
        sooner,
        others_pct,
        helped=now is not None and (sooner is None or sooner >= HELPS_PCT),
    )


def _gain(tried: TriedChange) -> float:
    return float("-inf") if tried.sooner_pct is None else tried.sooner_pct


# -- words --------------------------------------------------------------------------------------


def advice_lines(advice: Advice, story: Story) -> list[str]:
    """Lines of text: each helpful change with its measured effect, then all other changes in a single line."""
    if not advice.tried:
        return ["Nothing was tried: it waited for nothing that another ask, more nodes or its queue could shorten."]
    helped = [each for each in advice.tried if each.helped]
    vain = [each.change for each in advice.tried if not each.helped]
    if not helped:
        return [f"None of the {len(vain)} changes tried would have helped: {'; '.join(vain)}."]
    instead = f" instead of {clock(story.finished_ms)}" if story.finished_ms is not None else ""
    lines = [
        f"{each.change} it would have ended at {clock(each.finished_ms or 0)}{instead}: {_outcome(each)} (tried)"
        for each in helped
    ]
    if any(each.kind in _OWN for each in helped):
        lines.append("Run times were taken as they were: whether its tasks can do with less is yours to judge.")
    if vain:
        lines.append(f"Tried, and would not have helped: {'; '.join(vain)}.")
    return lines


def _outcome(tried: TriedChange) -> str:
    if tried.finished_ms is None:
        return "jobs would never have ended"
    if tried.sooner_pct is None:
        return "it would have ended"
    sooner = round(tried.sooner_pct)
    text = f"{abs(sooner)} % {'sooner' if sooner > 0 else 'later'}" if sooner else "no sooner"
    if tried.others_pct is None:
        return text
    others = round(tried.others_pct)
    more = (
        f"{abs(others)} % {'longer' if others > 0 else 'less'} on average" if others else "as long as before on average"
    )
    return f"{text}; the others take {more}"
