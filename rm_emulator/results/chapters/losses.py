"""Attempts of a job that ended early, and stages that ask for nothing for a while after a failure."""

from __future__ import annotations

from typing import Final

import msgspec

from rm_emulator.engine.exit_codes import KILLED, KILLED_BY_MANAGER, KILLED_BY_MASTER, PREEMPTED, TERMINATED
from rm_emulator.results.chapters.diary import Diary, clock, plural
from schedulers.core.containers import ABORTED
from schedulers.core.events import Event, JobChanged, StageWithdrawn
from schedulers.core.model import Job

#: What happened to an attempt, by exit code; any other code is that of the task's own process.
_ENDS: Final = {
    ABORTED: "is lost",
    PREEMPTED: "is preempted",
    KILLED_BY_MASTER: "hung and is ended by the watchdog",
    KILLED_BY_MANAGER: "is ended by a manager that has lost its memory",
    KILLED: "is ended with its job",
    TERMINATED: "is told to exit",
}


def ended_with(code: int) -> str:
    """What an exit code other than 0 says of an attempt."""
    return f"{_ENDS.get(code, 'fails')} (exit code {code})"


class _Together(msgspec.Struct):
    """Attempts that ended early at the same instant for the same reason."""

    at: int
    stage: int
    why: str
    again: bool
    first: str
    """Name of the first."""
    ran_ms: list[int | None]
    """Run times; None: before the start."""

    def text(self) -> str:
        """The moment in words."""
        ran, others = self.ran_ms[0], len(self.ran_ms) - 1
        text = f"{self.first} {self.why} " + ("before its start" if ran is None else f"after running for {clock(ran)}")
        if others:
            in_all = clock(sum(each or 0 for each in self.ran_ms))
            text += f", and {others} {plural(others, 'other', 'others')} likewise ({in_all} in all)"
        waits = "they wait" if others else "it waits"
        return f"{text}; {waits} again" if self.again else text


class Losses:
    """Tells of attempts that end early, all attempts of an instant together, and of stages that back off."""

    def __init__(self, spec: Job, diary: Diary) -> None:
        self._spec, self._diary = spec, diary
        self.count = 0
        """Attempts that ended early."""
        self.ran_ms = 0
        """Their run times in all."""
        self._last: _Together | None = None
        self._failed: dict[int, str] = {}  # by stage: the task that failed last
        self._withdrawn: dict[int, int] = {}  # by stage: since when

    def ended(
        self, stage: int, who: str, why: str, at: int, ran_ms: int | None, *, again: bool, apart: bool = False
    ) -> None:
        """Tell of an attempt. ran_ms: None before its start. again: whether its task waits. apart: with no other."""
        self.count += 1
        self.ran_ms += ran_ms or 0
        self._failed[stage] = who
        last, moments = self._last, self._diary.moments
        same = last is not None and (last.at, last.stage, last.why, last.again) == (at, stage, why, again)
        if last is not None and same and not apart and moments[-1].text == last.text():
            last.ran_ms.append(ran_ms)
            moments.pop()
        else:
            self._last = last = _Together(at, stage, why, again, who, [ran_ms])
        self._diary.note("lost", at, last.text())

    def go_on_from(self, former: Losses) -> None:
        """Count the attempts of the job before it was submitted anew, too."""
        self.count, self.ran_ms = former.count, former.ran_ms

    def hear(self, event: Event) -> None:
        """Take in that a stage asks for nothing for a while, or asks again."""
        if isinstance(event, StageWithdrawn) and event.job == self._spec.id:
            self._withdrawn.setdefault(event.stage, event.at)
        elif isinstance(event, JobChanged) and event.job == self._spec.id:
            for stage in event.asked:
                if (since := self._withdrawn.pop(stage, None)) is not None:
                    name, waited = self._spec.stages[stage].name, clock(event.at - since)
                    self._diary.note("stage", event.at, f"stage {name} asks for tasks again after {waited}")

    def backing_off(self, stage: str) -> str:
        """Why the stage of this name asks for nothing; empty for a stage that was not withdrawn."""
        for index, since in self._withdrawn.items():
            if self._spec.stages[index].name == stage:
                if index in self._failed:
                    return f"stage {stage} backs off since {clock(since)}, when {self._failed[index]} ended early"
                return f"stage {stage} asks for nothing since {clock(since)}"
        return ""
