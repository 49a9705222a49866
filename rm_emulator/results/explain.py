"""`rm-emulator explain`: the story of one job in sentences: what it waited for, when, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rm_emulator.results.replay import event_log, show_difference
from rm_emulator.results.story import STARTING, Story, Waiting, clock, story
from schedulers.core.replay import LogDiffers

#: Later waits and parts of waits shorter than this (ms) are summed up at the end, but get no words of their own.
_SHORT: Final = 500
_NOTHING: Final = 50


def main(
    target: Path, job: str, task: str | int | None = None, label: str | None = None, seed: int | None = None
) -> int:
    """Print the story of one job. Returns 0; 1 when the log does not replay (the story would be made up).

    target: an event log, or a run directory (then label and seed choose the cell, the first ones by default).
    task: STAGE/INDEX, or the task's number over all stages; its attempts are told too.
    Raises InvalidInput for an unreadable log, and for a job or task that is not in it.
    """
    path = event_log(target, label, seed)
    try:
        told = story(path, job, task)
    except LogDiffers as difference:
        show_difference(path, difference)
        return 1
    print("\n".join(sentences(told)))  # noqa: T201 (the answer)
    return 0


def sentences(told: Story) -> list[str]:
    """The story as lines of text, in order of time."""
    # What it waited for stands before what the waiting led to.
    lines = [
        (wait.to_ms, 0, _waiting(wait))
        for wait in told.waits
        if wait is told.waits[0] or wait.to_ms - wait.from_ms >= _SHORT
    ]
    lines += [(moment.at_ms, 1, f"at {clock(moment.at_ms)}: {moment.text}") for moment in told.moments]
    said = [f"Job {told.job}", *(text for _, _, text in sorted(lines, key=lambda line: line[:2]))]
    name = "JCT" if told.finished_ms is not None else "so far"
    jct = clock(told.waited_ms + told.ran_ms)
    said.append(f"In all: waited {clock(told.waited_ms)}, ran {clock(told.ran_ms)}, {name} {jct}.")
    causes = [f"{clock(part.ms)} {_words(part.reason)}" for part in told.reasons if part.ms >= _NOTHING]
    if causes:
        said.append(f"Its tasks waited: {'; '.join(causes)}.")
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
