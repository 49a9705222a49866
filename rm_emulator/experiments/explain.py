"""`rm-emulator explain`: a job's waiting in sentences, with times and reasons, and changes that would have helped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from rm_emulator.plugins import load_plugins
from rm_emulator.program import as_json, prints_apart
from rm_emulator.results.replay import event_log, load_plugins_of, show_difference
from rm_emulator.results.story import STARTING, Story, Waiting, clock, plural, story
from rm_emulator.results.summary import MissingCell, read_counters
from schedulers.core.replay import LogDiffers

if TYPE_CHECKING:
    from rm_emulator.experiments.advice import Advice, Progress

#: Later waits and parts of waits shorter than this (ms) are summed up at the end, but get no words of their own.
_SHORT: Final = 500
_NOTHING: Final = 50


class Explained(msgspec.Struct, frozen=True):
    """Story and advice of a job, in the form of `explain --json` (docs/explain.md)."""

    log: str
    """The event log's file."""
    story: Story
    advice: Advice | None = None
    """None without `advise`."""
    submitted: datetime | None = None
    """Date of the submission in UTC; None for jobs without dates, and for a log outside a run directory."""


def explain(
    target: str | Path,
    job: str,
    task: str | int | None = None,
    label: str | None = None,
    seed: int | None = None,
    *,
    advise: bool = False,
    plugins: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> Explained:
    """Find out the reasons of a job's waiting and, if wanted, try changes that might have helped.

    target: an event log, or a run directory (then label and seed choose the cell, the first ones by default).
    task: STAGE/INDEX, or the task's number over all stages; its attempts are told too.
    plugins: the plug-in files of the run, in the same order; by default the files named by the run.
    progress: called with each change, a line each.
    Raises InvalidInput for an unreadable log, for a job or task missing in the log, and for advice that cannot be
    tried; LogDiffers when the log does not replay (the story would be made up).
    """
    log = event_log(Path(target), label, seed, job)
    files = load_plugins(plugins) if plugins else load_plugins_of(log)
    if not advise:
        told = story(log, job, task)
        return Explained(str(log), told, None, _date(log, told.submitted_ms))
    from rm_emulator.experiments import advice  # the whole engine

    run = advice.recorded_cell(log, files)
    told = story(log, job, task)
    return Explained(str(log), told, advice.try_changes(run, told, progress), _date(log, told.submitted_ms))


def _date(log: Path, ms: int) -> datetime | None:
    """The date of a time (ms) in a log, from the cell.json beside the log."""
    try:
        workload = read_counters(log.parent).workload
    except MissingCell:
        return None
    return None if workload is None else workload.date(ms)


def main(
    target: Path,
    job: str,
    task: str | None = None,
    label: str | None = None,
    seed: int | None = None,
    *,
    advise: bool = False,
    plugins: Sequence[Path] = (),
    json: bool = False,
    quiet: bool = False,
) -> int:
    """Print the findings of `explain`; 0, or 1 when the log does not replay.

    json: as a single document. quiet: without progress on standard error.
    """
    log = event_log(target, label, seed, job)
    try:
        with prints_apart():
            found = explain(log, job, task, advise=advise, plugins=plugins, progress=None if quiet else _report)
    except LogDiffers as difference:
        show_difference(log, difference, sys.stderr if json else sys.stdout)
        return 1
    if json:
        print(as_json(msgspec.to_builtins(found), indent=1))  # noqa: T201 (the answer)
        return 0
    lines = sentences(found.story, found.submitted)
    if found.advice is not None:
        from rm_emulator.experiments.advice import advice_lines

        lines += advice_lines(found.advice, found.story)
    elif found.story.waits:
        lines.append("What would have helped? With --advise it is tried.")
    print("\n".join(lines))  # noqa: T201 (the answer)
    return 0


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def sentences(story: Story, submitted: datetime | None = None) -> list[str]:
    """The story as lines of text, in order of time. submitted: date of the submission."""
    # What it waited for stands before what the waiting led to.
    lines = [
        (wait.to_ms, 0, _waiting(wait))
        for wait in story.waits
        if wait is story.waits[0] or wait.to_ms - wait.from_ms >= _SHORT
    ]
    lines += [(moment.at_ms, 1, f"at {clock(moment.at_ms)}: {moment.text}") for moment in story.moments]
    date = "" if submitted is None else f", submitted on {submitted:%Y-%m-%d at %H:%M:%S} UTC"
    said = [f"Job {story.job}{date}", *(text for _, _, text in sorted(lines, key=lambda line: line[:2]))]
    name = "JCT" if story.finished_ms is not None else "so far"
    jct = clock(story.waited_ms + story.ran_ms)
    said.append(f"In all: idle {clock(story.waited_ms)}, ran {clock(story.ran_ms)}, {name} {jct}.")
    causes = [f"{clock(part.ms)} {_words(part.reason)}" for part in story.reasons if part.ms >= _NOTHING]
    if causes:
        said.append(f"Its tasks waited: {'; '.join(causes)}.")
    if early := story.ended_early:
        attempts = f"{early} {plural(early, 'attempt', 'attempts')} ended early"
        said.append(f"Of its tasks {attempts}, after running for {clock(story.in_vain_ms)} in all.")
    return said


def _waiting(wait: Waiting) -> str:
    parts = [part for part in wait.parts if part.ms >= _NOTHING] or wait.parts[:1]
    head = f"from {clock(wait.from_ms)} to {clock(wait.to_ms)}: "
    if wait.idle_ms == wait.to_ms - wait.from_ms:
        head += "nothing of it ran; "
    elif wait.idle_ms:
        head += f"nothing of it ran for {clock(wait.idle_ms)}; "
    return head + "; ".join(f"{part.sentence} [{clock(part.ms)}]" for part in parts)


def _words(reason: str) -> str:
    return "while containers started" if reason == STARTING else f"({reason.replace('_', ' ')})"
