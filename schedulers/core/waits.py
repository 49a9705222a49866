"""Beginning of the wait of each open stage, and the time at which nodes are to be reserved for the stage.

Tasks of a size with recent starts (within `after`) find room without help, and wait for their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulers.core.journal import Journal
    from schedulers.core.live import JobState

#: Job and stage.
Key = tuple[str, int]
#: A size, and whether a gang waits for the size: stages of a class wait for the same room.
Class = tuple[int, bool]


class Waits:
    """The open stages, with their waits.

    after: ms without room until a stage is due. journal: jobs with possibly changed open stages.
    """

    __slots__ = ("_changes", "_jobs", "_open", "after", "by_class", "class_by_stage", "last_start", "since")

    def __init__(self, after: int, jobs: Mapping[str, JobState], journal: Journal) -> None:
        self.after, self._jobs, self._changes = after, jobs, journal.orders.cursor()
        self.since: dict[Key, int] = {}
        """When each open stage opened, or last started a task; the earliest in front."""
        self.class_by_stage: dict[Key, Class] = {}
        """The size waited for by each stage of `since`, as of the start of its wait."""
        self.by_class: dict[Class, dict[Key, None]] = {}
        """The stages of `since`, the earliest in front."""
        self.last_start: dict[int, int] = {}
        """By size the time of the last start without a reservation; sizes without such a start are left out."""
        self._open: dict[str, tuple[int, ...]] = {}  # the stages of `since`, by job

    def update(self, now: int) -> None:
        """Some stages may have opened since the last look, and some may be open no more."""
        # Only changed jobs: a look at all open stages after each fact would be quadratic.
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
        """Let the wait of a stage with a started task begin anew. more: further tasks of the stage wait."""
        self._forget(key)
        if more:
            self._begin(key, now)

    def class_of(self, key: Key) -> Class:
        """The class of a live job's stage: the room waited for."""
        job = self._jobs[key[0]]
        return job.stages[key[1]].size, job.spec.stages[key[1]].gang

    def _begin(self, key: Key, now: int) -> None:
        self.since[key] = now
        mine = self.class_by_stage[key] = self.class_of(key)
        self.by_class.setdefault(mine, {})[key] = None

    def _forget(self, key: Key) -> None:
        if self.since.pop(key, None) is not None:
            mine = self.class_by_stage.pop(key)
            del self.by_class[mine][key]
            if not self.by_class[mine]:
                del self.by_class[mine]

    # -- due stages ----------------------------------------------------------------------------

    def due_stages(self, each: Class, now: int) -> Iterable[Key]:
        """Stages of a class waiting for `after` or longer, the longest wait in front."""
        for key in self.by_class.get(each, ()):
            if self.since[key] + self.after > now:
                break
            yield key

    def due_at(self, each: Class) -> int:
        """Time at which the first of a class is due; for a gang, whatever starts of single tasks of its size."""
        size, gang = each
        # Dicts keep the order of entry, so the first key has the earliest beginning.
        since = self.since[next(iter(self.by_class[each]))]
        return self.after + (since if gang else max(since, self.last_start.get(size, since)))

    def next_due_at(self, each: Class, now: int) -> int | None:
        """Time after now at which another stage of the class has waited for `after`; None: all have."""
        due = None
        # From the latest backwards: the walk ends at the first stage already due.
        for key in reversed(self.by_class[each]):
            if self.since[key] + self.after <= now:
                break
            due = self.since[key] + self.after
        return due

    # -- memory ---------------------------------------------------------------------------------

    def dump(self, now: int) -> tuple[list[tuple[str, int, int]], list[tuple[int, int]]]:
        """The data of `since` and `last_start`, as plain data."""
        served = [(size, at) for size, at in self.last_start.items() if at + self.after > now]
        return [(*key, at) for key, at in self.since.items()], served

    def load(self, since: Iterable[tuple[str, int, int]], served: Iterable[tuple[int, int]]) -> None:
        """Take over the data of `dump`."""
        self.last_start.update(served)
        for name, index, at in since:
            self._begin((name, index), at)
            self._open[name] = (*self._open.get(name, ()), index)

    def validate(self) -> None:
        """Raise AssertionError with the first mistake."""
        assert list(self.since.values()) == sorted(self.since.values()), "the order of those that wait"
        for name, index in self.since:
            assert name in self._jobs, f"{name} waits and is gone"
            assert index in self._jobs[name].open, f"{name}/{index} waits and is not open"
