"""In which order a worker takes what waits there: as it came, users in turn, or the smallest rank first.

Sparrow, SOSP 2013, section 4; radlab/sparrow: FifoTaskScheduler, RoundRobinTaskScheduler, PriorityTaskScheduler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

#: No task: an entry without one is a reservation.
RESERVED: Final = -1


class Entry(NamedTuple):
    """What waits at a worker: a task, or a reservation of a job's scheduler. group: user, or rank (smallest first)."""

    group: str | int
    job: str
    stage: int
    scheduler: int = 0
    task: int = RESERVED


class Queue(ABC):
    """What waits at one worker."""

    @abstractmethod
    def put(self, entry: Entry) -> None:
        """It comes behind all others of its group."""

    @abstractmethod
    def take(self) -> Entry | None:
        """Whoever's turn it is; None: nobody waits."""

    def take_after(self, entry: Entry) -> Entry | None:
        """Who comes instead of this one, of which nothing has come."""
        return self.take()

    @abstractmethod
    def cancel(self, job: str, stage: int | None = None) -> int:
        """Forget what waits of a stage, or of the whole job; returns how many entries that were."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Entry]: ...


class Fifo(Queue):
    """First come, first served."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()

    def put(self, entry: Entry) -> None:
        """See Queue."""
        self._entries.append(entry)

    def take(self) -> Entry | None:
        """See Queue."""
        return self._entries.popleft() if self._entries else None

    def cancel(self, job: str, stage: int | None = None) -> int:
        """See Queue."""
        return _forget(self._entries, job, stage) if self._entries else 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)


class _Grouped(Queue):
    """One line per group; a group without entries is forgotten."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str | int, deque[Entry]] = {}

    def put(self, entry: Entry) -> None:
        """See Queue."""
        if entry.group not in self._lines:
            self._lines[entry.group] = deque()
        self._lines[entry.group].append(entry)

    def _take_of(self, group: str | int) -> Entry:
        line = self._lines[group]
        entry = line.popleft()
        if not line:
            self._leave(group)
        return entry

    def _leave(self, group: str | int) -> None:
        """A group has no entries any more."""
        del self._lines[group]

    def cancel(self, job: str, stage: int | None = None) -> int:
        """See Queue."""
        gone = 0
        for group, line in list(self._lines.items()):
            gone += _forget(line, job, stage)
            if not line:
                self._leave(group)
        return gone

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Entry]:
        return (entry for line in self._lines.values() for entry in line)


class Priority(_Grouped):
    """The smallest group first, in it as they came."""

    def take(self) -> Entry | None:
        """See Queue."""
        return self._take_of(min(self._lines)) if self._lines else None


class UserRoundRobin(_Grouped):
    """Users take turns in the order in which they came to wait here; the turn moves on when one was served."""

    __slots__ = ("_circle", "_turn")

    def __init__(self) -> None:
        super().__init__()
        self._circle: list[str | int] = []
        self._turn = 0

    def put(self, entry: Entry) -> None:
        """See Queue."""
        if entry.group not in self._lines:
            self._circle.append(entry.group)
        super().put(entry)

    def take(self) -> Entry | None:
        """See Queue."""
        if not self._circle:
            return None
        entry = self._take_of(self._circle[self._turn])
        if entry.group in self._lines:
            self._turn = (self._turn + 1) % len(self._circle)
        return entry

    def take_after(self, entry: Entry) -> Entry | None:
        """The same user's next one, and the turn does not move; without one, whoever's turn it is."""
        return self._take_of(entry.group) if entry.group in self._lines else self.take()

    def _leave(self, group: str | int) -> None:
        super()._leave(group)
        place = self._circle.index(group)
        del self._circle[place]
        if place < self._turn:
            self._turn -= 1
        if self._turn == len(self._circle):
            self._turn = 0


def _forget(line: deque[Entry], job: str, stage: int | None) -> int:
    before = len(line)
    kept = [entry for entry in line if entry.job != job or stage not in (None, entry.stage)]
    if len(kept) < before:
        line.clear()
        line.extend(kept)
    return before - len(kept)


QUEUES: Final[dict[str, type[Queue]]] = {"fifo": Fifo, "user_round_robin": UserRoundRobin, "priority": Priority}
