"""The job's expected work, its plan, and its place in the policy's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rm_emulator.results.chapters.diary import Diary, clock, plural
from schedulers.core.state import JobState


class Outlook:
    """Tells of pilots, estimates and promises at each change. about: the policy's words on a job (`Policy.about`)."""

    def __init__(self, about: Callable[[JobState], dict[str, Any]], state: JobState, diary: Diary) -> None:
        self._about, self._state, self._diary = about, state, diary
        self._size: float | None = None
        self._rank: dict[str, Any] = {}
        self._allocation: int | None = None
        self._pilots_left = state.pilots_left

    def planned(self, at: int) -> None:
        """Tell of the first tasks, run to learn from."""
        plan = self._state.plan
        if plan is None:
            return
        if plan.thin:
            self._diary.note("plan", at, "too few tasks to sample: it goes first instead")
        elif plan.pilots:
            count = len(plan.pilots)
            rest = "the others are held back until they are done" if plan.rest == "held" else "the others queue too"
            tasks = plural(count, "task runs", "tasks run")
            self._diary.note("plan", at, f"{count} pilot {tasks} first to learn from; {rest}")

    def notice(self, at: int) -> None:
        """Tell of a new estimate, or another place in the policy's order."""
        state = self._state
        if self._pilots_left and not state.pilots_left:
            self._diary.note("plan", at, "its last pilot task is done")
        self._pilots_left = state.pilots_left
        if not state.left:
            return
        rank = self._about(state)
        told = self._promised(rank.pop("promise", None))
        if state.size_ms is not None and state.size_ms != self._size:
            source = f" ({state.size_source})" if state.size_source else ""
            told.append(f"estimated at {clock(round(state.size_ms))} of work in all{source}")
        if rank != self._rank:
            told += [
                f"{key} {value} of the policy" for key, value in rank.items() if value is not None and key != "said"
            ]
            if rank.get("said", "") != self._rank.get("said", ""):
                self._diary.note("choice", at, rank["said"])
        self._size, self._rank = state.size_ms, rank
        if told:
            self._diary.note("estimate", at, ", ".join(told))

    def _promised(self, promise: dict[str, int] | None) -> list[str]:
        """The policy's promise, when the number of containers differs from before."""
        if promise is None or promise["containers"] == self._allocation:
            return []
        self._allocation = promise["containers"]
        finish, margin, deadline = (clock(promise[name]) for name in ("finish", "margin", "deadline"))
        to_have = plural(self._allocation, "container", "containers")
        done = f"be done at {finish}, at most {margin} later, deadline {deadline}"
        return [f"is to have {self._allocation} {to_have} and {done}"]
