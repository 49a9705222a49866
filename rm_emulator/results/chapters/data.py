"""Data on the way to the job's tasks: the wait of tasks with a container and without a start."""

from __future__ import annotations

from rm_emulator.results.chapters.diary import Diary, clock, show_bytes
from rm_emulator.results.chapters.tasks import TaskAttempt, Tasks
from schedulers.core.decisions import Copy, Decision, Place
from schedulers.core.state import JobState
from schedulers.core.transfers import Parcel


class DataChapter:
    """Tasks waiting for data, with source and time of arrival."""

    def __init__(self, state: JobState, tasks: Tasks, diary: Diary) -> None:
        self._state, self._tasks, self._diary = state, tasks, diary

    def awaited(self, at: int) -> list[Parcel]:
        """Parcels awaited by containers before their start, in order of arrival."""
        waiting = [attempt for attempt in self._tasks.held.values() if attempt.started is None]
        found = [attempt.parcel for attempt in waiting if attempt.parcel is not None and attempt.parcel.at > at]
        return sorted(found, key=lambda parcel: parcel.at)

    def tell(self, decisions: list[Decision], at: int) -> None:
        """Tell of tasks just granted and waiting for data; by stage, of several the last."""
        waits: dict[int, list[TaskAttempt]] = {}
        for decision in decisions:
            attempt = self._tasks.held.get(decision.container) if isinstance(decision, Place | Copy) else None
            if attempt is not None and attempt.parcel is not None:
                waits.setdefault(attempt.stage, []).append(attempt)
        for stage, attempts in waits.items():
            last = max(attempts, key=lambda attempt: attempt.parcel.at if attempt.parcel is not None else 0)
            assert last.parcel is not None
            said = f"{self._tasks.called(last)} on node {last.node} {waits_for(last.parcel)}"
            if len(attempts) > 1:
                name = self._state.spec.stages[stage].name
                said = f"{len(attempts)} tasks of stage {name} wait for data; the last: {said}"
            self._diary.note("data", at, said)


def waits_for(parcel: Parcel) -> str:
    """In words: how much, from where, until when."""
    until = clock(parcel.at) if parcel.at >= 60_000 else f"{parcel.at / 1000:.1f} s".replace(".0 s", " s")
    return f"waits for {show_bytes(parcel.data)} from {parcel.source} until {until}"
