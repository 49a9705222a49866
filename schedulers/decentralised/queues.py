"""Order of the entries at a worker: by arrival, users in turn, or the smallest rank first.

Sparrow, SOSP 2013, section 4; radlab/sparrow: FifoTaskScheduler, RoundRobinTaskScheduler, PriorityTaskScheduler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

#: No task: an entry without one is a probe.
PROBE: Final = -1


class QueueItem(NamedTuple):
    """An entry at a worker: a task, or a probe of a job's scheduler. group: user, or rank (smallest first)."""

    group: str | int
    job: str
    stage: int
    scheduler: int = 0
    task: int = PROBE


class FifoQueue(deque[QueueItem]):
    """First come, first served."""

    def put(self, entry: QueueItem) -> None:
        """Put an entry behind all entries of its group."""
        self.append(entry)

    def take(self) -> QueueItem | None:
        """Take the next entry; None: nothing waits."""
        return self.popleft() if self else None

    def take_after(self, entry: QueueItem) -> QueueItem | None:
        """Take the next entry after a probe in vain."""
        return self.take()

    def cancel(self, job: str, stage: int | None = None) -> int:
        """Forget the entries of a stage, or of the whole job; returns their number."""
        kept = [entry for entry in self if entry.job != job or stage not in (None, entry.stage)]
        gone = len(self) - len(kept)
        if gone:
            self.clear()
            self.extend(kept)
        return gone


class Priority:
    """A line per group, the smallest group first; a group without entries is forgotten. For methods see `FifoQueue`."""

    def __init__(self) -> None:
        self._lines: dict[str | int, FifoQueue] = {}

    def put(self, entry: QueueItem) -> None:
        """See Fifo."""
        if entry.group not in self._lines:
            self._join(entry.group)
        self._lines[entry.group].append(entry)

    def take(self) -> QueueItem | None:
        """See Fifo."""
        return self._take_of(min(self._lines)) if self._lines else None

    def take_after(self, entry: QueueItem) -> QueueItem | None:
        """See Fifo."""
        return self.take()

    def cancel(self, job: str, stage: int | None = None) -> int:
        """See Fifo."""
        gone = 0
        for group, line in list(self._lines.items()):
            gone += line.cancel(job, stage)
            if not line:
                self._leave(group)
        return gone

    def _take_of(self, group: str | int) -> QueueItem:
        line = self._lines[group]
        entry = line.popleft()
        if not line:
            self._leave(group)
        return entry

    def _join(self, group: str | int) -> None:
        """A group has its first entry."""
        self._lines[group] = FifoQueue()

    def _leave(self, group: str | int) -> None:
        """A group has no entries any more."""
        del self._lines[group]

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[QueueItem]:
        return (entry for line in self._lines.values() for entry in line)


class UserRoundRobin(Priority):
    """Users take turns in the order of their arrival here; the turn moves on with each served user."""

    def __init__(self) -> None:
        super().__init__()
        self._circle: list[str | int] = []
        self._turn = 0

    def take(self) -> QueueItem | None:
        """See Fifo."""
        if not self._circle:
            return None
        entry = self._take_of(self._circle[self._turn])
        if entry.group in self._lines:
            self._turn = (self._turn + 1) % len(self._circle)
        return entry

    def take_after(self, entry: QueueItem) -> QueueItem | None:
        """Take the same user's next entry, and the turn does not move; without such an entry, the next in turn."""
        return self._take_of(entry.group) if entry.group in self._lines else self.take()

    def _join(self, group: str | int) -> None:
        super()._join(group)
        self._circle.append(group)

    def _leave(self, group: str | int) -> None:
        super()._leave(group)
        place = self._circle.index(group)
        del self._circle[place]
        if place < self._turn:
            self._turn -= 1
        if self._turn == len(self._circle):
            self._turn = 0


Queue = FifoQueue | Priority
QUEUES: Final[dict[str, type[Queue]]] = {"fifo": FifoQueue, "user_round_robin": UserRoundRobin, "priority": Priority}
