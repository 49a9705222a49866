"""Since when open stages wait for room, and when each has waited for so long that nodes are reserved for it.

Tasks of a size of which others have started within `after` find room as it is, and wait for their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulers.core.journal import Journal
    from schedulers.core.live import JobState

#: Job and stage.
Key = tuple[str, int]
#: A size, and whether it is that of a gang's tasks: who waits for the same.
Class = tuple[int, bool]


class Waits:
    """The open stages. after: ms without room until a stage is due. journal: jobs whose open stages may differ."""

    def __init__(self, after: int, jobs: Mapping[str, JobState], journal: Journal) -> None:
        self.after, self._jobs, self._changes = after, jobs, journal.orders.cursor()
        self.since: dict[Key, int] = {}
        """When each open stage opened, or last started a task; the earliest in front."""
        self.classes: dict[Key, Class] = {}
        """The size that each stage of `since` waits for, as of the start of its wait."""
        self.by_class: dict[Class, dict[Key, None]] = {}
        """The stages of `since`, the earliest in front."""
        self.served: dict[int, int] = {}
        """By size the time of the last start without a reservation; sizes without such a start are left out."""
        self._open: dict[str, tuple[int, ...]] = {}  # the stages of `since`, by job

    def look(self, now: int) -> None:
        """Some stages may have opened since the last look, and some may be open no more."""
        for name in self._changes.read():
            job = self._jobs.get(name)
            there = tuple(job.open) if job is not None else ()
            for index in self._open.pop(name, ()):
                if index not in there:
                    self._forget((name, index))
            for index in there:
                if (name, index) not in self.since:
                    self._begin((name, index), now)
            if there:
                self._open[name] = there

    def begin_anew(self, key: Key, now: int, *, more: bool) -> None:
        """A task of the stage has started. more: others of it wait."""
        self._forget(key)
        if more:
            self._begin(key, now)

    def class_of(self, key: Key) -> Class:
        """For what a stage of a live job waits."""
        job = self._jobs[key[0]]
        return job.stages[key[1]].size, job.spec.stages[key[1]].gang

    def _begin(self, key: Key, now: int) -> None:
        self.since[key] = now
        mine = self.classes[key] = self.class_of(key)
        self.by_class.setdefault(mine, {})[key] = None

    def _forget(self, key: Key) -> None:
        if self.since.pop(key, None) is not None:
            mine = self.classes.pop(key)
            del self.by_class[mine][key]
            if not self.by_class[mine]:
                del self.by_class[mine]

    # -- who is due -----------------------------------------------------------------------------

    def due_stages(self, each: Class, now: int) -> Iterable[Key]:
        """Of the stages that wait for the same, those that have done so for `after`, the longest so in front."""
        for key in self.by_class.get(each, ()):
            if self.since[key] + self.after > now:
                break
            yield key

    def due(self, each: Class) -> int:
        """When the first that waits for the same is due; a gang is, even if tasks of its size start one by one."""
        size, gang = each
        since = self.since[next(iter(self.by_class[each]))]
        return self.after + (since if gang else max(since, self.served.get(size, since)))

    def due_after(self, each: Class, now: int) -> int | None:
        """When, after now, one more of those that wait for the same has done so for `after`; None: all have."""
        due = None
        for key in reversed(self.by_class[each]):
            if self.since[key] + self.after <= now:
                break
            due = self.since[key] + self.after
        return due

    # -- memory ---------------------------------------------------------------------------------

    def dump(self, now: int) -> tuple[list[tuple[str, int, int]], list[tuple[int, int]]]:
        """What `since` and `served` have, as plain data."""
        served = [(size, at) for size, at in self.served.items() if at + self.after > now]
        return [(*key, at) for key, at in self.since.items()], served

    def load(self, since: Iterable[tuple[str, int, int]], served: Iterable[tuple[int, int]]) -> None:
        """Take over what `dump` returned."""
        self.served.update(served)
        for name, index, at in since:
            self._begin((name, index), at)
            self._open[name] = (*self._open.get(name, ()), index)

    def validate(self) -> None:
        """Raises AssertionError with what is wrong."""
        assert list(self.since.values()) == sorted(self.since.values()), "the order of those that wait"
        for name, index in self.since:
            assert name in self._jobs, f"{name} waits and is gone"
            assert index in self._jobs[name].open, f"{name}/{index} waits and is not open"
