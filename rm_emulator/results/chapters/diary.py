"""The parts of a story, and the diary of all chapters."""

from __future__ import annotations

from typing import Final

import msgspec

#: Reason of a stretch in which all waiting tasks have their containers, and these are starting.
STARTING: Final = "starting"
#: The same, of one in which they wait for data.
FOR_DATA: Final = "waits_for_data"
#: The same, of one in which all that seem to run are on dead nodes.
ON_DEAD_NODE: Final = "on_dead_node"
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


class Part(msgspec.Struct):
    """Time (ms) of a job's waits for a reason, and the scheduler's first sentence on the reason.

    reason: a code of `schedulers.core.reasons`, STARTING, FOR_DATA or ON_DEAD_NODE.
    """

    reason: str
    ms: int
    sentence: str


class Moment(msgspec.Struct, frozen=True):
    """An event in the life of the job.

    kind: submitted, plan, estimate, choice, stage, task, data, copy, reserved, refused, lost, nodes,
    end.
    """

    at_ms: int
    kind: str
    text: str


class Waiting(msgspec.Struct, frozen=True):
    """A stretch of time in which tasks of the job waited. idle_ms: time without a running task of the job."""

    from_ms: int
    to_ms: int
    idle_ms: int
    parts: tuple[Part, ...]


class Story(msgspec.Struct, frozen=True):
    """The story of a job in a log; times in ms.

    finished_ms: None when the log ends before the job. waited_ms + ran_ms is the JCT (so far): waited_ms
    without any running task. reasons: sums over all waits, longest first. ended_early: attempts that were lost or
    failed; in_vain_ms: their run times in all.
    """

    job: str
    submitted_ms: int
    finished_ms: int | None
    waited_ms: int
    ran_ms: int
    moments: tuple[Moment, ...]
    waits: tuple[Waiting, ...]
    reasons: tuple[Part, ...]
    ended_early: int = 0
    in_vain_ms: int = 0


class Stretches:
    """Sums up the reasons of waiting between two moments of a job's story. reason: the present one."""

    def __init__(self) -> None:
        self.waits: list[Waiting] = []
        self.waited = self.ran = 0
        self.reason: str | None = None
        self._since = self._last = self._idle = 0
        self._parts: dict[str, Part] = {}

    def begin(self, at: int) -> None:
        """Start the story at a time (ms); earlier waits are left out."""
        self._since = self._last = at

    def add(self, at: int, *, runs: bool) -> None:
        """Account for the time since the last call: the job ran, or waited for `reason`."""
        ms, self._last = at - self._last, at
        if runs:
            self.ran += ms
        else:
            self.waited += ms
            self._idle += ms
        if self.reason is not None:
            self._parts[self.reason].ms += ms

    def __contains__(self, reason: str) -> bool:
        return reason in self._parts

    def note(self, part: Part) -> None:
        """Put the part of a reason new in the present stretch."""
        self._parts[part.reason] = part

    def close(self) -> None:
        """End the stretch: the story goes on with something else."""
        parts = tuple(sorted((p for p in self._parts.values() if p.ms), key=lambda p: -p.ms))
        if parts:
            self.waits.append(Waiting(self._since, self._last, self._idle, parts))
        self._since, self._idle, self._parts, self.reason = self._last, 0, {}, None

    def in_all(self) -> list[Part]:
        """All stretches together, longest first."""
        sums: dict[str, Part] = {}
        for part in (part for wait in self.waits for part in wait.parts):
            if part.reason in sums:
                sums[part.reason].ms += part.ms
            else:
                sums[part.reason] = msgspec.structs.replace(part)
        return sorted(sums.values(), key=lambda part: -part.ms)


class Diary:
    """The story of the job so far."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.stretches = Stretches()

    def note(self, kind: str, at: int, text: str) -> None:
        """Add a moment, after the waits up to now."""
        self.stretches.close()
        self.moments.append(Moment(at, kind, text))


def clock(ms: int) -> str:
    """A time or a duration for people: `0.3 s`, `47 s`, `12 m 03 s`, `2 h 00 m 07 s`."""
    if ms < 10_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} m {seconds:02d} s"
    return f"{minutes} m {seconds:02d} s" if minutes else f"{seconds} s"


def show_bytes(amount: int) -> str:
    """A number of bytes for people: `120 MiB`, `1.5 GiB`, `17 bytes`."""
    unit, shown = 0, float(amount)
    while shown >= 1024 and unit < len(_UNITS) - 1:
        unit, shown = unit + 1, shown / 1024
    return f"{shown:.3g} {_UNITS[unit]}" if unit else f"{amount} {plural(amount, 'byte', 'bytes')}"


def plural(count: int, one: str, many: str) -> str:
    """The word for so many."""
    return one if count == 1 else many
